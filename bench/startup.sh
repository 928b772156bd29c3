#!/bin/bash
# How long axon takes to start, against a process that does nothing, Lua and
# Python: milliseconds of a run on the clock, the middle of many, and times the
# goal, 4 ms.  One after the other in each round, so that what else the machine
# does meets all of them.
. "$(dirname "$0")/lib.sh"
rounds=${1:-101}
softmax='nn.softmax (uniform (key 1) [4, 4])'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

names=() commands=()
row() { # row NAME COMMAND...
  names+=("$1")
  shift
  commands+=("$(printf '%q ' "$@")")
}

row 'true' /bin/true
row 'axon --version' "$AXON" --version
row 'axon -e 1' "$AXON" -e 1
row "axon -e '$softmax'" "$AXON" -e "$softmax"
command -v lua5.4 >/dev/null && row "lua5.4 -e 'print(1)'" lua5.4 -e 'print(1)'
command -v python3 >/dev/null &&
  row "python3 -c 'print(1)'" python3 -c 'print(1)'

for ((i = 0; i < rounds; i++)); do
  for ((k = 0; k < ${#names[@]}; k++)); do
    start=${EPOCHREALTIME/./}
    eval "${commands[$k]}" >/dev/null </dev/null || exit 1
    echo $((${EPOCHREALTIME/./} - start)) >>"$work/$k"
  done
done

for ((k = 0; k < ${#names[@]}; k++)); do
  took=$(middle <"$work/$k" | awk '{ printf "%.2f", $1 / 1000 }')
  printf '%-46s %6s ms  %s\n' "${names[$k]}" "$took" "$(ratio "$took" 4)"
done
