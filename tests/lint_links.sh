#!/bin/bash
# Checks the dependencies between the object files of the build under test.  A
# cycle contains at most 15 files, all of one module (tools/links.sh).
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
if [ -z "$(find "$build/support" -name '*.o' 2>/dev/null)" ]; then
  echo 'skipped: no object files'
  exit 0
fi
links=$("$here/tools/links.sh" "$build") && exit 0
grep -E '\((spans modules|too many)\)' <<<"$links" || exit 0
echo "tools/links.sh --edges prints the symbols that cause these cycles"
exit 1
