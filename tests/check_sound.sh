#!/bin/bash
# Some fixed random programs (tests/sound/run.sh generates others, in any
# number).  The type checker is right about all of them.  They contain each kind
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
said=$(tests/sound/run.sh --programs 1500 --seed 1 --stop 2 2>&1) || status=1

# least ROW COLUMN NUMBER: the row's number in that column is no less
least() {
  local got
  got=$(printf '%s\n' "$said" |
    sed -n "s/^$1 \{2,\}\([0-9].*\)/\1/p" | awk -v at="$2" '{print $at}')
  [ "${got:-0}" -ge "$3" ] && return
  echo "$1: ${got:-none} in column $2, at least $3 are wanted"
  status=1
}
least 'dimension equality' 1 1000
least 'shape equality with appends' 1 1000
least 'join' 1 1000
least 'prod, divisibility' 1 200
least 'd <= e' 1 1000
least 'axis' 1 800
least 'keep' 1 150
least 'lift' 1 60
least 'class' 1 1000
least 'record row' 1 150
for row in 'dimension equality' 'join' 'prod, divisibility' 'd <= e' 'axis'; do
  least "$row" 2 20
done
least 'right' 1 1500
least 'wrong' 2 1500
least 'right, sizes from data' 1 40
least 'wrong, sizes from data' 2 40
[ "$status" = 0 ] || printf '%s\n' "$said"
exit "$status"
