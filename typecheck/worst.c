/* What a term comes to at the worst of its `for` indices: how an obligation
 * for all of them becomes one that mentions none. */
#include "typecheck/internal.h"

static void mention_index(void *arg, DimVar *v) {
  if (v->kind == DV_INDEX)
    *(bool *)arg = true;
}

bool mentions_index(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), mention_index, NULL, &found);
  return found;
}

Dim *index_range_of(const DimVar *v) { return v->home; }

/* The innermost: the range of another may depend on those further out. */
static void innermost_index(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_INDEX && (!*out || v->id > (*out)->id))
    *out = v;
}

enum { WORST_INDICES = 32 }; /* at most so many loops in one another */

typedef struct Extreme {
  Checker *c;
  bool most;  /* the largest value, else the least */
  bool exact; /* it is attained, if the loops run at all */
  Origin *o;  /* in whose name what is needed is demanded; or NULL */
  const Fact *facts; /* conditions that bound indices; or NULL */
} Extreme;

static bool is_nonneg(Checker *c, Dim *d) {
  facts_load(c, c->facts);
  return loaded_ge0(c, dim_resolve(c->dims, d), false) == PROVED;
}

/* A bound of v that a condition states: v <= *bound, or v >= *bound. */
static bool fact_bound(Extreme *x, DimVar *v, bool upper, Dim **bound) {
  Checker *c = x->c;
  int64_t slope;
  Dim *by, *rest;
  for (const Fact *f = x->facts; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (f->index || f->ne || dim_has_top(d) ||
        !dim_linear(c->dims, d, v, &by, &rest) || !dim_is_int(by, &slope) ||
        (slope != 1 && slope != -1))
      continue;
    if (!f->eq && (slope < 0) != upper)
      continue;
    *bound = slope < 0 ? rest : dim_neg(c->dims, rest);
    x->exact = false;
    return true;
  }
  return false;
}

/* d == slope*v + rest */
static bool at_end(Extreme *x, DimVar *v, Dim *slope, Dim *rest, Dim **out) {
  Checker *c = x->c;
  Dim *one = dim_int(c->dims, 1), *end;
  bool up = is_nonneg(c, slope);
  if (!up && x->o && dim_as_var(slope)) { /* a dilation: demanded to be one */
    demand_le(c, one, slope, x->o);
    up = true;
  }
  if (!up && !is_nonneg(c, dim_neg(c->dims, slope)))
    return false;
  bool last = up == x->most;
  if (!fact_bound(x, v, last, &end))
    end = last ? dim_sub(c->dims, index_range_of(v), one) : dim_int(c->dims, 0);
  if (last && x->o)
    demand_le(c, one, index_range_of(v), x->o);
  *out = dim_add(c->dims, rest, dim_mul(c->dims, slope, end));
  return true;
}

static bool extreme(Extreme *x, Dim *d, Dim **out);

/* d == k*(num % den) + rest */
static bool at_remainder(Extreme *x, DimVar *v, Division *q, Dim **out) {
  Checker *c = x->c;
  Dim *k = dim_quotient(c->dims, dim_neg(c->dims, q->slope), q->den);
  if (!k || mentions_index(c, k) || mentions_index(c, q->den))
    return false;
  Dim *rest = dim_sub(c->dims, q->rest, dim_mul(c->dims, k, q->num));
  if (dim_mentions(c->dims, rest, v))
    return false;
  bool up = is_nonneg(c, k);
  if (!up && !is_nonneg(c, dim_neg(c->dims, k)))
    return false;
  x->exact = false; /* the range may be shorter than the divisor */
  *out = rest;
  if (up == x->most)
    *out = dim_add(c->dims, rest,
                   dim_mul(c->dims, k,
                           dim_sub(c->dims, q->den, dim_int(c->dims, 1))));
  return true;
}

/* d == slope*(num / den) + rest: a quotient grows with its numerator. */
static bool at_quotient(Extreme *x, DimVar *v, Division *q, Dim **out) {
  Checker *c = x->c;
  if (mentions_index(c, q->den) || mentions_index(c, q->slope) ||
      dim_mentions(c->dims, q->rest, v))
    return false;
  bool up = is_nonneg(c, q->slope);
  if (!up && !is_nonneg(c, dim_neg(c->dims, q->slope)))
    return false;
  x->exact &= !mentions_index(c, q->rest);
  Extreme inner = *x;
  Dim *num;
  inner.most = up == x->most;
  if (!extreme(&inner, q->num, &num))
    return false;
  x->exact = inner.exact;
  *out = dim_add(c->dims, q->rest,
                 dim_mul(c->dims, q->slope, dim_div(c->dims, num, q->den)));
  return true;
}

static bool extreme(Extreme *x, Dim *d, Dim **out) {
  Checker *c = x->c;
  for (int round = 0; round < WORST_INDICES; round++) {
    DimVar *v = NULL;
    Division q;
    Dim *slope, *rest;
    *out = d = dim_resolve(c->dims, d);
    dim_each_var(d, innermost_index, NULL, &v);
    if (!v)
      return true;
    if (!index_range_of(v))
      return false;
    if (dim_linear(c->dims, d, v, &slope, &rest)) {
      if (!at_end(x, v, slope, rest, &d))
        return false;
    } else if (!dim_division(c->dims, d, v, &q) ||
               (!at_remainder(x, v, &q, &d) && !at_quotient(x, v, &q, &d))) {
      return false;
    }
  }
  return false;
}

bool index_extreme(Checker *c, Dim *d, bool most, Dim **out, Origin *o) {
  Extreme x = {.c = c, .most = most, .exact = true, .o = o};
  return extreme(&x, d, out) && x.exact;
}

