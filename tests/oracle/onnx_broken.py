#!/usr/bin/env python3
"""Makes the models of tests/data/onnx/broken: each has one mistake that
exporters or their users make.  check.txt there has what `axon check` says.

  python3 -m venv V; V/bin/pip install onnx numpy
  V/bin/python tests/oracle/onnx_broken.py"""
import os
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "..", "data", "onnx", "broken")
os.makedirs(folder, exist_ok=True)
n = h.make_node
F = T.FLOAT


def W(name, *shape):
    return nh.from_array(np.zeros(shape, np.float32), name)


def I(name, values):
    return nh.from_array(np.array(values, np.int64), name)


def u8(name, *shape):
    return nh.from_array(np.zeros(shape, np.uint8), name)


def save(name, nodes, inputs, weights=(), outputs=("y",), opset=17,
         result=T.FLOAT):
    graph = h.make_graph(
        nodes, name,
        [h.make_tensor_value_info(a, t, s) for a, (t, s) in inputs.items()],
        [h.make_tensor_value_info(o, result, None) for o in outputs], weights)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, os.path.join(folder, name + ".onnx"))


save("stft_long",
     [n("STFT", ["x", "step", "", "len"], ["y"], "spec")],
     {"x": (F, [1, 16, 1])}, [I("step", 4), I("len", 32)])
save("stft_step0",
     [n("STFT", ["x", "step", "", "len"], ["y"], "spec")],
     {"x": (F, [1, 16, 1])}, [I("step", 0), I("len", 8)])
save("stft_len0",
     [n("STFT", ["x", "step", "", "len"], ["y"], "spec")],
     {"x": (F, [1, 16, 1])}, [I("step", 4), I("len", 0)])
save("stft_win",
     [n("STFT", ["x", "step", "w", "len"], ["y"], "spec")],
     {"x": (F, [1, 16, 1])}, [I("step", 4), I("len", 8), W("w", 4)])
save("dft_neg",
     [n("DFT", ["x", "len"], ["y"], "dft", axis=1)],
     {"x": (F, [1, 16, 1])}, [I("len", -4)])
save("dft_0",
     [n("DFT", ["x", "len"], ["y"], "dft", axis=1)],
     {"x": (F, [1, 16, 1])}, [I("len", 0)])
save("dft_last",
     [n("DFT", ["x", "len"], ["y"], "dft", axis=2)],
     {"x": (F, [1, 16, 1])}, [I("len", 8)])
save("dft_axis9",
     [n("DFT", ["x", "len"], ["y"], "dft", axis=9)],
     {"x": (F, [1, 16, 1])}, [I("len", 8)])
save("hann_neg",
     [n("HannWindow", ["len"], ["y"], "win")],
     {"x": (F, [1])}, [I("len", -8)])
save("lrn0",
     [n("LRN", ["x"], ["y"], "lrn", size=0)],
     {"x": (F, [1, 3, 4, 4])})
save("lrnneg",
     [n("LRN", ["x"], ["y"], "lrn", size=-3)],
     {"x": (F, [1, 3, 4, 4])})
for nm, za, zb in (("a3", (3,), ()), ("a2d", (4, 2), ()), ("b3", (), (3,)),
    ("both", (4,), (3,))):
    save(f"mmi_{nm}",
         [n("MatMulInteger", ["x", "w", "za", "zb"], ["y"], "mmi")],
         {"x": (T.UINT8, [4, 6])}, [u8("w", 6, 5), u8("za", *za), u8("zb",
          *zb)], result=T.INT32)
save("gn",
     [n("GroupNormalization", ["x", "s", "b"], ["y"], "gn", num_groups=3)],
     {"x": (F, [1, 4, 4, 4])}, [W("s", 4), W("b", 4)], opset=21)
save("pad_big",
     [n("Pad", ["x", "p"], ["y"], "pad")],
     {"x": (F, [1, 4])}, [I("p", [0, -3, 0, -3])])
save("pad_refl",
     [n("Pad", ["x", "p"], ["y"], "pad", mode="reflect")],
     {"x": (F, [1, 4])}, [I("p", [0, 5, 0, 0])])
save("topk",
     [n("TopK", ["x", "k"], ["y", "i"], "top")],
     {"x": (F, [1, 4])}, [I("k", [5])])
save("topkneg",
     [n("TopK", ["x", "k"], ["y", "i"], "top")],
     {"x": (F, [1, 4])}, [I("k", [-1])])
save("split",
     [n("Split", ["x", "s"], ["y", "z"], "sp")],
     {"x": (F, [4])}, [I("s", [3, 3])])
save("splitneg",
     [n("Split", ["x", "s"], ["y", "z"], "sp")],
     {"x": (F, [4])}, [I("s", [5, -1])])
