#!/bin/bash
# The pages of `axon explain`: the first program of each leads to the code that
# it explains, and the last of several does not.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
bad=0

# Programs are what a page indents by four blanks; writes them as 1.axn, 2.axn.
programs() { # programs CODE
  rm -f ./*.axn
  "$AXON" explain "$1" | awk '
    /^    / { if (!inside) n++; inside = 1; print substr($0, 5) > (n ".axn") }
    /^[^ ]/ { inside = 0 }
    /^$/ { if (inside) print "" > (n ".axn") }
    END { print n + 0 }'
}

leads_to() { # leads_to FILE CODE
  for how in 'check --strict' run; do
    # shellcheck disable=SC2086
    timeout 10 "$AXON" $how "$1" 2>&1 | grep -qF "[$2]" && return
  done
  return 1
}

for code in $("$AXON" explain | grep -oE '^[EW][0-9]{4}'); do
  count=$(programs "$code")
  [ "$count" -gt 0 ] || continue
  leads_to 1.axn "$code" || {
    echo "the program of $code does not lead to it"
    bad=1
  }
  if [ "$count" -gt 1 ] && leads_to "$count.axn" "$code"; then
    echo "the program that mends $code still leads to it"
    bad=1
  fi
done
exit "$bad"
