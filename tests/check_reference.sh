#!/bin/bash
# On the reference backend, the output of models, examples and operations is
# identical to the golden files.
set -u
cd "$(dirname "$0")/.." || exit 1
AXON=$(realpath "${AXON:-./axon}")
export AXON AXON_TARGET=reference LIMIT=100
failures=$({
  find tests/ops tests/oracle -name '*.out' | sed 's/^\(.*\)\.out$/run \1/'
  find examples -maxdepth 1 -name '*.axn' | sed 's/^/example /'
  find examples/models -name '*.axn' | sed 's/^/model /'
} | xargs -P "$(nproc)" -L 1 bash -c \
  'output=$(tests/case.sh "$1" "$2" 2>&1) || head -n 30 <<<"$1 $2: $output"' _)
[ -z "$failures" ] && exit 0
echo "$failures"
exit 1
