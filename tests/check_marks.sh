#!/bin/bash
# tests/marks.sh reports each way in which a mark and a message can differ.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/shape_bugs" b05_unit_axis_expanded_broken
program=b05_unit_axis_expanded_broken.axn
"$AXON" check --diagnostics json "$program" >/dev/null 2>"$work/json"
bad=0

marks() {
  "$here/tests/marks.sh" "$work/changed.axn" "$work/json" >"$work/out"
}

complains() { # complains WHAT SED-SCRIPT: of the program that sed makes
  sed "$2" "$program" >"$work/changed.axn"
  if cmp -s "$program" "$work/changed.axn"; then
    echo "$1: sed changes nothing"
    bad=1
  elif marks; then
    echo "no complaint of $1"
    bad=1
  fi
}

cp "$program" "$work/changed.axn"
marks || { echo "it complains of a right one" && cat "$work/out" && bad=1; }
complains "another number" 's/E0303 4 1/E0303 4 2/'
complains "a number that is part of one" 's/E0303 10 1/E0303 0 1/'
complains "another code" 's/E0303 4 1/E0302 4 1/'
complains "another column" 's/^(\* *^* E0303 4 1/(*    ^^^ E0303 4 1/'
complains "another line" '1s/^/\n/'
complains "a mark too many" '$a (*      ^^^^ E0303 4 1 *)'
complains "a mark too few" '/E0303 10 1/d'
complains "a help that is not given" 's/E0303 4 1/E0303 4 1 help:transpose/'
exit "$bad"
