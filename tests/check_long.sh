#!/bin/bash
# The time to check a long program of simple parts grows about linearly.  With
# quadratic growth, each of these programs took minutes, or all memory.
cd "$(dirname "$0")/.." || exit 1
AXON=${AXON:-$PWD/axon}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints the text COUNT times, with % replaced by 1, 2, ...
many() { # many COUNT TEXT
  awk -v n="$1" -v text="$2" 'BEGIN {
    for (i = 1; i <= n; i++) { t = text; gsub(/%/, i, t); print t }
  }'
}

failed=0
# The program on stdin has no error, and takes at most 20 s of CPU time.
checks() { # checks NAME
  cat >"$work/$1.axn"
  (ulimit -t 20 && "$AXON" check -q "$work/$1.axn") && return
  echo "$1: an error, or more than 20 s" && failed=1
}

{ echo 'fun f x = x + 1' && echo 'val y = 1' && many 900 '  |> f'; } |
  checks pipe
{ echo 'val y = 1' && many 1500 '  + %'; } | checks sum
{ echo 'val a0 = 1' && many 2000 'val a% = a0 + %'; } | checks values
{ echo 'fun layer {w, b} x = nn.relu (x @ w + b)' && echo 'fun net p x = x' &&
  many 500 '  |> layer p'; } | checks network
{ echo 'fun f r = r.a0' && many 150 '  + r.a%'; } | checks fields
{ echo 'val r = {a0 = 0' && many 1500 ', a% = %' && echo '}' &&
  many 1500 'val b% = r.a%'; } | checks record
{ echo 'val d : f32[?n] = [1.0, 2.0]' &&
  many 300 'val d = filter (fn x => x > %.0) d'; } | checks data
# As `many`, with # replaced by the previous number.
chain() { # chain COUNT TEXT
  awk -v n="$1" -v text="$2" 'BEGIN {
    for (i = 1; i <= n; i++) { t = text; gsub(/%/, i, t); gsub(/#/, i - 1, t)
      print t }
  }'
}
{ echo 'type a0[n] = f32[n]' && chain 1000 'type a%[n] = a#[n + 1]' &&
  echo 'fun f (x : a1000[2]) = x' && echo 'val y = f (zeros [1002])'; } |
  checks abbreviations
{ echo 'type a0[n] = f32[n]' && chain 17 'type a%[n] = a#[n] * a#[n]' &&
  echo 'fun f (x : a17[3]) = x'; } | checks doubling
{ echo 'fun layer p x = concat ~axis:-1 (x, tanh (x @ transpose p.w + p.b))' &&
  echo 'fun net p x = x' && many 100 '  |> layer p.l%'; } | checks concat

# Each convolution adds conditions on the sizes of all kernels before it.
{ echo 'fun net p x = x' && many 1100 '  |> nn.conv2d p.l%'; } |
  checks convolutions

# Strict checks of the models need little memory: no text is printed for each
# constraint.  The largest took 400 MB, of which 380 MB were such texts.
for model in examples/models/*.axn; do
  (ulimit -S -v "${MEMORY:-80000}" && "$AXON" check -q --strict "$model") ||
    { echo "$model: needs more than 80 MB of address space" && failed=1; }
done

# A recursive transform of 4096 elements makes one graph of 41,000 small nodes,
# which are interpreted.  It took 1.9 GB while they were lowered to kernels.
cat >"$work/transform.axn" <<'END'
fun transform (re : f64[n]) (im : f64[n]) : f64[n] * f64[n] =
  if n % 2 == 0 && n > 1 then
    let
      val (er, ei) = transform re.[::2] im.[::2]
      val (odd, oi) = transform re.[1::2] im.[1::2]
      val t = f64 (iota (n / 2) : i64[n / 2]) * (-6.283185307179586 / f64 n)
      val pr = odd * cos t - oi * sin t
      val qr = odd * sin t + oi * cos t
    in
      (concat ~axis:0 (er + pr, er - pr), concat ~axis:0 (ei + qr, ei - qr))
    end
  else (re, im)
val x = for i < 4096 => f64 (i * i % 1009)
val (re, im) = transform x (0.0 * x)
val z = fft.fft {re = x, im = 0.0 * x}
do print (max (abs (re - z.re)) < 1e-6, max (abs (im - z.im)) < 1e-6)
END
out=$(ulimit -S -v "${MEMORY:-1200000}" && "$AXON" run "$work/transform.axn")
[ "$out" = '(true, true)' ] ||
  { echo "transform: $out, or more than 1.2 GB" && failed=1; }
exit $failed
