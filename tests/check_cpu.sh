#!/bin/bash
# Compiled kernels compute what the reference backend computes, except for the
# last digits (tests/close.awk).  Even tiny kernels are compiled:
#
#     tests/check_cpu.sh [all]
#
# Runs the golden tests of ops/, run/, fuse/ and the examples.  With `all`, it
# also runs models, which the ordinary tests compare with the usual compilation
# threshold.  All share one cache.  AXON_CC chooses the compiler; unless given,
# it is tests/sampled_cc.
set -u
cd "$(dirname "$0")/.." || exit 1
AXON=$(realpath "${AXON:-./axon}")
command -v "${AXON_CC:-cc}" >/dev/null ||
  { echo "no C compiler: skipped" >&2; exit 0; }
TEST_CACHE=$(mktemp -d)
trap 'rm -rf "$TEST_CACHE"' EXIT
export AXON TEST_CACHE AXON_TARGET=cpu AXON_TINY=0 LIMIT=1000
export AXON_CC="${AXON_CC:-$PWD/tests/sampled_cc}"
wrong=$({
  find tests/ops tests/run tests/fuse tests/repl -name '*.out' -o \
    -name '*.repl' 2>/dev/null | sort |
    sed -n 's/^\(.*\)\.out$/run \1/p; s/^\(.*\)\.repl$/repl \1/p'
  find examples -maxdepth 1 -name '*.axn' | sed 's/^/example /'
  if [ "${1-}" = all ]; then
    find examples/models -name '*.axn' | sed 's/^/model /'
    find tests/oracle -name '*.out' | sed 's/^\(.*\)\.out$/run \1/'
  fi
} | xargs -P "$(nproc)" -L 1 bash -c \
  'text=$(tests/case.sh "$1" "$2" 2>&1) || head -n 30 <<<"$1 $2: $text"' _)
# guards, and code that must not run: conditions of indices and of data
for name in fusion random; do
  unit=${BUILD:-.}/tests/unit/${name}_test
  if [ -x "$unit" ]; then
    said=$(XDG_CACHE_HOME=$TEST_CACHE "$unit" 2>&1) ||
      wrong+=$(grep -v 'RUN\|OK' <<<"$said")
  fi
done
# a place that an int32_t does not hold
said=$(XDG_CACHE_HOME=$TEST_CACHE "$AXON" -e \
  'argmax (for i < 2200000000 => if i == 2199999990 then 1.0 else 0.0)' 2>&1)
[ "$said" = 2199999990 ] || wrong+="argmax of many: $said"
# a compiler that is told of smaller registers than there are
if [ "$(uname -m)" = x86_64 ]; then
  said=$(AXON_CC="$AXON_CC -mno-avx512f -mno-avx2" \
    XDG_CACHE_HOME=$TEST_CACHE "$AXON" -e \
    'let val x = for i < 50, j < 60 => float (i % 3 + j % 7)
     in max (transpose x @ x) end' 2>&1)
  [ "$said" = 2469.0 ] || wrong+="smaller registers: $said"
fi
made=$(find "$TEST_CACHE" -name '*.so' | wc -l)
[ -z "$wrong" ] && [ "$made" -gt 100 ] && exit 0
echo "${wrong:-only $made kernels were compiled}"
exit 1
