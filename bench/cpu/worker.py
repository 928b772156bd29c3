"""The process of a peer. It reads requests, one JSON line each, and answers
with JSON lines: `take` a workload, `time` it for some seconds, `save` its
result, `drop` it."""

import importlib
import json
import os
import pathlib
import sys
import time
import traceback

import numpy as np

import data
import memory
import workloads

MODULES = {"numpy": "peer_numpy", "torch": "peer_torch",
           "torch.compile": "peer_torch", "jax": "peer_jax",
           "onednn": "peer_onednn",
           "onnxruntime": "peer_onnx"}
LEAST = 2e-3                    # seconds of a sample: calls repeat until then


def timed(f, count):
    start = time.perf_counter()
    for _ in range(count):
        f()
    return time.perf_counter() - start


def measure(f, seconds):
    """Seconds of a call, several times."""
    one = timed(f, 1)
    count = max(1, int(LEAST / max(one, 1e-7)))
    end = time.perf_counter() + seconds
    samples = []
    while len(samples) < 3 or time.perf_counter() < end:
        samples.append(timed(f, count) / count)
        if samples[-1] * count > seconds:
            break
    return samples


class Worker:
    def __init__(self, peer):
        self.peer = importlib.import_module(MODULES[peer])
        self.by_name = {w.name: w for w in workloads.ALL}
        self.f = None

    def take(self, name, folder):
        w = self.by_name[name]
        supports = getattr(self.peer, "supports", None)
        if not (supports(w) if supports else hasattr(self.peer, w.kernel)):
            return {"absent": True}
        self.f = self.peer.prepare(w, data.read(pathlib.Path(folder), w))
        start = time.perf_counter()
        self.f()
        first = time.perf_counter() - start
        timed(self.f, 2 if first < 1 else 0)
        return {"first": first}

    def memory(self, name, folder):
        before = memory.status_bytes("VmRSS")
        memory.forget_peak()
        if "absent" in self.take(name, folder):
            return {}
        measure(self.f, 0.1)
        return {"bytes": memory.status_bytes("VmHWM") - before}

    def time(self, seconds):
        return {"samples": measure(self.f, seconds)}

    def save(self, path):
        np.save(path, self.peer.finish(self.f()))
        return {}

    def drop(self):
        self.f = None
        return {}

    def version(self):
        return {"version": self.peer.VERSION}


def serve(peer):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)               # output of libraries is not an answer
    worker = Worker(peer)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(os.environ["BENCH_PEER"])
