#!/bin/bash
# Compares the math functions of generated kernels (backend/cpu/prelude/) with
# libm in a wider type:
#   tests/math.sh [STEP [LANES [FLAG...]]]
# Tests every STEP-th float (default 1009; 1 tests all, in some minutes), with
# LANES lanes (default 16) and compiler flags (default -march=native).  ONLY
# names one function (exp, or exp_d for doubles).  RUN is a command that runs
# the program, such as an emulator.  Prints the largest error of each function
# in ulp, and fails if it exceeds the documented bound.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step=${1:-1009} lanes=${2:-16}
[ $# -gt 2 ] && shift 2 || set -- -march=native
{
  echo "#define W $lanes"
  for part in vector_types load_store argmax math_f32 math_f64 integer \
    random; do
    echo "#include \"$here/backend/cpu/prelude/$part.inc\""
  done
  echo "#include \"$here/tests/math.c\""
} >"$work/math.c"
# Random numbers are compared with those of the library, if it was built.
library=${BUILD:-$here}/.libs/libcore.a reference=()
if [ -z "${RUN-}" ] && [ -e "$library" ]; then
  reference=(-DREFERENCE -I"$here" -I"${BUILD:-$here}" "$library" -lgmp)
fi
${CC:-cc} -O2 -std=gnu11 -ffp-contract=off -fwrapv -fno-math-errno \
  -Wall -Wextra -Wno-psabi "$@" -DSTEP="$step" "$work/math.c" \
  -o "$work/math" "${reference[@]}" -lm
${RUN:-} "$work/math"
