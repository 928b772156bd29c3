#!/bin/bash
# Compares diagnostics with the marks in a program with a .bug file:
#   tests/marks.sh PROGRAM JSON
# Prints nothing if they agree.  JSON is the output of `axon check --diagnostics
# json`.
#
# A mark is a comment on a line of its own.  Its carets are under the wrong
# expression of the line before.  On their right or left is the expected
# message:
#
#     |> linear fc1
#   (*   ^^^^^^^^^^ E0301 5408 9216 *)
#
# There are as many diagnostics as runs of carets, in the same order.  The
# primary span of each begins on the marked line and overlaps the carets.  First
# comes the code, then words that must occur in message, label, steps or
# counterexample, or after `help:` in the help.  These are numbers, names, and
# terms and shapes without blanks, such as [b,6,10].  `|` separates
# alternatives.
set -u
program=$1
mapfile -t found <"$2"
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

field() { # field NAME DIAGNOSTIC: its first field of that name
  local wanted="\"$1\":(\"(([^\"\\]|\\.)*)\"|([0-9]+))"
  [[ $2 =~ $wanted ]] && echo "${BASH_REMATCH[2]}${BASH_REMATCH[4]}"
}

# A line each: line, first and last column of the carets, code, words.
mapfile -t marks < <(awk '
  /^\(\*.*\^.*\*\)$/ {
    words = $0
    gsub(/\(\*|\*\)|\^+/, " ", words)
    for (at = 1; match(substr($0, at), /\^+/); at += RSTART + RLENGTH - 1)
      print code, at + RSTART - 1, at + RSTART + RLENGTH - 2, words
    next
  }
  { code = NR }' "$program")

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
  code=$(field code "$said")
  at=$(field line "$said") end=$(field end_line "$said")
  from=$(field column "$said") to=$(field end_column "$said")
  if [ "$at" != "$line" ]; then
    complain "said of line $at"
  elif [ "$from" -gt "$last" ] ||
    { [ "$end" = "$at" ] && [ "$to" -le "$first" ]; }; then
    complain "said of columns $from to $((to - 1)), not of $first to $last"
  fi
  [[ "|$codes|" = *"|$code|"* ]] || complain "$code, not $codes"
  help=
  said=${said%%,\"fixes\":*}
  [[ $said = *',"help":'* ]] && help=${said##*,\"help\":}
  said=${said%%,\"note\":*}
  said=${said%%,\"help\":*}
  said=$(sed -E 's/"(file|code|expression|found|expected)":"([^"\\]|\\.)*"//g
    s/"(schema|axis|start|end|(end_)?(line|column))":[0-9]+//g' <<<"$said")
  for words; do
    case $words in
    help:*) says "$help" "${words#help:}" ;;
    *) says_one_of "$said" "$words" ;;
    esac || complain "does not say $words"
  done
done

for ((i = ${#marks[@]}; i < ${#found[@]}; i++)); do
  line=$(field line "${found[i]}")
  complain "not marked: $(field code "${found[i]}"):" \
    "$(field message "${found[i]}")"
done
exit "$status"
