#!/bin/bash
# Words that Axon no longer uses stay out: tests/lint_words.txt lists
# them, one rule a line: regular expression, replacement, scope.
#   text  messages and documents: golden files, manual page, completions, help,
#         explanations of errors, all pages in Markdown
#   name  identifiers and file names: in sources, scripts and documents
set -u
cd "$(dirname "$0")/.." || exit 1
git ls-files >/dev/null 2>&1 || {
  echo 'skipped: this needs a checkout'
  exit 0
}
rules=tests/lint_words.txt
bad=0

# One alternation of all rules: git is fifty times slower with a pattern each.
look() { # look SCOPE OPTION PATHSPEC...
  words=$(awk -F '\t' -v scope="$1" '!/^#/ && $3 == scope {
    printf "%s%s", sep, $1; sep = "|"
  }' $rules)
  LC_ALL=C git grep -nIE "$2" -e "$words" -- "${@:3}" ':!tests/lint_words.*' ||
    return
  bad=1
}

look text --no-color 'tests/*.err' 'tests/*.bug' 'tests/*.plan' 'tests/*.repl' \
  doc/axon.1 completions cli/help.c support/catalog.def '*.md'
look name -w '*.c' '*.h' '*.def' '*.inc' '*.l' '*.y' '*.am' '*.hh' '*.cuh' \
  '*.sh' '*.py' '*.md'
[ $bad = 0 ] || echo "$rules has the words to write instead."
exit $bad
