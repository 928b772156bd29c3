#!/bin/bash
# Each function of stdlib/*.axn occurs in tests/grad/library.axn: in a check, or
# in the list of exceptions at its top.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
words=$(tr -cs '[:alnum:]_' '\n' <tests/grad/library.axn | sort -u)
while read -r name; do
  grep -qx -e "$name" <<<"$words" || {
    echo "tests/grad/library.axn has no check of $name, and no exception"
    bad=1
  }
done < <(sed -n 's/^\(fun\|and\|val\) \([[:alnum:]_]*\).*/\2/p' stdlib/*.axn)
exit "$bad"
