#!/bin/bash
# The language server, tested by a client that speaks the whole protocol over
# stdio.  Arguments are parts of test names: tests/check_lsp.sh rename
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
# a test stops a worker by SIGSEGV, which must end the process
export ASAN_OPTIONS="${ASAN_OPTIONS-}:handle_segv=0"
python3 "$here/tests/lsp/run.py" "$@"
