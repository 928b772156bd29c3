#!/bin/bash
# Constraints of the library and the examples:  tests/check_open.sh [--bless]
#
# For each file, prints how many constraints were proved, deferred to callers
# (types carry them), and left open (checked at run time).  tests/open.golden
# lists those that were not proved, with location and reason.  tests/run.sh
# prints the table at its end.
set -u
. "$(dirname "$0")/lib.sh"
bless=${1-}
enter "$here/tests/data"
ln -s "$here/stdlib" "$here/examples" .

status=0
for file in stdlib/*.axn examples/*.axn; do
  "$AXON" check -q --open --stats "$file" 2>/dev/null
done >"$work/all"
grep -v ' constraints proved, ' "$work/all" |
  sort -t: -s -k1,1 -k2,2n -k3,3n >"$work/open"
{
  printf '%-28s %8s %8s %8s\n' constraints proved carried open
  number=' ([0-9]+) [^,]*'
  row='%-28s %8d %8d %8d\n'
  # shellcheck disable=SC2059
  sed -nE "s/^(.*):$number,$number,$number\$/\\1 \\2 \\3 \\4/p" "$work/all" |
    while read -r file proved carried open; do
      printf "$row" "$file" "$proved" "$carried" "$open"
    done
} | tee "$work/table"
[ -z "${results-}" ] || cp "$work/table" "$results/constraints"

# Every file is in the table.
files=$(find "$here/stdlib" "$here/examples" -maxdepth 1 -name '*.axn' | wc -l)
[ "$(wc -l <"$work/table")" -eq $((files + 1)) ] || {
  echo "some of the $files files are not in the table"
  status=1
}
if [ "$bless" = --bless ]; then
  cp "$work/open" "$here/tests/open.golden"
else
  diff -u --label expected --label actual "$here/tests/open.golden" \
    "$work/open" || status=1
fi
exit "$status"
