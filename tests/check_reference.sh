#!/bin/bash
# On the reference backend, the output of models, examples and operations is
# identical to the golden files.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
cases=$(mktemp)
trap 'rm -f "$cases"' EXIT
export AXON AXON_TARGET=reference LIMIT=100
{
  find tests/ops tests/oracle -name '*.out' | sed 's/^\(.*\)\.out$/run \1/'
  find examples -maxdepth 1 -name '*.axn' | sed 's/^/example /'
  find examples/models -name '*.axn' | sed 's/^/model /'
} >"$cases"
failures=$(run_cases "$cases")
[ -z "$failures" ] && exit 0
echo "$failures"
exit 1
