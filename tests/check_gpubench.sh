#!/bin/bash
# bench/gpu.sh without a GPU.  At small sizes and in the simulator, its programs
# give the results of the target cpu.  Workloads are planned.  The script ends
# with a table and JSON, and reports what it had no time for.  The process of
# the peer libraries survives a crash of one question.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

bench() { "$here/bench/gpu.sh" --axon "$AXON" "$@"; }

command -v python3 >/dev/null || {
  echo 'no python3: skipped'
  exit 0
}
said=$(bench --dry 'rows ' 'gemm 32x6144' 2>&1) || wrong "dry: $said"
grep -q '^gemm 32x6144x4096 .* ms predicted, 1 kernel' <<<"$said" &&
  grep -q '^2 workloads, 0 not ready' <<<"$said" || wrong "dry: $said"
bench --dry --axon false rows >said 2>&1 && wrong 'a program that fails'

. "$here/tests/cuda_fakes.sh"
export LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_MEMORY=2000 FAKE_PROCESSORS=4 AXON_SOURCE="$here" AXON_TINY=0
said=$(bench --dry --small '32x6144x4096' ' 1x16x16384x128' chain softmax \
  layernorm 'rows ' columns 'x64 to 64' 'x128 to 128, stride 2' 2>&1) ||
  wrong "$(grep -v ' the same$' <<<"$said")"
[ "$(grep -c ' the same$' <<<"$said")" = 16 ] || wrong "not 16: $said"
bench --small --seconds 0.01 --out table 'rows ' >said 2>&1 &&
  grep -q '^rows 8192x8192  *2.5000 .* open ' table.txt &&
  grep -q '"ms": 2.5' table.json || wrong "a table: $(cat said)"
bench --small --minutes 0 --out table 'rows ' >said 2>&1 &&
  grep -q '^no time was left for 1: rows 8192x8192' table.txt ||
  wrong "no time: $(cat said)"
said=$(printf '{"do": "%s"}\n' none about | python3 \
  "$here/bench/gpu/worker.py" 2>/dev/null)
[[ $said == *'"error": '*'"missing": '* ]] || wrong "a worker: $said"
exit "$bad"
