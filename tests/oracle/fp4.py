"""Makes tests/run/files/fp4.safetensors: numbers in scaled blocks, MXFP4 and
NVFP4, and what they stand for.  Needs NumPy and ml_dtypes."""
import json
import struct

import ml_dtypes
import numpy as np

E2M1, E4M3 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn
E8M0_BIAS = 127
SCALE_MOST = 448 * 6  # greatest numbers of e4m3 and e2m1


def mx(x):
    """OCP Microscaling Formats (v1.0), section 6.3."""
    blocks = x.reshape(-1, 32)
    most = np.abs(blocks).max(axis=1)
    floor_log2 = np.frexp(np.maximum(most, 2.0 ** -E8M0_BIAS))[1] - 1
    exponent = np.maximum(floor_log2 - 2, -E8M0_BIAS)
    scale = np.ldexp(1.0, exponent)
    elements = (blocks / scale[:, None]).astype("f4").astype(E2M1)
    numbers = elements.astype("f8") * scale[:, None]
    shape = (x.shape[0], -1)
    return (elements.view("u1").reshape(x.shape),
            (exponent + E8M0_BIAS).astype("u1").reshape(shape),
            numbers.astype("f4").reshape(x.shape))


def nv(x):
    """Scales of blocks, and of the tensor."""
    blocks = x.reshape(-1, 16)
    most = np.abs(blocks).max(axis=1)
    whole = np.float32(np.abs(x).max() / np.float32(SCALE_MOST))
    scale = (most / np.float32(6) / whole).astype(E4M3)
    size = scale.astype("f4") * whole
    quotient = np.divide(blocks, size[:, None], where=size[:, None] > 0,
                         out=np.zeros_like(blocks))
    elements = quotient.astype(E2M1)
    numbers = elements.astype("f4") * size[:, None]
    return (elements.view("u1").reshape(x.shape),
            scale.view("u1").reshape(x.shape[0], -1), whole,
            numbers.reshape(x.shape))


def packed(x):
    return x[:, ::2] | x[:, 1::2] << 4


rng = np.random.default_rng(4)
x = rng.normal(size=(6, 64)) * 10.0 ** rng.integers(-3, 4, (6, 64))
x = x.astype("f4")
x[0, :32] = 0
x[1, :32] = 1e-40
x[2, :32] /= 1e30
x[3, 32:] = np.float32(2.0 ** 20) * np.sign(x[3, 32:])
x[4, 5] = np.nextafter(np.float32(2.0 ** 14), np.float32(0))
elements, scales, numbers = mx(x)
y = x / np.float32(1000)
codes, nv_scales, whole, nv_numbers = nv(y)
tensors = {
    "x": ("F32", x.shape, x),
    "mx": ("F4", x.shape, packed(elements)),
    "mx.bytes": ("U8", (6, 32), packed(elements)),
    "mx.scales": ("F8_E8M0", scales.shape, scales),
    "mx.scale_bytes": ("U8", scales.shape, scales),
    "mx.numbers": ("F32", x.shape, numbers),
    "y": ("F32", y.shape, y),
    "nv": ("F4", y.shape, packed(codes)),
    "nv.scales": ("F8_E4M3", nv_scales.shape, nv_scales),
    "nv.whole": ("F32", (), whole),
    "nv.numbers": ("F32", y.shape, nv_numbers)}
header, data = {}, b""
for key, (label, shape, value) in tensors.items():
    part = value.tobytes()
    header[key] = {"dtype": label, "shape": list(shape),
                   "data_offsets": [len(data), len(data) + len(part)]}
    data += part
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("tests/run/files/fp4.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
