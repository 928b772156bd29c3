#!/bin/bash
# The pages of `axon explain`: the first program of a page gets its code.  The
# second program, which fixes it, gets no error, or at least not that code.
# Codes without a program are listed here, each with its reason.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=$(realpath "${AXON:-$here/axon}")
without='107 108 111 119 120' # encodings, sizes of files, faults
without+=' 311 314 315 324'   # what the parser or another code meets first
without+=' 505 510 511 599'   # memory and faults
without+=' 520 521'           # calls from a host
without+=' 602 603 605'       # several files, the prompt
without+=' 610 611 612 613 614'   # options
without+=' 512 513 514 515'   # the machine, and faults
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export NO_COLOR=1 HOME="$work"
status=0

fail() {
  echo "$1"
  status=1
}

# The programs of a page, as 1.axn and 2.axn: blocks indented by four blanks.
programs() {
  rm -f ./*.axn
  awk '/^    / { if (!open) { n++; open = 1 }
                 print substr($0, 5) > (n ".axn"); next }
       { open = 0 }' <<<"$1"
}

while read -r title; do
  code=${title%%:*}
  programs "$("$AXON" explain "$code")"
  if [ ! -e 1.axn ]; then
    grep -qw "${code#?0}" <<<"$without" || fail "$code: no example"
    continue
  fi
  grep -qw "${code#?0}" <<<"$without" && fail "$code has an example after all"
  verb=run
  [ "$code" = E0362 ] && verb='check --strict'
  # shellcheck disable=SC2086
  said=$(timeout 100 "$AXON" $verb 1.axn 2>&1 >/dev/null)
  grep -q "\[$code\]" <<<"$said" ||
    fail "$code: its first example does not get it: $said"
  [ -e 2.axn ] || continue
  # shellcheck disable=SC2086
  said=$(timeout 100 "$AXON" $verb 2.axn 2>&1 >/dev/null)
  grep -q "^error\|\[$code\]" <<<"$said" &&
    fail "$code: its second example is not right: $said"
done < <("$AXON" explain)
exit "$status"
