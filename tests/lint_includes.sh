#!/bin/bash
# Layering: a module (source folder) includes only headers of itself and of
# modules before it.  The lexer also includes the token numbers of the parser.
# In backend/, cpu/ and cuda/ are independent: each includes only its own
# headers, emit/, library_ops.h and target.h, which declares the interface of a
# backend.  target.c includes all backends.
set -u
cd "$(dirname "$0")/.." || exit 1
modules='support primitives runtime show figure machine lexer parser size
  typecheck diagnose tensor kernel plan backend eval session aot onnx
  editor plan_report repl serve cli'
status=0

rank() { # rank MODULE: its position in the order
  n=0
  for module in $modules; do
    n=$((n + 1))
    [ "$module" = "$1" ] && echo "$n"
  done
}

may_include_backend() { # may_include_backend FILE PATH: both in backend/
  local file=$1 path=$2 folder
  folder=$(echo "$file" | cut -d/ -f1-2)
  [[ $path = "$folder"/* || $path = backend/target.h ||
    $file = backend/target.c ]] && return
  case $folder in
  backend/cpu | backend/cuda)
    [[ $path = backend/emit/* || $path = backend/library_ops.h ]]
    ;;
  *) [ "${path%.h}" = "${file%.c}" ] ;;
  esac
}

while IFS=: read -r file line text; do
  from=${file%%/*} path=${text#*\"} path=${path%%\"*} to=${path%%/*}
  [ "$path" = "$to" ] && continue # in the same folder
  [ "$from $path" = 'lexer parser/parse.h' ] && continue
  if [ -z "$(rank "$to")" ]; then
    echo "$file:$line: unknown module $to"
    status=1
  elif [ "$(rank "$to")" -gt "$(rank "$from")" ]; then
    echo "$file:$line: $from/ must not include $path"
    status=1
  elif [ "$from $to" = 'backend backend' ] &&
    ! may_include_backend "$file" "$path"; then
    echo "$file:$line: ${file%/*} must not include $path"
    status=1
  elif [ "$from" != "$to" ] && [ "${path##*/}" = internal.h ]; then
    echo "$file:$line: $path is private to $to/"
    status=1
  fi
done < <(for module in $modules; do
  [ -d "$module" ] &&
    grep -rnE '^[[:space:]]*#[[:space:]]*include "' "$module" \
      --include='*.[chyl]' --exclude=parse.c --exclude=scan.c \
      --exclude=stdlib_data.c
done)
exit "$status"
