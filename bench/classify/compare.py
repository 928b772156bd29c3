#!/usr/bin/env python3
"""Times EfficientNet-Lite0 in Axon, ONNX Runtime and PyTorch, in one paired
run.

    PYTHON bench/classify/compare.py FOLDER [--axon ./axon] [--threads N]
        [--rounds N] [--images N]

FOLDER comes from tools/models.sh.  Each round runs the three systems in turn on
the same images, and takes the best of several calls.  The ratios are medians
over rounds of the other system's time by Axon's.  The results are compared
first.  Needs torch, onnx, onnxscript, onnxruntime and numpy."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "oracle"))
from efficientnet import Net  # noqa: E402

CALLS = 10
PROGRAM = """
import "{root}/examples/classify/efficientnet" as net
val m = net.open_model "{weights}"
val x : f32[{n}, 3, 224, 224] = load "x.npy"
fun once _ =
  let
    val t = clock ()
    val y = force (net.logits m x)
  in
    clock () - t
  end
do save "axon.npy" (force (net.logits m x))
do lists.iter (fn i => print (once i)) (lists.range 0 {calls})
"""


def best(f):
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--axon", default=os.path.join(ROOT, "axon"))
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--images", type=int, default=1)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    weights = os.path.realpath(os.path.join(o.folder,
                                            "efficientnet-lite0.pth"))
    x = np.random.default_rng(1).uniform(
        -1, 1, (o.images, 3, 224, 224)).astype(np.float32)
    model = Net(weights).eval()
    env = dict(os.environ, AXON_THREADS=str(o.threads))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        np.save(os.path.join(folder, "x.npy"), x)
        with open(os.path.join(folder, "p.axn"), "w") as f:
            f.write(PROGRAM.format(root=ROOT, weights=weights, n=o.images,
                                   calls=CALLS))

        def axon():
            out = subprocess.run([os.path.realpath(o.axon), "run", "p.axn"],
                                 cwd=folder, env=env, text=True, check=True,
                                 capture_output=True).stdout
            return min(float(s) for s in out.split())

        path = os.path.join(folder, "m.onnx")
        images = torch.from_numpy(x)
        torch.onnx.export(model, (images,), path, dynamo=True, verbose=False,
                          input_names=["x"], external_data=False)
        session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"])
        axon()
        found = np.load(os.path.join(folder, "axon.npy"))
        for y in (model(images).numpy(), session.run(None, {"x": x})[0]):
            assert abs(found - y).max() < 1e-3, abs(found - y).max()
        rounds = [(axon(), best(lambda: session.run(None, {"x": x})),
                   best(lambda: model(images))) for _ in range(o.rounds)]
    times = [statistics.median(r[k] for r in rounds) for k in range(3)]
    ratio = [statistics.median(r[k] / r[0] for r in rounds) for k in (1, 2)]
    print(f"{o.images} x 224 x 224: Axon {1e3 * times[0]:.2f} ms, ONNX Runtime "
          f"{1e3 * times[1]:.2f} ms ({ratio[0]:.2f} x), PyTorch "
          f"{1e3 * times[2]:.2f} ms ({ratio[1]:.2f} x)")


if __name__ == "__main__":
    main()
