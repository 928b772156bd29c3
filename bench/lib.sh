# What the benchmarks share.  Times are those of the processor (user and
# system, which other work on the machine disturbs least), of the run in the
# middle of several.
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

# middle: the median of the numbers that are read, one a line.
middle() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# typical RUNS COMMAND...: seconds of the typical run.
typical() {
  local runs=$1
  shift
  for ((; runs > 0; runs--)); do once "$@"; done | middle
}

# ratio A B: A / B.
ratio() { echo "$1 $2" | awk '{ if ($2 > 0) printf "%.2f", $1 / $2 }'; }
