#!/bin/bash
# Runs one test:  tests/case.sh KIND PATH.  It prints nothing if the test
# passes; otherwise it prints the reason and fails.  Kinds: run type strict plan
# bug fmt repl (golden files, see tests/lib.sh), unit, example, library, doc,
# script.
set -u
. "$(dirname "$0")/lib.sh"
kind=$1 path=$2
# Limits the memory of a test program, so that a runaway program cannot exhaust
# the machine.  The limit is soft: a script may raise it for programs that
# reserve more memory than they use.
ulimit -S -v "${MEMORY:-8000000}"
cd "$here" || exit 1

compare() { # compare EXPECTED ACTUAL
  diff -u --label expected --label actual "$1" "$2"
}

# Compares computed results.  The golden file has the output of the reference
# backend.  The output of other backends may differ in the last digits of
# fractions (tests/close.awk).
compare_numbers() { # compare_numbers EXPECTED ACTUAL
  cmp -s "$1" "$2" && return
  if [ "${AXON_TARGET-}" != reference ] &&
    why=$(awk -f "$here/tests/close.awk" "$1" "$2"); then
    return
  fi
  compare "$1" "$2"
  echo "${why-}"
  return 1
}

check_status() { # check_status EXPECTED
  got=$(cat "$work/status")
  [ "$got" = "$1" ] && return
  if [ "$got" = 124 ]; then
    echo "timeout: it ran for more than $limit s"
  else
    echo "exit status $got, expected $1"
  fi
  [ -s "$work/err" ] && head -n 20 "$work/err"
  return 1
}

or_empty() { if [ -e "$1" ]; then echo "$1"; else echo /dev/null; fi; }

golden_run() {
  expected=0
  [ -e "$name.err" ] && grep -q '^error' "$name.err" && expected=1
  [ -e "$name.status" ] && expected=$(cat "$name.status")
  check_status "$expected" &&
    compare_numbers "$(or_empty "$name.out")" "$work/out" &&
    compare "$(or_empty "$name.err")" "$work/err"
}

golden_fmt() {
  check_status 0 && compare "$name.fmt" "$work/out" || return 1
  "$AXON" fmt - <"$name.fmt" >"$work/again" 2>&1
  compare "$name.fmt" "$work/again"
}

# The compiler verifies the graph or the kernel after each pass.
case $path in tests/ops/* | tests/plan/*) export AXON_VERIFY=1 ;; esac

case $kind in
run | type | strict | plan | bug | fmt | repl)
  name=${path##*/}
  enter "$here/${path%/*}" "$name"
  produce "$kind" "$name"
  case $kind in
  run) golden_run ;;
  fmt) golden_fmt ;;
  type) # the golden file may contain errors
    compare "$name.type" "$work/out" ;;
  plan) check_status 0 && compare "$name.plan" "$work/out" ;;
  strict) check_status 0 && compare "$name.strict" "$work/out" ;;
  bug)
    "$here/tests/marks.sh" "$name.axn" "$work/json" &&
      compare "$name.bug" "$work/out"
    ;;
  repl) check_status 0 && compare_numbers "$name.repl" "$work/out" ;;
  esac
  ;;
unit)
  enter "$here/tests"
  cd "$here" || exit 1
  case ${path##*/} in # tests that compile many kernels
  kernels_test | primitives_test)
    export AXON_CC="${AXON_CC:-$here/tests/sampled_cc}" AXON_OPTIMIZE=always
    ;;
  esac
  timeout 1500 "$path" >"$work/out" 2>&1 || {
    echo "exit status $?"
    tail -n 40 "$work/out"
    exit 1
  }
  ;;
example) # runs in a copy of the root directory, where it may write files
  enter "$here/tests/data"
  ln -s "$here/examples" examples
  expected=$here/${path%.axn}.expected
  limit=600
  timeout "$limit" "$AXON" run "$path" >"$work/out" 2>&1
  echo $? >"$work/status"
  sed -i 's|examples/||' "$work/out"
  status=0
  [ -e "$expected" ] && grep -q '^error' "$expected" && status=1
  check_status "$status" || { head -n 40 "$work/out" && exit 1; }
  [ ! -e "$expected" ] || compare_numbers "$expected" "$work/out"
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
  echo "unknown kind of test: $kind"
  exit 1
  ;;
esac
