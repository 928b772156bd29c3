"""Runs one-line programs in Axon, NumPy and PyTorch.  bench/sweep.sh runs it.
Prints for each the median of alternating rounds in microseconds, and the ratio
of Axon's time to that of the faster peer, the largest ratio first."""

import argparse
import fcntl
import json
import os
import pathlib
import re
import statistics
import subprocess
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import numpy as np
import torch

from cases import CASES

HERE = pathlib.Path(__file__).parent
MILLION = 1_000_000


def integers(rng, name):
    """Random integers without zeros, since they are divisors."""
    limits = np.iinfo(name)
    x = rng.integers(max(limits.min, -MILLION), min(limits.max, MILLION),
                     MILLION).astype(name)
    return np.where(x == 0, 3, x).astype(name)


def inputs():
    rng = np.random.default_rng(0)

    def floats(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    a = {name: floats(MILLION) for name in ("x", "y")}
    a["p"] = np.abs(a["y"]) + np.float32(.01)
    a["xs"], a["pq"] = a["x"] * np.float32(1e-4), 1 + a["y"] * np.float32(1e-4)
    a["d"], a["d2"] = rng.standard_normal((2, MILLION))
    a["dp"] = np.abs(a["d"]) + .01
    a["q"], a["p1"] = np.tanh(a["x"]), a["p"] + np.float32(1)
    a["dq"], a["dp1"] = np.tanh(a["d"]), a["dp"] + 1
    for name, dtype in zip("usil", ("uint8", "int8", "int32", "int64")):
        a[name], a[name + "2"] = integers(rng, dtype), integers(rng, dtype)
    a["h"], a["h2"] = (floats(MILLION).astype(np.float16) for _ in "12")
    a["m"], a["mm"] = floats(MILLION) > 0, floats(1000, 1000) > 0
    a["none"] = np.zeros((1000, 1000), bool)
    a["xx"], a["yy"] = floats(1000, 1000), floats(1000, 1000)
    a["dd"] = rng.standard_normal((1000, 1000))
    a["hh"] = floats(1000, 1000).astype(np.float16)
    a["ii"] = rng.integers(-1000, 1000, (1000, 1000)).astype(np.int32)
    a["uu"] = rng.integers(0, 255, (1000, 1000)).astype(np.uint8)
    a["cube"], a["four"] = floats(100, 100, 100), floats(32, 32, 32, 32)
    a["x4"], a["r"], a["r2"] = floats(250000), floats(1000), floats(1000)
    a["ten"] = floats(100000, 10)
    a["k"] = rng.integers(0, 250000, MILLION)
    a["k4"] = rng.integers(0, 100, 20000)
    a["k4s"] = rng.integers(0, 1000, 20000)
    a["w64"], a["w64s"], a["w3"] = floats(20000, 64), floats(20000, 64), \
        floats(250000, 3)
    a["along"] = rng.integers(0, 1000, (1000, 1000))
    a["k10"], a["k10b"] = rng.integers(0, 1000, (2, MILLION))
    a["k100"] = rng.integers(0, 100, MILLION)
    a["z1"], a["z100"] = np.zeros(250000, np.float32), np.zeros(100, np.float32)
    a["zr"] = np.zeros((1000, 64), np.float32)
    a["bags"] = rng.integers(0, 20000, (2000, 32))
    return a


def timed(f, seconds, fastest):
    """The median or the smallest time of several calls."""
    times, end = [], time.perf_counter() + seconds
    f()
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) if fastest else statistics.median(times)


class Axon:
    def __init__(self, o, folder, arrays, cases):
        self.program, self.folder = o.axon, folder
        self.time = "least" if o.fastest else "median"
        self.env = dict(os.environ, AXON_KEEP="0", AXON_OPTIMIZE="always",
                        AXON_THREADS=str(o.threads))
        text = [f'val {name} = load "{name}.npy"' for name in arrays]
        text += ["val bh = bf16 h", "val bh2 = bf16 h2"]
        text += [f"fun case{k} () = {c[1]}" for k, c in enumerate(cases)]
        self.names = [f"case{k}" for k in range(len(cases))]
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "sweep.axn").write_text("\n".join(text) + "\n")

    def times(self, seconds, **more):
        run = subprocess.run(
            [self.program, "bench", "-q", "--json", "--seconds", str(seconds),
             "sweep.axn", *self.names], cwd=self.folder, check=True,
            capture_output=True, text=True,
            env=dict(self.env, **more))
        return [row.get(self.time, float("nan"))
                for row in json.loads(run.stdout)["results"]]


def functions(cases, arrays, threads):
    torch.set_num_threads(threads)
    own = {"np": np, "rng": np.random.default_rng(1), **arrays}
    theirs = {"torch": torch} | {name: torch.from_numpy(x)
                                 for name, x in arrays.items()}
    for name in ("h", "h2"):
        theirs["b" + name] = theirs[name].to(torch.bfloat16)
    return [tuple(text and eval("lambda: " + text, names)
                  for text, names in ((c[2], own), (c[3], theirs)))
            for c in cases]


def report(cases, rows):
    def text(x):
        return f"{x * 1e6:10.1f}" if x else " " * 10

    lines = []
    for (name, *_), (axon, *others) in zip(cases, rows):
        best = min((x for x in others if x), default=None)
        lines.append((axon / best if best else 0, name, axon, *others))
    for ratio, name, *times in sorted(lines, reverse=True):
        print(f"{ratio:7.2f} {name:28}", *map(text, times))


def options():
    text = argparse.ArgumentParser(prog="bench/sweep.sh", description=__doc__)
    text.add_argument("filter", nargs="?", default="",
                      help="a regular expression of names")
    text.add_argument("--axon", default=str(HERE.parent.parent / "axon"))
    text.add_argument("--fastest", action="store_true",
                      help="the fastest call instead of the median: for a "
                           "machine with other work")
    text.add_argument("--rounds", type=int, default=3)
    text.add_argument("--seconds", type=float, default=0.02)
    text.add_argument("--threads", type=int,
                      default=len(os.sched_getaffinity(0)))
    return text.parse_args()


def main():
    o = options()
    cases = [c for c in CASES if re.search(o.filter, c[0])]
    folder = pathlib.Path(os.environ["BENCH_ROOT"]) / "sweep"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = inputs()
    axon = Axon(o, folder, arrays, cases)
    peers = functions(cases, arrays, o.threads)
    axon.times(0.001, AXON_TINY="0")    # compiles all programs and waits
    lock = os.environ.get("AXON_BENCH_LOCK")
    held = open(lock, "a") if lock else None
    rows = [([], [], []) for _ in cases]
    for _ in range(o.rounds):
        if held:
            fcntl.flock(held, fcntl.LOCK_EX)
        for row, x in zip(rows, axon.times(o.seconds)):
            row[0].append(x)
        for row, pair in zip(rows, peers):
            for times, f in zip(row[1:], pair):
                if f:
                    times.append(timed(f, o.seconds, o.fastest))
        if held:
            fcntl.flock(held, fcntl.LOCK_UN)
    print("  ratio", " " * 28, "      Axon      NumPy    PyTorch")
    middle = min if o.fastest else statistics.median
    report(cases, [[x and middle(x) for x in row] for row in rows])


main()
