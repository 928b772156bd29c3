/* Eliminates `for` indices from constraints.  Main entry points: index_bound
 * and eliminate_indices.
 *
 * A constraint inside a `for` must hold for every value of the index.  This
 * file replaces each index by the end of its range at which the term is largest
 * or smallest.  The result mentions no index, so a type scheme can contain
 * it.
 *
 * Example: i + k < n with 0 <= i < a and 0 <= k < b becomes a + b - 2 < n. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/buffer.h"

#include <string.h>

static void mention_index(void *arg, DimVar *v) {
  if (v->kind == DV_INDEX)
    *(bool *)arg = true;
}

bool mentions_index(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), mention_index, NULL, &found);
  return found;
}

Dim *index_range_of(const DimVar *v) {
  return v->user_data;
}

/* Finds the innermost index.  It is eliminated first, since its range may
   depend on outer indices. */
static void innermost_index(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_INDEX && (!*out || v->id > (*out)->id))
    *out = v;
}

enum { MAX_INDICES = 32 };

typedef struct IndexBound {
  Checker *c;
  bool maximize; /* otherwise minimize */
  bool exact;    /* some iteration attains the bound, if the loops run */
  Origin *o;     /* origin of added constraints; NULL: add none */
  const Assumption *assumed; /* path conditions that bound indices, or NULL */
  DimVar *eliminated[MAX_INDICES]; /* replaced by an end of their ranges */
  uint32_t eliminated_count;
  bool empty;      /* some loop never runs */
  uint32_t rounds; /* conditions may be cyclic; this bounds the search */
} IndexBound;

static bool is_nonneg(Checker *c, Dim *d) {
  assumption_load(c, c->facts.assumptions);
  return assumption_loaded_entails(c, dim_resolve(c->dims, d), false);
}

/* Reads an assumption as a bound of v: v <= *bound (upper), or v >= *bound. */
static bool bound_from_assumption(Checker *c, const Assumption *f, DimVar *v,
                                  bool upper, Dim **bound) {
  int64_t slope;
  Dim *d = dim_resolve(c->dims, f->dim), *by, *rest;
  if (f->role == ROLE_INDEX_RANGE || f->relation == ASSUME_NE ||
      dim_has_unknown(d) || !dim_split_linear(c->dims, d, v, &by, &rest) ||
      !dim_is_int(by, &slope) || (slope != 1 && slope != -1) ||
      (f->relation != ASSUME_EQ && (slope < 0) != upper))
    return false;
  *bound = slope < 0 ? rest : dim_neg(c->dims, rest);
  return true;
}

/* The tightest bound of an index by its range and the conditions. */
static Dim *tightest_bound(IndexBound *x, DimVar *v, bool upper) {
  Checker *c = x->c;
  Dim *end = upper ? dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1))
                   : dim_int(c->dims, 0);
  for (const Assumption *f = x->assumed; f; f = f->outer) {
    Dim *bound;
    if (!bound_from_assumption(c, f, v, upper, &bound))
      continue;
    Dim *less =
        upper ? dim_sub(c->dims, bound, end) : dim_sub(c->dims, end, bound);
    if (is_nonneg(c, less))
      continue; /* not tighter */
    end = is_nonneg(c, dim_neg(c->dims, less)) ? bound
          : upper                              ? dim_min(c->dims, end, bound)
                                               : dim_max(c->dims, end, bound);
  }
  return end;
}

/* An inner range may be empty at the chosen ends of outer ranges. */
static void note_eliminated(IndexBound *x, DimVar *v) {
  Checker *c = x->c;
  Dim *more = dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1));
  x->exact &= !mentions_index(c, more) || is_nonneg(c, more);
  if (x->eliminated_count < MAX_INDICES)
    x->eliminated[x->eliminated_count++] = v;
}

