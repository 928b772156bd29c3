#!/bin/bash
# Collects GPU kernel sources in a folder, for cudatexts_test: those of the
# programs, examples and random graphs of the test suite, and of bench/gpu.sh:
#
#     tests/cudatexts.sh FOLDER [CAPABILITY...]      creates FOLDER
#     tests/unit/cudatexts_test FOLDER all
#
# No kernel runs: the fake driver ignores launches, so the output of the
# programs is meaningless.  Capabilities are 75, 80, 86, 89, 90, 100 and 120.
# Sources without tensor-core tiles are the same for all.
set -u
. "$(dirname "$0")/lib.sh"
folder=${1:?a folder}
shift
case "$*" in
*[!0-9\ ]*) echo "capabilities are numbers such as 86: $*" >&2; exit 2 ;;
esac
[ $# -gt 0 ] || set -- 75 80 86 89 90 100 120
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
. "$here/tests/cuda_fakes.sh"
export FAKE_IDLE=1 AXON_CC_DEBUG="$folder"
processors=16
# Some programs write files.
copy=$work/copy
mkdir -p "$copy/tests" "$copy/bench/cpu"
cp -r "$here"/tests/{ops,run,oracle,gpu,data} "$copy/tests"
cp -r "$here/examples" "$copy"
cp -r "$here/bench/cpu/kernels" "$copy/bench/cpu"

idle() {
  on_gpu nice timeout 30 "$@" </dev/null >/dev/null 2>&1
}
for capability in "$@"; do
  export FAKE_CAPABILITY=$capability
  for file in "$copy"/tests/{ops,run,oracle,gpu}/*.axn \
    "$copy"/examples/{,models/}*.axn "$copy"/bench/cpu/kernels/*.axn; do
    [ -e "$file" ] && cd "$(dirname "$file")" && idle "$AXON" run "$file"
  done
  for ((seed = 1; seed <= 60; seed++)); do
    idle "$build/tests/unit/kernels_test" "$seed" 1
    idle "$build/tests/unit/between_test" "$((seed + 100))" 1
    idle "$build/tests/unit/between_test" "$((seed + 750))" 1
  done
  idle "$build/tests/unit/routines_test"
  echo "$capability: $(find "$folder" -name '*.cu' | wc -l) sources"
done 2>/dev/null
# The plans of the GPU benchmark, at full size.
AXON_NVRTC=/no/such/file "$here/bench/gpu.sh" --dry --axon "$AXON" >/dev/null
echo "bench/gpu.sh: $(find "$folder" -name '*.cu' | wc -l) sources"
