/* Equations that wait, taken together: 2*n + 3*m == 16 and 3*n + 2*m == 14 say
 * that n is 2 and m is 4.  They are looked at when a function is generalised
 * and at the end of a declaration, where no more is to come. */
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

static bool pin(Checker *c, DimVar *v, Dim *value, Constraint *k) {
  return bind_solution(c, k, v, dim_resolve(c->dims, value)) == PROVED;
}

/* ---- linear systems ---- */

/* What contradicts the others is told, with the places of those. */
static void contradicts(Checker *c, const Waiting *all, uint64_t cause) {
  Constraint *last = NULL;
  for (uint32_t i = 0; i < all->len; i++)
    if (cause >> i & 1)
      last = all->at[i];
  last->done = true;
  uint32_t before = c->diags->all.len;
  Names *names = names_share(c);
  report_dims(c, last);
  for (uint32_t i = 0; c->diags->all.len > before && i < all->len; i++) {
    const Constraint *k = all->at[i];
    const char *x, *y;
    if (!(cause >> i & 1) || k == last)
      continue;
    dims_text(c, k->left, k->right, &x, &y);
    diag_mark(c->arena, c->diags->all.at[before], k->origin->span,
              arena_printf(c->arena, "where %s == %s", x, y));
  }
  c->names = names;
}

/* A solution that one equation gives by itself waits for another reason. */
static bool is_found(const DimSolution *found) {
  return dim_is_const(found->value) ||
         ((found->from & (found->from - 1)) &&
          !has_hole(found->value) && !found->var->hole);
}

/* The last of the equations that it comes from. */
static Constraint *cause_of(const Waiting *all, const DimSolution *found) {
  uint32_t last = 0;
  while (found->from >> last > 1)
    last++;
  return all->at[last];
}

static bool solve_system(Checker *c, const Waiting *all) {
  DimSystem *s = dim_system_new(c->dims);
  for (uint32_t i = 0; i < all->len; i++)
    if (!dim_system_add(s, difference(c, all->at[i]))) {
      contradicts(c, all, dim_system_cause(s));
      return true;
    }
  DimSolution found;
  bool any = false;
  for (uint32_t at = 0; dim_system_next(s, &at, &found);) {
    Dim *value = dim_resolve(c->dims, found.value);
    if (!is_found(&found) || dim_mentions(c->dims, value, found.var))
      continue;
    Constraint *k = cause_of(all, &found);
    Verdict v = bind_solution(c, k, found.var, value);
    if (v == REFUTED) {
      k->done = true;
      report_dims(c, k);
    }
    any |= v != OPEN;
  }
  return any;
}

/* ---- one by another ---- */

static bool may_pin(void *arg, DimVar *v) {
  (void)arg;
  return is_unsolved(v);
}

static bool pin_by(Checker *c, Dim *less, Dim *d, Constraint *k) {
  DimVar *v;
  Dim *value;
  if (dim_equal(less, d))
    return false;
  less = dim_cancel(c->dims, less);
  return !has_hole(less) &&
         dim_solve(c->dims, less, may_pin, NULL, &v, &value) &&
         pin(c, v, value, k);
}

/* Where h divides n and m, n/h == m/h says that these are equal. */
static bool pin_exact(Checker *c, const Waiting *all, Constraint *k, Dim *d) {
  Dim *less = d;
  for (uint32_t i = 0; i < all->len; i++) {
    const Constraint *o = all->at[i];
    if (o != k && o->divides)
      less = dim_exact(c->dims, less, dim_resolve(c->dims, o->left),
                       dim_resolve(c->dims, o->divisor));
  }
  return pin_by(c, less, d, k);
}

/* h == g*r makes h*e == h*d of g*r*e == h*d, so that d is e. */
static bool pin_product(Checker *c, Dim *d, Dim *by, Constraint *k) {
  Dim *less;
  for (uint32_t i = 0; (less = dim_reduce_by(c->dims, d, by, i)); i++)
    if (pin_by(c, less, d, k))
      return true;
  return false;
}

static bool solve_by_others(Checker *c, const Waiting *all) {
  Dim *at[MOST_EQUATIONS];
  for (uint32_t i = 0; i < all->len; i++) {
    is_divisibility(c, all->at[i]);
    at[i] = difference(c, all->at[i]);
  }
  for (uint32_t i = 0; i < all->len; i++) {
    if (pin_exact(c, all, all->at[i], at[i]))
      return true;
    for (uint32_t j = 0; j < all->len; j++)
      if (i != j && pin_product(c, at[i], at[j], all->at[i]))
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

static DimVar *unsolved_in(Checker *c, const Constraint *k) {
  DimVar *v = NULL;
  dim_each_var(difference(c, k), find_unsolved, NULL, &v);
  return v;
}

static bool pin_one(Checker *c, const Waiting *all) {
  for (uint32_t i = 0; i < all->len; i++) {
    DimVar *v = unsolved_in(c, all->at[i]);
    if (v && pin_only(c, all, v))
      return true;
  }
  return false;
}

static Waiting waiting(Checker *c, uint32_t mark) {
  Waiting all = {0};
  for (uint32_t i = mark; i < c->pending.len && all.len < MOST_EQUATIONS; i++)
  {
    Constraint *k = c->pending.at[i];
    if (is_plain(k) && !dim_has_top(difference(c, k)) && unsolved_in(c, k) &&
        !only_zero(c, dim_resolve(c->dims, k->left),
                   dim_resolve(c->dims, k->right)))
      VEC_PUSH(c->arena, all, k);
  }
  return all;
}

void solve_together(Checker *c, uint32_t mark, bool last) {
  for (bool more = true; more;) {
    Waiting all = waiting(c, mark);
    more = (all.len > 1 &&
            (solve_system(c, &all) || solve_by_others(c, &all))) ||
           (last && all.len && pin_one(c, &all));
    if (more) {
      c->progress = true;
      solve_pending(c);
      if (last)
        solve_holes(c, mark);
    }
  }
}
