"""Common functions of the scripts for image models, like hugging.py (which
describes how to run them), but with convolutions and batch norms."""

import torch
from hugging import write


def shake(model):
    """Random values for all parameters and statistics, scaled so that
    activations neither vanish nor explode."""
    torch.manual_seed(1)
    model.eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn_like(p) * (2 / p[0].numel()) ** 0.5)
            else:
                near = 0.6 if name.endswith("weight") else 0.0
                p.copy_(near + 0.2 * torch.randn_like(p))
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.copy_(0.2 * torch.randn_like(b))
            if name.endswith("running_var"):
                b.copy_(0.5 + torch.rand_like(b))
    return model


def each(names, end):
    """A longer name, or several ones."""
    return names + end if isinstance(names, str) else [n + end for n in names]


class Names:
    """Tensors of a model with our names; those of several layers are stacked.
    p. are parameters, s. statistics."""

    def __init__(self, model):
        self.weights, self.tensors = model.state_dict(), {}

    def put(self, ours, theirs):
        self.tensors[ours] = (
            self.weights[theirs] if isinstance(theirs, str)
            else torch.stack([self.weights[name] for name in theirs]))

    def layer(self, ours, theirs):
        self.put(f"p.{ours}.w", each(theirs, ".weight"))
        self.put(f"p.{ours}.b", each(theirs, ".bias"))

    def norm(self, ours, theirs, stats):
        self.layer(ours, theirs)
        self.put(f"s.{stats}.mean", each(theirs, ".running_mean"))
        self.put(f"s.{stats}.var", each(theirs, ".running_var"))


def write_images(script, names, model, *shape):
    images = torch.randn(shape)
    with torch.no_grad():
        got = model(images)
    write(script, names.tensors, getattr(got, "logits", got), input=images)
