#!/bin/bash
# Compares two builds of axon on the workloads of bench/cpu.sh:
#   bench/paired.sh OLD NEW [NAME...]     workloads whose names contain NAME
#   bench/paired.sh --help
# Requires python3 and NumPy.
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy' 2>/dev/null && break
done
exec "$python" "$here/bench/cpu/paired.py" "$@"
