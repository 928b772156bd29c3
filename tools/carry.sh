#!/bin/bash
# Packs a build for a machine that lacks our libraries, such as one with a GPU:
# axon and the GPU test programs, linked with libc and libm only, and the files
# that `make check-gpu` and bench/gpu.sh need.
#
#     tools/carry.sh OUT.tar.xz
#
# On that machine: `tar xf OUT.tar.xz`, `cd axon-carried`, `tools/first_gpu.sh`.
# Its libc must be at least as new as that of this machine; the last line of
# output names the version.
set -eu
[ $# = 1 ] && [ "${1#-}" = "$1" ] || {
  sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'
  exit 2
}
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Builds in a copy of the tracked files, so that this build stays unchanged.
git ls-files -z | tar c --null -T - | tar x -C "$work"
cd "$work"
./bootstrap >/dev/null 2>&1
./configure -q --enable-carried --disable-shared --enable-static CFLAGS='-O2' \
  ${CC:+CC="$CC"}
make -s -j"${JOBS:-$(nproc)}"
programs=(axon)
for name in kernels_test between_test reduced_test cudatexts_test; do
  [ ! -e "tests/unit/$name.c" ] || programs+=("tests/unit/$name")
done
make -s -j"${JOBS:-$(nproc)}" "${programs[@]}"

to=$work/axon-carried
mkdir -p "$to/tests/unit" "$to/lib" "$to/bench" "$to/tools"
for file in "${programs[@]}"; do
  strip -o "$to/$file" "$file"
  needed=$(ldd "$to/$file" | awk '{print $1}' |
    grep -vE '^(linux-vdso|libc|libm|libdl|libpthread|libcmocka|/lib.*/ld-)' ||
    true)
  [ -z "$needed" ] || {
    echo "$file needs $needed" >&2
    exit 1
  }
done
# The test programs need cmocka.
cp "$(ldd tests/unit/kernels_test | awk '/libcmocka/ {print $3}')" "$to/lib"
cp -r examples "$to"
cp -r tests/gpu.sh tests/gpu tests/close.awk "$to/tests"
cp -r bench/gpu bench/gpu.sh bench/lib.sh "$to/bench"
cp tools/first_gpu.sh "$to/tools"
git -C "$source" describe --always --dirty >"$to/COMMIT"
tar cJf "$out" -C "$work" axon-carried
libc=$(objdump -T "$to/axon" "$to/tests/unit/kernels_test" |
  grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "$out: $(du -h "$out" | cut -f 1), requires ${libc/_/ }"
