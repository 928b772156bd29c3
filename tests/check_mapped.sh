#!/bin/bash
# Files of at least 64 MiB are memory-mapped.  If one is truncated while it is
# read, an error names it: in programs, in the REPL and in kernels on two
# threads.  The REPL continues.  tests/unit/mapped_test.c tests host programs
# with signal handlers.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export AXON_THREADS=2
message='cannot read "big\.[a-z]*": \(the file was [tc]\|a part\)'

make_file() { # writes the sparse file big.npy, f32[17825792], all zero
  printf "\x93NUMPY\x01\x00v\x00%-117s\n" \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (17825792,), }" \
    >big.npy
  truncate -s $((128 + 4 * 17825792)) big.npy
}

# Runs a program that evaluates EXPRESSION in a loop, and truncates the file
# after the first iteration.
during() { # during NAME EXPRESSION TARGET
  make_file
  rm -f begun.npy
  printf 'val x = (load "big.npy" : f32[17825792])\ndo print (sum x)\n%s\n' \
    "fun next i = (print ($2); save \"begun.npy\" [1]; i + 1)
do while (fn i => i >= 0) next 0 |> print" >p.axn
  AXON_TARGET=$3 timeout 60 "$AXON" run p.axn >out 2>err &
  pid=$!
  for _ in $(seq 300); do
    [ -e begun.npy ] && break
    sleep 0.1
  done
  sleep 0.3
  truncate -s 100000 big.npy
  wait "$pid"
  status=$?
  [ "$status" = 1 ] && grep -q "$message" err ||
    fail "$1: status $status, $(cat err)"
  # The results before the truncation are correct.
  grep -v '^0\.0$' out | grep -q . && fail "$1: $(grep -v '^0\.0$' out)"
}

during sum 'sum (x * 2.0 + tanh x)' cpu
during products 'sum (reshape [1024, _] x @ reshape [_, 1024] x)' cpu
during sort 'sum (sort x)' cpu
during reference 'sum (x.[:100000])' reference

# The REPL reports the error and continues.  It saves no file.
make_file
session() {
  echo 'val x = (load "big.npy" : f32[17825792])'
  echo 'do print "loaded"'
  for _ in $(seq 300); do
    grep -q loaded out && break
    sleep 0.1
  done
  truncate -s 100000 big.npy
  echo 'sum x'
  echo 'save "y.npy" x'
  echo 'save_all "y.npz" (list [("a", x)])'
  echo '6 * 7'
}
: >out
session | timeout 60 "$AXON" repl --plain >out 2>&1 || fail "repl: $(cat out)"
[ "$(grep -c "$message" out)" = 3 ] && grep -q '= 42$' out ||
  fail "repl: $(cat out)"
ls y.* .axon* 2>/dev/null && fail 'a truncated tensor was saved'
exit "$bad"
