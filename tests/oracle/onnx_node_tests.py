#!/usr/bin/env python3
"""Runs the node cases of onnx's backend tests through `axon import`.

  python3 -m venv V; V/bin/pip install onnx numpy
  V/bin/python tests/oracle/onnx_node_tests.py [--axon ./axon] [FILTER]

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
from onnx import TensorProto as T

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
    "NonMaxSuppression": [2],
}


def skip_reason(model):
    for v in list(model.graph.input) + list(model.graph.output):
        if not v.type.HasField("tensor_type"):
            return "sequence or optional"
        if v.type.tensor_type.elem_type not in TYPES:
            return "element type"
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


def close(got, want, rtol, atol):
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype}, not {want.dtype}"
    if got.dtype.kind == "f":
        ok = np.allclose(got, want, rtol=max(rtol, 1e-3), atol=max(atol, 1e-6),
                         equal_nan=True)
    else:
        ok = np.array_equal(got, want)
    return None if ok else "values differ"


def run_case(case, base, axon, folder):
    model = case.model
    reason = skip_reason(model)
    if reason:
        return "skip", reason
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "case.onnx")
    inputs, outputs = case.data_sets[0]
    infos = list(model.graph.input)
    static = static_names(model) | static_names(base.model)
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
    env = dict(os.environ, AXON_TARGET="reference", NO_COLOR="1")

    def call(*words):
        try:
            p = subprocess.run([axon, *words], cwd=folder, env=env, text=True,
                               capture_output=True, timeout=60)
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
        different = close(got, np.asarray(want), case.rtol, case.atol)
        if different:
            return "differ", different + "\n" + open(os.path.join(
                folder, "case.axn")).read() + f"\n{got}\n{want}"
    return "pass", ""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--axon", default="./axon")
    p.add_argument("-v", action="store_true")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("filter", nargs="?", default="")
    o = p.parse_args()
    from onnx.backend.test.loader import load_model_tests
    cases = load_model_tests(kind="node")
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
