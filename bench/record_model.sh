#!/bin/bash
# Records the tables of bench/model that `make check-model` reads, on this
# machine:
#   bench/record_model.sh                 all spaces; takes some minutes
#   bench/record_model.sh columns blur    some of them
#   bench/record_model.sh --counts        keeps the times, and counts again
#   bench/record_model.sh --compare       fails if the counts would change
#   bench/record_model.sh --help          all options
# AXON is the program; the one of this folder otherwise.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
exec python3 "$here/bench/model/record.py" --axon "${AXON:-$here/axon}" "$@"
