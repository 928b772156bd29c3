#!/bin/bash
# Checks random programs:  tests/sound/run.sh [--programs N] [--seed S] ...
#
#   --programs N   number of programs (1000)
#   --seed S       random seed (1)
#   --jobs J       number of processes (1)
#   --stop N       a process ends after N findings of a kind
#   --only SEED    checks and prints one program
#   --family F     1: operations on tensors, 2: loops (default: both)
#   --quiet        counts findings without printing them
#
# Prints the smallest program of each finding, with the SEED for --only.  At the
# end prints, for each kind of constraint, the number of programs that contain
# it and the answers of the solver; the numbers of correct and wrong calls that
# were proved, refuted or left to run-time checks; and the number of findings.
# The status is 1 if there are findings.  BUILD is the build folder of Axon.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root}
[ -n "${BUILD-}" ] || make -s -C "$root" tests/sound/sound >/dev/null || exit 2
if [ ! -x "$build/tests/sound/sound" ]; then
  echo "not built: make check builds $build/tests/sound/sound"
  exit 77
fi
ulimit -S -s 524288 2>/dev/null # KiB: the stack size of axon
exec "$build/tests/sound/sound" "$@"
