/* Equations that only state that a division is exact. */
#include "typecheck/solver.h"

/* True if the other factors are sizes, which cancel.  Other factors may be
   0. */
static bool is_alone(Checker *c, Dim *const *factors, uint32_t count,
                     uint32_t one) {
  for (uint32_t i = 0; i < count; i++)
    if (i != one && !dim_is_cancellable_factor(c->dims, factors[i]) &&
        !dim_equal(factors[i], factors[one]))
      return false;
  return true;
}

/* Recognizes x == d*(x/d), possibly times sizes: x % d == 0. */
bool constraint_as_divisibility(Checker *c, Constraint *k) {
  if (k->kind != CN_DIM_EQ)
    return false;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *num, *den, *factors[DIM_MAX_FACTORS];
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; i < count; i++)
    if (dim_is_remainder(c->dims, factors[i], &num, &den) &&
        is_alone(c, factors, count, i)) {
      k->divisibility = true;
      k->divisor = den;
      k->left = num;
      k->right = dim_mul(c->dims, den, dim_div(c->dims, num, den));
    }
  return k->divisibility;
}

uint32_t divisibility_parts(Checker *c, const Constraint *k,
                            FloorDivision out[DIM_MAX_FACTORS]) {
  if (k->kind != CN_DIM_EQ)
    return 0;
  Dim *a = dim_resolve(c->dims, k->left), *b = dim_resolve(c->dims, k->right);
  uint32_t n = dim_exact_divisions(c->dims, a, b, out);
  return n ? n : dim_exact_divisions(c->dims, b, a, out);
}
