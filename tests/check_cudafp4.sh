#!/bin/bash
# Products of 4-bit floats with scales of blocks, on the GPU simulator: by
# instructions that have scales on sm_100a, and as bf16.  All sums are exact, so
# the results are those of the reference backend.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_TARGET AXON_NVRTC LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
. "$here/tests/cuda_fakes.sh"

# NAME.axn has COUNT products by WAY, and the output is right.
products() { # products NAME CAPABILITY WAY COUNT
  export FAKE_CAPABILITY=$2
  same "$1"
  output=$(on_gpu "$AXON" plan --schedule "$1.axn" 2>&1 | grep ': by gemm')
  count=$(grep -c "{way=$3 " <<<"$output")
  [ "$count" = "$4" ] || fail "$1 on sm_$2: $count products by $3: $output"
}

# Elements and scales are stored first.  Elements have all values.  Some scales
# of NVFP4 are negative.
made='val sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
fun elements n s = f4_e2m1 (for i < n =>
  if i * s / 7 % 3 == 0 then -sizes.[i * s % 8] else sizes.[i * s % 8])
fun powers n s = f8_e8m0 (pow 2.0 (f32 (iota n * s % 5) - 2.0))
fun numbers n s = f8_e4m3 (f32 (iota n * s % 7) * 0.25 - 0.5)
'
cat >blocks.axn <<END
$made
val x = reshape [70, 288] (elements 20160 5)
val y = reshape [40, 288] (elements 11520 3)
val (xs, ys) = (reshape [70, 9] (powers 630 3), reshape [40, 9] (powers 360 2))
val xn = reshape [70, 18] (numbers 1260 3)
val yn = reshape [40, 18] (numbers 720 5)
val whole = sum (f32 (iota 5))
do print (x, xs, y, ys)
do print (xn, yn, whole)
fun all z = sum (i64 (z * 64.0) * (1 + iota 40 * 7 % 11))
val mx = fp4.dequantize_mx x xs @ transpose (fp4.dequantize_mx y ys)
do print (mx, all mx)
val nv = fp4.dequantize_nv x xn whole @ transpose (fp4.dequantize_nv y yn 0.5)
do print (nv, all nv)
END
for fields in 'n=32 accumulators=1 stages=2 store=shared' \
  'n=64 stages=3 store=engine waiting=1 stream=1'; do
  echo "gemm * f4_e2m1 *x*x* {way=tcgen05 $fields}" >schedules
  AXON_SCHEDULES=schedules products blocks 100 tcgen05 2
done
echo 'gemm * f4_e2m1 *x*x* {way=mma}' >schedules
AXON_SCHEDULES=schedules products blocks 100 mma 2

# The error for a rule is that of the kernel that would have scales.
echo 'gemm * f4_e2m1 *x*x* {way=tcgen05 m=64}' >schedules
FAKE_CAPABILITY=100 AXON_SCHEDULES=schedules on_gpu "$AXON" run blocks.axn \
  >"$work/output" 2>&1
grep -q '4-bit floats with scales need m=128' "$work/output" || {
  fail 'the refusal of m=64'
  tail -n 3 "$work/output"
}

# Epilogues: rows reduced to numbers, an activation.
sed '/^val mx/,$d' blocks.axn >ends.axn
cat >>ends.axn <<'END'
fun mx u = u @ transpose (fp4.dequantize_mx y ys)
do print (max ~axis:1 (mx (fp4.dequantize_mx x xs)))
do print (bf16 (nn.relu (mx (fp4.dequantize_mx x xs))))
END
echo 'gemm * f4_e2m1 *x*x* {way=tcgen05 n=32}' >schedules
AXON_SCHEDULES=schedules products ends 100 tcgen05 2

