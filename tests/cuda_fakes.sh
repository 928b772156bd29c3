# Runs programs for GPUs without a GPU: builds a fake driver and a fake NVRTC in
# $work.  The GPU simulator runs the kernels (tests/unit/cuda_fake.h,
# nvrtc_fake.h).  If they cannot be built, the test is skipped.
build=${BUILD:-$here}
libraries="$build/.libs/libsim.a $build/.libs/libcore.a $build/.libs/libfront.a"

skipped() {
  echo "$1: skipped"
  exit 0
}
command -v "${CXX:-c++}" >/dev/null || skipped 'no C++ compiler'
for file in $libraries; do
  [ -e "$file" ] || skipped "no $file"
done
grep -q 'fsanitize' "$build/Makefile" && skipped 'a build with a sanitizer'

# shellcheck disable=SC2086
fake_library() { # fake_library NAME HEADER FLAGS...
  name=$1 header=$2
  shift 2
  cc -shared -fPIC -w -O1 -std=gnu11 -I"$here" -I"$build" -x c \
    "$here/tests/unit/$header" -x none "$@" -o "$work/$name" \
    -Wl,-Bsymbolic -Wl,--exclude-libs,ALL >"$work/said" 2>&1 ||
    { cat "$work/said"; skipped "$name cannot be made"; }
}
# shellcheck disable=SC2086
fake_library libcuda.so.1 cuda_fake.h -DFAKE_RUNS $libraries -lgmp -lm -ldl \
  -lpthread
fake_library libnvrtc.so.13 nvrtc_fake.h

# Memory is as large as tensors are, so that what is read beyond them is seen,
# but for those who say what $pool is kept.
on_gpu() {
  env LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13" \
    AXON_TARGET=cuda AXON_TINY=0 AXON_POOL="${pool-0}" \
    FAKE_MEMORY="${memory:-2000}" FAKE_PROCESSORS="${processors:-4}" \
    AXON_SOURCE="$here" "$@"
}

same() { # same NAME [STATUS]: the program there says the same on both
  on_gpu timeout 200 "$AXON" run "$1.axn" >"$work/gpu" 2>&1
  got=$?
  AXON_TARGET=reference "$AXON" run "$1.axn" >"$work/host" 2>&1
  want=$?
  [ "$want $got" = "${2:-0} ${2:-0}" ] && cmp -s "$work/gpu" "$work/host" || {
    wrong "$1: status $got, and of the reference backend $want"
    diff "$work/host" "$work/gpu" | head -n 20
  }
}
