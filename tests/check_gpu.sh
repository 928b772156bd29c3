#!/bin/bash
# make check-gpu (tests/gpu.sh) with a fake driver and the simulator: the kernel
# families give correct results and run the expected kernels.  The script
# reports a failure together with a command that reproduces it.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"
export LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_MEMORY=2000 FAKE_PROCESSORS=4
# The simulator is slower than a GPU.
export AXON BUILD="$build" GPU_KEPT="$work/failures" GPU_SECONDS=300
families() { # families ARCHITECTURE OTHERS [PATTERN]: those pass, no OTHERS run
  output=$(FAKE_CAPABILITY=$1 GPU_FAMILY=${3:-} PATH=/usr/bin:/bin \
    "$here/tests/gpu.sh" 1 0 2>&1) || fail "$(grep -v '^ok' <<<"$output")"
  count=$(find "$here"/tests/gpu -name "${3:-*}.axn" ! -name "$2" | wc -l)
  grep -q "^$count ok, 0 failed" <<<"$output" ||
    fail "$(tail -n 1 <<<"$output")"
}
families 90 'tcgen05_*'
families 100 'wgmma_*' '*_attention'
export GPU_FAMILY=elementwise
output=$(PATH=/usr/bin:/bin GPU_MINUTES=0 "$here/tests/gpu.sh" 1 12 2>&1) &&
  grep -q '^not run: family elementwise, ex.*kernels_test 11 to 12' \
    <<<"$output" ||
  fail "time limit: $output"
output=$(FAKE_FAIL=launch=700 "$here/tests/gpu.sh" 1 0 2>&1) &&
  fail 'a driver error is not reported'
grep -q '^      reproduce: .*--target cuda .*tests/gpu/elementwise.axn' \
  <<<"$output" && grep -q CUDA_ERROR "$work"/failures/*elementwise* ||
  fail "$output"
exit "$bad"
