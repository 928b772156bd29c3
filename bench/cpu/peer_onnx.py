"""The workloads in ONNX Runtime: the models that PyTorch exports."""

import io
import os
import warnings
import logging

import onnxruntime
import torch

import peer_torch

warnings.filterwarnings("ignore")
logging.getLogger("torch.onnx").setLevel(logging.ERROR)
VERSION = f"ONNX Runtime {onnxruntime.__version__}"
UNSUITED = ("matmul_bf16", "heat", "kmeans", "nbody", "transposed")


def supports(workload):
    return workload.kernel not in UNSUITED


def prepare(workload, inputs):
    module, arguments = peer_torch.held(workload, inputs)
    path = f"{os.environ['BENCH_SCRATCH']}/exported.onnx"
    torch.onnx.export(module, tuple(arguments), path, dynamo=True,
                      verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["BENCH_THREADS"])
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    feed = {slot.name: x.numpy()
            for slot, x in zip(session.get_inputs(), arguments)}
    return lambda: session.run(None, feed)[0]


def finish(result):
    return result
