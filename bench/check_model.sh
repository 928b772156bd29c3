#!/bin/bash
# Judges the cost model by the recorded tables of bench/model, on any machine:
#   make check-model
# For each table: the share of the pairs of schedules whose times differ by more
# than 5 % that the model orders rightly (goal 0.90), and the time of the
# schedule that it would choose over that of the fastest one (goal 1.05).
# bench/model/floors has what each table must reach, so that the model does not
# become worse unnoticed.
# BUILD is the build folder.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
"$build/bench/model/check" "$here"/bench/model/*.csv | awk '
  NR == FNR { if ($1 !~ /^#/) { share[$1] = $2; over[$1] = $3 } ; next }
  {
    name = $1; sub(/\.csv$/, "", name)
    ok = $6 >= 0.90 && $8 <= 1.05
    met += ok
    n++
    note = ok ? "" : "  misses the goal"
    if (!(name in share)) { note = note "  no floor"; bad = 1 }
    else if ($6 < share[name] || $8 > over[name]) {
      note = note "  BELOW ITS FLOOR " share[name] " " over[name]
      bad = 1
    }
    print $0 note
  }
  END {
    printf "%d of %d tables reach both goals\n", met, n
    exit bad || n == 0
  }' "$here/bench/model/floors" -
