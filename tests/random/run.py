"""Compares random programs with their NumPy twins; tests/check_random.sh runs
a few of them:

    python3 tests/random/run.py [--axon PROGRAM] [--large] [--built N] SEEDS...
    python3 tests/random/run.py --cold [--large] SEEDS...
    python3 tests/random/run.py --grad [--cuda] SEEDS...

SEEDS are numbers or ranges (7 100-199).  Each program runs on the reference
backend, and compiled with one and with two threads, which must give
bit-identical results.  `axon build` also builds each Nth program as a function
of its files, for symbolic sizes.  With --cold, each program runs with the
default settings instead: with a cold kernel cache on one and on two threads,
then with the kernels of these runs, at last with optimized kernels only.  All
results must be bit-identical.

With --grad, a loss is computed from the results of the program, in f64, and
differentiated with respect to its floating-point files.  The gradient on the
reference backend agrees with central differences, unless two step sizes of the
differences disagree: then a kink is near.  It equals the gradient that compiled
code computes, up to rounding; with --cuda, also that of the target cuda.
Failing programs are reported, and stored in --keep.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from seeds import seeds
from twin import Twin

for forms in ("points", "folds", "products"):
    importlib.import_module(forms)

COMPILED = {"AXON_TARGET": "cpu", "AXON_TINY": "0"}
MODES = {
    "reference": {"AXON_TARGET": "reference"},
    "cpu, one thread": COMPILED | {"AXON_THREADS": "1"},
    "cpu, two threads": COMPILED | {"AXON_THREADS": "2"},
}
# As by default: small kernels may be interpreted while the compiler runs.  The
# compilation threshold is so low that small programs reach it.  The last mode
# restricts the process to one core, which the planner takes into account.
ONE_CORE = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
# The folder of the cache, the number of threads, when kernels are optimized, a
# prefix of the command.
COLD_MODES = {
    "cold, two threads": ("first", "2", "later", []),
    "cold, one thread": ("second", "1", "later", []),
    "warm, one thread": ("first", "1", "later", []),
    "warm, two threads": ("second", "2", "later", []),
    "warm, one core": ("first", "2", "later", ONE_CORE),
    "optimized, two threads": ("first", "2", "always", []),
}
CUDA = {"cuda": {"AXON_TARGET": "cuda", "AXON_TINY": "0"}}
# Tolerance relative to the largest element: about ten forms are nested, each of
# which may multiply the rounding error.
TOLERANCE = {"f32": 2e-3, "f64": 1e-7, "f16": .08, "bf16": .3}
LIMIT = 100  # timeout of a program in seconds
FILES = {"|b1": "bool", "|u1": "u8", "<i4": "i32", "<i8": "i64",
         "<f4": "f32", "<f8": "f64"}


class Wrong(Exception):
    """A program fails or gives wrong results."""


def run(command, folder, settings=None):
    """Exit status and standard error of a command."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True,
                              text=True, errors="replace", timeout=LIMIT,
                              env=os.environ | (settings or {}))
    except subprocess.TimeoutExpired:
        raise Wrong(f"{command[0]} takes more than {LIMIT} s") from None
    return done.returncode, done.stderr


def remove(folder):
    """Removes a folder into which a compiler may still write."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(.1)


def must(command, folder, settings):
    """Standard error of a command that succeeds."""
    status, said = run(command, folder, settings)
    if status:
        raise Wrong(f"exit status {status}: {said[-1500:]}")
    return said


def difference(got, want, tolerance):
    """Describes the difference; empty if there is none."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if want.dtype.kind != "f":
        return "" if (got == want).all() else "other integers"
    same = (got == want) | np.isnan(got) & np.isnan(want)
    numbers = np.isfinite(got) & np.isfinite(want)
    if not (same | numbers).all():
        return "nan or infinite at other places"
    if not numbers.any():
        return ""
    got, want = got[numbers].astype("f8"), want[numbers]
    largest = max(np.abs(want).max(), .1)
    error = np.abs(got - want)
    if error.max() <= tolerance * largest:
        return ""
    at = error.argmax()
    return f"{got[at]!r}, not {want[at]!r} (of up to {largest:.3g})"


