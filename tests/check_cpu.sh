#!/bin/bash
# Compiled kernels give the results of the reference backend, except for the
# last digits (tests/close.awk).  AXON_TINY=0: even tiny kernels are compiled.
#
#     tests/check_cpu.sh [all]
#
# Runs the golden tests of ops/, run/, fuse/ and the examples.  With `all`, it
# also runs models; the other tests run these with the default compilation
# threshold.  All programs share one kernel cache.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
command -v "${AXON_CC:-cc}" >/dev/null ||
  { echo "no C compiler: skipped" >&2; exit 0; }
TEST_CACHE=$(mktemp -d)
trap 'rm -rf "$TEST_CACHE"' EXIT
export AXON TEST_CACHE AXON_TARGET=cpu AXON_TINY=0 LIMIT=1000
export AXON_OPTIMIZE=sample
{
  find tests/ops tests/run tests/fuse tests/repl -name '*.out' -o \
    -name '*.repl' 2>/dev/null | sort |
    sed -n 's/^\(.*\)\.out$/run \1/p; s/^\(.*\)\.repl$/repl \1/p'
  find examples -maxdepth 1 -name '*.axn' | sed 's/^/example /'
  if [ "${1-}" = all ]; then
    find examples/models -name '*.axn' | sed 's/^/model /'
    find tests/oracle -name '*.out' | sed 's/^\(.*\)\.out$/run \1/'
  fi
} >"$TEST_CACHE/cases"
failures=$(run_cases "$TEST_CACHE/cases")
# Predicates that depend on indices or data guard code that must not run.
for name in fusion random; do
  unit=${BUILD:-.}/tests/unit/${name}_test
  if [ -x "$unit" ]; then
    output=$(XDG_CACHE_HOME=$TEST_CACHE "$unit" 2>&1) ||
      failures+=$(grep -v 'RUN\|OK' <<<"$output")
  fi
done
# The result of argmax exceeds the range of int32_t.
output=$(XDG_CACHE_HOME=$TEST_CACHE "$AXON" -e \
  'argmax (for i < 2200000000 => if i == 2199999990 then 1.0 else 0.0)' 2>&1)
[ "$output" = 2199999990 ] || failures+="argmax of many: $output"
# A tensor without elements has no element 0, so nothing is loaded.
echo 'val x : f64[?k, 5000000] =
  filter (fn r => r.[0] > 9.0) (for i < 1, j < 5000000 => float (i + j % 3))
do print (sum (gather x (sort ([1, 0] : i64[2])) + 1.0))' \
  >"$TEST_CACHE/none.axn"
output=$(XDG_CACHE_HOME=$TEST_CACHE "$AXON" run "$TEST_CACHE/none.axn" 2>&1)
grep -q 'E0507.*index 0 is out of bounds for axis 0 of size 0' <<<"$output" ||
  failures+="rows of nothing: $output"
# A condition that is known in a part of an axis hides no error of an operand
# of a map.
for error in 'select at (100 / d) (zeros_like d)@integer division by zero' \
  'select at (gather d (d * 9)) d@index 1008 is out of bounds' \
  'at && 100 / d > 3@integer division by zero' \
  'not at || 100 / d > 3@integer division by zero'; do
  printf '%s\n' 'val d = for i < 1003 => if i == 500 then 0 else i + 1' \
    'val at = for i < 1003 => i < 100' "do print (${error%%@*})" \
    >"$TEST_CACHE/part.axn"
  output=$(XDG_CACHE_HOME=$TEST_CACHE "$AXON" run "$TEST_CACHE/part.axn" 2>&1)
  grep -q "${error#*@}" <<<"$output" || failures+="${error%%@*}: $output"
done
# The compiler targets smaller vector registers than the CPU has.
if [ "$(uname -m)" = x86_64 ]; then
  output=$(AXON_CC="${AXON_CC:-cc} -mno-avx512f -mno-avx2" \
    XDG_CACHE_HOME=$TEST_CACHE "$AXON" -e \
    'let val x = for i < 50, j < 60 => float (i % 3 + j % 7)
     in max (transpose x @ x) end' 2>&1)
  [ "$output" = 2469.0 ] || failures+="smaller registers: $output"
fi
kernels=$(find "$TEST_CACHE" -name '*.so' | wc -l)
[ -z "$failures" ] && [ "$kernels" -gt 100 ] && exit 0
echo "${failures:-only $kernels kernels were compiled}"
exit 1
