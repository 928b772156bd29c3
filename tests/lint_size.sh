#!/bin/bash
# Lines have at most 80 columns (except lines that are one string), files at
# most 1,200 lines.  There are no tabs and no trailing blanks.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
tab=$(printf '\t')
mapfile -t files < <(find support primitives runtime show machine lexer parser \
  size typecheck diagnose tensor kernel plan backend eval session aot onnx \
  editor plan_report repl serve cli tools tests bench -type f \
  \( -name '*.[chyl]' -o -name '*.cc' -o -name '*.sh' \) \
  ! -name parse.c ! -name parse.h ! -name scan.c ! -name '*.pb-c.[ch]' \
  ! -name stdlib_data.c ! -name prelude_text.c \
  ! -name wrappers_text.c ! -name host_text.c ! -name page_text.c \
  ! -name runtime_sources.c)
{
  grep -HnE '^.{81,}' "${files[@]}" |
    grep -vE '^[^:]*:[0-9]+: *".*"[;,)}]*$' | sed 's|^|over 80 columns: |'
  grep -HnE "[[:blank:]]\$|$tab" "${files[@]}" |
    sed 's|^|tab or trailing blank: |'
  wc -l "${files[@]}" | awk '$1 > 1200 && $2 != "total" {
    print "over 1200 lines: " $2 " (" $1 ")" }'
} | grep . && exit 1
exit 0
