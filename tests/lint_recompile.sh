#!/bin/bash
# Limits recompilation.  Computes from the #include graph how many C files
# outside of tests/ include each header of support/, directly or indirectly.
# Fails if more than 36 % of them include a header, or if support/support.h
# exists.
# Prints the counts; `tests/lint_recompile.sh all` prints those of all headers.
set -u
cd "$(dirname "$0")/.." || exit 1
limit=36 # percent

# Exceptions: small headers that rarely change, and whose types other headers
# need by value.
#   compiler.h  three macros
#   span.h      one struct, in all syntax trees
#   vec.h       two macros, in structs with arrays
#   flag.h      one type, in structs of sessions and graphs
#   map.h       one struct, in structs of the checker and of diagnostics
#   buffer.h    one struct, in emitters
small=' compiler span vec flag map buffer '

find . -type f -name '*.[chyl]' ! -path './.*' ! -path './parser/parse.[ch]' \
  ! -path './lexer/scan.c' ! -name '*_text.c' ! -name stdlib_data.c \
  ! -name runtime_sources.c |
  sed 's|^\./||' | grep -vE '^(tests|bench|python|examples|doc)/' |
  LC_ALL=C sort |
  xargs awk -v small="$small" -v limit="$limit" -v all="${1-}" '
    FNR == 1 {
      here[FILENAME] = 1
      if (FILENAME !~ /\.h$/)
        sources[++count] = FILENAME
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
      split($0, part, "\"")
      lines[FILENAME] = lines[FILENAME] part[2] "\n"
    }
    function visit(file, source,    paths, n, i, path, folder) {
      n = split(lines[file], paths, "\n")
      folder = file
      sub(/[^\/]*$/, "", folder)
      for (i = 1; i < n; i++) {
        path = (paths[i] in here) ? paths[i] : folder paths[i]
        if (path == "parser/parse.h") # its %code requires
          path = "parser/internal.h"
        if (path in here && seen[path] != source) {
          seen[path] = source
          readers[path]++
          visit(path, source)
        }
      }
    }
    END {
      sorted = "sort -rn"
      for (i = 1; i <= count; i++)
        visit(sources[i], sources[i])
      for (path in readers) {
        name = path
        sub(/^support\//, "", name)
        sub(/\.h$/, "", name)
        if (all != "" || path ~ /^support\//)
          print readers[path] " of " count " C files include " path | sorted
        if (path == "support/support.h" ||
            (path ~ /^support\// && 100 * readers[path] > limit * count &&
             !index(small, " " name " ")))
          wrong = wrong path ": more than " limit " % of C files include it\n"
      }
      close(sorted)
      printf "%s", wrong
      exit wrong != ""
    }'
