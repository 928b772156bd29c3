/* Calls what axon build made of versions.axn at sizes small, large and between:
 * whole numbers, so that every order of a sum gives the same. */
#include "versions.h"

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

int main(void) {
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
