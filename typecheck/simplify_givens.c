/* Simplifies the constraints of a function's type.  Merges constraints, splits
   one into simpler ones, and removes divisions that another constraint states
   to be exact.  Main entry point: givens_simplify. */
#include "typecheck/solver.h"
#include "support/arena.h"
#include "support/int_math.h"

static Dim *slack(Checker *c, const Constraint *k) {
  return dim_sub(c->dims, dim_resolve(c->dims, k->right),
                 dim_resolve(c->dims, k->left));
}

Dim *given_cancel_sizes(Checker *c, Dim *d) {
  return dim_common_factor_may_vanish(c->dims, d)
             ? d
             : dim_cancel_common_factor(c->dims, d);
}

static bool is_size_relation(const Constraint *k) {
  return k && (k->kind == CN_DIM_EQ || k->kind == CN_DIM_LE);
}

/* Sets the difference of the sides of k. */
static void set_slack(Checker *c, Constraint *k, Dim *d) {
  dim_split_signs(c->dims, d, &k->right, &k->left);
}

static void set_division(Checker *c, Constraint *k, Dim *num, Dim *den) {
  k->divisibility = true;
  k->divisor = den;
  k->left = num;
  k->right = dim_mul(c->dims, den, dim_div(c->dims, num, den));
}

/* ---- one that says several things ---- */

static Constraint *clone_constraint(Checker *c, Constraints *all, uint32_t of) {
  Constraint *k = NEW(c->arena, Constraint);
  *k = *all->at[of];
  VEC_PUSH(c->arena, *all, k);
  return k;
}

typedef struct KnownGivens {
  Checker *c;
  const Constraints *all;
} KnownGivens;

static bool is_given_ge0(void *arg, Dim *d) {
  const KnownGivens *known_givens = arg;
  for (uint32_t i = 0; i < known_givens->all->len; i++) {
    const Constraint *k = known_givens->all->at[i];
    if (k->kind == CN_DIM_LE && !k->assumptions && !k->sufficient_only &&
        dim_equal(slack(known_givens->c, k), d))
      return true;
  }
  return false;
}

/* Splits n*m == 2*(n/2) * 3*(m/3), 1 <= n*m, or max(n, m) <= k. */
static void split_given(Checker *c, Constraints *all, uint32_t at) {
  Constraint *k = all->at[at];
  FloorDivision parts[DIM_MAX_FACTORS];
  Dim *sides[DIM_MAX_FACTORS];
  uint32_t count = divisibility_parts(c, k, parts);
  for (uint32_t i = 0; count > 1 && i < count; i++)
    set_division(c, i ? clone_constraint(c, all, at) : k, parts[i].num,
                 parts[i].den);
  if (k->kind != CN_DIM_LE)
    return;
  Dim *d = dim_simplify_ge(c->dims, slack(c, k));
  KnownGivens known_givens = {c, all};
  count = dim_ge_conjuncts(c->dims, d, is_given_ge0, &known_givens, sides);
  for (uint32_t i = 0; i < count; i++)
    set_slack(c, i ? clone_constraint(c, all, at) : k, sides[i]);
}

/* ---- divisibilities ---- */

/* True if k states unconditionally that a division is exact. */
static bool is_exact(const Constraint *k) {
  return k && k->kind == CN_DIM_EQ && !k->assumptions && !k->sufficient_only &&
         k->divisibility;
}

typedef struct DivisibilityFact { /* x/over is a multiple of by */
  Dim *x;
  int64_t over, by;
} DivisibilityFact;

static bool as_divisibility_fact(Checker *c, const Constraint *k,
                                 DivisibilityFact *out) {
  Dim *num, *den;
  if (!is_exact(k) || k->is_given ||
      !dim_is_int(dim_resolve(c->dims, k->divisor), &out->by))
    return false;
  out->x = dim_resolve(c->dims, k->left), out->over = 1;
  if (dim_as_quotient(out->x, &num, &den) && dim_is_int(den, &out->over))
    out->x = num;
  return out->by > 0 && out->over > 0;
}

/* Merges q % p == 0 and (q/r) % s == 0 to q % lcm(p, r*s) == 0.  This is
   correct if r divides p, since q/r is then exact.  It is also correct if p
   divides s and p is at least r: the remainder of q by r*s is then less than r
   and a multiple of p. */
static bool merge_divisibility_facts(Checker *c, Constraint *k,
                                     const DivisibilityFact *a,
                                     const DivisibilityFact *b) {
  int64_t r = b->over / a->over, s;
  if (!dim_equal(a->x, b->x) || b->over % a->over ||
      (r == 1 && a->by % b->by) || __builtin_mul_overflow(r, b->by, &s) ||
      s > INT32_MAX || (a->by % r && (b->by % a->by || r > a->by)))
    return false;
  int64_t all = a->by / int_gcd(a->by, s);
  if (__builtin_mul_overflow(all, s, &all))
    return false;
  set_division(c, k, dim_resolve(c->dims, k->left), dim_int(c->dims, all));
  return true;
}

static void merge_divisibilities(Checker *c, Constraints *all) {
  DivisibilityFact a, b;
  for (uint32_t i = 0; i < all->len; i++)
    for (uint32_t j = 0;
         as_divisibility_fact(c, all->at[i], &a) && j < all->len; j++)
      if (i != j && as_divisibility_fact(c, all->at[j], &b) &&
          merge_divisibility_facts(c, all->at[i], &a, &b)) {
        all->at[j] = NULL;
        j = UINT32_MAX; /* restart, since k now says more */
      }
}

