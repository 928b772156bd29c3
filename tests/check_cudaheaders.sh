#!/bin/bash
# Compares our declarations of NVIDIA's driver and of NVRTC with their headers,
# if these are installed: constants, structs, and the number and kinds of
# arguments of each function (cuda_headers.cc).
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"

headers=
for folder in "${CUDA_HOME-}/include" /usr/local/cuda/include /usr/include; do
  [ -z "$headers" ] && [ -e "$folder/cuda.h" ] && [ -e "$folder/nvrtc.h" ] &&
    headers=$folder
done
if [ -z "$headers" ] || ! command -v cc >/dev/null; then
  echo 'no cuda.h and nvrtc.h: skipped'
  exit 0
fi
cuda=$here/backend/cuda host=$here/aot/cuda_runtime.inc

# Reads pairs of our name in FILE and NVIDIA's name.  Prints NVIDIA's name and
# our number.
numbers_of() { # numbers_of FILE
  while read -r ours theirs; do
    number=$(sed -n "s/.*\\<$ours = \([0-9]*\)[, ].*/\1/p" "$here/$1")
    echo "$theirs ${number:-is_not_in_$1}"
  done
}
rows() {
  sed -n 's/^E(\([0-9]*\), \([A-Z_]*\),.*/CUDA_ERROR_\2 \1/p' "$cuda/errors.def"
  sed -n 's/^ *A(\([0-9]*\), \([A-Z0-9_]*\),.*/CU_DEVICE_ATTRIBUTE_\2 \1/p' \
    "$cuda/driver.c"
  theirs=CUDA_ERROR_OUT_OF_MEMORY
  numbers_of backend/cuda/driver.h <<<"CU_OUT_OF_MEMORY $theirs"
  numbers_of backend/cuda/context.c <<'END'
STREAM_NON_BLOCKING CU_STREAM_NON_BLOCKING
EVENT_DEFAULT CU_EVENT_DEFAULT
END
  theirs=CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  numbers_of backend/cuda/context.c \
    <<<"FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED $theirs"
  numbers_of backend/cuda/tensor_map.c <<'END'
DATA_TYPE_UINT16 CU_TENSOR_MAP_DATA_TYPE_UINT16
DATA_TYPE_UINT32 CU_TENSOR_MAP_DATA_TYPE_UINT32
DATA_TYPE_TFLOAT32 CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
INTERLEAVE_NONE CU_TENSOR_MAP_INTERLEAVE_NONE
L2_PROMOTION_256B CU_TENSOR_MAP_L2_PROMOTION_L2_256B
OOB_FILL_ZERO CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
END
  numbers_of backend/cuda/nvrtc.c <<'END'
NVRTC_INVALID_OPTION NVRTC_ERROR_INVALID_OPTION
NVRTC_COMPILATION NVRTC_ERROR_COMPILATION
NVRTC_BUILTINS NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
END
  numbers_of aot/cuda_runtime.inc <<'END'
OUT_OF_MEMORY CUDA_ERROR_OUT_OF_MEMORY
NOT_SUPPORTED CUDA_ERROR_NOT_SUPPORTED
CAPABILITY_MAJOR CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
CAPABILITY_MINOR CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
PROCESSORS CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
DYNAMIC_SHARED CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
NEAR_256 CU_TENSOR_MAP_L2_PROMOTION_L2_256B
END
  # A matrix descriptor contains 4 minus this number (tensor_map.c).
  echo 'CU_TENSOR_MAP_SWIZZLE_NONE 0
CU_TENSOR_MAP_SWIZZLE_32B 4-3
CU_TENSOR_MAP_SWIZZLE_64B 4-2
CU_TENSOR_MAP_SWIZZLE_128B 4-1'
}
[ "$(rows | wc -l)" -gt 60 ] || fail "only $(rows | wc -l) constants"
{
  echo '#include <cuda.h>
#include <nvrtc.h>
#include <stddef.h>
#include "backend/cuda/tensor_map.h"'
  rows | while read -r name number; do
    echo "_Static_assert($name == $number, \"$name\");"
  done
  for pair in function:func grid:gridDimX block:blockDimX \
    shared_bytes:sharedMemBytes args:kernelParams extra:extra \
    kernel:kern context:ctx; do
    echo "_Static_assert(offsetof(CuKernelNode, ${pair%:*}) =="
    echo "  offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ${pair#*:}), \"$pair\");"
  done
  echo '_Static_assert(sizeof(CuKernelNode) =='
  echo '  sizeof(CUDA_KERNEL_NODE_PARAMS_v2), "a node");'
  echo '_Static_assert(TENSOR_MAP_BYTES == sizeof(CUtensorMap), "a map");'
} >numbers.c
cc -std=gnu11 -fsyntax-only -I"$headers" -I"$here" numbers.c ||
  fail "our constants differ from those in $headers"

# Functions of driver.def and nvrtc.def, and of the runtime of built modules.
if ! command -v c++ >/dev/null; then
  echo 'no C++ compiler: the comparison of functions is skipped'
  exit "$bad"
fi
table() { # table FIRST LAST: prints these lines of the runtime of modules
  sed -n "/^$1/,/^$2/p" "$host"
}
{
  sed -n 's/^CU(\([a-z_]*\), "\([A-Za-z0-9_]*\)".*/SAME(Driver::\1, \2)/p' \
    "$cuda/driver.def"
  sed -n 's/^NV(.*, \([a-z_]*\), "\([A-Za-z0-9_]*\)".*/SAME(Nvrtc::\1, \2)/p' \
    "$cuda/nvrtc.def"
  paste -d' ' <(table 'static struct {' '} driver;' |
    sed -n 's/^ *int (\*\([a-z_]*\))(.*/\1/p') \
    <(table 'static const char \*const symbols' '.*;$' |
      grep -o '"[A-Za-z0-9_]*"' | tr -d '"') |
    sed 's/\(.*\) \(.*\)/SAME(Module::\1, \2)/'
} >functions.inc
table 'static struct {' '} driver;' |
  sed 's/static struct/struct Module/; s/} driver;/};/' >module.inc
[ "$(grep -c 'Module::.*, cu' functions.inc)" -gt 20 ] &&
  [ "$(wc -l <functions.inc)" -gt 75 ] || fail "$(cat functions.inc)"
c++ -std=c++17 -fsyntax-only -I"$headers" -I"$here" -I. \
  "$here/tests/cuda_headers.cc" ||
  fail "our functions differ from those in $headers"
exit "$bad"
