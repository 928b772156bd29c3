#!/bin/bash
# The target cuda: without a driver, with a fake driver
# (tests/unit/cuda_fake.h), and without NVRTC.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export XDG_CACHE_HOME="$work/cache" NO_COLOR=1
unset AXON_TARGET AXON_NVRTC LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES

expect() { # expect STATUS PATTERN COMMAND...
  expected=$1 pattern=$2
  shift 2
  output=$(timeout 500 "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" = "$expected" ] || fail "status $got: $*: $output"
  grep -qE -e "$pattern" <<<"$output" || fail "no $pattern: $*: $output"
}

# Verbs that run programs report a missing target.  Other verbs do not.
echo 'do print (sum (iota 5))' >a.axn
"$AXON" fmt a.axn
refused='^error\[E0514\]: the target cuda is not available: '
for verb in run bench; do
  # shellcheck disable=SC2086
  expect 1 "$refused" "$AXON" $verb --target cuda a.axn
  # shellcheck disable=SC2086
  expect 1 "$refused" env AXON_TARGET=cuda "$AXON" $verb a.axn
done
expect 1 "$refused" "$AXON" -e 1 --target cuda
expect 1 "$refused" env AXON_TARGET=cuda "$AXON" test a.axn
expect 1 '"code":"E0514"' "$AXON" run --target cuda --diagnostics json a.axn
expect 2 'cpu, cuda or reference; found `gpu`' "$AXON" run --target gpu a.axn
output=$(printf ':set target cuda\n:set\n1.0 + 1.0\n' |
  "$AXON" repl --plain 2>&1)
grep -q '^the target cuda is not available: ' <<<"$output" &&
  grep -q '^help: ' <<<"$output" && grep -q '(now cpu)' <<<"$output" &&
  grep -q '= 2.0$' <<<"$output" || fail ":set target cuda: $output"
output=$(printf '1.0 + 1.0\n:set target cpu\n1.0 + 2.0\n' |
  AXON_TARGET=cuda "$AXON" repl --plain 2>&1)
grep -q "$refused" <<<"$output" && grep -q '= 3.0$' <<<"$output" ||
  fail "from cuda to cpu: $output"
for command in 'check a.axn' 'shapes a.axn' 'fmt --check a.axn'; do
  # shellcheck disable=SC2086
  expect 0 '' env AXON_TARGET=cuda "$AXON" $command
done

# axon plan needs no GPU: it plans for a named architecture, or for the default.
echo 'do print (sum (f32 (iota 300000) * 2.0))' >b.axn
output=$("$AXON" plan --target cuda b.axn 2>&1)
for word in 'Planned for sm_90a.  Dry run' 'sm_90a, indices of 32' \
  'predicted .* by ' 'of a typical sm_90a GPU' 'operations, .* each'; do
  grep -q "$word" <<<"$output" || fail "axon plan: no $word: $output"
done
grep -qE 'uses +([0-9]+ registers of|not known: no NVRTC)' \
  <<<"$output" || fail "axon plan: no report: $output"
AXON_TARGET=cuda "$AXON" plan b.axn 2>&1 | grep -q 'Planned for sm_90a' ||
  fail 'AXON_TARGET=cuda axon plan'
"$AXON" plan --target cuda:sm_75 --json b.axn |
  grep -q '"planned_for":"sm_75".*"predicted_seconds"' || fail 'plan --json'
# Tasks are output tiles, with stream-K too: 4096 * 2048 / (m * n).
echo 'fun x n = bf16 (uniform (key n) [n, 8192] : f32[n, 8192])
do print (sum (f32 (x 4096 @ transpose (x 2048))))' >d.axn
echo 'gemm sm_90a bf16 *x*x* {stream=1}' >stream
output=$(AXON_SCHEDULES=stream "$AXON" plan --target cuda:sm_90a d.axn 2>&1 |
  tr -s ' \n' ' ')
grep -qE 'in 256 tasks of a tile .* m=128 n=256 .* stream=1' <<<"$output" ||
  fail "axon plan: tasks of a stream-K schedule: $output"
echo 'gemm sm_90a f16 *x*x* {stages=four}' >sch
echo 'fun f (x : f16[n, k]) (w : f16[k, m]) = x @ w' >f.axn
expect 1 'sch:1:[0-9]*: stages=four: invalid value of stages' \
  env AXON_SCHEDULES=sch "$AXON" build --target cuda:sm_90a -o f.cu f.axn
expect 0 'uses +not known: no NVRTC' env AXON_NVRTC=/no/such/file \
  "$AXON" plan --target cuda b.axn
expect 2 '`sm_90` is not a supported.*did you mean `sm_90a`' \
  "$AXON" plan --target cuda:sm_90 b.axn
expect 2 '`sm_1` is not a supported.*: these are sm_75' \
  "$AXON" plan --target cuda:sm_1 b.axn
