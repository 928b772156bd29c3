"""Exchanges files with NumPy, for runtime_test.c.

  runtime_numpy.py make DIR    writes files (stored in tests/data/runtime)
  runtime_numpy.py check DIR   reads the files that runtime_test.c saved
"""
import json
import struct
import sys
import zlib

import numpy as np

# axon name -> NumPy name
DTYPES = {"bool": "|b1", "u8": "|u1", "i8": "|i1", "i32": "<i4", "i64": "<i8",
          "f16": "<f2", "f32": "<f4", "f64": "<f8"}


def reference(dtype):
    """The array that every file of this dtype holds; see `reference` in C."""
    x = np.arange(24).reshape(2, 3, 4)
    if dtype == "bool":
        return x % 3 == 0
    if dtype == "u8":
        return (x * 10).astype("u1")
    if dtype[0] == "i":
        return ((x - 12) * 9).astype(DTYPES[dtype])
    return ((x - 12) / 8).astype(DTYPES[dtype])


def png(path, width, height, depth, colour, rows, extra=b""):
    """Rows are bytes as PNG packs them."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(
            ">I", zlib.crc32(body))
    raw = b"".join(b"\0" + row for row in rows)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        f.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth,
                                           colour, 0, 0, 0)))
        f.write(extra and chunk(extra[:4], extra[4:]))
        f.write(chunk(b"IDAT", zlib.compress(raw, 9)))
        f.write(chunk(b"IEND", b""))


def safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, array, *shape) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": kind, "shape": list(*shape or [array.shape]),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def make(d):
    for dtype, code in DTYPES.items():
        x = reference(dtype)
        np.save(f"{d}/{dtype}.npy", x)
        np.save(f"{d}/{dtype}_fortran.npy", np.asfortranarray(x))
        big = x.astype(x.dtype.newbyteorder(">"))
        np.save(f"{d}/{dtype}_big.npy", big)
        np.save(f"{d}/{dtype}_both.npy", np.asfortranarray(big))
    x = reference("f32")
    for version in ((2, 0), (3, 0)):
        with open(f"{d}/version{version[0]}.npy", "wb") as f:
            np.lib.format.write_array(f, x, version)
    np.save(f"{d}/scalar.npy", np.float64(2.5))
    np.save(f"{d}/vector.npy", np.array([1, 2, 3]))
    np.save(f"{d}/empty.npy", np.zeros((0, 3), "f4"))
    np.save(f"{d}/uint16.npy", np.array([1, 2], "u2"))
    np.save(f"{d}/complex.npy", np.array([1j]))
    np.save(f"{d}/complex_fortran.npy", np.asfortranarray(np.ones((2, 3)) * 1j))
    np.save(f"{d}/text.npy", np.array(["a", "bc"]))
    np.save(f"{d}/struct.npy", np.zeros(2, [("x", "f4"), ("y", "i4")]))
    np.save(f"{d}/object.npy", np.array([None, {}]), allow_pickle=True)
    several = {n: reference(n) for n in DTYPES}
    several["fortran"] = np.asfortranarray(reference("f64"))
    np.savez(f"{d}/stored.npz", **several)
    np.savez_compressed(f"{d}/deflated.npz", **several)
    np.savez(f"{d}/one.npz", only=x)
    bf16 = (x.view("u4") >> 16).astype("u2")
    st = {n: (n.upper(), reference(n)) for n in DTYPES}
    st["bf16"] = ("BF16", bf16)
    import ml_dtypes
    st["f8_e4m3"] = ("F8_E4M3", x.astype(ml_dtypes.float8_e4m3fn))
    st["f8_e5m2"] = ("F8_E5M2", x.astype(ml_dtypes.float8_e5m2))
    size = np.maximum(x, x.dtype.type(2.0 ** -127))
    st["f8_e8m0"] = ("F8_E8M0", size.astype(ml_dtypes.float8_e8m0fnu))
    f4 = x.astype(ml_dtypes.float4_e2m1fn).view("u1").flatten()
    st["f4_e2m1"] = ("F4", f4[::2] | f4[1::2] << 4, x.shape)
    st["i16"] = ("I16", np.array([1, 2], "i2"))
    safetensors(f"{d}/all.safetensors", st)
    safetensors(f"{d}/one.safetensors", {"only": ("F32", x)})
    png(f"{d}/grey.png", 3, 2, 8, 0, [bytes([0, 1, 2]), bytes([253, 254, 255])])
    png(f"{d}/grey16.png", 2, 1, 16, 0, [struct.pack(">2H", 0x80ff, 65535)])
    png(f"{d}/grey1.png", 3, 1, 1, 0, [bytes([0b10100000])])
    png(f"{d}/alpha.png", 1, 1, 8, 4, [bytes([7, 9])])
    png(f"{d}/colour.png", 2, 1, 8, 2, [bytes([1, 2, 3, 4, 5, 6])])
    png(f"{d}/rgba.png", 1, 1, 8, 6, [bytes([1, 2, 3, 4])])
    png(f"{d}/palette.png", 2, 1, 8, 3, [bytes([1, 0])],
        b"PLTE" + bytes([1, 2, 3, 250, 251, 252]))
    gamma = b"gAMA" + struct.pack(">I", 100000)
    png(f"{d}/gamma.png", 2, 1, 8, 0, [bytes([10, 100])], gamma)
    text = b"zTXt" + b"k\0\0" + zlib.compress(b"x" * 1000000, 9)
    png(f"{d}/text.png", 1, 1, 8, 0, [bytes([5])], text)
    np.savetxt(f"{d}/savetxt.csv", reference("f64").reshape(6, 4),
               delimiter=",")


def same(x, dtype, where):
    want = reference(dtype)
    assert x.dtype == want.dtype, (where, x.dtype)
    assert x.shape == want.shape, (where, x.shape)
    assert np.array_equal(x, want), where


def check(d):
    for dtype in DTYPES:
        same(np.load(f"{d}/{dtype}.npy"), dtype, dtype)
    scalar = np.load(f"{d}/scalar.npy")
    assert scalar.shape == () and scalar == 2.5
    assert np.load(f"{d}/vector.npy").shape == (3,)
    assert np.load(f"{d}/empty.npy").shape == (0, 3)
    with np.load(f"{d}/all.npz") as z:
        assert sorted(z.files) == sorted(DTYPES)
        for dtype in DTYPES:
            same(z[dtype], dtype, dtype + " in .npz")
    with open(f"{d}/all.safetensors", "rb") as f:
        raw = f.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    for dtype in DTYPES:
        e = header[dtype]
        start, end = e["data_offsets"]
        x = np.frombuffer(raw[8 + length + start:8 + length + end],
                          DTYPES[dtype]).reshape(e["shape"])
        same(x, dtype, dtype + " in .safetensors")
    csv = np.loadtxt(f"{d}/f64.csv", delimiter=",")
    assert np.array_equal(csv, reference("f64").reshape(6, 4))
    print("NumPy reads what Axon wrote")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])
