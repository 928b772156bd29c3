#!/bin/bash
# Compares random programs with fixed seeds with NumPy (tests/random/run.py runs
# any number of others).  The programs run on the reference backend, compiled
# with one and two threads, and some built with `axon build`.  Other programs
# run with a cold and with a warm kernel cache; results must be bit-identical.
# The gradients of others are compared with central differences.  The last ones
# nest derivatives, control flow and loops; compiled, they give the results of
# the reference backend.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
export PYTHONDONTWRITEBYTECODE=1
for python in python3 /usr/bin/python3 none; do
  "$python" -c 'import numpy' 2>/dev/null && break
done
if [ "$python" = none ]; then
  echo 'skipped: NumPy is not installed'
  exit 0
fi
output=$("$python" tests/random/run.py --axon "$AXON" --built 2 1-16 2>&1) ||
  { printf '%s\n' "$output" && exit 1; }
# `axon build` accepts at least three of the eight programs that it tries.
case $output in
'16 programs, '[3-8]' of them built, 0 wrong') ;;
*) printf '%s\n' "$output" && exit 1 ;;
esac
output=$("$python" tests/random/run.py --axon "$AXON" --cold 201-224 2>&1) ||
  { printf '%s\n' "$output" && exit 1; }
export AXON_OPTIMIZE=sample
output=$("$python" tests/random/run.py --axon "$AXON" --grad 1-2 2>&1) &&
  [[ $output == '2 programs, 2 of them compared with differences, 0 wrong' ]] ||
  { printf '%s\n' "$output" && exit 1; }
unset AXON_OPTIMIZE
output=$("$python" tests/random/derivatives.py --axon "$AXON" 1-6 2>&1) ||
  { printf '%s\n' "$output" && exit 1; }
