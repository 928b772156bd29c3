#!/bin/bash
# Runs a command whose generated kernels are compiled with the address sanitizer
# and the undefined-behavior sanitizer:
#
#     tests/kernels_asan.sh tests/unit/kernels_test 1 500
#     tests/kernels_asan.sh tests/check_cpu.sh
#
# An out-of-bounds access ends the program with an error.
set -u
cc=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/cc" <<END
#!/bin/bash
LD_PRELOAD= exec $cc "\$@" -O1 -g -fsanitize=address,undefined \
  -fno-sanitize-recover=undefined
END
chmod +x "$work/cc"
libraries=$("$cc" -print-file-name=libasan.so):$(
  "$cc" -print-file-name=libubsan.so)
MEMORY=unlimited AXON_CC=$work/cc XDG_CACHE_HOME=$work/cache \
  ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$libraries "$@"
