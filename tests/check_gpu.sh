#!/bin/bash
# make check-gpu (tests/gpu.sh) with a fake driver and the simulator: its
# families are correct and run the kernels that they claim to run.  A failure is
# reported together with a command that reproduces it.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"
export LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_MEMORY=2000 FAKE_PROCESSORS=4 AXON_SOURCE="$here"
# the simulator takes longer than a GPU
export AXON BUILD="$build" GPU_KEPT="$work/kept" GPU_SECONDS=300
families=("$here"/tests/gpu/*.axn)
said=$(PATH=/usr/bin:/bin "$here/tests/gpu.sh" 1 0 2>&1) ||
  wrong "$(grep -v '^ok' <<<"$said")"
grep -q "^${#families[@]} ok, 0 failed" <<<"$said" ||
  wrong "$(tail -n 1 <<<"$said")"
said=$(PATH=/usr/bin:/bin GPU_MINUTES=0 GPU_FAMILY=points "$here/tests/gpu.sh" \
  1 12 2>&1) &&
  grep -q '^no time was left for family points, ex.*kernels_test 11 to 12' \
    <<<"$said" ||
  wrong "no end: $said"
said=$(FAKE_FAIL=launch=700 GPU_FAMILY=points "$here/tests/gpu.sh" 1 0 2>&1) &&
  wrong 'a driver that fails is not seen'
grep -q '^      again: .*--target cuda .*tests/gpu/points.axn' <<<"$said" &&
  grep -q CUDA_ERROR "$work"/kept/*points* || wrong "$said"
exit "$bad"
