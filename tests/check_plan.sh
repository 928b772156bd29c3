#!/bin/bash
# `axon plan`, beyond its golden files: the JSON output is valid, printing code
# compiles nothing, lines are short, and kernels have the expected form.
set -u
AXON=$(realpath "${AXON:-$(dirname "$0")/../axon}")
cd "$(dirname "$0")/plan" || exit 1
XDG_CACHE_HOME=$(mktemp -d)
export XDG_CACHE_HOME LC_ALL=C.UTF-8 TMPDIR=$XDG_CACHE_HOME/tmp
export AXON_TINY=100 # a low threshold: kernels of small programs are compiled
folder=$XDG_CACHE_HOME
mkdir "$TMPDIR"
trap 'rm -rf "$folder"' EXIT
bad=0
fail() { echo "$*" && bad=1; }

# Prints the number of cached kernels, after all background compilations ended.
kernel_count() {
  for _ in $(seq 400); do
    find "$TMPDIR" -mindepth 1 | grep -q . || break
    sleep 0.05
  done
  find "$XDG_CACHE_HOME" -name '*.so' | wc -l
}

for f in *.axn; do
  before=$(kernel_count)
  "$AXON" plan --dry "$f" >/dev/null && [ "$(kernel_count)" = "$before" ] ||
    fail "$f: --dry compiles a kernel"
  "$AXON" plan "$f" >"$folder/text" || fail "$f: exit status $?"
  grep -nE '^.{101,}' "$folder/text" && fail "$f: over 100 columns"
  before=$(kernel_count)
  "$AXON" plan --code --json "$f" | python3 -c '
import json, sys
plan = json.load(sys.stdin)
kernels = [k for run in plan["runs"] for k in run["kernels"]]
assert plan["runs"] and kernels, "no kernels"
assert [k["number"] for k in kernels] == list(range(1, len(kernels) + 1))
for k in kernels:
    assert k["shared"] or k["values"], "no values"
    if k.get("interpreted") or k["routine"] or k["shared"]:
        continue
    assert k["predicted_seconds"] >= k["limit_seconds"] > 0, "no limit"
    assert k["seconds"] > 0 and k["lanes"] > 0 and k["bytes_written"] > 0
    place = "%s:%d: " % (k["file"], k["loops"][-1]["line"])
    assert place in k["code"], "no comment " + place
' || fail "$f: the JSON output is wrong"
  [ "$before" = "$(kernel_count)" ] ||
    fail "$f: code with comments was compiled"
done

"$AXON" plan --dry --json products.axn | python3 -c '
import json, sys
k = json.load(sys.stdin)["runs"][0]["kernels"][2]
m, n, depth = 1024, 768, 512
assert k["operations_of_products"] == 2 * m * n * depth, "operations"
assert k["operations"] == k["operations_of_products"], "elementwise operations"
assert k["bytes_read"] == 4 * depth * (m + n), "bytes read"
assert k["bytes_written"] == 4 * m * n, "bytes written"
' || fail 'the cost of a matmul is wrong'
"$AXON" plan --dry --json masked.axn | python3 -c '
import json, sys
kernels = [k for r in json.load(sys.stdin)["runs"] for k in r["kernels"]]
causal, near = [w for w in (k["operations_of_products"] for k in kernels) if w]
whole = 2 * 2 * 24 * 512 * 512 * 64
assert 0.5 * whole <= causal <= 0.55 * whole, "a causal mask"
assert 0.1 * whole <= near <= 0.2 * whole, "a sliding window"
' || fail 'masked scores are computed'
"$AXON" plan --dry --json long.axn | python3 -c '
import json, sys
run = json.load(sys.stdin)["runs"][0]
scores = 4 * 8 * 1024 * 12288
assert run["bytes_peak"] < scores / 16, "scores in memory"
assert all(k["scratch"] < 4 << 20 for k in run["kernels"]), "rows in scratch"
' || fail 'the attention scores are materialized'
"$AXON" plan --dry --json gradient.axn | python3 -c '
import json, sys
plan = json.load(sys.stdin)
saved = plan["total"]["saved"]
assert [s["line"] for s in saved] == [5, 10], "lines"
assert all(s["bytes"] == 4 * 256 * 64 for s in saved), "bytes"
assert plan["total"]["bytes_saved"] == sum(s["bytes"] for s in saved), "total"
values = [v for r in plan["runs"] for k in r["kernels"] for v in k["values"]]
assert any(v["saved"] and v["line"] == 5 for v in values), "no saved value"
' || fail 'what is saved for a gradient is wrong'
XDG_CACHE_HOME=$XDG_CACHE_HOME/other
"$AXON" bench --seconds 0.01 products.axn -e 'layer x' >/dev/null
before=$(kernel_count)
"$AXON" plan products.axn -e 'layer x' >/dev/null
[ "$before" -gt 0 ] && [ "$(kernel_count)" = "$before" ] ||
  fail 'axon plan and axon bench use different kernels'
