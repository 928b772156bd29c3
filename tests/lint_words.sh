#!/bin/bash
# Rejects replaced terms.  tests/lint_words.txt has one rule per line: regular
# expression, replacement, scope.
#   text  messages and documents: golden files, manual page, completions, help,
#         explanations of errors, all pages in Markdown
#   name  identifiers and file names: in sources, scripts and documents
set -u
cd "$(dirname "$0")/.." || exit 1
git ls-files >/dev/null 2>&1 || {
  echo 'skipped: requires a git checkout'
  exit 0
}
rules=tests/lint_words.txt
bad=0

# Searches with one alternation of all rules, since git grep is 50 times slower
# with several patterns.
search() { # search SCOPE OPTION PATHSPEC...
  words=$(awk -F '\t' -v scope="$1" '!/^#/ && $3 == scope {
    printf "%s%s", sep, $1; sep = "|"
  }' $rules)
  LC_ALL=C git grep -nIE "$2" -e "$words" -- "${@:3}" ':!tests/lint_words.*' ||
    return
  bad=1
}

search text --no-color 'tests/*.err' 'tests/*.bug' 'tests/*.plan' \
  'tests/*.repl' doc/axon.1 completions cli/help.c support/catalog.def '*.md'
search name -w '*.c' '*.h' '*.def' '*.inc' '*.l' '*.y' '*.am' '*.hh' '*.cuh' \
  '*.sh' '*.py' '*.md'
[ $bad = 0 ] || echo "$rules lists the replacements."
exit $bad
