#!/usr/bin/env python3
"""Makes the models of tests/data/onnx, their inputs, and the outputs that onnx's
reference evaluator computes.

  python3 -m venv V; V/bin/pip install onnx onnxruntime numpy
  V/bin/python tests/oracle/onnx_models.py"""
import os
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnx.reference import ReferenceEvaluator

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "..", "data", "onnx")
rng = np.random.default_rng(7)


def weight(name, *shape):
    return nh.from_array(rng.normal(size=shape).astype(np.float32), name)


def ints(name, *values):
    return nh.from_array(np.array(values, np.int64), name)


def by_reference(model, arrays):
    return ReferenceEvaluator(model).run(None, arrays)


def by_runtime(model, arrays):
    """For what the reference evaluator lacks: a Scan backwards, unsorted
    columns of Unique, a region outside of the input of Resize."""
    import onnxruntime
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


def save(name, nodes, inputs, weights, arrays, outputs=("y",), opset=17,
         evaluate=by_reference, shape=None, result=T.FLOAT):
    """inputs: name -> (type, shape); arrays: name -> values"""
    graph = h.make_graph(
        nodes, name,
        [h.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [h.make_tensor_value_info(n, result, shape) for n in outputs], weights)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, os.path.join(folder, name + ".onnx"))
    if arrays is None:
        return
    results = evaluate(model, arrays)
    for i, a in enumerate(arrays.values()):
        np.save(os.path.join(folder, f"{name}.in{i}.npy"), a)
    for i, a in enumerate(results):
        np.save(os.path.join(folder, f"{name}.out{i}.npy"), a)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


n = h.make_node
os.makedirs(folder, exist_ok=True)

save("mlp",
     [n("Gemm", ["x", "fc1.weight", "fc1.bias"], ["a"], "/fc1/Gemm", transB=1),
      n("Relu", ["a"], ["b"]),
      n("MatMul", ["b", "fc2.weight"], ["c"]),
      n("Softmax", ["c"], ["y"], axis=-1)],
     {"x": (T.FLOAT, ["batch", 6])},
     [weight("fc1.weight", 8, 6), weight("fc1.bias", 8),
      weight("fc2.weight", 8, 3)],
     {"x": normal(4, 6)})

# heads as transformers split them: the shape is computed
save("heads",
     [n("Shape", ["x"], ["s"]),
      n("Gather", ["s", "zero"], ["b"]),
      n("Gather", ["s", "one"], ["t"]),
      n("Unsqueeze", ["b", "axis"], ["b1"]),
      n("Unsqueeze", ["t", "axis"], ["t1"]),
      n("Concat", ["b1", "t1", "two", "rest"], ["target"], axis=0),
      n("Reshape", ["x", "target"], ["split"]),
      n("Transpose", ["split"], ["q"], perm=[0, 2, 1, 3]),
      n("Transpose", ["split"], ["k"], perm=[0, 2, 3, 1]),
      n("MatMul", ["q", "k"], ["scores"]),
      n("Softmax", ["scores"], ["p"], axis=-1),
      n("ReduceMean", ["p"], ["mean"], axes=[-1], keepdims=1),
      n("Sub", ["p", "mean"], ["y"])],
     {"x": (T.FLOAT, ["batch", "n", 8])},
     [nh.from_array(np.array(0), "zero"), nh.from_array(np.array(1), "one"),
      ints("axis", 0), ints("two", 2), ints("rest", -1)],
     {"x": normal(2, 3, 8)})

