#!/bin/bash
# Measures time and memory of `axon check`:
# - for an empty program, and for each program of examples/models, examples,
#   examples/train and stdlib: without a report, with --strict, and with types
#   (goals: 10 ms and 20 MiB);
# - for programs that are hard to check (goal: one second, or an error that
#   names the limit);
# - for generated programs of 1,000, 10,000 and 100,000 lines, or of the given
#   numbers of lines.  Prints seconds, the time per line, and its ratio to that
#   of the smallest program (1.0: linear; goal: 0.2 s for 10,000 lines).
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A typical program: parts of 25 lines.  Each has a layer with its parameters, a
# loss and a training step, a datatype, a loop and a few values.  It uses the
# previous part.
generate() { # generate LINES
  awk -v n="$(($1 / 25))" 'BEGIN {
    print "fun layer0 _ x = x"
    print "val width0 = 8"
    for (i = 1; i <= n; i++) {
      j = i - 1
      print ""
      print "(* part " i " *)"
      print "fun norm" i " {scale, shift} x ="
      print "  let"
      print "    val m = mean ~axis:-1 ~keep:true x"
      print "    val v = mean ~axis:-1 ~keep:true ((x - m) * (x - m))"
      print "  in"
      print "    (x - m) / sqrt (v + 1e-5) * scale + shift"
      print "  end"
      print "fun layer" i " {w : f32[n, n], b : f32[n]} x ="
      print "  x @ transpose w + b |> nn.relu |> layer" j " {w, b}"
      print "fun loss" i " p x y = mean ((layer" i " p x - y) * (layer" i \
            " p x - y))"
      print "fun step" i " rate {w, b} {dw, db} ="
      print "  {w = w - rate * dw, b = b - rate * db}"
      print "datatype shape" i " = Circle" i " of f64 | Square" i " of f64"
      print "fun area" i " (Circle" i " r) = 3.14159 * r * r"
      print "  | area" i " (Square" i " a) = a * a"
      print "fun blur" i " (x : f32[n]) ="
      print "  for i => sum (for k < 3 => x.[i + k]) / 3.0"
      print "val width" i " = width" j " + 2"
      print "val start" i " = {w = zeros [4, 4], b = zeros [4]}"
      print "fun grade" i " k = if k < " i " then \"low\" else if k == " i \
            " then \"mid\""
      print "  else \"high\""
      print "val grades" i " = lists.map grade" i " (list [1, 2, width" i "])"
    }
  }'
}

# peak COMMAND...: peak memory in MiB.
peak() {
  command time -q -f %M "$@" 2>&1 >/dev/null </dev/null | tail -1 |
    awk '{ printf "%.0f", $1 / 1024 }'
}

# times FILE: milliseconds and MiB of each way to check a program.
times() {
  local options
  for options in -q '-q --strict' ''; do
    # shellcheck disable=SC2086
    printf ' %6.1f ms %3s MiB' \
      "$(typical 5 "$AXON" check $options "$1" | awk '{ print 1000 * $1 }')" \
      "$(peak "$AXON" check $options "$1")"
  done
}

# report NAME FILE: a line for one program.
report() {
  local took memory errors
  took=$(typical 3 bash -c '"$0" check -q "$1"; true' "$AXON" "$2")
  memory=$(peak timeout 60 "$AXON" check -q "$2")
  errors=$("$AXON" check -q "$2" 2>&1 |
    sed -n 's/^error\[\(E[0-9]*\)\].*/\1/p' | sort | uniq -c |
    awk '{ printf " %s times %s", $1, $2 }')
  printf '%-24s %8.3f s %6s MiB%s\n' "$1" "$took" "$memory" "$errors"
}

# ---- programs of the repository ----