/* d == slope*v + rest */
static bool eliminate_linear(IndexBound *x, DimVar *v, Dim *slope, Dim *rest,
                             Dim **out) {
  Checker *c = x->c;
  Dim *one = dim_int(c->dims, 1);
  bool up = is_nonneg(c, slope);
  /* a dilation: required to be at least 1 */
  if (!up && x->o && dim_as_var(slope)) {
    add_size_le(c, one, slope, x->o);
    up = true;
  }
  if (!up && !is_nonneg(c, dim_neg(c->dims, slope)))
    return false;
  bool last = up == x->maximize;
  Dim *end = tightest_bound(x, v, last);
  if (last && x->o)
    add_size_le(c, one, index_range_of(v), x->o);
  note_eliminated(x, v);
  *out = dim_add(c->dims, rest, dim_mul(c->dims, slope, end));
  return true;
}

static bool bound_term(IndexBound *x, Dim *d, Dim **out);

/* True if conditions may exclude a part of the index's range. */
static bool has_condition_on(IndexBound *x, DimVar *v) {
  bool found = false;
  for (const Assumption *f = x->assumed; f && !found; f = f->outer)
    found = f->role != ROLE_INDEX_RANGE &&
            dim_mentions(x->c->dims, dim_resolve(x->c->dims, f->dim), v);
  return found;
}

/* d == k*(num % den) + rest */
static bool eliminate_remainder(IndexBound *x, DimVar *v, FloorDivision *q,
                                Dim **out) {
  Checker *c = x->c;
  Dim *k = dim_exact_quotient(c->dims, dim_neg(c->dims, q->coef), q->den);
  if (!k || mentions_index(c, k) || mentions_index(c, q->den))
    return false;
  Dim *rest = dim_sub(c->dims, q->rest, dim_mul(c->dims, k, q->num));
  if (dim_mentions(c->dims, rest, v))
    return false;
  bool up = is_nonneg(c, k);
  if (!up && !is_nonneg(c, dim_neg(c->dims, k)))
    return false;
  Dim *slope, *from, *excess = dim_sub(c->dims, index_range_of(v), q->den);
  int64_t by;
  bool round = dim_split_linear(c->dims, q->num, v, &slope, &from) &&
               dim_is_int(slope, &by) && (by == 1 || by == -1) &&
               is_nonneg(c, excess);
  /* otherwise the range may be shorter than the divisor */
  x->exact &= round && !has_condition_on(x, v);
  note_eliminated(x, v);
  *out = rest;
  if (up == x->maximize)
    *out = dim_add(
        c->dims, rest,
        dim_mul(c->dims, k, dim_sub(c->dims, q->den, dim_int(c->dims, 1))));
  return true;
}

typedef struct SharedIndexSearch {
  Checker *c;
  Dim *with;
  bool found;
} SharedIndexSearch;

static void note_shared_index(void *arg, DimVar *v) {
  SharedIndexSearch *s = arg;
  s->found |= v->kind == DV_INDEX && dim_mentions(s->c->dims, s->with, v);
}

/* True if a and b share an index, which cannot be at both ends of its range. */
static bool share_index(Checker *c, Dim *a, Dim *b) {
  SharedIndexSearch s = {c, b, false};
  dim_each_var(a, note_shared_index, NULL, &s);
  return s.found;
}

/* d == slope*(num / den) + rest: a quotient grows with its numerator. */
static bool eliminate_quotient(IndexBound *x, DimVar *v, FloorDivision *q,
                               Dim **out) {
  Checker *c = x->c;
  if (mentions_index(c, q->den) || mentions_index(c, q->coef) ||
      dim_mentions(c->dims, q->rest, v))
    return false;
  bool up = is_nonneg(c, q->coef);
  if (!up && !is_nonneg(c, dim_neg(c->dims, q->coef)))
    return false;
  x->exact &= !share_index(c, q->num, q->rest);
  IndexBound inner = *x;
  Dim *num;
  inner.maximize = up == x->maximize;
  inner.rounds++;
  if (!bound_term(&inner, q->num, &num))
    return false;
  for (uint32_t i = x->eliminated_count; i < inner.eliminated_count; i++)
    inner.exact &= !dim_mentions(c->dims, q->rest, inner.eliminated[i]);
  x->exact = inner.exact;
  x->rounds = inner.rounds;
  memcpy(x->eliminated, inner.eliminated, sizeof x->eliminated);
  x->eliminated_count = inner.eliminated_count;
  *out = dim_add(c->dims, q->rest,
                 dim_mul(c->dims, q->coef, dim_div(c->dims, num, q->den)));
  return true;
}

