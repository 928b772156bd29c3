#!/bin/bash
# The pages of `axon explain`: the first program of a page causes its error.
# The second program, which fixes it, causes no error and no diagnostic with
# that code.  Codes without a program are listed here, with the reason.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=$(realpath "${AXON:-$here/axon}")
without='107 108 111 119 120'   # encodings, file sizes, internal errors
without+=' 311 314 315 324'     # another error is reported first
without+=' 505 510 511 599'     # out of memory, internal errors
without+=' 520 521'             # calls from a host program
without+=' 602 603 605'         # several files, the REPL
without+=' 610 611 612 613 614 615 616' # command-line options
without+=' 512 513 514 515' # the machine, other files, internal errors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export NO_COLOR=1 HOME="$work"
status=0

fail() {
  echo "$1"
  status=1
}

# Writes the programs of a page (blocks indented by four blanks) to 1.axn and
# 2.axn.
programs() { # programs PAGE
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
  grep -qw "${code#?0}" <<<"$without" &&
    fail "$code has an example: remove it from the list"
  verb=run
  [ "$code" = E0362 ] && verb='check --strict'
  # shellcheck disable=SC2086
  output=$(timeout 100 "$AXON" $verb 1.axn 2>&1 >/dev/null)
  grep -q "\[$code\]" <<<"$output" ||
    fail "$code: the first example does not cause it: $output"
  [ -e 2.axn ] || continue
  # shellcheck disable=SC2086
  output=$(timeout 100 "$AXON" $verb 2.axn 2>&1 >/dev/null)
  grep -q "^error\|\[$code\]" <<<"$output" &&
    fail "$code: the second example causes an error: $output"
done < <("$AXON" explain)
exit "$status"
