/* Calls what axon build made of windows.axn at awkward sizes: whole numbers, so
 * that every order of a sum gives the same. */
#include "windows.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad;

static float *numbers(int64_t count, int step) {
  float *x = malloc((size_t)(count + 1) * sizeof *x);
  if (!x)
    exit(1);
  for (int64_t i = 0; i < count; i++)
    x[i] = (float)(i * step % 7 - 3);
  return x;
}

static void same(const char *what, int code, const int64_t *s, int64_t at,
                 float found, double wanted) {
  if ((code || (double)found != wanted) && bad++ < 10)
    printf("%s %d, %d, %d, %d, %d at %d: %s: %g, not %g\n", what, (int)s[0],
           (int)s[1], (int)s[2], (int)s[3], (int)s[4], (int)at,
           windows_message(code), (double)found, wanted);
}

/* One element: the window begins at row y, column z of plane i. */
static double window(const float *x, const float *w, const int64_t *s,
                     int64_t channels, int64_t i, int64_t y, int64_t z,
                     int64_t k, int64_t l) {
  int64_t h = s[3], v = s[4];
  double sum = 0;
  for (int64_t d = 0; d < channels; d++)
    for (int64_t q = 0; q < k; q++)
      for (int64_t r = 0; r < l; r++)
        if (y + q >= 0 && y + q < h && z + r >= 0 && z + r < v)
          sum += (double)x[((i + d) * h + y + q) * v + z + r] *
                 (double)w[(d * k + q) * l + r];
  return sum;
}

/* s: n, c, o, h, v */
static void images(const int64_t *s, int64_t k, int64_t l) {
  int64_t n = s[0], c = s[1], o = s[2], h = s[3], v = s[4], p = l / 2;
  int64_t high = h + 2 * p - k + 1, wide = v + 2 * p - l + 1, at = 0;
  int64_t half = (h + 1) / 2, less = (v + 1) / 2;
  float *x = numbers(n * c * h * v, 5), *w = numbers(o * c * k * l, 3);
  float *three = numbers(o * c * 9, 3), *b = numbers(o + c, 2);
  float *out = numbers(n * o * high * wide, 1),
        *all = numbers(n * c * h * v, 1);
  float *two = numbers(n * o * half * less, 1);
  int code = windows_conv(n, c, h, v, o, k, l, x, w, b, out);
  for (int64_t i = 0; i < n * o; i++)
    for (int64_t y = 0; y < high; y++)
      for (int64_t z = 0; z < wide; z++, at++)
        same("conv", code, s, at, out[at],
             (double)b[i % o] + window(x, w + i % o * c * k * l, s, c,
                                       i / o * c, y - p, z - p, k, l));
  code = windows_strided(n, c, h, v, o, x, three, b, two);
  at = 0;
  for (int64_t i = 0; i < n * o; i++)
    for (int64_t y = 0; y < half; y++)
      for (int64_t z = 0; z < less; z++, at++)
        same("strided", code, s, at, two[at],
             (double)b[i % o] + window(x, three + i % o * c * 9, s, c,
                                       i / o * c, 2 * y - 1, 2 * z - 1, 3, 3));
  code = windows_each(n, c, h, v, x, three, b, all);
  at = 0;
  for (int64_t i = 0; i < n * c && o; i++)
    for (int64_t y = 0; y < h; y++)
      for (int64_t z = 0; z < v; z++, at++)
        same("each", code, s, at, all[at],
             (double)b[i % c] +
                 window(x, three + i % c * 9, s, 1, i, y - 1, z - 1, 3, 3));
  free(x), free(w), free(three), free(b), free(out), free(two), free(all);
}

static void lines(int64_t c, int64_t o, int64_t h, int64_t k) {
  const int64_t s[5] = {1, c, o, 1, h};
  float *x = numbers(c * h, 5), *w = numbers(o * c * k, 3);
  float *out = numbers(o * (h - k + 1), 1);
  int code = windows_line(c, h, o, k, x, w, out);
  for (int64_t a = 0; a < o; a++)
    for (int64_t t = 0; t < h - k + 1; t++) {
      double sum = 0;
      for (int64_t d = 0; d < c; d++)
        for (int64_t q = 0; q < k; q++)
          sum +=
              (double)x[d * h + t + k - 1 - q] * (double)w[(a * c + d) * k + q];
      same("line", code, s, t, out[a * (h - k + 1) + t], sum);
    }
  free(x), free(w), free(out);
}

