#!/bin/bash
# The thread pool, and the memory of tensors, under the thread sanitizer.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
flags='-std=gnu11 -g -O1 -I. -fsanitize=thread'
echo 'int main(void) { return 0; }' >"$work/none.c"
# shellcheck disable=SC2086
$cc $flags "$work/none.c" -o "$work/none" 2>/dev/null && "$work/none" || {
  echo 'no thread sanitizer here: skipped' >&2
  exit 0
}
bad=0
for test in pool block; do
  # shellcheck disable=SC2086
  $cc $flags "tests/unit/${test}_test.c" runtime/pool.c \
    runtime/cores.c runtime/block.c runtime/kept.c runtime/tensor.c \
    runtime/dtype.c support/mem.c \
    support/arena.c support/buffer.c support/utf8.c -lcmocka -lm -lpthread \
    -o "$work/$test" 2>"$work/said" || {
    grep -q 'cmocka' "$work/said" && exit 0
    cat "$work/said"
    exit 1
  }
  # A child of fork makes threads, of which this sanitizer wants to be told.
  TSAN_OPTIONS=die_after_fork=0:halt_on_error=1 timeout 100 "$work/$test" \
    >"$work/said" 2>&1 || {
    echo "${test}_test: status $?"
    grep -v 'RUN\|OK' "$work/said" | head -n 40
    bad=1
  }
done
exit "$bad"
