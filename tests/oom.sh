#!/bin/bash
# Injects allocation failures:  tests/oom.sh [MAX]
#
# AXON (default: ./axon) must be configured with --enable-failing-alloc, and
# should be with --enable-asan.  Runs each small program below with the n-th
# allocation failing, alone or with all later ones: for all n up to MAX
# (default: 300), then for some n, until the program makes fewer than n
# allocations.  The program must end as without failures, or with status 1 and a
# diagnostic.  In such a build, tests/unit/memory_test.c tests a session for
# every n.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/fuzz/seeds"
ulimit -c 0
max=${1:-300}
# Leaks are not detected: the program may end without freeing its memory.
options=exitcode=99:allocator_may_return_null=1:detect_leaks=0
ASAN_OPTIONS=$options${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export ASAN_OPTIONS

if AXON_FAIL_AFTER=1 "$AXON" -e 1 >out 2>&1; then
  echo "$AXON was not configured with --enable-failing-alloc"
  exit 77
fi

: >input

# Runs axon with single failures, and with failures from some allocation on.
each() { # each NAME STATUS ARGUMENT...
  inject AXON_FAIL_AFTER "$@"
  inject AXON_FAIL_FROM "$@"
}

inject() { # inject VARIABLE NAME STATUS ARGUMENT...
  variable=$1 name="$2 ($1)" unaffected=0 n=1 expected=$3 got=0
  shift 3
  timeout 60 "$AXON" "$@" >expected.out 2>expected.err <input || got=$?
  if [ "$got" != "$expected" ]; then
    echo "$name: status $got without failures" && bad=1
    head -n 20 expected.err
    return
  fi
  while [ "$unaffected" -lt 12 ]; do
    got=0
    env "$variable=$n" timeout 60 "$AXON" "$@" >out 2>err <input || got=$?
    if [ "$got" = "$expected" ] && cmp -s expected.out out; then
      cmp -s expected.err err && unaffected=$((unaffected + 1))
    elif [ "$got" = 1 ] && [ -s err ]; then
      unaffected=0
    else
      echo "$name: status $got when allocation $n fails" && bad=1
      head -n 20 err
    fi
    n=$((n + (n < max ? 1 : 1 + n / 40)))
  done
  echo "$name: $n"
}

cat >error.axn <<'END'
val a : f32[2, 3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
fun f (x : f32[n, k]) (y : f32[k, m]) = x @ y
val b = f a a
val c = unknown 1
val d = 1 +
END
cat >tensors.axn <<'END'
val a : f32[3, 3] = for i < 3, j < 3 => if i < j then 1.0 else 0.5
val b = a @ a + sum a
do print b
do print (for i < 3 => b.[i, 0] * 2.0)
do print (softmax b)
END
cat >data.axn <<'END'
datatype shape = Dot | Circle of f32
fun area s = case s of Dot => 0.0 | Circle r => 3.0 * r * r
val r = {name = "x" ^ "y", at = (1, 2.5), all = list [Dot, Circle 2.0]}
do print r
do print (lists.map area r.all)
do print (strings.join "," (list ["a", "b"]))
END
for kind in npy npz safetensors csv; do
  cat >"file_$kind.axn" <<END
val t : f32[2, 3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
do save "t.$kind" t
val u : f32[2, 3] = load "t.$kind"
do print u
END
done
cat >file_png.axn <<'END'
val t : u8[4, 4, 3] = zeros [4, 4, 3]
do save "t.png" t
val u : u8[4, 4, 3] = load "t.png"
do print u
END

each 'an expression' 0 -e '1 + 2' -e 'sum [1.0, 2.0]'
each errors 1 check error.axn
each types 0 check tensors.axn
each tensors 0 run tensors.axn
each data 0 run data.axn
for kind in npy npz safetensors csv png; do
  each "$kind" 0 run "file_$kind.axn"
done
each fmt 0 fmt data.axn
each help 0 help run
printf 'val x = 1 +\n2\nx * "a"\n:type x\n[x, 2]\n' >input
each session 0 repl --plain
exit "$bad"
