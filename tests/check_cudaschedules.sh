#!/bin/bash
# Random schedules of kernels for GPUs, in the simulator: each gives the results
# of the reference backend, or is refused with its place.
#
#     tests/check_cudaschedules.sh [SEED [COUNT]]
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET AXON_SCHEDULES
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }
. "$here/tests/cuda_fakes.sh"
cd "$work" || exit 1
cp "$here"/tests/schedules/gpu{,_nests}.axn .
for program in gpu gpu_nests; do
  "$AXON" run --target reference $program.axn >$program.expected ||
    fail $program.axn
  on_gpu "$AXON" plan --schedule $program.axn >$program.axs ||
    fail "$(cat $program.axs)"
done
for word in 'registers' 'by gemm {' '1: tile .* lanes' 'flatten' 'shared'; do
  grep -q "$word" gpu.axs || fail "no schedule with $word"
done
refused=0 first=${1:-1} count=${2:-24}
for ((seed = first; seed < first + count; seed++)); do
  [ $((seed % 2)) = 0 ] && program=gpu || program=gpu_nests
  python3 "$here/tests/schedules/change.py" "$seed" <$program.axs >changed.axs
  if on_gpu timeout 100 "$AXON" run --schedules changed.axs $program.axn \
    >got 2>&1
  then
    awk -f "$here/tests/close.awk" $program.expected got >different ||
      fail "seed $seed: $(head -3 different; diff $program.axs changed.axs)"
  elif grep -q 'error\[E0523\]: changed.axs:[0-9]*:[0-9]*: ' got; then
    refused=$((refused + 1))
  else
    fail "seed $seed: $(head -5 got; diff $program.axs changed.axs)"
  fi
done
[ "$((4 * refused))" -le "$((3 * count))" ] || fail "$refused of $count refused"
exit "$bad"
