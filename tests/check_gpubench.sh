#!/bin/bash
# bench/gpu.sh without a GPU.  `--dry` plans the workloads.  At small sizes, the
# simulator gives the results of the target cpu.  The script writes a table and
# JSON, and lists the workloads that it had no time for.  The worker process of
# the peer libraries continues after an invalid request.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

bench() { "$here/bench/gpu.sh" --axon "$AXON" "$@"; }

command -v python3 >/dev/null || {
  echo 'no python3: skipped'
  exit 0
}
output=$(bench --dry 'rows ' 'gemm 32x6144' 2>&1) || fail "dry: $output"
grep -q '^gemm 32x6144x4096 .* ms predicted, 1 kernel' <<<"$output" &&
  grep -q '^2 workloads, 0 not ready' <<<"$output" || fail "dry: $output"
bench --dry --axon false rows >output 2>&1 &&
  fail 'a failing program is not reported'

. "$here/tests/cuda_fakes.sh"
export LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_MEMORY=2000 FAKE_PROCESSORS=4 AXON_SOURCE="$here" AXON_TINY=0
output=$(bench --dry --small '32x6144x4096' ' 1x16x16384x128' chain softmax \
  layernorm 'rows ' columns 'x64 to 64' 'x128 to 128, stride 2' 2>&1) ||
  fail "$(grep -v ' the same$' <<<"$output")"
[ "$(grep -c ' the same$' <<<"$output")" = 16 ] ||
  fail "the number of equal results is not 16: $output"
bench --small --seconds 0.01 --out table 'rows ' >output 2>&1 &&
  grep -q '^rows 8192x8192  *2.5000 .* open ' table.txt &&
  grep -q '"ms": 2.5' table.json ||
  fail "the table is wrong: $(cat output)"
bench --small --minutes 0 --out table 'rows ' >output 2>&1 &&
  grep -q '^no time was left for 1: rows 8192x8192' table.txt ||
  fail "time limit: $(cat output)"
output=$(printf '{"do": "%s"}\n' none about | python3 \
  "$here/bench/gpu/worker.py" 2>/dev/null)
[[ $output == *'"error": '*'"missing": '* ]] || fail "worker.py: $output"
exit "$bad"
