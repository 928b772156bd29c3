"""Swin in transformers, for swin.axn; see hugging.py."""

import torch
from hugging import BATCH, shake, write
from transformers import SwinConfig, SwinForImageClassification

PAIRS, HEADS, WINDOW = (1, 1, 2, 1), (1, 2, 2, 4), 2

model = shake(SwinForImageClassification(SwinConfig(
    image_size=(32, 64), patch_size=2, num_channels=3, embed_dim=4,
    depths=[2 * n for n in PAIRS], num_heads=list(HEADS), window_size=WINDOW,
    layer_norm_eps=1e-5, num_labels=5)))
w = model.state_dict()

tensors = {
    "patch.w": w["swin.embeddings.patch_embeddings.projection.weight"],
    "patch.b": w["swin.embeddings.patch_embeddings.projection.bias"],
    "norm.w": w["swin.embeddings.norm.weight"],
    "norm.b": w["swin.embeddings.norm.bias"],
    "last_norm.w": w["swin.layernorm.weight"],
    "last_norm.b": w["swin.layernorm.bias"],
    "head.w": w["classifier.weight"],
    "head.b": w["classifier.bias"],
}
for i, (pairs, heads) in enumerate(zip(PAIRS, HEADS)):
    layer = f"swin.encoder.layers.{i}."
    if i < 3:
        tensors |= {
            f"merge{i + 1}.norm.w": w[layer + "downsample.norm.weight"],
            f"merge{i + 1}.norm.b": w[layer + "downsample.norm.bias"],
            f"merge{i + 1}.w": w[layer + "downsample.reduction.weight"]}
    for parity, kind in enumerate(["plain", "shifted"]):
        ours = f"stage{i + 1}.{kind}."
        blocks = [f"{layer}blocks.{2 * k + parity}." for k in range(pairs)]
        for part, end in [("w", "weight"), ("b", "bias")]:
            tensors[ours + "attention.qkv." + part] = torch.stack(
                [torch.cat([w[f"{b}attention.{x}_proj.{end}"] for x in "qkv"])
                 for b in blocks])
            for name, theirs in [("attention.out", "attention.o_proj"),
                                 ("norm1", "layernorm_before"),
                                 ("norm2", "layernorm_after"),
                                 ("dense.up", "mlp.fc1"),
                                 ("dense.down", "mlp.fc2")]:
                tensors[f"{ours}{name}.{part}"] = torch.stack(
                    [w[f"{b}{theirs}.{end}"] for b in blocks])
        table = "attention.relative_position_bias.relative_position_bias_table"
        side = 2 * WINDOW - 1
        tensors[ours + "attention.near"] = torch.stack(
            [w[b + table].reshape(side, side, heads) for b in blocks])
images = torch.randn(BATCH, 3, 32, 64)
write(__file__, tensors, model(images).logits, input=images)
