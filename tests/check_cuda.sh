#!/bin/bash
# The target cuda as a user meets it: without a driver, with one that is a fake
# (tests/unit/cuda_fake.h), without NVRTC; and our numbers beside those of
# NVIDIA's headers, where these are.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export XDG_CACHE_HOME="$work/cache" NO_COLOR=1
unset AXON_TARGET AXON_NVRTC LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES

expect() { # expect STATUS PATTERN COMMAND...
  want=$1 pattern=$2
  shift 2
  said=$(timeout 100 "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" = "$want" ] || wrong "status $got: $*: $said"
  grep -qE -e "$pattern" <<<"$said" || wrong "no $pattern: $*: $said"
}

# What programs cannot run on is told wherever they would run, and nowhere else.
echo 'do print (sum (iota 5))' >a.axn
"$AXON" fmt a.axn
refused='^error\[E0514\]: nothing runs on the target cuda: '
for verb in run bench; do
  # shellcheck disable=SC2086
  expect 1 "$refused" "$AXON" $verb --target cuda a.axn
  # shellcheck disable=SC2086
  expect 1 "$refused" env AXON_TARGET=cuda "$AXON" $verb a.axn
done
expect 1 "$refused" "$AXON" -e 1 --target cuda
expect 1 "$refused" env AXON_TARGET=cuda "$AXON" test a.axn
expect 1 '"code":"E0514"' "$AXON" run --target cuda --diagnostics json a.axn
expect 2 'cpu, cuda or reference, not `gpu`' "$AXON" run --target gpu a.axn
said=$(printf ':set target cuda\n:set\n1.0 + 1.0\n' | "$AXON" repl --plain 2>&1)
grep -q '^nothing runs on the target cuda: ' <<<"$said" &&
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
for word in 'Planned for sm_90a.  Nothing was run' 'sm_90a, indices of 32' \
  'predicted .* by ' 'those of a usual GPU of sm_90a' 'operations, .* each'; do
  grep -q "$word" <<<"$said" || wrong "axon plan: no $word: $said"
done
grep -qE 'uses +([0-9]+ registers of|not known: there is no NVRTC)' \
  <<<"$said" || wrong "axon plan: no report: $said"
AXON_TARGET=cuda "$AXON" plan b.axn 2>&1 | grep -q 'Planned for sm_90a' ||
  wrong 'AXON_TARGET=cuda axon plan'
"$AXON" plan --target cuda:sm_75 --json b.axn |
  grep -q '"planned_for":"sm_75".*"predicted_seconds"' || wrong 'plan --json'
expect 0 'uses +not known: there is no NVRTC' env AXON_NVRTC=/no/such/file \
  "$AXON" plan --target cuda b.axn
expect 2 '`sm_90` is no arch.*: `sm_90a` is the one' \
  "$AXON" plan --target cuda:sm_90 b.axn
expect 2 '`sm_1` is no arch.*: these are sm_75' \
  "$AXON" plan --target cuda:sm_1 b.axn
expect 2 'of the architecture that it is' "$AXON" run --target cuda:sm_80 b.axn

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
missing='AXON_NVRTC=/no/such/file: there is no such file'
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
  with 1 'the GPU: beginning to use it: CUDA_ERROR_FAKE \(it is a fake\)' \
    env FAKE_FAIL=init=999 AXON_TARGET=cuda "$AXON" doctor
  with 1 'the GPU: counting devices: CUDA_ERROR_FAKE' \
    env FAKE_FAIL=device_count=100 "$AXON" -e 1 --target cuda
  grep -q 'help: nvidia-smi -L' <<<"$said" || wrong "no way out: $said"
  with 1 'the driver has no device' env FAKE_DEVICES=0 "$AXON" doctor
  with 1 'compute capability 7.0: 7.5 is the least' \
    env FAKE_CAPABILITY=70 "$AXON" -e 1 --target cuda
  # NVRTC is not newer than the driver.
  said=$(FAKE_VERSION=12040 faked "$AXON" doctor)
  grep -q '^driver .*for CUDA 12.4' <<<"$said" &&
    grep -qE '^nvrtc  *12|libnvrtc.so.12, as the driver is for CUDA 12' \
      <<<"$said" || wrong "doctor with an older driver: $said"
  if [ "$nvrtc" ]; then
    with 0 'a kernel was compiled, and ran on the GPU' "$AXON" doctor
    with 0 'a kernel was compiled, and ran on the GPU' "$AXON" doctor
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
  with 1 'libcuda.so.1, cannot be used: it has no function cuLaunchKernel' \
    "$AXON" -e 1 --target cuda
