#!/bin/bash
# Compares the functional part of the evaluator with Lua and OCaml bytecode, if
# they are installed.  Prints the seconds of the programs in eval/, and the
# ratio to the time of the other language (below 1.00: Axon is faster).  Times
# include start-up.  Goal: at least as fast as Lua.
. "$(dirname "$0")/lib.sh"
programs=$here/bench/eval
rounds=${ROUNDS:-5}

# against NAME SECONDS PEER FILE: the time of the peer, if it is installed.
against() {
  command -v "$3" >/dev/null || return
  [ "$("$3" "$4" | tr -d '\n')" = "$("$AXON" run "$programs/$1.axn" |
    tr -d '\n')" ] || { echo "$1: $3 gives another result" >&2 && exit 1; }
  peer=$(typical "$rounds" "$3" "$4")
  printf '  %s %s (%s)' "$3" "$peer" "$(ratio "$2" "$peer")"
}

for name in ${*:-fib sort closures strings records}; do
  took=$(typical "$rounds" "$AXON" run "$programs/$name.axn")
  printf '%-9s axon %s' "$name" "$took"
  against "$name" "$took" lua5.4 "$programs/$name.lua"
  against "$name" "$took" ocaml "$programs/$name.ml"
  echo
done
