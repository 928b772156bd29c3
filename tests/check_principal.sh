#!/bin/bash
# The types of the library and of the models are principal: annotations with the
# inferred types change nothing (principal.py).  Existing annotations restrict a
# type only if tests/narrowed gives a reason (stripped.py).
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
command -v python3 >/dev/null || {
  echo 'skipped: python3 is not installed'
  exit 0
}
export PYTHONDONTWRITEBYTECODE=1
files=(stdlib/*.axn examples/models/*.axn)
python3 tests/principal.py "$AXON" tests/principal.open "${files[@]}" &&
  python3 tests/stripped.py "$AXON" tests/narrowed "${files[@]}"
