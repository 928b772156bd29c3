#!/bin/bash
# Attention in modules that `axon build` makes for GPUs: one kernel for all
# numbers of rows, terms and heads.  It uses warpgroups if TMA supports the
# tensors of the call.  The modules are called as in check_cudabuild.sh.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset LD_LIBRARY_PATH AXON_TARGET
data=$here/tests/data/build/attention.axn

module() { # module OUTPUT ARCHITECTURE NAME...
  output=$1 arch=$2
  shift 2
  "$AXON" build --target "cuda:$arch" -o "$output" \
    "${@/#/--entry=}" "$data" || wrong "no $output"
}

# The kernels that there are, as the manifest has them.
module all.cu sm_90a plain causal narrow window floats grouped later biased \
  alibi capped weights several likely rows
counted() { # counted LEAST SCHEDULE
  count=$(grep -o "\"schedule\":\"$2" all.json | wc -l)
  [ "$count" -ge "$1" ] || wrong "$count kernels, and not $1, of $2"
}
counted 8 'fused attention, tile for sm_90a: way=wgmma'
counted 10 'fused attention, tile for sm_90a: way=mma'
counted 2 'tile for sm_90a: way=fma'   # several
counted 2 'tile for sm_90a: way=wgmma' # likely, rows
counted 2 'tile for sm_90a: way=mma'

. "$here/tests/cuda_fakes.sh"
command -v python3 >/dev/null || skipped 'no python3'
export AXON_NVRTC="$work/libnvrtc.so.13" AXON_SOURCE="$here"

called() { # called CAPABILITY MOST SIZE...
  capability=$1
  shift
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 \
    FAKE_CAPABILITY="$capability" timeout 1500 python3 \
    "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json "$@" \
    >said 2>&1 || wrong "$*: $(tail -n 20 said)"
}
both() { # both ARCHITECTURE NAME...: the module, and the same for the CPU
  module gpu.so "$@"
  shift
  "$AXON" build "${@/#/--entry=}" -o host.c "$data" &&
    "${CC:-cc}" -w -O0 -shared -fPIC host.c -o host.so -lm 2>said ||
    wrong "no host.so: $(head -n 5 said)"
}
both sm_90a plain causal grouped later capped weights rows
called 90 20000 0 1 18 200
called 90 20000 9 70 apart
both sm_80,sm_75 narrow window floats biased alibi several likely rows
called 86 20000 0 3 150
exit "$bad"
