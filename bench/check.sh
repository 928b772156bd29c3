#!/bin/bash
# How long `axon check` takes for generated programs of 1,000, 10,000 and
# 100,000 lines, or of the numbers of lines that are given: seconds, the time
# for one line, and how that compares with the smallest program (1.0: linear).
# Goal: 0.2 s for 10,000 lines.
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A program such as people write: parts of 25 lines, each a layer with its
# parameters, a loss and a step of training, a datatype, a loop and a few
# values, which use the part before.
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
