#!/bin/bash
# make check-gpu, on a machine with a GPU: compares every kernel family, random
# graphs and examples with the reference backend.  Prints one line for each: ok,
# or the failure and a command that reproduces it.
#
#     tests/gpu.sh [SEED [COUNT]]   random graphs, from SEED on (1), COUNT (200)
#
# Families are in the order of the GPU features that they use, from elementwise
# kernels to clusters of thread blocks: the first failure is the most useful.
# Each has a time limit of 25 seconds (GPU_SECONDS).  A family that fails runs
# once more: if it then passes, the cause is a race.  If compute-sanitizer is
# installed, families and some graphs also run under it (GPU_TOOLS: memcheck
# racecheck synccheck).  After GPU_MINUTES (9) no family starts, and the script
# lists the remaining ones.  Files about failures are in check-gpu/.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
axon=$(realpath "${AXON:-$build/axon}")
seed=${1:-1} count=${2:-200} batch=10 left=
[ ! -d "$here/lib" ] || export LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" AXON_TINY=0
kept=${GPU_KEPT:-$PWD/check-gpu}
good=0 bad=0
limit=${GPU_SECONDS:-25}
most=$(awk -v m="${GPU_MINUTES:-9}" 'BEGIN { print int(60 * m) }')

late() { # late WHAT: is there no time for it?
  [ "$SECONDS" -ge "$most" ] || return 1
  left="$left, $1"
}
passed() {
  printf 'ok    %s\n' "$1"
  good=$((good + 1))
}
failed() { # failed WHAT COMMAND: with what it said in $work/said
  printf 'FAIL  %s\n      again: %s\n' "$1" "$2"
  mkdir -p "$kept"
  { echo "$2"; cat "$work/said" "${@:3}"; } >"$kept/${1//[^a-zA-Z0-9]/-}.txt"
  head -n 8 "$work/said" | sed 's/^/      /'
  bad=$((bad + 1))
}

AXON_TARGET=cuda "$axon" -e 1 >"$work/said" 2>&1 || {
  cat "$work/said"
  exit 1
}
AXON_TARGET=cuda "$axon" doctor 2>/dev/null | grep -E '^(gpu|driver|nvrtc) '

