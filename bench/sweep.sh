#!/bin/bash
# Compares about 350 one-line programs in Axon, NumPy and PyTorch:
#   bench/sweep.sh             all of them
#   bench/sweep.sh 'u8|scan'   those whose names match
#   bench/sweep.sh --help      all options
# bench/cpu.sh installs the peers.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
export PYTHONDONTWRITEBYTECODE=1
[ -e "$BENCH_ROOT/venv/made" ] ||
  { echo 'bench/sweep.sh: run bench/cpu.sh first' >&2; exit 1; }
exec "$BENCH_ROOT/venv/bin/python" "$here/bench/sweep/run.py" "$@"
