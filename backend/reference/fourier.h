/* Discrete Fourier transforms of the reference backend. */
#ifndef AXON_REFERENCE_FOURIER_H
#define AXON_REFERENCE_FOURIER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Arena Arena;

typedef struct Complex {
  double re, im;
} Complex;

/* The transform of n elements. */
typedef struct FourierTransform FourierTransform;
FourierTransform *fourier_new(Arena *arena, int64_t n, bool is_inverse);
/* to[k] = sum over j of from[j] exp (-2 pi i j k / n), or with the other sign.
 * Raises FAIL_INTERRUPT. */
void fourier_apply(const FourierTransform *t, const Complex *from, Complex *to);

#endif
