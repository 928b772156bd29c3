"""LSTM layers of PyTorch, for char_rnn.axn; see hugging.py."""

import torch
from hugging import LENGTH, VOCABULARY, shake, tokens, write

WIDTH = 6

model = shake(torch.nn.ModuleDict({
    "lstm": torch.nn.LSTM(VOCABULARY, WIDTH, num_layers=2),
    "out": torch.nn.Linear(WIDTH, VOCABULARY)}))
w = model.state_dict()

tensors = {"out.w": w["out.weight"], "out.b": w["out.bias"]}
for i in range(2):
    for ours, theirs in [("wx", "weight_ih"), ("wh", "weight_hh"),
                         ("bx", "bias_ih"), ("bh", "bias_hh")]:
        tensors[f"layer{i + 1}.{ours}"] = w[f"lstm.{theirs}_l{i}"]
text = tokens(LENGTH).T
h, c = torch.randn(2, 2, text.shape[1], WIDTH)
x, _ = model["lstm"](torch.nn.functional.one_hot(text, VOCABULARY).float(),
                     (h, c))
write(__file__, tensors, model["out"](x), input=text,
      h1=h[0], h2=h[1], c1=c[0], c2=c[1])
