#!/bin/bash
# On the reference backend, models, examples and operations give the output of
# their golden files, to the last digit.
set -u
cd "$(dirname "$0")/.." || exit 1
AXON=$(realpath "${AXON:-./axon}")
export AXON AXON_TARGET=reference LIMIT=100
wrong=$({
  find tests/ops tests/oracle -name '*.out' | sed 's/^\(.*\)\.out$/run \1/'
  find examples -maxdepth 1 -name '*.axn' | sed 's/^/example /'
  find examples/models -name '*.axn' | sed 's/^/model /'
} | xargs -P "$(nproc)" -L 1 bash -c \
  'text=$(tests/case.sh "$1" "$2" 2>&1) || head -n 30 <<<"$1 $2: $text"' _)
[ -z "$wrong" ] && exit 0
echo "$wrong"
exit 1