save("cnn",
     [n("Conv", ["x", "w1", "b1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
      n("BatchNormalization", ["a", "g", "b", "m", "v"], ["c"], epsilon=1e-3),
      n("Clip", ["c", "low", "high"], ["d"]),
      n("Conv", ["d", "w2"], ["e"], group=4, pads=[1, 1, 1, 1],
        dilations=[1, 1]),
      n("Add", ["d", "e"], ["f"]),
      n("MaxPool", ["f"], ["k"], kernel_shape=[2, 2], strides=[2, 2]),
      n("GlobalAveragePool", ["k"], ["l"]),
      n("Flatten", ["l"], ["y"])],
     {"x": (T.FLOAT, ["batch", 3, 9, 9])},
     [weight("w1", 4, 3, 3, 3), weight("b1", 4), weight("w2", 4, 1, 3, 3),
      weight("g", 4), weight("b", 4), weight("m", 4),
      nh.from_array(np.abs(normal(4)) + 0.5, "v"),
      nh.from_array(np.float32(0), "low"), nh.from_array(np.float32(6), "high")],
     {"x": normal(2, 3, 9, 9)})

save("stretch",
     [n("Add", ["x", "column"], ["a"]), n("Mul", ["a", "row"], ["y"])],
     {"x": (T.FLOAT, [3, 4])},
     [weight("column", 3, 1), weight("row", 4)],
     {"x": normal(3, 4)})

# Squeeze took its axes as an attribute before opset 13
save("old",
     [n("Squeeze", ["x"], ["a"], axes=[1]),
      n("Clip", ["a"], ["b"], min=-0.5, max=0.5),
      n("Unsqueeze", ["b"], ["c"], axes=[0]),
      n("Softmax", ["c"], ["y"], axis=2)],
     {"x": (T.FLOAT, [2, 1, 3])}, [], {"x": normal(2, 1, 3)}, opset=9)

# models that are errors
save("layers",
     [n("LSTM", ["x", "lw", "lr", "lb"], ["a", "", ""], hidden_size=3,
        direction="bidirectional"),
      n("Einsum", ["a", "one"], ["b"], equation="sd...,d->s..."),
      n("GRU", ["b", "gw", "gr", "gb"], ["c", ""], hidden_size=4,
        direction="reverse", linear_before_reset=1),
      n("Squeeze", ["c", "axis1"], ["d"]),
      n("Transpose", ["d"], ["e"], perm=[1, 0, 2]),
      n("Attention", ["e", "e", "e", "mask"], ["f"], q_num_heads=2,
        kv_num_heads=2, is_causal=1),
      n("ScatterND", ["f", "rows", "updates"], ["g"], reduction="add"),
      n("ScatterElements", ["g", "columns", "values"], ["y"], axis=2)],
     {"x": (T.FLOAT, [5, 2, 3])},
     [weight("lw", 2, 12, 3), weight("lr", 2, 12, 3), weight("lb", 2, 24),
      weight("one", 2), weight("gw", 1, 12, 3), weight("gr", 1, 12, 4),
      weight("gb", 1, 24), ints("axis1", 1), weight("mask", 5, 5),
      nh.from_array(np.array([[0, 1], [1, -1]]), "rows"),
      weight("updates", 2, 4),
      nh.from_array(np.array([[[3, 0]], [[1, -1]]]), "columns"),
      weight("values", 2, 1, 2)],
     {"x": normal(5, 2, 3)}, opset=23)

save("external",
     [n("MatMul", ["x", "w"], ["a"]), n("Add", ["a", "b"], ["y"])],
     {"x": (T.FLOAT, [4, 6])}, [weight("w", 6, 20), weight("b", 20)],
     {"x": normal(4, 6)})
path = os.path.join(folder, "external.onnx")
if os.path.exists(os.path.join(folder, "external.bin")):
    os.remove(os.path.join(folder, "external.bin")) # onnx appends to it
onnx.save(onnx.load(path), path, save_as_external_data=True,
          location="external.bin", size_threshold=16)


# For axon check: an inner dimension, a stated size and missing sizes.
save("inner", [n("MatMul", ["x", "w"], ["y"], "product")],
     {"x": (T.FLOAT, ["n", 5])}, [weight("w", 4, 3)], None)
save("stated", [n("MatMul", ["x", "w"], ["y"], "product")],
     {"x": (T.FLOAT, ["n", 4])}, [weight("w", 4, 3)], None)
path = os.path.join(folder, "stated.onnx")
model = onnx.load(path)
model.graph.output[0].CopyFrom(
    h.make_tensor_value_info("y", T.FLOAT, ["n", 7]))
onnx.save(model, path)
save("open", [n("Transpose", ["x"], ["a"]), n("MatMul", ["x", "a"], ["y"])],
     {"x": (T.FLOAT, [None, 3])}, [], None)

save("huge",
     [n("Shape", ["x"], ["s"])]
     + [n("Gather", ["s", f"at{k}"], [f"d{k}"]) for k in range(4)]
     + [n("Add", ["d0", "d1"], ["e1"]), n("Add", ["e1", "d2"], ["e2"]),
        n("Add", ["e2", "d3"], ["p0"])]
     + [n("Mul", [f"p{k}", f"p{k}"], [f"p{k + 1}"]) for k in range(12)]
     + [n("ConstantOfShape", ["p12"], ["y"])],
     {"x": (T.FLOAT, ["a", "b", "c", "d"])},
     [ints(f"at{k}", k) for k in range(4)], None)
save("unknown", [n("Abs", ["x"], ["a"]), n("NoSuchOp", ["a"], ["y"], "odd")],
     {"x": (T.FLOAT, [3])}, [], None)
save("undecided", [n("Add", ["x", "z"], ["y"], "sum")],
     {"x": (T.FLOAT, ["n"]), "z": (T.FLOAT, [5])}, [], None)
save("shape", [n("Reshape", ["x", "target"], ["y"], "fold")],
     {"x": (T.FLOAT, [6]), "target": (T.INT64, [2])}, [], None)

# Control flow.  A scan backwards with two results; a loop that stacks results; a
# loop until a sum is large; branches that data decide; a loop whose state grows
# is unrolled.
def body(name, nodes, inputs, outputs):
    def info(n, t, s):
        return h.make_tensor_value_info(n, t, s)
    return h.make_graph(nodes, name, [info(*i) for i in inputs],
                        [info(o, t, None) for o, t in outputs])


F, I, B = T.FLOAT, T.INT64, T.BOOL
save("control",
     [n("Scan", ["s0", "x"], ["s1", "all"], num_scan_inputs=1,
        scan_input_directions=[1], scan_output_axes=[1],
        body=body("step",
                  [n("Add", ["s", "row"], ["t"]), n("Tanh", ["t"], ["t2"]),
                   n("Mul", ["t", "row"], ["out"])],
                  [("s", F, [3]), ("row", F, [3])], [("t2", F), ("out", F)])),
      n("Loop", ["five", "", "s1"], ["s2", "rows"],
        body=body("turn",
                  [n("Cast", ["i"], ["f"], to=F), n("Add", ["s", "f"], ["u"]),
                   n("Sin", ["u"], ["u2"]), n("Mul", ["u", "half"], ["row2"]),
                   n("Identity", ["go"], ["go2"])],
                  [("i", I, []), ("go", B, []), ("s", F, [3])],
                  [("go2", B), ("u2", F), ("row2", F)])),
      n("Loop", ["", "yes", "s2"], ["s3"],
        body=body("until",
                  [n("Abs", ["s"], ["a"]), n("Add", ["a", "half"], ["b"]),
                   n("ReduceSum", ["b"], ["total"], keepdims=0),
                   n("Less", ["total", "ten"], ["more"])],
                  [("i", I, []), ("go", B, []), ("s", F, [3])],
                  [("more", B), ("b", F)])),
      n("ReduceSum", ["s1"], ["sign"], keepdims=0),
      n("Greater", ["sign", "ten"], ["large"]),
      n("If", ["large"], ["s4"],
        then_branch=body("then", [n("Neg", ["s3"], ["p"])], [], [("p", F)]),
        else_branch=body("else", [n("Sqrt", ["s3"], ["q1"]),
                                  n("Add", ["q1", "s2"], ["q"])],
                         [], [("q", F)])),
      n("Loop", ["three", "", "s4"], ["s5"],
        body=body("grow", [n("Concat", ["s", "s4"], ["c"], axis=0),
                           n("Identity", ["go"], ["go2"])],
                  [("i", I, []), ("go", B, []), ("s", F, None)],
                  [("go2", B), ("c", F)])),
      n("ReduceSum", ["all"], ["k1"], keepdims=0),
      n("ReduceSum", ["rows"], ["k2"], keepdims=0),
      n("Add", ["s5", "k1"], ["y1"]), n("Add", ["y1", "k2"], ["y"])],
     {"x": (F, ["n", 3])},
     [weight("s0", 3), nh.from_array(np.array(5), "five"),
      nh.from_array(np.array(3), "three"),
      nh.from_array(np.array(True), "yes"),
      nh.from_array(np.float32(0.5), "half"),
      nh.from_array(np.float32(10), "ten")],
     {"x": normal(4, 3)}, evaluate=by_runtime)

# The dynamic branches have different shapes.
save("branches",
     [n("ReduceSum", ["x"], ["s"], keepdims=0),
      n("Greater", ["s", "zero"], ["c"]),
      n("If", ["c"], ["y"], "choice",
        then_branch=body("then", [n("Identity", ["x"], ["p"])], [], [("p", F)]),
        else_branch=body("else", [n("Transpose", ["x"], ["q"])], [],
                         [("q", F)]))],
     {"x": (F, [2, 3])}, [nh.from_array(np.float32(0), "zero")], None)

# For doc/onnx_tutorial.md: attention that was traced with four positions.
save("traced",
     [n("MatMul", ["x", "wq"], ["q"]), n("MatMul", ["x", "wk"], ["k"]),
      n("MatMul", ["x", "wv"], ["v"]),
      n("Reshape", ["q", "heads"], ["q1"], "split"),
      n("Reshape", ["k", "heads"], ["k1"]),
      n("Reshape", ["v", "heads"], ["v1"]),
      n("Transpose", ["q1"], ["q2"], perm=[0, 2, 1, 3]),
      n("Transpose", ["k1"], ["k2"], perm=[0, 2, 3, 1]),
      n("Transpose", ["v1"], ["v2"], perm=[0, 2, 1, 3]),
      n("MatMul", ["q2", "k2"], ["scores"]),
      n("Softmax", ["scores"], ["p"], axis=-1),
      n("MatMul", ["p", "v2"], ["a"]),
      n("Transpose", ["a"], ["a1"], perm=[0, 2, 1, 3]),
      n("Reshape", ["a1", "joined"], ["a2"], "join"),
      n("MatMul", ["a2", "wo"], ["y"])],
     {"x": (T.FLOAT, ["batch", "n", 8])},
     [weight("wq", 8, 8), weight("wk", 8, 8), weight("wv", 8, 8),
      weight("wo", 8, 8), ints("heads", -1, 4, 2, 4), ints("joined", -1, 4, 8)],
     None, shape=["batch", "n", 8])


# Repeated blocks: a fold with a value that all of them share and that the first
# one computes, and calls with weights of other shapes.
def layer(i, x, out):
    p = f"layer.{i}."
    mask = [n("Unsqueeze", ["mask", "axis"], [p + "mask"])] if i == 0 else []
    return mask + [
        n("MatMul", [x, p + "q"], [p + "a"]),
        n("Mul", [p + "a", "layer.0.mask"], [p + "b"]),
        n("Add", [p + "b", p + "bias"], [p + "c"]),
        n("Tanh", [p + "c"], [p + "d"]),
        n("MatMul", [p + "d", p + "o"], [p + "e"]),
        n("Add", [p + "e", x], [p + "f"]),
        n("Tanh", [p + "f"], [out])]


def layer_weights(i):
    return [weight(f"layer.{i}.q", 5, 20), weight(f"layer.{i}.bias", 20),
            weight(f"layer.{i}.o", 20, 5)]


names = ["x"] + [f"h{i}" for i in range(4)] + ["y"]
save("blocks",
     [k for i in range(5) for k in layer(i, names[i], names[i + 1])],
     {"x": (T.FLOAT, ["batch", "n", 5]), "mask": (T.FLOAT, ["batch", "n"])},
     [ints("axis", 2)] + [k for i in range(5) for k in layer_weights(i)],
     {"x": normal(2, 3, 5), "mask": normal(2, 3)},
     shape=["batch", "n", 5])


def stage(i, x, out):
    p = f"stages.{i}."
    return [
        n("Conv", [x, p + "w", p + "b"], [p + "a"], pads=[1, 1, 1, 1]),
        n("Relu", [p + "a"], [p + "c"]),
        n("Conv", [p + "c", p + "depth"], [p + "d"], group=3 + i,
          strides=[2, 2], pads=[1, 1, 1, 1]),
        n("Relu", [p + "d"], [p + "e"]),
        n("Add", [p + "e", p + "e"], [p + "f"]),
        n("Sigmoid", [p + "f"], [out])]


save("stages",
     [k for i in range(3) for k in stage(i, "xyz"[i], ["y", "z", "u"][i])] +
     [n("GlobalAveragePool", ["u"], ["v"])],
     {"x": (T.FLOAT, [2, 2, 16, 16])},
     [k for i in range(3) for k in [
         weight(f"stages.{i}.w", 3 + i, 2 + i, 3, 3),
         weight(f"stages.{i}.b", 3 + i),
         weight(f"stages.{i}.depth", 3 + i, 1, 3, 3)]],
     {"x": normal(2, 2, 16, 16)}, outputs=("v",))

# Functions of the model: one calls another, with attributes by reference, a
# default, an input that is left out, and the same names inside.
DOMAIN = "local"
sets = [h.make_opsetid("", 17), h.make_opsetid(DOMAIN, 1)]


def refers(node, name, to, kind):
    a = onnx.AttributeProto(name=name, ref_attr_name=to, type=kind)
    node.attribute.append(a)
    return node


leaky = h.make_function(
    DOMAIN, "Leaky", ["x"], ["y"],
    [refers(n("LeakyRelu", ["x"], ["t"]), "alpha", "slope",
            onnx.AttributeProto.FLOAT),
     n("Constant", [], ["two"], value=nh.from_array(np.float32(2))),
     n("Mul", ["t", "two"], ["y"])],
    sets, [], [h.make_attribute("slope", 0.5)])
dense = h.make_function(
    DOMAIN, "Dense", ["x", "w", "b"], ["y", "x"],
    [n("Gemm", ["x", "w", "b"], ["t"]),
     n("Constant", [], ["two"], value=nh.from_array(np.float32(3))),
     n("Mul", ["t", "two"], ["u"]),
     refers(n("Leaky", ["u"], ["y"], domain=DOMAIN), "slope", "slope",
            onnx.AttributeProto.FLOAT)],
    sets, ["slope"])
w0, b0, w1, x = normal(20, 20), normal(20), normal(20, 20), normal(3, 20)
graph = h.make_graph(
    [n("Dense", ["x", "w0", "b0"], ["a", "same"], "first", domain=DOMAIN,
       slope=0.25),
     n("Dense", ["a", "w1", ""], ["b"], "second", domain=DOMAIN, slope=0.1),
     n("Leaky", ["b"], ["c"], domain=DOMAIN),
     n("Add", ["c", "same"], ["y"])],
    "functions", [h.make_tensor_value_info("x", T.FLOAT, ["batch", 20])],
    [h.make_tensor_value_info("y", T.FLOAT, ["batch", 20])],
    [nh.from_array(w0, "w0"), nh.from_array(b0, "b0"),
     nh.from_array(w1, "w1")])
model = h.make_model(graph, opset_imports=sets, functions=[leaky, dense])
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, os.path.join(folder, "functions.onnx"))
# NumPy: the evaluators do not know such references.
def leaky_numpy(x, slope):
    return 2 * np.where(x < 0, slope * x, x).astype(np.float32)


a = leaky_numpy(3 * (x @ w0 + b0), 0.25)
y = leaky_numpy(leaky_numpy(3 * (a @ w1), 0.1), 0.5) + x
np.save(os.path.join(folder, "functions.in0.npy"), x)
np.save(os.path.join(folder, "functions.out0.npy"), y)
# Each function calls the next one twice.
chain = [h.make_function(
    DOMAIN, f"F{i}", ["x"], ["y"],
    [n(f"F{i + 1}", ["x"], ["t"], domain=DOMAIN),
     n(f"F{i + 1}", ["t"], ["y"], domain=DOMAIN)], sets) for i in range(40)]
graph = h.make_graph(
    [n("F0", ["x"], ["y"], "bomb", domain=DOMAIN)], "calls",
    [h.make_tensor_value_info("x", T.FLOAT, [2])],
    [h.make_tensor_value_info("y", T.FLOAT, [2])])
onnx.save(h.make_model(graph, opset_imports=sets, functions=chain),
          os.path.join(folder, "calls.onnx"))


# Repeated blocks of other float types, with lists of numbers.
def eighths(dtype, *shape):
    return (rng.integers(-4, 5, size=shape) / 8).astype(dtype)


def narrow_layer(i, x, out):
    p = f"layers.{i}."
    return [
        n("Mul", [x, p + "scale"], [p + "a"]),
        n("PRelu", [p + "a", p + "slope"], [p + "b"]),
        n("Max", [p + "b", p + "least"], [p + "c"]),
        n("Add", [p + "c", p + "bias"], [p + "d"]),
        n("Add", [p + "d", x], [out])]


for name, dtype, kind in (("doubles", np.float64, T.DOUBLE),
                          ("halves", np.float16, T.FLOAT16)):
    save(name,
         [k for i in range(3) for k in narrow_layer(i, "xab"[i], "aby"[i])],
         {"x": (kind, ["batch", 4])},
         [nh.from_array(eighths(dtype, 4), f"layers.{i}.{k}")
          for i in range(3) for k in ("scale", "slope", "least", "bias")],
         {"x": eighths(dtype, 3, 4)}, shape=["batch", 4], result=kind)

# Resize with sizes that are names: whole scales, and linear interpolation
save("resize",
     [n("Resize", ["x", "", "twice"], ["a"], nearest_mode="floor",
        coordinate_transformation_mode="asymmetric"),
      n("Resize", ["a", "", "half"], ["b"], mode="linear"),
      n("Shape", ["b"], ["start"], end=2),
      n("Concat", ["start", "size"], ["target"], axis=0),
      n("Resize", ["b", "", "", "target"], ["y"], mode="linear",
        coordinate_transformation_mode="align_corners")],
     {"x": (T.FLOAT, ["batch", 2, "h", "w"])},
     [nh.from_array(np.array([1, 1, 2, 3], np.float32), "twice"),
      nh.from_array(np.array([1, 1, 0.5, 0.5], np.float32), "half"),
      ints("size", 4, 7)],
     {"x": normal(2, 2, 5, 3)}, evaluate=by_runtime, opset=18)


# Quantized values: products of integers
def scale(name, x):
    return nh.from_array(np.float32(x), name)


save("quantized",
     [n("QuantizeLinear", ["x", "x.scale", "x.zero"], ["a"]),
      n("QLinearConv", ["a", "x.scale", "x.zero", "w", "w.scale", "w.zero",
                        "b.scale", "x.zero", "bias"], ["b"],
        pads=[1, 1, 1, 1]),
      n("ConvInteger", ["b", "v", "x.zero"], ["c"]),
      n("Cast", ["c"], ["d"], to=T.FLOAT),
      n("GlobalAveragePool", ["d"], ["e"]),
      n("Flatten", ["e"], ["f"]),
      n("DynamicQuantizeLinear", ["f"], ["g", "g.scale", "g.zero"]),
      n("MatMulInteger", ["g", "u", "g.zero"], ["h"]),
      n("QLinearMatMul", ["g", "g.scale", "g.zero", "u", "w.scale", "w.zero",
                          "b.scale", "x.zero"], ["i"]),
      n("Cast", ["h"], ["j"], to=T.FLOAT),
      n("Cast", ["i"], ["k"], to=T.FLOAT),
      n("Mul", ["j", "g.scale"], ["l"]),
      n("Add", ["l", "k"], ["y"])],
     {"x": (T.FLOAT, ["batch", 3, 5, 5])},
     [scale("x.scale", 0.05), scale("b.scale", 0.75),
      nh.from_array(np.uint8(120), "x.zero"),
      nh.from_array(rng.integers(-99, 99, (4, 3, 3, 3)).astype(np.int8), "w"),
      nh.from_array(rng.random(4).astype(np.float32), "w.scale"),
      nh.from_array(np.zeros(4, np.int8), "w.zero"),
      nh.from_array(rng.integers(-99, 99, 4).astype(np.int32), "bias"),
      nh.from_array(rng.integers(-99, 99, (4, 4, 1, 1)).astype(np.int8), "v"),
      nh.from_array(rng.integers(-99, 99, (4, 4)).astype(np.int8), "u")],
     {"x": normal(2, 3, 5, 5)}, evaluate=by_runtime)

save("signal",
     [n("HannWindow", ["eight"], ["window"]),
      n("STFT", ["x", "step", "window"], ["a"]),
      n("DFT", ["a", "eight", "two"], ["b"], inverse=1, onesided=1),
      n("DFT", ["b", "ten", "two"], ["y"])],
     {"x": (T.FLOAT, ["batch", 32, 1])},
     [nh.from_array(np.array(k), name) for name, k in
      (("two", 2), ("step", 4), ("eight", 8), ("ten", 10))],
     {"x": normal(2, 32, 1)}, opset=20)

save("norms",
     [n("LRN", ["x"], ["a"], size=3, alpha=0.2, beta=0.6, bias=1.5),
      n("MeanVarianceNormalization", ["a"], ["b"]),
      n("ReverseSequence", ["b", "lengths"], ["c"], batch_axis=0, time_axis=1),
      n("GlobalLpPool", ["c"], ["d"], p=3),
      n("Add", ["c", "d"], ["y"])],
     {"x": (T.FLOAT, [3, 6, "h", "w"])}, [ints("lengths", 6, 1, 4)],
     {"x": normal(3, 6, 4, 2)}, evaluate=by_runtime)

save("rotary",
     [n("RotaryEmbedding", ["x", "cos", "sin", "at"], ["a"], num_heads=3),
      n("RotaryEmbedding", ["a", "cos3", "sin3", "at"], ["y"], num_heads=3,
        interleaved=1, rotary_embedding_dim=6)],
     {"x": (T.FLOAT, ["batch", "n", 24]), "at": (T.INT64, ["batch", "n"])},
     [weight("cos", 9, 4), weight("sin", 9, 4), weight("cos3", 9, 3),
      weight("sin3", 9, 3)],
     {"x": normal(2, 5, 24), "at": rng.integers(0, 9, (2, 5))}, opset=23)


def as_floats(*names):
    """Nodes that put results one after another into y, as floats."""
    nodes = []
    for name in names:
        nodes += [n("Cast", [name], [name + "_f"], to=T.FLOAT),
                  n("Reshape", [name + "_f", "flat"], [name + "_l"])]
    return nodes + [n("Concat", [name + "_l" for name in names], ["y"], axis=0)]


def random_after(seed):
    """The models below do not change those above."""
    global rng
    rng = np.random.default_rng(seed)


# results of sizes that depend on data
random_after(8)
save("selection",
     [n("NonZero", ["x"], ["places"]),
      n("Greater", ["row", "half"], ["large"]),
      n("Compress", ["x", "large"], ["kept"], axis=1),
      n("Unique", ["x"], ["u", "first", "inverse", "counts"]),
      n("Unique", ["x"], ["v", "v_first", "v_inverse", "v_counts"], axis=1,
        sorted=0),
      n("NonMaxSuppression",
        ["boxes", "scores", "most", "overlap", "least"], ["best"]),
      n("Range", ["zero", "k", "one"], ["r"]),
      n("Cast", ["r"], ["r_f"], to=T.FLOAT),
      n("Unsqueeze", ["k", "flat_axis"], ["k1"]),
      n("ConstantOfShape", ["k1"], ["c"],
        value=nh.from_array(np.array([2], np.float32))),
      n("Mul", ["r_f", "c"], ["m"]),
      n("TopK", ["row", "k1"], ["top", "top_at"])] +
     as_floats("places", "kept", "u", "first", "inverse", "counts", "v",
               "v_first", "v_inverse", "v_counts", "best", "m", "top"),
     {"x": (T.FLOAT, [3, 4]), "row": (T.FLOAT, [4]),
      "boxes": (T.FLOAT, ["batch", "n", 4]),
      "scores": (T.FLOAT, ["batch", 2, "n"]),
      "k": (T.INT64, [])},
     [ints("flat", -1), ints("flat_axis", 0), ints("most", 3),
      nh.from_array(np.array([0.4], np.float32), "overlap"),
      nh.from_array(np.array([0.1], np.float32), "least"),
      nh.from_array(np.array([0.0], np.float32), "half"),
      nh.from_array(np.array(0, np.int64), "zero"),
      nh.from_array(np.array(1, np.int64), "one")],
     {"x": np.array([[1, 0, 1, 2], [0, 3, 0, 2], [1, 0, 1, 0]], np.float32),
      "row": np.array([1, -1, 2, 3], np.float32),
      "boxes": np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 5, 5],
                          [5, 5, 3, 3], [8, 8, 9, 9]]], np.float32),
      "scores": np.array([[[.9, .8, .7, .7, .05], [.2, .3, .3, .9, .8]]],
                         np.float32),
      "k": np.array(3, np.int64)}, opset=18, evaluate=by_runtime)

