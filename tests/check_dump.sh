#!/bin/bash
# axon dump: tests/data/dump/NAME.axn as the stages of the compiler see it.
set -u
AXON=$(realpath "${AXON:-$(dirname "$0")/../axon}")
cd "$(dirname "$0")/data/dump" || exit 1
status=0
for stage in tree core; do
  diff -u "small.$stage" <("$AXON" dump --stage="$stage" small.axn) || status=1
done
diff -u small.core <("$AXON" dump small.axn) || status=1
exit "$status"
