#!/bin/bash
# Tests what a document shows:  tests/doc_snippets.sh FILE.md
#
# A block ```axon that is followed by a block ```output is run; the output must
# be as shown.  "```axon more" goes on with the block before it, so that a text
# can build a program step by step.  A block ```repl is a session, as in
# NAME.repl.  Other blocks are not looked at.
set -u
. "$(dirname "$0")/lib.sh"
doc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
enter "$here/tests"
mkdir blocks && cd "$here" || exit 1
blocks=$work/here/blocks

awk -v dir="$blocks" '
  /^```/ && fence == "" {
    fence = substr($0, 4); text = ""; line = NR + 1
    if (fence == "") fence = "plain"
    next
  }
  /^```/ {
    split(fence, word, " ")
    if (word[1] == "axon") {
      program = word[2] == "more" ? program text : text
      at = line; have = 1
    } else if (word[1] == "output" && have) {
      printf "%s", program >(dir "/" at ".axn"); close(dir "/" at ".axn")
      printf "%s", text >(dir "/" at ".want"); close(dir "/" at ".want")
      have = 0
    } else if (word[1] == "repl") {
      printf "%s", text >(dir "/" line ".repl"); close(dir "/" line ".repl")
    }
    fence = ""
    next
  }
  fence != "" { text = text $0 "\n" }
' "$doc"

failed=0
tell() {
  echo "$(basename "$doc"):$1:"
  diff -u --label 'in the document' --label 'from axon' "$2" "$3"
  failed=1
}

for want in "$blocks"/*.want; do
  [ -e "$want" ] || continue
  base=${want%.want}
  timeout "$limit" "$AXON" run - <"$base.axn" >"$base.got" 2>&1
  # A block that goes on with another shows only its own, last, output.
  tail -n "$(wc -l <"$want")" "$base.got" >"$base.tail"
  cmp -s "$want" "$base.tail" || tell "$(basename "$base")" "$want" "$base.got"
done
for want in "$blocks"/*.repl; do
  [ -e "$want" ] || continue
  sed -n 's/^[>|] \{0,1\}//p' "$want" | timeout "$limit" "$AXON" repl --plain \
    >"$want.got" 2>&1
  cmp -s "$want" "$want.got" ||
    tell "$(basename "${want%.repl}")" "$want" "$want.got"
done
exit "$failed"
