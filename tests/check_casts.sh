#!/bin/bash
# Random programs with `each` and casts, with fixed seeds: types and values are
# as expected (casts.py).
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
command -v python3 >/dev/null || {
  echo 'skipped: python3 is not installed'
  exit 0
}
PYTHONDONTWRITEBYTECODE=1 python3 tests/casts.py "$AXON" 1 40
