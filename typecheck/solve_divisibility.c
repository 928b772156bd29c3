/* Equations that only state that a division is exact. */
#include "typecheck/solver.h"

/* True if one of the constraints is 0 <= d. */
static bool is_required_nonneg(Checker *c, const Constraints *all, Dim *d) {
  for (uint32_t i = 0; i < all->len; i++) {
    const Constraint *k = all->at[i];
    if (k && k->kind == CN_DIM_LE && !k->assumptions &&
        dim_equal(dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left)), d))
      return true;
  }
  return false;
}

/* True if the other factors are sizes, which cancel.  Other factors may be
   0.  An integer is a size if `with`, which may be NULL, requires it. */
static bool is_alone(Checker *c, const Constraints *with, Dim *const *factors,
                     uint32_t count, uint32_t one) {
  for (uint32_t i = 0; i < count; i++)
    if (i != one && !dim_is_cancellable_factor(c->dims, factors[i]) &&
        !dim_equal(factors[i], factors[one]) &&
        !(with && is_required_nonneg(c, with, factors[i])))
      return false;
  return true;
}

bool constraint_as_divisibility(Checker *c, Constraint *k,
                                const Constraints *with) {
  if (k->kind != CN_DIM_EQ)
    return false;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *num, *den, *factors[DIM_MAX_FACTORS];
  if (dim_common_factor_may_vanish(c->dims, d))
    return k->divisibility; /* (n % 2)*(m/2) == 0 holds for m == 1, too */
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; i < count; i++)
    if (dim_is_remainder(c->dims, factors[i], &num, &den) &&
        is_alone(c, with, factors, count, i)) {
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
