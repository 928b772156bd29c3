#!/bin/bash
# Random programs with fixed seeds (tests/sound/run.sh runs any number of
# others).  The type checker judges all of them correctly.  They cover each kind
# of constraint, and each answer of the solver.
set -u
cd "$(dirname "$0")/.." || exit 1
export BUILD=${BUILD:-$PWD}
if [ ! -x "$BUILD/tests/sound/sound" ] &&
  ! make -s -C "$BUILD" tests/sound/sound >/dev/null 2>&1; then
  echo "skipped: $BUILD/tests/sound/sound cannot be built"
  exit 0
fi
status=0
output=$(tests/sound/run.sh --programs 1500 --seed 1 --stop 2 2>&1) || status=1

# The number in this row and column of the table is at least MIN.
at_least() { # at_least ROW COLUMN MIN
  local got
  got=$(printf '%s\n' "$output" |
    sed -n "s/^$1 \{2,\}\([0-9].*\)/\1/p" | awk -v at="$2" '{print $at}')
  [ "${got:-0}" -ge "$3" ] && return
  echo "$1: ${got:-none} in column $2, expected at least $3"
  status=1
}
at_least 'dimension equality' 1 1000
at_least 'shape equality with appends' 1 1000
at_least 'join' 1 1000
at_least 'prod, divisibility' 1 200
at_least 'd <= e' 1 1000
at_least 'axis' 1 800
at_least 'keep' 1 150
at_least 'lift' 1 60
at_least 'class' 1 1000
at_least 'record row' 1 150
for row in 'dimension equality' 'join' 'prod, divisibility' 'd <= e' 'axis'; do
  at_least "$row" 2 20
done
at_least 'right' 1 1500
at_least 'wrong' 2 1500
at_least 'right, sizes from data' 1 40
at_least 'wrong, sizes from data' 2 40
[ "$status" = 0 ] || printf '%s\n' "$output"
exit "$status"
