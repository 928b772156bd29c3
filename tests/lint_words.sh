#!/bin/bash
# Words that Axon no longer uses do not occur.  tests/lint_words.txt lists them,
# one rule per line: regular expression, replacement, scope.
#   text  output of the program: golden files, manual page and completions,
#         help and the explanations of errors
#   name  identifiers and file names, in all sources
set -u
cd "$(dirname "$0")/.." || exit 1
git ls-files >/dev/null 2>&1 || {
  echo 'skipped: this needs a checkout'
  exit 0
}
rules=tests/lint_words.txt
patterns=$(mktemp) || exit 1
trap 'rm -f "$patterns"' EXIT
bad=0

look() { # look SCOPE OPTIONS PATHSPEC...
  awk -F '\t' -v scope="$1" '!/^#/ && $3 == scope { print $1 }' $rules \
    >"$patterns"
  git grep -nIE "$2" -f "$patterns" -- "${@:3}" ':!tests/lint_words.*' || return
  bad=1
}

look text --no-color 'tests/*.err' 'tests/*.bug' 'tests/*.plan' 'tests/*.repl' \
  doc/axon.1 completions cli/help.c support/catalog.def
look name -w '*.c' '*.h' '*.def' '*.inc' '*.l' '*.y' '*.am'
[ $bad = 0 ] || echo "$rules has the words to write instead."
exit $bad
