"""ConvNeXt in transformers, for convnext.axn; see hugging.py."""

import torch
from hugging import BATCH, dense, shake, stacked, write
from transformers import ConvNextConfig, ConvNextForImageClassification

DEPTHS = [2, 1, 3, 1]

model = shake(ConvNextForImageClassification(ConvNextConfig(
    patch_size=2, hidden_sizes=[3, 6, 12, 24], depths=DEPTHS, num_labels=5)))
w = model.state_dict()


def one(ours, theirs):
    return {f"{ours}.w": w[f"{theirs}.weight"],
            f"{ours}.b": w[f"{theirs}.bias"]}


tensors = (one("stem", "convnext.embeddings.patch_embeddings")
           | one("stem_norm", "convnext.embeddings.layernorm")
           | one("norm", "convnext.layernorm") | one("head", "classifier"))
for stage, depth in enumerate(DEPTHS):
    theirs = f"convnext.encoder.stages.{stage}"
    blocks = "stage1"
    if stage > 0:
        change = f"{theirs}.downsampling_layer"
        tensors |= one(f"stage{stage + 1}.norm", f"{change}.0")
        tensors |= one(f"stage{stage + 1}.conv", f"{change}.1")
        blocks = f"stage{stage + 1}.blocks"
    for name, layer in [("depthwise", "dwconv"), ("norm", "layernorm"),
                        ("up", "pwconv1"), ("down", "pwconv2")]:
        tensors |= dense(w, f"{blocks}.{name}", f"{theirs}.layers.%d.{layer}",
                         depth)
    kernels = f"{blocks}.depthwise.w"  # without an axis of size 1
    tensors[kernels] = tensors[kernels].squeeze(2)
    tensors[f"{blocks}.scale"] = stacked(
        w, f"{theirs}.layers.%d.layer_scale_parameter", depth)
images = torch.randn(BATCH, 3, 16, 32)
tensors = {f"p.{name}": t for name, t in tensors.items()}
write(__file__, tensors, model(images).logits, input=images)
