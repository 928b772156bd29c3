#!/usr/bin/env python3
"""Writes the folder of a small encoder with random weights: two layers, tokens
for letters and a few words.  Needs no packages.

    tests/serve/encoder.py FOLDER WIDTH HIDDEN HEADS
"""
import json
import os
import random
import struct
import sys

WIDTH, HIDDEN, HEADS = map(int, sys.argv[2:])
LAYERS, CONTEXT = 2, 80
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = SPECIAL + ["cat", "dog", "the"] + [
    mark + c for mark in ("", "##") for c in LETTERS]


def tokenizer():
    token = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    special = {name: {"id": name, "ids": [TOKENS.index(name)],
                      "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": name, "special": True, "single_word": False,
             "lstrip": False, "rstrip": False, "normalized": False}
            for i, name in enumerate(SPECIAL)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True,
                       "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}},
                       token("[SEP]")],
            "pair": [], "special_tokens": special},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]",
                  "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100,
                  "vocab": {name: i for i, name in enumerate(TOKENS)}}}


def tensors():
    def dense(name, rows, columns):
        yield name + ".weight", (rows, columns), 0.1
        yield name + ".bias", (rows,), 0.1

    def norm(name):
        yield name + ".weight", (WIDTH,), 1.0
        yield name + ".bias", (WIDTH,), 0.1
    for table, rows in (("word", len(TOKENS)), ("position", CONTEXT),
                        ("token_type", 2)):
        yield f"embeddings.{table}_embeddings.weight", (rows, WIDTH), 1.0
    yield from norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        for kind in ("self.query", "self.key", "self.value", "output.dense"):
            yield from dense(p + "attention." + kind, WIDTH, WIDTH)
        yield from norm(p + "attention.output.LayerNorm")
        yield from dense(p + "intermediate.dense", HIDDEN, WIDTH)
        yield from dense(p + "output.dense", WIDTH, HIDDEN)
        yield from norm(p + "output.LayerNorm")


def main():
    random.seed(5)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    head, data = {}, b""
    for name, shape, scale in tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        part = struct.pack(f"<{count}f",
                           *(scale * (random.random() * 3 - 1.5)
                             for _ in range(count)))
        head[name] = {"dtype": "F32", "shape": shape,
                      "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(folder + "/tokenizer.json", "w") as f:
        json.dump(tokenizer(), f)
    with open(folder + "/config.json", "w") as f:
        json.dump({"model_type": "bert", "hidden_act": "gelu",
                   "position_embedding_type": "absolute",
                   "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
                   "num_attention_heads": HEADS, "layer_norm_eps": 1e-12,
                   "max_position_embeddings": CONTEXT, "pad_token_id": 0}, f)


main()
