#!/bin/bash
# Programs on the target cuda, from end to end, where the driver and its
# compiler are fakes and the simulator of a GPU runs the kernels
# (tests/unit/cuda_fake.h, nvrtc_fake.h): random graphs and some programs give
# what the reference backend gives, and what goes wrong is told as there.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
bad=0

wrong() {
  echo "$1"
  bad=1
}

. "$here/tests/cuda_fakes.sh"

on_gpu() {
  env LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13" \
    AXON_TARGET=cuda AXON_TINY=0 FAKE_MEMORY="${memory:-2000}" \
    FAKE_PROCESSORS="${processors:-4}" AXON_SOURCE="$here" "$@"
}

# Random graphs (make check-gpu has more of them), and single operations.
test=$build/tests/unit/kernels_test
if [ -x "$test" ]; then
  mkdir "$work/texts"
  AXON_CC_DEBUG="$work/texts" on_gpu timeout 300 "$test" 1 1 >"$work/said" \
    2>&1 || {
    wrong "kernels_test on the target cuda: status $?"
    grep -v 'RUN\|OK' "$work/said" | head -n 40
  }
fi

# Their texts, through NVRTC where it is: no warnings, no spills.
texts=$build/tests/unit/cudatexts_test
if [ -x "$texts" ] && [ -d "$work/texts" ]; then
  timeout 300 "$texts" "$work/texts" >"$work/said" 2>&1 || {
    wrong 'kernels through NVRTC'
    head -n 40 "$work/said"
  }
  grep '^skipped' "$work/said"
fi

same() { # same NAME: the program there says the same on both
  on_gpu timeout 100 "$AXON" run "$1.axn" >"$work/gpu" 2>&1
  got=$?
  AXON_TARGET=reference "$AXON" run "$1.axn" >"$work/host" 2>&1
  want=$?
  [ "$got" = "$want" ] && cmp -s "$work/gpu" "$work/host" || {
    wrong "$1: status $got, and of the reference backend $want"
    diff "$work/host" "$work/gpu" | head -n 20
  }
}

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
# products: of f32, bf16 and f64, of batches, and a convolution
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
val q = reshape [6, 20, 32] (f32 ((iota 3840 * 3) % 7)) - 3.0
val k = reshape [6, 25, 32] (f32 ((iota 4800 * 5) % 9)) - 4.0
do print (sum ~axis:0 (einsum "b i k, b j k -> b i j" q k))
val i = reshape [2, 8, 12, 12] (f32 ((iota 2304 * 3) % 7)) - 3.0
val f = reshape [16, 8, 3, 3] (f32 ((iota 1152 * 5) % 9)) - 4.0
do print (sum ~axis:0 (conv2d ~padding:1 {w = f, b = f32 (iota 16)} i))
END
for name in rows outside zero products; do
  same "$name"
done

# Memory that is full is told, with what it was for; and before that what the
# host has, too, makes room.
cat >large.axn <<'END'
val x = f32 (iota 200000)
do print (sum (x + 1.0))
val y = outer (x + 1.0) (x.[0:200])
do print (sum y)
END
said=$(memory=40 on_gpu "$AXON" run large.axn 2>&1)
grep -q "of the GPU's memory" <<<"$said" || wrong "memory that is full: $said"
cat >many.axn <<'END'
fun f (k : f32) = f32 (iota 300000) * k
val (a, b, c, d) = (f 1.0, f 2.0, f 4.0, f 8.0)
do print (a, b, c, d)
do print (a + 1.0, b + 1.0, c + 1.0, d + 1.0)
END
memory=8 same many

# What is computed again is a graph of the driver's, changed where tensors are.
cat >again.axn <<'END'
val w = reshape [40, 40] (f32 ((iota 1600 * 5) % 11)) - 5.0
fun net (x : f32[n, 40]) = nn.softmax (nn.relu (x @ w) @ w) @ w
fun input k = reshape [30, 40] (f32 ((iota 1200 * 7 + k) % 13)) - 6.0
fun turn k = print (abs (sum (abs (net (input k))) - 3269.5) < 3.0)
do turn 1
do turn 2
do turn 3
do turn 4
END
same again
said=$(on_gpu env FAKE_TELL=1 "$AXON" run again.axn 2>&1)
[ "$(grep -c "a graph of [5-9] kernels" <<<"$said")" = 2 ] ||
  wrong "no graphs: $said"

# axon plan says how.
said=$(on_gpu "$AXON" plan --code rows.axn 2>&1)
for word in 'teams of' 'rows in registers' 'sm_90a, indices of 32 bits' \
  '__launch_bounds__'; do
  grep -q "$word" <<<"$said" || wrong "axon plan: no $word: $said"
done
exit "$bad"
