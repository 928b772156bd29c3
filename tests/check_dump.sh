#!/bin/bash
# `axon dump` prints the programs of tests/data/dump in each stage of the
# compiler.
set -u
AXON=$(realpath "${AXON:-$(dirname "$0")/../axon}")
cd "$(dirname "$0")/data/dump" || exit 1
status=0
for stage in tree core; do
  diff -u "small.$stage" <("$AXON" dump --stage="$stage" small.axn) || status=1
done
diff -u small.core <("$AXON" dump small.axn) || status=1

# Graphs of functions, and errors for functions that cannot be compiled.
dump() { # dump LIST: prints the graph of, or the errors for, each entry
  while read -r entry; do
    echo "== $entry"
    NO_COLOR=1 "$AXON" dump --stage=graph --entry "$entry" graphs.axn 2>&1
  done <"$1"
}
diff -u graphs.graph <(dump graphs.entries) || status=1
diff -u graphs.errors <(dump graphs.refused) || status=1

# Models: the golden file has only the signature and the requirements.
diff -u models.head <("$AXON" dump --stage=graph models.axn 2>&1 |
  grep -vE '^%|^argument') || status=1
exit "$status"
