#!/usr/bin/env python3
"""Computes embeddings of texts by MiniLM with NumPy, in f64.

    PYTHON tests/oracle/minilm.py FOLDER

FOLDER comes from tools/models.sh.  Makes tests/data/embed/expected.npy of
texts.txt there, for tests/check_embed.sh.  Needs numpy, safetensors and
tokenizers."""
import json
import math
import os
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data", "embed")
erf = np.vectorize(math.erf)


def norm(x, w, b, eps):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * w + b


class Model:
    def __init__(self, folder):
        self.config = json.load(open(os.path.join(folder, "config.json")))
        path = os.path.join(folder, "model.safetensors")
        self.p = {k: v.astype(np.float64) for k, v in load_file(path).items()}
        self.tokenizer = Tokenizer.from_file(
            os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(
            self.config["max_position_embeddings"])

    def linear(self, x, name):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def norm(self, x, name):
        return norm(x, self.p[name + ".weight"], self.p[name + ".bias"],
                    self.config["layer_norm_eps"])

    def attention(self, x, name):
        heads = self.config["num_attention_heads"]

        def part(kind):
            y = self.linear(x, f"{name}.self.{kind}")
            return y.reshape(len(x), heads, -1).transpose(1, 0, 2)
        q, k, v = part("query"), part("key"), part("value")
        s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        s = np.exp(s - s.max(-1, keepdims=True))
        y = s / s.sum(-1, keepdims=True) @ v
        y = y.transpose(1, 0, 2).reshape(len(x), -1)
        return self.norm(x + self.linear(y, name + ".output.dense"),
                         name + ".output.LayerNorm")

    def embed(self, text):
        ids = self.tokenizer.encode(text).ids
        e = "embeddings."
        x = (self.p[e + "word_embeddings.weight"][ids]
             + self.p[e + "position_embeddings.weight"][:len(ids)]
             + self.p[e + "token_type_embeddings.weight"][0])
        x = self.norm(x, e + "LayerNorm")
        for i in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{i}."
            x = self.attention(x, name + "attention")
            y = self.linear(x, name + "intermediate.dense")
            y = 0.5 * y * (1 + erf(y / math.sqrt(2)))
            x = self.norm(x + self.linear(y, name + "output.dense"),
                          name + "output.LayerNorm")
        x = x.mean(0)
        return x / np.linalg.norm(x)


def main():
    model = Model(sys.argv[1])
    with open(os.path.join(DATA, "texts.txt"), encoding="utf-8") as f:
        texts = f.read().splitlines()
    x = np.array([model.embed(t) for t in texts], np.float32)
    np.save(os.path.join(DATA, "expected.npy"), x)


if __name__ == "__main__":
    main()
