#!/bin/bash
# The GPU compiler against cuBLAS, cuBLASLt, cuDNN, PyTorch (eager and
# compiled), FlexAttention and Triton, in one table:
#   bench/gpu.sh                    on a machine with a GPU, for 7 minutes
#   bench/gpu.sh gemm softmax       workloads with such names
#   bench/gpu.sh --minutes 60       all there are
#   bench/gpu.sh --dry              without one: is everything ready?
#   bench/gpu.sh --help             all there is to choose
# Peers are those of the python3 that is found (PYTHON names another): a line
# tells each that is missing.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-python3}" "$here/bench/gpu/run.py" "$@"
