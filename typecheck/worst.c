/* What a term comes to at the worst of its `for` indices: how an obligation
 * for all of them becomes one that mentions none. */
#include "typecheck/internal.h"

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

Dim *index_range_of(const DimVar *v) { return v->home; }

/* The innermost: the range of another may depend on those further out. */
static void innermost_index(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_INDEX && (!*out || v->id > (*out)->id))
    *out = v;
}

enum { WORST_INDICES = 32 };

typedef struct Extreme {
  Checker *c;
  bool most;  /* the largest value, else the least */
  bool exact; /* it is attained, if the loops run at all */
  Origin *o;  /* in whose name what is needed is demanded; or NULL */
  const Fact *facts; /* conditions that bound indices; or NULL */
  DimVar *used[WORST_INDICES]; /* put at an end of their ranges */
  uint32_t used_count;
  bool never; /* a loop runs for no index at all */
  uint32_t rounds; /* bounds may state each other: that has to end */
} Extreme;

static bool is_nonneg(Checker *c, Dim *d) {
  facts_load(c, c->facts);
  return loaded_holds(c, dim_resolve(c->dims, d), false);
}

/* A bound of v that a condition states: v <= *bound, or v >= *bound. */
static bool states_bound(Checker *c, const Fact *f, DimVar *v, bool upper,
                         Dim **bound) {
  int64_t slope;
  Dim *d = dim_resolve(c->dims, f->dim), *by, *rest;
  if (f->index || f->ne || dim_has_top(d) ||
      !dim_linear(c->dims, d, v, &by, &rest) || !dim_is_int(by, &slope) ||
      (slope != 1 && slope != -1) || (!f->eq && (slope < 0) != upper))
    return false;
  *bound = slope < 0 ? rest : dim_neg(c->dims, rest);
  return true;
}

/* The end of a range, or what conditions leave of it: whichever is tighter
 * bounds the index. */
static Dim *end_of(Extreme *x, DimVar *v, bool upper) {
  Checker *c = x->c;
  Dim *end = upper ? dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1))
                   : dim_int(c->dims, 0);
  for (const Fact *f = x->facts; f; f = f->outer) {
    Dim *bound;
    if (!states_bound(c, f, v, upper, &bound))
      continue;
    Dim *less = upper ? dim_sub(c->dims, bound, end)
                      : dim_sub(c->dims, end, bound);
    if (is_nonneg(c, less))
      continue; /* it says no more */
    end = is_nonneg(c, dim_neg(c->dims, less)) ? bound
          : upper                              ? dim_min(c->dims, end, bound)
                                               : dim_max(c->dims, end, bound);
  }
  return end;
}

/* An inner range may be empty where those further out are at their worst. */
static void use(Extreme *x, DimVar *v) {
  Checker *c = x->c;
  Dim *more = dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1));
  x->exact &= !mentions_index(c, more) || is_nonneg(c, more);
  if (x->used_count < WORST_INDICES)
    x->used[x->used_count++] = v;
}

/* d == slope*v + rest */
static bool at_end(Extreme *x, DimVar *v, Dim *slope, Dim *rest, Dim **out) {
  Checker *c = x->c;
  Dim *one = dim_int(c->dims, 1);
  bool up = is_nonneg(c, slope);
  if (!up && x->o && dim_as_var(slope)) { /* a dilation: demanded to be one */
    demand_le(c, one, slope, x->o);
    up = true;
  }
  if (!up && !is_nonneg(c, dim_neg(c->dims, slope)))
    return false;
  bool last = up == x->most;
  Dim *end = end_of(x, v, last);
  if (last && x->o)
    demand_le(c, one, index_range_of(v), x->o);
  use(x, v);
  *out = dim_add(c->dims, rest, dim_mul(c->dims, slope, end));
  return true;
}

static bool extreme(Extreme *x, Dim *d, Dim **out);

/* Conditions may leave less than its range of an index. */
static bool is_narrowed(Extreme *x, DimVar *v) {
  bool found = false;
  for (const Fact *f = x->facts; f && !found; f = f->outer)
    found = !f->index &&
            dim_mentions(x->c->dims, dim_resolve(x->c->dims, f->dim), v);
  return found;
}

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
  Dim *slope, *from, *room = dim_sub(c->dims, index_range_of(v), q->den);
  int64_t by;
  bool round = dim_linear(c->dims, q->num, v, &slope, &from) &&
               dim_is_int(slope, &by) && (by == 1 || by == -1) &&
               is_nonneg(c, room);
  /* else there may be fewer of it than the divisor */
  x->exact &= round && !is_narrowed(x, v);
  use(x, v);
  *out = rest;
  if (up == x->most)
    *out = dim_add(c->dims, rest,
                   dim_mul(c->dims, k,
                           dim_sub(c->dims, q->den, dim_int(c->dims, 1))));
  return true;
}

