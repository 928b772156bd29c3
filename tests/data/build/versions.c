/* Calls what axon build made of versions.axn at sizes small, large and between:
 * whole numbers, so that every order of a sum gives the same. */
#include "versions.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int bad;

static float *numbers(int64_t count, int step) {
  float *x = malloc((size_t)(count + 1) * sizeof *x);
  if (!x)
    exit(1);
  for (int64_t i = 0; i < count; i++)
    x[i] = (float)(i * step % 7 - 3);
  return x;
}

static void same(const char *what, int code, int64_t n, int64_t m, float found,
                 double wanted) {
  if ((code || (double)found != wanted) && bad++ < 10)
    printf("%s %d, %d: %s: %g, not %g\n", what, (int)n, (int)m,
           versions_message(code), (double)found, wanted);
}

static void products(int64_t n, int64_t k, int64_t m) {
  float *x = numbers(n * k, 5), *y = numbers(k * m, 3), *b = numbers(m, 2);
  float *turned = numbers(k * m, 3), *out = numbers(n * m, 1);
  float *other = numbers(n * m, 1);
  for (int64_t i = 0; i < k * m; i++)
    turned[i % m * k + i / m] = y[i];
  int code = versions_product(n, k, m, x, y, b, out);
  int again = versions_turned(n, k, m, x, turned, other);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      double sum = 0;
      for (int64_t q = 0; q < k; q++)
        sum += (double)x[i * k + q] * (double)y[q * m + j];
      same("product", code, n, m, out[i * m + j], sum + (double)b[j]);
      same("turned", again, n, m, other[i * m + j], sum < 0 ? 0 : sum);
    }
  free(x), free(y), free(b), free(turned), free(out), free(other);
}

static void sums(int64_t n, int64_t m) {
  float *x = numbers(n * m, 5), *b = numbers(m, 2), *columns = numbers(m, 1);
  float *rows = numbers(n, 1), *out = numbers(n * m, 1), all;
  double *down = calloc((size_t)m + 1, sizeof *down), total = 0;
  if (!down)
    exit(1);
  int code = versions_columns(n, m, x, columns);
  code |= versions_rows(n, m, x, rows) | versions_total(n * m, x, &all);
  code |= versions_chain(n, m, x, b, out);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < m; j++) {
      double here = (double)x[i * m + j];
      sum += here;
      down[j] += here;
      if (out[i * m + j] != x[i * m + j] * 2 + b[j])
        same("chain", code, n, m, out[i * m + j], 2 * here + (double)b[j]);
    }
    same("rows", code, n, m, rows[i], sum);
    total += sum;
  }
  for (int64_t j = 0; j < m; j++)
    same("columns", code, n, m, columns[j], down[j]);
  same("total", code, n, m, all, total);
  free(x), free(b), free(columns), free(rows), free(out), free(down);
}

/* b products of a batch, each of which is small, or not quite. */
static void batch(int64_t b, int64_t n, int64_t k, int64_t m) {
  float *x = numbers(b * n * k, 5), *y = numbers(b * k * m, 3);
  float *out = numbers(b * n * m, 1);
  int code = m == 100 ? versions_wide(b, n, k, x, y, out)
             : m > 65 ? versions_doubled(b, n, k, m / 2, x, y, out)
                      : versions_small(b, n, k, m, x, y, out);
  for (int64_t e = 0; e < b * n * m; e++) {
    int64_t at = e / m / n, i = e / m % n, j = e % m;
    double sum = 0;
    for (int64_t q = 0; q < k; q++)
      sum += (double)x[(at * n + i) * k + q] * (double)y[(at * k + q) * m + j];
    same("small", code, n, m, out[e], sum);
  }
  free(x), free(y), free(out);
}

/* Windows of k terms, and what is done at edges. */
static void windows(int64_t n, int64_t k, int64_t m) {
  int64_t places = m - k + 1;
  float *x = numbers(n * m, 5), *w = numbers(n * k, 3);
  float *out = numbers(n * places, 1), *moved = numbers(n * m, 1);
  int code = versions_slide(n, k, m, w, x, out);
  for (int64_t e = 0; e < n * places; e++) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++)
      sum += (double)w[e / places * k + j] *
             (double)x[e / places * m + e % places + j];
    same("slide", code, n, m, out[e], sum);
  }
  code = versions_inner(n, m, x, moved);
  for (int64_t e = 0; e < n * m; e++)
    same("inner", code, n, m, moved[e],
         e < m || e % m == m - 1 ? 5 : (double)x[e - m + 1]);
  free(x), free(w), free(out), free(moved);
}

static void lowest(int64_t n, int64_t m) {
  float *x = numbers(n * m, 5);
  int64_t *at = calloc((size_t)n + 1, sizeof *at);
  if (!at)
    exit(1);
  int code = versions_lowest(n, m, x, at);
  for (int64_t i = 0; i < n; i++) {
    int64_t best = 0;
    for (int64_t j = 0; j < m; j++)
      best = x[i * m + j] < x[i * m + best] ? j : best;
    same("lowest", code, n, m, (float)at[i], (double)best);
  }
  free(x), free(at);
}

static void shapes(void) {
  static const int64_t some[] = {1, 2, 3, 4, 7, 16, 17, 33, 64, 65};
  enum { COUNT = sizeof some / sizeof *some };
  for (int i = 0; i < COUNT; i++)
    for (int j = 0; j < COUNT; j++) {
      batch(3, some[i], some[(i + j) % COUNT], some[j]);
      windows(some[i] % 5 + 1, some[j] % 14 + 1, some[j] + some[i] + 13);
      lowest(some[i], some[j]);
    }
  batch(0, 3, 3, 3);
  batch(200, 4, 4, 4);
  batch(5, 0, 3, 3);
  batch(5, 3, 0, 3);
  batch(5, 3, 3, 0);
  batch(5, 6, 7, 100);
  batch(5, 6, 7, 120);
  windows(3, 24, 300);
  windows(2, 25, 1000);
  lowest(3000, 10);
}

int main(void) {
  shapes();
  static const int64_t some[] = {0, 1, 2, 7, 24, 25, 97, 128, 129};
  enum { COUNT = sizeof some / sizeof *some };
  for (int i = 0; i < COUNT; i++)
    for (int j = 0; j < COUNT; j++) {
      sums(some[i], some[j]);
      products(some[i], 20, some[j]);
    }
  products(300, 130, 70);
  products(3, 600, 500);
  products(1000, 3, 9);
  sums(3000, 3);
  sums(3, 3000);
  sums(2500, 2600);
  return bad > 0;
}
