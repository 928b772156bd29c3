#!/bin/bash
# The target cuda, as a user sees it: without a driver, with a fake driver
# (tests/unit/cuda_fake.h), and without NVRTC.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export XDG_CACHE_HOME="$work/cache" NO_COLOR=1
unset AXON_TARGET AXON_NVRTC LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES

expect() { # expect STATUS PATTERN COMMAND...
  want=$1 pattern=$2
  shift 2
  said=$(timeout 500 "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" = "$want" ] || wrong "status $got: $*: $said"
  grep -qE -e "$pattern" <<<"$said" || wrong "no $pattern: $*: $said"
}

# What programs cannot run on is told wherever they would run, and nowhere else.
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
said=$(printf ':set target cuda\n:set\n1.0 + 1.0\n' | "$AXON" repl --plain 2>&1)
grep -q '^the target cuda is not available: ' <<<"$said" &&
  grep -q '^help: ' <<<"$said" && grep -q '(now cpu)' <<<"$said" &&
  grep -q '= 2.0$' <<<"$said" || wrong ":set target cuda: $said"
said=$(printf '1.0 + 1.0\n:set target cpu\n1.0 + 2.0\n' |
  AXON_TARGET=cuda "$AXON" repl --plain 2>&1)
grep -q "$refused" <<<"$said" && grep -q '= 3.0$' <<<"$said" ||
  wrong "from cuda to cpu: $said"
for command in 'check a.axn' 'shapes a.axn' 'fmt --check a.axn'; do
  # shellcheck disable=SC2086
  expect 0 '' env AXON_TARGET=cuda "$AXON" $command
done

# What is planned for a GPU needs none: for one that is named, or the usual one.
echo 'do print (sum (f32 (iota 300000) * 2.0))' >b.axn
said=$("$AXON" plan --target cuda b.axn 2>&1)
for word in 'Planned for sm_90a.  Dry run' 'sm_90a, indices of 32' \
  'predicted .* by ' 'of a typical sm_90a GPU' 'operations, .* each'; do
  grep -q "$word" <<<"$said" || wrong "axon plan: no $word: $said"
done
grep -qE 'uses +([0-9]+ registers of|not known: no NVRTC)' \
  <<<"$said" || wrong "axon plan: no report: $said"
AXON_TARGET=cuda "$AXON" plan b.axn 2>&1 | grep -q 'Planned for sm_90a' ||
  wrong 'AXON_TARGET=cuda axon plan'
"$AXON" plan --target cuda:sm_75 --json b.axn |
  grep -q '"planned_for":"sm_75".*"predicted_seconds"' || wrong 'plan --json'
# Tasks are tiles, also where their sums are cut up: 4096 * 2048 / (m * n).
echo 'fun x n = bf16 (uniform (key n) [n, 8192] : f32[n, 8192])
do print (sum (f32 (x 4096 @ transpose (x 2048))))' >d.axn
echo 'sm_90a bf16 *x*x*: stream=1' >stream
said=$(AXON_SCHEDULES=stream "$AXON" plan --target cuda:sm_90a d.axn 2>&1 |
  tr -s ' \n' ' ')
grep -qE 'in 256 tasks of a tile .* m=128 n=256 .* stream=1' <<<"$said" ||
  wrong "axon plan: tasks of a stream: $said"
echo 'sm_90a f16 *x*x*: stages=four' >sch
echo 'fun f (x : f16[n, k]) (w : f16[k, m]) = x @ w' >f.axn
expect 1 'sch:1: stages=four: invalid value of stages' \
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

# A long loop is written out once: more of it would want more registers.
{
  printf 'val x = cumsum (f32 (iota 3000))\ndo print (sum (0.0'
  for ((k = 1; k < 40; k++)); do
    printf ' + abs (x.[%d:%d] - %d.5)' "$k" $((k + 2000)) "$k"
  done
  echo '))'
} >long.axn
for wanted in 'b.axn 4' 'long.axn 1'; do
  said=$(AXON_NVRTC=/no/such/file AXON_TINY=0 "$AXON" plan --code \
    --target cuda "${wanted% *}")
  grep -q "#pragma unroll ${wanted#* }$" <<<"$said" ||
    wrong "not $wanted at once: $said"
