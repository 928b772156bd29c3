"""Evaluates the columns of the tables in doc/numpy.md.

    python3 tests/numpy_table.py axon        prints an Axon program of all rows
    python3 tests/numpy_table.py expected    prints its output, by NumPy; needs
                                             NumPy.  If PyTorch is installed,
                                             its column is compared as well.
"""

import functools
import itertools
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
SHOW = """
fun row n x =
  let
    val values = reshape [_] (f64 x)
  in
    write (format "%d" n);
    write (format " %s:" (string (shape x)));
    lists.iter (fn e => write (format " %.5g" (e + 0.0))) (unstack values);
    print ""
  end
"""


def read_document():
    """The first Axon block, and the cells of each row."""
    with open(os.path.join(HERE, "..", "doc", "numpy.md")) as f:
        text = f.read()
    preamble = re.search(r"```axon\n(.*?)```", text, re.S)[1]
    rows = []
    for line in text.split("\n"):
        if not line.startswith("| `") and not line.startswith("|  "):
            continue
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        rows.append([re.sub("^`|`$", "", c.strip()).replace("\\|", "|")
                     for c in cells])
    return preamble, rows


def values(np):
    x = np.array([[1.5, -2.0, 0.5, 3.0], [-0.5, 0.25, 2.0, -1.0],
                  [4.0, 1.0, -3.5, 0.75]])
    y = np.array([[0.5, 1.0, -1.5, 2.0], [3.0, -0.25, 1.0, 0.5],
                  [-2.0, 2.5, 0.125, 1.0]])
    return {
        "x": x, "y": y, "p": np.abs(x) + 0.5, "t": np.stack([x, x + 1]),
        "v": np.array([0.5, -1.0, 2.0, 1.5]),
        "u": np.array([1.0, 2.0, -0.5, 0.25]),
        "w": np.array([3.0, -1.0, 0.5, 2.0, 1.0]),
        "a": np.array([[2.0, 1.0, 0.0], [0.5, 3.0, 1.0], [0.0, -1.0, 1.0]]),
        "i": np.array([2, 0, 1]), "j": np.array([3, 1, 0]),
        "k": np.array([4, 1, 3, 1, 0]), "f": lambda e: e * 2.0 + 1.0,
    }


def row_text(np, n, value, stars):
    value = np.asarray(value)
    shape = ", ".join("*" if stars and size == 1 else str(size)
                      for size in value.shape)
    return f"{n} [{shape}]:" + "".join(
        " %.5g" % (float(e) + 0.0) for e in value.ravel())


def torch_values(np, env):
    try:
        import torch
        import torch.nn.functional as F
    except ImportError:
        return None
    tensors = {name: torch.tensor(v) if isinstance(v, np.ndarray) else v
               for name, v in env.items()}
    return dict(tensors, torch=torch, F=F)


def print_expected(rows):
    import numpy as np
    warnings.simplefilter("ignore")
    env = values(np)
    torch_env = torch_values(np, env)
    env.update(np=np, functools=functools, itertools=itertools)
    for n, (numpy, torch, axon) in enumerate(rows, 1):
        stars = "~keep:true" in axon
        text = row_text(np, n, eval(numpy, env), stars)
        print(text)
        if torch and torch_env:
            other = row_text(np, n, eval(torch, torch_env), stars)
            if other.split(":")[1] != text.split(":")[1]:
                sys.exit(f"row {n}: {numpy} is\n{text}\n{torch} is\n{other}")


def main():
    preamble, rows = read_document()
    if sys.argv[1:] == ["axon"]:
        print(preamble + SHOW)
        for n, (_, _, axon) in enumerate(rows, 1):
            print(f"do row {n} ({axon})")
    elif sys.argv[1:] == ["expected"]:
        print_expected(rows)
    else:
        sys.exit(__doc__)


main()
