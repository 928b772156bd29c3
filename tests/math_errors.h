/* Errors of the math functions of kernels, in units in the last place. */
#ifndef AXON_TESTS_MATH_ERRORS_H
#define AXON_TESTS_MATH_ERRORS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failed;

static double error_f(float got, double wanted) {
  float near = (float)wanted;
  if (isnan(wanted) || isnan(got))
    return isnan(wanted) && isnan(got) ? 0 : INFINITY;
  if (isinf(got) || isinf(near) || (got == 0 && near == 0))
    /* within a unit of the bound both are right */
    return (got == near && signbit(got) == signbit(near)) ||
                   (fabs(wanted) > 3.4028234e38 && fabsf(got) > 3.4028234e38f)
               ? 0
               : INFINITY;
  uint32_t unit; /* by its bits: this runs 2^32 times */
  memcpy(&unit, &near, sizeof unit);
  unit &= 0x7f800000;
  if (unit == 0)
    unit = 0x800000;
  float power;
  memcpy(&power, &unit, sizeof power);
  return fabs(got - wanted) / power * 0x1p23;
}

static void report(const char *name, double worst, double most, double x,
                   double y) {
  int bad = !(worst <= most);
  failed |= bad;
  printf("%-10s %.3f at %a %a%s\n", name, worst, x, y, bad ? "  TOO MUCH" : "");
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

#endif
