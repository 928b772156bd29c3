"""Compares functions that `axon build` compiles for symbolic sizes with the
same functions under `axon bench`.  bench/built.sh runs it."""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import data
import workloads
from axon import KERNELS, Axon
from peers import Failed
from quiet import Quiet

TIMEOUT = 180

# The types of a kernel's inputs, all of whose sizes are open.
TYPES = {
    "attention": "f32[b, h, n, d] -> f32[b, h, m, d] -> f32[b, h, m, e]",
    "attention_causal": "f32[b, h, n, d] -> f32[b, h, n, d] -> f32[b, h, n, e]",
    "batched": "f32[b, n, k] -> f32[b, k, m]",
    "black_scholes": "f32[n] -> f32[n] -> f32[n]",
    "conv2d": "f32[n, c, h, v] -> f32[o, c, k, l] -> f32[o]",
    "depthwise": "f32[n, c, h, v] -> f32[c, k, l] -> f32[c]",
    "embedding_bag": "f32[v, d] -> i64[n, k]",
    "gather": "f32[v, d] -> i64[n]",
    "kmeans": "f32[n, d] -> f32[k, d]",
    "layernorm": "f32[n, m] -> f32[m] -> f32[m]",
    "linear_gelu": "f32[n, k] -> f32[m, k] -> f32[m]",
    "linear_silu": "f32[n, k] -> f32[m, k] -> f32[m]",
    "linear_tanh": "f32[n, k] -> f32[m, k] -> f32[m]",
    "matmul": "f32[n, k] -> f32[k, m]",
    "matmul_bf16": "bf16[n, k] -> bf16[k, m]",
    "mlp": "f32[n, a] -> f32[b, a] -> f32[b] -> f32[c, b] -> f32[c]"
           " -> f32[d, c] -> f32[d]",
    "nbody": "f32[n, 3] -> f32[n]",
    "smooth": "f32[n] -> f32[n]",
    "triad": "f32[n] -> f32[n] -> f32[n]",
}


def options():
    text = argparse.ArgumentParser(prog="bench/built.sh", description=__doc__)
    text.add_argument("filter", nargs="*",
                      help="only workloads whose names have one of these")
    text.add_argument("--all", action="store_true",
                      help="also other sizes and chains")
    text.add_argument("--axon", default=None, help="the program axon")
    text.add_argument("--threads", type=int,
                      default=len(os.sched_getaffinity(0)))
    text.add_argument("--rounds", type=int, default=5)
    text.add_argument("--seconds", type=float, default=0.2,
                      help="of each, in a round")
    text.add_argument("--json", metavar="FILE", help="write all results")
    return text.parse_args()


def name_of(w):
    """The name of a module: workloads of one kernel may share it."""
    batched = w.kernel == "matmul" and len(w.inputs["a"].shape) == 3
    return "batched" if batched else w.kernel


def types_of(w):
    ranks = {1: "f32[n]", 2: "f32[n, m]"}
    if name_of(w) in TYPES:
        return TYPES[name_of(w)]
    return " -> ".join(ranks[len(x.shape)] for x in w.inputs.values())


def function_of(w):
    """A program with the kernel as a function of its inputs."""
    text = (KERNELS / f"{w.kernel}.axn").read_text()
    text = re.sub(r'load (~name:"\w+" )?"(\w+)\.(npy|safetensors)"',
                  lambda m: f"arg_{m[1][7:-2] if m[1] else m[2]}", text)
    opens = re.findall(r"^(?:open|import) .*$", text, re.M)
    body = re.sub(r"^(?:open|import) .*$", "", text, flags=re.M)
    names = " ".join(f"arg_{x}" for x in w.inputs)
    return "\n".join([*opens, f"fun built {names} = let", body,
                      "in result () end", ""])


class Module:
    """A shared object with its manifest."""

    def __init__(self, w, program, scratch):
        source = scratch / f"{name_of(w)}.axn"
        source.write_text(function_of(w))
        entry = f"built : {types_of(w)} -> _"
        self.path = scratch / f"lib{name_of(w)}.so"
        start = time.monotonic()
        run = subprocess.run([program, "build", "--entry", entry, "-o",
                              self.path, source], capture_output=True,
                             text=True, timeout=TIMEOUT)
        self.seconds = time.monotonic() - start
        if run.returncode:
            raise Failed((run.stderr.strip().splitlines() or ["failed"])[0])
        self.bytes = self.path.stat().st_size
        manifest = json.loads(self.path.with_suffix(".json").read_text())
        self.about = manifest["functions"][0]
        self.codes = manifest["codes"]
        self.library = ctypes.CDLL(str(self.path))


def shape_of(text):
    inside = re.match(r"\w+(?:\[(.*)\])?$", text)[1]
    return [x.strip() for x in inside.split(",")] if inside else []


