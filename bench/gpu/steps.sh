#!/bin/bash
# Measures the effect of each optimization of a matmul on a GPU, in the order of
# arXiv:2510.14719 (f16, M = N = 8192, K = 16384; sm_90a).  Prints one line for
# each:
#   bench/gpu/steps.sh                   times, TFLOP/s
#   bench/gpu/steps.sh --plan            the plans, without a GPU
#   bench/gpu/steps.sh [--plan] M N K    another size
# The steps are schedules (doc/schedules.md).
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
axon=${AXON:-$here/axon}
only_plan=
[ "${1:-}" = --plan ] && only_plan=1 && shift
m=${1:-8192} n=${2:-8192} k=${3:-16384}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/product.axn" <<END
val a = f16 (uniform (key 1) [$m, $k] : f32[$m, $k])
val b = f16 (uniform (key 2) [$k, $n] : f32[$k, $n])
fun run () = f16 (f32 a @ f32 b)
END
export AXON_SCHEDULES=$work/schedules

step() { # step NAME SCHEDULE
  echo "${2:+gemm * f16 ${m}x${n}x$k {$2\}}" >"$AXON_SCHEDULES"
  if [ "$only_plan" ]; then
    said=$("$axon" plan -q --target cuda:sm_90a "$work/product.axn" \
      -e 'run ()' 2>&1 | tr -s ' \n' ' ')
    shape=$(grep -o 'tile for sm_90a: [^)]*not used[^)]*)\|way=[a-z]* ' \
      <<<"$said" | tail -n 1)
    uses=$(grep -o '[0-9]* registers[^;|]*' <<<"$said" | tail -n 1 |
      cut -c 1-60)
    printf '%-34s %s %s\n' "$1" "$shape" "$uses"
    return
  fi
  "$axon" bench -q --json --target cuda --seconds 2 "$work/product.axn" run |
    python3 -c '
import json, sys
name, m, n, k = sys.argv[1], *map(int, sys.argv[2:])
t = json.load(sys.stdin)["results"][0]["median"]
print(f"{name:34} {1e3 * t:9.3f} ms {2e-12 * m * n * k / t:8.1f} TFLOP/s")
' "$1" "$m" "$n" "$k"
}

step 'plain (mma, no roles)' 'way=mma m=128 n=128 k=32 stages=3'
plain='store=shared cluster_m=1 cluster_n=1'
wide="way=wgmma m=128 n=256 warps_m=2 pingpong=0 stream=0"
step 'warp-specialised' "way=wgmma m=128 n=128 warps_m=2 pingpong=0 stages=2 \
flight=1 persistent=0 stream=0 $plain"
step 'tile of 128 x 256 x 64' "$wide stages=2 flight=1 persistent=0 $plain"
step 'persistent' "$wide stages=2 flight=1 persistent=1 $plain"
step 'three stages, two in flight' "$wide stages=3 flight=2 persistent=1 $plain"
step 'four stages' "$wide stages=4 flight=2 persistent=1 $plain"
step 'results by TMA' "$wide stages=4 flight=2 persistent=1 store=engine \
waiting=2 cluster_m=1 cluster_n=1"
step 'clusters of two' "$wide stages=4 flight=2 persistent=1 store=engine \
waiting=2 cluster_m=2 cluster_n=1"
step 'as it is chosen' ''