save("images",
     [n("RoiAlign", ["x", "rois", "which"], ["fixed"], output_height=2,
        output_width=3, sampling_ratio=2, spatial_scale=0.5),
      n("RoiAlign", ["x", "rois", "which"], ["adaptive"], output_height=2,
        output_width=2, spatial_scale=1.0,
        coordinate_transformation_mode="output_half_pixel"),
      n("DeformConv", ["x", "kernel", "offset", "bias"], ["deformed"],
        pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
      n("MaxPool", ["x"], ["pooled", "at"], kernel_shape=[2, 2],
        strides=[2, 2]),
      n("MaxUnpool", ["pooled", "at"], ["unpooled"], kernel_shape=[2, 2],
        strides=[2, 2]),
      n("Reshape", ["x", "columns"], ["patches"]),
      n("Col2Im", ["patches", "image", "block"], ["image_of"]),
      n("AffineGrid", ["theta", "size"], ["grid"]),
      n("CenterCropPad", ["x", "target"], ["centered"], axes=[2, 3]),
      n("Resize", ["x", "roi", "", "target4"], ["cropped"], mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=5.0)] +
     as_floats("fixed", "adaptive", "deformed", "at", "unpooled", "image_of",
               "grid", "centered", "cropped"),
     {"x": (T.FLOAT, [2, 2, 4, 4]), "rois": (T.FLOAT, [3, 4]),
      "which": (T.INT64, [3]), "offset": (T.FLOAT, [2, 18, 4, 4]),
      "theta": (T.FLOAT, [1, 2, 3])},
     [weight("kernel", 3, 2, 3, 3), weight("bias", 3), ints("flat", -1),
      ints("columns", 2, 8, 4), ints("image", 3, 3), ints("block", 2, 2),
      ints("size", 1, 1, 2, 3), ints("target", 3, 6),
      ints("target4", 2, 2, 3, 3),
      nh.from_array(np.array([0, 0, .1, -.2, 1, 1, .8, 1], np.float32), "roi")],
     {"x": normal(2, 2, 4, 4),
      "rois": np.array([[0, 0, 3, 3], [1, .5, 4, 5], [0, 1, 7, 2]], np.float32),
      "which": np.array([0, 1, 0], np.int64), "offset": normal(2, 18, 4, 4),
      "theta": normal(1, 2, 3)}, opset=20, evaluate=by_runtime)

save("states",
     [n("LinearAttention", ["q", "k", "v", "past", "decay", "beta"],
        ["a", "after"], q_num_heads=4, kv_num_heads=2),
      n("CausalConvWithState", ["x", "kernel", "bias"],
        ["conv", "rest"], activation="silu"),
      n("TensorScatter", ["cache", "update", "write"], ["scattered"],
        mode="circular"),
      n("SwiGLU", ["x", "x"], ["gated"])] +
     as_floats("a", "after", "conv", "rest", "scattered", "gated"),
     {"q": (T.FLOAT, ["batch", 3, 8]), "k": (T.FLOAT, ["batch", 3, 4]),
      "v": (T.FLOAT, ["batch", 3, 6]), "past": (T.FLOAT, ["batch", 2, 2, 3]),
      "decay": (T.FLOAT, ["batch", 3, 4]), "beta": (T.FLOAT, ["batch", 3, 2]),
      "x": (T.FLOAT, ["batch", 2, "steps"]),
      "cache": (T.FLOAT, ["batch", 4, 2]), "update": (T.FLOAT, ["batch", 2, 2]),
      "write": (T.INT64, ["batch"])},
     [weight("kernel", 2, 1, 3), weight("bias", 2), ints("flat", -1)],
     {"q": normal(2, 3, 8), "k": normal(2, 3, 4), "v": normal(2, 3, 6),
      "past": normal(2, 2, 2, 3), "decay": -abs(normal(2, 3, 4)),
      "beta": abs(normal(2, 3, 2)), "x": normal(2, 2, 5),
      "cache": normal(2, 4, 2),
      "update": normal(2, 2, 2), "write": np.array([1, 3], np.int64)},
     opset=28)


def opset6(model, arrays):
    x, = arrays.values()
    values = {i.name: nh.to_array(i)[:, None, None]
              for i in model.graph.initializer}
    y = (x - values["mean"]) / np.sqrt(values["variance"] + 1e-5)
    y = y * values["scale"] + values["bias"]
    y = np.where(y < 0, y * values["slope"], y)
    return [y + values["shift"]]


# axes of the second operand stand at an axis of the first one
save("opset6",
     [n("BatchNormalization", ["x", "scale", "bias", "mean", "variance"],
        ["a"], is_test=1),
      n("PRelu", ["a", "slope"], ["b"]),
      n("Add", ["b", "shift"], ["y"], broadcast=1, axis=1)],
     {"x": (T.FLOAT, ["batch", 3, 2, 3])},
     [weight("scale", 3), weight("bias", 3), weight("mean", 3),
      nh.from_array(np.array([1, 2, 3], np.float32), "variance"),
      weight("slope", 3), weight("shift", 3)],
     {"x": normal(2, 3, 2, 3)}, opset=6, evaluate=opset6)

# sizes that are computed in floats, as exporters of upsampling do
save("computed",
     [n("Shape", ["x"], ["s"]),
      n("Slice", ["s", "two", "four"], ["hw"]),
      n("Cast", ["hw"], ["hw_f"], to=T.FLOAT),
      n("Mul", ["hw_f", "ratio"], ["larger"]),
      n("Floor", ["larger"], ["floor"]),
      n("Cast", ["floor"], ["target"], to=T.INT64),
      n("Slice", ["s", "zero", "two"], ["nc"]),
      n("Concat", ["nc", "target"], ["sizes"], axis=0),
      n("Resize", ["x", "", "", "sizes"], ["a"], mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
      n("Neg", ["minus"], ["rank"]),
      n("ConstantOfShape", ["rank"], ["ones"],
        value=nh.from_array(np.array([1], np.int64))),
      n("Expand", ["a", "ones"], ["y"])],
     {"x": (T.FLOAT, [1, 2, 3, 4])},
     [ints("zero", 0), ints("two", 2), ints("four", 4), ints("minus", -4),
      nh.from_array(np.array([2.0, 1.5], np.float32), "ratio")],
     {"x": normal(1, 2, 3, 4)})

# torch.roll along an axis whose size is a name
save("rolled",
     [n("Shape", ["x"], ["size"], start=1, end=2),
      n("Mod", ["minus", "size"], ["last"]),
      n("Slice", ["x", "zero", "last", "one"], ["a"]),
      n("Slice", ["x", "last", "size", "one"], ["b"]),
      n("Concat", ["b", "a"], ["y"], axis=1)],
     {"x": (T.FLOAT, ["batch", "n"])},
     [ints("zero", 0), ints("one", 1), ints("minus", -1)],
     {"x": normal(2, 5)})

# ceil_mode: windows beyond the end; their elements there do not count
save("averages",
     [n("AveragePool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2],
        count_include_pad=1, ceil_mode=1),
      n("AveragePool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2],
        pads=[1, 1, 1, 0], count_include_pad=1, ceil_mode=1)],
     {"x": (T.FLOAT, [1, 2, 8, 12])}, [], {"x": normal(1, 2, 8, 12)}, opset=22)

# random numbers: check_onnx.sh looks at their means
save("noise",
     [n("RandomNormalLike", ["x"], ["a"], mean=1.0, scale=2.0),
      n("RandomUniform", [], ["b"], shape=[3000], low=-1.0, high=3.0),
      n("RandomUniformLike", ["x"], ["p"], dtype=T.FLOAT),
      n("Bernoulli", ["p"], ["c"], dtype=T.INT64),
      n("Cast", ["c"], ["cf"], to=T.FLOAT),
      n("Multinomial", ["logits"], ["d"], sample_size=3000, dtype=T.INT32),
      n("Cast", ["d"], ["df"], to=T.FLOAT),
      n("Dropout", ["x", "ratio", "training"], ["e", "mask"])],
     {"x": (T.FLOAT, ["seed"])},
     [nh.from_array(np.log(np.array([[1, 0, 3]], np.float32) + 1e-9), "logits"),
      nh.from_array(np.float32(0.25), "ratio"),
      nh.from_array(np.array(True), "training")],
     None, outputs=("a", "b", "cf", "df", "e"))

save("mel",
     [n("MelWeightMatrix", ["bins", "length", "rate", "low", "high"], ["m"]),
      n("MatMul", ["x", "m"], ["y"])],
     {"x": (T.FLOAT, ["n", 33])},
     [nh.from_array(np.array(6), "bins"), nh.from_array(np.array(64), "length"),
      nh.from_array(np.array(8000), "rate"),
      nh.from_array(np.float32(20), "low"),
      nh.from_array(np.float32(3900), "high")],
     {"x": normal(2, 33)})

# The reference evaluator reads the weights by columns, the others by n-grams.
save("ngrams",
     [n("TfIdfVectorizer", ["x"], ["y"], mode="TFIDF", min_gram_length=1,
        max_gram_length=2, max_skip_count=1, pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8],
        ngram_counts=[0, 4], ngram_indexes=[0, 2, 1, 6, 3, 4],
        weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])],
     {"x": (T.INT32, ["batch", "n"])}, [],
     {"x": np.array([[1, 2, 5, 6, 7, 8, 3], [5, 4, 6, 7, 4, 8, 5]], np.int32)},
     opset=9, evaluate=by_runtime)

