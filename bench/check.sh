#!/bin/bash
# How long `axon check` takes for programs of 1,000, 10,000 and 100,000 lines:
# generated functions on tensors, each using the one before.
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

generate() { # generate LINES: groups of ten lines
  awk -v n="$(($1 / 10))" 'BEGIN {
    print "fun f0 x = x"
    for (i = 1; i <= n; i++) {
      print "(* layer " i " *)"
      print "fun layer" i " {w, b} x = x @ transpose w + b"
      print "fun norm" i " x ="
      print "  let val m = mean ~axis:-1 ~keep:true x"
      print "      val v = mean ~axis:-1 ~keep:true ((x - m) * (x - m))"
      print "  in (x - m) / sqrt (v + 1e-5) end"
      print "fun f" i " x ="
      print "  x |> norm" i " |> f" (i - 1)
      print "val size" i " = " i " * 2 + 1"
      print "fun pair" i " a b = (f" i " a, size" i " + b)"
    }
  }'
}

for lines in ${*:-1000 10000 100000}; do
  generate "$lines" >"$work/p.axn"
  runs=3
  [ "$lines" -ge 100000 ] && runs=1
  took=$(best "$runs" "$AXON" check -q "$work/p.axn")
  printf '%7d lines  %s s\n' "$lines" "$took"
done