done

# Without NVRTC, and with what is none.
missing='AXON_NVRTC=/no/such/file: file not found'
expect 1 "$missing" env AXON_NVRTC=/no/such/file "$AXON" -e 1 --target cuda
expect 1 "! $missing" env AXON_NVRTC=/no/such/file "$AXON" doctor
echo text >"$PWD/text.so"
expect 1 "AXON_NVRTC: .*$PWD/text.so" env AXON_NVRTC="$PWD/text.so" \
  "$AXON" -e 1 --target cuda

# With a driver that is a fake.
driver() { # driver FLAGS: makes it anew
  # shellcheck disable=SC2086
  cc -shared -fPIC -w -std=gnu11 -I"$here" ${1-} -x c \
    -o "$work/libcuda.so.1" "$here/tests/unit/cuda_fake.h"
}
faked() { env LD_LIBRARY_PATH="$work" "$@"; }
if ! command -v cc >/dev/null; then
  echo 'no C compiler: the fake of a driver is skipped'
elif ! driver; then
  wrong 'the fake of a driver is not compiled'
else
  export -f faked
  export work
  with() { expect "$1" "$2" bash -c 'faked "$@"' _ "${@:3}"; }
  "$AXON" doctor | grep -q '^nvrtc  *1' && nvrtc=1 || nvrtc=
  if [ "$nvrtc" ]; then
    with 0 '^1' "$AXON" -e 1 --target cuda
  else
    with 1 'target cuda: .*NVRTC' "$AXON" -e 1 --target cuda
  fi
  with 1 "! $missing" env AXON_NVRTC=/no/such/file "$AXON" doctor
  grep -q '^gpu  *Fake GPU 0 (sm_90a), 1016 multiproc.*, 1 MiB' <<<"$said" &&
    grep -q "^driver  *.*for CUDA 13.1, $work/libcuda.so.1" <<<"$said" ||
    wrong "doctor with a fake: $said"
  with 1 'the GPU: initializing it: CUDA_ERROR_FAKE \(it is a fake\)' \
    env FAKE_FAIL=init=999 AXON_TARGET=cuda "$AXON" doctor
  with 1 'the GPU: counting devices: CUDA_ERROR_FAKE' \
    env FAKE_FAIL=device_count=100 "$AXON" -e 1 --target cuda
  grep -q 'help: nvidia-smi -L' <<<"$said" || wrong "no way out: $said"
  with 1 'the driver finds no device' env FAKE_DEVICES=0 "$AXON" doctor
  with 1 'compute capability 7.0; at least 7.5 is required' \
    env FAKE_CAPABILITY=70 "$AXON" -e 1 --target cuda
  # NVRTC is not newer than the driver.
  said=$(FAKE_VERSION=12040 faked "$AXON" doctor)
  grep -q '^driver .*for CUDA 12.4' <<<"$said" &&
    grep -qE '^nvrtc  *12|libnvrtc.so.12 .the driver supports CUDA 12' \
      <<<"$said" || wrong "doctor with an older driver: $said"
  if [ "$nvrtc" ]; then
    with 0 'a test kernel was compiled and ran on the GPU' "$AXON" doctor
    with 0 'a test kernel was compiled and ran on the GPU' "$AXON" doctor
    find "$XDG_CACHE_HOME/axon/cuda" -name '*.image' | grep -q . ||
      wrong 'nothing was kept'
    for step in launch module_load stream_wait memory_take; do
      with 1 '! the GPU: .*: CUDA_ERROR_FAKE' \
        env FAKE_FAIL=$step=700 "$AXON" doctor
    done
  else
    echo 'no NVRTC: running a kernel is skipped'
  fi
  driver -DFAKE_LACKS=1
  with 1 'libcuda.so.1: it has no function cuLaunchKernel' \
    "$AXON" -e 1 --target cuda
fi
exit "$bad"
