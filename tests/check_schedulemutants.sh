#!/bin/bash
# Mutation tests of the checks of schedules: a program without one of them does
# not refuse a schedule of tests/schedules (tests/schedulemutants.py).
#
#     [MUTANTS=all] tests/check_schedulemutants.sh [WORD]
#
# Runs a few mutants; MUTANTS=all runs all of them.  MUTANTS=9 runs one in nine.
# WORD selects mutants whose name contains it.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
build=${BUILD:-$here}
each=${MUTANTS:-15}
[ "$each" = all ] && each=1
for program in python3 cc; do
  command -v "$program" >/dev/null || { echo "skipped: no $program"; exit 0; }
done
grep -q 'fsanitize' "$build/Makefile" && {
  echo 'skipped: a build with a sanitizer'
  exit 0
}
export PYTHONDONTWRITEBYTECODE=1
mkdir "$work/mutants"
output=$(python3 "$here/tests/schedulemutants.py" "$here" "$build" \
  "$work/mutants" "$each" "$@" 2>&1) || fail "$output"
[ -z "${MUTANTS-}" ] || tail -n 1 <<<"$output"
exit "$bad"
