#!/usr/bin/python3
"""Compares random programs of tensor operations with NumPy:

    /usr/bin/python3 tests/fuzz/numeric.py [--seed S] [--count N] [--axon ./axon]

Each program is a chain of operations on arrays that are read from files.  It
runs in one of several equivalent forms: at top level, in a function, with
unknown sizes, or under a `for` over a batch.  Integers must be equal.  Floats
must be equal if the result of NumPy is exact or rounded once; otherwise they
may differ by a few rounding errors.  All programs run in one session of the
REPL, so that a failing program does not end the others.  Differences are
printed with the program, and stored in the directory --keep.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

from operations import OPS
from values import EPS, NP, SAFE, Program, Skip, is_float


# ---- files ----

def write_safe(path, dt, arr):
    arr = np.array(arr, order="C")
    raw = (arr.view(np.uint32) >> 16).astype(np.uint16).tobytes() \
        if dt == "bf16" else arr.tobytes()
    head = json.dumps({"x": {"dtype": SAFE[dt], "shape": list(arr.shape),
                             "data_offsets": [0, len(raw)]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + raw)


def read_safe(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    (e,) = head.values()
    dt = {v: k for k, v in SAFE.items()}[e["dtype"]]
    body = raw[8 + n:][e["data_offsets"][0]:e["data_offsets"][1]]
    if dt == "bf16":
        arr = (np.frombuffer(body, np.uint16).astype(np.uint32)
               << 16).view(np.float32)
    else:
        arr = np.frombuffer(body, NP[dt])
    return dt, arr.reshape(e["shape"])


# ---- programs ----

MODES = ["plain", "plain", "function", "forget", "for", "top"]


def generate(rng):
    while True:
        p = Program(rng, rng.choice(MODES))
        want = rng.randint(1, 6)
        for _ in range(60):
            if len(p.steps) >= want:
                break
            try:
                rng.choice(OPS)(p)
            except Skip:
                pass
        if p.steps:
            return p


def source(p, d, k):
    """The source of one program, on one line, and its inputs as files."""
    lines = []
    used = {a for s in p.steps for a in s[3]}
    p.inputs = [x for x in p.inputs if x[0] in used]
    for name, dt, arrays in p.inputs:
        arr = np.stack(arrays) if p.mode == "for" else arrays[0]
        write_safe(f"{d}/{k}_{name}.safetensors", dt, arr)
        x = f'load "{d}/{k}_{name}.safetensors"'
        lines.append(f"val {name} = " +
                     (f"forget ({x})" if p.mode == "forget" else x))
    body = " ".join(f"val {n} = {t}" for n, t, _, _ in p.steps[:-1])
    last = p.steps[-1][1]
    expr = f"let {body} in {last} end" if body else f"({last})"
    names = [n for n, _, _ in p.inputs]
    if p.mode == "function" and names:
        lines.append(f"fun f {' '.join(names)} = {expr}")
        expr = f"f {' '.join(names)}"
    elif p.mode == "for" and names:
        rows = []
        for name, _, arrays in p.inputs:
            dots = ", :" * arrays[0].ndim
            rows.append(f"val {name} = {name}.[b{dots}]")
        expr = f"for b < {p.batch} => let {' '.join(rows)} in {expr} end"
    elif p.mode == "top":
        lines += [f"val {n} = {t}" for n, t, _, _ in p.steps[:-1]]
        expr = last
    lines.append(f'save "{d}/{k}_out.safetensors" ({expr})')
    return lines


def differs(want, got, dt, p, is_exact):
    if want.shape != got.shape:
        return f"shape {got.shape}, NumPy {want.shape}"
    if not is_float(dt):
        return None if np.array_equal(want, got) else "elements"
    w, g = want.astype(np.float64), got.astype(np.float64)
    same = (w == g) | (np.isnan(w) & np.isnan(g))
    if is_exact:
        if not same.all():
            return "elements"
        zero = (w == 0) & (np.signbit(w) != np.signbit(g))
        return "sign of zero" if p.zeros and zero.any() else None
    scale = np.nanmax(np.where(np.isfinite(w), np.abs(w), 0), initial=0)
    tol = p.loose * len(p.steps) * EPS[dt] * np.maximum(np.abs(w), scale)
    near = np.abs(w - g) <= tol + 1e-30
    big = (np.abs(w) > 3e4) if dt == "f16" else np.abs(w) > 1e38
    return None if (same | near | big).all() else "elements"


def run(args):
    rng = random.Random(args.seed)
    failed = done = 0
    while done < args.count:
        d = tempfile.mkdtemp(prefix="axon_numeric_")
        batch, text = [], []
        for k in range(min(args.batch, args.count - done)):
            p = generate(rng)
            lines = source(p, d, k)
            batch.append((k, p, lines))
            text += [f'write "@{k}\\n"'] + lines
        with open(f"{d}/in", "w") as f:
            f.write("\n".join(text) + "\n")
        out = subprocess.run([args.axon, "repl", "--plain"],
                             stdin=open(f"{d}/in"), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=900).stdout
        out = out.decode("utf-8", "replace")
        for k, p, lines in batch:
            done += 1
            path = f"{d}/{k}_out.safetensors"
            last = [x for x in p.values if x.name == p.steps[-1][0]][0]
            said = out.split(f"\n@{k}\n")[-1].split("\n> write ")[0]
            if not os.path.exists(path) and "fails at ?" in said:
                why = None          # the type checker rejects ?m == 0
            elif not os.path.exists(path):
                why = "no result"
            else:
                want = [p.expected(b) for b in range(p.batch)]
                named = p.mode == "for" and p.inputs
                want = np.stack(want) if named else want[0]
                dt, got = read_safe(path)
                why = f"type {dt}, not {last.dt}" if dt != last.dt else \
                    differs(want, got, dt, p, last.exact)
                if why:
                    why += f"\nNumPy {want.tolist()}\nAxon  {got.tolist()}"
            if why:
                failed += 1
                print(f"---- {args.seed}/{done} ({p.mode}): {why}")
                print("\n".join(lines))
                if not os.path.exists(path):
                    print("\n".join(x for x in said.split("\n")
                                    if not x.startswith("> ")
                                    and not x.startswith("val "))[:900])
                for n, dt, arrs in p.inputs:
                    print(n, dt, arrs[0].shape,
                          str(np.stack(arrs).tolist())[:300])
                if args.keep:
                    os.makedirs(args.keep, exist_ok=True)
                    for n in os.listdir(d):
                        if n.startswith(f"{k}_"):
                            shutil.copy(f"{d}/{n}", args.keep)
        shutil.rmtree(d)
    print(f"{done - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=500)
    a.add_argument("--batch", type=int, default=100)
    a.add_argument("--axon", default="./axon")
    a.add_argument("--keep")
    sys.exit(run(a.parse_args()))
