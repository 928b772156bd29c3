/* Elimination by linear equations over the integers.  A row holds one
 * coefficient per column, then the constant.  Inequalities
 * (fourier_motzkin.c) and systems of equations (linear_diophantine.c) use it.
 */
#include "solver.h"
#include "support/int_math.h"

uint64_t row_gcd(const int64_t *row, uint32_t columns) {
  uint64_t g = 0;
  for (uint32_t i = 0; i < columns && g != 1; i++)
    if (row[i])
      g = uint_gcd(int_magnitude(row[i]), g);
  return g;
}

bool row_normalize_equation(int64_t *eq, uint32_t columns) {
  uint64_t g = row_gcd(eq, columns);
  if (!g)
    return eq[columns] == 0;
  if (g > INT64_MAX)
    return true;
  if (eq[columns] % (int64_t)g)
    return false;
  for (uint32_t i = 0; g > 1 && i <= columns; i++)
    eq[i] /= (int64_t)g;
  return true;
}

bool row_eliminate(int64_t *row, const int64_t *eq, uint32_t column,
                   uint32_t columns) {
  int64_t times = eq[column] > 0 ? -row[column] : row[column];
  for (uint32_t i = 0; times && i <= columns; i++) {
    int64_t x;
    if (__builtin_mul_overflow(times, eq[i], &x) ||
        __builtin_add_overflow(row[i], x, &row[i]) || row[i] == INT64_MIN)
      return false;
  }
  return true;
}
