"""ViT in transformers, for vit.axn; see hugging.py."""

import torch
from hugging import BATCH, dense, shake, write
from transformers import ViTConfig, ViTForImageClassification

LAYERS = 2

model = shake(ViTForImageClassification(ViTConfig(
    image_size=(8, 12), patch_size=4, hidden_size=12, num_hidden_layers=LAYERS,
    num_attention_heads=3, intermediate_size=20, layer_norm_eps=1e-5,
    num_labels=5)))
w = model.state_dict()

tensors = {
    "class": w["vit.embeddings.cls_token"].reshape(-1),
    "places": w["vit.embeddings.position_embeddings"].squeeze(0),
    "patch.w": w["vit.embeddings.patch_embeddings.projection.weight"],
    "patch.b": w["vit.embeddings.patch_embeddings.projection.bias"],
    "norm.w": w["vit.layernorm.weight"],
    "norm.b": w["vit.layernorm.bias"],
    "head.w": w["classifier.weight"],
    "head.b": w["classifier.bias"],
}
for ours, theirs in [("attention.q", "attention.q_proj"),
                     ("attention.k", "attention.k_proj"),
                     ("attention.v", "attention.v_proj"),
                     ("attention.o", "attention.o_proj"),
                     ("norm1", "layernorm_before"),
                     ("up", "mlp.fc1"),
                     ("down", "mlp.fc2"),
                     ("norm2", "layernorm_after")]:
    tensors |= dense(w, f"blocks.{ours}", f"vit.layers.%d.{theirs}", LAYERS)
images = torch.randn(BATCH, 3, 8, 12)
write(__file__, tensors, model(images).logits, input=images)
