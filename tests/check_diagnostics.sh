#!/bin/bash
# Diagnostics for tools, for the programs of tests/error: JSON as described in
# doc/diagnostics.md, valid SARIF, and fixes that repair the program.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=$(realpath "${AXON:-$here/axon}")
command -v python3 >/dev/null || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work" LC_ALL=C.UTF-8
cp -r "$here/tests/error" "$work/error"
cd "$work/error" || exit 1
status=0
"$AXON" check --diagnostics json -- *.axn 2>&1 >/dev/null | grep '^{' |
  python3 "$here/tests/diagnostics.py" json "$here/doc/diagnostics.md" ||
  status=1
"$AXON" check --diagnostics sarif -- *.axn 2>"$work/sarif" >/dev/null
python3 "$here/tests/diagnostics.py" sarif "$work/sarif" || status=1
python3 "$here/tests/diagnostics.py" fix "$AXON" "$work/error" || status=1
exit "$status"
