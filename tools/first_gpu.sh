#!/bin/bash
# Runs the first tests on a GPU, in calls of less than ten minutes each.  Start
# it on a machine with a GPU, in a built checkout or in a folder of
# tools/carry.sh (axon-carried).
#
#     tools/first_gpu.sh [STAGE...]
#
#     about     the machine, its driver and its compiler
#     families  every kernel family against the reference backend, then some
#               random graphs
#     sanitize  the families under memcheck of compute-sanitizer
#     bench     the main rows of the benchmark, with their peers
#     sweep     schedules of matmuls and attention, one after another
#     graphs    more random graphs
#
# The default is all stages.  FIRST_MINUTES (9) is the time limit
# of a call.  FIRST_OUT (first-gpu) is the folder of the results, which are
# complete after each row.  If OUT is set, the results are also archived there,
# in gpu-evidence.tar.gz, even if a stage fails.  FIRST_NAMES selects workloads
# of bench and sweep.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here" || exit 1
minutes=${FIRST_MINUTES:-9}
out=$(realpath -m "${FIRST_OUT:-first-gpu}")
mkdir -p "$out"
[ $# -gt 0 ] || set -- about families bench sweep sanitize graphs
[ ! -d lib ] || export LD_LIBRARY_PATH=$here/lib:${LD_LIBRARY_PATH-}
read -ra names <<<"${FIRST_NAMES-}"
bad=0

minutes_left() { # minutes_left [MAX]: prints the remaining minutes, at most MAX
  awk -v s="$SECONDS" -v all="$minutes" -v max="${1:-99}" \
    'BEGIN { m = all - s / 60; m = m < max ? m : max; print (m > 0 ? m : 0) }'
}
archive() {
  [ -z "${OUT-}" ] || tar czf "$OUT/gpu-evidence.tar.gz" -C "$out" .
}
trap archive EXIT
about() {
  date -u '+%Y-%m-%d %H:%M UTC'
  uname -r
  cat COMMIT 2>/dev/null
  nvidia-smi --format=csv,noheader \
    --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit
  AXON_TARGET=cuda timeout 60 ./axon doctor | grep -E '^(gpu|driver|nvrtc) '
}
stage() { # stage NAME COMMAND...: also writes the output to NAME.txt
  echo "== $1, at $SECONDS s"
  "${@:2}" 2>&1 | tee "$out/$1.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || bad=1
  archive
}
gpu_tests() { # gpu_tests FOLDER MINUTES SEED COUNT SETTINGS...
  env GPU_KEPT="$out/$1" GPU_MINUTES="$2" "${@:5}" tests/gpu.sh "$3" "$4"
}
for stage in "$@"; do
  case $stage in
  families) stage families gpu_tests families "$(minutes_left 4)" 1 160 \
    GPU_TOOLS=none ;;
  graphs) stage graphs gpu_tests graphs "$(minutes_left)" 1000 600 \
    GPU_TOOLS=none GPU_FAMILY=none ;;
  sanitize) stage sanitize gpu_tests sanitize "$(minutes_left 4)" 1 0 \
    GPU_TOOLS=memcheck ;;
  bench) stage bench bench/gpu.sh --out "$out/bench-table" \
    --minutes "$(minutes_left 5)" "${names[@]}" ;;
  sweep) stage sweep "${PYTHON:-python3}" bench/gpu/sweep.py \
    "$out/sweep-table" "$(minutes_left)" "${names[@]}" ;;
  about) stage about about ;;
  *)
    sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'
    exit 2
    ;;
  esac
done
exit "$bad"
