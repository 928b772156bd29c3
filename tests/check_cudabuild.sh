#!/bin/bash
# `axon build` for GPUs.  tests/cuda_module.py calls the modules with memory of
# a fake driver, the simulator runs their kernels, and the results are compared
# with those of the CPU.  nvcc, if installed, compiles the source.  Functions
# that cannot be built are reported.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
data=$here/tests/data/build/cuda.axn

refused() { # refused PATTERN ARGUMENT...
  pattern=$1
  shift
  output=$("$AXON" build "$@" 2>&1) && fail "not refused: $*"
  grep -q -e "$pattern" <<<"$output" ||
    fail "no '$pattern' in the error of $*: $output"
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

# The source is reproducible, and nvcc accepts it.
"$AXON" build --target cuda:sm_90a -o m.cu "$data" ||
  fail 'cannot build m.cu'
cp m.cu first.cu
"$AXON" build --target cuda:sm_90a -o m.cu "$data"
cmp -s m.cu first.cu || fail 'the source is not reproducible'
echo 'fun f (x : bf16[n, 64]) (y : bf16[64, m]) = x @ y' >groups.axn
"$AXON" build --target cuda:sm_90a -o groups.cu groups.axn ||
  fail 'cannot build groups.cu'
grep -q 'wgmma' groups.cu || fail 'the matmul does not use wgmma'
PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null; then
  for name in m groups; do
    output=$(eval "$(sed -n '1s|^/. \(nvcc .*\) ./$|\1|p' "$name.cu")" 2>&1) &&
      [ -z "$output" ] && [ -s "$name.o" ] ||
      fail "nvcc: $name: $(head -5 <<<"$output")"
  done
else
  echo 'no nvcc: compiling the source is skipped'
fi

. "$here/tests/cuda_fakes.sh"
command -v python3 >/dev/null || skipped 'no python3'
export AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_DEFAULT=1
# Builds the CPU module, with which results are compared.  Optimization would
# take longer than the calls.
host_module() { # host_module FILE
  "$AXON" build -o host.c "$1" &&
    "${CC:-cc}" -w -O0 -shared -fPIC host.c -o host.so -lm 2>output ||
    fail "cannot build host.so of $1: $(head -n 5 output)"
}
"$AXON" build --target cuda:sm_90a,sm_80 -o gpu.so "$data" ||
  fail 'cannot build gpu.so'
host_module "$data"
nm -D --undefined-only gpu.so | grep -E ' (cu[A-Z]|nvrtc)' &&
  fail 'gpu.so is linked with the driver'
for word in '"target":"cuda"' '"arch":"sm_80"' '"pass":"device pointer"' \
  '"blocks":"'; do
  grep -q "$word" gpu.json || fail "no $word in the manifest"
done
grep -q 'x: f32\[k, n\]' gpu.h || fail 'no shapes in the header'

# Compares gpu.so with host.so.  OPTIONS are those of cuda_module.py; NAME=VALUE
# are settings of the fake driver.
call_module() { # call_module OPTIONS NAME=VALUE...
  options=$1
  shift
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 "$@" \
    timeout 1500 python3 "$here/tests/cuda_module.py" gpu.so gpu.json host.so \
    host.json $options >output 2>&1 ||
    fail "$options $*: $(tail -n 20 output)"
}
call_module '' FAKE_CAPABILITY=90
call_module default FAKE_CAPABILITY=86 FAKE_PLAIN=1
# Other schedules of passes without sums, for all sizes.
"$AXON" build --target cuda:sm_90a --schedule -o gpu.so "$data" >chosen.axs
sed -E 's/1: tile i0 32.*shared i0/1: tile i0 4; tile i1 24; tile i1 8;\
    order i0.1, i1.2, i1.1, i0, i1; blocks i0.1; blocks i1.2; threads i0;\
    threads i1/
  s/^(  1: tile i[0-9]*) 128(; blocks i[0-9]*.1; threads i[0-9]*)$/\1 96\2/' \
  chosen.axs >other.axs
grep -q 'tile i1 24' other.axs && grep -q ' 96; blocks' other.axs ||
  fail "no schedule to change: $(cat chosen.axs)"
"$AXON" build --target cuda:sm_90a --schedules other.axs -o gpu.so "$data" ||
  fail 'cannot build gpu.so with other schedules'
call_module '' FAKE_CAPABILITY=90
"$AXON" build --target cuda:sm_90a,sm_80 -o gpu.so "$data"
env LD_LIBRARY_PATH="$work" FAKE_CAPABILITY=75 python3 \
  "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 2>&1 |
  grep -q 'this code does not support the GPU; it supports: sm_90a, sm_80' ||
  fail 'an unsupported architecture is not reported'
env LD_LIBRARY_PATH="$work" FAKE_FAIL=launch=719 python3 \
  "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 2>&1 |
  grep -q "driver failed: see gpu_driver_error.*(driver: 719)" ||
  fail 'a driver error is not reported'

# If loading a module fails halfway, it is unloaded, and the next call loads it
# again.
for step in module_function stream_wait; do
  env LD_LIBRARY_PATH="$work" FAKE_FAIL=$step=2 FAKE_LOG=1 python3 \
    "$here/tests/cuda_module.py" gpu.so gpu.json host.so host.json 70 1 \
    >output 2>&1 && fail "$step fails, but no error is reported"
  grep -q '[0-9] calls, 1 wrong' output &&
    [ "$(grep -c 'a module is unloaded' output)" = 1 ] ||
    fail "$step fails: $(tail -n 5 output)"
done

# Matmuls use wgmma if TMA supports the tensors of the call.  Convolutions use
# im2col tensor maps.  If a size is no multiple of 8, or if an array that is not
# copied is unaligned, another kernel runs.  The stream-K counters are 0 at the
# start of each call.
products=$here/tests/data/build/products.axn
echo 'gemm * f16 64x64x* {way=wgmma m=64 n=32 warps_m=2 pingpong=1 stream=1}' \
  >schedules
AXON_SCHEDULES=schedules "$AXON" build --target cuda:sm_80,sm_90a -o tma.so \
  "$products" || fail 'cannot build tma.so'
host_module "$products"
for word in 'way=wgmma.*stream=1' 'way=wgmma' 'way=mma'; do
  grep -q "\"arch\":\"sm_90a\",\"schedule\":\"tile for sm_90a: $word" \
    tma.json || fail "no $word in the manifest"
done
errors() { # prints the errors in the output of cuda_module.py
  grep -v -e ' tensor map$' -e '^k[0-9]*_[0-9]*$' output | tail -n 9
}
# Compares tma.so with host.so at the given sizes.  Checks how many tiled and
# im2col tensor maps the module creates.
count_tensor_maps() { # count_tensor_maps TILED IM2COL SIZES [NAME=VALUE...]
  tiled=$1 im2col=$2 sizes=$3
  shift 3
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 FAKE_LOG=1 \
    FAKE_CAPABILITY=90 "$@" timeout 1500 python3 "$here/tests/cuda_module.py" \
    tma.so tma.json host.so host.json 9999999 $sizes >output 2>&1 ||
    fail "matmuls at $sizes $*: $(errors)"
  maps="$(grep -c 'tiled tensor map' output)"
  maps="$maps $(grep -c 'im2col tensor map' output)"
  [ "$maps" = "$tiled $im2col" ] ||
    fail "tiled and im2col tensor maps at $sizes: $maps, not $tiled $im2col"
}
count_tensor_maps 42 4 "8 24" FAKE_PROCESSORS=1
count_tensor_maps 8 3 "0 1 33"
count_tensor_maps 24 4 "8 threads unaligned"
env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=4 \
  FAKE_FAIL=memory_take_on=2 python3 "$here/tests/cuda_module.py" tma.so \
  tma.json host.so host.json 9999999 8 >output 2>&1 &&
  fail 'out of memory, but no error is reported'
grep -q 'long at .*out of memory.*(driver: 2)' output &&
  grep -q '10 calls, 1 wrong' output ||
  fail "out of memory: $(tail -n 5 output)"

# Each function has several kernels; k1_0 is the one for large sizes.  It runs
# if most SMs get a tile, and if no tile is mostly padding.  Stream-K uses three
# clusters here.
launches_only() { # launches_only KERNEL MAX_ELEMENTS SIZES: for function $entry
  # shellcheck disable=SC2086
  env LD_LIBRARY_PATH="$work" FAKE_MEMORY=2000 FAKE_PROCESSORS=6 FAKE_LOG=1 \
    FAKE_CAPABILITY=90 timeout 1500 python3 "$here/tests/cuda_module.py" \
    one.so one.json host.so host.json $2 $3 >output 2>&1 ||
    fail "$entry at $3: $(errors)"
  kernels=$(grep '^k[0-9]*_[0-9]*$' output | sort -u | tr '\n' ' ')
  [ "$kernels" = "$1 " ] || fail "$entry at $3 launches $kernels, not $1"
}
echo 'gemm sm_90a * 4096x4096x* {stream=1 cluster_m=2}' >streams
for entry in dense batched line prod; do
  schedules=/dev/null
  case $entry in dense | batched) schedules=streams ;; esac
  AXON_SCHEDULES=$schedules "$AXON" build --target cuda:sm_90a \
    --entry "$entry" -o one.so "$products" || fail "cannot build $entry"
  case $entry in
  dense | batched) grep -q '"k1_0"[^}]*stream=1' one.json ||
    fail "$entry does not use stream-K" ;;
  esac
  launches_only k1_0 99999999 272
  launches_only k2_0 99999999 24
