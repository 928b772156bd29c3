"""The inputs of the workloads: the same numbers in each run, in files that Axon
and the peers read.  The files stay in the folder."""

import json
import os
import pathlib
import zlib
from dataclasses import dataclass
from math import prod

import numpy as np


@dataclass
class Array:
    shape: tuple
    dtype: str = "f32"
    scale: float = 1.0
    low: float = None
    high: float = None          # integers: below this

    @property
    def bytes(self):
        return prod(self.shape) * {"f32": 4, "bf16": 2, "i64": 8}[self.dtype]

    def make(self, seed):
        rng = np.random.default_rng(seed)
        if self.dtype == "i64":
            return rng.integers(0, self.high, self.shape)
        if self.low is not None:
            high = 1.0 if self.high is None else self.high
            x = rng.random(self.shape, np.float32)
            return np.float32(self.low) + np.float32(high - self.low) * x
        return rng.standard_normal(self.shape, np.float32) \
            * np.float32(self.scale)


@dataclass
class Starts:
    """Where the rows of a ragged tensor begin; the last number is its size."""
    rows: int
    total: int

    @property
    def shape(self):
        return (self.rows + 1,)

    dtype = "i64"

    @property
    def bytes(self):
        return 8 * (self.rows + 1)

    def make(self, seed):
        rng = np.random.default_rng(seed)
        inner = np.sort(rng.integers(0, self.total + 1, self.rows - 1))
        return np.concatenate([[0], inner, [self.total]])


@dataclass
class Weights:
    """All parameters of a model, by name, in one file."""
    model: str
    bytes: int = 0

    def make(self, seed):
        rng = np.random.default_rng(seed)
        return {name: fill(rng) for name, fill in MODELS[self.model]()}


def f32(*shape, **more):
    return Array(shape, **more)


def bf16(*shape, **more):
    return Array(shape, "bf16", **more)


def i64(*shape, most):
    return Array(shape, "i64", high=most)


def starts(rows, total):
    return Starts(rows, total)


def tensors(model):
    return Weights(model)


# ---- models, under the names that examples/models/ has for their parameters

def normal(*shape, scale=None):
    fan = prod(shape[-3:]) if len(shape) >= 4 else shape[-1]
    scale = (2 / fan) ** 0.5 if scale is None else scale
    return lambda rng: rng.standard_normal(shape, np.float32) \
        * np.float32(scale)


def around(middle, *shape):
    return lambda rng: np.float32(middle) \
        + np.float32(0.2) * rng.standard_normal(shape, np.float32)


def positive(*shape):
    return lambda rng: np.float32(0.5) + rng.random(shape, np.float32)


def resnet18():
    def part(name, o, c, k, *stack):
        yield f"p.{name}.conv", normal(*stack, o, c, k, k)
        yield f"p.{name}.norm.w", around(0.6, *stack, o)
        yield f"p.{name}.norm.b", around(0.0, *stack, o)
        yield f"s.{name}.mean", around(0.0, *stack, o)
        yield f"s.{name}.var", positive(*stack, o)

    yield from part("stem", 64, 3, 7)
    for ab in "ab":
        yield from part(f"stage1.{ab}", 64, 64, 3, 2)
    for i, c in enumerate((64, 128, 256), 2):
        o = 2 * c
        yield from part(f"stage{i}.first.a", o, c, 3)
        yield from part(f"stage{i}.first.b", o, o, 3)
        yield from part(f"stage{i}.short", o, c, 1)
        for ab in "ab":
            yield from part(f"stage{i}.rest.{ab}", o, o, 3, 1)
    yield "p.head.w", normal(1000, 512)
    yield "p.head.b", around(0.0, 1000)


