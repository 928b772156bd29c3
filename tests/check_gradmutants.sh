#!/bin/bash
# Mutation tests of derivatives: each row of primitives/map.def and each adjoint
# rule with another sign, constant or condition fails a program of tests/grad
# (tests/gradmutants.py).
#
#     [MUTANTS=all] tests/check_gradmutants.sh [WORD]
#
# Runs a few mutants; MUTANTS=all runs all of them, in about two minutes.
# MUTANTS=9 runs one in nine.  WORD selects mutants whose name contains it.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
run_mutants gradmutants.py "$@"
exit "$bad"
