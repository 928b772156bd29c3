#!/bin/bash
# Compares the GPU compiler with cuBLAS, cuBLASLt, cuDNN, PyTorch (eager and
# compiled), FlexAttention and Triton, in one table:
#   bench/gpu.sh                    on a machine with a GPU, for 7 minutes
#   bench/gpu.sh gemm softmax       workloads whose names contain these words
#   bench/gpu.sh --minutes 60       all workloads
#   bench/gpu.sh --dry              without a GPU: checks that all is ready
#   bench/gpu.sh --help             all options
# The peers are packages of python3, or of the Python that PYTHON names.  A line
# reports each missing peer.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-python3}" "$here/bench/gpu/run.py" "$@"
