"""DenseNet in PyTorch, for densenet.axn; see hugging.py."""

import torch
from images import Names, shake, write_images
from torch import nn
from torch.nn.functional import avg_pool2d, max_pool2d, relu


class Dense(nn.Module):
    def __init__(self, c, g):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(c)
        self.conv1 = nn.Conv2d(c, 4 * g, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * g)
        self.conv2 = nn.Conv2d(4 * g, g, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(relu(self.norm1(x)))
        return torch.cat([x, self.conv2(relu(self.norm2(y)))], 1)


class Half(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.BatchNorm2d(c)
        self.conv = nn.Conv2d(c, c // 2, 1, bias=False)

    def forward(self, x):
        return avg_pool2d(self.conv(relu(self.norm(x))), 2)


class DenseNet(nn.Module):
    def __init__(self, g, counts, classes):
        super().__init__()
        c = 2 * g
        self.stem = nn.Conv2d(3, c, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(c)
        self.blocks, self.halves = nn.ModuleList(), nn.ModuleList()
        for i, count in enumerate(counts):
            self.blocks.append(nn.Sequential(
                *[Dense(c + j * g, g) for j in range(count)]))
            c += count * g
            if i + 1 < len(counts):
                self.halves.append(Half(c))
                c //= 2
        self.last, self.head = nn.BatchNorm2d(c), nn.Linear(c, classes)

    def forward(self, x):
        x = relu(self.norm(self.stem(x)))
        x = max_pool2d(x, 3, stride=2, padding=1)
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i < len(self.halves):
                x = self.halves[i](x)
        return self.head(relu(self.last(x)).mean((2, 3)))


def places(count):
    """The path of a layer of a PyTorch block in our blocks of two, four and
    eight layers: a.a.a, a.a.b, ..."""
    parts = {6: [4, 2], 12: [8, 4], 24: [8, 8, 8], 16: [8, 8]}[count]
    for part, size in zip("abc", parts):
        for i in range(size):
            bits = format(i, f"0{size.bit_length() - 1}b")
            yield ".".join([part, *("ab"[int(bit)] for bit in bits)])


COUNTS = [6, 12, 24, 16]
model = shake(DenseNet(1, COUNTS, 5))
names = Names(model)
names.put("p.stem", "stem.weight")
names.norm("norm", "norm", "norm")
names.norm("last", "last", "last")
names.layer("head", "head")
for i, count in enumerate(COUNTS):
    for j, place in enumerate(places(count)):
        for ours, number in [("narrow", 1), ("grow", 2)]:
            name = f"dense{i + 1}.{place}.{ours}"
            names.put(f"p.{name}.conv", f"blocks.{i}.{j}.conv{number}.weight")
            names.norm(f"{name}.norm", f"blocks.{i}.{j}.norm{number}", name)
    if i < 3:
        names.put(f"p.half{i + 1}.conv", f"halves.{i}.conv.weight")
        names.norm(f"half{i + 1}.norm", f"halves.{i}.norm", f"half{i + 1}")
write_images(__file__, names, model, 2, 3, 45, 61)
