"""Whisper in transformers, for whisper.axn; see hugging.py."""

import torch
from hugging import BATCH, VOCABULARY, dense, shake, stacked, tokens, write
from transformers import WhisperConfig, WhisperForConditionalGeneration

LAYERS, MOMENTS = 2, 8

model = shake(WhisperForConditionalGeneration(WhisperConfig(
    vocab_size=VOCABULARY, num_mel_bins=5, d_model=12, encoder_layers=LAYERS,
    decoder_layers=LAYERS, encoder_attention_heads=3,
    decoder_attention_heads=3, encoder_ffn_dim=48, decoder_ffn_dim=48,
    max_source_positions=MOMENTS, max_target_positions=10, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)))
w = model.state_dict()


def one(ours, theirs):
    return {f"{ours}.w": w[f"{theirs}.weight"],
            f"{ours}.b": w[f"{theirs}.bias"]}


def attention(ours, theirs):
    found = {f"{ours}.k": stacked(w, f"{theirs}.k_proj.weight", LAYERS)}
    for name, layer in [("q", "q_proj"), ("v", "v_proj"), ("o", "out_proj")]:
        found |= dense(w, f"{ours}.{name}", f"{theirs}.{layer}", LAYERS)
    return found


tensors = {
    "encoder.places": w["model.encoder.embed_positions.weight"],
    "decoder.places": w["model.decoder.embed_positions.weight"],
    "decoder.tokens.w": w["model.decoder.embed_tokens.weight"],
} | one("encoder.conv1", "model.encoder.conv1") \
  | one("encoder.conv2", "model.encoder.conv2")
for part, last in [("encoder", "norm2"), ("decoder", "norm3")]:
    layer = f"model.{part}.layers.%d"
    tensors |= one(f"{part}.norm", f"model.{part}.layer_norm")
    tensors |= attention(f"{part}.blocks.attention", f"{layer}.self_attn")
    for name, theirs in [("norm1", "self_attn_layer_norm"),
                         ("dense.up", "fc1"), ("dense.down", "fc2"),
                         (last, "final_layer_norm")]:
        tensors |= dense(w, f"{part}.blocks.{name}", f"{layer}.{theirs}",
                         LAYERS)
tensors |= attention("decoder.blocks.cross",
                     "model.decoder.layers.%d.encoder_attn")
tensors |= dense(w, "decoder.blocks.norm2",
                 "model.decoder.layers.%d.encoder_attn_layer_norm", LAYERS)
sound, text = torch.randn(BATCH, 5, 2 * MOMENTS), tokens()
got = model(input_features=sound, decoder_input_ids=text).logits
tensors = {f"p.{name}": t for name, t in tensors.items()}
write(__file__, tensors, got, input=sound, text=text)
