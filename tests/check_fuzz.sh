#!/bin/bash
# A fixed set of inputs for each fuzzer.  tests/fuzz/changes checks many changed
# programs and needs no clang.  Then each fuzzer runs its seeds and some changes
# of them with sanitizers.  That is skipped if clang's libFuzzer is missing, or
# slow to build with.  tests/fuzz/run.sh 600 is a full run.
set -u
cd "$(dirname "$0")/.." || exit 1
CHANGES=30000 # changed programs; a past crash was in one of 15,000
COUNT=150     # inputs of each fuzzer; see tests/fuzz/run.sh
root=$PWD made=${BUILD:-$PWD}
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
build=$made/.libs/fuzz
log=$found/log status=0

fail() {
  cat "$log"
  mkdir -p "$build/found" && cp "$found"/fuzz_* "$build/found"
  echo "what was found is in $build/found"
  exit 1
}

changes=$made/tests/fuzz/changes
if [ -x "$changes" ] || make -s -C "$made" tests/fuzz/changes >/dev/null 2>&1
then
  find "$root/tests" "$root/examples" -name '*.axn' -size -3k | LC_ALL=C sort |
    (ulimit -S -s 524288 2>/dev/null # as large as the program's own
      cd tests/fuzz/seeds/npy && "$changes" "$CHANGES" 1 "$found") \
      >"$log" 2>&1 || fail
else
  echo "skipped: $changes cannot be built"
fi

ulimit -S -v unlimited # a sanitizer reserves terabytes; run.sh limits use
FUZZ_FOUND=$found FUZZ_BUILD=$build FUZZ_OPT=-O0 FUZZ_COUNT=$COUNT \
  timeout 2000 tests/fuzz/run.sh >"$log" 2>&1 || status=$?
case $status in
77 | 124) echo "skipped: $(tail -n 1 "$log")" ;;
0) ;;
*) fail ;;
esac
