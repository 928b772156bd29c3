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
# Steps of several loop nests: online sums, registers, chunks, adjacent points.
cat >rows.axn <<'END'
import nn
val x : f32[2, 20000] = for i < 2, j < 20000 => f32 (i * j % 7) - 3.0
val y : f32[19, 128] = for i < 19, j < 128 => f32 (i * j % 5) - 2.0
val z : f32[70, 300] = for i < 70, j < 300 => f32 (i * j % 11) - 4.0
val w : f32[90, 50] = for i < 90, j < 50 => f32 (i * j % 3) - 1.0
val v : f32[8, 4000] = for i < 8, j < 4000 => f32 (i * j % 13) - 6.0
do print (nn.softmax x, nn.softmax y, map sum z, sum ~axis:0 w, map sum v)
END
"$AXON" run --target reference rows.axn >rows.expected || fail rows.axn
on_gpu "$AXON" plan --schedule rows.axn >chosen.axs
awk '/^  / { next } { print }
  /^kernel/ && what ~ /softmax x/ {
    print "1.1: tile i1 256; tile i1.1 4; blocks i0; threads i1"
    print "1.2: tile i1 256; tile i1.1 4; blocks i0; threads i1; online i1.2"
    print "1.3: tile i1 256; blocks i0; threads i1"
  }
  /^kernel/ && what ~ /softmax y/ {
    print "1: tile i1 2; lanes i1; tile i0 2; tile i1.1 32; tile i1.2 2;",
      "blocks i0.1; threads i0; threads i1.1; unroll i1.2; registers i1.2"
  }
  /^kernel/ && what ~ /map sum z/ {
    print "1: tile i0 4; tile i1 8; tile i1.1 16; tile i1.1 2;",
      "order i0.1, i1.3, i0, i1.2, i1.1, i1; blocks i0.1; blocks i1.3;",
      "order i1.3, i0.1; threads i0; threads i1; run i1.2"
    print "2: tile i0 32; tile i1 2; blocks i0.1; threads i0; threads i1"
  }
  /^kernel/ && what ~ /axis:0 w/ {
    print "1: tile i0 32; tile i1 4; order i0.1, i1.1, i1, i0; blocks i0.1;",
      "threads i0; threads i1"
  }
  /^kernel/ && what ~ /map sum v/ { # a chunk is one term for each thread
    print "1: tile i1 256; blocks i0; blocks i1.1; order i1.1, i0; threads i1"
  }
  { what = $0 }' chosen.axs >rows.axs
on_gpu "$AXON" run --schedules rows.axs rows.axn >got 2>&1 || fail "$(cat got)"
awk -f "$here/tests/close.awk" rows.expected got >different ||
  fail "$(head -3 different)"
on_gpu "$AXON" plan --schedule --schedules rows.axs rows.axn >read.axs
for word in 'online i1.2' 'tile i1.2 2; blocks' 'order i1.3, i0.1' \
  'i1.1, i1, i0; blocks'
do
  grep -q "$word" read.axs || fail "no $word: $(cat read.axs)"
done
# A refused schedule is refused again when its kernel runs again.
cat >session.axn <<'END'
fun rows (x : f32[n, m]) = map sum x
schedule rows =
  kernel map sum x on cuda
    1: tile i1 0
END
{
  echo ':load session.axn'
  for run in 1 2; do
    echo 'sum (rows (force (for i < 300, j < 300 => f32 (i + j))))'
  done
  echo 'sum (force (for i < 300, j < 30 => f32 (i * j)))'
} | on_gpu "$AXON" repl >got 2>&1
[ "$(grep -c 'session.axn:4:8' got)" = 2 ] &&
  [ "$(grep -c '^it : f32' got)" = 1 ] || fail "a session: $(cat got)"
exit "$bad"
