"""Calls what axon build made of model.axn, with NumPy's arrays: no Axon is
there when this runs.  All that it has to know is in the manifest.

    axon build -o model.so --entry "$(cat forward.type)" \
      --entry 'describe : f32[b, n] -> _' model.axn
    python built.py model.so
"""
import ctypes
import json
import os
import sys

import numpy as np


class Module:
    """module("f", arrays..., out=[shapes], n=4): results, one or a tuple.

    Of arguments and results the manifest has the types; sizes are named."""

    def __init__(self, path):
        with open(os.path.splitext(path)[0] + ".json") as file:
            manifest = json.load(file)
        self.library = ctypes.CDLL(os.path.abspath(path))
        self.functions = {f["name"]: f for f in manifest["functions"]}
        self.codes = manifest["codes"]

    def __call__(self, name, *arguments, out, **sizes):
        f = self.functions[name]
        ins = [np.asarray(x, self.dtype(p))
               for x, p in zip(arguments, f["arguments"])]
        outs = [np.empty(shape, self.dtype(p))
                for shape, p in zip(out, f["results"])]
        numbers = [sizes[s["name"]] for s in f["sizes"]]
        arrays = ins + outs
        strides = [self.words([s // x.itemsize for s in x.strides])
                   if x.ndim else None for x in arrays]
        call = getattr(self.library, f["strided"] + "_call")
        code = call(self.words(numbers), self.addresses(ins),
                    self.addresses(outs),
                    (ctypes.c_void_p * len(arrays))(
                        *[ctypes.cast(s, ctypes.c_void_p) for s in strides]))
        if code:
            raise ValueError(self.codes[code])
        return outs[0] if len(outs) == 1 else tuple(outs)

    @staticmethod
    def dtype(p):  # bf16 is its bits
        return {"bf16": "u2", "bool": "u1"}.get(
            p["dtype"], p["dtype"][0] + str(int(p["dtype"][1:]) // 8))

    @staticmethod
    def words(numbers):
        return (ctypes.c_int64 * max(1, len(numbers)))(*numbers)

    @staticmethod
    def addresses(arrays):
        return (ctypes.c_void_p * max(1, len(arrays)))(
            *[x.ctypes.data for x in arrays])


def show(what, x):
    print("%s:" % what, *("%.4f" % v for v in np.ravel(x)))


m = Module(sys.argv[1])
p = [[[1, -1, 0.5], [0.25, -0.5, 1]], [0, 0.5, -0.5],
     [[1, 0], [0, 1], [0.5, -0.5]], [0.25, 0]]
x = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
for rows in x[:1], x:
    b = len(rows)
    show("forward", m("forward", *p, rows, out=[(b, 2)], n=2, h=3, c=2, b=b))
mean, deviation = m("describe", x, out=[2, 2], b=4, n=2)
show("mean", mean)
show("deviation", deviation)
mean, _ = m("describe", x.T, out=[4, 4], b=2, n=4)
show("mean of rows", mean)
try:
    m("describe", x, out=[2, 2], b=-1, n=2)
except ValueError as e:
    print(e)
