"""U-Net in PyTorch, for unet.axn; see hugging.py."""

import torch
from images import Names, shake, write_images
from torch import nn
from torch.nn.functional import max_pool2d, pad


def double(c, o):
    return nn.Sequential(nn.Conv2d(c, o, 3), nn.ReLU(),
                         nn.Conv2d(o, o, 3), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w, classes):
        super().__init__()
        widths = [w << i for i in range(5)]
        self.down = nn.ModuleList(
            double(c, o) for c, o in zip([1] + widths, widths))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * o, o, 2, stride=2) for o in widths[:4])
        self.after = nn.ModuleList(double(2 * o, o) for o in widths[:4])
        self.head = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        seen = []
        for i, layer in enumerate(self.down):
            x = layer(max_pool2d(x, 2) if i else x)
            seen.append(x)
        for i in reversed(range(4)):
            y = self.up[i](x)
            more_h = y.shape[2] - seen[i].shape[2]
            more_v = y.shape[3] - seen[i].shape[3]
            cut = pad(seen[i], (-(-more_v // 2), more_v // 2,
                                -(-more_h // 2), more_h // 2))
            x = self.after[i](torch.cat([cut, y], 1))
        return self.head(x)


model = shake(UNet(2, 3))
names = Names(model)
for i in range(5):
    names.layer(f"down{i + 1}.a" if i < 4 else "bottom.a", f"down.{i}.0")
    names.layer(f"down{i + 1}.b" if i < 4 else "bottom.b", f"down.{i}.2")
for i in range(4):
    names.layer(f"up{i + 1}.up", f"up.{i}")
    names.layer(f"up{i + 1}.a", f"after.{i}.0")
    names.layer(f"up{i + 1}.b", f"after.{i}.2")
names.layer("head", "head")
write_images(__file__, names, model, 1, 1, 191, 204)
