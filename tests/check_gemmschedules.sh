#!/bin/bash
# Random fields of `by gemm` in schedules of matrix products and convolutions on
# the CPU: each gives the results of the chosen schedule, with one thread and
# with two, or is refused with its place.
#
#     tests/check_gemmschedules.sh [SEED [COUNT]]
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }
unset AXON_SCHEDULES
export AXON_TARGET=cpu AXON_TINY=0
cd "$work" || exit 1
cp "$here/tests/schedules/gemm.axn" .
"$AXON" gemm.axn >expected || fail 'gemm.axn'
"$AXON" run --target reference gemm.axn >reference || fail 'reference'
cmp -s expected reference || fail "$(diff expected reference)"
"$AXON" plan --schedule gemm.axn >chosen.axs || fail "$(cat chosen.axs)"
for field in mr nr kc rows columns image_rows along; do
  grep -q "by gemm {.*$field=" chosen.axs || fail "no product has $field"
done
"$AXON" plan --schedule --schedules chosen.axs gemm.axn >again
cmp -s chosen.axs again || fail "other schedules: $(diff chosen.axs again)"

# ---- nests that pack operands, and copy windows ----
"$AXON" plan --stage nest gemm.axn >out
for text in 'pack the left operand' 'pack the right operand' \
  'transpose i[0-9]' 'for i[0-9]*\.2 by [0-9]* less'
do
  grep -q "$text" out || fail "no nest with $text: $(head -30 out)"
done

# ---- other steps of these nests: the same results, also read back ----
# Lines of terms, and of columns: panels with and without transposition.
columns='tile (i[0-9]+) ([0-9]+)'
panels="$columns peel; tile \S+ ([0-9]+); order \S+ (i[0-9]+), [^}]*"
squares="$columns; tile \S+ ([0-9]+); tile (i[0-9]+) [^}]*"
to_panels='tile \1 \2 peel; tile \1.1 \3; order \1.2, \4, \1.1, \1; lanes \1'
to_squares='tile \1 \2; tile \1.1 \3; tile \4 \2; '
to_squares+='order \1.2, \1.1, \4.1, \1, \4; unroll \1; lanes \4; transpose \1'
export AXON_VERIFY=1
count=0
while IFS='|' read -r name lines text; do
  count=$((count + 1))
  sed -E "/^ *pack /{$lines$text}" chosen.axs >packs.axs
  cmp -s chosen.axs packs.axs && fail "$name: no nest changes"
  AXON_THREADS=$((1 + count % 2)) \
    "$AXON" --schedules packs.axs gemm.axn >got 2>&1
  cmp -s expected got || fail "$name: $(diff expected got | head -5)"
  "$AXON" plan --schedule --schedules packs.axs gemm.axn >again
  cmp -s packs.axs again || fail "$name: $(diff packs.axs again | head -5)"
