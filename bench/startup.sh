#!/bin/bash
# Measures the start-up time of axon, of an empty process, of Lua and of Python.
# Prints the median wall-clock time of many runs in milliseconds, and its ratio
# to the goal of 4 ms.  Each round runs all of them once, so that disturbances
# of the machine affect all.
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
