"""Runs Axon's workloads: `axon bench` in one process per round, and `axon run`
for the results."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import numpy as np

from peers import Failed

KERNELS = pathlib.Path(__file__).parent / "kernels"


class Axon:
    name = "axon"

    def __init__(self, program, threads, scratch, target):
        self.program = str(pathlib.Path(program).resolve())
        self.scratch = scratch
        self.env = dict(os.environ, AXON_THREADS=str(threads),
                        AXON_OPTIMIZE="always",
                        AXON_TARGET=target)

    def call(self, timeout, *arguments, cwd=None, env=None):
        try:
            run = subprocess.run([self.program, *arguments], cwd=cwd,
                                 env=env or self.env, timeout=timeout,
                                 capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            raise Failed(f"it took more than {timeout:.0f} s") from None
        if run.returncode:
            lines = (run.stderr or run.stdout).strip().splitlines()
            raise Failed(lines[0] if lines else f"status {run.returncode}")
        return run.stdout

    def doctor(self):
        return json.loads(self.call(60, "doctor", "--json"))

    def take(self, workload, folder, timeout):
        self.kernel = KERNELS / f"{workload.kernel}.axn"
        self.folder = folder
        # What peers have prepared once may be kept in other forms here, too;
        # else each call begins with what it is given.
        self.env["AXON_KEEP"] = "" if workload.constants else "0"
        self.half = workload.peak == "bf16"     # .npy has no such elements

    def result(self, timeout):
        """The result of the function, which the program saves."""
        path = pathlib.Path(self.scratch) / "axon.npy"
        path.unlink(missing_ok=True)
        module = os.path.relpath(self.kernel.with_suffix(""), self.folder)
        check = pathlib.Path(self.folder) / "check.axn"
        what = "f32 (it.result ())" if self.half else "it.result ()"
        check.write_text(f'import "{module}" as it\n'
                         f'do save "{path}" ({what})\n')
        self.call(timeout, "run", "-q", "check.axn", cwd=self.folder)
        return np.load(path)

    def time(self, seconds, timeout):
        text = self.call(timeout, "bench", "-q", "--json", "--seconds",
                         str(seconds), str(self.kernel), "result",
                         cwd=self.folder)
        row = json.loads(text)["results"][0]
        if "error" in row:
            raise Failed(row["error"])
        return row

    def drop(self):
        pass

    def end(self):
        pass

    def cold_cache(self):
        return pathlib.Path(self.scratch) / "cold-cache"

    def cold(self, program, folder):
        """A process that runs a small program."""
        env = dict(self.env, XDG_CACHE_HOME=str(self.cold_cache()))
        self.call(60, "run", str(program), cwd=folder, env=env)

    def cold_before(self, cached):
        """Before such a process: what the one before it has left to be compiled
        is waited for, and forgotten unless it is to be found."""
        cache = self.cold_cache()
        until = time.monotonic() + 10
        while (cache.exists() and not list(cache.rglob("*.so"))
               and time.monotonic() < until):
            time.sleep(0.01)
        if not cached:
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir(exist_ok=True)
