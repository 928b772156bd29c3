#!/bin/bash
# Fourier transforms: equal bits for each number of threads, a missing library,
# and transforms in a module of axon build.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
cd "$work" || exit 1

cat >bits.axn <<'END'
val x = for i < 301, j < 1009 => sin (f64 (i * j + i))
val z = fft.fft ~axis:all {re = x, im = x}
do save "re.npy" z.re
do save "columns.npy" (fft.rfft ~axis:0 (f32 x)).im
do save "rows.npy" (fft.irfft 2017 {re = x, im = x})
END
for threads in 1 2 5; do
  AXON_THREADS=$threads "$AXON" run bits.axn || fail "$threads threads"
  cat re.npy columns.npy rows.npy >"bits.$threads"
  cmp "bits.1" "bits.$threads" || fail "other bits with $threads threads"
done

# dlopen finds no FFTW.
cat >hide.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags) {
  void *(*open_it)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
  return name && strstr(name, "fftw") ? NULL : open_it(name, flags);
}
END
cat >model.axn <<'END'
fun spectrum (x : f32[n]) = let val z = fft.rfft x in (z.re, z.im) end
END
cat >call.c <<'END'
#include "model.h"
#include <stdio.h>
int main(void) {
  const float x[4] = {1, 2, 3, 5};
  float re[3], im[3];
  int status = model_spectrum(4, x, re, im);
  if (status)
    return puts(model_message(status)), 1;
  printf("%g %g %g, %g %g %g\n", re[0], re[1], re[2], im[0], im[1], im[2]);
}
END
"$AXON" build model.axn -o model.c && cc -std=c11 -O1 model.c call.c -o call \
  -lm -ldl -pthread 2>cc.log || fail "a module in C: $(cat cc.log)"
out=$(./call)
[ "$out" = '11 -2 -3, 0 3 0' ] || fail "the module gives $out"

grep -q 'fsanitize' "${BUILD:-$here}/Makefile" && exit "$bad"
cc -shared -fPIC hide.c -o hide.so -ldl || exit 1
out=$(LD_PRELOAD=$PWD/hide.so "$AXON" -e 'print (fft.rfft [1.0])' 2>&1)
grep -q 'apt install libfftw3-single3' <<<"$out" || fail "no library: $out"
out=$(LD_PRELOAD=$PWD/hide.so ./call)
grep -q 'need the library FFTW' <<<"$out" || fail "no library: $out"
exit "$bad"
