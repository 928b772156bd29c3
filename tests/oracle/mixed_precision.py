"""Prints losses of tests/grad/mixed_torch.axn: every tenth of 200 steps of
PyTorch's Adam.  The layers compute in bfloat16; parameters, moments and losses
are in float32."""
import torch
import torch.nn.functional as F


def values(shape, a):
    n = torch.Size(shape).numel()
    x = torch.sin(torch.arange(n, dtype=torch.float64) * a + 0.3 * a)
    return x.reshape(shape)


x = values((128, 8), 0.7).float()
y = torch.argmax(values((128, 8), 0.7) @ values((8, 4), 1.9), 1)
p = {"first.w": 0.3 * values((32, 8), 1.3), "first.b": values((32,), 0.4),
     "last.w": 0.2 * values((4, 32), 1.7), "last.b": values((4,), 0.9)}
p = {name: t.float().requires_grad_(True) for name, t in p.items()}
optimizer = torch.optim.Adam(p.values(), lr=0.005)
losses = []
for _ in range(200):
    optimizer.zero_grad()
    h = {name: t.to(torch.bfloat16) for name, t in p.items()}
    a = torch.relu(F.linear(x.to(torch.bfloat16), h["first.w"], h["first.b"]))
    loss = F.cross_entropy(F.linear(a, h["last.w"], h["last.b"]).float(), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(", ".join(f"{v:.4f}" for v in losses[::10]))
