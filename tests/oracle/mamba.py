"""Mamba in transformers, for mamba.axn; see hugging.py."""

from hugging import VOCABULARY, shake, stacked, write_logits
from transformers import MambaConfig, MambaForCausalLM

LAYERS = 2

model = shake(MambaForCausalLM(MambaConfig(
    vocab_size=VOCABULARY, hidden_size=10, state_size=4, time_step_rank=3,
    num_hidden_layers=LAYERS, bos_token_id=0, eos_token_id=0)))
w = model.state_dict()

tensors = {
    "tokens.w": w["backbone.embeddings.weight"],
    "norm.w": w["backbone.norm_f.weight"],
    "blocks.conv.w": stacked(
        w, "backbone.layers.%d.mixer.conv1d.weight", LAYERS,
        lambda x: x.squeeze(1)),
}
for ours, theirs in [("norm.w", "norm.weight"),
                     ("input", "mixer.in_proj.weight"),
                     ("conv.b", "mixer.conv1d.bias"),
                     ("choose", "mixer.x_proj.weight"),
                     ("steps.w", "mixer.dt_proj.weight"),
                     ("steps.b", "mixer.dt_proj.bias"),
                     ("rates", "mixer.A_log"),
                     ("past", "mixer.D"),
                     ("output", "mixer.out_proj.weight")]:
    tensors[f"blocks.{ours}"] = stacked(
        w, f"backbone.layers.%d.{theirs}", LAYERS)
write_logits(__file__, tensors, model)
