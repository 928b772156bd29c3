#!/bin/sh
# Writes sources.am, the lists of files that Makefile.am reads.  Run it after
# you add, rename or remove a file.  With --check it only checks whether the
# lists are current.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

list() { # list NAME DIRECTORY... -- FIND-CONDITIONS
  name=$1 dirs= not=.
  [ "$name" = core_sources ] && not='backend/cuda/sim/mutate.*'
  shift
  while [ "$1" != -- ]; do
    [ -e "$1" ] && dirs="$dirs $1"
    shift
  done
  shift
  printf '\n%s =' "$name"
  # shellcheck disable=SC2086
  [ -z "$dirs" ] || find $dirs -type f \( "$@" \) \
    ! -path parser/parse.c ! -path parser/parse.h ! -path lexer/scan.c \
    ! -path session/stdlib_data.c ! -path serve/page_text.c \
    ! -name prelude_text.c \
    ! -path backend/cuda/wrappers_text.c \
    ! -path backend/cuda/sim/host_text.c \
    ! -path aot/runtime_sources.c ! -name '*.pb-c.[ch]' ! -path "$not" \
    ! -path '*/.*' ! -name '*~' ! -name '*.o' \
    ! -name '*.lo' ! -path '*/__pycache__/*' |
    sort | sed 's/^/ \\\n  /' | tr -d '\n' | sed 's/ \\/ \\\n/g'
  echo
}

write() {
  echo '# Written by tools/sources.sh.'
  code='-name *.[chyl] -o -name *.def'
  set -f
  # shellcheck disable=SC2086
  {
    list front_sources support lexer parser -- $code
    list core_sources primitives runtime show figure machine size typecheck \
      diagnose tensor kernel plan backend eval session aot onnx editor \
      plan_report repl -- $code
    list mutate_sources backend/cuda/sim -- -name 'mutate.[ch]'
    list cli_sources cli serve -- $code
    list stdlib_files stdlib -- -name '*.axn'
  }
  set +f
  printf '\nunit_tests ='
  for file in tests/unit/*_test.c; do
    [ -e "$file" ] && printf ' \\\n  %s' "${file%.c}"
  done
  echo
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
write >"$new"
if cmp -s "$new" sources.am; then
  exit 0
elif [ "${1-}" = --check ]; then
  echo 'sources.am is not current: run tools/sources.sh' >&2
  diff sources.am "$new" >&2 || :
  exit 1
fi
cat "$new" >sources.am
