/* Discrete Fourier transforms in double precision: decimation in time by the
 * prime factors of the length.  Takes time n * (sum of the prime factors). */
#include "backend/reference/fourier.h"

#include "support/arena.h"
#include "support/interrupt.h"

#include <math.h>

struct FourierTransform {
  int64_t count;
  Complex *roots; /* root k: exp (sign * 2 pi i k / count) */
  Complex *terms; /* one for each part of a factor */
};

static Complex multiply(Complex x, Complex y) {
  return (Complex){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p <= n / p; p++)
    if (n % p == 0)
      return p;
  return n;
}

/* to[0 .. n - 1]: the transform of n elements of `from`, `stride` apart. */
static void transform(const FourierTransform *t, const Complex *from,
                      int64_t stride, Complex *to, int64_t n) {
  if (n == 1) {
    to[0] = from[0];
    return;
  }
  int64_t p = smallest_factor(n), m = n / p, step = t->count / n;
  for (int64_t r = 0; r < p; r++)
    transform(t, from + r * stride, stride * p, to + r * m, m);
  for (int64_t k = 0; k < m; k++) {
    for (int64_t r = 0; r < p; r++)
      t->terms[r] = to[r * m + k];
    for (int64_t q = 0; q < p; q++) {
      Complex sum = t->terms[0];
      int64_t row = q * m + k, at = 0; /* at: r * row modulo n */
      interrupt_poll();
      for (int64_t r = 1; r < p; r++) {
        at = (at + row) % n;
        Complex term = multiply(t->terms[r], t->roots[at * step]);
        sum.re += term.re;
        sum.im += term.im;
      }
      to[row] = sum;
    }
  }
}

/* exp (2 pi i k / n), 0 <= k < n.  Multiples of a quarter are exact. */
static Complex root_of_one(int64_t k, int64_t n) {
  const double quarter_turn = 1.57079632679489661923;
  int64_t quarter = 4 * k / n, rest = 4 * k % n;
  bool low = 2 * rest <= n;
  double angle = quarter_turn * (double)(low ? rest : n - rest) / (double)n;
  double x = low ? cos(angle) : sin(angle), y = low ? sin(angle) : cos(angle);
  return quarter == 0   ? (Complex){x, y}
         : quarter == 1 ? (Complex){-y, x}
         : quarter == 2 ? (Complex){-x, -y}
                        : (Complex){y, -x};
}

FourierTransform *fourier_new(Arena *arena, int64_t n, bool is_inverse) {
  FourierTransform *t = NEW(arena, FourierTransform);
  *t = (FourierTransform){n, NEW_ARRAY(arena, Complex, n),
                          NEW_ARRAY(arena, Complex, n)};
  for (int64_t k = 0; k < n; k++) {
    t->roots[k] = root_of_one(k, n);
    if (!is_inverse)
      t->roots[k].im = -t->roots[k].im;
  }
  return t;
}

void fourier_apply(const FourierTransform *t, const Complex *from,
                   Complex *to) {
  if (t->count)
    transform(t, from, 1, to, t->count);
}