static bool bound_term(IndexBound *x, Dim *d, Dim **out) {
  Checker *c = x->c;
  for (; x->rounds < MAX_INDICES; x->rounds++) {
    DimVar *v = NULL;
    FloorDivision q;
    Dim *slope, *rest;
    *out = d = dim_resolve(c->dims, d);
    dim_each_var(d, innermost_index, NULL, &v);
    if (!v)
      return true;
    if (!index_range_of(v))
      return false;
    if (dim_split_linear(c->dims, d, v, &slope, &rest)) {
      if (!eliminate_linear(x, v, slope, rest, &d))
        return false;
    } else if (!dim_split_division(c->dims, d, v, &q) ||
               (!eliminate_remainder(x, v, &q, &d) &&
                !eliminate_quotient(x, v, &q, &d))) {
      return false;
    }
  }
  return false;
}

bool index_bound(Checker *c, Dim *d, bool maximize, Dim **out, Origin *o) {
  IndexBound x = {.c = c, .maximize = maximize, .exact = true, .o = o};
  return bound_term(&x, d, out) && x.exact;
}

static void note_divisor(void *arg, Dim *divisor) {
  (void)divisor;
  *(bool *)arg = true;
}

/* The assumptions outside of the loop of v.  That v exists already implies
   bounds of outer indices, which must not be assumed here. */
static Assumption *assumptions_outside_loop(Checker *c,
                                            const Assumption *assumptions,
                                            const DimVar *v) {
  Assumption *kept = NULL;
  for (; assumptions; assumptions = assumptions->outer) {
    DimVar *innermost = NULL;
    dim_each_var(dim_resolve(c->dims, assumptions->dim), innermost_index, NULL,
                 &innermost);
    if (innermost && innermost->id >= v->id)
      continue;
    Assumption *f = NEW(c->arena, Assumption);
    *f = *assumptions;
    f->outer = kept;
    kept = f;
  }
  return kept;
}

/* Nothing is required if low <= high (bounds of v) is false.  Adds that as a
   condition, unless the constraint holds anyway. */
static Assumption *add_range_condition(IndexBound *x, DimVar *v, Dim *low,
                                       Dim *high, Dim *d, Assumption *outer) {
  Checker *c = x->c;
  Dim *more = dim_resolve(c->dims, dim_sub(c->dims, high, low));
  bool inner = mentions_index(c, more);
  assumption_load(c,
                  inner ? assumptions_outside_loop(c, x->assumed, v) : outer);
  bool always = dim_entailed(c->facts.loaded, more, false);
  x->exact &= always || !inner;
  x->empty |= dim_is_const(more) && dim_sign(more) < 0;
  if (inner || always)
    return outer;
  Dim *less = dim_neg(c->dims, dim_add(c->dims, more, dim_int(c->dims, 1)));
  assumptions_add_ge(c->facts.loaded, less);
  /* divides by a size that is then at least 1, so never by 0 */
  bool divides = false;
  dim_each_divisor(c->dims, d, false, note_divisor, &divides);
  if (!divides && dim_entailed(c->facts.loaded, d, false))
    return outer;
  Assumption *f = NEW(c->arena, Assumption);
  *f = (Assumption){.outer = outer, .dim = dim_simplify_ge(c->dims, more)};
  return f;
}

