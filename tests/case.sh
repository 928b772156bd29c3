#!/bin/bash
# Runs tests, in one process without a start of a shell for each of them:
#
#     tests/case.sh [--results FOLDER] KIND PATH [KIND PATH]...
#
# It prints nothing about a test that passes; otherwise it prints the reason,
# and fails.  Kinds: run type strict plan bug fmt repl (golden files, see
# tests/lib.sh), unit, example, model, library, doc, script.  FOLDER receives a
# file NAME.pass for each test that passes, and NAME.time with its CPU seconds.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1

both_empty() { # both_empty FILE FILE
  [ -e "$1" ] && [ ! -s "$1" ] && [ -e "$2" ] && [ ! -s "$2" ]
}

compare() { # compare EXPECTED ACTUAL
  both_empty "$1" "$2" || diff -u --label expected --label actual "$1" "$2"
}

# Compares computed results.  The golden file has the output of the reference
# backend.  The output of other backends may differ in the last digits of
# fractions (tests/close.awk).
compare_numbers() { # compare_numbers EXPECTED ACTUAL
  both_empty "$1" "$2" || cmp -s "$1" "$2" && return
  if [ "${AXON_TARGET-}" != reference ] &&
    why=$(awk -f "$here/tests/close.awk" "$1" "$2"); then
    return
  fi
  compare "$1" "$2"
  echo "${why-}"
  return 1
}

check_status() { # check_status EXPECTED
  read -r got <"$work/status"
  [ "$got" = "$1" ] && return
  if [ "$got" = 124 ]; then
    echo "timeout: it ran for more than $limit s"
  else
    echo "exit status $got, expected $1"
  fi
  [ -s "$work/err" ] && head -n 20 "$work/err"
  return 1
}

golden_run() {
  local expected=0 out=$name.out err=$name.err
  [ -e "$out" ] || out=/dev/null
  [ -e "$err" ] || err=/dev/null
  [[ $'\n'$(<"$err") == *$'\nerror'* ]] && expected=1
  [ -e "$name.status" ] && read -r expected <"$name.status"
  check_status "$expected" && compare_numbers "$out" "$work/out" &&
    compare "$err" "$work/err"
}

golden_fmt() {
  check_status 0 && compare "$name.fmt" "$work/out" || return 1
  "$AXON" fmt - <"$name.fmt" >"$work/again" 2>&1
  compare "$name.fmt" "$work/again"
}

# The cases of a test, by its kind.

golden_case() {
  name=${path##*/}
  name=${name%.axn}
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
}

unit_case() {
  enter "$here/tests"
  cd "$here" || exit 1
  case ${path##*/} in # it compiles many kernels
  primitives_test) export AXON_OPTIMIZE=sample ;;
  esac
  timeout 1500 "$path" >"$work/out" 2>&1 || {
    echo "exit status $?"
    tail -n 40 "$work/out"
    exit 1
  }
}

example_case() { # in a copy of the root directory, where it may write files
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
}

model_case() {
  name=${path##*/}
  name=${name%.axn}
  enter "$here/examples/models" "$name"
  bad=0
  model "$name" || bad=1
  compare "$name.types" "$work/types" || bad=1
  compare_numbers "$name.expected" "$work/expected" || bad=1
  compare "$name.params" "$work/params" || bad=1
  exit "$bad"
}

run_case() { # run_case KIND PATH: changes the directory and the limits
  kind=$1 path=$2
  # Limits the memory of a test program, so that a runaway program cannot
  # exhaust the machine.  The limit is soft: a script may raise it for programs
  # that reserve more memory than they use.
  ulimit -S -v "${MEMORY:-8000000}"
  # The compiler verifies the graph or the kernel after each pass.
  case $path in tests/ops/* | tests/plan/*) export AXON_VERIFY=1 ;; esac
  case $kind in
  run | type | strict | plan | bug | fmt | repl) golden_case ;;
  unit | example | model) "${kind}_case" ;;
  library) timeout 600 "$AXON" test --quiet "$path" ;;
  doc) timeout 600 tests/doc_snippets.sh "$path" ;;
  script) timeout 1500 "$path" ;;
  *)
    echo "unknown kind of test: $kind"
    exit 1
    ;;
  esac
}

report_case() { # report_case KIND PATH: prints and records the result
  local key=$1_${2//\//_} name="$1 ${2#"${BUILD:-$here}"/}" output
  if output=$(run_case "$1" "$2" 2>&1); then
    [ -z "$results" ] || : >"$results/$key.pass"
  else
    printf 'FAIL %s\n%s\n' "$name" "$(head -n 60 <<<"$output" |
      sed 's/^/    /')"
    bad=1
  fi
  [ -z "$results" ] || { echo "$name" && times; } >"$results/$key.time"
  return "$bad"
}

results=
[ "${1-}" = --results ] && results=$2 && shift 2
while [ $# -ge 2 ]; do
  (report_case "$1" "$2") || bad=1
  shift 2
done
exit "$bad"
