#!/bin/bash
# Programs with micro-kernels in CUDA C++ on the target cuda, with a fake driver
# and a fake NVRTC.  The GPU simulator runs the kernels.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET AXON_SCHEDULES

. "$here/tests/cuda_fakes.sh"

cat >thread.axn <<'END'
kernel tile : f32[2, k] @ f32[k, 4] = cuda
  template <class A, class B>
  AX_DEVICE void tile(A a, B b, int terms, float (&c)[2][4]) {
    for (int k = 0; k < terms; k++)
      for (int i = 0; i < 2; i++) {
        const float4 y = *(const float4 *)&b(k, 0);
        c[i][0] = fmaf(a(i, k), y.x, c[i][0]);
        c[i][1] = fmaf(a(i, k), y.y, c[i][1]);
        c[i][2] = fmaf(a(i, k), y.z, c[i][2]);
        c[i][3] = fmaf(a(i, k), y.w, c[i][3]);
      }
  }
fun product x w = x @ w
fun split x w = map (map (fn y => maximum y 3.0)) (x @ w)
schedule product =
  kernel x @ w on cuda
    1: by gemm {micro=tile}
schedule split =
  kernel map (map (fn y => maximum y 3.0)) (x @ w) on cuda
    1: by gemm {micro=tile m=16 n=32 k=16 split=2}
val x : f32[37, 100] = for i < 37, j < 100 => f32 (i * j % 7)
val w : f32[100, 53] = for i < 100, j < 53 => f32 (i * j % 5)
do print (force (product (force x) (force w)))
do print (force (split (force x) (force w)))
do print (force (product (transpose (force (transpose x))) (force w)))
END
cat >warp.axn <<'END'
kernel warp : bf16[16, k] @ bf16[k, 32] = cuda
  template <class A, class B>
  AX_DEVICE void warp(A a, B b, int terms, float (&c)[1][4][4]) {
  #pragma unroll
    for (int k = 0; k < terms; k += 16) {
      unsigned x[4], y[2][4];
      a.load(x, 0, k);
      b.load(y[0], k, 0);
      b.load(y[1], k, 16);
  #pragma unroll
      for (int j = 0; j < 4; j++)
        ax_mma_m16n8k16_bf16(c[0][j], x, y[j / 2] + j % 2 * 2);
    }
  }
fun product x w = x @ w
schedule product =
  kernel x @ w on cuda
    1: by gemm {micro=warp}
val x : bf16[37, 100] = for i < 37, j < 100 => bf16 (i * j % 3)
val w : bf16[100, 53] = for i < 100, j < 53 => bf16 (i * j % 2)
do print (force (product (force x) (force w)))
END
for program in thread warp; do
  same $program
  on_gpu "$AXON" plan $program.axn >"$work/planned" 2>&1
  grep -q 'a schedule was not used' "$work/planned" &&
    fail "$program: $(cat "$work/planned")"
done

# A verdict without NVRTC does not stand for one with it.
export XDG_CACHE_HOME=$work/verdicts
mkdir -m 700 "$XDG_CACHE_HOME"
verdicts() { # verdicts COUNT NVRTC: the number of verdicts after a plan
  on_gpu env AXON_NVRTC="$2" "$AXON" plan --target cuda:sm_90a warp.axn \
    >"$work/planned" 2>&1
  found=$(find "$XDG_CACHE_HOME/axon/micro" -name '*.ok' | grep -c .)
  [ "$found" = "$1" ] || fail "$2: $found verdicts: $(cat "$work/planned")"
}
verdicts 1 /nowhere/libnvrtc.so.13
verdicts 2 "$work/libnvrtc.so.13"
verdicts 2 /nowhere/libnvrtc.so.13
exit "$bad"
