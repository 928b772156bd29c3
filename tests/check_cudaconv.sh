#!/bin/bash
# Convolutions on the target cuda with a fake driver (tests/cuda_fakes.sh).  If
# the channels of an image are contiguous, TMA loads it in im2col mode; other
# images use predicated loads.  Tests the default schedules and a schedule file.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"

# Fused padding; channels last and first; strides, dilation, groups; f32, f16
# and bf16; a contraction over two axes that cannot be collapsed; rows that
# consist of several axes, with filter taps along all, some or none of them.
cat >convs.axn <<'END'
open nn
fun number ~by:k n = f32 ((iota n * k) % 13) - 6.0
fun bordered x =
  x |> pad ~axis:1 ~before:1 ~after:1 |> pad ~axis:2 ~before:2 ~after:1
fun last x w =
  for n, y, z, u => bf16 (sum (for i < 3, j < 3, a =>
    f32 x.[n, y + i, z + j, a] * f32 w.[u, i, j, a]))
val x = bf16 (reshape [2, 9, 8, 16] (number ~by:7 2304))
val w = bf16 (reshape [24, 3, 3, 16] (number ~by:5 3456))
do print (last (bordered x) w : bf16[2, 9, 9, 24])
do print (last x w : bf16[2, 7, 6, 24])
fun strided x w =
  for n < 3, y < 6, z < 5, u => sum (for i < 3, j < 2, a =>
    f32 x.[n, 2 * y + 3 * i, 3 * z + 2 * j, a] * f32 w.[i, j, a, u])
val x = bf16 (reshape [3, 17, 15, 72] (number ~by:7 55080))
val w = bf16 (reshape [3, 2, 72, 40] (number ~by:5 17280))
do print (strided x w)
fun line x w =
  for y < 50, u => sum (for i < 5, a => f32 x.[y + i, a] * f32 w.[u, i, a])
val x = f16 (reshape [50, 24] (number ~by:7 1200))
val w = f16 (reshape [40, 5, 24] (number ~by:5 4800))
do print (line (pad ~axis:0 ~before:2 ~after:2 x) w)
val x = reshape [7, 5, 40] (f16 (number ~by:3 1400))
val w = reshape [5, 7, 48] (f16 (number ~by:5 1680))
do print (x, w)
do print (einsum "a b i, b a j -> i j" x w)
val i = reshape [2, 16, 15, 13] (number ~by:3 6240)
val f = reshape [32, 16, 3, 3] (number ~by:5 4608)
do print (unbiased_conv2d ~padding:1 ~stride:2 f i)
do print (unbiased_conv2d ~padding:2 ~dilation:2 (f16 f) (f16 i))
do print (grouped_conv2d ~groups:2 ~padding:1
            {w = reshape [64, 8, 3, 3] f, b = f32 (iota 64)} i)
fun halved x w =
  for n < 3, y < 8, z < 7, u => bf16 (sum (for a =>
    f32 x.[n, 2 * y, 2 * z, a] * f32 w.[u, a]))
fun tall x w =
  for n < 3, y < 15, z < 15, u => bf16 (sum (for i < 3, a =>
    f32 x.[n, y + i, z, a] * f32 w.[u, i, a]))
fun flat x w =
  for n < 3, y < 17, z < 6, u => bf16 (sum (for i < 3, a =>
    f32 x.[n, y, 2 * z + i, a] * f32 w.[u, i, a]))
val x = bf16 (reshape [3, 17, 15, 40] (number ~by:7 30600))
val w = bf16 (reshape [64, 40] (number ~by:5 2560))
val v = bf16 (reshape [40, 3, 40] (number ~by:5 4800))
do print (x, w, v)
do print (halved x w)
do print (tall x v)
do print (flat x v)
END
# Images without elements: only their padding is read.
cat >none.axn <<'END'
fun some n by = sort (bf16 (f32 (iota n * by % 13) - 6.0))
fun bordered x =
  x |> pad ~axis:1 ~before:3 ~after:2 |> pad ~axis:2 ~before:2 ~after:3
fun conv x w =
  for n, y, z, u => bf16 (sum (for i < 3, j < 3, a =>
    f32 x.[n, y + i, z + j, a] * f32 w.[u, i, j, a]))
val w = reshape [40, 3, 3, 64] (some 23040 5)
do print w
do print (conv (bordered (reshape [1, 0, 200, 64] (some 0 7))) w)
do print (conv (bordered (reshape [3, 4, 0, 64] (some 0 7))) w)
do print (conv (bordered (reshape [0, 4, 5, 64] (some 0 7))) w)
do print (conv (bordered (reshape [2, 4, 5, 0] (some 0 7)))
            (reshape [40, 3, 3, 0] (some 0 7)))
END
same convs
same none
echo 'gemm * * *x*x* {way=wgmma m=64 warps_m=1 n=32 stages=3 pingpong=0' \
  'flight=2 stream=1 persistent=1 cluster_m=2 store=engine waiting=2}' \
  >schedules
mkdir "$work/sources"
AXON_CC_DEBUG="$work/sources" AXON_SCHEDULES=schedules same convs
AXON_SCHEDULES=schedules same none
AXON_SCHEDULES=schedules on_gpu "$AXON" plan convs.axn >output 2>&1
[ "$(tr -s ' \n' ' ' <output | grep -o 'tile for sm_90a: way=wgmma' |
  wc -l)" = 8 ] || fail 'the number of wgmma kernels is not 8'
grep -q 'ax_tma_pixels_4d' "$work"/sources/*.cu ||
  fail 'no im2col copy of images'
grep -q 'ax_tma_pixels_3d' "$work"/sources/*.cu ||
  fail 'no im2col copy of lines'
exit "$bad"
