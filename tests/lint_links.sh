#!/bin/bash
# Checks the object files of the build under test.  Files of different modules
# do not depend on one another in a cycle, and at most 15 files of one module do
# (tools/links.sh).
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
if [ -z "$(find "$build/support" -name '*.o' 2>/dev/null)" ]; then
  echo 'skipped: nothing was built here'
  exit 0
fi
links=$("$here/tools/links.sh" "$build") && exit 0
grep -E '\((spans modules|too many)\)' <<<"$links" || exit 0
echo "tools/links.sh --edges names the symbols that make these groups"
exit 1
