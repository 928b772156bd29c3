#!/bin/bash
# Compares the CPU compiler with NumPy, PyTorch (eager and compiled), JAX, ONNX
# Runtime and oneDNN:
#   bench/cpu.sh                    the workloads that have goals
#   bench/cpu.sh softmax matmul     workloads whose names contain these words
#   bench/cpu.sh --help             all options
# pip installs the peers in a virtual environment of the benchmark.  Its own
# settings (PIP_INDEX_URL and others) apply.  The environment takes 6 GB, since
# PyTorch requires the CUDA libraries.  oneDNN requires Debian's libdnnl-dev.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
venv=$BENCH_ROOT/venv
export PYTHONDONTWRITEBYTECODE=1

# The newest installed Python that PyTorch supports.
python() {
  for version in 3.14 3.13 3.12 3.11 3.10; do
    "python$version" -c 'import venv, ensurepip' 2>/dev/null &&
      echo "python$version" && return
  done
  echo python3
}

if [ ! -e "$venv/made" ]; then
  echo "bench/cpu.sh: installing the peers in $venv (once)" >&2
  mkdir -p "$BENCH_ROOT"
  "$(python)" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet numpy scipy torch jax \
    onnx onnxscript onnxruntime >&2
  touch "$venv/made"
fi
if ! echo '#include <dnnl.h>' | ${CXX:-c++} -E -x c++ - >/dev/null 2>&1; then
  echo 'bench/cpu.sh: without oneDNN; to have it: apt install libdnnl-dev' >&2
fi
exec "$venv/bin/python" "$here/bench/cpu/run.py" "$@"
