"""The U-Net of denoising diffusion models in PyTorch, after the paper, for
ddpm.axn; see hugging.py."""

import math

import torch
from images import Names, shake
from hugging import write
from torch import nn
from torch.nn.functional import interpolate, pad, silu

W, GROUPS = 4, 2


def waves(t, d):
    rate = torch.exp(torch.arange(d // 2) * (-math.log(10000) / (d // 2 - 1)))
    angle = t.float()[:, None] * rate[None, :]
    return torch.cat([angle.sin(), angle.cos()], 1)


class Block(nn.Module):
    def __init__(self, c, o):
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, c)
        self.conv1 = nn.Conv2d(c, o, 3, padding=1)
        self.time = nn.Linear(4 * W, o)
        self.norm2 = nn.GroupNorm(GROUPS, o)
        self.conv2 = nn.Conv2d(o, o, 3, padding=1)
        self.short = nn.Conv2d(c, o, 1) if c != o else None

    def forward(self, x, time):
        y = self.conv1(silu(self.norm1(x)))
        y = y + self.time(silu(time))[:, :, None, None]
        y = self.conv2(silu(self.norm2(y)))
        return y + (self.short(x) if self.short else x)


class Attend(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, c)
        self.q, self.k, self.v, self.out = (nn.Linear(c, c) for _ in range(4))

    def forward(self, x):
        y = self.norm(x).flatten(2).transpose(1, 2)
        w = self.q(y) @ self.k(y).transpose(1, 2) / y.shape[-1] ** 0.5
        y = self.out(w.softmax(-1) @ self.v(y))
        return x + y.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """Levels with these widths, two blocks on the way down and three on the way
    up; self-attention on the second level."""

    def __init__(self):
        super().__init__()
        widths = [W, 2 * W, 2 * W, 2 * W]
        self.time_a, self.time_b = nn.Linear(W, 4 * W), nn.Linear(4 * W, 4 * W)
        self.input = nn.Conv2d(1, W, 3, padding=1)
        self.down, self.halves = nn.ModuleList(), nn.ModuleList()
        self.down_look, self.up_look = nn.ModuleList(), nn.ModuleList()
        self.up, self.doubles = nn.ModuleList(), nn.ModuleList()
        c, seen = W, [W]
        for i, o in enumerate(widths):
            self.down.append(nn.ModuleList([Block(c, o), Block(o, o)]))
            seen += [o, o]
            c = o
            if i < 3:
                self.halves.append(nn.Conv2d(o, o, 3, stride=2))
                seen.append(o)
        self.down_look.extend(Attend(widths[1]) for _ in range(2))
        self.middle_a, self.middle_b = Block(c, c), Block(c, c)
        self.middle_look = Attend(c)
        for i in reversed(range(4)):
            o = widths[i]
            blocks = nn.ModuleList()
            for _ in range(3):
                blocks.append(Block(c + seen.pop(), o))
                c = o
            self.up.insert(0, blocks)
            if i:
                self.doubles.insert(0, nn.Conv2d(o, o, 3, padding=1))
        self.up_look.extend(Attend(widths[1]) for _ in range(3))
        self.norm = nn.GroupNorm(GROUPS, W)
        self.output = nn.Conv2d(W, 1, 3, padding=1)

    def forward(self, x, t):
        time = self.time_b(silu(self.time_a(waves(t, W))))
        x = self.input(x)
        seen = [x]
        for i in range(4):
            for j, block in enumerate(self.down[i]):
                x = block(x, time)
                if i == 1:
                    x = self.down_look[j](x)
                seen.append(x)
            if i < 3:
                x = self.halves[i](pad(x, (0, 1, 0, 1)))
                seen.append(x)
        x = self.middle_b(self.middle_look(self.middle_a(x, time)), time)
        for i in reversed(range(4)):
            for j, block in enumerate(self.up[i]):
                x = block(torch.cat([x, seen.pop()], 1), time)
                if i == 1:
                    x = self.up_look[j](x)
            if i:
                x = self.doubles[i - 1](interpolate(x, scale_factor=2))
        return self.output(silu(self.norm(x)))


model = shake(UNet())
names = Names(model)


def block(ours, theirs):
    for part in ["norm1", "conv1", "time", "norm2", "conv2", "short"]:
        if f"{theirs}.{part}.weight" in names.weights:
            names.layer(f"{ours}.{part}", f"{theirs}.{part}")


def attend(ours, theirs):
    for part in ["norm", "q", "k", "v", "out"]:
        names.layer(f"{ours}.{part}", f"{theirs}.{part}")


names.layer("time.a", "time_a")
names.layer("time.b", "time_b")
for part in ["input", "norm", "output"]:
    names.layer(part, part)
for part in "ab":
    block(f"middle.{part}", f"middle_{part}")
attend("middle.look", "middle_look")
for i in range(4):
    for j, part in enumerate("ab"):
        block(f"down{i + 1}.{part}", f"down.{i}.{j}")
    for j, part in enumerate("abc"):
        block(f"up{i + 1}.{part}", f"up.{i}.{j}")
    if i < 3:
        names.layer(f"down{i + 1}.half", f"halves.{i}")
    if i:
        names.layer(f"up{i + 1}.double", f"doubles.{i - 1}")
for j, part in enumerate("ab"):
    attend(f"down2.look_{part}", f"down_look.{j}")
for j, part in enumerate("abc"):
    attend(f"up2.look_{part}", f"up_look.{j}")
images, times = torch.randn(2, 1, 16, 24), torch.tensor([3, 700])
with torch.no_grad():
    got = model(images, times)
write(__file__, names.tensors, got, input=images, times=times)
