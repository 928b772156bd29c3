"""Calls the functions of model.axn with NumPy's arrays.

    pip install ./python        (in Axon's sources; or PYTHONPATH=python)
    python embed.py model.axn
"""
import sys

import axon
import numpy as np


def show(what, x):
    print("%s:" % what, *("%.4f" % v for v in np.ravel(x)))


m = axon.load(sys.argv[1])
f32 = np.float32
p = {
    "first": {"w": np.array([[1, -1, 0.5], [0.25, -0.5, 1]], f32),
              "b": np.array([0, 0.5, -0.5], f32)},
    "second": {"w": np.array([[1, 0], [0, 1], [0.5, -0.5]], f32),
               "b": np.array([0.25, 0], f32)},
}
x = np.arange(1, 9, dtype=f32).reshape(4, 2)
show("forward", m.forward(p, x[:1]))
show("forward", m.forward(p, x))
d = m.describe(x)
show("mean", d.mean)
show("deviation", d.deviation)
try:
    m.forward(p, x.reshape(2, 4))
except axon.Error as e:
    print(e.diagnostics[0]["message"])