done
launches_only k2_0 99999 '16 4096'
launches_only k2_0 99999 '4096 16'
launches_only k2_0 999 '24 short'
launches_only k3_0 999 '9 short'

LD_LIBRARY_PATH="$work" FAKE_CAPABILITY=90 python3 >output <<'END'
import ctypes
tma = ctypes.CDLL("./tma.so")
tma.tma_message.restype = ctypes.c_char_p
code = tma.tma_prod_call(None, (ctypes.c_int64 * 2)(1 << 31, 8),
                     (ctypes.c_void_p * 2)(0, 0), (ctypes.c_void_p * 1)(0))
print(tma.tma_message(code).decode())
END
grep -q 'too large for a GPU: more than 2^31' output ||
  fail "too many rows are not reported: $(cat output)"

for kind in ptx cubin o a; do
  "$AXON" build --target cuda:sm_80 -o "made.$kind" "$data" &&
    [ -s "made.$kind" ] || fail "cannot build made.$kind"
done
echo 'fun message (x : f32[n]) = x + 1.0
fun driver_error (x : f32[n]) = x + 2.0
fun map (x : f32[n]) = x + 3.0' >names.axn
"$AXON" build --target cuda:sm_80 -o make.so names.axn ||
  fail 'names clash with those of the generated code'
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=. pkg-config --libs gpu | grep -q -e -ldl || fail 'gpu.pc'
fi
exit "$bad"