cat >"$folder/moved.axn" <<'END'
val x : f32[300, 500] = for i < 300, j < 500 => sin (float (i + j))
val at : i64[40] = for i < 40 => i * 7
do print (max x)
do print (transpose x)
do print (gather x at)
END
code=$(AXON_TINY=0 AXON_STREAM=0 "$AXON" plan --code --dry "$folder/moved.axn")
grep -q 'transpose_f(transposed' <<<"$code" || fail 'no transpose in registers'
grep -q 'nt_f32(' <<<"$code" || fail 'no non-temporal stores'
grep -q 'non-temporal stores' <<<"$code" ||
  fail 'the plan does not report the non-temporal stores'
grep -q 'bad[0-9]* |= .* & LIVE' <<<"$code" &&
  fail 'the index check is not reduced to one test per vector'
cat >"$folder/far.axn" <<'END'
val table : f32[90000, 64] = for i < 90000, j < 64 => sin (float (i + j))
val little : f32[100, 64] = for i < 100, j < 64 => cos (float (i + j))
val bags = argsort (for i < 10000 => sin (float i))
do print (gather table bags)
do print (gather little (bags % 100))
END
code=$("$AXON" plan --code --dry "$folder/far.axn")
[ "$(grep -c '__builtin_prefetch(' <<<"$code")" = 2 ] ||
  fail 'rows of a large table are not prefetched, or rows of a small one are'
cat >"$folder/shared.axn" <<'END'
fun rows n m = cumsum ~axis:1 (for i < n, j < m => sin (float (i + j)))
val v = cumsum (for j < 500 => cos (float j))
do print (max (dot (rows 300 500) v))
do print (max (dot (rows 90000 500) v))
END
code=$(AXON_TINY=0 "$AXON" plan --code --dry "$folder/shared.axn")
[ "$(grep -c 'if (u >= ready' <<<"$code")" = 1 ] ||
  fail 'unroll-and-jam: not for a shared row, or for rows that are far apart'
cat >"$folder/bags.axn" <<'END'
val table : f32[90000, 64] = for i < 90000, j < 64 => sin (float (i + j))
val bags = argsort (for b < 500, i < 20 => sin (float (b + 3 * i)))
do print (sum ~axis:1 (gather table bags))
END
code=$("$AXON" plan --code --dry "$folder/bags.axn")
grep -q '#pragma GCC unroll 20' <<<"$code" &&
  fail 'a reduction over gathered rows is fully unrolled'
code=$(AXON_TINY=0 "$AXON" plan --code --dry ../run/skipped_terms.axn)
[ "$(grep -c '^ *if (s[0-9]*) {' <<<"$code")" = 3 ] ||
  fail 'terms without effect are computed'
cat >"$folder/channels.axn" <<'END'
val x = for n < 2, c < 5, y < 21, z < 40 => sin (float (n + c + y * z))
val w = for c < 5, i < 3, j < 3 => cos (float (c + i + 2 * j))
val b = for c < 5 => float c
do print (nn.depthwise_conv2d ~padding:1 {w, b} x)
END
code=$(AXON_TINY=0 "$AXON" plan --code --dry "$folder/channels.axn")
grep -q 'const int far = ' <<<"$code" ||
  fail 'overlapping rows of a window are not jammed'
grep -q 'fused_f(' <<<"$code" || fail 'a short sum does not use FMA'
grep -q '\*restrict const l[0-9]* = ' <<<"$code" &&
  fail 'padding or the sums before the epilogue are materialized'
[ "$(grep -c 'span_of(' <<<"$code")" = 1 ] ||
  fail 'the lane masks of the border are not hoisted'
grep -q '^ *vf w[0-9]*\[9\];' <<<"$code" || fail 'weights are not hoisted'
[ "$(grep -c 'ldw_' <<<"$code")" = 0 ] ||
  fail 'padding is tested in each lane'
cat >"$folder/taps.axn" <<'END'
val x : f32[4, 16, 20, 20] = normal (key 1) [4, 16, 20, 20]
val g : f32[4, 16, 20, 20] = normal (key 2) [4, 16, 20, 20]
val w : f32[16, 16, 3, 3] = normal (key 3) [16, 16, 3, 3]
do print (case vjp (fn w => nn.unbiased_conv2d ~padding:1 w x) w of
  (_, pullback) => pullback g)
