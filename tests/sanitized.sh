#!/bin/bash
# Builds Axon with clang, with warnings as errors and with the address and the
# undefined-behaviour sanitizer, and runs tests that reach every folder:
#
#     tests/sanitized.sh [FOLDER]
#
# FOLDER keeps the build (default: a temporary folder), for example for the
# fuzzers (FUZZ_LIBRARIES of tests/fuzz/run.sh).  The source tree must not be
# configured.  clang without optimization builds in half a minute.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
folder=${1-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
cd "$folder"
echo 'int main(void) { return 0; }' >main.c
clang -fsanitize=address,undefined -o main main.c 2>/dev/null || {
  echo 'skipped: clang has no sanitizers (libclang-rt-dev)'
  exit 0
}
linker=
! clang -fuse-ld=lld -o main main.c 2>/dev/null || linker=-fuse-ld=lld # faster
export CONFIG_SHELL=/bin/sh # see quickstart
[ -e Makefile ] || "$here/configure" --quiet --enable-werror \
  --enable-asan --enable-ubsan CC=clang LDFLAGS="$linker" \
  CFLAGS='-O0 -g1 -fsanitize=fuzzer-no-link'
units=$(printf 'tests/unit/%s_test ' api artifact cuda diag dim dimfacts \
  dimsystem eval figure parser runtime runtime_file size tensor verify)
# shellcheck disable=SC2086
make -s -j"$(nproc)" axon $units

filter=$(printf '%s \n' unit fmt repl plan bug type strict
  printf 'run tests/grad/%s\n' control custom elementwise indices kinks
  printf '%s\n' 'run tests/ops/' 'script tests/check_dump')
# fontconfig, which cairo uses, keeps a configuration until the end.
echo 'leak:libfontconfig' >leaks.txt
export LSAN_OPTIONS=suppressions=$folder/leaks.txt:print_suppressions=0
# A sanitizer reserves terabytes of addresses, and frames are large.
ulimit -S -s 524288 2>/dev/null || true
MEMORY=unlimited BUILD=$folder AXON=$folder/axon "$here/tests/run.sh" "$filter"