class Case:
    """A program in a separate folder."""

    def __init__(self, options, seed):
        with np.errstate(all="ignore"):
            twin = Twin(seed, options.large)
            if options.grad:
                twin.element, twin.is_float = "f64", True
            self.twin = twin.program()
        self.axon = options.axon
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="axon_random_"))
        for name, v in self.twin.files.items():
            np.save(self.folder / f"{name}.npy", v)
        (self.folder / "program.axn").write_text(self.twin.source())

    def results(self, bits):
        """Compares saved results with the twin, and with previous results."""
        tolerance = TOLERANCE.get(self.twin.element, 0)
        for name, want in self.twin.results.items():
            path = self.folder / f"{name}.npy"
            if not path.exists():
                raise Wrong(f"no {name}")
            got = np.load(path)
            path.unlink()
            why = difference(got, want, tolerance)
            if why:
                raise Wrong(f"{name}: {why}")
            if bits.setdefault(name, got.tobytes()) != got.tobytes():
                raise Wrong(f"{name}: other bits than in the first run")

    def interpreted(self):
        bits = {}
        for mode, settings in MODES.items():
            try:
                said = must([self.axon, "program.axn"], self.folder, settings)
                if "error" in said:
                    raise Wrong(said)
                self.results({} if mode == "reference" else bits)
            except Wrong as wrong:
                raise Wrong(f"{mode}: {wrong}") from None

    def cold(self):
        """Runs with cold and with warm caches; results must be bit-identical."""
        bits = {}
        for mode, (cache, threads, optimize, prefix) in COLD_MODES.items():
            settings = {"AXON_TARGET": "cpu", "AXON_TINY": "2",
                        "AXON_THREADS": threads, "AXON_OPTIMIZE": optimize,
                        "XDG_CACHE_HOME": str(self.folder / cache)}
            try:
                said = must([*prefix, self.axon, "program.axn"], self.folder, settings)
                if "error" in said:
                    raise Wrong(said)
                self.results(bits)
            except Wrong as wrong:
                raise Wrong(f"{mode}: {wrong}") from None

    def body(self):
        """The declarations that load no file."""
        return [re.sub(r"^val ([vo]\d+) : \w+\[.*?\] =", r"val \1 =", line)
                for line in self.twin.lines if ' = load "' not in line]

    def gradient_source(self, parameters):
        """Saves the loss, its derivative along a direction (by the gradient and
        by differences with two step sizes), and the gradient."""
        names = ", ".join(parameters)
        results = "".join(f" + sum (sin (1.3 * {name}))"
                          for name in self.twin.results)
        loads = [line for line in self.twin.lines if ' = load "' in line]
        return "\n".join([
            *loads, f"fun loss ({names}) =", "let", *self.body(),
            f"in 0.0{results} end", f"val p = ({names})",
            "val u = each (fn v => cos (17.0 * v + 0.3)) p",
            "fun at h = loss (each2 (fn v d => v + h * d) p u)",
            "fun along h = (8.0 * (at h - at (-h)) - at (2.0 * h) + "
            "at (-2.0 * h)) / (12.0 * h)",
            "val g = grad loss p",
            "val slope = total id (each2 (fn v d => v * d) g u)",
            'do save "slopes.npy" [slope, along 0.0002, along 0.00005, loss p]',
            f"val ({names}) = g",
            *(f'do save "d{name}.npy" {name}' for name in parameters)]) + "\n"

    def gradient(self, cuda):
        """Compares gradients; returns whether differences were compared."""
        parameters = [name for name in self.twin.files if name[0] == "x"]
        if not parameters:
            return False
        (self.folder / "program.axn").write_text(
            self.gradient_source(parameters))
        wanted, bits = {}, {}
        for mode, settings in (MODES | (CUDA if cuda else {})).items():
            try:
                said = must([self.axon, "program.axn"], self.folder, settings)
                if "error" in said:
                    raise Wrong(said)
                for name in ["slopes", *("d" + x for x in parameters)]:
                    got = np.load(self.folder / f"{name}.npy")
                    if name == "slopes":
                        got = got[:1]
                    want = wanted.setdefault(name, got)
                    why = difference(got, want, TOLERANCE["f64"])
                    if why:
                        raise Wrong(f"{name}: {why}")
                    if mode.startswith("cpu") and got.tobytes() != \
                            bits.setdefault(name, got.tobytes()):
                        raise Wrong(f"{name}: other bits than on one thread")
                if mode == "reference":
                    slopes = np.load(self.folder / "slopes.npy")
            except Wrong as wrong:
                raise Wrong(f"{mode}: {wrong}") from None
        slope, wide, narrow, loss = slopes
        size = abs(wide) + abs(narrow) + 1e-2 * (1 + abs(loss))
        if not abs(wide - narrow) <= 1e-7 * size:
            return False
        if not abs(slope - narrow) <= 1e-6 * size:
            raise Wrong(f"the gradient gives {slope}, differences {narrow}")
        return True

    def function(self):
        """The program as a function of its files with symbolic sizes."""
        twin = self.twin
        holes = {name: ", ".join("_" * v.ndim)
                 for name, v in twin.files.items()}
        parameters = [f"({name} : {FILES[v.dtype.str]}[{holes[name]}])"
                      for name, v in twin.files.items()]
        return "\n".join([f"fun built {' '.join(parameters)} =", "let"] +
                         self.body() +
                         [f"in ({', '.join(twin.results)}) end"])

    def built(self):
        """Compares a built program; returns whether it could be built."""
        twin = self.twin
        if not twin.files or twin.element in ("f16", "bf16"):
            return False
        text = self.function()
        for _ in range(2):
            (self.folder / "built.axn").write_text(text)
            status, said = run([self.axon, "build", "--diagnostics", "json",
                                "-o", "built", "built.axn"], self.folder)
            said = [json.loads(line) for line in said.splitlines()]
            errors = [one for one in said if one["severity"] == "error"]
            if status == 0:
                break
            if not errors or any(one["code"] == "E0599" for one in errors):
                raise Wrong(f"axon build, exit status {status}: {said}")
            if any(one["code"] != "E0330" for one in errors):
                return False  # the size is unknown at compile time
            for one in sorted(errors, key=lambda one: -one["place"]["start"]):
                at = one["place"]["start"]
                size = one["message"].rpartition("it is ")[2]
                text = text[:at] + size + text[at + 1:]
        else:
            return False
        command, bits = ["./built"], {}
        for name in twin.results:
            command += ["-o", f"{name}.npy"]
        command += [f"{name}.npy" for name in twin.files]
        for threads in "12":
            try:
                must(command, self.folder, {"AXON_THREADS": threads})
                self.results(bits)
            except Wrong as wrong:
                raise Wrong(f"built, {threads} threads: {wrong}") from None
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--axon", default="./axon")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--grad", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--built", type=int, default=0)
    parser.add_argument("--keep", default="")
    parser.add_argument("seeds", nargs="+")
    options = parser.parse_args()
    options.axon = os.path.abspath(options.axon)
    wrong = built = compared = 0
    for i, seed in enumerate(seeds(options.seeds)):
        case = Case(options, seed)
        try:
            if options.grad:
                compared += case.gradient(options.cuda)
            else:
                case.cold() if options.cold else case.interpreted()
            if options.built and i % options.built == 0:
                built += case.built()
        except Wrong as why:
            wrong += 1
            print(f"seed {seed}: {why}", flush=True)
            if options.keep:
                shutil.copytree(case.folder, f"{options.keep}/{seed}",
                                dirs_exist_ok=True)
        finally:
            remove(case.folder)
    if options.grad:
        print(f"{i + 1} programs, {compared} of them compared with "
              f"differences, {wrong} wrong")
    else:
        print(f"{i + 1} programs, {built} of them built, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
