#!/bin/bash
# make check-gpu, on a machine with a GPU: compares every kernel family, random
# graphs and examples with the reference backend.  Prints one line for each: ok,
# or the failure and a command that reproduces it.
#
#     tests/gpu.sh [SEED [COUNT]]   random graphs, from SEED on (1), COUNT (200)
#
# Families are in the order of the GPU features that they use, from elementwise
# kernels to clusters of thread blocks: the first failure is the most useful.
# GPU_FAMILY is a pattern that selects families.  Each has a time limit of 25
# seconds (GPU_SECONDS).  A family that fails runs once more: if it then passes,
# the cause is a race.  If compute-sanitizer is installed, families and some
# graphs also run under it (GPU_TOOLS: memcheck racecheck synccheck).  After
# GPU_MINUTES (9) no family starts, and the script lists the remaining ones.
# The folder check-gpu (GPU_KEPT) has files about failures.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$here}
axon=$(realpath "${AXON:-$build/axon}")
seed=${1:-1} count=${2:-200} batch=10 left=
[ ! -d "$here/lib" ] || export LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" AXON_TINY=0
failures=${GPU_KEPT:-$PWD/check-gpu}
good=0 bad=0
limit=${GPU_SECONDS:-25}
max_seconds=$(awk -v m="${GPU_MINUTES:-9}" 'BEGIN { print int(60 * m) }')

# True if the time is over.  The test is then listed as not run.
out_of_time() { # out_of_time NAME
  [ "$SECONDS" -ge "$max_seconds" ] || return 1
  left="$left, $1"
}
passed() {
  printf 'ok    %s\n' "$1"
  good=$((good + 1))
}
# Reports a failure with the command that reproduces it.  $work/output describes
# the failure; the failure file also contains FILEs.
failed() { # failed NAME COMMAND [FILE...]
  printf 'FAIL  %s\n      reproduce: %s\n' "$1" "$2"
  mkdir -p "$failures"
  { echo "$2"; cat "$work/output" "${@:3}"; } \
    >"$failures/${1//[^a-zA-Z0-9]/-}.txt"
  head -n 8 "$work/output" | sed 's/^/      /'
  bad=$((bad + 1))
}

AXON_TARGET=cuda "$axon" -e 1 >"$work/output" 2>&1 || {
  cat "$work/output"
  exit 1
}
AXON_TARGET=cuda "$axon" doctor 2>/dev/null |
  grep -E '^(gpu|driver|nvrtc) ' | tee "$work/doctor"
architecture=$(sed -n '1s/.*(\(sm_[0-9a-z]*\)).*/\1/p' "$work/doctor")
# True if this GPU has the instruction with which the name of a family begins.
has_instruction() { # has_instruction NAME
  case $1:$architecture in
  wgmma_*:sm_90a | tcgen05_*:sm_100a) ;;
  wgmma_*:* | tcgen05_*:*) return 1 ;;
  esac
}

