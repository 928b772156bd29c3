#!/bin/bash
# Mutation test of the solver: injects each fault of faults.txt, and counts the
# random programs until one detects it:  tests/sound/planted.sh [WORD]
#
# WORD selects the faults whose names contain it.  Each fault is compiled into a
# separate program; the source tree is not changed.  A random program detects a
# fault if it causes a finding with the fault, and none without.  The status is
# 1 if a fault is not detected within MOST programs (500000), or no longer
# applies.  BUILD is the build folder of Axon, JOBS the number of processes (1),
# SEED the random seed (1).
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
export root BUILD=${BUILD:-$root} SEED=${SEED:-1} MOST=${MOST:-500000}
word=${1-}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
ulimit -S -s 524288 2>/dev/null
[ -x "$BUILD/tests/sound/sound" ] || make -s -C "$BUILD" tests/sound/sound

# Writes each fault into a separate folder: name, file, old, new.
awk -v work="$work" '
  /^fault / { n++; dir = sprintf("%s/%03d", work, n); system("mkdir " dir)
              print substr($0, 7) > (dir "/name") }
  /^file / { print substr($0, 6) > (dir "/file") }
  /^-/ { print substr($0, 2) > (dir "/old") }
  /^[+]/ { print substr($0, 2) > (dir "/new") }
' "$root/tests/sound/faults.txt"

inject() { # inject DIR: writes the mutated source; false if it does not apply
  awk -v old="$1/old" -v new="$1/new" '
    function slurp(file,  text, line) {
      while ((getline line < file) > 0) text = text line "\n"
      return text
    }
    { all = all $0 "\n" }
    END {
      from = slurp(old); to = slurp(new); at = index(all, from)
      if (!at || index(substr(all, at + 1), from)) exit 1
      printf "%s%s%s", substr(all, 1, at - 1), to,
        substr(all, at + length(from))
    }' "$root/$(cat "$1/file")" >"$1/fault.c"
}

build() { # build DIR: builds the checker of random programs with the fault
  ${CC:-cc} -std=gnu11 -O1 -fvisibility=hidden -ffp-contract=off -w \
    -I"$root/$(dirname "$(cat "$1/file")")" -I"$root" -I"$BUILD" \
    -c "$1/fault.c" -o "$1/fault.o" &&
    ${CC:-cc} "$1/fault.o" "$BUILD"/tests/sound/*.o \
      "$BUILD/.libs/libcore.a" -lgmp -lm -ldl -lpthread -o "$1/sound"
}

# Prints the first random program that detects the fault: among the first 3
# findings of each kind, or else among 50.
detect() { # detect DIR
  for stop in 3 50; do
    timeout 3000 "$1/sound" --programs "$MOST" --seed "$SEED" --stop $stop \
      >"$1/out" 2>/dev/null
    programs=$(grep -m 1 ' programs$' "$1/out")
    for seed in $(sed -n 's/^---- --only //p' "$1/out"); do
      "$BUILD/tests/sound/sound" --only "$seed" >/dev/null 2>&1 || continue
      echo "detected   $name: --only $seed, within ${programs:-?}"
      return
    done
  done
  echo "NOT DETECTED in ${programs:-?}  $name"
}

try() { # try DIR: prints one line with the result
  name=$(cat "$1/name")
  if ! inject "$1"; then
    echo "DOES NOT APPLY  $name"
  elif ! build "$1" >"$1/log" 2>&1; then
    echo "DOES NOT BUILD  $name: $(grep -m 1 error "$1/log")"
  else
    detect "$1"
  fi
  rm -f "$1/sound"
}
export -f inject build detect try

for dir in "$work"/[0-9]*; do
  grep -qF -e "$word" "$dir/name" && echo "$dir"
done | xargs -P "${JOBS:-1}" -I{} bash -c 'try {}' | tee "$work/all"
total=$(wc -l <"$work/all")
detected=$(grep -c '^detected' "$work/all")
echo "$detected of $total faults detected"
[ "$total" -gt 0 ] && [ "$detected" -eq "$total" ]
