#!/bin/bash
# Writes golden files from the current output of the program:
#   tests/bless.sh [FILTER]
# Read the diff before you commit it.  A new test starts with an empty golden
# file.  The script refuses to write a .out file that contains an error, and any
# file if the program crashed.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
export AXON_TARGET=reference # the backend that defines the results
refused=0

update() { # update OUTPUT GOLDEN
  if [ "${2##*.}" = out ] && grep -q -e '^error' -e 'error\[' "$1"; then
    echo "refused: $2 would contain an error" >&2
    return 1
  fi
  if grep -q 'internal error' "$1"; then
    echo "refused: $2 would contain an internal error" >&2
    return 1
  fi
  cmp -s "$1" "$2" || {
    cp "$1" "$2"
    echo "blessed $2"
  }
}

bless() ( # bless KIND PATH: runs in a subshell, since it changes the directory
  name=${2##*/}
  enter "$here/${2%/*}" "$name"
  produce "$1" "$name"
  golden=$here/$2
  if [ "$(cat "$work/status")" -ge 124 ]; then
    echo "refused: $2 crashed, timed out, or did not start" >&2
    exit 1
  fi
  case $1 in
  run)
    [ -e "$golden.out" ] || [ ! -s "$work/out" ] || : >"$golden.out"
    [ ! -e "$golden.out" ] || update "$work/out" "$golden.out" || exit 1
    [ -e "$golden.err" ] || [ ! -s "$work/err" ] || {
      echo "refused: $2 has errors, but no .err file" >&2
      exit 1
    }
    [ ! -e "$golden.err" ] || update "$work/err" "$golden.err"
    ;;
  *) update "$work/out" "$golden.$1" ;;
  esac
)

bless_model() ( # bless_model PATH: refused if the model has errors
  name=${1##*/}
  enter "$here/examples/models" "$name"
  model "$name" || {
    echo "refused: $1 has errors" >&2
    exit 1
  }
  for golden in types expected params; do
    update "$work/$golden" "$here/$1.$golden"
  done
)

while read -r kind path; do
  bless "$kind" "$path" || refused=1
done < <(list_goldens | grep -F -e "${1-}")
while read -r path; do
  bless_model "${path%.axn}" || refused=1
done < <(ls examples/models/*.axn | grep -F -e "${1-}")
if grep -qF -e "${1-}" <<<'script tests/check_open.sh'; then
  tests/check_open.sh --bless >/dev/null && git diff --stat tests/open.golden
fi
if grep -qF -e "${1-}" <<<'script tests/check_plot.sh'; then
  tests/check_plot.sh --bless && git diff --stat tests/data/plot
fi
exit "$refused"