static void note_divisor(void *arg, Dim *divisor) {
  (void)divisor;
  *(bool *)arg = true;
}

/* Where the loop over v does not run, nothing is asked; unless what is asked
 * holds then anyway, or the range is at least 1, this is a condition. */
static Fact *runs(Checker *c, const DimVar *v, Dim *d, Fact *outer) {
  Dim *range = dim_resolve(c->dims, index_range_of(v));
  Dim *more = dim_sub(c->dims, range, dim_int(c->dims, 1));
  facts_load(c, outer);
  if (mentions_index(c, range) || dim_ge0(c->solver, more, false) == PROVED)
    return outer;
  dim_facts_add_ge(c->solver, dim_neg(c->dims, range));
  bool divides = false; /* by what is then at least 1, so never by 0 */
  dim_each_divisor(c->dims, d, false, note_divisor, &divides);
  if (!divides && dim_ge0(c->solver, d, false) == PROVED)
    return outer;
  Fact *f = NEW(c->arena, Fact);
  *f = (Fact){.outer = outer, .dim = more};
  return f;
}

/* Of the index whose range a fact is. */
static DimVar *index_of(Checker *c, const Fact *f) {
  DimVar *v = NULL;
  dim_each_var(dim_resolve(c->dims, f->dim), innermost_index, NULL, &v);
  return v;
}

/* A range that depends on another index may be empty for some of these. */
static bool runs_always(Checker *c, const Constraint *k, const DimVar *v) {
  Dim *range = dim_resolve(c->dims, index_range_of(v));
  if (!mentions_index(c, range))
    return true;
  const Fact *f = k->facts;
  while (f && !(f->index && index_of(c, f) == v))
    f = f->outer;
  facts_load(c, f ? f->outer : NULL);
  return dim_ge0(c->solver, dim_sub(c->dims, range, dim_int(c->dims, 1)),
                 false) == PROVED;
}

bool index_scoped(Checker *c, const Constraint *k) {
  bool access = k->origin->kind == OR_INDEX;
  for (const Fact *f = k->facts; f; f = f->outer)
    if (f->index ? access : f->unsaid || mentions_index(c, f->dim))
      return true;
  return false;
}

bool index_worst(Checker *c, const Constraint *k, Constraint *worst,
                 bool *exact) {
  if (k->kind != CN_DIM_LE)
    return false;
  Fact *saved = c->facts;
  Extreme x = {.c = c, .exact = true, .facts = k->facts};
  Dim *d;
  c->facts = k->facts;
  bool found = extreme(&x, dim_sub(c->dims, k->right, k->left), &d);
  c->facts = saved;
  if (!found)
    return false;
  *worst = *k;
  *exact = x.exact;
  worst->left = dim_int(c->dims, 0), worst->right = d;
  Fact *kept = NULL;
  for (Fact *f = k->facts; f; f = f->outer) {
    bool conditional = f->unsaid || mentions_index(c, f->dim);
    *exact &= f->index || !conditional;
    if (f->index || conditional)
      continue;
    Fact *g = NEW(c->arena, Fact);
    *g = *f;
    g->outer = kept;
    kept = g;
  }
  d = dim_simplify_ge(c->dims, dim_resolve(c->dims, d));
  Dim *whole = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  for (Fact *f = k->facts; f; f = f->outer) {
    DimVar *v = f->index ? index_of(c, f) : NULL;
    if (!v || !index_range_of(v) ||
        (k->origin->kind != OR_INDEX && !dim_mentions(c->dims, whole, v)))
      continue;
    *exact &= runs_always(c, k, v);
    kept = runs(c, v, d, kept);
    if (dim_is_const(dim_resolve(c->dims, index_range_of(v))) &&
        dim_sign(dim_resolve(c->dims, index_range_of(v))) <= 0)
      worst->right = dim_int(c->dims, 0); /* it never runs */
  }
  worst->facts = kept;
  return true;
}

/* ---- what cannot be for all of them ---- */

static void other_var(void *arg, DimVar *v) {
  if (v->kind != DV_INDEX)
    *(bool *)arg = true;
}

static bool has_size(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), other_var, NULL, &found);
  return found;
}

/* Does it fail for some index whenever the loops run?  Then a witness is
 * found, or no sizes satisfy what is left. */
static bool fails_somewhere(Checker *c, const Constraint *k) {
  if (k->kind != CN_DIM_LE && k->kind != CN_DIM_EQ)
    return false;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (!mentions_index(c, d) || dim_has_top(d))
    return false;
  Constraint worst;
  bool exact = false, sizes = has_size(c, d);
  if (index_worst(c, k, &worst, &exact) && exact) {
    facts_load(c, worst.facts);
    if (dim_ge0(c->solver, dim_resolve(c->dims, worst.right), true) !=
        REFUTED)
      return false;
    facts_load(c, k->facts);
    return !dim_facts_contradictory(c->solver);
  }
  for (const Fact *f = k->facts; f && !sizes; f = f->outer)
    sizes |= f->ne || f->unsaid ||
             (mentions_index(c, f->dim) && has_size(c, f->dim));
  if (sizes)
    return false;
  Buffer ignored = {0};
  facts_load(c, k->facts);
  bool found = dim_witness(c->solver, d, k->kind == CN_DIM_EQ, &ignored);
  buffer_free(&ignored);
  return found;
}

void refute_accesses(Checker *c) {
  for (uint32_t i = 0; !c->loop && i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (k->done || k->assumed || !fails_somewhere(c, k))
      continue;
    k->done = true;
    report_dims(c, k);
  }
}
