#!/bin/bash
# Ragged loops: a kernel each, which ends at the row lengths; the same bits cold
# and warm and on any number of threads; and rows that would need too much
# padding run on the host.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/ragged"
need_compiler
export AXON_TARGET=cpu AXON_TINY=0 AXON_VERIFY=1

"$AXON" plan programs.axn >"$work/plan" 2>&1 || fail "plan: status $?"
for what in 'sum of <, +, \* (50 %) over 39' 'sum of <, + (50 %) over 39'; do
  [ "$(grep -c "loops *$what" "$work/plan")" = 1 ] ||
    fail "no kernel with the loop: $what"
done
grep -q 'max of <, + (50 %) over 39' "$work/plan" ||
  fail 'softmax of rows is not trimmed'
[ "$(grep -c '^ *[0-9][0-9]*  ' "$work/plan")" -le 26 ] ||
  fail 'rows run one by one'

expected=$(AXON_THREADS=1 "$AXON" programs.axn)
for threads in 1 2 3; do
  [ "$(AXON_THREADS=$threads "$AXON" programs.axn)" = "$expected" ] ||
    fail "$threads threads: another result"
done
reference=$("$AXON" run --target reference programs.axn)
awk -f "$here/tests/close.awk" <(echo "$reference") <(echo "$expected") ||
  fail 'the reference backend has another result'

# one row of 2^44 elements among empty rows
cat >"$work/huge.axn" <<'END'
val n = [1, 0, 1]
val size = [17592186044416, 0, 3]
do print (for i < 3 => sum (for k < size.[i] * (1 - n.[i]) => float k))
do print (for i < 3 => sum (for k < size.[i] - size.[i] / 2 * 2 + n.[i] => 1.0))
END
"$AXON" "$work/huge.axn" >"$work/output" 2>&1 || fail "huge rows: status $?"
printf '[0.0, 0.0, 0.0]\n[1.0, 0.0, 2.0]\n' | cmp - "$work/output" ||
  fail 'huge rows: another result'

# rows of a large table, at indices in part of a row
cat >"$work/far.axn" <<'END'
val table : f32[90000, 64] = for i < 90000, j < 64 => sin (float (i + j))
val place = argsort (for i < 9000 => sin (float i))
val start = cumsum (for i < 301 => i * 7 % 40)
do print (sum (for i < 300 =>
  sum ~axis:0 (for k < start.[i + 1] - start.[i] =>
    table.[place.[start.[i] + k], :])))
END
"$AXON" plan --code "$work/far.axn" | grep -q '__builtin_prefetch(' ||
  fail 'rows of a large table are not prefetched'

exit "$bad"
