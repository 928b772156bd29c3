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
run_mutants schedulemutants.py "$@"
exit "$bad"
