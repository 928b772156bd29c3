#!/bin/bash
# Measured rates of a core change schedules, but no digit of a result.
set -u
. "$(dirname "$0")/lib.sh"
need_compiler
enter "$here/tests/data"
export AXON_TARGET=cpu AXON_TINY=0 XDG_CACHE_HOME=$work/cache
cd "$work" || exit 1
cat >a.axn <<'END'
val x : f32[130, 700] = normal (key 1) [130, 700]
val y : f32[700, 210] = normal (key 2) [700, 210]
val d : f64[90, 800] = normal (key 3) [90, 800]
val image : f32[2, 16, 30, 30] = normal (key 4) [2, 16, 30, 30]
val filter : f32[40, 16, 3, 3] = normal (key 5) [40, 16, 3, 3]
val deep : f32[20, 9000] = normal (key 6) [20, 9000]
val q : f32[2, 70, 32] = normal (key 7) [2, 70, 32]
do save "product.npy" (x @ y)
do save "rows.npy" (nn.gelu (x @ y))
do save "double.npy" (d @ transpose d)
do save "conv.npy" (nn.conv2d ~padding:1 {w = filter, b = zeros [40]} image)
do save "deep.npy" (deep @ transpose deep)
do save "weights.npy" (map (fn h => nn.softmax (h @ transpose h) @ h) q)
do save "columns.npy" (sum ~axis:0 x)
END
results() { # results NAME: runs the program, and prints its schedules
  "$AXON" a.axn >"$1.err" 2>&1 || fail "$(head -3 "$1.err")"
  cat ./*.npy >"$1.out"
  rm -f ./*.npy
  "$AXON" plan --schedule a.axn >"$1.axs" 2>/dev/null
}
results typical
"$AXON" doctor --measure >doctor.out
grep -q '^core, per cycle' doctor.out || {
  grep -q 'without optimization' doctor.out &&
    echo 'skipped: built without optimization' && exit 0
  fail "doctor: $(tail -5 doctor.out)"
}
file=$(echo cache/axon/core-*.txt)
[ "$(wc -l <"$file")" = 12 ] || fail "rates: $(cat "$file")"
results measured
cp "$file" rates
# machines that do not exist
odd() { # odd NAME SED-SCRIPT
  sed "$2" rates >"$file"
  results "$1"
  cmp -s typical.out "$1.out" || fail "$1: other results"
}
cmp -s typical.out measured.out || fail 'measured: other results'
odd slow_fma 's/^fma_\(.*\) .*/fma_\1 100/'
odd slow_loads 's/^loads .*/loads 100/'
odd no_caches 's/^l1_l2 .*/l1_l2 300/; s/^l2_l3 .*/l2_l3 100/'
odd slow_tasks 's/^task .*/task 900000000/'
same=0
for name in slow_fma slow_loads no_caches slow_tasks; do
  cmp -s typical.axs "$name.axs" && same=$((same + 1))
done
[ $same -lt 4 ] || fail 'the rates change no schedule'
# a damaged file counts as none
echo 'clock x' >"$file"
results damaged
cmp -s typical.axs damaged.axs || fail 'a damaged file is read'
exit "$bad"
