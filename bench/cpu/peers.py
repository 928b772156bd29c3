"""Starts the processes of the peers and sends requests to them."""

import json
import os
import pathlib
import select
import statistics
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
PEERS = ("numpy", "torch", "torch.compile", "jax", "onnxruntime", "onednn")
CORE_TYPES = ("", "Haswell", "SkylakeX", "Cooperlake", "SapphireRapids", "Zen")


class Failed(Exception):
    pass


def environment(threads, scratch, core_type):
    env = dict(os.environ, BENCH_THREADS=str(threads),
               BENCH_SCRATCH=str(scratch), PYTHONDONTWRITEBYTECODE="1",
               TORCHINDUCTOR_CACHE_DIR=f"{scratch}/inductor",
               JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
    for name in ("OMP", "OPENBLAS", "MKL"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    if core_type:
        env["OPENBLAS_CORETYPE"] = core_type
    return env


class Peer:
    """A process that serves requests; started when first needed, and again
    after it had to be ended."""

    def __init__(self, name, command, env):
        self.name, self.command = name, command
        self.env = dict(env, BENCH_PEER=name)
        self.process = None

    def start(self):
        log = open(f"{self.env['BENCH_SCRATCH']}/{self.name}.log", "a")
        self.process = subprocess.Popen(
            self.command, env=self.env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()

    def ask(self, do, timeout, **request):
        if not self.process:
            self.start()
        try:
            print(json.dumps(dict(request, do=do)), file=self.process.stdin,
                  flush=True)
            ready, _, _ = select.select([self.process.stdout], [], [], timeout)
            line = self.process.stdout.readline() if ready else None
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            raise Failed("it took too long" if line is None else "it crashed")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def version(self):
        try:
            return self.ask("version", 60)["version"]
        except Failed as why:
            return f"{self.name} is not there ({why})"

    def take(self, workload, folder, timeout):
        return self.ask("take", timeout, name=workload.name,
                        folder=str(folder))

    def time(self, seconds, timeout):
        times = sorted(self.ask("time", timeout, seconds=seconds)["samples"])
        return {"median": statistics.median(times), "least": times[0]}

    def result(self, timeout):
        path = f"{self.env['BENCH_SCRATCH']}/{self.name}.npy"
        self.ask("save", timeout, path=path)
        return np.load(path)

    def drop(self):
        if self.process:
            try:
                self.ask("drop", 30)
            except Failed:
                pass

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def best_core_type(python, threads, scratch):
    """The OPENBLAS_CORETYPE with which NumPy multiplies matrices fastest."""
    program = ("import numpy as n, time\n"
               "a = n.ones((1024, 1024), 'f'); a @ a; t = []\n"
               "for _ in range(20):\n"
               "    s = time.perf_counter(); a @ a\n"
               "    t.append(time.perf_counter() - s)\n"
               "print(min(t))")
    times = {}
    for kind in CORE_TYPES:
        run = subprocess.run([python, "-c", program], text=True,
                             env=environment(threads, scratch, kind),
                             capture_output=True, timeout=60)
        if run.returncode == 0:
            times[kind] = float(run.stdout)
    return min(times, key=times.get), times


def start_all(names, threads, scratch, core_type):
    env = environment(threads, scratch, core_type)
    command = [sys.executable, str(HERE / "worker.py")]
    return [Peer(name, command, env) for name in names]