fi

# Our numbers are NVIDIA's.
numbers() { # names and numbers, as the header of $1 would have them
  sed -n 's/^E(\([0-9]*\), \([A-Z_]*\),.*/CUDA_ERROR_\2 \1/p' \
    "$here/backend/cuda/errors.def"
  sed -n 's/^ *A(\([0-9]*\), \([A-Z0-9_]*\),.*/CU_DEVICE_ATTRIBUTE_\2 \1/p' \
    "$here/backend/cuda/driver.c"
  echo 'CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
CU_STREAM_NON_BLOCKING 1
CU_EVENT_DEFAULT 0
CU_TENSOR_MAP_DATA_TYPE_UINT16 1
CU_TENSOR_MAP_DATA_TYPE_UINT32 2
CU_TENSOR_MAP_INTERLEAVE_NONE 0
CU_TENSOR_MAP_SWIZZLE_NONE 0
CU_TENSOR_MAP_SWIZZLE_32B 1
CU_TENSOR_MAP_SWIZZLE_64B 2
CU_TENSOR_MAP_SWIZZLE_128B 3
CU_TENSOR_MAP_L2_PROMOTION_L2_256B 3
CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE 0
CUDA_ERROR_NOT_SUPPORTED 801
NVRTC_ERROR_INVALID_OPTION 5
NVRTC_ERROR_COMPILATION 6
NVRTC_ERROR_BUILTIN_OPERATION_FAILURE 7'
}
headers=
for folder in "${CUDA_HOME-}/include" /usr/local/cuda/include /usr/include; do
  [ -z "$headers" ] && [ -e "$folder/cuda.h" ] && [ -e "$folder/nvrtc.h" ] &&
    headers=$folder
done
if [ -z "$headers" ] || ! command -v cc >/dev/null; then
  echo 'no cuda.h and nvrtc.h: our numbers beside theirs are skipped'
else
  [ "$(numbers | wc -l)" -gt 45 ] || wrong "only $(numbers | wc -l) numbers"
  {
    echo '#include <cuda.h>'
    echo '#include <nvrtc.h>'
    numbers | while read -r name number; do
      echo "_Static_assert($name == $number, \"$name\");"
    done
    # the functions, with arguments of these sizes
    echo 'typedef CUresult CuResult; typedef CUdevice CuDevice;'
    echo 'typedef CUcontext CuContext; typedef CUmodule CuModule;'
    echo 'typedef CUfunction CuFunction; typedef CUstream CuStream;'
    echo 'typedef CUevent CuEvent; typedef CUdeviceptr CuAddress;'
    echo 'typedef CUgraph CuGraph; typedef CUgraphNode CuNode;'
    echo 'typedef CUgraphExec CuGraphExec;'
    echo 'typedef CUDA_KERNEL_NODE_PARAMS_v2 CuKernelNode;'
    echo 'typedef nvrtcProgram NvrtcProgram;'
    echo '#define CU(name, symbol, arguments) CUresult (*t_##name) arguments;'
    echo '#include "backend/cuda/driver.def"'
    echo '#define NV(result, name, symbol, arguments) \'
    echo '  result (*t_nvrtc_##name) arguments;'
    echo '#include "backend/cuda/nvrtc.def"'
    echo 'void all(void) {'
    sed -n 's/^CU(\([a-z_]*\), "\([A-Za-z0-9_]*\)".*/t_\1 = (void *)\2;/p' \
      "$here/backend/cuda/driver.def" | grep -v EventElapsed
    echo '}'
  } >"$work/numbers.c"
  { # and the struct that we hand over
    echo '#include <cuda.h>'
    echo '#include <stddef.h>'
    echo '#include "backend/cuda/map.h"'
    for pair in function:func grid:gridDimX block:blockDimX \
      shared:sharedMemBytes arguments:kernelParams extra:extra kernel:kern \
      context:ctx; do
      echo "_Static_assert(offsetof(CuKernelNode, ${pair%:*}) =="
      echo "  offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ${pair#*:}), \"$pair\");"
    done
    echo '_Static_assert(sizeof(CuKernelNode) =='
    echo '  sizeof(CUDA_KERNEL_NODE_PARAMS_v2), "a node");'
    echo '_Static_assert(MAP_BYTES == sizeof(CUtensorMap), "a map");'
  } >"$work/structs.c"
  for file in numbers structs; do
    cc -std=gnu11 -fsyntax-only -I"$headers" -I"$here" "$work/$file.c" ||
      wrong "our $file are not those of $headers"
  done
fi
exit "$bad"
