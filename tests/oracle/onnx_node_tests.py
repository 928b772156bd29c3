#!/usr/bin/env python3
"""Runs cases of onnx's backend tests through `axon import`.

  python3 -m venv V; V/bin/pip install onnx numpy
  V/bin/python tests/oracle/onnx_node_tests.py [--axon ./axon] [--kind KIND]
      [FILTER]

KIND is node (default), pytorch-operator, pytorch-converted, simple or light.

Prints each case that is not skipped and does not pass (with -v, its message),
then the numbers.  Cases with types that Axon does not have (strings, sequences,
optionals, 4- and 8-bit floats, wide unsigned and 16-bit integers) and with
other domains are skipped.  Inputs that decide shapes, such as the axes of a
reduction, become constants of the model; also in the cases whose operator is
replaced by its definition (`_expanded`)."""
import argparse, collections, os, re, subprocess, tempfile, warnings
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import onnx
import onnx.backend.test
from onnx import TensorProto as T
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

warnings.simplefilter("ignore")
TYPES = {T.FLOAT: "f32", T.UINT8: "u8", T.INT8: "i8", T.INT32: "i32",
         T.INT64: "i64", T.BOOL: "bool", T.FLOAT16: "f16", T.DOUBLE: "f64"}
# inputs that decide shapes: operator -> numbers of inputs
STATIC = {
    "Reshape": [1], "Squeeze": [1], "Unsqueeze": [1], "Expand": [1],
    "Tile": [1], "Slice": [1, 2, 3, 4], "Pad": [1, 3], "Split": [1],
    "ConstantOfShape": [0], "Range": [0, 1, 2], "TopK": [1], "Trilu": [1],
    "OneHot": [1], "CumSum": [1], "CumProd": [1], "Resize": [1, 2, 3], "Upsample": [1], 
    "CenterCropPad": [1], "Col2Im": [1, 2], "MaxUnpool": [2],
    "AffineGrid": [1], "BlackmanWindow": [0], "HannWindow": [0],
    "HammingWindow": [0], "DFT": [1, 2],
    "STFT": [1, 3], "If": [0], "Dropout": [1, 2], "Loop": [0, 1],
    "NonMaxSuppression": [2], "MelWeightMatrix": [0, 1, 2, 3, 4],
}
# operators that draw random numbers: only types and shapes agree
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike",
          "RandomUniform", "RandomUniformLike"}


def skip_reason(model):
    for v in list(model.graph.input) + list(model.graph.output):
        if not v.type.HasField("tensor_type"):
            return "sequence or optional"
        if v.type.tensor_type.elem_type not in TYPES:
            return "element type"
    if any(n.op_type == "ImageDecoder" for n in model.graph.node):
        return "image files"
    if any(n.domain not in ("", "ai.onnx") for n in model.graph.node):
        return "other domain"
    return None


def static_names(model):
    names = set()
    for node in model.graph.node:
        for i in STATIC.get(node.op_type, []):
            if i < len(node.input):
                names.add(node.input[i])
        if node.op_type.startswith("Reduce") and len(node.input) > 1:
            names.add(node.input[1])
    return names


def is_random(model, constants):
    """True if a node draws random numbers; also a Dropout in training."""
    known = {c.name: onnx.numpy_helper.to_array(c) for c in constants}

    def drops(node):
        names = list(node.input) + ["", ""]
        return (node.op_type == "Dropout" and names[2] in known
                and known[names[2]].all() and known.get(names[1], 0.5) != 0)
    return any(n.op_type in RANDOM or drops(n) for n in model.graph.node)


def close(got, want, rtol, atol, random=False):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype}, not {want.dtype}"
    if random:
        return None
    if got.dtype.kind == "f":
        ok = np.allclose(got, want, rtol=max(rtol, 1e-3), atol=max(atol, 1e-6),
                         equal_nan=True)
    else:
        ok = np.array_equal(got, want)
    return None if ok else "values differ"


def read_tensors(folder, what, count):
    """The tensors of a data set that lies in files."""
    tensors = [onnx.TensorProto() for _ in range(count)]
    for i, tensor in enumerate(tensors):
        with open(os.path.join(folder, f"{what}_{i}.pb"), "rb") as f:
            tensor.ParseFromString(f.read())
    return tensors


def read_case(case):
    """The model of a case, and the inputs and outputs of its first data set."""
    if case.model:
        return case.model, *case.data_sets[0]
    model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
    data = os.path.join(case.model_dir, "test_data_set_0")
    known = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return (model, read_tensors(data, "input", len(inputs)),
            read_tensors(data, "output", len(model.graph.output)))


