"""Llama 3 in transformers, for llama.axn; see hugging.py."""

from hugging import VOCABULARY, pairs, shake, stacked, write_logits
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, HEADS, GROUPS = 2, 4, 2

model = shake(LlamaForCausalLM(LlamaConfig(
    vocab_size=VOCABULARY, hidden_size=24, intermediate_size=20,
    num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=GROUPS, rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0})))
w = model.state_dict()

tensors = {
    "tokens.w": w["model.embed_tokens.weight"],
    "norm.w": w["model.norm.weight"],
    "out": w["lm_head.weight"],
    "blocks.attention.q": stacked(
        w, "model.layers.%d.self_attn.q_proj.weight", LAYERS, pairs(HEADS)),
    "blocks.attention.k": stacked(
        w, "model.layers.%d.self_attn.k_proj.weight", LAYERS, pairs(GROUPS)),
}
for ours, theirs in [("attention.v", "self_attn.v_proj"),
                     ("attention.o", "self_attn.o_proj"),
                     ("dense.gate", "mlp.gate_proj"),
                     ("dense.up", "mlp.up_proj"),
                     ("dense.down", "mlp.down_proj"),
                     ("norm1.w", "input_layernorm"),
                     ("norm2.w", "post_attention_layernorm")]:
    tensors[f"blocks.{ours}"] = stacked(
        w, f"model.layers.%d.{theirs}.weight", LAYERS)
write_logits(__file__, tensors, model)
