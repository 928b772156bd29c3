"""GPT-2 in transformers, for gpt2.axn; see hugging.py."""

from hugging import LENGTH, VOCABULARY, shake, stacked, write_logits
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS = 3

model = shake(GPT2LMHeadModel(GPT2Config(
    vocab_size=VOCABULARY, n_positions=LENGTH + 2, n_embd=12, n_layer=LAYERS,
    n_head=3)))
w = model.state_dict()

# The library stores dense weights as [inputs, outputs].
tensors = {
    "tokens.w": w["transformer.wte.weight"],
    "places": w["transformer.wpe.weight"],
    "norm.w": w["transformer.ln_f.weight"],
    "norm.b": w["transformer.ln_f.bias"],
}
for ours, theirs in [("norm1", "ln_1"), ("norm2", "ln_2")]:
    for part, end in [("w", "weight"), ("b", "bias")]:
        tensors[f"blocks.{ours}.{part}"] = stacked(
            w, f"transformer.h.%d.{theirs}.{end}", LAYERS)
for ours, theirs in [("attention.qkv", "attn.c_attn"),
                     ("attention.out", "attn.c_proj"),
                     ("up", "mlp.c_fc"), ("down", "mlp.c_proj")]:
    tensors[f"blocks.{ours}.w"] = stacked(
        w, f"transformer.h.%d.{theirs}.weight", LAYERS, lambda x: x.T)
    tensors[f"blocks.{ours}.b"] = stacked(
        w, f"transformer.h.%d.{theirs}.bias", LAYERS)
write_logits(__file__, tensors, model)
