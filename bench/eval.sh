#!/bin/bash
# The functional part of the evaluator against Lua and OCaml's bytecode, where
# they are installed: seconds of the programs in eval/, and times what the
# other one takes (below 1.00: Axon is quicker).  Start-up is included.
# Goal: no slower than Lua.
. "$(dirname "$0")/lib.sh"
programs=$here/bench/eval
rounds=${ROUNDS:-5}

# against NAME SECONDS PEER FILE: how the peer does, if it is there.
against() {
  command -v "$3" >/dev/null || return
  [ "$("$3" "$4" | tr -d '\n')" = "$("$AXON" run "$programs/$1.axn" |
    tr -d '\n')" ] || { echo "$1: $3 comes to something else" >&2 && exit 1; }
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
