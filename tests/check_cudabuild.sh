#!/bin/bash
# `axon build` for GPUs.  Modules are called with memory of a fake driver, and
# the simulator runs their kernels; results are compared with those of the CPU.
# nvcc, if installed, compiles the source.  Functions that cannot be built are
# reported.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
data=$here/tests/data/build/cuda.axn

refused() { # refused PATTERN ARGUMENT...
  pattern=$1
  shift
  said=$("$AXON" build "$@" 2>&1) && wrong "it is built: $*"
  grep -q -e "$pattern" <<<"$said" || wrong "no $pattern: $*: $said"
}
refused 'needs a GPU target, for example --target' -o m.cu "$data"
refused 'one architecture; for several' --target cuda:sm_80,sm_90a -o m.cu \
  "$data"
refused '`sm_81` is not a supported' --target cuda:sm_80,sm_81 -o m.so "$data"
refused 'duplicate architecture sm_80' --target cuda:sm_80,sm_80 -o m.so "$data"
refused 'needs a name that ends in .cu' --target cuda -o m "$data"
refused 'must be cpu, or a GPU such as' --target reference -o m.so "$data"
echo 'fun f (x : f32[n]) = sort x' >sort.axn
refused 'E0613.*CUDA code generation' --target cuda -o m.cu sort.axn

# The text: the same each time, and taken by nvcc.
"$AXON" build --target cuda:sm_90a -o m.cu "$data" || wrong 'no m.cu'
cp m.cu first.cu
"$AXON" build --target cuda:sm_90a -o m.cu "$data"
cmp -s m.cu first.cu || wrong 'another text'
echo 'fun f (x : bf16[n, 64]) (y : bf16[64, m]) = x @ y' >groups.axn
"$AXON" build --target cuda:sm_90a -o groups.cu groups.axn || wrong 'no groups'
grep -q 'wgmma' groups.cu || wrong 'no product by warpgroups'
PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null; then
  for name in m groups; do
    said=$(eval "$(sed -n '1s|^/. \(nvcc .*\) ./$|\1|p' "$name.cu")" 2>&1) &&
      [ -z "$said" ] && [ -s "$name.o" ] ||
      wrong "nvcc: $name: $(head -5 <<<"$said")"
  done
else
  echo 'no nvcc: the text is not compiled'
fi

. "$here/tests/cuda_fakes.sh"
command -v python3 >/dev/null || skipped 'no python3'
export AXON_NVRTC="$work/libnvrtc.so.13" AXON_SOURCE="$here"
export FAKE_DEFAULT=1
"$AXON" build --target cuda:sm_90a,sm_80 -o gpu.so "$data" || wrong 'no gpu.so'
"$AXON" build -o host.so "$data" || wrong 'no host.so'
nm -D --undefined-only gpu.so | grep -E ' (cu[A-Z]|nvrtc)' &&
  wrong 'it is linked with the driver'
for word in '"target":"cuda"' '"arch":"sm_80"' '"pass":"device pointer"' \
  '"blocks":"'; do
  grep -q "$word" gpu.json || wrong "no $word in the manifest"
done
grep -q 'x: f32\[k, n\]' gpu.h || wrong 'no shapes in the header'

called() { # called HOW NAME=VALUE...
  how=$1
  shift
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 "$@" \
    timeout 1500 python3 "$here/tests/cuda_module.py" gpu.so gpu.json host.so \
    host.json $how >said 2>&1 ||
    wrong "$how $*: $(tail -n 20 said)"
}
called '' FAKE_CAPABILITY=90
called default FAKE_CAPABILITY=86 FAKE_PLAIN=1
env LD_LIBRARY_PATH="$work" FAKE_CAPABILITY=75 python3 \
  "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 2>&1 |
  grep -q 'this code does not support the GPU; it supports: sm_90a, sm_80' ||
  wrong 'an architecture that it has no code for'
env LD_LIBRARY_PATH="$work" FAKE_FAIL=launch=719 python3 \
  "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 2>&1 |
  grep -q "driver failed: see gpu_driver_error.*(driver: 719)" ||
  wrong 'a driver that fails'

# What could not be loaded as a whole goes, and the next call loads it.
for step in module_function stream_wait; do
  env LD_LIBRARY_PATH="$work" FAKE_FAIL=$step=2 FAKE_TELL=1 python3 \
    "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 70 1 \
    >said 2>&1 && wrong "no $step, and no error"
  grep -q '[0-9] calls, 1 wrong' said &&
    [ "$(grep -c 'a module goes' said)" = 1 ] ||
    wrong "no $step: $(tail -n 5 said)"
done