/* Adds the conditions that ranges and path conditions leave some value of v. */
static Assumption *add_nonempty_conditions(IndexBound *x, DimVar *v, Dim *d,
                                           Assumption *outer) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *low, *high;
  Dim *last = dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1));
  outer = add_range_condition(x, v, zero, last, d, outer);
  for (const Assumption *f = x->assumed; f; f = f->outer) {
    if (bound_from_assumption(c, f, v, true, &high))
      outer = add_range_condition(x, v, zero, high, d, outer);
    if (!bound_from_assumption(c, f, v, false, &low))
      continue;
    outer = add_range_condition(x, v, low, last, d, outer);
    for (const Assumption *g = x->assumed; g; g = g->outer)
      if (bound_from_assumption(c, g, v, true, &high))
        outer = add_range_condition(x, v, low, high, d, outer);
  }
  return outer;
}

/* True if the assumption bounds one index independently of the others. */
static bool bounds_single_index(Checker *c, const Assumption *f) {
  DimVar *v = NULL;
  Dim *d = dim_resolve(c->dims, f->dim), *bound;
  dim_each_var(d, innermost_index, NULL, &v);
  return v &&
         (bound_from_assumption(c, f, v, true, &bound) ||
          bound_from_assumption(c, f, v, false, &bound)) &&
         !mentions_index(c, bound);
}

/* The conditions of k without indices. *all: each other condition bounds one
   index, so the ends of the remaining ranges are attained. */
static Assumption *drop_index_conditions(Checker *c, const Constraint *k,
                                         bool *all) {
  Assumption *kept = NULL;
  *all = true;
  for (Assumption *f = k->assumptions; f; f = f->outer) {
    if (f->role == ROLE_INDEX_RANGE)
      continue;
    if (f->role == ROLE_INEXPRESSIBLE) {
      /* from slices and similar: checked separately */
      *all &= k->kind != CN_DIM_LE || k->origin->kind != ORIGIN_INDEX;
      continue;
    }
    if (mentions_index(c, f->dim)) {
      *all = *all && bounds_single_index(c, f);
      continue;
    }
    Assumption *g = NEW(c->arena, Assumption);
    *g = *f;
    g->outer = kept;
    kept = g;
  }
  return kept;
}

static Dim *slack(Checker *c, const Constraint *k) {
  Dim *d = dim_sub(c->dims, k->right, k->left);
  return dim_simplify_ge(c->dims, dim_resolve(c->dims, d));
}

/* Adds conditions that all loops around an access run, if it is not needed
   otherwise. */
static Assumption *add_loops_run_conditions(IndexBound *x, const Constraint *k,
                                            Dim *d, Assumption *kept) {
  for (const Assumption *f = k->assumptions; f; f = f->outer) {
    DimVar *v = NULL;
    if (f->role == ROLE_INDEX_RANGE && k->kind == CN_DIM_LE &&
        k->origin->kind == ORIGIN_INDEX)
      dim_each_var(f->dim, innermost_index, NULL, &v);
    if (v && index_range_of(v))
      kept = add_nonempty_conditions(x, v, d, kept);
  }
  return kept;
}

/* True if a condition on indices may exclude the sizes that violate k. */
static bool has_index_condition(Checker *c, const Constraint *k) {
  for (const Assumption *f = k->assumptions; f; f = f->outer)
    if (f->role != ROLE_INDEX_RANGE && mentions_index(c, f->dim))
      return true;
  return false;
}

/* If code is only reached where an index has a certain value, requires the
   constraint only if the index attains it. */
static Assumption *add_reached_conditions(IndexBound *x, Assumption *kept) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1), *at;
  for (const Assumption *f = x->assumed; f; f = f->outer) {
    DimVar *v = NULL;
    dim_each_var(dim_resolve(c->dims, f->dim), innermost_index, NULL, &v);
    if (!v || f->relation != ASSUME_EQ || !index_range_of(v) ||
        !bound_from_assumption(c, f, v, true, &at) || mentions_index(c, at) ||
        mentions_index(c, index_range_of(v)))
      continue;
    Dim *last = dim_sub(c->dims, index_range_of(v), one);
    kept = add_range_condition(x, v, zero, at, dim_neg(c->dims, one), kept);
    kept = add_range_condition(x, v, at, last, dim_neg(c->dims, one), kept);
  }
  return kept;
}

