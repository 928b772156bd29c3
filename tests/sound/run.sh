#!/bin/bash
# Checks random programs:  tests/sound/run.sh [--programs N] [--seed S] ...
#
#   --programs N   how many (1000)
#   --seed S       which (1): the same ones are made again
#   --jobs J       so many processes (1)
#   --stop N       a process ends after N findings of a kind
#   --only SEED    one program: it is shown, with what is wrong about it
#   --family F     1: operations on tensors, 2: loops (both)
#   --quiet        findings are counted, not shown
#
# What is found is shown as the smallest program that has it, with the SEED by
# which --only makes it again, in whole.  At the end: how many programs had
# constraints of each kind, and what became of them; how many calls, of which
# it was known whether they are right or wrong, were proved, refuted or left to
# the running program; how many findings there were.  The status is 1 if there
# were any.  BUILD is the folder in which Axon was made.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root}
[ -n "${BUILD-}" ] || make -s -C "$root" tests/sound/sound >/dev/null || exit 2
if [ ! -x "$build/tests/sound/sound" ]; then
  echo "not built: make check builds $build/tests/sound/sound"
  exit 77
fi
ulimit -S -s 524288 2>/dev/null # as large as the program's own
exec "$build/tests/sound/sound" "$@"
