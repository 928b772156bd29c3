#!/bin/bash
# Tests the math functions of generated kernels at sampled floats, for the
# native architecture, older ones, and several vector widths, if this machine
# supports them.  tests/math.sh 1 tests every float.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v cc >/dev/null || { echo "no C compiler: skipped" >&2; exit 0; }
if nm "${BUILD:-.}/.libs/libcore.a" 2>/dev/null | grep -q __asan_; then
  echo "a build with a sanitizer: skipped" >&2
  exit 0
fi
status=0
try() {
  tests/math.sh 200003 "$@" >"$out" 2>&1 || { cat "$out"; status=1; }
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
try 16 -march=native
try 8 -march=native
try 4 -march=native
if [ "$(uname -m)" = x86_64 ]; then
  try 4 -march=x86-64
  try 2 -march=x86-64
  if grep -q avx2 /proc/cpuinfo; then
    try 8 -march=x86-64-v3
    try 4 -march=x86-64-v3
  fi
fi

# Scalar kernels: plain C, one lane.
work=$(mktemp -d)
trap 'rm -rf "$out" "$work"' EXIT
{
  echo "#define W 1"
  echo "#include \"$PWD/backend/emit/prelude/scalar.inc\""
  echo "#include \"$PWD/tests/math1.c\""
} >"$work/math1.c"
cc -std=c11 -pedantic -Wall -Wextra -Werror -O2 "$work/math1.c" \
  -o "$work/math1" -lm && "$work/math1" || status=1
library=${BUILD:-.}/.libs/libcore.a
if [ -e "$library" ]; then
  cc -std=gnu11 -ffp-contract=off -O2 -DREFERENCE -I. -I"${BUILD:-.}" \
    "$work/math1.c" -o "$work/math1" "$library" -lgmp -lm &&
    "$work/math1" || status=1
fi
exit "$status"
