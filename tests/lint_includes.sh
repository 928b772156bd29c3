#!/bin/bash
# A module includes only modules before it, and itself.  runtime/ reads the
# tables of primitives/; the lexer reads the grammar's token numbers.  The
# backends do not see each other: cpu/ and cuda/ stand on emit/ and
# library_ops.h.  target.c knows all of them, and target.h declares the struct
# that each of them is.
set -u
cd "$(dirname "$0")/.." || exit 1
modules='support primitives runtime machine lexer parser size typecheck
  diagnose tensor kernel plan backend eval session aot editor cli'
status=0

rank() { # its place in the order
  n=0
  for module in $modules; do
    n=$((n + 1))
    [ "$module" = "$1" ] && echo "$n"
  done
}

may_include_backend() { # FILE PATH: both in backend/
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
  [ "$path" = "$to" ] && continue # of the same folder
  [ "$from $path" = 'lexer parser/parse.h' ] && continue
  if [ -z "$(rank "$to")" ]; then
    echo "$file:$line: there is no module $to"
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
