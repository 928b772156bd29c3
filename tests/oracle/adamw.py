"""Prints the parameters of tests/grad/adamw.axn after five steps of PyTorch's
AdamW with two groups of parameters: matrices decay, biases and gains do not."""
import torch

torch.set_default_dtype(torch.float64)


def values(shape, a):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(n) * a + 0.3 * a).reshape(shape)


p = {"blocks.w": values((2, 2, 3), 0.7), "blocks.b": values((2, 2), 1.1),
     "head.w": values((2, 2), 1.3), "head.b": values((2,), 1.7),
     "gain": values((2,), 0.4)}
for x in p.values():
    x.requires_grad_(True)
optimizer = torch.optim.AdamW(
    [{"params": [p["blocks.w"], p["head.w"]], "weight_decay": 0.3},
     {"params": [p["blocks.b"], p["head.b"], p["gain"]], "weight_decay": 0.0}],
    lr=0.05, betas=(0.9, 0.99))
for _ in range(5):
    optimizer.zero_grad()
    loss = sum((torch.tanh(x * (1.0 + 0.1 * i)) ** 2).sum()
               for i, x in enumerate(p.values()))
    loss.backward()
    optimizer.step()
for name, x in p.items():
    print(name, x.tolist())
