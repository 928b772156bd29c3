#!/bin/bash
# The elementary functions of generated kernels against libm in double, over
# every STEP-th float (1: all, some minutes):  tests/math.sh [STEP]
# Prints the largest error of each in units in the last place.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/math.c" <<END
#define W 16
#include "$here/backend/cpu/prelude.inc"
END
cat >>"$work/math.c" <<'END'
#include <math.h>
#include <stdio.h>
#include <string.h>

static double error(float got, double wanted) {
  float near = (float)wanted;
  if (isnan(wanted) || isinf(near) || isnan(got))
    return isnan(wanted) ? (isnan(got) ? 0 : INFINITY)
                         : (got == near ? 0 : INFINITY);
  double unit = nextafterf(fabsf(near), INFINITY) - fabsf(near);
  return fabs(got - wanted) / unit;
}

static void test(const char *name, vf (*f)(vf), double (*wanted)(double)) {
  double worst = 0;
  float at = 0;
  for (uint64_t i = 0; i < (uint64_t)1 << 32; i += STEP * W) {
    vf x;
    for (int l = 0; l < W; l++) {
      uint32_t bits = (uint32_t)(i + (uint64_t)l * STEP);
      float value;
      memcpy(&value, &bits, sizeof value);
      x[l] = value;
    }
    vf y = f(x);
    for (int l = 0; l < W; l++)
      if (error(y[l], wanted(x[l])) > worst) {
        worst = error(y[l], wanted(x[l]));
        at = x[l];
      }
  }
  printf("%-10s %.3f at %a\n", name, worst, at);
}

#define TEST(name) \
  static vf name##_all(vf x) { return name##_f(x); }
#define RUN(name) test(#name, name##_all, name);
#define ALL_OF(F) \
  F(exp) F(expm1) F(log) F(log1p) F(tanh) F(erf) F(sin) F(cos) F(sqrt) \
  F(floor) F(ceil) F(nearbyint) F(trunc)
ALL_OF(TEST)
int main(void) {
  ALL_OF(RUN)
}
END
${CC:-cc} -O2 -march=native -std=gnu11 -ffp-contract=off -fwrapv -w \
  -DSTEP="${1:-1009}" "$work/math.c" -o "$work/math" -lm
"$work/math"
