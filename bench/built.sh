#!/bin/bash
# What `axon build` makes of a function, for sizes that stay open, against the
# same function as `axon bench` runs it, side by side:
#   bench/built.sh                the workloads of bench/cpu.sh that have goals
#   bench/built.sh --all          and its others
#   bench/built.sh conv softmax   those with such names
# NumPy is wanted, of the environment that bench/cpu.sh makes, or of python3.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
export BENCH_ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/axon-bench
export PYTHONDONTWRITEBYTECODE=1
python=$BENCH_ROOT/venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$here/bench/cpu/built.py" "$@"