done <<END
tests of tiles||s/ peel/ if/
unrolled|/transpose/!|s/; lanes (i[0-9]+)/; tile \1.1 3 peel; unroll \1.1&/
blocks of vectors|/transpose/!|s/; lanes (i[0-9]+)/; tile \1.1 3&/
blocks of terms||s/\{order (i[0-9]+), /{tile \1 5; order \1.1, \1, /
transposed||s/$panels/$to_squares/
not transposed||s/$squares/$to_panels/
END
unset AXON_VERIFY
kernel=$(awk '/^kernel/ { k = $0 } /by gemm/ { g = k } /^ *pack/ { g = "" }
  /^$/ && g { print g; exit }' chosen.axs)
printf '%s\n  1: by gemm pack left {lanes i0}\n' "$kernel" >packs.axs
"$AXON" --schedules packs.axs gemm.axn >out 2>&1 && fail 'in place'
grep -q 'reads the left operand in place: leave out `pack left`' out ||
  fail "in place: $(cat out)"

# ---- refusals ----
cp "$here/tests/schedules/refused_gemm.axn" product.axn
"$AXON" plan --schedule product.axn >product.axs
kernel=$(grep -B1 'by gemm' product.axs | head -1)
width=$(grep -o 'pack left {tile i2 [0-9]*' product.axs | grep -o '[0-9]*$')
while IFS='|' read -r schedule message; do
  schedule=${schedule//WIDTH/$width}
  printf '%s\n%s\n' "$kernel" "$schedule" >refused.axs
  "$AXON" plan --schedules refused.axs product.axn >out 2>&1
  status=$?
  [ $status = 1 ] || fail "\`$schedule\`: status $status: $(head -3 out)"
  grep -qF -- "$message" out ||
    fail "\`$schedule\`: expected \`$message\`: $(head -3 out)"
  grep -q 'refused.axs:2:' out ||
    fail "\`$schedule\` has no place: $(head -3 out)"
done <"$here/tests/schedules/refused_gemm"

# ---- strips that loop nests share ----
cat >rows.axn <<'END'
val q = normal (key 1) [3, 200, 8]
val k = normal (key 2) [3, 6001, 8]
val v = normal (key 3) [3, 6001, 9]
fun hide x = for b < 3, i < 200, j < 6001 =>
  if j < 900 + 30 * i then x.[b, i, j] else -inf
do print (softmax (hide (q @ transpose k)) @ v,
          logsumexp ~axis:-1 (q @ transpose k))
END
export AXON_VERIFY=1
"$AXON" rows.axn >whole || fail 'rows.axn'
"$AXON" plan --schedule rows.axn >rows.axs
panel=$(sed -n 's/.*nr=\([0-9]*\).*strip=.*/\1/p' rows.axs | head -1)
[ "${panel:-0}" -gt 0 ] || fail "no strips: $(cat rows.axs)"
"$AXON" plan --code --stable rows.axn >chosen
"$AXON" plan --code --stable --schedules rows.axs rows.axn >read
cmp -s chosen read || fail "other code: $(diff chosen read | head -20)"
"$AXON" plan --stage specs rows.axn >out
grep -q 'local[0-9]*\.0\[0\] with max' out || fail "no state: $(cat out)"
"$AXON" plan --stage lowered rows.axn >out
grep -q 'for i2.3 by [0-9]* strips less' out || fail "not lowered: $(cat out)"
for count in 1 3; do
  strip=$((count * panel))
  sed "s/strip=[0-9]*/strip=$strip/" rows.axs >strips.axs
  "$AXON" plan --stage nest --schedules strips.axs rows.axn >out
  grep -q "by $strip strips less" out || fail "no strips of $strip: $(cat out)"
  "$AXON" --schedules strips.axs rows.axn >got 2>errors
  awk -f "$here/tests/close.awk" whole got || fail "strips of $strip"
  [ -s errors ] && fail "strips of $strip: $(cat errors)"
done
sed "s/strip=[0-9]*/strip=$((panel + 1))/" rows.axs >strips.axs
"$AXON" plan --schedules strips.axs rows.axn >out 2>&1 && fail 'strips'
grep -q "strip=$((panel + 1)) is not possible: it would be $panel" out ||
  fail "strips of panels: $(cat out)"

# ---- random fields ----
refused=0 first=${1:-1} count=${2:-40}
for ((seed = first; seed < first + count; seed++)); do
  python3 "$here/tests/schedules/change.py" "$seed" <chosen.axs >changed.axs
  if AXON_THREADS=$((1 + seed % 2)) \
      "$AXON" --schedules changed.axs gemm.axn >got 2>&1
  then
    cmp -s expected got ||
      fail "seed $seed: $(diff expected got; diff chosen.axs changed.axs)"
  elif grep -q 'error\[E0523\]: changed.axs:[0-9]*:[0-9]*: ' got; then
    refused=$((refused + 1))
  else
    fail "seed $seed: $(head -5 got; diff chosen.axs changed.axs)"
  fi
done
echo "$count schedules, $refused refused"
[ "$((10 * refused))" -le "$((9 * count))" ] ||
  fail "$refused of $count refused"
exit "$bad"
