#!/bin/bash
# Linear algebra and other numeric functions: in modules of `axon build`, on the
# other backends, and without
# the library LAPACK.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$here/tests/data/numeric
cc=${CC:-cc}
printf 'do print (linalg.solve [[2.0, 1.0], [1.0, 3.0]] [3.0, 5.0])\n' \
  >"$work/solve.axn"

if ! $cc -shared -fPIC -o "$work/no_lapack.so" "$data/no_lapack.c"; then
  fail 'cannot compile no_lapack.c'
elif LD_PRELOAD="$work/no_lapack.so" "$AXON" run "$work/solve.axn" \
  >"$work/out" 2>&1; then
  fail 'linear algebra runs without a library'
else
  grep -q 'needs the library LAPACK' "$work/out" &&
    grep -q 'apt install libopenblas0' "$work/out" ||
    fail 'the message names no library:' "$(cat "$work/out")"
fi

# The same bits with one thread and several, interpreted and compiled.
for settings in AXON_THREADS=1 AXON_THREADS=3 AXON_TARGET=reference; do
  env "$settings" "$AXON" run tests/run/linalg_sizes.axn >"$work/out" 2>&1
  cmp -s "$work/out" tests/run/linalg_sizes.out ||
    fail "linalg_sizes.axn with $settings:" "$(cat "$work/out")"
done

"$AXON" build -o "$work/built.c" "$data/built.axn" || fail 'cannot build'
for cc in gcc clang; do
  command -v "$cc" >/dev/null || continue
  if ! "$cc" -std=c11 -pedantic -Wall -Wextra -Werror -Wno-psabi \
    -I "$work" -o "$work/call" "$data/call.c" "$work/built.c" -lm -pthread; then
    fail "$cc cannot compile the module"
    continue
  fi
  "$work/call" >"$work/out" 2>&1
  [ -s "$work/out" ] && fail "results of $cc:" "$(cat "$work/out")"
  LD_PRELOAD="$work/no_lapack.so" "$work/call" >"$work/out" 2>&1
  grep -q 'needs the library LAPACK' "$work/out" ||
    fail 'a module without LAPACK:' "$(cat "$work/out")"
done
"$AXON" build --target cuda:sm_90a -o "$work/built.cu" "$data/built.axn" \
  >"$work/out" 2>&1 && fail 'a GPU module has linear algebra'
grep -q 'does not support.*linear' "$work/out" || cat "$work/out"
exit "$bad"
