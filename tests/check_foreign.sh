#!/bin/bash
# The words of lexer/foreign.def are undefined names.  If the library or a
# primitive defined such a word, its help would never appear.  Defined words are
# allowed only for constructs of other languages (`var x = 1`), whose rows name
# a token to blame.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=$(realpath "${AXON:-$here/axon}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work" NO_COLOR=1
status=0 count=0
while IFS=$'\t' read -r kind word blame; do
  count=$((count + 1))
  output=$(echo "val q = $word" | "$AXON" check - 2>&1)
  grep -q "not defined\|there is no" <<<"$output" &&
    continue
  [ "$kind" = FOREIGN ] && [ "$blame" != NONE ] && continue
  echo "$word is defined: its row in lexer/foreign.def has no effect"
  status=1
done < <(sed -nE 's/^(FOREIGN|RENAMED)\("([^"]+)", *"?([^",]*).*/\1\t\2\t\3/p' \
  "$here/lexer/foreign.def")
sed -nE 's/^(FOREIGN|RENAMED)\("([^"]+)".*/\2/p' "$here/lexer/foreign.def" |
  LC_ALL=C sort -c || {
  echo "lexer/foreign.def is not sorted: the binary search needs that"
  status=1
}
if [ "$count" -lt 50 ]; then
  echo "only $count words were found"
  status=1
fi
exit "$status"
