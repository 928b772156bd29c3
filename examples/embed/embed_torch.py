"""Calls a function of model.axn with PyTorch's tensors, without copies.

    pip install ./python torch
    python embed_torch.py model.axn
"""
import sys

import axon
import torch

m = axon.load(sys.argv[1], arrays=False)
target = torch.zeros(4, 2)
y = torch.from_dlpack(m.describe(torch.arange(8.0).reshape(4, 2)).mean)
print("mean:", y)
print("loss: %.4f" % m.loss(torch.full((4, 2), 0.5), target))