bool index_assume_loops_run(Checker *c, Constraint *k) {
  if (!constraint_is_size(k) && !has_index_condition(c, k))
    return true;
  bool all;
  Assumption *kept = drop_index_conditions(c, k, &all),
             *saved = c->facts.assumptions;
  IndexBound x = {.c = c, .exact = true, .assumed = k->assumptions};
  if (k->kind == CN_DIM_LE && k->origin->kind == ORIGIN_INDEX)
    kept = add_loops_run_conditions(&x, k, slack(c, k), kept);
  else
    kept = add_reached_conditions(&x, kept);
  c->facts.assumptions = saved;
  k->sufficient_only |= constraint_is_size(k) && (!all || !x.exact);
  k->assumptions = kept;
  return !x.empty ||
         !constraint_is_size(k); /* shapes may still follow from it */
}

bool eliminate_indices(Checker *c, const Constraint *k, Constraint *eliminated,
                       bool *exact) {
  if (k->kind != CN_DIM_LE)
    return false;
  Assumption *saved = c->facts.assumptions;
  IndexBound x = {.c = c, .exact = true, .assumed = k->assumptions};
  Dim *d;
  c->facts.assumptions = k->assumptions;
  bool found = bound_term(&x, dim_sub(c->dims, k->right, k->left), &d);
  c->facts.assumptions = saved;
  if (!found)
    return false;
  *eliminated = *k;
  eliminated->left = dim_int(c->dims, 0), eliminated->right = d;
  bool all;
  Assumption *kept = drop_index_conditions(c, k, &all);
  for (uint32_t i = 0; i < x.eliminated_count; i++)
    kept = add_nonempty_conditions(&x, x.eliminated[i], slack(c, eliminated),
                                   kept);
  kept = add_loops_run_conditions(&x, k, slack(c, eliminated), kept);
  c->facts.assumptions = saved;
  eliminated->assumptions = kept;
  *exact = x.exact && all;
  if (x.empty)
    eliminated->right = eliminated->left;
  return true;
}

/* ---- what cannot be for all of them ---- */

static void note_non_index(void *arg, DimVar *v) {
  if (v->kind != DV_INDEX)
    *(bool *)arg = true;
}

static bool has_size(Checker *c, Dim *d) {
  bool found = false;
  dim_each_var(dim_resolve(c->dims, d), note_non_index, NULL, &found);
  return found;
}

/* True if the constraint is violated for some index whenever the loops run.
   Then there is a counterexample, or no sizes satisfy the remaining
   constraint. */
static bool fails_somewhere(Checker *c, const Constraint *k) {
  if (k->kind != CN_DIM_LE && k->kind != CN_DIM_EQ)
    return false;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (!mentions_index(c, d) || dim_has_unknown(d))
    return false;
  Constraint eliminated;
  bool exact = false, sizes = has_size(c, d);
  if (!has_index_condition(c, k) &&
      eliminate_indices(c, k, &eliminated, &exact) && exact) {
    assumption_load(c, eliminated.assumptions);
    if (dim_check_ge0(c->facts.loaded, dim_resolve(c->dims, eliminated.right),
                      true) != CONTRADICTED)
      return false;
    assumption_load(c, k->assumptions);
    return !assumptions_inconsistent(c->facts.loaded);
  }
  for (const Assumption *f = k->assumptions; f && !sizes; f = f->outer)
    sizes |= f->relation == ASSUME_NE || f->role == ROLE_INEXPRESSIBLE ||
             (mentions_index(c, f->dim) && has_size(c, f->dim));
  if (sizes)
    return false;
  Buffer ignored = {0};
  assumption_load(c, k->assumptions);
  bool found =
      dim_counterexample(c->facts.loaded, d, k->kind == CN_DIM_EQ, &ignored);
  buffer_free(&ignored);
  return found;
}

void index_report_out_of_bounds(Checker *c) {
  for (uint32_t i = 0; !c->loops.innermost && i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (k->solved || k->is_given || !fails_somewhere(c, k))
      continue;
    k->solved = true;
    report_constraint(c, k);
  }
}
