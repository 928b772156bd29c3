#!/bin/bash
# The types of the library and of the models are principal: see principal.py.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
command -v python3 >/dev/null || {
  echo 'skipped: there is no python3'
  exit 0
}
exec python3 tests/principal.py "$AXON" tests/principal.open \
  stdlib/*.axn examples/models/*.axn
