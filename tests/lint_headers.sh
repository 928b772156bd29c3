#!/bin/bash
# Every header of a module (source folder) compiles alone.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
for header in */*.h */*/*.h */*/*/*.h; do
  case $header in parser/parse.h | tests/* | '*'*) continue ;; esac
  printf '#include "%s"\n' "$header" |
    ${CC:-gcc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I. \
      -I"${BUILD:-.}" -x c - || status=1
done
exit "$status"
