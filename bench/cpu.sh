#!/bin/bash
# The CPU compiler against NumPy, PyTorch (eager and compiled), JAX, ONNX
# Runtime and oneDNN, side by side:
#   bench/cpu.sh                    the workloads that have goals
#   bench/cpu.sh softmax matmul     those with such names
#   bench/cpu.sh --help             all there is to choose
# Peers are put into a virtual environment of the benchmark's own, by pip, whose
# own settings hold (PIP_INDEX_URL and the like); with the CUDA libraries that
# PyTorch asks for it takes 6 GB.  oneDNN wants Debian's libdnnl-dev.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
venv=$BENCH_ROOT/venv
export PYTHONDONTWRITEBYTECODE=1

# The newest Python that there is and PyTorch may be had for.
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
