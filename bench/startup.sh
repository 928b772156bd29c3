#!/bin/bash
# How long axon takes to start: milliseconds a run, over many runs.  Goal: 4 ms.
. "$(dirname "$0")/lib.sh"
runs=${1:-200}

mean() {
  start=$(now)
  for ((i = 0; i < runs; i++)); do "$@" >/dev/null || exit 1; done
  echo "$(now) $start $runs" | awk '{ printf "%.2f", 1000 * ($1 - $2) / $3 }'
}

row() { printf '%-52s %s ms\n' "$1" "$2"; }
row '/bin/true (what starting any process costs)' "$(mean /bin/true)"
row 'axon --version' "$(mean "$AXON" --version)"
row 'axon -e 1' "$(mean "$AXON" -e 1)"
softmax='softmax (uniform (key 1) [4, 4])'
row "axon -e '$softmax'" "$(mean "$AXON" -e "$softmax")"
