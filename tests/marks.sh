#!/bin/bash
# Compares diagnostics with the marks that a program of tests/shape_bugs/ bears:
#   tests/marks.sh PROGRAM JSON
# Silent when they agree.  JSON is what `axon check --diagnostics json` says.
#
# A mark is a comment on a line of its own, with carets under the expression of
# the line before that is at fault, and at their right or left what is wanted:
#
#     |> linear fc1
#   (*   ^^^^^^^^^^ E0301 5408 9216 *)
#
# There are as many diagnostics as marks, in the same order, and nothing else is
# said.  The primary span of each begins on the marked line and overlaps the
# carets.  First stands the code, then what must be named by its message, label,
# steps or witness, or after `help:` by its help: numbers, names and, without
# blanks, terms and shapes, as [b,6,10].  `|` stands between alternatives.
set -u
program=$1 json=$2
status=0

complain() {
  echo "$program:$line: $*"
  status=1
}

# says TEXT WORD: is the number, name or term in the text?
says() {
  case $2 in
  *[!A-Za-z0-9_]*)
    grep -qF -e "$2" <<<"${1// /}"
    ;;
  *)
    grep -qE -e "(^|[^A-Za-z0-9_.])$2([^A-Za-z0-9_.]|\.[^0-9]|\.?$)" <<<"$1"
    ;;
  esac
}

says_one_of() { # says_one_of TEXT WORD|WORD|...
  local words word
  IFS='|' read -ra words <<<"$2"
  for word in "${words[@]}"; do
    says "$1" "$word" && return
  done
  return 1
}

# A line each: line, first and last column of the carets, code, words.
mapfile -t marks < <(awk '
  match($0, /\^+/) && /^\(\*.*\*\)$/ {
    words = $0
    gsub(/\(\*|\*\)|\^+/, " ", words)
    print code, RSTART, RSTART + RLENGTH - 1, words
    next
  }
  { code = NR }' "$program")
mapfile -t found <"$json"

for i in "${!marks[@]}"; do
  # shellcheck disable=SC2086
  set -- ${marks[i]}
  line=$1 first=$2 last=$3 codes=$4
  shift 4
  if [ "$i" -ge "${#found[@]}" ]; then
    complain "nothing is said of it"
    continue
  fi
  said=${found[i]}
  read -r at from end_line to < <(sed -E 's/^[^{]*\{.*"file": "[^"]*", "line": ([0-9]+), "column": ([0-9]+), "end_line": ([0-9]+), "end_column": ([0-9]+).*/\1 \2 \3 \4/' <<<"${said%%, \"steps\"*}")
  if [ "$at" != "$line" ]; then
    complain "said of line $at"
  elif [ "$from" -gt "$last" ] ||
    { [ "$end_line" = "$at" ] && [ "$to" -le "$first" ]; }; then
    complain "said of columns $from to $((to - 1)), not of $first to $last"
  fi
  code=$(sed 's/.*"code": "\([^"]*\)".*/\1/' <<<"$said")
  [[ "|$codes|" = *"|$code|"* ]] || complain "$code, not $codes"
  help=; [[ $said = *\"help\":* ]] && help=${said##*\"help\": }
  said=${said%%, \"note\":*}
  said=${said%%, \"help\":*}
  said=$(sed -E 's/"(file|code)": "[^"]*"//g
    s/"(line|column|end_line|end_column)": [0-9]+//g' <<<"$said")
  for words; do
    case $words in
    help:*) says "$help" "${words#help:}" ;;
    *) says_one_of "$said" "$words" ;;
    esac || complain "does not say $words"
  done
done
line=0
for ((i = ${#marks[@]}; i < ${#found[@]}; i++)); do
  complain "not marked: $(sed 's/.*"code": "\([^"]*\)", "message": "\([^"]*\)".*"line": \([0-9]*\).*/\1: \2/' <<<"${found[i]%%, \"column\"*}")"
done
exit "$status"
