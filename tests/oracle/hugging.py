"""What the scripts beside this share: a small model of the library transformers
with random weights, what it makes of random tokens, and both in one file.

    python3 -m venv /tmp/oracle
    /tmp/oracle/bin/pip install torch transformers safetensors
    /tmp/oracle/bin/python tests/oracle/gpt2.py     (writes gpt2.safetensors)

made with torch 2.15 and transformers 5.23, whose models are independent of
examples/models/: they load the weights that the papers' authors published."""

import pathlib

import torch
from safetensors.torch import save_file

VOCABULARY, BATCH, LENGTH = 40, 2, 7


def shake(model):
    """Random values for all parameters, also for those that begin as 0 or 1."""
    torch.manual_seed(1)
    model.eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            near = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            near = 1.0 if ".ln_" in name and name.endswith("weight") else near
            p.copy_(near + 0.3 * torch.randn_like(p))
    return model


def stacked(weights, name, count, change=lambda w: w):
    """The tensor `name` of each of the layers, along a leading axis."""
    return torch.stack([change(weights[name % i]) for i in range(count)])


def write(script, model, tensors):
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    with torch.no_grad():
        logits = model(tokens).logits
    tensors |= {"input": tokens, "output": logits}
    save_file({name: t.contiguous() for name, t in tensors.items()},
              pathlib.Path(script).with_suffix(".safetensors"))
