#!/bin/bash
# End-to-end tests of the target cuda with a fake driver and a fake NVRTC
# (tests/unit/cuda_fake.h, nvrtc_fake.h).  The GPU simulator runs the kernels.
# Random graphs and some programs give the results and the errors of the
# reference backend.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"

# Random graphs (make check-gpu runs more of them), and single operations.
test=$build/tests/unit/kernels_test
if [ -x "$test" ]; then
  mkdir "$work/sources"
  AXON_CC_DEBUG="$work/sources" on_gpu timeout 1500 "$test" 1 1 \
    >"$work/output" 2>&1 || {
    fail "kernels_test on the target cuda: status $?"
    grep -v 'RUN\|OK' "$work/output" | head -n 40
  }
fi

# Random attention graphs: one fused kernel, with mma by default, and with wgmma
# if a schedule file selects it.  NVRTC compiles one source of each kind.
test=$build/tests/unit/between_test
if [ -x "$test" ]; then
  mkdir -p "$work/sources" "$work/attention"
  echo 'attention * * *x*x* {way=wgmma copy=engine m=128 warps_m=2 n=32}' \
    >"$work/schedules"
  for seeds in '100 6' '750 5' '750 3'; do
    [ "$seeds" != '750 3' ] || sed -i 's/}/ persistent=1}/' "$work/schedules"
    # shellcheck disable=SC2086
    AXON_CC_DEBUG="$work/attention" on_gpu timeout 1500 "$test" $seeds \
      >"$work/output" 2>&1 || {
      fail "between_test on the target cuda, $seeds: status $?"
      grep -v 'RUN\|OK' "$work/output" | head -n 40
    }
    export AXON_SCHEDULES="$work/schedules"
  done
  unset AXON_SCHEDULES
  for mma_kind in mma wgmma; do
    source=$(grep -l "fused attention, .* way=$mma_kind" \
      "$work"/attention/*.cu | head -n 1)
    [ -n "$source" ] || fail "no fused attention with $mma_kind"
    [ -z "$source" ] || cp "$source" "$work/sources"
  done
fi

# Causal attention with values that are not finite.  The blocks of a wgmma
# kernel find them, without a pass before it.
cat >odd.axn <<'END'
fun m s by = sort ~axis:2 (for b < 2, h < 1, i < 290, j < 64 =>
  bf16 (float ((b * 11 + h * 3 + i * s + j * 5) % 13 - 6) * by))
fun some at x (v : bf16[2, 1, 290, 64]) =
  force (for b < 2, h < 1, i < 290, j < 64 =>
    if b == 1 && h == 0 && i == at && j == 7 then bf16 x else v.[b, h, i, j])
val q = m 7 0.25
val k = m 3 1.0
val v = m 9 1.0
fun odd v =
  let
    val x = f32 (nn.attention ~causal:true q k v)
  in
    for b < 2, h < 1 => sum (for i < 290, j < 64 =>
      if x.[b, h, i, j] - x.[b, h, i, j] == 0.0 then 0.0 else 1.0)
  end
do print (odd v, odd (some 289 inf v), odd (some 3 nan v))
do print (odd (some 130 (-inf) v))
END
same odd
echo 'attention * * *x*x* {way=wgmma copy=engine m=128 warps_m=2 n=32}' \
  >schedules
export AXON_SCHEDULES=schedules
same odd
sed -i 's/}/ persistent=1 store=engine waiting=2}/' schedules
same odd
output=$(on_gpu "$AXON" plan odd.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'tasks of fused attention, tile for sm_90a: way=wgmma' <<<"$output" ||
  fail "a pass before attention: $output"
unset AXON_SCHEDULES

# NVRTC, if installed, compiles the sources without messages and spills.
test=$build/tests/unit/cudatexts_test
if [ -x "$test" ] && [ -d "$work/sources" ]; then
  timeout 1500 "$test" "$work/sources" >"$work/output" 2>&1 || {
    fail 'NVRTC compiles kernels with messages or spills'
    head -n 40 "$work/output"
  }
  grep '^skipped' "$work/output"
fi

cat >rows.axn <<'END'
val x = reshape [30, 200] (f32 ((iota 6000 * 7) % 61)) - 30.0
do print (argmax ~axis:1 x)
do print (max ~axis:0 x)
do print (sum (max ~axis:1 ~keep:true x - x))
val y = iterate 20 (fn s => s * 0.5 + 1.0) x
do print y
val z = nn.softmax (y * 8.0)
do print (argmax ~axis:1 z, max z > 0.0)
END
cat >outside.axn <<'END'
val i = iota 3000 * 2
val x = f32 (iota 3000)
do print (x.[i])
END
cat >zero.axn <<'END'
val x = iota 3000
do print ((x + 1) / (x - 2999))
END
# Linear algebra runs on the host, between kernels of the device.
cat >linear.axn <<'END'
val a = reshape [2, 5, 5] (f32 ((iota 50 * 7) % 11)) + 9.0 * eye 5
val b = exp (linalg.solve (a * 0.5) (a @ a) * 0.01)
val c = linalg.inv (transpose b @ b + eye 5)
do print (linalg.det (b + eye 5), i64 (1000.0 * sum c))
END
# Contractions of f32, bf16 and f64, batched ones, and a convolution.
cat >products.axn <<'END'
open nn
val x = reshape [40, 70] (f32 ((iota 2800 * 7) % 13)) - 6.0
val w = reshape [70, 50] (f32 ((iota 3500 * 5) % 11)) - 5.0
val b = f32 (iota 50)
do print (x @ w)
do print (relu (x @ w * 0.5 + b))
do print (sum (bf16 x @ bf16 w))
do print (transpose w @ transpose x)
do print (sum (f64 x @ f64 w))
do print (sum (f8_e4m3 x @ f8_e4m3 w), f32 (f8_e5m2 x @ f8_e5m2 w))
do print (sort (f8_e5m2 x.[0, ...]), cumsum (f8_e4m3 w.[1, ...]))
do print (f8_e4m3 (x * 100.0), f8_e5m2 (x * 20000.0 / (x - 1.0)))
do print (sort (f4_e2m1 x.[0, ...]), cumsum (f4_e2m1 w.[1, ...]))
do print (f4_e2m1 x @ f4_e2m1 w)
do print (f8_e8m0 x, sort (f8_e8m0 w.[0, ...]), f4_e2m1 (x / 4.0))
val (e, s) = fp4.quantize_mx (reshape [40, 64] (f32 (iota 2560 * 7 % 13)) - 6.0)
val (f, t) = fp4.quantize_mx (reshape [50, 64] (f32 (iota 3200 * 5 % 11)) - 5.0)
do print (e, s, fp4.dequantize_mx e s @ transpose (fp4.dequantize_mx f t))
do print (for i, j => sum (for k =>
  f32 e.[i, k] * f32 s.[i, k / 32] * (f32 f.[j, k] * f32 t.[j, k / 32])))
do print (fp4.quantize_nv (f32 e))
val (u, v) = (f8_e4m3 x, f8_e4m3 (transpose w))
do print (u @ transpose v, f32 (u * f8_e4m3 2.0) @ transpose (f32 v))
val p = f8_e5m2 (reshape [300, 512] (f32 (iota 153600 * 7 % 13)) - 6.0)
val q = f8_e5m2 (reshape [200, 512] (f32 (iota 102400 * 5 % 13)) - 6.0)
do print (f32 p @ transpose (f32 q))
val q = reshape [6, 20, 32] (f32 ((iota 3840 * 3) % 7)) - 3.0
val k = reshape [6, 25, 32] (f32 ((iota 4800 * 5) % 9)) - 4.0
do print (sum ~axis:0 (einsum "b i k, b j k -> b i j" q k))
val i = reshape [2, 8, 12, 12] (f32 ((iota 2304 * 3) % 7)) - 3.0
val f = reshape [16, 8, 3, 3] (f32 ((iota 1152 * 5) % 9)) - 4.0
do print (sum ~axis:0 (conv2d ~padding:1 {w = f, b = f32 (iota 16)} i))
END
# A cached plan draws numbers of another random key in each iteration.
cat >keys.axn <<'END'
fun draw (k : i64) = sum (uniform (key k) [3000] : f32[3000])
do print (map draw (iota 4))
do print (draw 5, draw 6, draw 7)
do print (normal (key 8) [90], (normal (key 9) [30] : f64[30]))
END
# Contractions whose operands TMA copies, at aligned and unaligned sizes, with
# and without epilogues.
cat >groups.axn <<'END'
open nn
fun number ~by:k n = f32 ((iota n * k) % 13) - 6.0
val x = bf16 (reshape [130, 200] (number ~by:7 26000))
val w = bf16 (reshape [200, 72] (number ~by:5 14400))
val b = bf16 (number ~by:3 72)
do print (x @ w)
do print (sum ~axis:0 (f32 (relu (x @ w + b))))
do print (sum ~axis:0 (f32 ((x @ w) * 0.5 + x.[:, 0:72])))
do print (sum ~axis:1 (f32 (transpose w @ transpose x)))
do print (let val y = x @ w in (y, relu (f32 y)) end)
do print (argmax ~axis:1 (f32 (x @ w)))
val q = bf16 (reshape [2, 3, 65, 64] (number ~by:3 24960))
val k = bf16 (reshape [2, 3, 33, 64] (number ~by:5 12672))
do print (sum ~axis:3 (f32 (einsum "a b i k, a b j k -> a b i j" q k)))
val long = bf16 (reshape [16, 4096] (number ~by:3 65536))
do print (long @ transpose long)
END
# The arguments exceed the parameter limit of the driver.  They are passed in
# global memory.
{
  echo 'val x = cumsum ~axis:0 (reshape [20, 20, 20] (f32 (iota 8000 % 61)))'
  printf 'do print ((0.0'
  for ((k = 0; k < 240; k++)); do
    at=$((k % 7)) by=$((k % 5)) in=$((k % 3))
    printf ' + x.[%d:%d, %d:%d, %d:%d] * %d.0' $at $((at + 9)) $by \
      $((by + 8)) $in $((in + 7)) "$k"
  done
  echo ').[:, 3, :])'
} >far.axn
# argmax and argmin of long rows: two-pass reductions.
cat >places.axn <<'END'
val x = cumsum ~axis:0 (for i < 70001, j < 2 => f32 ((i * 7 + j) % 61 - 30))
do print (argmax ~axis:0 x, argmin ~axis:0 x)
val y = cumsum (f32 (iota 70001 % 61) - 30.0)
do print (argmax y, argmin y, argmax (y * 0.0))
val z = cumsum (select (iota 70001 == 50000) (0.0 / 0.0) 1.0)
do print (argmax z, argmin z)
END
# Fourier transforms run on the host.
cat >fourier.axn <<'END'
val x : f64[1200] = sin (float (iota 1200))
val z = fft.rfft ~axis:0 (reshape [30, 40] x * 2.0)
do print z
do print (fft.irfft ~axis:0 30 {re = z.re * 2.0, im = z.im} + 1.0)
do print [sum (complex.cabs (fft.fft ~axis:all z))]
do print (grad (fn x => sum (square (fft.rfft x).im)) x.[:7])
END
# A tensor without elements: loops over it do not run, and it has no element 0.
cat >none.axn <<'END'
val b : f64[0, 3] = reshape [0, 3] (sort ([] : f64[0]))
val g = grad (fn (a, b) => sum (sin (scatter a [] (min ~axis:1 b))))
  ((sort [2.0, 1.0] : f64[2]), b)
do print (total id (each2 (fn x y => x * y) g g))
END
cat >empty.axn <<'END'
val x : f64[?k] = filter (fn v => v > 90.0) (sort (for i < 5 => float i))
do print (gather x (sort ([1, 0] : i64[2])) + 1.0)
END
# Approximations of tanh and sigmoid apply only where no operation enlarges
# their error.
cat >capped.axn <<'END'
fun number ~by = f32 ((iota 13312 * 3) % by) - f32 (by / 2)
val q = bf16 (reshape [2, 208, 32] (number ~by:7))
val k = bf16 (reshape [2, 208, 32] (number ~by:9))
val v = bf16 (reshape [2, 208, 32] (number ~by:13))
val s = einsum "b i k, b j k -> b i j" (f32 q) (f32 k)
fun weigh e = einsum "b i j, b j d -> b i d" (f32 (bf16 e)) (f32 v)
fun soft s =
  let val e = exp (s - max ~axis:2 ~keep:true s)
  in bf16 (weigh e / sum ~axis:2 ~keep:true e) end
do print (soft (nn.causal_mask (20.0 * tanh (s * 0.01))))
do print (soft (nn.causal_mask (20.0 * tanh (1.0e7 * tanh (s * 1.0e-10)))))
do print (bf16 (weigh (nn.sigmoid (1.0e6 * (1.0 + tanh (s * 0.01 - 9.5))))))
val x = f32 (q.[0, ...] @ transpose k.[1, ...])
do print (bf16 (select (1.0 + tanh (x - 300.0) == 0.0) x 1.0))
END
mkdir "$work/capped"
AXON_CC_DEBUG="$work/capped" same capped
grep -qr 'ax_tanh_absolute(s' "$work/capped" || fail 'capped: no approximation'
for name in rows zero products keys groups far places fourier none linear; do
  same "$name"
done
same outside 1
same empty 1

# Tensor cores multiply f32 as tf32 only with AXON_TF32=1.  The numbers here are
# exact in tf32.
grep -q tf32 <<<"$(on_gpu "$AXON" plan products.axn 2>&1)" &&
  fail 'tf32 without AXON_TF32=1'
export AXON_TF32=1
same products
cat >wide.axn <<'END'
val x = reshape [70, 48] (f32 ((iota 3360 * 7) % 13)) - 6.0
val w = reshape [40, 48] (f32 ((iota 1920 * 5) % 11)) - 5.0
do print (x, w)
do print (x @ transpose w)
val near = for i < 70, j < 48 => if j == 0 then 1.0 + 0.000732421875 else 0.0
val few = for i < 40, j < 48 => if j == 0 then 1.0 else 0.0
do print (near, few)
do print (floor (1024.0 * (near @ transpose few) - 0.5))
END
echo 'gemm * f32 *x*x* {way=wgmma m=64 warps_m=1 n=32}' >schedules
export AXON_SCHEDULES=schedules
same wide
output=$(on_gpu "$AXON" plan wide.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'way=wgmma.*rounded to tf32' <<<"$output" || fail "no wgmma: $output"
unset AXON_SCHEDULES
output=$(on_gpu "$AXON" plan products.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'rounded to tf32' <<<"$output" || fail "no tf32: $output"
unset AXON_TF32

# Computed operands of wgmma: the producer warps, which start the TMA copies of
# the other operand, compute the elements and store them to shared memory.  The
# operand is K-major, MN-major, packed (two 4-bit numbers per byte), or has
# filter taps that are a separate reduction axis (convolution).
cat >computed.axn <<'END'
val x = bf16 (reshape [70, 200] (f32 ((iota 14000 * 7) % 13))) - bf16 6.0
val w = i8 ((iota 14400 * 5) % 11) - i8 5
val s = f32 (iota 72 % 3) * 0.5 + 0.5
val packed = u8 ((iota 7200 * 37) % 256)
val wide = f32 ((iota 14000 * 7) % 13) - 6.0
val plain = bf16 (f32 (iota 14400 % 5))
val image = bf16 (reshape [2, 9, 9, 16] (f32 (iota 2592 % 7)))
val taps = i8 ((iota 4608 * 5) % 7) - i8 3
do print (w, s, packed, wide, plain)
do print (x, image, taps)
val rows = reshape [72, 200] w
val columns = reshape [200, 72] w
val halves = reshape [72, 100] packed
val kernels = reshape [32, 3, 3, 16] taps
do print (f32 x @ f32 (bf16 (for i < 200, j < 72 =>
          f32 rows.[j, i] * s.[j])))
do print (f32 x @ f32 (bf16 (for i < 200, j < 72 =>
          f32 columns.[i, j] * s.[j])))
do print (f32 x @ f32 (bf16 (for i < 200, j < 72 =>
          let val b = i32 halves.[j, i / 2] in
            f32 ((if i % 2 == 0 then b % 16 else b / 16) - 8)
          end)))
do print (f32 (bf16 (reshape [70, 200] wide * 2.0)) @
          transpose (f32 (reshape [72, 200] plain)))
fun bordered x =
  x |> pad ~axis:1 ~before:1 ~after:1 |> pad ~axis:2 ~before:1 ~after:1
fun conv x w =
  for n < 2, y < 9, z < 9, u < 32 =>
    sum (for i < 3, j < 3, a < 16 =>
      f32 x.[n, y + i, z + j, a] * f32 (bf16 w.[u, i, j, a]))
do print (conv (bordered image) kernels)
END
echo 'gemm * bf16 *x*x* {way=wgmma m=64 warps_m=1 n=32}' >schedules
export AXON_SCHEDULES=schedules
same computed
output=$(on_gpu "$AXON" plan computed.axn 2>&1 | tr -s ' \n' ' ')
count=$(grep -o 'way=wgmma [^:]* copy_[ab]=16 width' <<<"$output" | wc -l)
[ "$count" = 5 ] ||
  fail "a computed operand, but not wgmma: $output"
unset AXON_SCHEDULES
FAKE_CAPABILITY=80 same computed

# Schedule files: used, or rejected with an error.
cat >one.axn <<'END'
val x = bf16 (reshape [130, 200] (f32 ((iota 26000 * 7) % 13))) - bf16 6.0
val w = bf16 (reshape [200, 72] (f32 ((iota 14400 * 5) % 11))) - bf16 5.0
do print (x @ w)
END
export AXON_SCHEDULES=schedules
for fields in 'n=64 stages=2 flight=1 (* plain *)' \
  'n=96 persistent=0 m=64 warps_m=1' 'n=96 stream=1 m=64 warps_m=1' \
  'n=96 pingpong=1 m=64 stages=4' \
  'n=64 store=engine waiting=1 persistent=0 cluster_n=2' \
  'n=32 store=engine waiting=3 cluster_m=2 m=64 warps_m=1 stream=1'; do
  printf '(* all *)\n\ngemm * bf16 *x*x* {way=wgmma %s}\n' "$fields" >schedules
  same one
done
echo 'gemm * bf16 *x*x* {way=mma m=32 n=32 k=32 split=4}' >schedules
same one
output=$(on_gpu "$AXON" plan one.axn 2>&1)
grep -q 'split=4' <<<"$output" || fail "the schedule file is not used: $output"
cat >many.axn <<'END'
val x = bf16 (reshape [4096, 64] (f32 (iota 262144 % 13)))
do print (x @ transpose x)
END
echo 'gemm * * *x*x* {way=mma m=32 n=32 k=32 warps_m=1 warps_n=1 split=2}' \
  >schedules
output=$("$AXON" plan --target cuda:sm_90a many.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'not used: split=2: the product has 16384 tiles' <<<"$output" ||
  fail "a schedule with more tiles than counters: $output"
echo 'gemm * bf16 *x*x* {way=wgmma n=100}' >schedules
output=$(on_gpu "$AXON" plan one.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'not used: n=100: n must be a multiple of 32' <<<"$output" ||
  fail "an invalid tile size: $output"
grep -q 'not used: schedules:1:18: n=100: n must be a multiple' <<<"$output" ||
  fail "an unused rule: $output"
printf '\ngemm * bf16 {n=100}\n' >schedules
output=$(on_gpu "$AXON" run one.axn 2>&1) &&
  fail 'an invalid schedule file is accepted'
grep -q 'schedules:2:1: expected ROWSxCOLUMNSxTERMS' <<<"$output" ||
  fail "an invalid line of a schedule file: $output"
for path in "$work/none" "$work"; do # no such file; a folder
  output=$(AXON_SCHEDULES=$path on_gpu "$AXON" run one.axn 2>&1) &&
    fail "an unreadable schedule file is accepted: $path"
  grep -q 'cannot read ' <<<"$output" || fail "$output"
done
unset AXON_SCHEDULES

# If GPU memory is full, tensors that also exist in host memory are evicted.  If
# that does not suffice, the error names the operation.
cat >large.axn <<'END'
val x = f32 (iota 200000)
do print (sum (x + 1.0))
val y = outer (x + 1.0) (x.[0:200])
do print (sum y)
END
output=$(memory=40 pool= on_gpu "$AXON" run large.axn 2>&1)
grep -q "of the GPU's memory" <<<"$output" || fail "out of memory: $output"
cat >many.axn <<'END'
fun f (k : f32) = f32 (iota 300000) * k
val (a, b, c, d) = (f 1.0, f 2.0, f 4.0, f 8.0)
do print (a, b, c, d)
do print (a + 1.0, b + 1.0, c + 1.0, d + 1.0)
END
memory=8 pool= same many

# A plan that runs again becomes a captured launch (CUDA graph).  Later runs
# update its tensor addresses.
cat >again.axn <<'END'
val w = reshape [40, 40] (f32 ((iota 1600 * 5) % 11)) - 5.0
fun net (x : f32[n, 40]) = nn.softmax (nn.relu (x @ w) @ w) @ w
fun input k = reshape [30, 40] (f32 ((iota 1200 * 7 + k) % 13)) - 6.0
fun step k = print (abs (sum (abs (net (input k))) - 3269.5) < 3.0)
do step 1
do step 2
do step 3
do step 4
END
pool= same again
output=$(pool= on_gpu env FAKE_LOG=1 "$AXON" run again.axn 2>&1)
[ "$(grep -c "a graph of [5-9] kernels" <<<"$output")" = 2 ] ||
  fail "no CUDA graphs: $output"

# Ragged loops: every form that the CPU has.
on_gpu "$AXON" run "$here/tests/run/ragged.axn" >ragged.out 2>&1 ||
  fail "ragged.axn: status $?"
awk -f "$here/tests/close.awk" "$here/tests/run/ragged.out" ragged.out ||
  fail 'ragged.axn: another result'

# axon plan prints the schedules.
output=$(on_gpu "$AXON" plan --code rows.axn 2>&1)
for word in 'thread groups of' 'rows in registers' \
  'sm_90a, indices of 32 bits' \
  '__launch_bounds__'; do
  grep -q "$word" <<<"$output" || fail "axon plan: no $word: $output"
done
exit "$bad"
