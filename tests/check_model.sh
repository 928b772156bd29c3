#!/bin/bash
# The cost model orders the schedules of the recorded tables as well as
# bench/model/floors says, and a table that it orders worse is found.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
build=${BUILD:-$here}
[ -x "$build/bench/model/check" ] ||
  { echo 'skipped: bench/model/check is not built' && exit 0; }
BUILD=$build "$here/bench/check_model.sh" >"$work/out" ||
  fail "a table is below its floor: $(grep BELOW "$work/out")"
tail -1 "$work/out"
[ "$(grep -c schedules "$work/out")" -ge 8 ] ||
  fail "tables: $(cat "$work/out")"

# times in the opposite order
awk '/^point/ { $2 = 1 / $2 } { print }' "$here/bench/model/product_256.csv" \
  >"$work/turned.csv"
share=$("$build/bench/model/check" "$work/turned.csv" | awk '{ print $6 }')
awk -v s="$share" 'BEGIN { exit !(s < 0.3) }' ||
  fail "a table with inverse times is ordered: $share"
echo 'point 1 0' >"$work/short.csv"
"$build/bench/model/check" "$work/short.csv" >/dev/null 2>&1
[ $? = 2 ] || fail 'a line without counts is no error'
exit "$bad"
