#!/bin/bash
# Gradients on the target cuda, with a fake driver and the GPU simulator
# (tests/unit/cuda_fake.h):
#   - gradients of random graphs (tests/unit/adjoint_test) are those of the
#     reference backend,
#   - functions with gradients, built by `axon build`, give the results of the
#     same functions for the CPU.
# tests/gpu/gradients.axn has gradients of layers; check_gpu.sh runs it.
#
#     [GRAD=all] tests/check_gradcuda.sh [SEED [COUNT]]
#
# SEED and COUNT choose the graphs.  With GRAD=all, the programs of tests/grad
# run on the fake GPU, too; this takes about an hour.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/grad"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
. "$here/tests/cuda_fakes.sh"

test=$build/tests/unit/adjoint_test
if [ -x "$test" ]; then
  on_gpu timeout 3000 "$test" "${1:-7}" "${2:-9}" >"$work/output" 2>&1 || {
    fail "adjoint_test on the target cuda: status $?"
    grep -v 'RUN\|OK' "$work/output" | head -n 40
  }
fi

# Functions that `axon build` compiles.
export AXON_NVRTC="$work/libnvrtc.so.13"
source=$here/tests/data/build/gradients.axn
echo 'fun table (w : f32[m, n]) (i : i64[k]) =
  grad (fn w => sum (square (nn.embedding {w} i))) w' >scatter.axn
output=$("$AXON" build --target cuda -o m.cu scatter.axn 2>&1) &&
  fail 'not refused: a scatter'
grep -q 'E0613.*scatter' <<<"$output" || fail "a scatter: $output"
"$AXON" build --target cuda:sm_90a -o gpu.so "$source" ||
  fail 'cannot build gpu.so'
"$AXON" build -o host.so "$source" || fail 'cannot build host.so'
if command -v python3 >/dev/null; then
  env LD_LIBRARY_PATH="$work" FAKE_CAPABILITY=90 FAKE_MEMORY=2000 \
    FAKE_PROCESSORS=4 timeout 1500 python3 "$here/tests/cuda_module.py" \
    gpu.so gpu.json host.so host.json 9000 0 1 2 7 33 >output 2>&1 &&
    grep -q '^45 calls, 0 wrong' output ||
    fail "gradients in a module: $(tail -n 20 output)"
fi

[ "${GRAD-}" = all ] || exit "$bad"
for expected in *.out; do
  name=${expected%.out}
  on_gpu timeout 3000 "$AXON" run "$name.axn" >"$work/gpu" 2>"$work/messages"
  [ -e "$name.err" ] || : >"$name.err"
  cmp -s "$name.err" "$work/messages" &&
    awk -f "$here/tests/close.awk" "$expected" "$work/gpu" ||
    fail "$name.axn: $(diff "$name.err" "$work/messages" | head -n 20)"
done
exit "$bad"
