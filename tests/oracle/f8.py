"""Makes tests/run/files/f8.safetensors and f4.safetensors: what the package
ml_dtypes makes of numbers in 8-bit floats, and in the types of scaled blocks.
Needs NumPy and ml_dtypes."""
import json
import struct

import ml_dtypes
import numpy as np

FILES = {"f8": ["e4m3", "e5m2"], "f4": ["e2m1", "e8m0"]}
TYPES = {"e4m3": (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
         "e5m2": (ml_dtypes.float8_e5m2, "F8_E5M2"),
         "e2m1": (ml_dtypes.float4_e2m1fn, "F4"),
         "e8m0": (ml_dtypes.float8_e8m0fnu, "F8_E8M0")}
COUNTS = {"e2m1": 16}
NAMES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64",
         "uint8": "U8"}


def to_odd(x):
    """f32 numbers that round as f64 numbers do: ml_dtypes rounds those twice.
    Inexact ones are rounded towards 0, and their last bit becomes 1."""
    y = x.astype("f4")
    bits = y.view("u4") - (np.abs(y.astype("f8")) > np.abs(x))
    return np.where(y == x, y, (bits.astype("u4") | 1).view("f4"))


def f8(name, x):
    """ml_dtypes gives NaN for numbers beyond the range of e4m3 and e8m0; Axon
    saturates.  It gives 0 for NaN in e2m1; Axon gives 6, as GPUs do.  It rounds
    numbers between 2^-127 and 2^-126 up in e8m0; Axon rounds to nearest."""
    x = np.asarray(x)
    if x.dtype == "f8":
        x = np.where(np.isfinite(x), to_odd(x), x.astype("f4"))
    if name == "e4m3":
        x = np.where(np.isnan(x), x, np.clip(x, -448, 448))
    if name == "e8m0":
        x = x.astype("f4")
        x = np.where(np.isnan(x), x, np.clip(x, 2.0 ** -127, 2.0 ** 127))
        x = np.where(x < 1.5 * 2.0 ** -127, 2.0 ** -127, x).astype("f4")
    if name == "e2m1":
        x = np.where(np.isnan(x), 6, x)
    y = x.astype(TYPES[name][0])
    return y.view("u1")


def floats(name, dtype):
    """All numbers, the midpoints between them, and both neighbours of each."""
    all_bits = np.arange(COUNTS.get(name, 256), dtype="u1")
    all_bits = all_bits.view(TYPES[name][0])
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


def raw(label, x):
    """Two elements of F4 are in a byte."""
    return (x[::2] | x[1::2] << 4 if label == "F4" else x).tobytes()


def even(x):
    return x[:x.size // 2 * 2]


def write(file, names):
    tensors = {}
    for name in names:
        dtype, label = TYPES[name]
        bits = np.arange(COUNTS.get(name, 256), dtype="u1")
        tensors[name + ".all"] = (label, bits)
        tensors[name + ".f32"] = ("F32", bits.view(dtype).astype("f4"))
        for kind, x in [("of_f32", floats(name, np.float32)),
                        ("of_f64", floats(name, np.float64)),
                        ("of_i32", integers(np.int32)),
                        ("of_i64", integers(np.int64))]:
            x = even(x) if file == "f4" else x
            tensors[name + "." + kind] = (NAMES[str(x.dtype)], x)
            tensors[name + "." + kind + ".y"] = (label, f8(name, x))
    header, data = {}, b""
    for key, (label, x) in tensors.items():
        part = raw(label, x)
        header[key] = {"dtype": label, "shape": list(x.shape),
                       "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open("tests/run/files/%s.safetensors" % file, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


for file, names in FILES.items():
    write(file, names)
