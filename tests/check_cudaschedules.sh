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
cp "$here/tests/schedules/gpu.axn" .
"$AXON" run --target reference gpu.axn >expected || fail 'gpu.axn'
on_gpu "$AXON" plan --schedule gpu.axn >chosen.axs || fail "$(cat chosen.axs)"
for word in 'by rows {' 'by gemm {' '1: tile .* lanes' 'flatten' 'shared'; do
  grep -q "$word" chosen.axs || fail "no schedule with $word"
done
refused=0 first=${1:-1} count=${2:-24}
for ((seed = first; seed < first + count; seed++)); do
  python3 "$here/tests/schedules/change.py" "$seed" <chosen.axs >changed.axs
  if on_gpu timeout 100 "$AXON" run --schedules changed.axs gpu.axn >got 2>&1
  then
    awk -f "$here/tests/close.awk" expected got >different ||
      fail "seed $seed: $(head -3 different; diff chosen.axs changed.axs)"
  elif grep -q 'error\[E0523\]: changed.axs:[0-9]*:[0-9]*: ' got; then
    refused=$((refused + 1))
  else
    fail "seed $seed: $(head -5 got; diff chosen.axs changed.axs)"
  fi
done
[ "$((4 * refused))" -le "$((3 * count))" ] || fail "$refused of $count refused"
exit "$bad"
