#!/bin/bash
# On a machine with a GPU: every kernel family against the reference backend, on
# random graphs and on examples; make check-gpu.
#
#     tests/gpu.sh [SEED [COUNT]]
#
# Where compute-sanitizer is, some graphs once more under it.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
axon=${AXON:-$build/axon}
seed=${1:-1} count=${2:-200}
test=$build/tests/unit/kernels_test
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" AXON_TARGET=cuda
bad=0

"$axon" -e 1 >"$work/said" 2>&1 || {
  cat "$work/said"
  exit 1
}
echo "random graphs $seed to $((seed + count - 1)), and single operations"
AXON_TINY=0 "$test" "$seed" "$count" || bad=1
echo "two products with rows between them, $seed to $((seed + count - 1))"
AXON_TINY=0 "$build/tests/unit/between_test" "$seed" "$count" || bad=1
for file in "$here"/examples/*.axn; do
  name=$(basename "$file" .axn)
  [ -e "${file%.axn}.expected" ] && [ "$name" != lenet_broken ] || continue
  (cd "$here/examples" && AXON_TINY=0 "$axon" run "$name.axn") \
    >"$work/gpu" 2>&1
  (cd "$here/examples" && AXON_TARGET=cpu "$axon" run "$name.axn") \
    >"$work/cpu" 2>&1
  cmp -s "$work/gpu" "$work/cpu" && echo "example $name: the same" || {
    echo "example $name: not what the target cpu says (last digits may differ)"
    diff "$work/cpu" "$work/gpu" | head -n 10
  }
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    echo "compute-sanitizer --tool $tool"
    AXON_TINY=0 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --target-processes all "$test" "$seed" 3 >"$work/said" 2>&1 || {
      tail -n 40 "$work/said"
      bad=1
    }
  done
else
  echo 'no compute-sanitizer: skipped'
fi
exit "$bad"
