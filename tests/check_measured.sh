#!/bin/bash
# Measured rates of a core change schedules, but no digit of a result.  They
# hold for any number of threads; a file of them that cannot be right is not
# used.
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
"$AXON" plan a.axn 2>&1 | grep -q 'rates.*of the model are typical' ||
  fail 'axon plan: no line about typical rates'
AXON_THREADS=3 "$AXON" doctor --measure >doctor.out
grep -q '^core, per cycle' doctor.out || {
  grep -q 'without optimization' doctor.out &&
    echo 'skipped: built without optimization' && exit 0
  fail "doctor: $(tail -5 doctor.out)"
}
file=$(echo cache/axon/core-*.txt)
[ "$(wc -l <"$file")" = 16 ] || fail "rates: $(cat "$file")"
grep -q 'inf ' doctor.out && fail "a difference of inf: $(cat doctor.out)"

# the same rates with other threads; one thread starts no task
for threads in 1 2 7; do
  AXON_THREADS=$threads "$AXON" doctor --json >doctor.json
  grep -q '"core":{"measured":true' doctor.json ||
    fail "$threads threads: the rates are lost: $(cat doctor.json)"
done
mkdir one
XDG_CACHE_HOME=$work/one AXON_THREADS=1 "$AXON" doctor --measure >one.out
grep -q 'starting a task .* (typical)' one.out ||
  fail "one thread measured the start of a task: $(cat one.out)"
# those that are typical in the file are so in the plan
sed -i 's/^task .*/task typical/; s/^l2_l3 .*/l2_l3 typical/' "$file"
"$AXON" plan a.axn 2>/dev/null | tr -s ' \n' ' ' |
  grep -q 'that are typical: .*from level 3;.*starting a task' ||
  fail 'axon plan: no line about the rates that are typical'
"$AXON" doctor | grep -q 'from level 3 .* (typical)' ||
  fail 'axon doctor: no word about a typical rate'
sed -i 's/^task .*/task 400000/; s/^l2_l3 .*/l2_l3 9000/' "$file"
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
# a file that cannot be right counts as none, and axon doctor says why
unused() { # unused WHY WHAT: the file is $file
  "$AXON" doctor >doctor.out && fail "$2: axon doctor succeeds"
  grep -q "rates of the core are not used: $1" doctor.out ||
    fail "$2: $(cat doctor.out)"
  "$AXON" plan --schedule a.axn >unused.axs 2>/dev/null
  cmp -s typical.axs unused.axs || fail "$2: the file is read"
}
for value in -5 0 nan inf 1e300 99999999999999999999 '' x '2 2'; do
  sed "s/^loads .*/loads $value/" rates >"$file"
  unused '`loads' "loads $value"
done
sed 's/^clock .*/clock 1/' rates >"$file"
unused '`clock 1. is not a number' 'a slow clock'
sed 's/^machine .*/machine of others/' rates >"$file"
unused 'it is not that of this machine' 'another machine'
sed '/^stores/d' rates >"$file"
unused 'line 9 is not that of `stores`' 'no stores'
head -c -2 rates >"$file"
unused 'it does not end' 'a file without its end'
head -c 100 rates >"$file"
unused '' 'a part of a file'
: >"$file"
unused 'it is not that of this machine' 'an empty file'

# what is not saved
mkdir closed
touch closed/axon
XDG_CACHE_HOME=$work/closed "$AXON" doctor --json --measure >doctor.json
[ "$(grep -o '"saved":false' doctor.json | wc -l)" = 2 ] ||
  fail "nothing was saved: $(cat doctor.json)"
exit "$bad"
