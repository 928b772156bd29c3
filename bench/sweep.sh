#!/bin/bash
# Some hundred one-liners, in Axon, NumPy and PyTorch, side by side:
#   bench/sweep.sh             all of them
#   bench/sweep.sh 'u8|scan'   those with such names
#   bench/sweep.sh --help      all there is to choose
# The peers are those that bench/cpu.sh has installed.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
export PYTHONDONTWRITEBYTECODE=1
[ -e "$BENCH_ROOT/venv/made" ] ||
  { echo 'bench/sweep.sh: run bench/cpu.sh first' >&2; exit 1; }
exec "$BENCH_ROOT/venv/bin/python" "$here/bench/sweep/run.py" "$@"