def gpt2(d=768, layers=12, vocabulary=50257, context=1024):
    yield "tokens.w", normal(vocabulary, d, scale=0.02)
    yield "places", normal(context, d, scale=0.02)
    yield "norm.w", around(1.0, d)
    yield "norm.b", around(0.0, d)
    for n in "12":
        yield f"blocks.norm{n}.w", around(1.0, layers, d)
        yield f"blocks.norm{n}.b", around(0.0, layers, d)
    for name, o, c in [("attention.qkv", 3 * d, d), ("attention.out", d, d),
                       ("up", 4 * d, d), ("down", d, 4 * d)]:
        yield f"blocks.{name}.w", normal(layers, o, c, scale=c ** -0.5)
        yield f"blocks.{name}.b", normal(layers, o, scale=0.02)


def char_gpt(d=128, layers=4, vocabulary=65, context=64):
    """Parameters p, and AdamW's moments m and v."""
    shapes = {"characters": (vocabulary, d), "places": (context, d),
              "norm1.w": (layers, d), "norm1.b": (layers, d),
              "qkv": (layers, 3 * d, d), "out": (layers, d, d),
              "norm2.w": (layers, d), "norm2.b": (layers, d),
              "up": (layers, 4 * d, d), "down": (layers, d, 4 * d),
              "norm.w": (d,), "norm.b": (d,)}
    for name, shape in shapes.items():
        yield f"p.{name}", around(1.0, *shape) if name.endswith(".w") \
            else normal(*shape, scale=0.02)
        yield f"m.{name}", normal(*shape, scale=0.01)
        yield f"v.{name}", positive(*shape)


MODELS = {"resnet18": resnet18, "gpt2": gpt2, "char_gpt": char_gpt}


# ---- files

def rounded(x):
    """Rounds float32 to bfloat16 values, to nearest, ties to even."""
    bits = x.view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits & 0xFFFF0000).view(np.float32)


NAMES = {"float32": "F32", "int64": "I64"}


def write_safetensors(path, arrays, half=False):
    header, parts, at = {}, [], 0
    for name, x in arrays.items():
        raw = (x.view(np.uint32) >> 16).astype(np.uint16) if half else x
        header[name] = {"dtype": "BF16" if half else NAMES[x.dtype.name],
                        "shape": x.shape, "data_offsets": [at, at + raw.nbytes]}
        at += raw.nbytes
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for raw in parts:
            out.write(raw.tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    kinds = {"F32": np.float32, "I64": np.int64}
    return {name: np.fromfile(path, kinds[row["dtype"]], prod(row["shape"]),
                              offset=8 + size + row["data_offsets"][0])
            .reshape(row["shape"]) for name, row in header.items()}


def folder(root, workload):
    """Creates the inputs of a workload.  Returns their folder."""
    text = repr(sorted(workload.inputs.items()))
    number = zlib.crc32(text.encode())
    here = pathlib.Path(root) / f"{workload.kernel}-{number:08x}"
    if not (here / "made").exists():
        here.mkdir(parents=True, exist_ok=True)
        for name, spec in workload.inputs.items():
            seed = zlib.crc32(name.encode())
            made = spec.make(seed)
            if isinstance(spec, Weights):
                shared = pathlib.Path(root) / f"{spec.model}.safetensors"
                if not shared.exists():
                    write_safetensors(f"{shared}.tmp", made)
                    os.replace(f"{shared}.tmp", shared)
                (here / f"{name}.safetensors").unlink(missing_ok=True)
                (here / f"{name}.safetensors").symlink_to(
                    os.path.join("..", shared.name))
            elif spec.dtype == "bf16":
                write_safetensors(here / f"{name}.safetensors",
                                  {name: rounded(made)}, half=True)
                np.save(here / f"{name}.npy", rounded(made))
            else:
                np.save(here / f"{name}.npy", made)
        (here / "made").touch()
    return here


def read(here, workload):
    """Reads inputs: an array per name, or for a model a table of arrays."""
    return {name: read_safetensors(here / f"{name}.safetensors")
            if isinstance(spec, Weights) else np.load(here / f"{name}.npy")
            for name, spec in workload.inputs.items()}
