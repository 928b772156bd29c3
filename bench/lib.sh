# What the benchmarks share: seconds of a command, the best of several runs.
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=${AXON:-$here/axon}

now() { date +%s.%N; }

# best RUNS COMMAND...: seconds of the quickest run.
best() {
  runs=$1 least=
  shift
  while [ "$runs" -gt 0 ]; do
    runs=$((runs - 1))
    start=$(now)
    "$@" >/dev/null 2>&1 </dev/null || { echo 'failed' && return; }
    took=$(echo "$(now) $start" | awk '{ print $1 - $2 }')
    least=$(echo "$took ${least:-9999}" | awk '{ print $1 < $2 ? $1 : $2 }')
  done
  printf '%.3f\n' "$least"
}
