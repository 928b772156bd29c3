#!/bin/bash
# Tests the language server with a client over stdio.  Arguments select tests by
# parts of their names: tests/check_lsp.sh rename
set -u
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || {
  echo 'skipped: python3 is not installed'
  exit 0
}
export AXON EXAMPLES="$here/examples" ERRORS="$here/tests/error"
export XDG_CACHE_HOME
XDG_CACHE_HOME=$(mktemp -d)
trap 'rm -rf "$XDG_CACHE_HOME"' EXIT
export PYTHONDONTWRITEBYTECODE=1
# A test sends SIGSEGV to a worker.  It must end the process.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0"
python3 "$here/tests/lsp/run.py" "$@"
