"""T5 in transformers, for t5.axn; see hugging.py."""

from hugging import VOCABULARY, shake, stacked, tokens, write
from transformers import T5Config, T5ForConditionalGeneration

LAYERS = 2

# The texts are long enough for all distance buckets.
model = shake(T5ForConditionalGeneration(T5Config(
    vocab_size=VOCABULARY, d_model=12, d_kv=4, d_ff=20, num_layers=LAYERS,
    num_heads=3, relative_attention_num_buckets=8,
    relative_attention_max_distance=128, layer_norm_epsilon=1e-5,
    feed_forward_proj="relu", tie_word_embeddings=True)))
w = model.state_dict()

bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
tensors = {
    "tokens.w": w["shared.weight"],
    "near": w["encoder." + bias],
    "past": w["decoder." + bias],
    "encoder_norm.w": w["encoder.final_layer_norm.weight"],
    "decoder_norm.w": w["decoder.final_layer_norm.weight"],
}


def add(side, ours, theirs):
    tensors[f"{side}.{ours}"] = stacked(
        w, f"{side}.block.%d.layer.{theirs}.weight", LAYERS)


for side, last in [("encoder", 1), ("decoder", 2)]:
    for part in "qkvo":
        add(side, f"attention.{part}", f"0.SelfAttention.{part}")
    for layer in range(last + 1):
        add(side, f"norm{layer + 1}.w", f"{layer}.layer_norm")
    add(side, "dense.up", f"{last}.DenseReluDense.wi")
    add(side, "dense.down", f"{last}.DenseReluDense.wo")
for part in "qkvo":
    add("decoder", f"cross.{part}", f"1.EncDecAttention.{part}")
texts, answers = tokens(60), tokens(40)
got = model(input_ids=texts, decoder_input_ids=answers)
write(__file__, tensors, got.logits[:, 30:], input=texts, answers=answers)
