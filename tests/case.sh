#!/bin/bash
# Runs one test:  tests/case.sh KIND PATH.  It prints nothing if the test
# passes; otherwise it prints the reason and fails.  Kinds: run type strict plan
# bug fmt repl (golden files, see tests/lib.sh), unit, example, library, doc,
# script.
set -u
. "$(dirname "$0")/lib.sh"
kind=$1 path=$2
# A program that grows without end must not take the machine with it.  The limit
# is soft: a script whose programs reserve more than they use may raise it.
ulimit -S -v "${MEMORY:-8000000}"
cd "$here" || exit 1

compare() { # compare WANTED GOT
  diff -u --label wanted --label got "$1" "$2"
}

# The same of what a program computed.  The golden file is the reference
# backend's, to the last digit; other backends' is the same but for that
# (tests/close.awk).
compare_numbers() {
  cmp -s "$1" "$2" && return
  if [ "${AXON_TARGET-}" != reference ] &&
    why=$(awk -f "$here/tests/close.awk" "$1" "$2"); then
    return
  fi
  compare "$1" "$2"
  echo "${why-}"
  return 1
}

exited() { # exited WANTED
  got=$(cat "$work/status")
  [ "$got" = "$1" ] && return
  if [ "$got" = 124 ]; then
    echo "it ran for more than $limit s"
  else
    echo "exit status $got, wanted $1"
  fi
  [ -s "$work/err" ] && head -n 20 "$work/err"
  return 1
}

or_empty() { if [ -e "$1" ]; then echo "$1"; else echo /dev/null; fi; }

golden_run() {
  wanted=0
  [ -e "$name.err" ] && grep -q '^error' "$name.err" && wanted=1
  [ -e "$name.status" ] && wanted=$(cat "$name.status")
  exited "$wanted" && compare_numbers "$(or_empty "$name.out")" "$work/out" &&
    compare "$(or_empty "$name.err")" "$work/err"
}

golden_fmt() {
  exited 0 && compare "$name.fmt" "$work/out" || return 1
  "$AXON" fmt - <"$name.fmt" >"$work/again" 2>&1
  compare "$name.fmt" "$work/again"
}

# Each pass is followed by a check of the graph or of the kernel.
case $path in tests/ops/* | tests/plan/*) export AXON_VERIFY=1 ;; esac

case $kind in
run | type | strict | plan | bug | fmt | repl)
  name=${path##*/}
  enter "$here/${path%/*}" "$name"
  produce "$kind" "$name"
  case $kind in
  run) golden_run ;;
  fmt) golden_fmt ;;
  type) # errors are part of what is expected
    compare "$name.type" "$work/out" ;;
  plan) exited 0 && compare "$name.plan" "$work/out" ;;
  strict) exited 0 && compare "$name.strict" "$work/out" ;;
  bug)
    "$here/tests/marks.sh" "$name.axn" "$work/json" &&
      compare "$name.bug" "$work/out"
    ;;
  repl) exited 0 && compare_numbers "$name.repl" "$work/out" ;;
  esac
  ;;
unit)
  enter "$here/tests"
  cd "$here" || exit 1
  case ${path##*/} in # these compile many kernels
  kernels_test | primitives_test)
    export AXON_CC="${AXON_CC:-$here/tests/sampled_cc}"
    ;;
  esac
  timeout 1500 "$path" >"$work/out" 2>&1 || {
    echo "exit status $?"
    tail -n 40 "$work/out"
    exit 1
  }
  ;;
example) # from a directory like the root, where it may write files
  enter "$here/tests/data"
  ln -s "$here/examples" examples
  wanted=$here/${path%.axn}.expected
  limit=600
  timeout "$limit" "$AXON" run "$path" >"$work/out" 2>&1
  echo $? >"$work/status"
  sed -i 's|examples/||' "$work/out"
  status=0
  [ -e "$wanted" ] && grep -q '^error' "$wanted" && status=1
  exited "$status" || { head -n 40 "$work/out" && exit 1; }
  [ ! -e "$wanted" ] || compare_numbers "$wanted" "$work/out"
  ;;
model)
  name=${path##*/}
  name=${name%.axn}
  enter "$here/examples/models" "$name"
  bad=0
  model "$name" || bad=1
  compare "$name.types" "$work/types" || bad=1
  compare_numbers "$name.expected" "$work/expected" || bad=1
  compare "$name.params" "$work/params" || bad=1
  exit "$bad"
  ;;
library)
  timeout 600 "$AXON" test --quiet "$path" 2>&1
  ;;
doc)
  timeout 600 tests/doc_snippets.sh "$path" 2>&1
  ;;
script)
  timeout 1500 "$path" 2>&1
  ;;
*)
  echo "no such kind of test: $kind"
  exit 1
  ;;
esac
