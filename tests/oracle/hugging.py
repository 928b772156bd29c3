"""Common functions of the scripts in this folder: a small model of the library
transformers with random weights and its output for random tokens, in one file.

    python3 -m venv DIR
    DIR/bin/pip install torch transformers safetensors
    DIR/bin/python tests/oracle/gpt2.py     (writes gpt2.safetensors)

The files were made with torch 2.15 and transformers 5.23, whose models are
independent of examples/models/: they load the weights that the authors of the
papers published."""

import pathlib

import torch
from safetensors.torch import save_file

VOCABULARY, BATCH, LENGTH = 40, 2, 7


def shake(model):
    """Random values for all parameters, instead of initial zeros and ones."""
    torch.manual_seed(1)
    model.eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = "norm" in name.lower() or ".ln_" in name
            near = 1.0 if norm and name.endswith("weight") else 0.0
            p.copy_(near + 0.3 * torch.randn_like(p))
    return model


def stacked(weights, name, count, change=lambda w: w):
    """The tensors `name` of all layers, stacked along a leading axis."""
    return torch.stack([change(weights[name % i]) for i in range(count)])


def pairs(heads):
    """The library rotates columns i and i + half of a head together; the paper
    on rotary embeddings rotates adjacent columns."""
    return lambda x: (x.reshape(heads, 2, -1, x.shape[1]).transpose(1, 2)
                      .reshape(x.shape))


def write(script, tensors, got, **inputs):
    """All tensors, the inputs, and `output`, the result of the model."""
    tensors |= inputs | {"output": got}
    save_file({name: t.detach().contiguous() for name, t in tensors.items()},
              pathlib.Path(script).with_suffix(".safetensors"))


def tokens(length=LENGTH, most=VOCABULARY):
    return torch.randint(0, most, (BATCH, length))


def write_logits(script, tensors, model):
    """Most models here return logits of tokens."""
    text = tokens()
    write(script, tensors, model(text).logits, input=text)


def dense(weights, ours, theirs, count):
    """Weights and biases of a dense layer of all layers."""
    return {f"{ours}.{part}": stacked(weights, f"{theirs}.{end}", count)
            for part, end in [("w", "weight"), ("b", "bias")]}
