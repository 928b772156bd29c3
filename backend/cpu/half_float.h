/* 16-bit floats for library operations: widening is exact; narrowing rounds to
 * nearest, ties to even. */
#ifndef AXON_CPU_HALF_FLOAT_H
#define AXON_CPU_HALF_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline uint32_t bits_of_float(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float float_of_bf16(uint16_t h) {
  return float_of_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_of_float(float x) {
  uint32_t u = bits_of_float(x);
  if (x != x)
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* f16 has another exponent bias; subnormals are normalized by a subtraction. */
static inline float float_of_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
  if ((h & 0x7c00) == 0x7c00)
    return float_of_bits(sign | rest | 0x7f800000);
  if (h & 0x7c00)
    return float_of_bits(sign | (rest + (112u << 23)));
  float x = float_of_bits(rest + (113u << 23)) - float_of_bits(113u << 23);
  return float_of_bits(sign | bits_of_float(x));
}

/* Values that become subnormal are rounded by adding 0.5, whose last bit has
 * the same weight. */
static inline uint16_t f16_of_float(float x) {
  uint32_t u = bits_of_float(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000)
    return (uint16_t)(sign | 0x7e00);
  if (a >= 0x47800000)
    return (uint16_t)(sign | 0x7c00);
  if (a < 0x38800000)
    return (uint16_t)(sign | (bits_of_float(float_of_bits(a) + 0.5f) -
                              bits_of_float(0.5f)));
  return (uint16_t)(sign | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
}

#endif
