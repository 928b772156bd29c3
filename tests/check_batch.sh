#!/bin/bash
# One process of the compiler compiles several kernels that wait.  They compute
# the same bits as kernels that are compiled alone.  If the process fails, is
# killed or takes too long, each kernel is compiled alone.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
export AXON_TARGET=cpu AXON_TINY=0 AXON_THREADS=1
cat >"$work/a.axn" <<'END'
open nn
val x : f32[200, 300] = normal (key 1) [200, 300]
val y : f32[300, 70] = normal (key 2) [300, 70]
val image : f32[1, 3, 20, 20] = normal (key 3) [1, 3, 20, 20]
val w : f32[5, 3, 3, 3] = normal (key 4) [5, 3, 3, 3]
do print [sum (x @ y), sum (square (softmax x)), sum (sort x * cumsum x),
  sum (square (conv2d {w, b = zeros [5]} image)), var (exp x),
  sum (transpose x @ gelu x), prod (1.0 + 0.0001 * sum ~axis:1 x)]
END
# The first process takes so long that the other kernels wait: until Axon has
# nothing to do but to wait for it.
cat >"$work/cc" <<'END'
#!/bin/bash
for file; do
  case $file in
  */kernel.c) kernels=$(grep -c '^int kernel(' "$file") ;;
  esac
done
case " $* " in *' -Og '*) echo "$kernels" >>"$LOG.quick" ;; esac
[ -s "$LOG" ] || waits=0
while [ "${waits-5}" -lt 5 ]; do # until Axon has slept for a while
  sleep 0.1
  grep -q ') S ' "/proc/$PPID/stat" && waits=$((waits + 1)) || waits=0
done
echo "$kernels" >>"$LOG"
if [ "$kernels" -gt 1 ]; then
  case $BATCH in
  fails) exit 1 ;;
  killed) kill -9 $$ ;;
  slow) sleep 100 ;;
  esac
fi
exec cc "$@"
END
chmod +x "$work/cc"
run() { # run NAME SETTING...
  local name=$1
  shift
  env LOG="$work/$name.log" AXON_CC="$work/cc" BATCH="$name" \
    XDG_CACHE_HOME="$work/cache-$name" "$@" timeout "$limit" "$AXON" run \
    "$work/a.axn" >"$work/$name.out" 2>"$work/$name.err" || fail "$name: $?"
  [ ! -s "$work/$name.err" ] || fail "$name: $(cat "$work/$name.err")"
}
largest() { sort -n "$work/$1.log" | tail -1; }
run alone AXON_OPTIMIZE=always
[ "$(largest alone)" = 1 ] || fail 'optimized kernels are in a batch'
run together AXON_OPTIMIZE=together
cmp "$work/alone.out" "$work/together.out" || fail 'together: the bits differ'
[ "$(largest together)" -ge 3 ] || fail 'together: no batch'
[ ! -e "$work/together.log.quick" ] || fail 'together: a quick object'
for name in batched fails killed slow; do
  seconds=
  [ "$name" != slow ] || seconds=4
  run "$name" AXON_CC_SECONDS=$seconds
  cmp "$work/alone.out" "$work/$name.out" || fail "$name: the bits differ"
  [ "$(largest "$name")" -ge 3 ] || fail "$name: no batch"
done
# The object of a batch is stored once, for all of its kernels.
objects() { find "$work/cache-batched" -name '*.so' -size "$1"; }
[ "$(objects +2 | wc -l)" -le "$(wc -l <"$work/batched.log")" ] ||
  fail 'the object of a batch is stored several times'
rm "$work/batched.log.quick"
run batched AXON_OPTIMIZE=later
cmp "$work/alone.out" "$work/batched.out" || fail 'artifacts: the bits differ'
[ ! -e "$work/batched.log.quick" ] || fail 'an artifact of a batch is missing'
# A kernel of a batch counts as one hit.
hits() { # hits NAME: of one more run
  local before after
  before=$(count_hits "$1")
  run "$1" AXON_OPTIMIZE=together
  after=$(count_hits "$1")
  echo $((after - before))
}
count_hits() {
  XDG_CACHE_HOME="$work/cache-$1" "$AXON" cache |
    sed -n 's/ times found.*//p'
}
[ "$(hits alone)" = "$(hits together)" ] ||
  fail 'the hits of a batch differ from those of kernels compiled alone'
# If it is removed, its kernels are compiled again.
objects +2 | xargs rm
run batched AXON_OPTIMIZE=later
cmp "$work/alone.out" "$work/batched.out" || fail 'removed: the bits differ'
[ -e "$work/batched.log.quick" ] || fail 'a removed object was used'
exit "$bad"