save("tileneg",
     [n("Tile", ["x", "s"], ["y"], "ti")],
     {"x": (F, [4])}, [I("s", [-2])])
save("cosneg",
     [n("ConstantOfShape", ["s"], ["y"], "cos")],
     {"x": (F, [4])}, [I("s", [-2, 3])])
save("onehot",
     [n("OneHot", ["x", "d", "v"], ["y"], "oh")],
     {"x": (T.INT64, [4])}, [I("d", -3), W("v", 2)])
save("expandneg",
     [n("Expand", ["x", "s"], ["y"], "ex")],
     {"x": (F, [1])}, [I("s", [-3])])
save("d2s",
     [n("DepthToSpace", ["x"], ["y"], "d2s", blocksize=3)],
     {"x": (F, [1, 4, 2, 2])})
save("d2s0",
     [n("DepthToSpace", ["x"], ["y"], "d2s", blocksize=0)],
     {"x": (F, [1, 4, 2, 2])})
save("s2d",
     [n("SpaceToDepth", ["x"], ["y"], "s2d", blocksize=3)],
     {"x": (F, [1, 4, 2, 2])})
save("resizeneg",
     [n("Resize", ["x", "", "", "s"], ["y"], "rs")],
     {"x": (F, [1, 4, 2, 2])}, [I("s", [1, 4, -1, 2])])
save("lstm",
     [n("LSTM", ["x", "w", "r"], ["y"], "lstm", hidden_size=5)],
     {"x": (F, [3, 2, 4])}, [W("w", 1, 20, 3), W("r", 1, 20, 5)])
save("cropneg",
     [n("CenterCropPad", ["x", "s"], ["y"], "ccp")],
     {"x": (F, [3, 2])}, [I("s", [-1, 2])], opset=18)
save("range_huge",
     [n("Range", ["a", "b", "c"], ["y"], "r")],
     {"x": (F, [3, 2])}, [I("a", 0), I("b", 10), I("c", 0)], result=T.INT64)