/* Removes quotients that are exact from the other constraints. */
static void eliminate_exact_division(Checker *c, Constraints *all,
                                     uint32_t by) {
  Dim *num = dim_resolve(c->dims, all->at[by]->left);
  Dim *den = dim_resolve(c->dims, all->at[by]->divisor);
  for (uint32_t i = 0; i < all->len; i++) {
    Constraint *k = all->at[i];
    if (i == by || !is_size_relation(k) || k->is_given || k->divisibility)
      continue;
    Dim *d = slack(c, k),
        *plain = dim_eliminate_exact_division(c->dims, d, num, den);
    if (dim_equal(d, plain))
      continue;
    plain = k->kind == CN_DIM_EQ ? given_cancel_sizes(c, plain)
                                 : dim_simplify_ge(c->dims, plain);
    set_slack(c, k, plain);
    constraint_as_divisibility(c, k, all);
  }
}

/* ---- constraints of both branches ---- */

/* True if exactly one of two conditions holds: d >= 0 or -d - 1 >= 0, d == 0 or
   d != 0. */
static bool are_complementary(Checker *c, const Assumption *f,
                              const Assumption *g) {
  Dim *a = dim_resolve(c->dims, f->dim), *b = dim_resolve(c->dims, g->dim);
  int64_t sum;
  if (f->relation == ASSUME_GE && g->relation == ASSUME_GE)
    return dim_is_int(dim_add(c->dims, a, b), &sum) && sum == -1;
  return f->relation != g->relation && f->relation != ASSUME_GE &&
         g->relation != ASSUME_GE && dim_equal_up_to_sign(c->dims, a, b);
}

/* The condition of k whose complement o has instead.  NULL if they differ in
   others, too. */
static const Assumption *only_difference(Checker *c, const Constraint *k,
                                         const Constraint *o) {
  const Assumption *f = k->assumptions, *g = o->assumptions, *found = NULL;
  for (; f && g; f = f->outer, g = g->outer) {
    if (assumption_equal(c, f, g))
      continue;
    if (found || !are_complementary(c, f, g))
      return NULL;
    found = f;
  }
  return f || g ? NULL : found;
}

static Assumption *without_condition(Checker *c, Assumption *f,
                                     const Assumption *omitted) {
  if (f == omitted)
    return f->outer;
  return assumption_copy(c, f, without_condition(c, f->outer, omitted));
}

static bool is_same_claim(Checker *c, const Constraint *k,
                          const Constraint *o) {
  return is_size_relation(o) && k->kind == o->kind &&
         k->sufficient_only == o->sufficient_only &&
         k->is_given == o->is_given && k->is_dependent == o->is_dependent &&
         k->divisibility == o->divisibility &&
         dim_equal(slack(c, k), slack(c, o));
}

/* What both branches of an `if` require has no condition. */
static void merge_branches(Checker *c, Constraints *all) {
  for (uint32_t i = 0; i < all->len; i++) {
    Constraint *k = all->at[i];
    for (uint32_t j = 0; is_size_relation(k) && k->assumptions && j < all->len;
         j++) {
      Constraint *o = all->at[j];
      const Assumption *condition = j != i && is_size_relation(o) &&
                                            o->assumptions &&
                                            is_same_claim(c, k, o)
                                        ? only_difference(c, k, o)
                                        : NULL;
      if (!condition)
        continue;
      k->assumptions = without_condition(c, k->assumptions, condition);
      all->at[j] = NULL;
      j = UINT32_MAX; /* restart, since k now says more */
    }
  }
}

void givens_simplify(Checker *c, Constraints *all) {
  for (uint32_t i = 0; i < all->len; i++)
    if (is_size_relation(all->at[i]) && !all->at[i]->is_given)
      split_given(c, all, i);
  for (uint32_t i = 0; i < all->len; i++)
    if (all->at[i])
      constraint_as_divisibility(c, all->at[i], all);
  for (uint32_t i = 0; i < all->len; i++)
    if (is_exact(all->at[i]))
      eliminate_exact_division(c, all, i);
  merge_divisibilities(c, all);
  merge_branches(c, all);
}

/* ---- as they are read ---- */

/* b*784 == b*d becomes 784 == d. */
static void normalize_equation(Checker *c, Constraint *k) {
  Dim *left = dim_resolve(c->dims, k->left);
  Dim *right = dim_resolve(c->dims, k->right);
  Dim *d = dim_sub(c->dims, left, right), *by = dim_common_factor(c->dims, d);
  if (dim_common_factor_may_vanish(c->dims, d))
    return;
  left = dim_exact_quotient(c->dims, left, by);
  right = dim_exact_quotient(c->dims, right, by);
  if (left && right)
    k->left = left, k->right = right;
}

void given_normalize(Checker *c, Constraint *k) {
  if (k->kind == CN_DIM_EQ && !constraint_as_divisibility(c, k, NULL))
    normalize_equation(c, k);
  if (k->kind == CN_DIM_LE)
    set_slack(c, k, dim_simplify_ge(c->dims, slack(c, k)));
}
