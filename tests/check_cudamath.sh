#!/bin/bash
# Compares the math functions of GPU kernels (backend/cuda/prelude/kernel.inc)
# with libm:
#   tests/check_cudamath.sh [STEP]
# Tests every STEP-th float (default 40009).  Prints the functions whose error
# exceeds the documented bound.
set -u
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null || { echo 'no C compiler: skipped'; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo "#include \"$here/tests/cudamath.c\""
  sed -n '/^\/\/@ ax_tanh_f/,/^\/\/@ floor_div/p' \
    "$here/backend/cuda/prelude/kernel.inc"
  echo "#include \"$here/tests/cudamath.c\""
} >"$work/math.c"
cc -O2 -std=gnu11 -ffp-contract=off -fno-math-errno -Wall -Wextra \
  -DSTEP="${1:-40009}" "$work/math.c" -o "$work/math" -lm || fail 'no program'
"$work/math" >"$work/output" || fail "$(cat "$work/output")"
exit "$bad"
