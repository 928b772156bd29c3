#!/usr/bin/env python3
"""Writes old.pth and new.pth, the containers of torch.save before and after
version 1.6, small ones, and module.pth, a whole module, which needs code.  Their numbers
count from 0, so that tests can say what they expect.  Needs torch.

    PYTHON tests/data/pth/make.py tests/run/files
    PYTHON tests/data/pth/make.py tests/fuzz/seeds/pth
"""
import os
import sys
from collections import OrderedDict

import torch

FOLDER = sys.argv[1]


def count(*shape, dtype=torch.float32):
    n = 1
    for k in shape:
        n *= k
    return torch.arange(n).reshape(shape).to(dtype)


base = count(2, 3, 4)
tensors = OrderedDict([
    ("rows", base),
    ("view", base[:, 1, ::2]),                   # shares the storage of rows
    ("hwio", count(2, 3, 4, 5).permute(3, 2, 0, 1)),
    ("parameter", torch.nn.Parameter(count(3))),
    ("expanded", torch.tensor([7.0]).expand(2, 3)),
    ("scalar", torch.tensor(3.5)),
    ("empty", torch.zeros(0, 3)),
    ("pairs", torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]]).T),
    ("bool", torch.tensor([True, False, True])),
    ("int16", count(4, dtype=torch.int16)),
])
for kind in ("float64", "float16", "bfloat16", "int64", "int32", "int8",
             "uint8"):
    tensors[kind] = count(4, dtype=getattr(torch, kind))
checkpoint = {"epoch": 3, "model": tensors, "best": 0.5,
              "steps": [torch.ones(2), torch.zeros(1)], 7: torch.ones(1)}
for name, new in (("old.pth", False), ("new.pth", True)):
    torch.save(checkpoint, os.path.join(FOLDER, name),
               _use_new_zipfile_serialization=new)
torch.save({"e4m3": count(4).to(torch.float8_e4m3fn),
            "u16": count(4, dtype=torch.uint16)},
           os.path.join(FOLDER, "small.pt"))
torch.save({"layers": [{"w": count(2, 3).T, "b": count(3)}], "epoch": 1},
           os.path.join(FOLDER, "tree.pth"))
torch.save({k: torch.zeros(1).expand(2**26) for k in "abc"},
           os.path.join(FOLDER, "expanded.pth"))
torch.save({"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}, "c": torch.ones(1)},
           os.path.join(FOLDER, "same_name.pth"))

# lazy conjugates and negations: flags beside elements that are not changed
pairs = torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]])
lazy = {"conjugate": pairs.conj(), "adjoint": pairs.mH,
        "imaginary": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        "both": torch._neg_view(torch.tensor([1 + 2j, 3 - 4j]).conj()),
        "integers": torch._neg_view(count(3, dtype=torch.int32))}
for name, new in (("lazy_old.pth", False), ("lazy.pth", True)):
    torch.save(lazy, os.path.join(FOLDER, name),
               _use_new_zipfile_serialization=new)
torch.save(torch.nn.Linear(1, 1), os.path.join(FOLDER, "module.pth"))
