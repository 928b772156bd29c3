#!/bin/bash
# Schedules at length, some of which `make check` tests in part:
#
#     make check-schedules
#
# 1. The printed schedules of the benchmarks and test programs, read again, give
#    the same kernels (tests/schedule_texts.py).
# 2. Steps are refused with their place and message.
# 3. Random schedules give the results of the reference backend: those of GRAPHS
#    random graphs (10000) on the CPU, and SEEDS schedules (300) of programs in
#    the simulator.
# 4. Each check of a step is needed: without it, a wrong schedule is accepted.
set -u
. "$(dirname "$0")/lib.sh"
build=${BUILD:-$here}
need_compiler
part() { # part NAME COMMAND...
  name=$1
  shift
  begin=$SECONDS
  "$@" || fail "FAIL $name"
  echo "$name: $((SECONDS - begin)) s"
}
part 'printed and read' "${PYTHON:-python3}" "$here/tests/schedule_texts.py"
part 'steps and refusals' "$here/tests/run.sh" 'tests/check_declared_schedules
tests/check_gemmschedules
tests/check_schedules
unit/nest_test'
part 'random schedules on the CPU' env AXON_TEST_FILTER=test_random_schedules \
  "$build/tests/unit/kernels_test" "${SEED:-1}" "${GRAPHS:-10000}"
part 'random schedules in the simulator' \
  "$here/tests/check_cudaschedules.sh" "${SEED:-1}" "${SEEDS:-300}"
part 'mutants of checks' env MUTANTS=all "$here/tests/check_schedulemutants.sh"
exit "$bad"
