#!/usr/bin/env python3
"""Training curves of Axon and PyTorch, from the same initial weights and
batches: 100 steps in f32 of an MLP (SGD with momentum), a CNN (Adam) and a
character GPT (AdamW, clipped gradients).  Prints the largest relative
difference of the losses; fails if it exceeds 1e-4.

    PYTHON bench/gradients/curves.py [mlp] [cnn] [gpt] [--axon ./axon]

PYTHON needs torch and numpy.  Run it from the root of the repository."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.nn import functional as F

STEPS = 100
GOAL = 1e-4
HERE = pathlib.Path(__file__).parent
DATA = pathlib.Path("examples/data")


def save_tensors(path, tensors):
    """Writes a .safetensors file of f32 tensors."""
    header, blocks, offset = {}, [], 0
    for name, t in tensors.items():
        block = t.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [offset, offset + len(block)]}
        blocks.append(block)
        offset += len(block)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))


def he(*shape):
    return torch.randn(shape) * (2 / np.prod(shape[1:])) ** 0.5


def layers(**shapes):
    p = {}
    for name, shape in shapes.items():
        p[f"{name}.w"] = he(*shape)
        p[f"{name}.b"] = torch.zeros(shape[0])
    return p


def digits():
    data = np.loadtxt(DATA / "digits.csv", delimiter=",", dtype=np.float32)
    return (torch.from_numpy(data[:, :64].copy()) / 16,
            torch.from_numpy(data[:, 64].astype(np.int64)))


class Mlp:
    program, batch = "curve_mlp.axn", 32

    def __init__(self):
        self.x, self.y = digits()
        self.rows = len(self.y)
        self.start = layers(first=(128, 64), second=(128, 128), last=(10, 128))

    def optimizer(self, p):
        return torch.optim.SGD(p.values(), lr=0.05, momentum=0.9)

    def loss(self, p, at):
        x = self.x[at]
        for name in ("first", "second"):
            x = F.relu(F.linear(x, p[name + ".w"], p[name + ".b"]))
        return F.cross_entropy(F.linear(x, p["last.w"], p["last.b"]), self.y[at])

    def before_update(self, p, optimizer, t):
        pass


class Cnn(Mlp):
    program = "curve_cnn.axn"

    def __init__(self):
        super().__init__()
        self.x = self.x.reshape(-1, 1, 8, 8)
        self.start = layers(first=(16, 1, 3, 3), second=(32, 16, 3, 3),
                            third=(64, 32, 3, 3), last=(10, 64))

    def optimizer(self, p):
        return torch.optim.Adam(p.values(), lr=0.002)

    def loss(self, p, at):
        x = self.x[at]
        for name in ("first", "second", "third"):
            x = F.conv2d(x, p[name + ".w"], p[name + ".b"], padding=1).relu()
            x = F.max_pool2d(x, 2) if name == "second" else x
        x = x.mean((2, 3))
        return F.cross_entropy(F.linear(x, p["last.w"], p["last.b"]), self.y[at])


class Gpt:
    program, batch = "curve_gpt.axn", 12
    context, width, heads, blocks = 64, 128, 4, 4

    def __init__(self):
        text = np.frombuffer((DATA / "shakespeare.txt").read_bytes(), np.uint8)
        characters, tokens = np.unique(text, return_inverse=True)
        self.tokens = torch.from_numpy(tokens.astype(np.int64))
        self.rows = len(tokens) - self.context
        d, n = self.width, self.blocks
        p = {"characters.w": (len(characters), d), "places": (self.context, d),
             "blocks.qkv": (n, 3 * d, d), "blocks.out": (n, d, d),
             "blocks.up": (n, 4 * d, d), "blocks.down": (n, d, 4 * d)}
        self.start = {name: 0.02 * torch.randn(s) for name, s in p.items()}
        for name, shape in (("blocks.norm1", (n, d)), ("blocks.norm2", (n, d)),
                            ("norm", (d,))):
            self.start[name + ".w"] = torch.ones(shape)
            self.start[name + ".b"] = torch.zeros(shape)

    def optimizer(self, p):
        # Matrices decay; biases and norms do not.  A tensor of the blocks has
        # an additional axis.
        def decays(name):
            return p[name].dim() >= (3 if name.startswith("blocks.") else 2)

        decayed = [t for name, t in p.items() if decays(name)]
        others = [t for name, t in p.items() if not decays(name)]
        return torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1},
             {"params": others, "weight_decay": 0.0}],
            lr=1e-3, betas=(0.9, 0.99))

    def attention(self, p, i, x):
        b, t, d = x.shape
        parts = F.linear(x, p["blocks.qkv"][i]).split(d, dim=2)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).reshape(b, t, d), p["blocks.out"][i])

    def norm(self, p, name, x, i=slice(None)):
        return F.layer_norm(x, (self.width,), p[name + ".w"][i], p[name + ".b"][i])

    def loss(self, p, at):
        text = self.tokens[at[:, None] + torch.arange(self.context + 1)]
        x = p["characters.w"][text[:, :-1]] + p["places"]
        for i in range(self.blocks):
            x = x + self.attention(p, i, self.norm(p, "blocks.norm1", x, i))
            y = F.linear(self.norm(p, "blocks.norm2", x, i), p["blocks.up"][i])
            x = x + F.linear(F.gelu(y), p["blocks.down"][i])
        logits = F.linear(self.norm(p, "norm", x), p["characters.w"])
        return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    def before_update(self, p, optimizer, t):
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (t + 1) / 10)


def torch_losses(model, order):
    p = {name: t.clone().requires_grad_() for name, t in model.start.items()}
    optimizer, losses = model.optimizer(p), []
    for t, at in enumerate(order):
        optimizer.zero_grad()
        loss = model.loss(p, torch.from_numpy(at))
        loss.backward()
        model.before_update(p, optimizer, t)
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def axon_losses(axon, model, order, folder):
    save_tensors(folder / "start.safetensors", model.start)
    np.save(folder / "order.npy", order)
    subprocess.run([axon, "run", HERE / model.program, folder], check=True)
    return np.load(folder / "losses.npy").astype(np.float64)


def main():
    models = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt}
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", help=", ".join(models))
    parser.add_argument("--axon", default="./axon")
    options = parser.parse_args()
    bad = False
    for name in options.models or models:
        torch.manual_seed(1)
        model = models[name]()
        order = np.random.default_rng(1).integers(
            0, model.rows, (STEPS, model.batch), dtype=np.int64)
        with tempfile.TemporaryDirectory() as folder:
            ours = axon_losses(options.axon, model, order, pathlib.Path(folder))
        theirs = torch_losses(model, order)
        error = np.abs(ours / theirs - 1)
        bad |= not error.max() <= GOAL
        print(f"{name}: {STEPS} steps, loss {theirs[0]:.4f} to {theirs[-1]:.4f}, "
              f"largest relative difference {error.max():.1e} "
              f"at step {error.argmax()}")
    sys.exit(bad)


if __name__ == "__main__":
    main()
