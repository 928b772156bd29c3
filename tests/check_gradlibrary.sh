#!/bin/bash
# tests/grad/library.axn or linalg.axn names each function of stdlib/*.axn: in a
# gradient check, or in the list of exceptions at the top.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
words=$(cat tests/grad/{library,linalg}.axn | tr -cs '[:alnum:]_' '\n' |
  sort -u)
while read -r name; do
  grep -qx -e "$name" <<<"$words" || {
    echo "tests/grad/ has neither a check nor an exception for $name"
    bad=1
  }
done < <(sed -n 's/^\(fun\|and\|val\) \([[:alnum:]_]*\).*/\2/p' stdlib/*.axn)
exit "$bad"
