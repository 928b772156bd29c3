#!/usr/bin/env python3
"""Writes small files of torch.save: old.pth and new.pth, the containers before
and after version 1.6; module.pth, a whole module, which needs code; checkpoints
of a training; and tensors that Axon does not read.  Most numbers count from 0,
so that tests can say what they expect.  Needs torch.

    PYTHON tests/data/pth/make.py FOLDER

Copies are in tests/run/files, tests/error/files and tests/fuzz/seeds/pth.
"""
import argparse
import collections
import datetime
import os
import pathlib
import sys
from collections import OrderedDict

import numpy as np
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

# a checkpoint of a training, with values that are no tensors
kept = torch.nn.Parameter(count(2))
kept.note = "a parameter with an attribute"
noted = count(3)
noted.note = "a tensor with an attribute"
training = {
    "": 1, "numpy": np.float64(3), "array": np.arange(3), "set": {1},
    "frozen": frozenset([2]), "complex": 1 + 2j, "bytes": b"abc",
    "size": torch.Size([1]), "device": torch.device("cpu"),
    "dtype": torch.float32, "layout": torch.strided,
    "arguments": argparse.Namespace(rate=0.1, weight=torch.ones(1)),
    "milestones": collections.Counter([1]), "last": collections.deque([1, 2]),
    "groups": collections.defaultdict(dict, {"w": count(4)}),
    "path": pathlib.PurePosixPath("/a"), "range": range(3), "type": float,
    "date": datetime.date(2000, 1, 1), "big": 2**80, (1, 2): "odd",
    "kept": kept, "noted": noted, "buffer": torch.nn.Buffer(count(2))}
for protocol in (2, 4):
    torch.save(training, os.path.join(FOLDER, f"training{protocol}.pth"),
               pickle_protocol=protocol)
# tensors that Axon does not have, and tensors without a name
torch.save({"sparse": torch.eye(2).to_sparse(),
            "csr": torch.eye(2).to_sparse_csr(),
            "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0,
                                                   torch.qint8),
            "nested": torch.nested.nested_tensor([torch.ones(2)]),
            "meta": torch.ones(2, device="meta"),
            "fnuz": torch.ones(2).to(torch.float8_e4m3fnuz)},
           os.path.join(FOLDER, "layouts.pth"))
torch.save({(1, 2): torch.ones(1)}, os.path.join(FOLDER, "unnamed.pth"))
torch.save({"": torch.ones(1)}, os.path.join(FOLDER, "nameless.pth"))
torch.save({"epoch": 1, "best": 0.5}, os.path.join(FOLDER, "numbers.pth"))

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
