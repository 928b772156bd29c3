"""BERT in transformers, for bert.axn; see hugging.py."""

from hugging import LENGTH, VOCABULARY, dense, shake, tokens, write
from transformers import BertConfig, BertModel

LAYERS = 2

model = shake(BertModel(BertConfig(
    vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=LAYERS,
    num_attention_heads=3, intermediate_size=20, layer_norm_eps=1e-5,
    max_position_embeddings=LENGTH + 2)))
w = model.state_dict()

tensors = {
    "tokens.w": w["embeddings.word_embeddings.weight"],
    "sentences.w": w["embeddings.token_type_embeddings.weight"],
    "places": w["embeddings.position_embeddings.weight"],
    "norm.w": w["embeddings.LayerNorm.weight"],
    "norm.b": w["embeddings.LayerNorm.bias"],
    "pool.w": w["pooler.dense.weight"],
    "pool.b": w["pooler.dense.bias"],
}
for ours, theirs in [("attention.q", "attention.self.query"),
                     ("attention.k", "attention.self.key"),
                     ("attention.v", "attention.self.value"),
                     ("attention.o", "attention.output.dense"),
                     ("norm1", "attention.output.LayerNorm"),
                     ("up", "intermediate.dense"),
                     ("down", "output.dense"),
                     ("norm2", "output.LayerNorm")]:
    tensors |= dense(w, f"blocks.{ours}", f"encoder.layer.%d.{theirs}", LAYERS)
text, sentences = tokens(), tokens(most=2)
got = model(text, token_type_ids=sentences)
write(__file__, tensors | {"output_text": got.pooler_output},
      got.last_hidden_state, input=text, sentences=sentences)
