#!/bin/bash
# Runs the tests in parallel:  tests/run.sh [FILTER]
#
# FILTER selects tests whose `kind path` contains one of its lines.  AXON is the
# program to test, BUILD the folder of the unit tests (default of both: this
# folder).  TIMES=FILE stores the CPU seconds of each test, slowest first.
# Prints failures, the statistics of constraints in the library and the examples
# (check_open.sh), and a last line: N passed, N failed.  A program with
# sanitizers needs MEMORY=unlimited.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
export AXON BUILD=${BUILD:-$here}
export filter=${1-}
results=$(mktemp -d)
export results
trap 'rm -rf "$results" 2>/dev/null || { sleep 1 && rm -rf "$results"; }' EXIT
# glibc fills memory with this byte when it is allocated or freed, so that a
# read of freed memory is wrong in every run.
export MALLOC_PERTURB_=165
export TEST_CACHE="$results/cache"
mkdir "$TEST_CACHE"

list() {
  for file in "$BUILD"/tests/unit/*_test; do
    [ -x "$file" ] && [ -f "$file" ] && echo "unit $file"
  done
  for file in examples/*.axn; do [ -e "$file" ] && echo "example $file"; done
  # others: check_trainexamples.sh
  for file in examples/train/*.expected examples/schedules/*.expected; do
    [ -e "$file" ] && echo "example ${file%.expected}.axn"
  done
  for file in examples/models/*.axn; do echo "model $file"; done
  for file in stdlib/*.axn; do [ -e "$file" ] && echo "library $file"; done
  for file in README.md doc/*.md; do [ -e "$file" ] && echo "doc $file"; done
  for file in tests/lint_*.sh tests/check_*.sh; do echo "script $file"; done
  list_goldens
}

slowest() { # prints the CPU seconds of each test, from the output of `times`
  awk 'FNR == 1 { test = $0 }
    FNR == 3 {
      split($1 "m" $2, part, /[ms]+/)
      printf "%7.1f %s\n", 60 * (part[1] + part[3]) + part[2] + part[4], test
    }' "$results"/*.time | sort -rn
}

list | grep -F -e "$filter" >"$results/list"
run_cases "$results/list" --results "$results"

[ -z "${TIMES-}" ] || slowest >"$TIMES"
[ ! -e "$results/constraints" ] || cat "$results/constraints"
passed=$(find "$results" -name '*.pass' | wc -l)
failed=$(($(wc -l <"$results/list") - passed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
