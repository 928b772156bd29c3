"""Makes tests/run/files/f8.safetensors: what the package ml_dtypes makes of
numbers in 8-bit floats.  Needs NumPy and ml_dtypes."""
import json
import struct

import ml_dtypes
import numpy as np

TYPES = {"e4m3": (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
         "e5m2": (ml_dtypes.float8_e5m2, "F8_E5M2")}
NAMES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64",
         "uint8": "U8"}


def to_odd(x):
    """f32 numbers that round as f64 numbers do: ml_dtypes rounds those twice.
    Inexact ones are rounded towards 0, and their last bit becomes 1."""
    y = x.astype("f4")
    bits = y.view("u4") - (np.abs(y.astype("f8")) > np.abs(x))
    return np.where(y == x, y, (bits.astype("u4") | 1).view("f4"))


def f8(name, x):
    """ml_dtypes gives NaN for numbers beyond 448; Axon saturates."""
    x = np.asarray(x)
    if x.dtype == "f8":
        x = np.where(np.isfinite(x), to_odd(x), x.astype("f4"))
    if name == "e4m3":
        x = np.where(np.isnan(x), x, np.clip(x, -448, 448))
    y = x.astype(TYPES[name][0])
    return y.view("u1")


def floats(name, dtype):
    """All numbers, the midpoints between them, and both neighbours of each."""
    all_bits = np.arange(256, dtype="u1").view(TYPES[name][0])
    numbers = np.sort(all_bits.astype("f8")[np.isfinite(all_bits)])
    middle = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([numbers, middle, [464, -464, 61440, -61440]])
    x = x.astype(dtype)
    up, down = np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(-np.inf))
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30,
                    1e-45, 3e38], dtype)
    drawn = np.random.default_rng(8).normal(size=200) * 10.0 ** (
        np.arange(200) % 9 - 4)
    return np.concatenate([x, up, down, odd, drawn.astype(dtype)])


def integers(dtype):
    few = np.arange(-500, 501, 3)
    big = np.array([61439, 61440, 61441, 57344, 53248, 53247, 53249])
    top = np.iinfo(dtype)
    return np.concatenate([few, big, -big, [top.max, top.min]]).astype(dtype)


tensors = {}
for name, (dtype, label) in TYPES.items():
    bits = np.arange(256, dtype="u1")
    tensors[name + ".all"] = (label, bits)
    tensors[name + ".f32"] = ("F32", bits.view(dtype).astype("f4"))
    for kind, x in [("of_f32", floats(name, np.float32)),
                    ("of_f64", floats(name, np.float64)),
                    ("of_i32", integers(np.int32)),
                    ("of_i64", integers(np.int64))]:
        tensors[name + "." + kind] = (NAMES[str(x.dtype)], x)
        tensors[name + "." + kind + ".y"] = (label, f8(name, x))

header, data = {}, b""
for key, (label, x) in tensors.items():
    raw = x.tobytes()
    header[key] = {"dtype": label, "shape": list(x.shape),
                   "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("tests/run/files/f8.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
