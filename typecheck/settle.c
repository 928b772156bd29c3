/* Equations and inequalities between two sizes: proved, refuted or open. */
#include "typecheck/internal.h"

static void census_dim(void *arg, DimVar *v) {
  Census *n = arg;
  n->top |= v->top;
  switch (v->kind) {
  case DV_META: n->meta |= !v->top; break;
  case DV_DATA: n->data = true; break;
  case DV_RIGID: n->rigid = true; break;
  case DV_INDEX: n->index = true; break;
  }
}

static void census_shape(void *arg, ShapeVar *v) {
  Census *n = arg;
  if (v->rigid)
    n->rigid = true;
  else
    n->meta = true;
}

Census dim_census(Checker *c, Dim *d) {
  Census n = {0};
  Visit v = {.dim = census_dim, .shape = census_shape, .arg = &n, .c = c};
  dim_visit(&v, d);
  return n;
}

/* Sizes of the conditions under which a constraint has to hold. */
Census conditions_census(Checker *c, const Constraint *k) {
  Census n = {0};
  Visit v = {.dim = census_dim, .shape = census_shape, .arg = &n, .c = c};
  for (const Fact *f = k->facts; k->implied && f && f != k->scope;
       f = f->outer)
    dim_visit(&v, f->dim);
  return n;
}

/* ---- equality of sizes ---- */

typedef struct Solver {
  Checker *c;
  const Constraint *k;
} Solver;

/* What a condition is about is not decided in its branch. */
static bool is_conditioned(Checker *c, const Constraint *k, DimVar *v) {
  for (const Fact *f = k->facts; f; f = f->outer)
    if (is_condition(f) &&
        dim_mentions(c->dims, dim_resolve(c->dims, f->dim), v))
      return true;
  return false;
}

static bool may_solve(void *arg, DimVar *v) {
  Solver *s = arg;
  return v->kind == DV_META && !v->bound && !v->top &&
         !is_conditioned(s->c, s->k, v);
}

static bool may_fill(void *arg, DimVar *v) {
  return v->hole && may_solve(arg, v);
}

/* Nothing more will be learnt of its sizes: what only sizes of 0 satisfy is
 * refuted then. */
static bool is_settled(Checker *c, const Constraint *k) {
  return !dim_census(c, k->left).meta && !dim_census(c, k->right).meta;
}

typedef struct Harden {
  Checker *c;
  const Constraint *k;
} Harden;

static void harden_divisor(void *arg, Dim *divisor) {
  Harden *h = arg;
  Checker *c = h->c;
  Dim *one = dim_int(c->dims, 1);
  if (facts_le(c, one, divisor) == PROVED)
    return;
  for (uint32_t i = 0; i < c->pending.len; i++) {
    const Constraint *o = c->pending.at[i];
    if (o->kind == CN_DIM_LE && !o->done && o->facts == h->k->facts &&
        dim_equal(o->left, one) &&
        dim_equal(dim_resolve(c->dims, o->right), divisor))
      return;
  }
  demand_le(c, one, divisor, h->k->origin);
}

/* What a demand says of a quotient of mere integers it says of a size: the
 * solver takes for granted that the divisor is at least 1. */
static void harden(Checker *c, const Constraint *k, Dim *d) {
  Harden h = {c, k};
  if (dim_is_soft(d))
    dim_each_divisor(c->dims, d, true, harden_divisor, &h);
}

typedef struct Shared { /* a size that is still open, on both sides */
  Checker *c;
  Dim *a, *b;
  DimVar *found;
} Shared;

static void look_shared(void *arg, DimVar *v) {
  Shared *s = arg;
  DimCtx *cx = s->c->dims;
  if (v->kind == DV_META && !v->value && dim_mentions(cx, s->a, v) &&
      dim_mentions(cx, s->b, v))
    s->found = v;
}

DimVar *only_zero(Checker *c, Dim *a, Dim *b) {
  Dim *d = dim_cancel(c->dims, dim_sub(c->dims, a, b));
  Shared s = {c, a, b, NULL};
  if (dim_only_zero(d))
    dim_each_var(d, look_shared, NULL, &s);
  return s.found;
}

/* An axis of 1 does not stretch: most likely a * was meant, and the other one
 * was never meant to be 1. */
