#!/bin/bash
# The programs of examples/train/ that take a number of steps: in a few steps,
# the loss falls.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
cd "$work" || exit 1

trains() { # trains NAME STEPS
  timeout "$limit" "$AXON" run "examples/train/$1.axn" "$2" >out 2>err || {
    fail "$1 fails: $(head -n 3 err)"
    return
  }
  [ -s err ] && fail "$1 warns: $(head -n 3 err)"
  awk '$1 == "step" { if (!n++) first = $4; last = $4 }
    END { exit !(n >= 2 && last + 0 < first + 0) }' out ||
    fail "$1: the loss does not fall: $(cat out)"
}

trains mlp 200
trains cnn 20
trains lstm 40
trains vae 40
trains char_gpt 3
exit $bad
