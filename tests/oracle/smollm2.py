#!/usr/bin/env python3
"""Greedy tokens of a Llama model in a .gguf file, by NumPy in f32 on dequantised
weights.  Needs NumPy.

    PYTHON tests/oracle/smollm2.py MODEL.gguf COUNT ID,ID,... [ID,ID,...]

prints a line of COUNT tokens for each prompt.  tests/check_models.sh has them.
"""
import struct
import sys

import numpy as np

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
           10: "Q", 11: "q", 12: "d"}


class File:
    def __init__(self, path):
        self.bytes = np.memmap(path, np.uint8, "r")
        self.at = 8
        tensors, values = self.take("Q"), self.take("Q")
        self.values = {}
        for _ in range(values):
            key = self.text()
            self.values[key] = self.value(self.take("I"))
        entries = [self.entry() for _ in range(tensors)]
        start = -(-self.at // 32) * 32
        self.tensors = {n: (s, t, start + o) for n, s, t, o in entries}

    def take(self, code):
        size = struct.calcsize("<" + code)
        x, = struct.unpack("<" + code, self.bytes[self.at:self.at + size])
        self.at += size
        return x

    def text(self):
        n = self.take("Q")
        self.at += n
        return bytes(self.bytes[self.at - n:self.at]).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(NUMBERS[kind])

    def entry(self):
        name, rank = self.text(), self.take("I")
        shape = [self.take("Q") for _ in range(rank)][::-1]
        return name, shape, self.take("I"), self.take("Q")

    def tensor(self, name):
        shape, kind, at = self.tensors[name]
        count = int(np.prod(shape))
        block = {0: 4 * 32, 3: 20, 8: 34}[kind]
        x = np.array(self.bytes[at:at + count // 32 * block])
        if kind == 0:
            return x.view(np.float32).reshape(shape)
        x = x.reshape(-1, block)
        d = x[:, :2].copy().view(np.float16).astype(np.float32)
        if kind == 8:
            return (d * x[:, 2:].view(np.int8)).reshape(shape)
        m = x[:, 2:4].copy().view(np.float16).astype(np.float32)
        q = np.concatenate([x[:, 4:] & 15, x[:, 4:] >> 4], axis=1)
        return (d * q + m).astype(np.float32).reshape(shape)


class Model:
    def __init__(self, path):
        f = File(path)
        self.get = lambda key: f.values["llama." + key]
        self.w = {name: f.tensor(name) for name in f.tensors}
        self.eps = self.get("attention.layer_norm_rms_epsilon")

    def norm(self, x, w):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.eps) * w

    def rotate(self, x, at):
        d = x.shape[-1]
        a = at[:, None] / self.get("rope.freq_base") ** (np.arange(d // 2) * 2 / d)
        c, s = np.cos(a)[:, None].astype("f"), np.sin(a)[:, None].astype("f")
        u, v = x[..., 0::2], x[..., 1::2]
        return np.stack([u * c - v * s, u * s + v * c], -1).reshape(x.shape)

    def attend(self, i, x, cache):
        h, g = self.get("attention.head_count"), self.get("attention.head_count_kv")
        p = "blk.%d.attn_%s.weight"
        q, k, v = [x @ self.w[p % (i, c)].T for c in "qkv"]
        at = cache["used"] + np.arange(len(x))
        q = self.rotate(q.reshape(len(x), h, -1), at)
        k = self.rotate(k.reshape(len(x), g, -1), at)
        v = v.reshape(len(x), g, -1)
        if i in cache:
            k = np.concatenate([cache[i][0], k])
            v = np.concatenate([cache[i][1], v])
        cache[i] = k, v
        k, v = np.repeat(k, h // g, 1), np.repeat(v, h // g, 1)
        s = np.einsum("nhd,chd->hnc", q, k) / np.sqrt(q.shape[-1])
        s[:, np.arange(len(k))[None] > at[:, None]] = -np.inf
        e = np.exp(s - s.max(-1, keepdims=True))
        y = np.einsum("hnc,chd->nhd", e / e.sum(-1, keepdims=True), v)
        return y.reshape(len(x), -1) @ self.w[p % (i, "output")].T

    def logits(self, ids, cache):
        x = self.w["token_embd.weight"][ids]
        for i in range(self.get("block_count")):
            w = lambda part: self.w["blk.%d.%s.weight" % (i, part)]
            x = x + self.attend(i, self.norm(x, w("attn_norm")), cache)
            y = self.norm(x, w("ffn_norm"))
            a = y @ w("ffn_gate").T
            y = a / (1 + np.exp(-a)) * (y @ w("ffn_up").T)
            x = x + y @ w("ffn_down").T
        cache["used"] += len(ids)
        out = self.w.get("output.weight", self.w["token_embd.weight"])
        return out @ self.norm(x[-1], self.w["output_norm.weight"])


model = Model(sys.argv[1])
for prompt in sys.argv[3:]:
    ids, cache, found = [int(i) for i in prompt.split(",")], {"used": 0}, []
    for _ in range(int(sys.argv[2])):
        ids = [int(model.logits(ids, cache).argmax())]
        found += ids
    print(*found)