# More rows and columns than a tile, two batches, a scale for 64 terms, and
# strides that are not contiguous.
cat >wide.axn <<END
$made
val x = reshape [2, 129, 96] (elements 24768 5)
val y = reshape [2, 150, 96] (elements 28800 3)
val xn = reshape [2, 129, 6] (numbers 1548 3)
val yn = reshape [2, 150, 6] (numbers 1800 5)
val ys = reshape [2, 150, 3] (powers 900 2)
val t = reshape [129, 128] (elements 16512 3)
val ts = reshape [2, 129] (powers 258 3)
do print (x, y, xn, yn)
do print (ys, t, ts)
fun all z = sum (i64 (z * 64.0) * (1 + iota 150 * 7 % 11))
val nv = fp4.dequantize_nv x xn 1.0 @ transpose (fp4.dequantize_nv y yn 1.0)
do print (nv, all nv)
val mx = for i < 129, j < 150 => sum (for k < 2, l < 32 =>
  f32 t.[i, 64 + 32 * k + l] * f32 ts.[k, i] *
  (f32 ys.[1, j, k] * f32 y.[1, j, 32 * k + l]))
do print (mx, all mx)
val far = for i < 129, j < 129 => sum (for k < 2, l < 64 =>
  f32 t.[i, 64 * k + l] * f32 ts.[k, i] *
  (f32 t.[j, 64 * k + l] * f32 ts.[1 - k, j]))
do print (far, all (pad ~axis:1 ~after:21 far))
END
echo 'gemm * f4_e2m1 *x*x* {way=tcgen05 n=192 stages=2 store=shared}' >schedules
mkdir "$work/sources"
AXON_CC_DEBUG="$work/sources" AXON_SCHEDULES=schedules \
  products wide 100 tcgen05 3

# NVRTC, if installed, compiles the kernels without messages and spills.
texts=$build/tests/unit/cudatexts_test
if [ -x "$texts" ]; then
  for source in "$work"/sources/*; do
    grep -q ax_tcgen05_copy_scales "$source" || rm "$source"
  done
  timeout 580 "$texts" "$work/sources" >"$work/output" 2>&1 || {
    fail 'NVRTC compiles kernels with messages or spills'
    head -n 40 "$work/output"
  }
  grep '^skipped' "$work/output"
fi

# Weights of 4 bits, and 8-bit floats, with other types.
cat >mixed.axn <<END
$made
val y = reshape [40, 288] (elements 11520 3)
val ys = reshape [40, 9] (powers 360 2)
val x = bf16 (reshape [70, 288] (f32 (iota 20160 * 7 % 13) - 6.0))
val w = reshape [40, 288] (f8_e4m3 (f32 (iota 11520 * 5 % 11) - 5.0))
do print (x, y, ys, w)
do print (f32 x @ transpose (fp4.dequantize_mx y ys))
do print (f32 x @ transpose (f32 w))
do print (f32 w @ transpose (f32 y))
END
products mixed 80 mma 3
echo 'gemm * bf16 *x*x* {way=wgmma}' >schedules
AXON_SCHEDULES=schedules products mixed 90 wgmma 2
# A module, whose sizes are those of a call.  It stores the elements and scales
# that it computes.
cat >module.axn <<'END'
fun product (x : f32[m, 16 * b]) (s : f32[m, b]) (y : f32[n, 16 * b])
    (t : f32[n, b]) =
  let
    val (c, d) = (f4_e2m1 x, f4_e2m1 y)
    val p = f8_e4m3 s
    val q = f8_e4m3 t
  in fp4.dequantize_nv c p 1.0 @ transpose (fp4.dequantize_nv d q 1.0) end
schedule product =
  cut f4_e2m1 x
  cut f4_e2m1 y
  cut p
  cut q
END
export AXON_NVRTC="$work/libnvrtc.so.13" FAKE_DEFAULT=1
"$AXON" build --target cuda:sm_100a -o gpu.so module.axn || fail 'no gpu.so'
grep -q 'way=tcgen05' gpu.json || fail 'a module does not use tcgen05'
"$AXON" build -o host.c module.axn &&
  "${CC:-cc}" -w -O0 -shared -fPIC host.c -o host.so -lm
env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 \
  FAKE_CAPABILITY=100 timeout 500 python3 "$here/tests/cuda_module.py" gpu.so \
  gpu.json host.so host.json 2000 1 3 40 >output 2>&1 ||
  fail "a module: $(tail -n 20 output)"
exit "$bad"
