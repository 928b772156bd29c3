#!/bin/bash
# Compares diagnostics with the marks in a program with a .bug file:
#   tests/marks.sh PROGRAM JSON
# Prints nothing if they agree.  JSON is the output of `axon check --diagnostics
# json`.
#
# A mark is a comment that fills a line.  Its carets are below the wrong
# expression of the previous line.  On their right or left is the expected
# message:
#
#     |> linear fc1
#   (*   ^^^^^^^^^^ E0301 5408 9216 *)
#
# Each run of carets corresponds to one diagnostic, in the same order.  The
# primary span of the diagnostic begins on the marked line and overlaps the
# carets.  The first word of the expected message is the code.  The other words
# must occur in the message, label, steps or counterexample, or, after `help:`,
# in the help.  They are numbers, names, and terms and shapes without blanks,
# such as [b,6,10].  `|` separates alternatives.
set -u
program=$1
mapfile -t found <"$2"
status=0

complain() {
  echo "$program:$line: $*"
  status=1
}

# True if the text contains the number, name or term.
contains() { # contains TEXT WORD
  local word="(^|[^A-Za-z0-9_.])$2([^A-Za-z0-9_.]|\.[^0-9]|\.?$)"
  case $2 in
  *[!A-Za-z0-9_]*) [[ ${1// /} == *"$2"* ]] ;;
  *) [[ $1 =~ $word ]] ;;
  esac
}

contains_one_of() { # contains_one_of TEXT WORD|WORD|...
  local words word
  IFS='|' read -ra words <<<"$2"
  for word in "${words[@]}"; do
    contains "$1" "$word" && return
  done
  return 1
}

# Sets VARIABLE to the first field NAME.
field() { # field VARIABLE NAME DIAGNOSTIC
  local pattern="\"$2\":(\"(([^\"\\]|\\.)*)\"|([0-9]+))"
  [[ $3 =~ $pattern ]]
  printf -v "$1" %s "${BASH_REMATCH[2]-}${BASH_REMATCH[4]-}"
}

# For each mark: line, first and last column of the carets, code, words.
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
    complain "no diagnostic"
    continue
  fi
  diagnostic=${found[i]}
  field code code "$diagnostic"
  field at line "$diagnostic"
  field end end_line "$diagnostic"
  field from column "$diagnostic"
  field to end_column "$diagnostic"
  if [ "$at" != "$line" ]; then
    complain "the diagnostic is at line $at"
  elif [ "$from" -gt "$last" ] ||
    { [ "$end" = "$at" ] && [ "$to" -le "$first" ]; }; then
    complain "the diagnostic is at columns $from to $((to - 1))," \
      "expected $first to $last"
  fi
  [[ "|$codes|" = *"|$code|"* ]] || complain "$code, expected $codes"
  help=
  diagnostic=${diagnostic%%,\"fixes\":*}
  [[ $diagnostic = *',"help":'* ]] && help=${diagnostic##*,\"help\":}
  diagnostic=${diagnostic%%,\"note\":*}
  diagnostic=${diagnostic%%,\"help\":*}
  strings='file|code|expression|found|expected'
  numbers='schema|axis|start|end|(end_)?(line|column)'
  diagnostic=$(sed -E "s/\"($strings)\":\"([^\"\\\\]|\\\\.)*\"//g
    s/\"($numbers)\":[0-9]+//g" <<<"$diagnostic")
  for words; do
    case $words in
    help:*) contains "$help" "${words#help:}" ;;
    *) contains_one_of "$diagnostic" "$words" ;;
    esac || complain "the diagnostic does not contain $words"
  done
done

for ((i = ${#marks[@]}; i < ${#found[@]}; i++)); do
  field line line "${found[i]}"
  field code code "${found[i]}"
  field message message "${found[i]}"
  complain "a diagnostic without a mark: $code: $message"
done
exit "$status"