END
# The schedule moves axes; a kernel that is scheduled again has the same code.
"$AXON" plan --code "$folder/taps.axn" | grep -q 'row0 = x0 \* ' ||
  fail 'a weight gradient is not one matmul over all taps'
cat >"$folder/narrow.axn" <<'END'
val x = for i < 320, k < 100 => sin (float (i + k))
val y = for k < 100, j < 49 => cos (float (2 * k + j))
do print (x @ y)
END
# These two schedules are chosen for vectors of 64 bytes.
has_avx512() { grep -qw avx512vl /proc/cpuinfo; }
! has_avx512 || AXON_TINY=0 "$AXON" plan --dry "$folder/narrow.axn" |
  grep -q 'left a convolution window' ||
  fail 'a matmul with few columns does not use a convolution window'
cat >"$folder/moments.axn" <<'END'
val x = for i < 1000003 => sin (float i)
do print (sum x)
do print (var x)
END
"$AXON" plan --code --dry --json "$folder/moments.axn" | python3 -c '
import json, sys
kernels = json.load(sys.stdin)["runs"][1]["kernels"]
assert sum(k["bytes_read"] for k in kernels) < 1.1 * 4e6, "two passes"
assert "LOAD(f32" in kernels[0]["code"], "not vectorized"
assert "ldw_" not in kernels[0]["code"], "masked loads inside the bounds"
assert "__builtin_prefetch(" in kernels[0]["code"], "no prefetch"
' || fail 'the kernel of a variance is wrong'
cat >"$folder/small.axn" <<'END'
val x = for b < 900, i < 5, j < 3 => sin (float (b + i + j))
val y = for b < 900, i < 3, j < 4 => sin (float (b + i + 2 * j))
val z = for b < 900, i < 5, j < 30 => sin (float (b + i + 2 * j))
do print (max (x @ y), max (transpose x @ z))
END
plan=$(AXON_TINY=0 "$AXON" plan "$folder/small.axn" | tr -s ' \n' ' ')
grep -q '5 × 4 by 3 terms' <<<"$plan" ||
  fail 'a small matmul is not computed in registers'
! has_avx512 || grep -q '3 × 32 in registers, all unpacked' <<<"$plan" ||
  fail 'the operands of a small matmul are packed'
cat >"$folder/chain.axn" <<'END'
val a = for i < 300 => sin (float i)
val b = for j < 400 => cos (float j)
fun step (x, y, c) =
  let
    val u = x * x - y * y + a.[:, *]
    val v = 2.0 * x * y + b.[*, :]
    val inside = u * u + v * v < 4.0
  in (select inside u 3.0, select inside v 0.0, c + select inside 1.0 0.0) end
val z : f32[300, 400] = zeros [300, 400]
val (_, _, counts) = iterate 50 step (z, z, z)
do print counts
END
"$AXON" plan --code --dry "$folder/chain.axn" >"$folder/text"
grep -q 'reference backend: no C code' "$folder/text" &&
  fail 'a kernel exceeds the loop limit of the backend'
[ "$(grep -c '^ *for (; j + W <= end' "$folder/text")" -lt 20 ] ||
  fail 'loops over the same iterations are not fused'
cat >"$folder/around.axn" <<'END'
val x = for i < 300, j < 1000 => sin (float (i + j))
do print (for i < 300, j < 1000 =>
            sum (for b < 3 => x.[i, (j + b + 999) % 1000]))
val y = for a < 8, b < 12, i < 30, j < 20 => sin (float (a + b + i * j))
do print (max (nn.groupnorm ~groups:4 {w = ones [12], b = zeros [12]} y))
END
AXON_TINY=0 "$AXON" plan --code --dry "$folder/around.axn" >"$folder/text"
grep -q 'div_i(' "$folder/text" &&
  fail 'an index quotient with few values is divided in each lane'
cat >"$folder/kept.axn" <<'END'
val x = for i < 160, j < 300 => sin (float (i + j))
val w = for i < 300, j < 200 => sin (float (i + 2 * j))
do print (max x, max w)
do print (max (x @ w))
do print (max (x.[0:60, ...] @ w))
END
"$AXON" plan --dry "$folder/kept.axn" | tr -s ' \n' ' ' >"$folder/text"
grep -q 'right prepacked panels' "$folder/text" ||
  fail 'weights are not prepacked'
grep -q 'right unpacked, then prepacked' "$folder/text" ||
  fail 'weights are packed for a few rows'
