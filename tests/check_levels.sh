#!/bin/bash
# Kernels compiled with little optimization compute the same bits as optimized
# ones: products of all sizes and types, convolutions, attention, reductions,
# scans, random numbers and gradients.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
export AXON_TARGET=cpu AXON_TINY=0
cat >"$work/a.axn" <<'END'
open nn
val a : f32[300, 129] = normal (key 1) [300, 129]
val b : f32[129, 257] = normal (key 2) [129, 257]
val s : f32[40, 7, 5] = normal (key 3) [40, 7, 5]
val t : f32[40, 5, 6] = normal (key 4) [40, 5, 6]
val x : f32[2, 5, 37, 41] = normal (key 5) [2, 5, 37, 41]
val w : f32[7, 5, 3, 3] = normal (key 6) [7, 5, 3, 3]
val one : f32[5, 3, 3] = normal (key 7) [5, 3, 3]
val q : f32[2, 3, 70, 16] = normal (key 8) [2, 3, 70, 16]
val line : f64[4001] = normal (key 9) [4001]
val deep : f32[1, 64, 23, 28] = normal (key 12) [1, 64, 23, 28]
val filter : f32[64, 64, 3, 3] = normal (key 13) [64, 64, 3, 3]

do save "product32.npy" (a @ b)
do save "product64.npy" (f64 a @ f64 b)
do save "product16.npy" (f32 (f16 a @ f16 b))
do save "productb16.npy" (f32 (bf16 a @ bf16 b))
do save "epilogue.npy" (gelu (a @ b + 0.5))
do save "small.npy" (s @ t)
do save "vector.npy" (dot a b.[:, 3])
do save "convolution.npy" (conv2d ~padding:1 {w, b = zeros [7]} x)
do save "deep.npy" (conv2d ~padding:1 {w = filter, b = zeros [64]} deep)
do save "strided.npy" (conv2d ~stride:2 {w, b = zeros [7]} x)
do save "depthwise.npy" (depthwise_conv2d {w = one, b = zeros [5]} x)
do save "pool.npy" (maxpool x)
do save "attention.npy" (attention q q q)
do save "causal.npy" (attention ~causal:true q q q)
do save "softmax.npy" (softmax a)
do save "norm.npy" (layernorm (norm_layer 129) a)
do save "columns.npy" (sum ~axis:0 a)
do save "rows.npy" (sum ~axis:1 a)
do save "sum.npy" [sum line, sum (line * line), prod (1.0 + 0.01 * line)]
do save "mean.npy" [mean line, var line]
do save "functions.npy" (exp a * sin a + tanh a - log (abs a) + erf a)
do save "functions64.npy" (exp line * sin line + cosh line - pow (abs line) 0.3)
do save "random.npy" (uniform (key 11) [1000] : f64[1000])
do save "cumsum.npy" (cumsum line)
fun decay h x = let val h = 0.9 * h + tanh x in (h, h) end
do save "scan.npy" (snd (scan decay (0.0 : f64) line))
do save "integers.npy" (for i < 500, j < 30 => (i * 7919 % 1013) / (j + 1) + j)
do save "gradient.npy"
     (grad (fn w => sum (square (tanh (conv2d {w, b = zeros [7]} x)))) w)
do save "attention_gradient.npy"
     (grad (fn q => sum (square (attention ~causal:true q q q))) q)
END
cat >"$work/gcc" <<'END'
#!/bin/bash
cc "$@" || { echo "$*" >>"$LOG"; exit 1; }
END
chmod +x "$work/gcc"
export LOG="$work/failed" AXON_CC="$work/gcc"
results() { # results FOLDER WHEN: the results in a folder of their own
  mkdir "$work/$1"
  (cd "$work/$1" && AXON_OPTIMIZE=$2 XDG_CACHE_HOME="$work/cache-$1" \
    timeout "$limit" "$AXON" run -q "$work/a.axn") || fail "$1: status $?"
}
results quick later
results optimized always
[ "$(find "$work/quick" -name '*.npy' | wc -l)" -ge 27 ] ||
  fail 'files are missing'
diff -r "$work/quick" "$work/optimized" || fail 'the bits differ'
# A quick compilation that fails is not reported, since the optimized one
# replaces it.
[ ! -e "$work/failed" ] || fail "the compiler failed: $(cat "$work/failed")"
# Compilations that delay the program come before those of hot kernels, which
# their quick objects serve meanwhile.  The program runs until the latter begin.
cat >"$work/gcc" <<'END'
#!/bin/bash
case " $* " in
*' -Og '*) echo quick >>"$LOG"; sleep 0.3 ;;
*) echo hot >>"$LOG" ;;
esac
exec cc "$@"
END
chmod +x "$work/gcc"
cat >"$work/b.axn" <<'END'
val m : f32[1000, 1000] = normal (key 1) [1000, 1000]
fun rows m = transpose (nn.softmax m)
val a = m @ m
END
for _ in {1..200}; do
  echo 'do print (sum (sin (rows (a @ a)) @ rows m + sum ~axis:0 (rows a)))'
done >>"$work/b.axn"
LOG="$work/log" AXON_CC="$work/gcc" XDG_CACHE_HOME="$work/cache-order" \
  timeout "$limit" "$AXON" run -q "$work/b.axn" >/dev/null &
until grep -qs hot "$work/log" || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
kill $! 2>/dev/null
wait
grep -q hot "$work/log" || fail 'no kernel is hot'
sort -r "$work/log" | cmp -s - "$work/log" || fail 'a hot kernel came first'
exit "$bad"
