#!/bin/bash
# Puts each fault of faults.txt into the solver and counts the random programs
# that it takes until it is caught:  tests/sound/planted.sh [WORD]
#
# WORD chooses those whose name has it.  A fault is compiled into a program of
# its own; the tree stays as it is.  It is caught by a program of which
# something is found with it, and nothing without.  The status is 1 if one is
# not caught within MOST programs (500000), or does not apply any more.  BUILD
# is the folder in which Axon was made, JOBS how many are tried at a time (1),
# SEED the programs (1).
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
export root BUILD=${BUILD:-$root} SEED=${SEED:-1} MOST=${MOST:-500000}
word=${1-}
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT
ulimit -S -s 524288 2>/dev/null
[ -x "$BUILD/tests/sound/sound" ] || make -s -C "$BUILD" tests/sound/sound

# Each fault into a folder of its own: name, file, old, new.
awk -v work="$work" '
  /^fault / { n++; dir = sprintf("%s/%03d", work, n); system("mkdir " dir)
              print substr($0, 7) > (dir "/name") }
  /^file / { print substr($0, 6) > (dir "/file") }
  /^-/ { print substr($0, 2) > (dir "/old") }
  /^[+]/ { print substr($0, 2) > (dir "/new") }
' "$root/tests/sound/faults.txt"

plant() { # plant DIR: the changed source; false if it does not apply
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

build() { # build DIR: the generator with the fault
  ${CC:-cc} -std=gnu11 -O1 -fvisibility=hidden -ffp-contract=off -w \
    -I"$root/$(dirname "$(cat "$1/file")")" -I"$root" -I"$BUILD" \
    -c "$1/fault.c" -o "$1/fault.o" &&
    ${CC:-cc} "$1/fault.o" "$BUILD"/tests/sound/*.o \
      "$BUILD/.libs/libcore.a" -lgmp -lm -ldl -lpthread -o "$1/sound"
}

# The first program of which only the faulty one finds something: among the
# first few of each kind, or else among more of them.
hunt() { # hunt DIR: one line
  for stop in 3 50; do
    timeout 3000 "$1/sound" --programs "$MOST" --seed "$SEED" --stop $stop \
      >"$1/out" 2>/dev/null
    programs=$(grep -m 1 ' programs$' "$1/out")
    for seed in $(sed -n 's/^---- --only //p' "$1/out"); do
      "$BUILD/tests/sound/sound" --only "$seed" >/dev/null 2>&1 || continue
      echo "caught   $name: --only $seed, within ${programs:-?}"
      return
    done
  done
  echo "NOT CAUGHT in ${programs:-?}  $name"
}

try() { # try DIR: one line of what became of it
  name=$(cat "$1/name")
  if ! plant "$1"; then
    echo "DOES NOT APPLY  $name"
  elif ! build "$1" >"$1/log" 2>&1; then
    echo "DOES NOT BUILD  $name: $(grep -m 1 error "$1/log")"
  else
    hunt "$1"
  fi
  rm -f "$1/sound"
}
export -f plant build hunt try

for dir in "$work"/[0-9]*; do
  grep -qF -e "$word" "$dir/name" && echo "$dir"
done | xargs -P "${JOBS:-1}" -I{} bash -c 'try {}' | tee "$work/all"
total=$(wc -l <"$work/all")
caught=$(grep -c '^caught' "$work/all")
echo "$caught of $total faults caught"
[ "$total" -gt 0 ] && [ "$caught" -eq "$total" ]