# Products by warpgroups, where TMA takes the tensors of the call.  Counters of
# parts of sums are 0 in each call; images are pixels; sizes that are no
# multiples of 8 go the other way, and so do arrays that are not aligned, unless
# they are copied.
products=$here/tests/data/build/products.axn
echo '* f16 64x64x*: way=wgmma m=64 n=32 warps_m=2 pingpong=1 stream=1' \
  >schedules
AXON_SCHEDULES=schedules "$AXON" build --target cuda:sm_80,sm_90a -o tma.so \
  "$products" || wrong 'no tma.so'
"$AXON" build -o host.so "$products" || wrong 'no host.so of products'
for word in 'way=wgmma.*stream=1' 'way=wgmma' 'way=mma'; do
  grep -q "\"arch\":\"sm_90a\",\"schedule\":\"tile for sm_90a: $word" \
    tma.json || wrong "no $word in the manifest"
done
told() { # what went wrong
  grep -v -e '^a tensor' -e '^k[0-9]*_[0-9]*$' said | tail -n 9
}
multiplied() { # multiplied BOXES PIXELS SIZES [NAME=VALUE...]
  boxes=$1 pixels=$2 sizes=$3
  shift 3
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 FAKE_TELL=1 \
    FAKE_CAPABILITY=90 "$@" timeout 1500 python3 "$here/tests/cuda_module.py" \
    tma.so tma.json host.so host.json 9999999 $sizes >said 2>&1 ||
    wrong "products at $sizes $*: $(told)"
  made="$(grep -c 'map of boxes' said) $(grep -c 'map of pixels' said)"
  [ "$made" = "$boxes $pixels" ] ||
    wrong "at $sizes there are maps of boxes and of pixels: $made"
}
multiplied 42 4 "8 24" FAKE_PROCESSORS=1
multiplied 8 3 "0 1 33"
multiplied 24 4 "8 threads apart"
env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 \
  FAKE_FAIL=memory_take_on=2 python3 "$here/tests/cuda_module.py" tma.so \
  tma.json host.so host.json 9999999 8 >said 2>&1 &&
  wrong 'no memory, and no error'
grep -q 'long at .*out of memory.*(driver: 2)' said &&
  grep -q '10 calls, 1 wrong' said || wrong "no memory: $(tail -n 5 said)"

# The first text of each is that for large sizes: it is taken where most
# multiprocessors have a tile of it, and no tile is padding mostly.  Three
# clusters have parts of sums of tiles here.
started() { # started KERNEL MOST SIZES: of $entry all that is
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=6 FAKE_TELL=1 \
    FAKE_CAPABILITY=90 timeout 1500 python3 "$here/tests/cuda_module.py" \
    one.so one.json host.so host.json $2 $3 >said 2>&1 ||
    wrong "$entry at $3: $(told)"
  kernels=$(grep '^k[0-9]*_[0-9]*$' said | sort -u | tr '\n' ' ')
  [ "$kernels" = "$1 " ] || wrong "$entry at $3 is by $kernels, and not by $1"
}
echo 'sm_90a * 4096x4096x*: stream=1 cluster_m=2' >streams
for entry in dense batched line prod; do
  schedules=/dev/null
  case $entry in dense | batched) schedules=streams ;; esac
  AXON_SCHEDULES=$schedules "$AXON" build --target cuda:sm_90a \
    --entry "$entry" -o one.so "$products" || wrong "no $entry"
  case $entry in
  dense | batched) grep -q '"k1_0"[^}]*stream=1' one.json ||
    wrong "no parts of sums in $entry" ;;
  esac
  started k1_0 99999999 272
  started k2_0 99999999 24
done
started k2_0 99999 '16 4096'
started k2_0 99999 '4096 16'
started k2_0 999 '24 short'
started k3_0 999 '9 short'

LD_LIBRARY_PATH="$work" FAKE_CAPABILITY=90 python3 >said <<'END'
import ctypes
tma = ctypes.CDLL("./tma.so")
tma.tma_message.restype = ctypes.c_char_p
code = tma.tma_prod_call(None, (ctypes.c_int64 * 2)(1 << 31, 8),
                     (ctypes.c_void_p * 2)(0, 0), (ctypes.c_void_p * 1)(0))
print(tma.tma_message(code).decode())
END
grep -q 'too large for a GPU: more than 2^31' said ||
  wrong "many rows: $(cat said)"

for kind in ptx cubin o a; do
  "$AXON" build --target cuda:sm_80 -o "made.$kind" "$data" &&
    [ -s "made.$kind" ] || wrong "no made.$kind"
done
echo 'fun message (x : f32[n]) = x + 1.0
fun driver_error (x : f32[n]) = x + 2.0
fun map (x : f32[n]) = x + 3.0' >names.axn
"$AXON" build --target cuda:sm_80 -o make.so names.axn ||
  wrong 'names that the text has, too'
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=. pkg-config --libs gpu | grep -q -e -ldl || wrong 'gpu.pc'
fi
exit "$bad"
