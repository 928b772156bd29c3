"""Mixtral in transformers, for moe.axn; see hugging.py."""

from hugging import VOCABULARY, pairs, shake, stacked, write_logits
from transformers import MixtralConfig, MixtralForCausalLM

LAYERS, HEADS, GROUPS = 2, 4, 2

model = shake(MixtralForCausalLM(MixtralConfig(
    vocab_size=VOCABULARY, hidden_size=16, intermediate_size=12,
    num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=GROUPS, num_local_experts=4, rms_norm_eps=1e-5,
    sliding_window=None,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6})))
w = model.state_dict()

layer = "model.layers.%d."
both = layer + "mlp.experts.gate_up_proj"
tensors = {
    "tokens.w": w["model.embed_tokens.weight"],
    "norm.w": w["model.norm.weight"],
    "out": w["lm_head.weight"],
    "blocks.attention.q": stacked(
        w, layer + "self_attn.q_proj.weight", LAYERS, pairs(HEADS)),
    "blocks.attention.k": stacked(
        w, layer + "self_attn.k_proj.weight", LAYERS, pairs(GROUPS)),
    "blocks.mixture.experts.gate": stacked(
        w, both, LAYERS, lambda x: x.chunk(2, 1)[0]),
    "blocks.mixture.experts.up": stacked(
        w, both, LAYERS, lambda x: x.chunk(2, 1)[1]),
}
for ours, theirs in [("attention.v", "self_attn.v_proj.weight"),
                     ("attention.o", "self_attn.o_proj.weight"),
                     ("mixture.gate", "mlp.gate.weight"),
                     ("mixture.experts.down", "mlp.experts.down_proj"),
                     ("norm1.w", "input_layernorm.weight"),
                     ("norm2.w", "post_attention_layernorm.weight")]:
    tensors[f"blocks.{ours}"] = stacked(w, layer + theirs, LAYERS)
write_logits(__file__, tensors, model)