typedef struct Share {
  Checker *c;
  Dim *with;
  bool found;
} Share;

static void look_share(void *arg, DimVar *v) {
  Share *s = arg;
  s->found |= v->kind == DV_INDEX && dim_mentions(s->c->dims, s->with, v);
}

/* One index may not be at two ends at once. */
static bool share_index(Checker *c, Dim *a, Dim *b) {
  Share s = {c, b, false};
  dim_each_var(a, look_share, NULL, &s);
  return s.found;
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
  x->exact &= !share_index(c, q->num, q->rest);
  Extreme inner = *x;
  Dim *num;
  inner.most = up == x->most;
  inner.rounds++;
  if (!extreme(&inner, q->num, &num))
    return false;
  for (uint32_t i = x->used_count; i < inner.used_count; i++)
    inner.exact &= !dim_mentions(c->dims, q->rest, inner.used[i]);
  x->exact = inner.exact;
  x->rounds = inner.rounds;
  memcpy(x->used, inner.used, sizeof x->used);
  x->used_count = inner.used_count;
  *out = dim_add(c->dims, q->rest,
                 dim_mul(c->dims, q->slope, dim_div(c->dims, num, q->den)));
  return true;
}

static bool extreme(Extreme *x, Dim *d, Dim **out) {
  Checker *c = x->c;
  for (; x->rounds < WORST_INDICES; x->rounds++) {
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

/* What is known outside of the loop of v: that there is a v at all says
 * something of the indices around it, and is not to be taken for granted. */
static Fact *known_around(Checker *c, const Fact *facts, const DimVar *v) {
  Fact *kept = NULL;
  for (; facts; facts = facts->outer) {
    DimVar *inmost = NULL;
    dim_each_var(dim_resolve(c->dims, facts->dim), innermost_index, NULL,
                 &inmost);
    if (inmost && inmost->id >= v->id)
      continue;
    Fact *f = NEW(c->arena, Fact);
    *f = *facts;
    f->outer = kept;
    kept = f;
  }
  return kept;
}

/* Nothing is asked where low <= high, bounds of v, does not hold; unless what
 * is asked holds then anyway, this is a condition. */
static Fact *if_between(Extreme *x, DimVar *v, Dim *low, Dim *high, Dim *d,
                        Fact *outer) {
  Checker *c = x->c;
  Dim *more = dim_resolve(c->dims, dim_sub(c->dims, high, low));
  bool inner = mentions_index(c, more);
  facts_load(c, inner ? known_around(c, x->facts, v) : outer);
  bool always = dim_holds(c->solver, more, false);
  x->exact &= always || !inner;
  x->never |= dim_is_const(more) && dim_sign(more) < 0;
  if (inner || always)
    return outer;
  Dim *less = dim_neg(c->dims, dim_add(c->dims, more, dim_int(c->dims, 1)));
  dim_facts_add_ge(c->solver, less);
  bool divides = false; /* by what is then at least 1, so never by 0 */
  dim_each_divisor(c->dims, d, false, note_divisor, &divides);
  if (!divides && dim_holds(c->solver, d, false))
    return outer;
  Fact *f = NEW(c->arena, Fact);
  *f = (Fact){.outer = outer, .dim = dim_simplify_ge(c->dims, more)};
  return f;
}

/* Adds that range and conditions leave some index v. */
static Fact *runs(Extreme *x, DimVar *v, Dim *d, Fact *outer) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *low, *high;
  Dim *last = dim_sub(c->dims, index_range_of(v), dim_int(c->dims, 1));
  outer = if_between(x, v, zero, last, d, outer);
  for (const Fact *f = x->facts; f; f = f->outer) {
    if (states_bound(c, f, v, true, &high))
      outer = if_between(x, v, zero, high, d, outer);
    if (!states_bound(c, f, v, false, &low))
      continue;
    outer = if_between(x, v, low, last, d, outer);
    for (const Fact *g = x->facts; g; g = g->outer)
      if (states_bound(c, g, v, true, &high))
        outer = if_between(x, v, low, high, d, outer);
  }
  return outer;
}

/* Does it bound one index, whatever the others are? */
static bool bounds_one(Checker *c, const Fact *f) {
  DimVar *v = NULL;
  Dim *d = dim_resolve(c->dims, f->dim), *bound;
  dim_each_var(d, innermost_index, NULL, &v);
  return v &&
         (states_bound(c, f, v, true, &bound) ||
          states_bound(c, f, v, false, &bound)) &&
         !mentions_index(c, bound);
}

/* The conditions of k that mention no index; *all: the others each bound one,
 * so that the ends of what is left are attained. */
static Fact *without_index(Checker *c, const Constraint *k, bool *all) {
  Fact *kept = NULL;
  *all = true;
  for (Fact *f = k->facts; f; f = f->outer) {
    if (f->index)
      continue;
    if (f->unsaid) { /* of slices and the like: those see to themselves */
      *all &= k->kind != CN_DIM_LE || k->origin->kind != OR_INDEX;
      continue;
    }
    if (mentions_index(c, f->dim)) {
      *all = *all && bounds_one(c, f);
      continue;
    }
    Fact *g = NEW(c->arena, Fact);
    *g = *f;
    g->outer = kept;
    kept = g;
  }
  return kept;
}

static Dim *gap(Checker *c, const Constraint *k) {
  Dim *d = dim_sub(c->dims, k->right, k->left);
  return dim_simplify_ge(c->dims, dim_resolve(c->dims, d));
}

/* Of all loops around an access to which nothing is done where they do not
 * run. */
static Fact *all_run(Extreme *x, const Constraint *k, Dim *d, Fact *kept) {
  for (const Fact *f = k->facts; f; f = f->outer) {
    DimVar *v = NULL;
    if (f->index && k->kind == CN_DIM_LE && k->origin->kind == OR_INDEX)
      dim_each_var(f->dim, innermost_index, NULL, &v);
    if (v && index_range_of(v))
      kept = runs(x, v, d, kept);
  }
  return kept;
}

/* A condition on indices may exclude the sizes for which it would fail. */
static bool conditional(Checker *c, const Constraint *k) {
  for (const Fact *f = k->facts; f; f = f->outer)
    if (!f->index && mentions_index(c, f->dim))
      return true;
  return false;
}

/* What stands where an index is some number is asked where it gets there. */
static Fact *reached(Extreme *x, Fact *kept) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1), *at;
  for (const Fact *f = x->facts; f; f = f->outer) {
    DimVar *v = NULL;
    dim_each_var(dim_resolve(c->dims, f->dim), innermost_index, NULL, &v);
    if (!v || !f->eq || !index_range_of(v) ||
        !states_bound(c, f, v, true, &at) || mentions_index(c, at) ||
        mentions_index(c, index_range_of(v)))
      continue;
    Dim *last = dim_sub(c->dims, index_range_of(v), one);
    kept = if_between(x, v, zero, at, dim_neg(c->dims, one), kept);
    kept = if_between(x, v, at, last, dim_neg(c->dims, one), kept);
  }
  return kept;
}

bool index_runs(Checker *c, Constraint *k) {
  if (!k->left && !conditional(c, k))
    return true;
  bool all;
  Fact *kept = without_index(c, k, &all), *saved = c->facts;
  Extreme x = {.c = c, .exact = true, .facts = k->facts};
  if (k->kind == CN_DIM_LE && k->origin->kind == OR_INDEX)
    kept = all_run(&x, k, gap(c, k), kept);
  else
    kept = reached(&x, kept);
  c->facts = saved;
  k->enough |= k->left && (!all || !x.exact);
  k->facts = kept;
  return !x.never || !k->left; /* shapes may follow from it all the same */
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
  worst->left = dim_int(c->dims, 0), worst->right = d;
  bool all;
  Fact *kept = without_index(c, k, &all);
  for (uint32_t i = 0; i < x.used_count; i++)
    kept = runs(&x, x.used[i], gap(c, worst), kept);
  kept = all_run(&x, k, gap(c, worst), kept);
  c->facts = saved;
  worst->facts = kept;
  *exact = x.exact && all;
  if (x.never)
    worst->right = worst->left;
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
  if (!conditional(c, k) && index_worst(c, k, &worst, &exact) && exact) {
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
