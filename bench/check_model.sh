#!/bin/bash
# Judges the cost model by the recorded tables of bench/model, on any machine:
#   make check-model
#   bench/check_model.sh [--help]
# For each table: the share of the pairs of schedules whose times differ by more
# than 5 % that the model orders rightly (goal 0.90), and the time of the
# schedule that it would choose over that of the fastest one (goal 1.05).
# bench/model/floors has what each table must reach, so that the model does not
# become worse unnoticed.  A table without a floor fails, and a floor without a
# table.  The counts of the tables must be those of this build; a machine
# without Python or AVX-512 does not compare them.
# BUILD is the build folder, AXON its program, TABLES the folder of the tables.
set -eu
if [ $# -gt 0 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  [ "$*" = --help ] && exit
  exit 2
fi
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
export AXON=${AXON:-$build/axon} TABLES=${TABLES:-$here/bench/model}
bad=0
if ! command -v python3 >/dev/null || ! grep -q avx512vl /proc/cpuinfo; then
  echo 'the counts are not compared: no Python, or no AVX-512'
else
  "$here/bench/record_model.sh" --compare || bad=1
fi
"$build/bench/model/check" "$TABLES"/*.csv | awk '
  NR == FNR { if ($1 !~ /^#/) { share[$1] = $2; over[$1] = $3 } ; next }
  {
    name = $1; sub(/\.csv$/, "", name)
    ok = $6 >= 0.90 && $8 <= 1.05
    met += ok
    n++
    seen[name] = 1
    note = ok ? "" : "  misses the goal"
    if (!(name in share)) { note = note "  NO FLOOR"; bad = 1 }
    else if ($6 < share[name] || $8 > over[name]) {
      note = note "  BELOW ITS FLOOR " share[name] " " over[name]
      bad = 1
    }
    print $0 note
  }
  END {
    for (name in share)
      if (!(name in seen)) { print name ".csv  NO TABLE"; bad = 1 }
    printf "%d of %d tables reach both goals\n", met, n
    exit bad || n == 0
  }' "$TABLES/floors" - || bad=1
exit "$bad"