static void warn_joined(Checker *c, const Constraint *k, DimVar *v) {
  const Origin *o = k->origin;
  if (c->module->library || o->kind != OR_OPERATOR || o->inner)
    return; /* of a call: its sizes are still to be found from the arguments */
  Diag *d = warning_at(c, 404, o->span,
                       "%s has to be 1 here: it meets an axis that is 1",
                       dim_text_of(c, dim_of_var(c->dims, v)));
  d->help = "an axis that is 1 does not stretch; one made with * does, as in "
            "x.[:, *]";
}

/* A variable that a == b gives, and what it is: the side that stands alone,
 * or one that is linear in d, their difference.  A `_` is solved before a size
 * of a parameter: nothing is to be divided for that. */
static DimVar *solution(Checker *c, const Constraint *k, Dim *a, Dim *b,
                        Dim *d, Dim **value) {
  Solver solver = {c, k};
  DimVar *v = dim_as_var(a), *w = dim_as_var(b);
  *value = b;
  if (v && w && may_solve(&solver, w) && v->value == w->value &&
      v->id < w->id && (v->name || !w->name))
    v = NULL; /* the newer one is solved: fewer constraints mention it */
  if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, b, v)) {
    v = w;
    *value = a;
    if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, a, v))
      v = NULL;
  }
  if (!v && !dim_solve(c->dims, d, may_solve, &solver, &v, value))
    return NULL;
  if (!v->hole && of_parameter(c, v))
    dim_solve(c->dims, d, may_fill, &solver, &v, value);
  *value = dim_resolve(c->dims, *value);
  return v;
}

Verdict bind_solution(Checker *c, Constraint *k, DimVar *v, Dim *value) {
  int64_t n;
  if (!v->value && dim_is_int(value, &n) && n < 0)
    return REFUTED;
  if (inside_escapes(c, v, value)) {
    k->at_run_time = true; /* callers do not know that size */
    return OPEN;
  }
  v->by = k->origin;
  if (k->joins && !v->value && !v->hole && dim_is_int(value, &n) && n == 1 &&
      (dim_equal(value, dim_resolve(c->dims, k->left)) ||
       dim_equal(value, dim_resolve(c->dims, k->right))))
    warn_joined(c, k, v); /* it meets a 1; 3 - n == 2 is no such */
  dim_bind(c, v, value);
  if (!v->value && !dim_is_const(value) && !dim_as_var(value))
    demand_le(c, dim_int(c->dims, 0), value, k->origin);
  return PROVED;
}

/* Of a*x == b*x, of which a == b is d.  An x that may be 0 at sizes of at
 * least 1, as n/2 may, makes it true whatever a and b are. */
static Verdict unless_vanishing(Checker *c, Dim *ax, Dim *bx, Verdict of_d) {
  return of_d == REFUTED && dim_may_vanish(c->dims, dim_sub(c->dims, ax, bx))
             ? OPEN
             : of_d;
}

Verdict settle_eq(Checker *c, Constraint *k) {
  Dim *a = dim_resolve(c->dims, k->left), *b = dim_resolve(c->dims, k->right);
  if (dim_has_top(a) || dim_has_top(b))
    return PROVED; /* `?` takes any size */
  if (dim_equal(a, b))
    return PROVED;
  Dim *d = dim_cancel(c->dims, dim_sub(c->dims, a, b)), *value;
  if (dim_is_const(d))
    return unless_vanishing(c, a, b, dim_sign(d) ? REFUTED : PROVED);
  harden(c, k, d);
  if (has_condition(k->facts)) {
    facts_load(c, k->facts);
    if (dim_eq0(c->solver, d, false) == PROVED)
      return PROVED;
  }
  if (divides_hole(c, k->facts, d) || only_zero(c, a, b))
    return OPEN;
  DimVar *v = solution(c, k, a, b, d, &value);
  if (v)
    return unless_vanishing(c, a, b, bind_solution(c, k, v, value));
  facts_load(c, k->facts);
  return unless_vanishing(c, a, b, dim_eq0(c->solver, d, is_settled(c, k)));
}

Verdict settle_le(Checker *c, Constraint *k) {
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  harden(c, k, d);
  d = dim_simplify_ge(c->dims, d);
  if (dim_has_top(d))
    return OPEN;
  if (dim_is_const(d))
    return dim_sign(d) >= 0 ? PROVED : REFUTED;
  facts_load_for(c, k->facts, d);
  return loaded_ge0(c, d, is_settled(c, k));
}

Verdict settle_ne(Checker *c, Constraint *k) {
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (dim_is_const(d))
    return dim_sign(d) ? PROVED : REFUTED;
  return OPEN;
}
