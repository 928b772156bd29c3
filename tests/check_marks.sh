#!/bin/bash
# tests/marks.sh reports each kind of difference between a mark and a
# diagnostic.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/shape_bugs" b05_unit_axis_expanded_broken
program=b05_unit_axis_expanded_broken.axn
"$AXON" check --diagnostics json "$program" >/dev/null 2>"$work/json"
bad=0

marks() {
  "$here/tests/marks.sh" "$work/changed.axn" "$work/json" >"$work/out"
}

# The sed script changes a mark.  The difference must be reported.
reports() { # reports NAME SED-SCRIPT
  sed "$2" "$program" >"$work/changed.axn"
  if cmp -s "$program" "$work/changed.axn"; then
    echo "$1: sed changes nothing"
    bad=1
  elif marks; then
    echo "not reported: $1"
    bad=1
  fi
}

cp "$program" "$work/changed.axn"
marks || { echo "correct marks are rejected" && cat "$work/out" && bad=1; }
reports "another number" 's/E0303 4 1/E0303 4 2/'
reports "a part of a number" 's/E0303 10 1/E0303 0 1/'
reports "another code" 's/E0303 4 1/E0302 4 1/'
reports "another column" 's/^(\* *^* E0303 4 1/(*    ^^^ E0303 4 1/'
reports "another line" '1s/^/\n/'
reports "a surplus mark" '$a (*      ^^^^ E0303 4 1 *)'
reports "a missing mark" '/E0303 10 1/d'
reports "a missing help" 's/E0303 4 1/E0303 4 1 help:transpose/'
exit "$bad"
