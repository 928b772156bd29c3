#!/usr/bin/env python3
"""Writes blocks.gguf: random blocks of each type, and beside each tensor the
numbers that NumPy makes of it (NAME.numbers), from the description of the
format.  With --compare, also compares them with the Python package gguf.

    tests/data/gguf/make.py tests/run/files/blocks.gguf 3 512 [--compare]
    tests/data/gguf/make.py tests/fuzz/seeds/gguf/blocks 1 256
"""
import struct
import sys

import numpy as np

PATH = sys.argv[1]
ROWS, COLUMNS = int(sys.argv[2]), int(sys.argv[3])
# name: number of the type, numbers in a block, bytes of a block
TYPES = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q8_0": (8, 32, 34),
         "q4_k": (12, 256, 144), "q6_k": (14, 256, 210), "mxfp4": (39, 32, 17)}
F16_AT = {"q4_0": [0], "q4_1": [0, 2], "q8_0": [0], "q4_k": [0, 2],
          "q6_k": [208], "mxfp4": []}


def half(x, at):
    return x[:, at:at + 2].copy().view(np.float16).astype(np.float32)


def nibbles(x):
    return np.concatenate([x & 15, x >> 4], axis=1).astype(np.float32)


def q4_0(x):
    return half(x, 0) * (nibbles(x[:, 2:]) - 8)


def q4_1(x):
    return half(x, 0) * nibbles(x[:, 4:]) + half(x, 2)


def q8_0(x):
    return half(x, 0) * x[:, 2:].view(np.int8).astype(np.float32)


def q4_k(x):
    y = np.empty((len(x), 256), np.float32)
    for block, out in zip(x, y):
        d, e = block[:4].copy().view(np.float16).astype(np.float32)
        p = block[4:16]
        for j in range(8):
            if j < 4:
                s, m = p[j] & 63, p[j + 4] & 63
            else:
                s = p[j + 4] & 15 | p[j - 4] >> 6 << 4
                m = p[j + 4] >> 4 | p[j] >> 6 << 4
            q = block[16 + j // 2 * 32:][:32]
            q = q >> 4 if j % 2 else q & 15
            out[32 * j:32 * j + 32] = d * np.float32(s) * q - e * np.float32(m)
    return y


def q6_k(x):
    y = np.empty((len(x), 256), np.float32)
    for block, out in zip(x, y):
        d = block[208:].copy().view(np.float16).astype(np.float32)[0]
        scales = block[192:208].view(np.int8)
        for i in range(256):
            part, k = divmod(i, 128)  # two parts of 64 and 32 bytes
            low = block[64 * part + k % 64] >> (4 * (k // 64)) & 15
            high = block[128 + 32 * part + k % 32] >> (2 * (k // 32)) & 3
            out[i] = d * np.float32(scales[i // 16]) * (
                int(low | high << 4) - 32)
    return y


def mxfp4(x):
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    values = np.concatenate([sizes, -sizes])
    scales = np.ldexp(np.float32(1), x[:, :1].astype(np.int32) - 127)
    return scales * values[nibbles(x[:, 1:]).astype(int)]


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def main():
    rng = np.random.default_rng(1)
    tensors = []
    for name, (number, elements, size) in TYPES.items():
        x = rng.integers(0, 256, (ROWS * COLUMNS // elements, size), np.uint8)
        for at in F16_AT[name]:
            d = rng.normal(0, 0.1, len(x)).astype(np.float16)
            d[0] = 3e-6  # subnormal
            x[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
        if name == "mxfp4":  # exponents whose numbers f32 has
            x[:, 0] = np.append([0], x[1:, 0] % 40 + 100)
        y = globals()[name](x).reshape(ROWS, COLUMNS)
        tensors += [(name, number, (COLUMNS, ROWS), x.tobytes()),
                    (name + ".numbers", 0, (COLUMNS, ROWS), y.tobytes())]
        if "--compare" in sys.argv:
            from gguf import GGMLQuantizationType, quants
            z = quants.dequantize(x, GGMLQuantizationType(number))
            assert np.array_equal(z.reshape(y.shape), y), name
            print(name, "agrees")
    x = rng.integers(0, 256, (COLUMNS // 32, 18), np.uint8)
    x[:, :2] = np.float16([20000]).view(np.uint8)  # -8 times it exceeds f16
    tensors += [
        ("q4_0.large", 2, (COLUMNS, 1), x.tobytes()),
        ("q4_0.large.numbers", 0, (COLUMNS, 1), q4_0(x).tobytes()),
        ("half", 1, (4,), np.float16([1, -2, 0.5, 6e-8]).tobytes()),
        ("brain", 30, (2, 2), np.uint16([0x3f80, 0xc000, 0, 1]).tobytes()),
        ("scalar", 26, (), np.int32([7]).tobytes())]
    values = [
        ("general.architecture", 8, text("test")),
        ("general.alignment", 4, struct.pack("<I", 64)),
        ("test.layers", 4, struct.pack("<I", 12)),
        ("test.epsilon", 6, struct.pack("<f", 1e-5)),
        ("test.big", 10, struct.pack("<Q", 1 << 40)),
        ("test.flag", 7, b"\1"),
        ("test.words", 9, struct.pack("<IQ", 8, 2) + text("one") + text("é")),
        ("test.small", 9, struct.pack("<IQ3h", 3, 3, -1, 0, 1))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, kind, value in values:
        head += text(key) + struct.pack("<I", kind) + value
    data = b""
    for name, kind, shape, content in tensors:
        data += bytes(-len(data) % 64)
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, len(data))
        data += content
    head += bytes(-len(head) % 64)
    with open(PATH, "wb") as f:
        f.write(head + data)


main()
