"""The workloads in oneDNN, through onednn.cc, which is compiled at its first
use.
Weights are reordered in advance.  Images stay in the layout that oneDNN
chooses."""

import ctypes
import os
import pathlib
import subprocess

import numpy as np


def build():
    source = pathlib.Path(__file__).with_name("onednn.cc")
    library = pathlib.Path(os.environ["BENCH_SCRATCH"]) / "onednn.so"
    if not library.exists() or \
            library.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([os.environ.get("CXX", "c++"), "-O2", "-shared", "-fPIC",
                        "-o", library, source, "-ldnnl"], check=True)
    return ctypes.CDLL(str(library))


lib = build()
lib.onednn_version.restype = ctypes.c_char_p
VERSION = f"oneDNN {lib.onednn_version().decode()}"


def prepare(workload, inputs):
    return globals()[workload.kernel](**inputs)


def finish(result):
    return result() if callable(result) else result


def job(name, *args, inputs, result):
    """Calls a prepared job; `result` is the output, or a function for it."""
    def convert(x):
        if isinstance(x, np.ndarray):
            return ctypes.c_void_p(x.ctypes.data)
        if isinstance(x, int):
            return ctypes.c_int64(x)
        return x
    make = getattr(lib, f"onednn_{name}")
    make.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(make(*map(convert, args)))
    if not handle:
        raise RuntimeError(f"oneDNN has no {name} for this")

    def call():
        lib.onednn_run(handle)
        return result if isinstance(result, np.ndarray) \
            else lambda: result(handle)
    call.keeps = inputs
    return call


def product(a, b, half):
    *outer, m, k = a.shape
    n = b.shape[-1]
    kind = np.uint16 if half else np.float32
    if half:
        a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    out = np.empty((*outer, m, n), kind)

    def widened(_):
        return (out.astype(np.uint32) << 16).view(np.float32)
    return job("matmul", ctypes.c_int(half), outer[0] if outer else 1, m, n, k,
               a, b, out, inputs=(a, b, out), result=widened if half else out)


def matmul(a, b):
    return product(a, b, 0)


def matmul_bf16(a, b):
    return product(a, b, 1)


def linear(x, w, b, what):
    out = np.empty((x.shape[0], w.shape[0]), np.float32)
    return job("linear", *out.shape, x.shape[1], x, w, b, out, what,
               inputs=(x, w, b, out), result=out)


def linear_gelu(x, w, b):
    return linear(x, w, b, b"gelu")


def linear_silu(x, w, b):
    return linear(x, w, b, b"silu")


def linear_tanh(x, w, b):
    return linear(x, w, b, b"tanh")


def mlp(x, **layers):
    w = [layers[f"w{i}"] for i in (1, 2, 3)]
    b = [layers[f"b{i}"] for i in (1, 2, 3)]
    widths = [x.shape[1]] + [y.shape[0] for y in w]
    out = np.empty((x.shape[0], widths[-1]), np.float32)
    addresses = [(ctypes.c_void_p * 3)(*(y.ctypes.data for y in ys))
                 for ys in (w, b)]
    return job("mlp", x.shape[0], ctypes.c_int(3),
               (ctypes.c_int64 * 4)(*widths), x, *addresses, out,
               inputs=(x, w, b, out), result=out)


def convolution(x, w, b, depthwise):
    n, c, h, _ = x.shape
    o, k = w.shape[0], w.shape[-1]

    def result(handle):
        out = np.empty((n, o, h, h), np.float32)
        lib.onednn_read(handle, *map(ctypes.c_int64, (n, o, h)),
                        ctypes.c_void_p(out.ctypes.data))
        return out
    return job("conv", n, c, o, h, k, ctypes.c_int(depthwise), x, w, b,
               inputs=(x, w, b), result=result)


def conv2d(x, w, b):
    return convolution(x, w, b, 0)


def depthwise(x, w, b):
    return convolution(x, w, b, 1)


def softmax(x, logarithm=0):
    out = np.empty_like(x)
    return job("softmax", *x.shape, ctypes.c_int(logarithm), x, out,
               inputs=(x, out), result=out)


def log_softmax(x):
    return softmax(x, 1)


def layernorm(x, w, b):
    out = np.empty_like(x)
    return job("layernorm", *x.shape, x, w, b, out, inputs=(x, w, b, out),
               result=out)


def sum(x):
    out = np.empty(1, np.float32)
    return job("sum", x.shape[0], 0, x, out, inputs=(x, out),
               result=out.reshape(()))


def column_sums(x):
    out = np.empty(x.shape[1], np.float32)
    return job("sum", *x.shape, x, out, inputs=(x, out), result=out)
