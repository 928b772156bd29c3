/* Solves the _ of a reshape after all other equations.  Main entry point:
   solve_reshape_holes. */
#include "typecheck/solver.h"

static void find_hole(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_META && v->reshape_hole && !v->solution && !v->unknown)
    *out = v;
}

/* Constraints of a branch do not determine sizes of callers. */
static bool is_caller_size(Checker *c, const Assumption *assumptions,
                           DimVar *v) {
  return assumption_has_condition(assumptions) && dim_var_in_parameter(c, v);
}

bool dim_has_reshape_hole(const Dim *d) {
  DimVar *v = NULL;
  dim_each_var(d, find_hole, NULL, &v);
  return v;
}

/* True if the equation solves a _ by a division.  It waits for all other
   equations. */
bool solves_hole_by_division(Checker *c, const Assumption *assumptions,
                             Dim *d) {
  DimVar *v = NULL;
  int64_t n;
  Dim *slope, *rest;
  dim_each_var(d, find_hole, NULL, &v);
  return v &&
         (!dim_split_linear(c->dims, d, v, &slope, &rest) ||
          !dim_is_int(slope, &n) || (n != 1 && n != -1)) &&
         !is_caller_size(c, assumptions, v);
}

typedef struct HoleCount {
  DimVar *one;
  uint32_t count;
} HoleCount;

static void count_hole(void *arg, DimVar *v) {
  HoleCount *h = arg;
  DimVar *found = NULL;
  find_hole(&found, v);
  if (!found || found == h->one)
    return;
  h->one = found;
  h->count++;
}

/* The sign of the hole on its own side of the equation. */
static bool is_negated(Checker *c, const Constraint *k, DimVar *v,
                       Dim *factor) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  Dim *d = dim_mentions(c->dims, x, v) ? dim_sub(c->dims, x, y)
                                       : dim_sub(c->dims, y, x);
  Dim *whole, *rest, *pos, *neg;
  if (!dim_split_linear(c->dims, d, v, &whole, &rest))
    return dim_sign(factor) < 0;
  Dim *times = dim_exact_quotient(c->dims, whole, factor);
  if (!times)
    return dim_sign(factor) < 0;
  dim_split_signs(c->dims, times, &pos, &neg);
  return dim_is_const(pos) && !dim_sign(pos);
}

/* If the hole occurs on both sides, the intended sign of its factor is unclear.
   Returns false if no sign can be proved. */
static bool make_factor_nonneg(Checker *c, const Constraint *k, DimVar *v,
                               Dim **factor, Dim **rest) {
  if (dim_is_const(*factor) ||
      !dim_mentions(c->dims, dim_resolve(c->dims, k->left), v) ||
      !dim_mentions(c->dims, dim_resolve(c->dims, k->right), v))
    return true;
  assumption_load(c, k->assumptions);
  if (assumption_loaded_check_ge0(c, *factor, false) == ENTAILED)
    return true;
  *factor = dim_neg(c->dims, *factor), *rest = dim_neg(c->dims, *rest);
  return assumption_loaded_check_ge0(c, *factor, false) == ENTAILED;
}

bool solve_by_division(Checker *c, Constraint *k, DimVar *v) {
  Dim *whole = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *d = dim_cancel_common_factor(c->dims, whole), *factor, *rest, *n, *of;
  if (!dim_split_linear(c->dims, d, v, &factor, &rest) ||
      is_caller_size(c, k->assumptions, v))
    return false;
  if (dim_is_const(factor) && dim_split_linear(c->dims, whole, v, &n, &of) &&
      dim_is_const(n))
    factor = n, rest = of; /* in the user's terms */
  if (is_negated(c, k, v, factor))
    factor = dim_neg(c->dims, factor);
  else
    rest = dim_neg(c->dims, rest);
  if (!make_factor_nonneg(c, k, v, &factor, &rest))
    return false;
  Dim *quotient = dim_div(c->dims, rest, factor);
  dim_bind(c, v, quotient);
  k->divisibility = true;
  k->divisor = factor;
  k->left = rest;
  k->right = dim_mul(c->dims, factor, quotient);
  if (!dim_is_const(factor))
    add_size_le(c, dim_int(c->dims, 1), factor, k->origin);
  return true;
}

static bool solve_reshape_hole(Checker *c, Constraint *k, uint32_t max_holes) {
  if (k->kind != CN_DIM_EQ || k->solved || k->is_given)
    return false;
  HoleCount holes = {NULL, 0};
  dim_each_var(
      dim_cancel_common_factor(
          c->dims, dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right))),
      count_hole, NULL, &holes);
  return holes.one && holes.count <= max_holes &&
         solve_by_division(c, k, holes.one);
}

static bool may_be_one(Checker *c, const Constraint *k, DimVar *v) {
  Dim *less = dim_sub(c->dims, dim_of_var(c->dims, v), dim_int(c->dims, 1));
  assumption_load(c, k->assumptions);
  return dim_check_ge0(c->facts.loaded, less, false) != CONTRADICTED;
}

/* Called when no more constraints follow: an equation must not be satisfied
   merely by an empty shape. */
static void refute_zero_only(Checker *c, uint32_t mark) {
  for (uint32_t i = mark; i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (k->kind != CN_DIM_EQ || k->solved || k->is_given)
      continue;
    DimVar *v = forced_zero_size(c, dim_resolve(c->dims, k->left),
                                 dim_resolve(c->dims, k->right));
    if (!v || (c->inference.level && v->level <= c->inference.level) ||
        constraint_may_be_vacuous(c, k) || !may_be_one(c, k, v))
      continue;
    k->solved = true;
    report_constraint(c, k);
  }
}

/* Solves holes that are alone in an equation first. */
void solve_reshape_holes(Checker *c, uint32_t mark) {
  refute_zero_only(c, mark);
  for (uint32_t max_holes = 1; max_holes <= 2; max_holes++)
    for (bool any = true; any;) {
      any = false;
      for (uint32_t i = mark; i < c->solver.pending.len; i++)
        any |= solve_reshape_hole(c, c->solver.pending.at[i], max_holes);
    }
  solve_pending(c);
}
