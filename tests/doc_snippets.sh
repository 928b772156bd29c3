#!/bin/bash
# Tests the examples of a document:  tests/doc_snippets.sh FILE.md
#
# - A block ```axon before a block ```output is run.
# - A block ```axon before a block ```types is checked.  Types may be wrapped.
# - A block ```axon before a block ```plan is planned (`axon plan --stable
#   --dry`).
# - "```axon more" continues the block before it, so that a document can build a
#   program step by step.  Its output block shows only the last part.
# - A block ```repl is a session, as in NAME.repl.
# - The blocks ```console are one session of a shell.  A command follows `$ `.
#   Those of python3 are skipped without onnxruntime in $AXON_ONNX_PYTHON (or
#   python3).
# - The blocks ```primitives must contain all rows of primitives.def.
#
# Other blocks are ignored.  Programs run in a folder with examples/, and may
# write files.
set -u
. "$(dirname "$0")/lib.sh"
doc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
enter "$here/tests/data"
cp -rs "$here/examples" examples
blocks=$work/blocks
mkdir "$blocks"

awk -v dir="$blocks" '
  function write_block(ending, text) {
    printf "%s", text >(dir "/" at ending); close(dir "/" at ending)
  }
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
    } else if (word[1] ~ /^(output|types|plan)$/ && have) {
      write_block(".axn", program); write_block("." word[1], text)
    } else if (word[1] ~ /^(repl|primitives|console)$/) {
      at = line; write_block("." word[1], text)
      have = 0
    }
    fence = ""
    next
  }
  fence != "" { text = text $0 "\n" }
' "$doc"

failed=0
differs() { # differs LINE EXPECTED ACTUAL
  echo "$(basename "$doc"):$1:"
  diff -u --label 'in the document' --label 'from axon' "$2" "$3"
  failed=1
}

words_of() { tr -s ' \n' ' ' <"$1"; }

# The output block of a continued program has only the last lines.
for expected in "$blocks"/*.output; do
  [ -e "$expected" ] || continue
  base=${expected%.output}
  timeout "$limit" "$AXON" run - <"$base.axn" >"$base.got" 2>&1
  tail -n "$(wc -l <"$expected")" "$base.got" >"$base.tail"
  cmp -s "$expected" "$base.tail" ||
    differs "${base##*/}" "$expected" "$base.got"
done

# A document may break long types into lines.
for expected in "$blocks"/*.types; do
  [ -e "$expected" ] || continue
  base=${expected%.types}
  timeout "$limit" "$AXON" check - <"$base.axn" >"$base.got" 2>&1
  [ "$(words_of "$expected")" = "$(words_of "$base.got")" ] ||
    differs "${base##*/}" "$expected" "$base.got"
done

for expected in "$blocks"/*.plan; do
  [ -e "$expected" ] || continue
  base=${expected%.plan}
  timeout "$limit" "$AXON" plan --stable --dry - <"$base.axn" \
    >"$base.got" 2>&1
  cmp -s "$expected" "$base.got" ||
    differs "${base##*/}" "$expected" "$base.got"
done

for expected in "$blocks"/*.repl; do
  [ -e "$expected" ] || continue
  sed -n 's/^[>|] \{0,1\}//p' "$expected" |
    timeout "$limit" "$AXON" repl --plain >"$expected.got" 2>&1
  cmp -s "$expected" "$expected.got" ||
    differs "$(basename "${expected%.repl}")" "$expected" "$expected.got"
done

# ---- sessions of a shell ----

axon() { "$AXON" "$@"; }

python=${AXON_ONNX_PYTHON:-python3}
has_runtime=
no_runtime() {
  [ "$has_runtime" ] ||
    has_runtime=$(command "$python" -c 'import onnxruntime; print("yes")' 2>&1)
  [ "$has_runtime" != yes ]
}
python3() { command "$python" "$@"; }

run_command() { # run_command TEXT: writes it with its output
  printf '$ %s\n' "$1"
  eval "$1" 2>&1
}

# Splits a block into commands.  A command ends where its quotes are balanced.
session() { # session FILE
  local line text='' quotes
  while IFS= read -r line; do
    if [ "$text" ]; then
      text+=$'\n'$line
    elif [[ $line == '$ '* ]]; then
      text=${line#'$ '}
    else
      continue
    fi
    quotes=${text//[!\']/}
    ((${#quotes} % 2)) && continue
    run_command "$text"
    text=
  done <"$1"
}

for expected in $(ls "$blocks"/*.console 2>/dev/null | sort -V); do
  if grep -q '^\$ python3' "$expected" && no_runtime; then
    echo "$(basename "${expected%.console}"): skipped, no onnxruntime"
    grep -q '^\$ axon' "$expected" || continue
    # Only what stands before it.
    sed -i '/^\$ python3/,$d' "$expected"
  fi
  session "$expected" >"$expected.got"
  cmp -s "$expected" "$expected.got" ||
    differs "$(basename "${expected%.console}")" "$expected" "$expected.got"
done

# Prints the rows of primitives.def as `name : type -- description`.
rows() {
  sed 's/\\"/\x01/g' "$here/primitives/primitives.def" |
    awk -F '"' '/^P\(/ {
      sub(/^op /, "", $2)
      print $2 " : " $4 " -- " $6
    }' | tr '\001' '"'
}

if cat "$blocks"/*.primitives >"$work/table" 2>/dev/null; then
  words_of "$work/table" >"$work/line"
  while IFS= read -r row; do
    grep -qF -e "$row" "$work/line" && continue
    echo "$(basename "$doc") does not list: $row"
    failed=1
  done < <(rows)
fi
exit "$failed"