save("bits",
     [n("BitCast", ["x"], ["i"], to=T.INT32),
      n("Abs", ["i"], ["j"]),
      n("BitCast", ["j"], ["y"], to=T.FLOAT)],
     {"x": (T.FLOAT, ["n"])}, [],
     {"x": np.array([1.5, -2.0, 0.0, -3e-3], np.float32)}, opset=26)

# Opset 8: a batch of sequences, one scanned backwards
save("batches",
     [n("Scan", ["", "start", "x", "x"], ["last", "y"], num_scan_inputs=2,
        directions=[0, 1], body=body(
          "step",
          [n("Add", ["before", "here"], ["sum"]),
           n("Sub", ["sum", "there"], ["next"]),
           n("Mul", ["next", "here"], ["all"])],
          [("before", F, [3]), ("here", F, [3]), ("there", F, [3])],
          [("next", F), ("all", F)]))],
     {"start": (T.FLOAT, [2, 3]), "x": (T.FLOAT, [2, 5, 3])}, [],
     {"start": normal(2, 3), "x": normal(2, 5, 3)}, opset=8,
     evaluate=by_runtime)

# Elements of 4 bits are packed: as raw data, as numbers and in a file; 15 of
# them end in half a byte.  The scales are bytes.
codes = np.arange(15, dtype=np.uint8)
pairs = np.append(codes, 0).astype(np.uint8)
pairs = pairs[::2] | pairs[1::2] << 4


