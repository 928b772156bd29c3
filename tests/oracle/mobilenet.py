"""MobileNetV2 in transformers, for mobilenet.axn; see hugging.py."""

from images import Names, each, shake, write_images
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

model = shake(MobileNetV2ForImageClassification(MobileNetV2Config(
    depth_multiplier=0.125, depth_divisible_by=1, min_depth=1,
    tf_padding=False, finegrained_output=False, num_labels=5,
    layer_norm_eps=1e-5)))
names = Names(model)


def conv_norm(ours, theirs):
    names.put(f"p.{ours}.conv", each(theirs, ".convolution.weight"))
    names.norm(f"{ours}.norm", each(theirs, ".normalization"), ours)


def inverted(ours, theirs):
    conv_norm(f"{ours}.expand", each(theirs, ".expand_1x1"))
    separable(ours, theirs)


def separable(ours, theirs):
    conv_norm(f"{ours}.depth", each(theirs, ".conv_3x3"))
    depth = f"p.{ours}.depth.conv"  # depthwise: one input channel
    names.tensors[depth] = names.tensors[depth].squeeze(-3)
    conv_norm(f"{ours}.project", each(theirs, ".reduce_1x1"))


NAME = "mobilenet_v2"
conv_norm("stem", f"{NAME}.conv_stem.first_conv")
separable("stage1", f"{NAME}.conv_stem")
at = 0
for stage, count in enumerate([2, 3, 4, 3, 3], 2):
    layers = [f"{NAME}.layer.{at + i}" for i in range(count)]
    inverted(f"stage{stage}.first", layers[0])
    inverted(f"stage{stage}.rest", layers[1:])
    at += count
inverted("stage7", f"{NAME}.layer.{at}")
conv_norm("last", f"{NAME}.conv_1x1")
names.layer("head", "classifier")
write_images(__file__, names, model, 2, 3, 37, 45)
