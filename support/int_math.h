/* Arithmetic of integers that C lacks. */
#ifndef AXON_SUPPORT_INT_MATH_H
#define AXON_SUPPORT_INT_MATH_H

#include <stdbool.h>
#include <stdint.h>

/* |n|, also of INT64_MIN. */
static inline uint64_t int_magnitude(int64_t n) {
  return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

static inline bool int_is_power_of_two(int64_t n) {
  return n > 0 && !(n & (n - 1));
}

/* The quotient rounded down, for by > 0. */
static inline int64_t int_floor_div(int64_t n, int64_t by) {
  return n / by - (n % by < 0);
}

/* The greatest common divisor; 0 if both numbers are 0. */
static inline uint64_t uint_gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The same for signed numbers.  The result is not negative. */
static inline int64_t int_gcd(int64_t a, int64_t b) {
  return (int64_t)uint_gcd(int_magnitude(a), int_magnitude(b));
}

#endif
