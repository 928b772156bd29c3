# Runs programs on the target cuda without a GPU: builds a fake driver and a
# fake NVRTC in $work (tests/unit/cuda_fake.h, nvrtc_fake.h).  The GPU simulator
# runs the kernels.  If the fakes cannot be built, the test is skipped.
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
    -Wl,-Bsymbolic -Wl,--exclude-libs,ALL >"$work/output" 2>&1 ||
    { cat "$work/output"; skipped "$name cannot be built"; }
}
# shellcheck disable=SC2086
fake_library libcuda.so.1 cuda_fake.h -DFAKE_RUNS $libraries -lgmp -lm -ldl \
  -lpthread
fake_library libnvrtc.so.13 nvrtc_fake.h

# Runs a command on the fake GPU.  By default the memory pool is disabled
# ($pool: AXON_POOL), so that the simulator detects accesses beyond a tensor.
# $memory is the size of GPU memory in MiB, $processors the number of SMs.
on_gpu() { # on_gpu COMMAND...
  env LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13" \
    AXON_TARGET=cuda AXON_TINY=0 AXON_POOL="${pool-0}" \
    FAKE_MEMORY="${memory:-2000}" FAKE_PROCESSORS="${processors:-4}" "$@"
}

# NAME.axn has the same output and exit status on the fake GPU and on the
# reference backend, which runs a program once.
# Rules of schedules that do not fit are messages on the GPU only.
same() { # same NAME [STATUS]
  on_gpu timeout 200 "$AXON" run "$1.axn" >"$work/said" 2>&1
  got=$?
  grep -v '^axon: a schedule was not used' "$work/said" >"$work/gpu"
  if [ ! "$work/$1.host" -nt "$1.axn" ]; then
    AXON_TARGET=reference "$AXON" run "$1.axn" >"$work/$1.host" 2>&1
    echo $? >"$work/$1.status"
  fi
  read -r expected <"$work/$1.status"
  [ "$expected $got" = "${2:-0} ${2:-0}" ] &&
    cmp -s "$work/gpu" "$work/$1.host" || {
    fail "$1: status $got, on the reference backend $expected"
    diff "$work/$1.host" "$work/gpu" | head -n 20
  }
}
