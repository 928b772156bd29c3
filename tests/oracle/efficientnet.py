#!/usr/bin/env python3
"""Computes with PyTorch what EfficientNet-Lite0 says about
examples/data/china.png.

    PYTHON tests/oracle/efficientnet.py FOLDER

FOLDER comes from tools/models.sh.  Makes tests/data/classify/image.npy, the
square that the model reads, and logits.npy, for tests/check_classify.sh.  Needs
torch and numpy."""
import os
import struct
import sys
import zlib

import numpy as np
import torch
from torch.nn import functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STRIDES = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]


def read_png(path):
    """An image of 8-bit RGB without interlacing (PNG specification)."""
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    rows = np.frombuffer(zlib.decompress(packed), np.uint8)
    rows = rows.reshape(height, 3 * width + 1)
    image = np.zeros((height + 1, 3 * width + 3), np.int64)
    for y, row in enumerate(rows):
        kind, out, up = row[0], image[y + 1], image[y]
        for x, value in enumerate(row[1:].astype(np.int64)):
            a, b, c = out[x], up[x + 3], up[x]
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b),
                        (abs(a + b - 2 * c), 2, c))[2]
            out[x + 3] = value + [0, a, b, (a + b) // 2, paeth][kind] & 255
    return image[1:, 3:].reshape(height, width, 3).astype(np.uint8)


def square(photo):
    height, width, _ = photo.shape
    side = max(1, min(height, width) * 7 // 8)
    y, x = (height - side) // 2, (width - side) // 2
    part = torch.from_numpy(photo[y:y + side, x:x + side].copy())
    part = part.permute(2, 0, 1)[None].float()
    small = F.interpolate(part, (224, 224), mode="bilinear", antialias=True)
    return (small - 127) / 128


class Net(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        for name, w in torch.load(path, map_location="cpu").items():
            self.register_buffer(name.replace(".", "/"), w.contiguous())

    def part(self, name):
        return getattr(self, name.replace(".", "/"))

    def conv(self, x, name, norm, stride=1, groups=1, relu=True):
        """Pads as TensorFlow does: one more pixel behind than before."""
        w = self.part(name + ".weight")
        total = max(w.shape[2] - stride, 0)
        pads = (total // 2, total - total // 2)
        x = F.conv2d(F.pad(x, pads * 2), w, stride=stride, groups=groups)
        x = F.batch_norm(x, self.part(norm + ".running_mean"),
                         self.part(norm + ".running_var"),
                         self.part(norm + ".weight"),
                         self.part(norm + ".bias"), eps=1e-3)
        return F.relu6(x) if relu else x

    def forward(self, x):
        x = self.conv(x, "_conv_stem", "_bn0", stride=2)
        for i, stride in enumerate(STRIDES):
            name, y = f"_blocks.{i}.", x
            if i:
                y = self.conv(y, name + "_expand_conv", name + "_bn0")
            y = self.conv(y, name + "_depthwise_conv", name + "_bn1", stride,
                          y.shape[1])
            y = self.conv(y, name + "_project_conv", name + "_bn2", relu=False)
            x = x + y if stride == 1 and x.shape[1] == y.shape[1] else y
        x = self.conv(x, "_conv_head", "_bn1").mean((2, 3))
        return F.linear(x, self.part("_fc.weight"), self.part("_fc.bias"))


def main():
    net = Net(os.path.join(sys.argv[1], "efficientnet-lite0.pth")).eval()
    image = square(read_png(os.path.join(ROOT, "examples/data/china.png")))
    folder = os.path.join(ROOT, "tests/data/classify")
    os.makedirs(folder, exist_ok=True)
    with torch.inference_mode():
        logits = net.double()(image.double())
    np.save(os.path.join(folder, "image.npy"),
            image[0, :, ::16, ::16].float().numpy())
    np.save(os.path.join(folder, "logits.npy"),
            logits[0].float().numpy())
    print(*(f"class {i}: {p:.3f}" for p, i in zip(
        *(t.tolist() for t in logits[0].softmax(0).topk(5)))), sep="\n")


if __name__ == "__main__":
    main()