static uint16_t *halves(int64_t count, int step) {
  float *x = numbers(count, step);
  uint16_t *out = malloc((size_t)(count + 1) * sizeof *out);
  if (!out)
    exit(1);
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    out[i] = (uint16_t)(bits >> 16);
  }
  free(x);
  return out;
}

static void pairs(int64_t n, int64_t k, int64_t m) {
  const int64_t s[5] = {n, k, m, 0, 0};
  uint16_t *x = halves(n * k, 5), *y = halves(k * m, 3);
  float *out = numbers(n * m, 1);
  int code = windows_halves(n, k, m, x, y, out);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      double sum = 0;
      for (int64_t q = 0; q < k; q++)
        sum += (double)((i * k + q) * 5 % 7 - 3) *
               (double)((q * m + j) * 3 % 7 - 3);
      same("halves", code, s, j, out[i * m + j], sum);
    }
  free(x), free(y), free(out);
}

static void spreads(int64_t n, int64_t m) {
  const int64_t s[5] = {n, m, 0, 0, 0};
  float *x = numbers(n * m, 5), out;
  double sum = 0, squares = 0, count = (double)(n * m);
  for (int64_t i = 0; i < n * m; i++)
    sum += (double)(x[i] += 100);
  for (int64_t i = 0; i < n * m; i++)
    squares += ((double)x[i] - sum / count) * ((double)x[i] - sum / count);
  int code = windows_spread(n, m, x, &out);
  double off = ((double)out - squares / count) / (1 + squares / count);
  same("spread", code, s, 0, off < 1e-5 && off > -1e-5 ? 0 : out, 0);
  code = windows_squares(n, m, x, &out);
  off = ((double)out - squares) / (1 + squares);
  same("squares", code, s, 0, off < 1e-5 && off > -1e-5 ? 0 : out, 0);
  free(x);
}

/* No elements: there is a mean of nothing, and nothing to add up. */
static void nothing(int64_t n, int64_t m) {
  const int64_t s[5] = {n, m, 0, 0, 0};
  float x = 0, out;
  int code = windows_squares(n, m, &x, &out);
  same("squares", code, s, 0, out, 0);
}

/* Where the first of the largest is; what is no number is larger than all. */
static void places(int64_t n, int64_t m, int64_t none) {
  const int64_t s[5] = {n, m, none, 0, 0};
  float *x = numbers(n * m, 5);
  int64_t *out = malloc((size_t)n * sizeof *out);
  if (!out)
    exit(1);
  for (int64_t i = 0; i < n && none < m; i++)
    x[i * m + none] = (float)NAN;
  int code = windows_most(n, m, x, out);
  for (int64_t i = 0; i < n; i++) {
    int64_t best = 0;
    for (int64_t j = 1; j < m; j++)
      if (x[i * m + j] > x[i * m + best])
        best = j;
    same("most", code, s, i, (float)out[i], (double)(none < m ? none : best));
  }
  free(x), free(out);
}

int main(void) {
  static const int64_t some[][7] = {
      {1, 1, 1, 1, 1, 1, 1},    {2, 3, 40, 9, 7, 3, 3},
      {1, 3, 33, 14, 14, 3, 3}, {1, 5, 8, 11, 61, 5, 3},
      {2, 17, 25, 5, 30, 1, 1}, {1, 2, 70, 6, 300, 2, 5},
      {1, 0, 30, 4, 4, 3, 3},   {0, 2, 30, 4, 4, 3, 3},
      {1, 2, 0, 4, 4, 3, 3},    {1, 64, 31, 13, 13, 3, 3},
      {3, 2, 48, 1, 13, 1, 7},  {1, 40, 64, 20, 4, 20, 3}};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    images(some[i], some[i][5], some[i][6]);
  lines(3, 40, 100, 4), lines(1, 3, 7, 7), lines(9, 1, 50, 1);
  lines(0, 30, 9, 2), lines(20, 33, 257, 5);
  static const int64_t depths[] = {0, 1, 2, 7, 33, 64, 781, 1600};
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
    pairs(9, depths[i], 70), pairs(1, depths[i], 5), pairs(40, depths[i], 1);
  spreads(1, 1), spreads(7, 3), spreads(100, 170), spreads(1, 40000);
  spreads(40000, 1), spreads(3, 20001), spreads(513, 1027);
  nothing(0, 0), nothing(0, 9), nothing(9, 0), nothing(40000, 0);
  for (int64_t m = 1; m < 300; m += 13)
    places(3, m, m), places(2, m, m / 2), places(1, m, m - 1);
  return bad > 0;
}
