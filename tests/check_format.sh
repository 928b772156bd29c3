#!/bin/bash
# The library and the examples are as `axon fmt` writes them.  Its output for
# any program of the tests does not change when it is formatted again.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

files=$(find stdlib examples -name '*.axn')
# shellcheck disable=SC2086
unformatted=$("$AXON" fmt --check $files) || bad=1
[ -z "$unformatted" ] || echo "not formatted: axon fmt" $unformatted

# tests/parse etc. have programs with syntax errors, which stay as they are
for folder in tests/*/; do
  mkdir -p "$work/$folder"
  cp "$folder"*.axn "$work/$folder" 2>/dev/null
done
cd "$work" || exit 1
find tests -name '*.axn' -print0 | xargs -0 -n 50 "$AXON" fmt >/dev/null 2>&1
find tests -name '*.axn' -print0 | xargs -0 -n 50 "$AXON" fmt 2>/dev/null |
  sed 's/^formatted/changes when it is formatted again:/' >again
cat again
[ ! -s again ] || bad=1
exit "$bad"
