#!/bin/bash
# Inferred types of the library, the examples and the models have at most 200
# characters, apart from records.  tests/long_types has the others, and why.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
command -v python3 >/dev/null || {
  echo 'skipped: python3 is not installed'
  exit 0
}
export PYTHONDONTWRITEBYTECODE=1
python3 tests/long_types.py "$AXON" tests/long_types \
  stdlib/*.axn examples/*.axn examples/train/*.axn examples/models/*.axn