def light_cases():
    """The models of the package without their weights, which are constants.
    Their outputs belong to the input that its test runner makes."""
    from onnx.backend.test.runner import Runner
    folder = os.path.join(os.path.dirname(onnx.backend.test.__file__), "data")
    for case in load_model_tests(kind="real"):
        path = os.path.join(folder, "light", os.path.basename(case.url))
        model = onnx.load(path)
        known = {i.name for i in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(i) for i in model.graph.input
                  if i.name not in known]
        output = onnx.TensorProto()
        with open(path[:-len(".onnx")] + "_output_0.pb", "rb") as f:
            output.ParseFromString(f.read())
        yield TestCase(case.name, case.model_name, None, None, model,
                       [(inputs, [output])], case.kind, case.rtol, case.atol)


def run_case(case, base, axon, folder):
    model, inputs, outputs = read_case(case)
    reason = skip_reason(model)
    if reason:
        return "skip", reason
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "case.onnx")
    infos = list(model.graph.input)
    static = static_names(model)
    if base is not case:
        static |= static_names(base.model)
    arguments, constants = [], []
    for i, (info, value) in enumerate(zip(infos, inputs)):
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if info.name in static:
            constants.append(onnx.numpy_helper.from_array(
                np.asarray(value), info.name))
        else:
            np.save(os.path.join(folder, f"in{i}.npy"), value)
            arguments.append(f'(load "in{i}.npy")')
    model.graph.initializer.extend(constants)
    onnx.save(model, path)
    env = dict(os.environ, NO_COLOR="1")
    if case.kind == "node":
        env["AXON_TARGET"] = "reference"

    def call(*words):
        try:
            p = subprocess.run([axon, *words], cwd=folder, env=env, text=True,
                               capture_output=True, timeout=100)
        except subprocess.TimeoutExpired:
            return 124, "timeout"
        return p.returncode, p.stdout + p.stderr

    status, out = call("import", "case.onnx")
    if status:
        return ("import" if status == 1 else "CRASH"), out
    n = len(model.graph.output)
    names = [f"y{i}" for i in range(n)]
    with open(os.path.join(folder, "main.axn"), "w") as f:
        pattern = names[0] if n == 1 else "(" + ", ".join(names) + ")"
        f.write('import "./case" as m\n')
        f.write(f"val {pattern} = m.model {' '.join(arguments) or '()'}\n")
        for name in names:
            f.write(f'do save "{name}.npy" {name}\n')
    status, out = call("run", "main.axn")
    if status:
        return "run", open(os.path.join(folder, "case.axn")).read() + out
    for name, want in zip(names, outputs):
        got = np.load(os.path.join(folder, name + ".npy"))
        if isinstance(want, onnx.TensorProto):
            want = onnx.numpy_helper.to_array(want)
        different = close(got, np.asarray(want), case.rtol, case.atol,
                          is_random(model, constants))
        if different:
            return "differ", different + "\n" + open(os.path.join(
                folder, "case.axn")).read() + f"\n{got}\n{want}"
    return "pass", ""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--axon", default="./axon")
    p.add_argument("-v", action="store_true")
    p.add_argument("--kind", default="node")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("filter", nargs="?", default="")
    o = p.parse_args()
    cases = (list(light_cases()) if o.kind == "light"
             else load_model_tests(kind=o.kind))
    axon = os.path.realpath(o.axon)
    by_name = {c.name: c for c in cases}
    cases = [c for c in cases if re.search(o.filter, c.name)]
    counts, reasons, ops = (collections.Counter() for _ in range(3))
    with tempfile.TemporaryDirectory() as top, \
            ThreadPoolExecutor(o.jobs) as pool:
        def one(c):
            base = by_name.get(re.sub("_expanded.*", "", c.name), c)
            return c, run_case(c, base, axon, os.path.join(top, c.name))
        for c, (result, detail) in pool.map(one, cases):
            counts[result] += 1
            if result == "skip":
                reasons[detail] += 1
            elif result != "pass":
                if result == "import":
                    m = re.search(r"\((\w+)\): (.*)", detail)
                    ops[(m.group(1), re.sub("`.*?`", "..", m.group(2))[:60]) if m else detail[:90]] += 1
                print(result, c.name, detail if o.v else "")
    print(dict(counts))
    print("skipped:", dict(reasons))
    print("not imported:", *ops.most_common(60), sep="\n  ")


if __name__ == "__main__":
    main()
