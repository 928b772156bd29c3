#!/bin/bash
# Products on sm_100a: tcgen05 with sums in tensor memory, on the GPU simulator.
# Results are those of the reference backend.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_TARGET AXON_NVRTC LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES
. "$here/tests/cuda_fakes.sh"
export FAKE_CAPABILITY=100

# The plan of NAME.axn has COUNT products by tcgen05, and the output is right.
tensor() { # tensor NAME COUNT
  same "$1"
  output=$(on_gpu "$AXON" plan "$1.axn" 2>&1 | tr -s ' \n' ' ')
  count=$(grep -o 'tile for sm_100a: way=tcgen05' <<<"$output" | wc -l)
  [ "$count" = "$2" ] || fail "$1: $count products by tcgen05: $output"
}

# Epilogues: biases, activations, a residual, several results, rows reduced to
# numbers; a batch; sizes that are no multiples of a tile.
cat >epilogues.axn <<'END'
val x = bf16 (reshape [130, 200] (f32 ((iota 26000 * 7) % 13))) - bf16 6.0
val w = bf16 (reshape [200, 72] (f32 ((iota 14400 * 5) % 11))) - bf16 5.0
val b = f32 (iota 72 % 5) - 2.0
val r = bf16 (reshape [130, 72] (f32 (iota 9360 % 9)))
do print (x, w, b, r)
do print (x @ w)
do print (let val y = f32 (x @ w) + b
  in bf16 (select (y > 0.0) y (0.125 * y)) + r end)
do print (let val y = f32 x @ f32 w in (floor y, y > 100.0) end)
do print (let val y = f32 x @ f32 w in (max ~axis:1 y, sum ~axis:1 y) end)
val y = bf16 (reshape [2, 67, 72] (f32 (iota 9648 % 7)))
do print y
do print (y @ transpose y)
END
for fields in 'm=128 n=64 store=shared' 'm=64 n=32 accumulators=1'; do
  echo "gemm * bf16 *x*x* {way=tcgen05 $fields}" >schedules
  AXON_SCHEDULES=schedules tensor epilogues 5
done

# 8-bit floats by kind::f8f6f4, in both formats.
cat >octets.axn <<'END'
val x = reshape [70, 208] (f32 ((iota 14560 * 7) % 13)) - 6.0
val w = reshape [48, 208] (f32 ((iota 9984 * 5) % 11)) - 5.0
val (a, b) = (f8_e4m3 x, f8_e4m3 w)
val (c, d) = (f8_e5m2 x, f8_e5m2 w)
do print (a, b)
do print (c, d)
do print (f32 a @ transpose (f32 b))
do print (f32 c @ transpose (f32 d))
END
tensor octets 2

# Attention: plain and causal, grouped queries, capped scores with a bias, and
# values beyond the mask that are not finite.
cat >attention.axn <<'END'
fun m h n d s by = sort ~axis:2 (for b < 1, g < h, i < n, j < d =>
  bf16 (float ((g * 3 + i * s + j * 5) % 13 - 6) * by))
fun near x = floor (f32 x * 4.0 + 0.5)
do print (near (nn.attention (m 2 150 64 7 0.0625) (m 2 130 64 3 1.0)
  (m 2 130 64 9 1.0)))
do print (near (nn.attention ~causal:true (m 1 290 64 7 0.25)
  (m 1 200 64 3 1.0) (m 1 200 64 9 1.0)))
do print (near (nn.grouped_attention ~causal:true (m 4 40 32 7 0.25)
  (m 2 40 32 3 1.0) (m 2 40 48 9 1.0)))
fun capped s = 20.0 * tanh (s / 20.0) + (for i < 130, j < 70 =>
  float (i - j) * 0.125)
do print (near (bf16 (nn.softmax (capped
  (f32 (m 1 130 64 7 0.25 @ transpose (m 1 70 64 3 1.0))))) @
  m 1 70 64 9 1.0))
val odd = sort ~axis:2 (for b < 1, g < 1, i < 140, j < 32 =>
  bf16 (if i == 139 then inf else float ((i * 9 + j * 5) % 13 - 6)))
do print (near (nn.attention ~causal:true (m 1 140 32 7 0.25)
  (m 1 140 32 3 1.0) odd))