def code_weight(name, shape, **data):
    return onnx.TensorProto(name=name, data_type=T.FLOAT4E2M1, dims=shape,
                            **data)


def of_file(model, arrays):
    return by_reference(onnx.load(os.path.join(folder, "blocks4.onnx")), arrays)


with open(os.path.join(folder, "blocks4.bin"), "wb") as f:
    f.write(b"\7" + pairs.tobytes())
far = code_weight("far", [3, 5], data_location=T.EXTERNAL)
for key, value in ("location", "blocks4.bin"), ("offset", "1"), ("length", "8"):
    far.external_data.add(key=key, value=value)

save("blocks4",
     [n("Cast", ["x"], ["four"], to=T.FLOAT4E2M1),
      n("Cast", ["four"], ["a"], to=T.FLOAT),
      n("Cast", ["raw"], ["b"], to=T.FLOAT),
      n("Cast", ["numbers"], ["c"], to=T.FLOAT),
      n("Cast", ["scale"], ["d"], to=T.FLOAT),
      n("Add", ["a", "b"], ["ab"]), n("Mul", ["c", "d"], ["cd"]),
      n("Cast", ["far"], ["e"], to=T.FLOAT),
      n("Add", ["ab", "cd"], ["abcd"]), n("Sub", ["abcd", "e"], ["y"])],
     {"x": (T.FLOAT, ["n", 3, 5])},
     [far, code_weight("raw", [3, 5], raw_data=pairs.tobytes()),
      code_weight("numbers", [3, 5], int32_data=pairs.tolist()),
      onnx.TensorProto(name="scale", data_type=T.FLOAT8E8M0, dims=[3, 1],
                       raw_data=bytes([126, 127, 130]))],
     {"x": np.linspace(-8, 8, 30, dtype=np.float32).reshape(2, 3, 5)},
     opset=24, evaluate=of_file)
