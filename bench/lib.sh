# Common functions of the benchmarks.  Times are CPU times (user and system),
# which other processes disturb least.  Each is the median of several runs.
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=${AXON:-$here/axon}

# once COMMAND...: seconds of one run.
once() {
  local TIMEFORMAT='%U %S' took
  took=$({ time "$@" >/dev/null 2>&1 </dev/null || echo failed >&2; } 2>&1)
  case $took in
    *failed*) echo failed ;;
    *) echo "$took" | awk '{ printf "%.3f\n", $1 + $2 }' ;;
  esac
}

# middle: the median of the numbers on stdin, one per line.
middle() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# typical RUNS COMMAND...: median seconds of RUNS runs.
typical() {
  local runs=$1
  shift
  for ((; runs > 0; runs--)); do once "$@"; done | middle
}

# ratio A B: A / B.
ratio() { echo "$1 $2" | awk '{ if ($2 > 0) printf "%.2f", $1 / $2 }'; }
