#!/bin/bash
# Tests tests/close.awk: which differences it accepts, and which it rejects.
set -u
awk=$(cd "$(dirname "$0")" && pwd)/close.awk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
same() { # same STATUS EXPECTED ACTUAL
  printf '%b' "$2" >"$work/expected"
  printf '%b' "$3" >"$work/actual"
  awk -f "$awk" "$work/expected" "$work/actual" >"$work/why"
  status=$?
  [ "$status" = "$1" ] && return
  printf '%s and %s: status %s, expected %s\n' "$2" "$3" "$status" "$1"
  bad=1
}
same 0 '[1.5, 2.0]\n' '[1.5, 2.0]\n'
same 0 '[1.50000, 0.00001]\n' '[1.50001, 0.00002]\n'
same 0 'x = 3.1415927 of 10\n' 'x =  3.141593 of 10\n'
# The tolerance depends on the largest number in the same outermost brackets.
same 0 '[[1000.0,\n  0.001]]\n' '[[1000.0,\n  0.009]]\n'
same 0 '1e-05 -0.0 nan 1.0\n' '1.0000001e-05 0.0 nan 1.0\n'
same 0 '' ''
same 1 '[1000.0]\n[0.001]\n' '[1000.0]\n[0.009]\n'
same 1 '[1000.0] 0.001\n' '[1000.0] 0.009\n'
same 1 '1000.0 0.001\n' '1000.0 0.009\n'
same 1 '1.5\n' '1.6\n'
same 1 '1.5\n' '-1.5\n'
same 0 '1.500\n' '1.501\n'
same 1 '1.500\n' '1.502\n'
same 1 '1.5\n' '1.5 1.5\n'
same 1 '1.5 1.5\n' '1.5\n'
same 1 '3\n' '4\n' # integers must be equal
same 1 '3\n' '3.0\n'
same 1 'f32 1.0\n' 'f64 1.0\n'
same 1 'nan\n' 'inf\n'
same 1 '[1.0, 2.0]\n' '[1.0\n 2.0]\n'
same 1 'x1.5\n' 'x1.6\n' # names must be equal
same 1 '1.0\n' '1.0\nmore\n'
same 1 '2e10\n' '2.1e10\n'
exit "$bad"