# A family is a program.  The comment in its first line is a pattern for the
# schedule of a kernel that must run.  The second line may be a comment with an
# entry of a schedule file.  A comment `AXON_TF32=1` is an environment setting.
settings() { # settings FILE: sets `with` to the environment of the program
  with=(AXON_TARGET=cuda)
  grep -q '^(\* AXON_TF32=1 \*)$' "$1" && with+=(AXON_TF32=1)
  sed -n '2s/^(\* \(.* {way=.*\) \*)$/\1/p' "$1" >"$work/schedules"
  [ ! -s "$work/schedules" ] || with+=("AXON_SCHEDULES=$work/schedules")
}
print_settings() { # print_settings FILE: prints the environment for a shell
  sed -n '2s/^(\* \(.* {way=.*\) \*)$/AXON_SCHEDULES=<(echo "\1")/p' "$1" |
    tr '\n' ' '
  grep -o '^(\* AXON_TF32=1' "$1" | tr -d '(*\n'
  printf ' AXON_TINY=0'
}
run_on_gpu() { # run_on_gpu FILE: writes $work/gpu and $work/sources
  rm -rf "$work/sources"
  mkdir "$work/sources"
  AXON_CC_DEBUG=$work/sources env "${with[@]}" timeout -k 5 "$limit" \
    "$axon" run "$1" >"$work/gpu" 2>&1
}
# True if $work/gpu agrees with the reference.  Writes the first difference to
# $work/output.
agrees() {
  awk -f "$here/tests/close.awk" "$work/host" "$work/gpu" >"$work/output"
}
# Runs a family a second time, and appends the result to $work/output.
run_again() { # run_again FILE
  out_of_time "$name, second run" && return
  cp "$work/output" "$work/first"
  run_on_gpu "$1"
  if agrees; then echo 'the second run passes'; else
    echo "the second run fails: $(head -n 1 "$work/output")"
  fi >>"$work/first"
  mv "$work/first" "$work/output"
}
family() { # family FILE
  name=$(basename "$1" .axn)
  out_of_time "family $name" && return
  settings "$1"
  pattern=$(sed -n '1s/^(\* \(.*\) \*)$/\1/p' "$1")
  AXON_TARGET=reference timeout -k 5 "$((8 * limit))" "$axon" run "$1" \
    >"$work/host" 2>&1
  run_on_gpu "$1"
  status=$?
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    { echo "timeout after $limit s"; tail -n 5 "$work/gpu"; } >"$work/output"
  elif agrees; then
    if ! grep -q "^/\* .*$pattern" "$work"/sources/*.cu; then
      grep -h "^/\* .*blocks" "$work"/sources/*.cu >"$work/output"
      failed "family $name (no kernel has the schedule \`$pattern\`)" \
        "$(print_settings "$1") $axon plan --target cuda $1"
    else
      passed "family $name"
    fi
    return
  else
    { head -n 5 "$work/gpu"; echo 'the reference backend:'
      head -n 5 "$work/host"; } | cut -c 1-400 >>"$work/output"
    run_again "$1"
  fi
  failed "family $name" "$(print_settings "$1") $axon run --target cuda $1" \
    "$work/gpu" "$work/host"
}
families=(elementwise transpose split_reduction columns rows long_rows
  online_softmax library_ops index_checks few_rows gemm gemm_mma
  gemm_row_reduction convolution attention wgmma_tf32 wgmma_computed_operand
  wgmma_wide_tile wgmma_pingpong wgmma_clusters wgmma_stream_k
  wgmma_stream_k_pingpong wgmma_default wgmma_convolution wgmma_attention
  wgmma_attention_weights)
for file in "$here"/tests/gpu/*.axn; do # families that are not listed above
  name=$(basename "$file" .axn)
  [[ " ${families[*]} " == *" $name "* ]] || families+=("$name")
done
for name in "${families[@]}"; do
  # shellcheck disable=SC2053
  [[ $name == ${GPU_FAMILY:-*} ]] && has_instruction "$name" &&
    family "$here/tests/gpu/$name.axn"
done

examples=("$here"/examples/*.axn)
[ "$count" -gt 0 ] || examples=()
for file in "${examples[@]}"; do
  name=$(basename "$file" .axn)
  [ -e "${file%.axn}.expected" ] && [ "$name" != lenet_broken ] || continue
  out_of_time "example $name" && continue
  (cd "$here" && AXON_TARGET=cuda timeout -k 5 "$limit" "$axon" run \
    "examples/$name.axn") >"$work/gpu" 2>&1
  if awk -f "$here/tests/close.awk" "${file%.axn}.expected" "$work/gpu" \
    >"$work/output"; then
    passed "example $name"
  else
    failed "example $name" \
      "AXON_TINY=0 $axon run --target cuda examples/$name.axn" "$work/gpu"
  fi
done

# Random graphs run in batches, in as many processes as there are CPUs.  The
# graphs of a failed batch run again one by one.
graphs() { # graphs NAME FROM COUNT FILE
  AXON_TARGET=cuda timeout -k 5 "$((limit + limit * $3 / 5))" \
    "$build/tests/unit/$1" "$2" "$3" >"$4" 2>&1
}
# Each batch leaves a file NAME.FROM.good if it passes, otherwise
# NAME.FROM.output.
batches() { # batches NAME
  for ((from = seed; from < seed + count; from += batch)); do
    size=$((seed + count - from < batch ? seed + count - from : batch))
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
    out_of_time "$1 $from to $((from + size - 1))" && continue
    { graphs "$1" "$from" "$size" "$work/$1.$from.output" &&
      mv "$work/$1.$from.output" "$work/$1.$from.good"; } &
  done
  wait
}
report_batches() { # report_batches NAME
  command="AXON_TARGET=cuda AXON_TINY=0 $build/tests/unit/$1"
  for ((from = seed; from < seed + count; from += batch)); do
    size=$((seed + count - from < batch ? seed + count - from : batch))
    [ ! -e "$work/$1.$from.good" ] ||
      passed "$1 $from to $((from + size - 1))"
    [ -e "$work/$1.$from.output" ] || continue
    before=$bad
    cp "$work/$1.$from.output" "$work/output"
    for ((graph = from; graph < from + size; graph++)); do
      out_of_time "$1 $graph alone" && break
      [ "$bad" -lt "$((before + 2))" ] || break # two failures suffice
      graphs "$1" "$graph" 1 "$work/output" ||
        failed "$1 $graph" "$command $graph 1"
    done
    [ "$bad" != "$before" ] || # no graph fails alone
      failed "$1 $from to $((from + size - 1))" "$command $from $size"
  done
}
for name in kernels_test between_test reduced_test; do
  [ -x "$build/tests/unit/$name" ] || continue
  batches "$name"
  report_batches "$name"
done
test=$build/tests/unit/kernels_test

# Runs under compute-sanitizer.
sanitizer=$(command -v compute-sanitizer ||
  ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
sanitize() { # sanitize TOOL NAME COMMAND...
  tool=$1 what=$2
  shift 2
  out_of_time "$what under $tool" && return
  AXON_TARGET=cuda AXON_POOL=0 timeout -k 5 "$((2 * limit))" "$sanitizer" \
    --tool "$tool" --error-exitcode 9 --target-processes all "$@" \
    >"$work/output" 2>&1
  # Status 1: the program reports an error, which the run of the family compares
  # with the reference.
  if [ $? -le 1 ] && grep -q 'SUMMARY: 0 ' "$work/output"; then
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
      sanitize "$tool" "family $(basename "$file" .axn)" env "${with[@]}" \
        "$axon" run "$file"
    done
  done
  sanitize memcheck "random graphs $seed to $((seed + 2))" "$test" "$seed" 3
else
  echo 'no compute-sanitizer: skipped'
fi
[ -z "$left" ] || echo "not run:${left#,}"
echo "$good ok, $bad failed"
[ "$bad" = 0 ]