expect 2 "for this architecture, write \`cuda:sm_90a\`" \
  "$AXON" plan --target sm_90 b.axn
expect 2 'the GPU of this machine determines the architecture' \
  "$AXON" run --target cuda:sm_80 b.axn

# A loop with a long body is not unrolled, since that would need more registers.
{
  printf 'val x = cumsum (f32 (iota 3000))\ndo print (sum (0.0'
  for ((k = 1; k < 40; k++)); do
    printf ' + abs (x.[%d:%d] - %d.5)' "$k" $((k + 2000)) "$k"
  done
  echo '))'
} >long.axn
for file_factor in 'b.axn 4' 'long.axn 1'; do
  output=$(AXON_NVRTC=/no/such/file AXON_TINY=0 "$AXON" plan --code \
    --target cuda "${file_factor% *}")
  grep -q "#pragma unroll ${file_factor#* }$" <<<"$output" ||
    fail "unroll factor: expected $file_factor: $output"
done

# No NVRTC, and a file that is no library.
missing='AXON_NVRTC=/no/such/file: file not found'
expect 1 "$missing" env AXON_NVRTC=/no/such/file "$AXON" -e 1 --target cuda
expect 1 "! $missing" env AXON_NVRTC=/no/such/file "$AXON" doctor
echo text >"$PWD/text.so"
expect 1 "AXON_NVRTC: .*$PWD/text.so" env AXON_NVRTC="$PWD/text.so" \
  "$AXON" -e 1 --target cuda

# With a fake driver.
build_driver() { # build_driver FLAGS
  # shellcheck disable=SC2086
  cc -shared -fPIC -w -std=gnu11 -I"$here" ${1-} -x c \
    -o "$work/libcuda.so.1" "$here/tests/unit/cuda_fake.h"
}
on_fake() { env LD_LIBRARY_PATH="$work" "$@"; }
if ! command -v cc >/dev/null; then
  echo 'no C compiler: the tests with a fake driver are skipped'
elif ! build_driver; then
  fail 'the fake driver does not compile'
else
  export -f on_fake
  export work
  with() { expect "$1" "$2" bash -c 'on_fake "$@"' _ "${@:3}"; }
  "$AXON" doctor | grep -q '^nvrtc  *1' && nvrtc=1 || nvrtc=
  if [ "$nvrtc" ]; then
    with 0 '^1' "$AXON" -e 1 --target cuda
  else
    with 1 'target cuda: .*NVRTC' "$AXON" -e 1 --target cuda
  fi
  with 1 "! $missing" env AXON_NVRTC=/no/such/file "$AXON" doctor
  grep -q '^gpu  *Fake GPU 0 (sm_90a), 1016 multiproc.*, 1 MiB' <<<"$output" &&
    grep -q "^driver  *.*for CUDA 13.1, $work/libcuda.so.1" <<<"$output" ||
    fail "axon doctor with a fake driver: $output"
  with 1 'the GPU: initializing it: CUDA_ERROR_FAKE \(it is a fake\)' \
    env FAKE_FAIL=init=999 AXON_TARGET=cuda "$AXON" doctor
  with 1 'the GPU: counting devices: CUDA_ERROR_FAKE' \
    env FAKE_FAIL=device_count=100 "$AXON" -e 1 --target cuda
  grep -q 'help: nvidia-smi -L' <<<"$output" || fail "no help: $output"
  with 1 'the driver finds no device' env FAKE_DEVICES=0 "$AXON" doctor
  with 1 'compute capability 7.0; at least 7.5 is required' \
    env FAKE_CAPABILITY=70 "$AXON" -e 1 --target cuda
  # axon doctor chooses an NVRTC that is not newer than the driver.
  output=$(FAKE_VERSION=12040 on_fake "$AXON" doctor)
  grep -q '^driver .*for CUDA 12.4' <<<"$output" &&
    grep -qE '^nvrtc  *12|libnvrtc.so.12 .the driver supports CUDA 12' \
      <<<"$output" || fail "axon doctor with an older driver: $output"
  if [ "$nvrtc" ]; then
    with 0 'a test kernel was compiled and ran on the GPU' "$AXON" doctor
    with 0 'a test kernel was compiled and ran on the GPU' "$AXON" doctor
    find "$XDG_CACHE_HOME/axon/cuda" -name '*.image' | grep -q . ||
      fail 'the kernel cache is empty'
    for step in launch module_load stream_wait memory_take; do
      with 1 '! the GPU: .*: CUDA_ERROR_FAKE' \
        env FAKE_FAIL=$step=700 "$AXON" doctor
    done
  else
    echo 'no NVRTC: running a kernel is skipped'
  fi
  build_driver -DFAKE_LACKS=1
  with 1 'libcuda.so.1: it has no function cuLaunchKernel' \
    "$AXON" -e 1 --target cuda
fi
exit "$bad"
