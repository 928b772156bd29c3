/* Calls the functions of built.axn.  Prints a line for each wrong result. */
#include "built.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void check(const char *name, int code, int64_t count, const double *x,
                  const double *want) {
  if (code)
    printf("%s: %s\n", name, built_message(code));
  for (int64_t k = 0; k < count; k++)
    if (!(fabs(x[k] - want[k]) < 1e-9))
      printf("%s: element %d is %g, not %g\n", name, (int)k, x[k], want[k]);
}

int main(void) {
  const double a[6] = {1, 0, 1, 1, 1, 2}, b[3] = {1, 3, 5};
  const double line[2] = {1, 2}, square[4] = {2, 1, 1, 3};
  const double rotation[4] = {0, -1, 1, 0};
  const double rotated[4] = {cos(1), -sin(1), sin(1), cos(1)};
  const double slope[4] = {0.6, -0.2, -0.2, 0.4};
  const float batch[8] = {2, 0, 0, 4, 1, 2, 2, 4};
  float inverses[8];
  double out[6];
  check("least", built_least(3, 2, a, b, out), 2, out, line);
  check("factors", built_factors(3, 2, a, out), 6, out, a);
  check("wide factors", built_factors(2, 3, a, out), 6, out, a);
  check("pieces", built_pieces(3, 2, a, out), 6, out, a);
  check("no pieces", built_pieces(0, 3, a, out), 0, out, a);
  check("slope", built_slope(2, square, out), 4, out, slope);
  check("power", built_power(2, rotation, out), 4, out, rotated);
  const int32_t numbers[3] = {-1, 7, 0};
  const int64_t rows[2] = {2, 2}, all[1] = {-1};
  const double replaced[3] = {9, 2, 7}, edges[3] = {0, 1, 2};
  const double angles[2] = {1.5707963267948966, 1.5707963267948966 + 3};
  int64_t counts[3];
  check("replaced", built_replaced(2, 3, rows, (double[]){6, 7}, b, out), 1,
        out, replaced);
  check("angles", built_angles(2, (double[]){0, 1}, out), 2, out, angles);
  if (built_ones_of(3, numbers, counts) || counts[0] != 32 || counts[1] != 3)
    printf("ones_of: %d %d\n", (int)counts[0], (int)counts[1]);
  if (built_huge(1, all, counts) || counts[0] != -0x3aaaaaaaaaaaaaab)
    printf("huge: %lld\n", (long long)counts[0]);
  if (built_bins(3, 2, edges, b, counts) || counts[0] != 0 || counts[1] != 1)
    printf("bins: %d %d\n", (int)counts[0], (int)counts[1]);
  int code = built_inverses(1, 2, batch, inverses);
  if (code || inverses[0] != 0.5F || inverses[3] != 0.25F)
    printf("inverses: %s\n", built_message(code));
  code = built_inverses(2, 2, batch, inverses);
  if (!code || !strstr(built_message(code), ":3: a matrix is singular"))
    printf("a singular matrix: %s\n", built_message(code));
  return 0;
}
