"""ResNet in transformers, with basic blocks and with bottlenecks, for
resnet18.axn and resnet50.axn; see hugging.py."""

import pathlib

from images import Names, each, shake, write_images
from transformers import ResNetConfig, ResNetForImageClassification

HERE = pathlib.Path(__file__).parent


def make(name, stem, widths, depths, kind):
    model = shake(ResNetForImageClassification(ResNetConfig(
        embedding_size=stem, hidden_sizes=widths, depths=depths,
        layer_type=kind, num_labels=5)))
    names = Names(model)

    def conv_norm(ours, theirs):
        names.put(f"p.{ours}.conv", each(theirs, ".convolution.weight"))
        names.norm(f"{ours}.norm", each(theirs, ".normalization"), ours)

    def block(ours, theirs):
        for i, part in enumerate("ab" if kind == "basic" else "abc"):
            conv_norm(f"{ours}.{part}", each(theirs, f".layer.{i}"))

    conv_norm("stem", "resnet.embedder.embedder")
    for i, depth in enumerate(depths):
        layers = [f"resnet.encoder.stages.{i}.layers.{j}" for j in range(depth)]
        ours = f"stage{i + 1}"
        if layers[0] + ".shortcut.convolution.weight" in names.weights:
            block(f"{ours}.first", layers[0])
            conv_norm(f"{ours}.short", layers[0] + ".shortcut")
            block(f"{ours}.rest", layers[1:])
        else:
            block(ours, layers)
    names.layer("head", "classifier.1")
    write_images(HERE / name, names, model, 2, 3, 37, 45)


make("resnet18", 4, [4, 8, 16, 32], [2, 2, 2, 2], "basic")
make("resnet50", 2, [8, 16, 32, 64], [3, 4, 6, 3], "bottleneck")
