#!/bin/bash
# Fuzz tests with a fixed set of inputs.  tests/fuzz/changes checks many mutated
# programs and needs no clang.  Then each fuzz target runs its seeds and some
# mutations of them with sanitizers.  This part is skipped if clang's libFuzzer
# is missing, or if the build takes too long.  tests/fuzz/run.sh 600 is a full
# run.
set -u
cd "$(dirname "$0")/.." || exit 1
MUTATIONS=60000 # one of 15,000 mutations once caused a crash
COUNT=150       # inputs of each fuzz target: see tests/fuzz/run.sh
root=$PWD top=${BUILD:-$PWD}
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
build=$top/.libs/fuzz
log=$found/log status=0

fail() {
  cat "$log"
  mkdir -p "$build/found" && cp "$found"/fuzz_* "$build/found"
  echo "the inputs that failed are in $build/found"
  exit 1
}

changes=$top/tests/fuzz/changes
if [ -x "$changes" ] || make -s -C "$top" tests/fuzz/changes >/dev/null 2>&1
then
  find "$root/tests" "$root/examples" -name '*.axn' -size -3k | LC_ALL=C sort |
    (ulimit -S -s 524288 2>/dev/null # KiB: the stack size of axon
      cd tests/fuzz/seeds/npy && "$changes" "$MUTATIONS" 1 "$found") \
      >"$log" 2>&1 || fail
else
  echo "skipped: $changes cannot be built"
fi

# Sanitizers reserve terabytes of addresses.  run.sh limits the memory in use.
ulimit -S -v unlimited
FUZZ_FOUND=$found FUZZ_BUILD=$build FUZZ_OPT=-O0 FUZZ_COUNT=$COUNT \
  timeout 2000 tests/fuzz/run.sh >"$log" 2>&1 || status=$?
case $status in
77 | 124) echo "skipped: $(tail -n 1 "$log")" ;;
0) ;;
*) fail ;;
esac
