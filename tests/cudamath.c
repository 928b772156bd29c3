/* The math functions of backend/cuda/prelude/kernel.inc against libm, in units
 * in the last place or relative to a documented bound.  The approximations of
 * the special function unit are modelled with the errors that PTX ISA 9.7.3
 * permits.  Built by tests/check_cudamath.sh, which defines STEP and has
 * included the functions after this file's first part. */
#ifndef FUNCTIONS
#include "math_errors.h"

#define FUNCTIONS
#define INLINE static inline

static int exp2_error, reciprocal_error; /* -1, 0 or 1 times the largest */

static float flushed(float x) {
  return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float ax_exp2(float x) {
  return flushed((float)(exp2(flushed(x)) * (1 + exp2_error * 0x1p-22)));
}

static float ax_reciprocal(float x) {
  float exact = flushed(1 / flushed(x));
  if (!reciprocal_error || exact == 0 || isinf(exact))
    return exact;
  return flushed(nextafterf(exact, reciprocal_error * INFINITY));
}
#else

/* ---- errors ---- */

/* Relative to the bound: at most 1. */
static double relative(float got, double wanted, double bound) {
  return got == wanted ? 0 : fabs(got - wanted) / fabs(wanted) / bound;
}

static double tanh_error(float x) {
  return error_f(ax_tanh_f(x), tanh(x));
}
static double tanh_absolute_error(float x) {
  return fabs(ax_tanh_absolute(x) - tanh(x)) * 0x1p21;
}
/* The smallest results are 0. */
static double tanh_plus_1_error(float x) {
  double wanted = 2 / (1 + exp(-2 * (double)x));
  return wanted < 0x1p-125
             ? 0
             : relative(ax_tanh_plus_1(x), wanted, fabs(x) * 0x1p-22 + 0x1p-21);
}
static double sigmoid_error(float x) {
  double wanted = 1 / (1 + exp((double)x));
  return wanted < 0x1p-126 ? 0
                           : relative(ax_reciprocal(1 + ax_exp_rounded(x)),
                                      wanted, fabs(x) * 0x1p-23 + 0x1p-21);
}
static double reciprocal_from_1_error(float x) {
  return x < 1 ? 0 : error_f(ax_reciprocal_from_1(x), 1 / (double)x);
}
static double exp_rounded_error(float x) {
  double wanted = exp(x);
  return wanted < 0x1p-126 || wanted > 0x1.fffffep127
             ? 0
             : relative(ax_exp_rounded(x), wanted, fabs(x) * 0x1p-23 + 0x1p-21);
}

/* ---- all floats ---- */

static void test(const char *name, double (*error)(float), double most) {
  double worst = -1;
  float at = 0;
  for (uint64_t i = 0; i < (uint64_t)1 << 32; i += STEP) {
    float x = float_of((uint32_t)i);
    if (isnan(x))
      continue;
    for (int j = 0; j < 9; j++) {
      exp2_error = j % 3 - 1, reciprocal_error = j / 3 - 1;
      double e = error(x);
      if (e > worst || isnan(e))
        worst = isnan(e) ? INFINITY : e, at = x;
    }
  }
  report(name, worst, most, at, 0);
}

int main(void) {
  test("tanh", tanh_error, 4);
  test("tanh_absolute", tanh_absolute_error, 1);
  test("tanh_plus_1", tanh_plus_1_error, 1);
  test("sigmoid", sigmoid_error, 1);
  test("reciprocal_from_1", reciprocal_from_1_error, 0.76);
  test("exp_rounded", exp_rounded_error, 1);
  return failed;
}
#endif
