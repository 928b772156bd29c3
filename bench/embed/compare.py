#!/usr/bin/env python3
"""Times MiniLM in Axon, ONNX Runtime and PyTorch, in one paired run.

    PYTHON bench/embed/compare.py FOLDER [--axon ./axon] [--threads N]
        [--rounds N]

FOLDER is the folder minilm of tools/models.sh.  Each round runs the three systems in turn
with the same tokens, and takes the best of several calls.  The ratios are
medians over rounds of the other system's time by Axon's.  The results are
compared first.  Needs torch, onnx, onnxscript, onnxruntime, numpy and
safetensors."""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SIZES = [(1, 16), (32, 128)]
CALLS = {(1, 16): 30, (32, 128): 3}
PROGRAM = """
val m = bert.open_model "{folder}"
val ids : i64[{b}, {n}] = load "ids.npy"
val used : bool[{b}, {n}] = load "used.npy"
fun once _ =
  let
    val t = clock ()
    val x = force (bert.pool m ids used)
  in
    clock () - t
  end
do save "axon.npy" (force (bert.pool m ids used))
do lists.iter (fn i => print (once i)) (lists.range 0 {calls})
"""


class MiniLM(torch.nn.Module):
    def __init__(self, folder):
        super().__init__()
        for name, w in load_file(
                os.path.join(folder, "model.safetensors")).items():
            if w.is_floating_point():
                self.register_buffer(name.replace(".", "/"), w)

    def linear(self, x, name):
        return F.linear(x, getattr(self, name + "/weight"),
                        getattr(self, name + "/bias"))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], getattr(self, name + "/weight"),
                            getattr(self, name + "/bias"), 1e-12)

    def forward(self, ids, used):
        b, n = ids.shape
        e = "embeddings/"
        x = (getattr(self, e + "word_embeddings/weight")[ids]
             + getattr(self, e + "position_embeddings/weight")[:n]
             + getattr(self, e + "token_type_embeddings/weight")[0])
        x = self.norm(x, e + "LayerNorm")
        for i in range(6):
            layer = f"encoder/layer/{i}/"

            def part(kind):
                y = self.linear(x, f"{layer}attention/self/{kind}")
                return y.reshape(b, n, 12, 32).transpose(1, 2)
            y = F.scaled_dot_product_attention(
                part("query"), part("key"), part("value"),
                attn_mask=used[:, None, None, :])
            y = y.transpose(1, 2).reshape(b, n, 384)
            y = self.linear(y, layer + "attention/output/dense")
            x = self.norm(x + y, layer + "attention/output/LayerNorm")
            y = F.gelu(self.linear(x, layer + "intermediate/dense"))
            y = self.linear(y, layer + "output/dense")
            x = self.norm(x + y, layer + "output/LayerNorm")
        mask = used[:, :, None].to(x.dtype)
        return F.normalize((x * mask).sum(1), dim=-1)


def best(f, calls):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def tokens(b, n):
    rng = np.random.default_rng(1)
    ids = rng.integers(1000, 30000, (b, n))
    lengths = rng.integers(n // 2, n + 1, b)
    lengths[0] = n
    return ids, np.arange(n) < lengths[:, None]


def compare(o, size, folder):
    b, n = size
    ids, used = tokens(b, n)
    np.save(os.path.join(folder, "ids.npy"), ids)
    np.save(os.path.join(folder, "used.npy"), used)
    with open(os.path.join(folder, "p.axn"), "w") as f:
        f.write(PROGRAM.format(folder=os.path.realpath(o.folder), b=b, n=n,
                               calls=CALLS[size]))
    env = dict(os.environ, AXON_THREADS=str(o.threads))

    def axon():
        out = subprocess.run([os.path.realpath(o.axon), "run", "p.axn"],
                             cwd=folder, env=env, text=True, check=True,
                             capture_output=True).stdout
        return min(float(x) for x in out.split())

    model = MiniLM(o.folder).eval()
    args = torch.from_numpy(ids), torch.from_numpy(used)
    path = os.path.join(folder, "m.onnx")
    torch.onnx.export(model, args, path, dynamo=True, verbose=False,
                      input_names=["ids", "used"], external_data=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    inputs = {"ids": ids, "used": used}
    with torch.inference_mode():
        axon()
        x = np.load(os.path.join(folder, "axon.npy"))
        for y in (model(*args).numpy(), session.run(None, inputs)[0]):
            assert abs(x - y).max() < 1e-4, abs(x - y).max()
        rounds = [(axon(), best(lambda: session.run(None, inputs),
                                CALLS[size]),
                   best(lambda: model(*args), CALLS[size]))
                  for _ in range(o.rounds)]
    times = [statistics.median(r[k] for r in rounds) for k in range(3)]
    ratio = [statistics.median(r[k] / r[0] for r in rounds) for k in (1, 2)]
    print(f"{b} x {n}: Axon {1e3 * times[0]:.2f} ms, ONNX Runtime "
          f"{1e3 * times[1]:.2f} ms ({ratio[0]:.2f} x), PyTorch "
          f"{1e3 * times[2]:.2f} ms ({ratio[1]:.2f} x)")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--axon", default=os.path.join(ROOT, "axon"))
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=5)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            compare(o, size, folder)


if __name__ == "__main__":
    main()
