/* The _ of a reshape: what is left for it by all other equations. */
#include "typecheck/internal.h"

static void find_hole(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_META && v->hole && !v->bound && !v->top)
    *out = v;
}

/* What only a branch needs does not say what callers give. */
static bool is_of_caller(Checker *c, const Fact *facts, DimVar *v) {
  return has_condition(facts) && of_parameter(c, v);
}

bool has_hole(const Dim *d) {
  DimVar *v = NULL;
  dim_each_var(d, find_hole, NULL, &v);
  return v;
}

/* An equation that gives a _ by a division waits for all the others. */
bool divides_hole(Checker *c, const Fact *facts, Dim *d) {
  DimVar *v = NULL;
  int64_t n;
  Dim *slope, *rest;
  dim_each_var(d, find_hole, NULL, &v);
  return v &&
         (!dim_linear(c->dims, d, v, &slope, &rest) ||
          !dim_is_int(slope, &n) || (n != 1 && n != -1)) &&
         !is_of_caller(c, facts, v);
}

typedef struct Holes {
  DimVar *one;
  uint32_t count;
} Holes;

static void count_hole(void *arg, DimVar *v) {
  Holes *h = arg;
  DimVar *found = NULL;
  find_hole(&found, v);
  if (!found || found == h->one)
    return;
  h->one = found;
  h->count++;
}

/* The sign with which the hole stands on its own side of the equation. */
static bool is_turned(Checker *c, const Constraint *k, DimVar *v,
                      Dim *factor) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  Dim *d = dim_mentions(c->dims, x, v) ? dim_sub(c->dims, x, y)
                                       : dim_sub(c->dims, y, x);
  Dim *whole, *rest, *pos, *neg;
  if (!dim_linear(c->dims, d, v, &whole, &rest))
    return dim_sign(factor) < 0;
  Dim *times = dim_quotient(c->dims, whole, factor);
  if (!times)
    return dim_sign(factor) < 0;
  dim_split_signs(c->dims, times, &pos, &neg);
  return dim_is_const(pos) && !dim_sign(pos);
}

/* Where the hole stands on both sides, nothing says which sign of its factor
 * was meant.  False: neither is known. */
static bool known_sign(Checker *c, const Constraint *k, DimVar *v,
                       Dim **factor, Dim **rest) {
  if (dim_is_const(*factor) ||
      !dim_mentions(c->dims, dim_resolve(c->dims, k->left), v) ||
      !dim_mentions(c->dims, dim_resolve(c->dims, k->right), v))
    return true;
  facts_load(c, k->facts);
  if (loaded_ge0(c, *factor, false) == PROVED)
    return true;
  *factor = dim_neg(c->dims, *factor), *rest = dim_neg(c->dims, *rest);
  return loaded_ge0(c, *factor, false) == PROVED;
}

/* An equation that has a hole times a factor gives hole := rest / factor, and
 * demands that the division is exact. */
static bool solve_hole(Checker *c, Constraint *k, uint32_t most) {
  if (k->kind != CN_DIM_EQ || k->done || k->assumed)
    return false;
  Dim *whole = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *d = dim_cancel(c->dims, whole), *factor, *rest, *n, *of;
  Holes holes = {NULL, 0};
  dim_each_var(d, count_hole, NULL, &holes);
  DimVar *v = holes.one;
  if (!v || holes.count > most ||
      !dim_linear(c->dims, d, v, &factor, &rest) ||
      is_of_caller(c, k->facts, v))
    return false;
  if (dim_is_const(factor) && dim_linear(c->dims, whole, v, &n, &of) &&
      dim_is_const(n))
    factor = n, rest = of; /* as the user knows them */
  if (is_turned(c, k, v, factor))
    factor = dim_neg(c->dims, factor);
  else
    rest = dim_neg(c->dims, rest);
  if (!known_sign(c, k, v, &factor, &rest))
    return false;
  Dim *quotient = dim_div(c->dims, rest, factor);
  dim_bind(c, v, quotient);
  k->divides = true;
  k->divisor = factor;
  k->left = rest;
  k->right = dim_mul(c->dims, factor, quotient);
  if (!dim_is_const(factor))
    demand_le(c, dim_int(c->dims, 1), factor, k->origin);
  return true;
}

static bool may_be_one(Checker *c, const Constraint *k, DimVar *v) {
  Dim *less = dim_sub(c->dims, dim_of_var(c->dims, v), dim_int(c->dims, 1));
  facts_load(c, k->facts);
  return dim_ge0(c->solver, less, false) != REFUTED;
}

/* Nothing more is to come: that a shape is empty is nothing that an equation
 * is to find out. */
static void refute_zeros(Checker *c, uint32_t mark) {
  for (uint32_t i = mark; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (k->kind != CN_DIM_EQ || k->done || k->assumed)
      continue;
    DimVar *v = only_zero(c, dim_resolve(c->dims, k->left),
                          dim_resolve(c->dims, k->right));
    if (!v || (c->level && v->level <= c->level) || is_uncertain(c, k) ||
        !may_be_one(c, k, v))
      continue;
    k->done = true;
    report_dims(c, k);
  }
}

/* Those that stand alone in an equation first. */
void solve_holes(Checker *c, uint32_t mark) {
  refute_zeros(c, mark);
  for (uint32_t most = 1; most <= 2; most++)
    for (bool any = true; any;) {
      any = false;
      for (uint32_t i = mark; i < c->pending.len; i++)
        any |= solve_hole(c, c->pending.at[i], most);
    }
  solve_pending(c);
}
