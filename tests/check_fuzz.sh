#!/bin/bash
# Two seconds of each fuzzer.  Skipped where clang's libFuzzer is missing, or
# slow to build with; tests/fuzz/run.sh 600 is the real thing.
set -u
cd "$(dirname "$0")/.." || exit 1
ulimit -S -v unlimited # a sanitizer reserves terabytes; run.sh limits use
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
build=${BUILD:-$PWD}/.libs/fuzz
log=$found/log status=0
FUZZ_FOUND=$found FUZZ_BUILD=$build FUZZ_OPT=-O0 \
  timeout 250 tests/fuzz/run.sh 2 >"$log" 2>&1 || status=$?
case $status in
77 | 124) echo "skipped: $(tail -n 1 "$log")" ;;
0) ;;
*)
  cat "$log"
  mkdir -p "$build/found" && cp "$found"/fuzz_* "$build/found"
  echo "what was found is in $build/found"
  exit 1
  ;;
esac