echo >"$work/empty.axn"
printf '%-32s %18s %18s %18s\n' '' quiet --strict types
for program in "$work/empty.axn" "$here"/examples/models/*.axn \
  "$here"/examples/*.axn "$here"/examples/train/*.axn "$here"/stdlib/*.axn; do
  case $program in
    *_test.axn) continue ;;
    "$work"/*) name='an empty program' ;;
    *) name=${program#"$here/"} ;;
  esac
  printf '%-32s%s\n' "$name" "$(times "$program" 2>/dev/null)"
done

# ---- hard programs ----

# 1,000 layers with parameters in one record
deep_network() {
  echo "fun net p h0 = let"
  for k in {1..1000}; do
    echo "  val h$k = nn.relu (nn.linear p.l$k h$((k - 1)))"
  done
  echo "  in h1000 end"
}

# 1,000 windows, each over the result of the previous one
windows() {
  echo "fun net h0 = let"
  for k in {1..1000}; do
    echo "  val h$k = for i => h$((k - 1)).[i] + h$((k - 1)).[i + 1]"
  done
  echo "  in h1000 end"
}

# polymorphic functions, each of which uses the previous one at two types
deep_let() {
  echo "fun f0 x = x"
  for k in {1..24}; do echo "fun f$k x = (f$((k - 1)) x, f$((k - 1)) x)"; done
}

# 200 equations in 200 unknowns
equations() {
  awk 'BEGIN {
    printf "fun f"
    for (i = 0; i < 200; i++) printf " (a%d : f32[n%d])", i, i
    for (i = 0; i < 198; i++)
      printf "%s n%d + n%d == n%d + %d", i ? "," : " given", i, i + 1,
        i * 7 % 200, i % 5
    print " = a0"
  }'
}

# the same, as broadcasts of concatenations
joined() {
  awk 'BEGIN {
    printf "fun f"
    for (i = 0; i < 200; i++) printf " a%d", i
    print " = let"
    for (i = 0; i < 200; i++)
      printf "  val z%d = concat ~axis:0 (a%d, a%d) + %s (a%d, a%d)\n", i, i,
        (i + 1) % 200, "concat ~axis:0", (i + 2) % 200, (i * 7 + 3) % 200
    print "  in z0 end"
  }'
}

# shapes with eight splices on each side
splices() {
  echo "fun f (x : f32[...a, ...b, ...c, ...d, ...e, ...g, ...h, ...k])"
  echo "  (y : f32[...k, ...h, ...g, ...e, ...d, ...c, ...b, ...a]) ="
  echo "  (x + y, reshape (shape x) y)"
  echo "fun twice x = f x x"
  echo "val z = f (zeros [2, 3]) (zeros [3, 2])"
}

# sizes that divide one another
divisors() {
  echo "fun f (x : f32[n0])"
  for k in {1..20}; do echo "  (x$k : f32[n$k])"; done
  printf '  given n0 %% n1 == 0'
  for k in {1..19}; do printf ', n%s %% n%s == 0' "$k" "$((k + 1))"; done
  echo " = reshape [n20, _] x"
  echo "fun arms x ="
  for k in {2..201}; do
    echo "  if dim 0 x % $k == 0 then reshape [$k, _] x |> sum else"
  done
  echo "  sum x"
}

# functions that all call one another
recursion() {
  echo "fun f0 x = x + 1"
  for k in {1..32000}; do echo "and f$k x = f$((k - 1)) x + $k"; done
}

# names bound in one body
names() {
  echo "fun g x = x + 1"
  echo "fun f x = let"
  for k in {1..20000}; do echo "  val a$k = g $k"; done
  echo "  in a1 end"
}

# a pair of a pair ..., nested 30 times
pairs() {
  echo "fun d x = (x, x)"
  printf 'val x = %s1%s\n' "$(printf 'd (%.0s' {1..30})" \
    "$(printf ')%.0s' {1..30})"
}

# 200 equations with quotients
quotients() {
  awk 'BEGIN {
    printf "fun f"
    for (i = 0; i < 200; i++) printf " (a%d : f32[n%d])", i, i
    for (i = 0; i < 200; i++)
      printf "%s n%d/%d + n%d == n%d/2 + n%d + %d", i ? "," : " given", i,
        2 + i % 4, i * 7 % 200, (i + 1) % 200, (i * 11 + 3) % 200, i % 5
    print " = a0"
  }'
}

# 4,000 type errors
mistakes() {
  for k in {1..4000}; do echo "val a$k = zeros [3] + zeros [$((k + 3))]"; done
}

# 200 layers of which each appends to its input, a tensor of unknown rank
appended() {
  echo "fun net p x0 = let"
  for k in {1..200}; do
    echo "  val x$k = concat ~axis:1"
    echo "    (x$((k - 1)), nn.relu (nn.linear p.l$k x$((k - 1))))"
  done
  echo "  in x200 end"
}

# layers of images: 100 that append channels
appended_channels() {
  echo "fun net p x0 = let"
  for k in {1..100}; do
    echo "  val x$k = concat ~axis:1"
    echo "    (x$((k - 1)), nn.conv2d ~padding:1 p.c$k x$((k - 1)))"
  done
  echo "  in x100 end"
}

# 200 that add a convolution to their input
residual() {
  echo "fun net p x0 = let"
  for k in {1..200}; do
    echo "  val x$k = x$((k - 1)) +"
    echo "    (x$((k - 1)) |> nn.conv2d ~padding:1 p.c$k |> nn.relu)"
  done
  echo "  in x200 end"
}

# the same without the input: the kernels' sizes stay in the size of the result
convolutions() {
  echo "fun net p x0 = let"
  for k in {1..200}; do
    echo "  val x$k = x$((k - 1)) |> nn.conv2d ~padding:1 p.c$k |> nn.relu"
  done
  echo "  in x200 end"
}

# layers of other kinds, with open and with given sizes
given_layers() {
  echo "fun net p (x0 : f32[64, 784]) = let"
  for k in {1..500}; do
    echo "  val x$k = nn.relu (nn.linear"
    echo "    (p.l$k : {w : f32[784, 784], b : f32[784]}) x$((k - 1)))"
  done
  echo "  in x500 end"
}

given_residual() {
  local p='{w : f32[64, 64, 3, 3], b : f32[64]}'
  echo "fun net p (x0 : f32[8, 64, 32, 32]) = let"
  for k in {1..500}; do
    echo "  val x$k = x$((k - 1)) +"
    echo "    nn.relu (nn.conv2d ~padding:1 (p.c$k : $p) x$((k - 1)))"
  done
  echo "  in x500 end"
}

# 100 layers down, 100 layers up, each of which reads the one down
encoder_decoder() {
  echo "fun net p x0 = let"
  for k in {1..100}; do
    echo "  val x$k = nn.conv2d ~padding:1 p.c$k x$((k - 1)) |> nn.relu"
  done
  echo "  val y100 = x100"
  for k in {100..1}; do
    echo "  val y$((k - 1)) = concat ~axis:1 (y$k, x$((k - 1)))"
    echo "    |> nn.conv2d ~padding:1 p.d$k |> nn.relu"
  done
  echo "  in y0 end"
}

# 2,000 small functions
functions() {
  for k in {1..2000}; do
    echo "fun f$k {w, b} x = nn.relu (x @ w + b) |> sum ~axis:-1"
  done
}

for hard in deep_network windows deep_let equations joined splices divisors \
  recursion names pairs quotients mistakes appended appended_channels \
  residual convolutions given_layers given_residual encoder_decoder \
  functions; do
  $hard >"$work/$hard.axn"
  report "$hard" "$work/$hard.axn"
done

# ---- long programs ----

per_line() { echo "$1 $2" | awk '{ printf "%.1f", 1e6 * $1 / $2 }'; }

first=
for lines in ${*:-1000 10000 100000}; do
  generate "$lines" >"$work/p.axn"
  "$AXON" check -q "$work/p.axn" || exit 1
  runs=5
  [ "$lines" -ge 100000 ] && runs=3
  took=$(typical "$runs" "$AXON" check -q "$work/p.axn")
  each=$(per_line "$took" "$lines")
  first=${first:-$each}
  printf '%7d lines %8.3f s %6s us a line, %s times the first\n' "$lines" \
    "$took" "$each" "$(ratio "$each" "$first")"
done