END
# The kernels of a gradient store and read the maximum and the sum of each row.
{
  head -n 3 attention.axn
  echo 'fun squares (q, k, v) = sum (f32 (square (nn.attention q k v)))'
  echo 'val (x, y, z) = grad squares (m 2 300 16 7 0.25, m 2 260 16 3 1.0,'
  echo '  m 2 260 16 9 1.0)'
  echo 'do print (near (x * 0.125), near (y * 0.03125), near (z * 0.03125))'
} >statistics.axn
# The plan has no schedules of kernels of one block.
attention() { # attention NAME COUNT FIELDS: kernels by tcgen05, right results
  echo "attention * bf16 *x*x* {way=tcgen05 copy=engine $3}" >schedules
  AXON_SCHEDULES=schedules same "$1"
  output=$(AXON_SCHEDULES=schedules on_gpu "$AXON" plan "$1.axn" 2>&1 |
    tr -s ' \n' ' ')
  [ "$(grep -o 'attention, tile for sm_100a: way=tcgen05' <<<"$output" |
    wc -l)" = "$2" ] || fail "$1 {$3}: not $2 kernels: $output"
}
attention attention 5 'm=128 warps_m=1 n=64 stages=2'
attention attention 3 'm=256 warps_m=2 n=32 stages=2'
attention statistics 2 'm=128 warps_m=1 n=64 stages=2'

# f32 rounded to tf32.
cat >wide.axn <<'END'
val x = reshape [70, 48] (f32 ((iota 3360 * 7) % 13)) - 6.0
val w = reshape [40, 48] (f32 ((iota 1920 * 5) % 11)) - 5.0
do print (x, w)
do print (x @ transpose w)
END
AXON_TF32=1 tensor wide 1

# Convolutions: pixels by TMA in its im2col mode.
cat >conv.axn <<'END'
fun some n by = bf16 (f32 (iota n * by % 13) - 6.0)
fun bordered x =
  x |> pad ~axis:1 ~before:1 ~after:1 |> pad ~axis:2 ~before:2 ~after:1
fun conv x w =
  for n, y < 5, z < 4, u =>
    sum (for i < 3, j < 3, a =>
      f32 x.[n, 2 * y + i, 2 * z + j, a] * f32 w.[u, i, j, a])
val x = reshape [5, 9, 8, 64] (some 23040 7)
val w = reshape [40, 3, 3, 64] (some 23040 5)
do print (x, w)
do print (conv (bordered x) w)
END
tensor conv 1
echo 'gemm * bf16 *x*x* {way=tcgen05 pair=1}' >schedules
output=$(AXON_SCHEDULES=schedules on_gpu "$AXON" plan conv.axn 2>&1 |
  tr -s ' \n' ' ')
grep -q 'not used: pair=1 multiplies no images' <<<"$output" ||
  fail "pairs of images: $output"

# Schedules: used, or refused with a message.
export AXON_SCHEDULES=schedules
cat >one.axn <<'END'
val x = bf16 (reshape [300, 200] (f32 ((iota 60000 * 7) % 13))) - bf16 6.0
val w = bf16 (reshape [200, 104] (f32 ((iota 20800 * 5) % 11))) - bf16 5.0
do print (x, w)
do print (x @ w)
END
for fields in 'm=64 n=32 accumulators=1 stages=2' 'm=128 n=96 store=shared' \
  'n=64 store=engine waiting=1 cluster_n=2' \
  'n=64 m=64 stream=1 store=engine waiting=1 cluster_m=2' \
  'n=32 store=engine waiting=2 cluster_m=2 m=64' \
  'm=128 n=64 pair=1 cluster_m=2 cluster_n=1'; do
  echo "gemm * bf16 *x*x* {way=tcgen05 $fields}" >schedules
  tensor one 1
  for field in $fields; do
    grep -q " $field " <<<"$output" || fail "no $field: $output"
  done
done
for fields_message in 'way=tcgen05 m=256|m=64 or m=128' \
  'way=tcgen05 flight=1|flight needs way=wgmma' \
  'way=tcgen05 pair=1 m=64|pair=1 needs m=128' \
  'way=tcgen05 accumulators=4|accumulators=4: it must be 1 or 2' \
  'way=wgmma|way=wgmma needs the architecture sm_90a'; do
  echo "gemm * bf16 *x*x* {${fields_message%|*}}" >schedules
  output=$(on_gpu "$AXON" plan one.axn 2>&1 | tr -s ' \n' ' ')
  grep -q "not used: .*${fields_message#*|}" <<<"$output" ||
    fail "no ${fields_message#*|}: $output"
done
echo 'gemm * bf16 *x*x* {way=tcgen05}' >schedules
FAKE_CAPABILITY=90 same one
output=$(FAKE_CAPABILITY=90 on_gpu "$AXON" plan one.axn 2>&1 | tr -s ' \n' ' ')
grep -q 'not used: way=tcgen05 needs the architecture sm_100a' <<<"$output" ||
  fail "tcgen05 on sm_90a: $output"
unset AXON_SCHEDULES

# An operand that is computed has another kernel.
cat >computed.axn <<'END'
val x = bf16 (reshape [70, 200] (f32 ((iota 14000 * 7) % 13))) - bf16 6.0
val w = reshape [200, 72] (i8 ((iota 14400 * 5) % 11) - i8 5)
do print (x, w)
do print (f32 x @ f32 (bf16 (f32 w * 0.5)))
END
tensor computed 0
exit "$bad"