def read_raw(path, name):
    """An array of a file; of bf16: its bits."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        row = json.loads(file.read(size))[name]
    return np.fromfile(path, np.uint16, offset=8 + size).reshape(row["shape"])


def placed(array):
    """A copy in memory like that of tensors, with huge pages if possible."""
    room = mmap.mmap(-1, max(array.nbytes, 1),
                     flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        room.madvise(mmap.MADV_HUGEPAGE)
    copy = np.frombuffer(room, array.dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


class Built:
    """One workload's function with its arguments."""

    def __init__(self, w, module, folder):
        self.module, values = module, {}
        self.arrays = [placed(self.load(w, folder, x["name"]))
                       for x in module.about["arguments"]]
        for x, array in zip(module.about["arguments"], self.arrays):
            for size, extent in zip(shape_of(x["type"]), array.shape):
                values.setdefault(size, extent)
        names = [x["name"] for x in module.about["sizes"]]
        values = {x: values[x] for x in names}
        for x in module.about["results"]:
            shape = [eval(s.replace("/", "//"), {"min": min, "max": max},
                          dict(values)) for s in shape_of(x["type"])]
            kind = {"f32": "f4", "i64": "i8", "bf16": "u2"}[x["dtype"]]
            self.arrays.append(placed(np.zeros(shape, kind)))
        self.call = getattr(module.library, module.about["symbol"])
        self.arguments = [ctypes.c_int64(values[x]) for x in names] + \
            [ctypes.c_void_p(x.ctypes.data) for x in self.arrays]

    @staticmethod
    def load(w, folder, name):
        name = name.removeprefix("arg_")
        if getattr(w.inputs[name], "dtype", "") == "bf16":
            return read_raw(folder / f"{name}.safetensors", name)
        return np.load(folder / f"{name}.npy")

    def run(self):
        code = self.call(*self.arguments)
        if code:
            raise Failed(self.module.codes[code])

    def result(self):
        self.run()
        out = self.arrays[-1]
        if out.dtype == np.uint16:
            return (out.astype(np.uint32) << 16).view(np.float32)
        return out

    def time(self, seconds):
        self.run()
        times, end = [], time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def compare(w, o, axon, modules, folder, scratch, quiet):
    if name_of(w) not in modules:
        modules[name_of(w)] = Module(w, axon.program, scratch)
    module = modules[name_of(w)]
    built = Built(w, module, folder)
    axon.take(w, folder, TIMEOUT)
    axon.env["AXON_KEEP"] = "0"     # a built function does not prepack, either
    want, got = axon.result(TIMEOUT), built.result()
    scale = max(float(abs(want.astype("f8")).max()), 1e-30)
    off = float(abs(got.astype("f8") - want).max()) / scale
    if got.shape != want.shape or not off <= w.tolerance:
        raise Failed(f"{list(got.shape)}, off by {off:.2g}")
    pairs = []
    for _ in range(o.rounds):
        with quiet:
            pairs.append((axon.time(o.seconds, TIMEOUT)["median"],
                          built.time(o.seconds)))
    inside, outside = (statistics.median(x) for x in zip(*pairs))
    ratio = statistics.median(y / x for x, y in pairs)
    return {"inside": inside, "built": outside, "ratio": ratio, "pairs": pairs,
            "bytes": module.bytes, "build": module.seconds}


def main():
    o = options()
    os.environ["AXON_THREADS"] = str(o.threads)
    root = pathlib.Path(os.environ["BENCH_ROOT"])
    with tempfile.TemporaryDirectory() as scratch:
        return run_all(o, root, pathlib.Path(scratch))


def run_all(o, root, scratch):
    axon = Axon(o.axon or pathlib.Path(__file__).parents[2] / "axon",
                o.threads, scratch, "cpu")
    modules, rows, failed = {}, [], False
    print(f"{'workload':44}{'axon bench':>12}{'built':>12}{'ratio':>7}"
          f"{'KB':>7}{'built in':>10}")
    for w in workloads.ALL if o.all else workloads.GOALS:
        if o.filter and not any(part in w.name for part in o.filter):
            continue
        if w.kernel in ("gpt2", "resnet18"):    # a program's parameters
            continue
        try:
            row = compare(w, o, axon, modules, data.folder(root / "data", w),
                          scratch, Quiet())
            print(f"{w.name:44}{row['inside'] * 1e6:9.0f} us"
                  f"{row['built'] * 1e6:9.0f} us{row['ratio']:7.2f}"
                  f"{row['bytes'] / 1024:7.0f}{row['build']:8.1f} s",
                  flush=True)
        except Failed as why:
            row, failed = {"error": str(why)}, True
            print(f"{w.name:44}{why}", flush=True)
        rows.append(dict(row, name=w.name))
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
