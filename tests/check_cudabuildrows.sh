#!/bin/bash
# Attention in GPU modules of `axon build`: one kernel supports all numbers of
# queries, keys and heads.  It uses wgmma if TMA supports the tensors of the
# call.  The modules are called as in check_cudabuild.sh.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset LD_LIBRARY_PATH AXON_TARGET
data=$here/tests/data/build/attention.axn

module() { # module OUTPUT ARCHITECTURE NAME...
  output=$1 arch=$2
  shift 2
  "$AXON" build --target "cuda:$arch" -o "$output" \
    "${@/#/--entry=}" "$data" || fail "cannot build $output"
}

# The manifest lists the kernels and their schedules.
module all.cu sm_90a plain causal narrow window floats grouped later biased \
  alibi capped weights several likely rows
count_kernels() { # count_kernels MIN SCHEDULE
  count=$(grep -o "\"schedule\":\"$2" all.json | wc -l)
  [ "$count" -ge "$1" ] || fail "$count kernels, expected at least $1: $2"
}
count_kernels 8 'fused attention, tile for sm_90a: way=wgmma'
count_kernels 10 'fused attention, tile for sm_90a: way=mma'
count_kernels 2 'tile for sm_90a: way=fma'   # several
count_kernels 2 'tile for sm_90a: way=wgmma' # likely, rows
count_kernels 2 'tile for sm_90a: way=mma'

. "$here/tests/cuda_fakes.sh"
command -v python3 >/dev/null || skipped 'no python3'
export AXON_NVRTC="$work/libnvrtc.so.13"

call_module() { # call_module CAPABILITY MAX_ELEMENTS SIZE...
  capability=$1
  shift
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 \
    FAKE_CAPABILITY="$capability" timeout 1500 python3 \
    "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json "$@" \
    >output 2>&1 || fail "$*: $(tail -n 20 output)"
}
build_both() { # build_both ARCHITECTURE NAME...: builds gpu.so and host.so
  module gpu.so "$@"
  shift
  "$AXON" build "${@/#/--entry=}" -o host.c "$data" &&
    "${CC:-cc}" -w -O0 -shared -fPIC host.c -o host.so -lm 2>output ||
    fail "cannot build host.so: $(head -n 5 output)"
}
build_both sm_90a plain causal grouped later capped weights rows
call_module 90 20000 0 1 18 200
call_module 90 20000 9 70 unaligned
build_both sm_80,sm_75 narrow window floats biased alibi several likely rows
call_module 86 20000 0 3 150
exit "$bad"