"$AXON" plan --dry -e 'let val x = normal (key 1) [2048, 2048]
in nn.softmax (x @ transpose x) @ x end' |
  tr -s ' \n' ' ' | grep -q 'right transposed, panels packed once' ||
  fail 'each block of rows of a softmax packs the operand again'
[ "$("$AXON" plan --stable again.axn | grep -c '3 times')" = 1 ] ||
  fail 'identical runs are not shown once'
"$AXON" plan --target reference -e 'sum (for i < 100000 => float i)' |
  grep -q 'reference backend: the reference backend was requested' ||
  fail 'the plan does not name the requested reference backend'
"$AXON" plan -e '1 + 1' | grep -qx 'the program computes no tensors' ||
  fail 'a program without tensors is planned'
"$AXON" plan rows.axn --kernel 99 2>"$folder/err"
[ $? = 2 ] && grep -q 'there is no kernel 99' "$folder/err" ||
  fail 'kernel 99 is not reported as missing'
"$AXON" plan -e 'let val x = for i < 9 => i in x.[i64 (sum x)]' >/dev/null \
  2>"$folder/err"
[ $? = 1 ] || fail 'a run-time error does not fail axon plan'
# A dry run, whose values are zeros, writes no files.
mkdir "$folder/dry"
cat >"$folder/dry.axn" <<END
val x = for i < 3000 => float i + 1.0
do save "$folder/dry/x.npy" x
do save_all "$folder/dry/x.npz" (list [("x", x)])
do save_tree "$folder/dry/x.safetensors" {x}
do write_text "$folder/dry/x.txt" (string (sum x))
do append_text "$folder/dry/y.txt" (string (sum x))
do plot.save "$folder/dry/x.svg" (plot.line x x)
do show ~file:"$folder/dry/x.png" (reshape [30, 100] (x / 3000.0))
END
"$AXON" plan --dry "$folder/dry.axn" >"$folder/text" 2>&1 ||
  fail "a dry run of save: $(tail -5 "$folder/text")"
[ -z "$(ls "$folder/dry")" ] || fail "a dry run writes $(ls "$folder/dry")"
"$AXON" "$folder/dry.axn" >"$folder/text" 2>&1 &&
  [ "$(find "$folder/dry" -type f | wc -l)" = 7 ] ||
  fail "save: $(ls "$folder/dry"; tail -5 "$folder/text")"

for text in '.npy, .npz|save "x.foo" x' \
  'a dry run writes no files|save "none.npy" x
val y : f32[n] = load "none.npy"
do print (sum y)'; do
  printf 'val x = for i < 3000 => float i\ndo %s\n' "${text#*|}" \
    >"$folder/dry.axn"
  "$AXON" plan --dry "$folder/dry.axn" >"$folder/text" 2>&1 &&
    fail "a dry run of ${text#*|}"
  grep -qF "${text%%|*}" "$folder/text" || fail "$(cat "$folder/text")"
done

# Conditions on an index are known in parts of its axis, and integer sums of
# bytes and conditions have lanes of 8 bits.
lines() { # lines VECTOR PATTERN STAGE FILE: those whose kernel has the pattern
  AXON_VECTOR=$1 AXON_TARGET=cpu AXON_TINY=0 \
    "$AXON" plan --dry --stage "$3" "$4" |
    awk -v pattern="$2" '
      /^\(\* [0-9]+: / { sub(/ \*\)$/, ""); n = split($0, title, ":") }
      $0 ~ pattern { print title[n] }' | sort -nu | xargs
}
found=$(lines 16 '^part of' lowered ../ops/axis_parts.axn)
[ "$found" = "$(seq -s' ' 13 31) 34 36 37 39 42 43 49 51 52 53 54 58" ] ||
  fail "lines of axis_parts.axn with parts: $found"
if grep -q avx2 /proc/cpuinfo; then
  found=$(for class in u i b; do
    lines 32 "sums_$class[(]" code ../ops/byte_sums.axn
  done | xargs)
  [ "$found" = '9 10 12 14 15 9 10 11 14 9 10 11 12 14' ] ||
    fail "lines of byte_sums.axn with sums in lanes of u8, i8, bool: $found"
fi

# A fold has no axis, but a number of iterations.
cat >"$folder/fold.axn" <<END
do print (fold (fn h x => if x > 0.5 then not h else h) true
  (uniform (key 1) [40000000] : f32[40000000]))
END
"$AXON" plan --target cuda:sm_90a "$folder/fold.axn" >"$folder/text" 2>&1 ||
  fail "a fold of many elements: $(tail -5 "$folder/text")"

exit "$bad"
