/* Sizes that no equation gives by itself, and all that wait give together:
 * 4 == n/2 + 2 and n/2 + 2 == n say that n is 4.  Looked for at the end of a
 * declaration of top level, where nothing more is to come and running code
 * needs the size. */
#include "typecheck/internal.h"

enum { MOST_SIZE = 1 << 30, MOST_TRIALS = 1000, MOST_EQUATIONS = 64 };

typedef VEC(Constraint *) Waiting;

/* It holds whatever branch is taken. */
static bool is_plain(const Constraint *k) {
  return k->kind == CN_DIM_EQ && !k->done && !k->assumed && !k->implied &&
         !k->enough && !k->at_run_time && !has_condition(k->facts);
}

static Dim *difference(Checker *c, const Constraint *k) {
  return dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
}

static bool is_unsolved(const DimVar *v) {
  return v->kind == DV_META && !v->bound && !v->top;
}

static bool may_pin(void *arg, DimVar *v) {
  (void)arg;
  return is_unsolved(v);
}

static bool pin(Checker *c, DimVar *v, Dim *value, const Constraint *k) {
  int64_t n;
  if (!v->value && dim_is_int(value, &n) && n < 0)
    return false; /* no size at all */
  v->by = k->origin;
  dim_bind(c, v, value);
  if (!v->value && !dim_is_const(value) && !dim_as_var(value))
    demand_le(c, dim_int(c->dims, 0), value, k->origin);
  return true;
}

/* Sum or difference of two equations: what both have cancels, a quotient of
 * the size as well. */
static bool pin_by_two(Checker *c, const Waiting *all) {
  for (uint32_t i = 0; i < all->len; i++)
    for (uint32_t j = 0; j < i; j++) {
      Dim *a = difference(c, all->at[i]), *b = difference(c, all->at[j]);
      Dim *both[2] = {dim_sub(c->dims, a, b), dim_add(c->dims, a, b)}, *value;
      DimVar *v;
      for (uint32_t n = 0; n < 2; n++)
        if (!dim_has_top(both[n]) &&
            dim_solve(c->dims, dim_cancel(c->dims, both[n]), may_pin, NULL,
                      &v, &value) &&
            pin(c, v, dim_resolve(c->dims, value), all->at[i]))
          return true;
    }
  return false;
}

/* ---- the only number that satisfies all of them ---- */

static bool at_most(Checker *c, DimVar *v, int64_t n) {
  Dim *d = dim_sub(c->dims, dim_int(c->dims, n), dim_of_var(c->dims, v));
  return dim_ge0(c->solver, dim_resolve(c->dims, d), false) == PROVED;
}

static bool below(Checker *c, DimVar *v, int64_t n) {
  Dim *d = dim_sub(c->dims, dim_of_var(c->dims, v), dim_int(c->dims, n));
  return dim_ge0(c->solver, dim_resolve(c->dims, d), false) != PROVED;
}

/* The least of 0 to n for which it holds, where it holds for n. */
static int64_t least(Checker *c, DimVar *v, int64_t n,
                     bool (*holds)(Checker *, DimVar *, int64_t)) {
  int64_t low = 0;
  while (low < n) {
    int64_t mid = low + (n - low) / 2;
    if (holds(c, v, mid))
      n = mid;
    else
      low = mid + 1;
  }
  return low;
}

typedef struct Trial {
  DimVar *var;
  Dim *value;
} Trial;

static Dim *try_value(void *arg, DimVar *v) {
  const Trial *t = arg;
  return v == t->var ? t->value : NULL;
}

static bool satisfies(Checker *c, const Waiting *all, DimVar *v, int64_t n) {
  Trial t = {v, dim_int(c->dims, n)};
  for (uint32_t i = 0; i < all->len; i++) {
    Dim *d = dim_subst(c->dims, difference(c, all->at[i]), try_value, NULL, &t);
    if (dim_is_const(d) && dim_sign(d))
      return false;
  }
  return true;
}

static bool pin_only(Checker *c, const Waiting *all, DimVar *v) {
  facts_load(c, c->facts);
  for (uint32_t i = 0; i < all->len; i++)
    dim_facts_add_eq(c->solver, difference(c, all->at[i]));
  if (v->value || !at_most(c, v, MOST_SIZE) ||
      dim_facts_contradictory(c->solver))
    return false;
  int64_t high = least(c, v, MOST_SIZE, at_most);
  int64_t low = least(c, v, high + 1, below) - 1, found = -1;
  low = low < 0 ? 0 : low;
  if (high - low > MOST_TRIALS)
    return false;
  for (int64_t n = low; n <= high; n++) {
    if (!satisfies(c, all, v, n))
      continue;
    if (found >= 0)
      return false;
    found = n;
  }
  /* where there is none, any shows what is wrong */
  return pin(c, v, dim_int(c->dims, found < 0 ? high : found), all->at[0]);
}

static void find_unsolved(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (is_unsolved(v) && (!*out || v->id > (*out)->id))
    *out = v;
}

static bool pin_one(Checker *c, const Waiting *all) {
  if (pin_by_two(c, all))
    return true;
  for (uint32_t i = 0; i < all->len; i++) {
    DimVar *v = NULL;
    dim_each_var(difference(c, all->at[i]), find_unsolved, NULL, &v);
    if (v && pin_only(c, all, v))
      return true;
  }
  return false;
}

void solve_together(Checker *c) {
  for (bool more = true; more;) {
    Waiting all = {0};
    for (uint32_t i = 0; i < c->pending.len && all.len < MOST_EQUATIONS; i++) {
      Constraint *k = c->pending.at[i];
      DimVar *v = NULL;
      if (!is_plain(k) || dim_has_top(difference(c, k)))
        continue;
      dim_each_var(difference(c, k), find_unsolved, NULL, &v);
      if (v)
        VEC_PUSH(c->arena, all, k);
    }
    more = all.len && pin_one(c, &all);
    if (more) {
      c->progress = true;
      solve_pending(c);
      solve_holes(c, 0);
    }
  }
}
