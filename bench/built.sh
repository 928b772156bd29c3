#!/bin/bash
# Compares functions that `axon build` compiles for symbolic sizes with the same
# functions under `axon bench`:
#   bench/built.sh                the workloads of bench/cpu.sh that have goals
#   bench/built.sh --all          also its other workloads
#   bench/built.sh conv softmax   workloads whose names contain these words
# Requires NumPy, in the environment of bench/cpu.sh or in python3.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
export PYTHONDONTWRITEBYTECODE=1
python=$BENCH_ROOT/venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$here/bench/cpu/built.py" "$@"