save("flatten_gemm",
     [n("Conv", ["x", "w1", "b1"], ["c"], "/conv1/Conv", kernel_shape=[3, 3]),
      n("Relu", ["c"], ["r"], "/relu/Relu"),
      n("MaxPool", ["r"], ["p"], "/pool/MaxPool", kernel_shape=[2, 2],
        strides=[2, 2]),
      n("Flatten", ["p"], ["f"], "/flatten/Flatten"),
      n("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], "/fc/Gemm", transB=1)],
     {"x": (F, ["batch", 1, 28, 28])}, [W("w1", 8, 1, 3, 3), W("b1", 8),
      W("fc.weight", 2, 100), W("fc.bias", 2)])
save("reshape",
     [n("Reshape", ["x", "s"], ["y"], "/view/Reshape")],
     {"x": (F, [2, 3, 4])}, [I("s", [2, 5, -1])])
save("reshape_sym",
     [n("Reshape", ["x", "s"], ["y"], "/view/Reshape")],
     {"x": (F, ["batch", 3, 4])}, [I("s", [8, 12])])
save("concat",
     [n("Concat", ["a", "b"], ["y"], "/cat/Concat", axis=1)],
     {"a": (F, ["n", 3, 8, 8]), "b": (F, ["n", 5, 7, 8])})
save("concat_rank",
     [n("Concat", ["a", "b"], ["y"], "/cat/Concat", axis=1)],
     {"a": (F, ["n", 3, 8]), "b": (F, ["n", 5])})
save("concat_type",
     [n("Concat", ["a", "b"], ["y"], "/cat/Concat", axis=1)],
     {"a": (F, ["n", 3]), "b": (T.INT64, ["n", 3])})
save("concat_sym",
     [n("Concat", ["a", "b"], ["y"], "/cat/Concat", axis=1)],
     {"a": (F, ["n", 3]), "b": (F, ["m", 3])})
save("gemm_t",
     [n("Gemm", ["x", "w", "b"], ["y"], "/fc/Gemm")],
     {"x": (F, ["n", 6])}, [W("w", 8, 6), W("b", 8)])
save("gemm_bias",
     [n("Gemm", ["x", "w", "b"], ["y"], "/fc/Gemm", transB=1)],
     {"x": (F, ["n", 6])}, [W("w", 8, 6), W("b", 6)])
save("gemm_rank",
     [n("Gemm", ["x", "w", "b"], ["y"], "/fc/Gemm", transB=1)],
     {"x": (F, ["n", 3, 6])}, [W("w", 8, 6), W("b", 8)])
save("add",
     [n("Add", ["x", "b"], ["y"], "/add/Add")],
     {"x": (F, ["n", 16, 8, 8])}, [W("b", 16)])
save("add_res",
     [n("Conv", ["x", "w"], ["c"], "/layer1/conv/Conv", kernel_shape=[3, 3]),
      n("Add", ["c", "x"], ["y"], "/layer1/Add")],
     {"x": (F, ["n", 4, 8, 8])}, [W("w", 4, 4, 3, 3)])
save("add_type",
     [n("Add", ["x", "b"], ["y"], "/add/Add")],
     {"x": (F, ["n", 16])}, [nh.from_array(np.zeros(16), "b")])
save("conv_ch",
     [n("Conv", ["x", "w"], ["y"], "/conv1/Conv", kernel_shape=[3, 3])],
     {"x": (F, ["n", 1, 28, 28])}, [W("w", 8, 3, 3, 3)])
save("conv_bias",
     [n("Conv", ["x", "w", "b"], ["y"], "/conv1/Conv", kernel_shape=[3, 3])],
     {"x": (F, ["n", 3, 28, 28])}, [W("w", 8, 3, 3, 3), W("b", 3)])
save("conv_group",
     [n("Conv", ["x", "w"], ["y"], "/conv1/Conv", kernel_shape=[3, 3],
        group=3)],
     {"x": (F, ["n", 8, 28, 28])}, [W("w", 9, 2, 3, 3)])
save("conv_big",
     [n("Conv", ["x", "w"], ["y"], "/conv1/Conv", kernel_shape=[7, 7])],
     {"x": (F, ["n", 3, 5, 5])}, [W("w", 1, 3, 7, 7)])
save("conv_rank",
     [n("Conv", ["x", "w"], ["y"], "/conv1/Conv", kernel_shape=[3, 3])],
     {"x": (F, [3, 28, 28])}, [W("w", 8, 3, 3, 3)])
save("conv_kernel",
     [n("Conv", ["x", "w"], ["y"], "/conv1/Conv", kernel_shape=[5, 5])],
     {"x": (F, [1, 3, 28, 28])}, [W("w", 8, 3, 3, 3)])
save("heads",
     [n("MatMul", ["x", "wq"], ["q"], "/attn/q/MatMul"),
      n("Reshape", ["q", "s"], ["r"], "/attn/Reshape"),
      n("Transpose", ["r"], ["y"], "/attn/Transpose", perm=[0, 2, 1, 3])],
     {"x": (F, ["n", "t", 8])}, [W("wq", 8, 6), I("s", [0, 0, 2, 4])])
save("qk",
     [n("Transpose", ["k"], ["kt"], "/attn/Transpose", perm=[0, 1, 3, 2]),
      n("MatMul", ["q", "kt"], ["s"], "/attn/MatMul"),
      n("Softmax", ["s"], ["p"], "/attn/Softmax", axis=-1),
      n("MatMul", ["p", "v"], ["y"], "/attn/MatMul_1")],
     {"q": (F, ["n", 8, "t", 64]), "k": (F, ["n", 8, "t", 48]), "v": (F, ["n",
      8, "t", 64])})
save("attn_mask",
     [n("MatMul", ["q", "k"], ["s"], "/attn/MatMul"),
      n("Add", ["s", "m"], ["y"], "/attn/Add_mask")],
     {"q": (F, ["n", 8, 10, 64]), "k": (F, ["n", 8, 64, 10]), "m": (F, ["n", 1,
      1, 12])})
save("attention23",
     [n("Attention", ["q", "k", "v"], ["y"], "/attn/Attention")],
     {"q": (F, ["n", 8, 10, 64]), "k": (F, ["n", 3, 10, 64]), "v": (F, ["n", 3,
      10, 64])}, opset=23)
save("attention23b",
     [n("Attention", ["q", "k", "v"], ["y"], "/attn/Attention")],
     {"q": (F, ["n", 8, 10, 64]), "k": (F, ["n", 8, 10, 32]), "v": (F, ["n", 8,
      10, 64])}, opset=23)
save("attention23c",
     [n("Attention", ["q", "k", "v"], ["y"], "/attn/Attention", q_num_heads=7,
        kv_num_heads=7)],
     {"q": (F, ["n", 10, 64]), "k": (F, ["n", 10, 64]), "v": (F, ["n", 10,
      64])}, opset=23)
save("attention23e",
     [n("Attention", ["q", "k", "v"], ["y"], "/attn/Attention")],
     {"q": (F, ["n", 8, 10, 64]), "k": (F, ["n", 8, 10, 64]), "v": (F, ["n", 8,
      9, 64])}, opset=23)
save("bn",
     [n("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], "/bn/BN")],
     {"x": (F, ["n", 16, 8, 8])}, [W("s", 8), W("b", 8), W("m", 8), W("v", 8)])
save("ln",
     [n("LayerNormalization", ["x", "s", "b"], ["y"], "/ln/LN", axis=-1)],
     {"x": (F, ["n", 16, 8])}, [W("s", 16), W("b", 16)])
save("prelu",
     [n("PRelu", ["x", "s"], ["y"], "/prelu/PRelu")],
     {"x": (F, ["n", 16, 8, 8])}, [W("s", 16)])
save("inorm",
     [n("InstanceNormalization", ["x", "s", "b"], ["y"], "/in/IN")],
     {"x": (F, ["n", 16, 8, 8])}, [W("s", 8), W("b", 8)])
save("perm",
     [n("Transpose", ["x"], ["y"], "/permute/Transpose", perm=[0, 2, 1])],
     {"x": (F, ["n", 3, 4, 5])})
save("squeeze",
     [n("Squeeze", ["x", "a"], ["y"], "/squeeze/Squeeze")],
     {"x": (F, ["n", 3, 4])}, [I("a", [1])])
save("gather",
     [n("Gather", ["x", "i"], ["y"], "/Gather", axis=1)],
     {"x": (F, ["n", 3])}, [I("i", 5)])
save("split",
     [n("Split", ["x", "s"], ["a", "b", "y"], "/Split", axis=1)],
     {"x": (F, ["n", 64])}, [I("s", [32, 32, 32])])
save("where",
     [n("Where", ["c", "x", "z"], ["y"], "/Where")],
     {"c": (T.BOOL, ["n", 4]), "x": (F, ["n", 5]), "z": (F, ["n", 5])})
save("einsum",
     [n("Einsum", ["x", "z"], ["y"], "/Einsum", equation="bij,bjk->bik")],
     {"x": (F, ["n", 4, 5]), "z": (F, ["n", 6, 7])})
save("matmul_batch",
     [n("MatMul", ["x", "z"], ["y"], "/MatMul")],
     {"x": (F, [3, 4, 5]), "z": (F, [2, 5, 7])})
save("lstm",
     [n("LSTM", ["x", "w", "r"], ["y"], "/lstm/LSTM", hidden_size=5)],
     {"x": (F, [3, 2, 4])}, [W("w", 1, 20, 3), W("r", 1, 20, 5)])
save("lstm_h",
     [n("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], "/lstm/LSTM",
        hidden_size=5)],
     {"x": (F, [3, 2, 4]), "h": (F, [1, 3, 5]), "c": (F, [1, 2, 5])}, [W("w",
      1, 20, 4), W("r", 1, 20, 5)])
save("scatter",
     [n("ScatterElements", ["x", "i", "u"], ["y"], "/Scatter", axis=1)],
     {"x": (F, ["n", 3]), "i": (T.INT64, ["n", 2]), "u": (F, ["n", 3])})
save("slice_axes",
     [n("Slice", ["x", "a", "b", "ax"], ["y"], "/Slice")],
     {"x": (F, ["n", 3])}, [I("a", [0]), I("b", [1]), I("ax", [2])])
save("resize",
     [n("Resize", ["x", "", "s"], ["y"], "/Resize")],
     {"x": (F, ["n", 3, 4, 4])}, [nh.from_array(np.array([2, 2], np.float32),
      "s")])
save("rotary",
     [n("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], "/rot", num_heads=3)],
     {"x": (F, ["n", "t", 24]), "p": (T.INT64, ["n", "t"])}, [W("c", 9, 5),
      W("s", 9, 5)], opset=23)
save("no_output",
     [n("Resize", ["x", "", "s"], [], "/Resize")],
     {"x": (F, [1, 4, 2, 2])},
     [nh.from_array(np.array([1, 1, 3, 3], np.float32), "s")])
save("no_window_output",
     [n("HannWindow", ["len"], [], "/window")], {"x": (F, [1])}, [I("len", 4)])
save("resize_tiny",
     [n("Resize", ["x", "", "s"], ["y"], "/Resize")],
     {"x": (F, [1, 1, "h", 4])},
     [nh.from_array(np.array([1, 1, 2.0**-70, 1], np.float32), "s")])
save("resize_huge",
     [n("Resize", ["x", "", "s"], ["y"], "/Resize")],
     {"x": (F, [1, 1, 2**60, 4])},
     [nh.from_array(np.array([1, 1, 1000, 1], np.float32), "s")])
save("resize_ratio",
     [n("Resize", ["x", "", "", "s"], ["y"], "/Resize",
        keep_aspect_ratio_policy="not_smaller")],
     {"x": (F, [1, 1, 0, 4])}, [I("s", [1, 1, 8, 8])], opset=18)
# Axon rounds to the nearest power of 2, not up.
save("scale_up",
     [n("Cast", ["x"], ["s"], "/Cast", to=T.FLOAT8E8M0),
      n("Cast", ["s"], ["y"], to=T.FLOAT)], {"x": (F, ["n"])}, opset=24)