# Each family: a program, whose first line has what a text of it is to say.
# Others like it that begin so are schedules, or say what it is run with.
settings() { # settings FILE: in `with`
  with=(AXON_TARGET=cuda)
  grep -q '^(\* AXON_TF32=1 \*)$' "$1" && with+=(AXON_TF32=1)
  sed -n '2s/^(\* \(.*: way=.*\) \*)$/\1/p' "$1" >"$work/schedules"
  [ ! -s "$work/schedules" ] || with+=("AXON_SCHEDULES=$work/schedules")
}
again() { # again FILE: what it is run with, to be typed
  sed -n '2s/^(\* \(.*: way=.*\) \*)$/AXON_SCHEDULES=<(echo "\1")/p' "$1" |
    tr '\n' ' '
  grep -o '^(\* AXON_TF32=1' "$1" | tr -d '(*\n'
  printf ' AXON_TINY=0'
}
ran() { # ran FILE: by the GPU, in $work/gpu; its status
  rm -rf "$work/texts"
  mkdir "$work/texts"
  AXON_CC_DEBUG=$work/texts env "${with[@]}" timeout -k 5 "$limit" \
    "$axon" run "$1" >"$work/gpu" 2>&1
}
agrees() { # does $work/gpu agree with the reference?  $work/said: where not
  awk -f "$here/tests/close.awk" "$work/host" "$work/gpu" >"$work/said"
}
once_more() { # once_more FILE: what a second run says, behind $work/said
  late "$name once more" && return
  cp "$work/said" "$work/first"
  ran "$1"
  if agrees; then echo 'a second run is right'; else
    echo "a second run: $(head -n 1 "$work/said")"
  fi >>"$work/first"
  mv "$work/first" "$work/said"
}
family() { # family FILE
  name=$(basename "$1" .axn)
  late "family $name" && return
  settings "$1"
  want=$(sed -n '1s/^(\* \(.*\) \*)$/\1/p' "$1")
  AXON_TARGET=reference timeout -k 5 "$((8 * limit))" "$axon" run "$1" \
    >"$work/host" 2>&1
  ran "$1"
  status=$?
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    { echo "no end after $limit s"; tail -n 5 "$work/gpu"; } >"$work/said"
  elif agrees; then
    if ! grep -q "^/\* .*$want" "$work"/texts/*.cu; then
      grep -h "^/\* .*blocks" "$work"/texts/*.cu >"$work/said"
      failed "family $name (no kernel of it says \`$want\`)" \
        "$(again "$1") $axon plan --target cuda $1"
    else
      passed "family $name"
    fi
    return
  else
    { head -n 5 "$work/gpu"; echo 'the reference backend:'
      head -n 5 "$work/host"; } | cut -c 1-400 >>"$work/said"
    once_more "$1"
  fi
  failed "family $name" "$(again "$1") $axon run --target cuda $1" \
    "$work/gpu" "$work/host"
}
ladder=(points turned chunks columns rows long_rows online routines checks
  few_rows tiles tensor_cores reduced convolution attention group_tf32
  group_computed group_wide group_turns group_clusters group_stream
  group_shares group_usual group_pixels group_attention group_weights)
for file in "$here"/tests/gpu/*.axn; do # what the ladder forgets
  name=$(basename "$file" .axn)
  [[ " ${ladder[*]} " == *" $name "* ]] || ladder+=("$name")
done
for name in "${ladder[@]}"; do # GPU_FAMILY: only those of such names
  # shellcheck disable=SC2053
  [[ $name == ${GPU_FAMILY:-*} ]] && family "$here/tests/gpu/$name.axn"
done

examples=("$here"/examples/*.axn)
[ "$count" -gt 0 ] || examples=()
for file in "${examples[@]}"; do
  name=$(basename "$file" .axn)
  [ -e "${file%.axn}.expected" ] && [ "$name" != lenet_broken ] || continue
  late "example $name" && continue
  (cd "$here" && AXON_TARGET=cuda timeout -k 5 "$limit" "$axon" run \
    "examples/$name.axn") >"$work/gpu" 2>&1
  if awk -f "$here/tests/close.awk" "${file%.axn}.expected" "$work/gpu" \
    >"$work/said"; then
    passed "example $name"
  else
    failed "example $name" \
      "AXON_TINY=0 $axon run --target cuda examples/$name.axn" "$work/gpu"
  fi
done

# Random graphs: some at a time, at as many times as there are processors that
# compile them; of those that fail, which one it was.
graphs() { # graphs NAME FROM COUNT FILE
  AXON_TARGET=cuda timeout -k 5 "$((limit + limit * $3 / 5))" \
    "$build/tests/unit/$1" "$2" "$3" >"$4" 2>&1
}
batches() { # batches NAME: a file of each that is good, or what it said
  for ((from = seed; from < seed + count; from += batch)); do
    many=$((seed + count - from < batch ? seed + count - from : batch))
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
    late "$1 $from to $((from + many - 1))" && continue
    { graphs "$1" "$from" "$many" "$work/$1.$from.said" &&
      mv "$work/$1.$from.said" "$work/$1.$from.good"; } &
  done
  wait
}
judge() { # judge NAME
  again="AXON_TARGET=cuda AXON_TINY=0 $build/tests/unit/$1"
  for ((from = seed; from < seed + count; from += batch)); do
    many=$((seed + count - from < batch ? seed + count - from : batch))
    [ ! -e "$work/$1.$from.good" ] ||
      passed "$1 $from to $((from + many - 1))"
    [ -e "$work/$1.$from.said" ] || continue
    before=$bad
    cp "$work/$1.$from.said" "$work/said"
    for ((one = from; one < from + many; one++)); do
      late "$1 $one by itself" && break
      [ "$bad" -lt "$((before + 2))" ] || break # more of them say no more
      graphs "$1" "$one" 1 "$work/said" || failed "$1 $one" "$again $one 1"
    done
    [ "$bad" != "$before" ] || # only together
      failed "$1 $from to $((from + many - 1))" "$again $from $many"
  done
}
for name in kernels_test between_test reduced_test; do
  [ -x "$build/tests/unit/$name" ] || continue
  batches "$name"
  judge "$name"
done
test=$build/tests/unit/kernels_test

# Under compute-sanitizer.
sanitizer=$(command -v compute-sanitizer ||
  ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
sane() { # sane TOOL WHAT COMMAND...
  tool=$1 what=$2
  shift 2
  late "$what under $tool" && return
  AXON_TARGET=cuda AXON_POOL=0 timeout -k 5 "$((2 * limit))" "$sanitizer" \
    --tool "$tool" --error-exitcode 9 --target-processes all "$@" \
    >"$work/said" 2>&1
  # 1: the program tells of an error, which the family's own run compares
  if [ $? -le 1 ] && grep -q 'SUMMARY: 0 ' "$work/said"; then
    passed "$what under $tool"
  else
    failed "$what under $tool" \
      "AXON_TARGET=cuda AXON_TINY=0 AXON_POOL=0 $sanitizer --tool $tool $*"
  fi
}
if [ "${GPU_TOOLS-}" = none ]; then
  :
elif [ "$sanitizer" ]; then
  for tool in ${GPU_TOOLS:-memcheck racecheck synccheck}; do
    for file in "$here"/tests/gpu/${GPU_FAMILY:-*}.axn; do
      settings "$file"
      sane "$tool" "family $(basename "$file" .axn)" env "${with[@]}" "$axon" \
        run "$file"
    done
  done
  sane memcheck "random graphs $seed to $((seed + 2))" "$test" "$seed" 3
else
  echo 'no compute-sanitizer: skipped'
fi
[ -z "$left" ] || echo "no time was left for${left#,}"
echo "$good ok, $bad failed"
[ "$bad" = 0 ]
