#!/usr/bin/env python3
"""Compares an exported model with Axon: MODEL INPUTS RESULTS.  The inputs are
in0.npy ..., the results of Axon out0.npy ...  Prints the largest error.

Called by tests/check_onnx_export.sh."""
import sys
import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(3)
path, inputs, results = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
onnx.checker.check_model(onnx.load(path), full_check=True)
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
names = [i.name for i in session.get_inputs()]
feeds = {n: np.load(f"in{k}.npy") for k, n in zip(range(inputs), names)}
worst = 0.0
for k, got in enumerate(session.run(None, feeds)):
    want = np.load(f"out{k}.npy")
    if got.shape != want.shape or got.dtype != want.dtype:
        sys.exit(f"result {k}: {got.dtype}{got.shape}, not "
                 f"{want.dtype}{want.shape}")
    error = np.abs(got.astype("f8") - want) / np.maximum(1, np.abs(want))
    worst = max(worst, error.max(initial=0))
print(f"max error {worst:.1e}")
sys.exit(int(worst > 1e-4))
