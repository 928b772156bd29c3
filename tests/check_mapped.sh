#!/bin/bash
# If a data file of 64 MiB or more is truncated while it is read, an error names
# it: in a program, in a session, in kernels on two threads, and with any signal
# handler of the host (tests/unit/mapped_test.c).  The REPL continues.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export AXON_THREADS=2
said='cannot read "big\.[a-z]*": \(the file was [tc]\|a part\)'

make() { # make: big.npy, f32[17825792], all zero and no blocks on the disk
  printf "\x93NUMPY\x01\x00v\x00%-117s\n" \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (17825792,), }" \
    >big.npy
  truncate -s $((128 + 4 * 17825792)) big.npy
}

# Truncates the file of a program that reads it again and again, after the first
# iteration.
during() { # during NAME EXPRESSION TARGET
  make
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
  [ "$status" = 1 ] && grep -q "$said" err ||
    wrong "$1: status $status, $(cat err)"
  # The numbers before that are right.
  grep -v '^0\.0$' out | grep -q . && wrong "$1: $(grep -v '^0\.0$' out)"
}

during sum 'sum (x * 2.0 + tanh x)' cpu
during products 'sum (reshape [1024, _] x @ reshape [_, 1024] x)' cpu
during sort 'sum (sort x)' cpu
during reference 'sum (x.[:100000])' reference

# The REPL says it and goes on; nothing of it is kept in a file.
make
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
session | timeout 60 "$AXON" repl --plain >out 2>&1 || wrong "repl: $(cat out)"
[ "$(grep -c "$said" out)" = 3 ] && grep -q '= 42$' out ||
  wrong "repl: $(cat out)"
ls y.* .axon* 2>/dev/null && wrong 'it was saved'
exit "$bad"
