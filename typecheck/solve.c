/* Constraints: solved as soon as they can be, else kept until more is known.
 * Three outcomes: proved, refuted (a diagnostic), open. */
#include "typecheck/internal.h"

#include <string.h>

Origin *origin_new(Checker *c, OriginKind kind, Span span) {
  Origin *o = NEW(c->arena, Origin);
  o->kind = kind;
  o->span = span;
  return o;
}

bool told_of(const Checker *c, uint32_t mark, Span place, const Arg *args) {
  for (uint32_t i = mark; i < c->told.len; i++) {
    const Origin *o = c->told.at[i];
    if ((args && o->args == args) ||
        (o->span.file == place.file && o->span.start == place.start &&
         o->span.end == place.end))
      return true;
  }
  return false;
}

/* ---- facts ---- */

static void load(Checker *c, const Fact *f, const Dim *divisor) {
  dim_facts_reset(c->solver, 0);
  for (; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (f->ne || dim_has_top(d) || dim_is_soft(d) ||
        (divisor && dim_divides_by(d, divisor)))
      continue;
    if (f->eq)
      dim_facts_add_eq(c->solver, d);
    else
      dim_facts_add_ge(c->solver, d);
  }
}

void facts_load(Checker *c, const Fact *f) { load(c, f, NULL); }

/* For the goal d >= 0: where it says that a divisor is at least 1, what is
 * divided by it must not be taken to know that. */
void facts_load_for(Checker *c, const Fact *f, Dim *d) {
  load(c, f, dim_add(c->dims, d, dim_int(c->dims, 1)));
}

void fact_add(Checker *c, Dim *d, bool eq) {
  Fact *f = NEW(c->arena, Fact);
  f->outer = c->facts;
  f->eq = eq;
  f->dim = d;
  c->facts = f;
}

/* A product of what is not negative. */
static bool factors_ge0(Checker *c, Dim *d) {
  Dim *factors[DIM_FACTORS];
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; count > 1 && i < count; i++)
    if (dim_ge0(c->solver, factors[i], false) != PROVED)
      return false;
  return count > 1;
}

/* d >= 0 by the facts that were loaded last. */
Verdict loaded_ge0(Checker *c, Dim *d, bool at_least_one) {
  Verdict v = dim_ge0(c->solver, d, at_least_one);
  return v == OPEN && factors_ge0(c, d) ? PROVED : v;
}

/* By the facts at this place. */
Verdict facts_le(Checker *c, Dim *a, Dim *b) {
  facts_load(c, c->facts);
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, b, a));
  return dim_has_top(d) ? OPEN : loaded_ge0(c, d, false);
}

/* A fact that holds from here on, not a condition of a branch. */
void fact_known(Checker *c, Dim *d, bool eq) {
  fact_add(c, d, eq);
  c->facts->known = true;
}

bool facts_contradict(Checker *c) {
  if (!c->facts)
    return false;
  facts_load(c, c->facts);
  for (const Fact *f = c->facts; f; f = f->outer)
    if (f->ne) {
      Dim *d = dim_resolve(c->dims, f->dim);
      int64_t zero;
      if (dim_is_int(d, &zero) && zero == 0)
        return true;
    }
  return dim_facts_contradictory(c->solver);
}

/* ---- what kinds of variables an equation mentions ---- */

typedef struct Census {
  bool meta, data, rigid, index, top;
} Census;

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

static Census census(Checker *c, Dim *d) {
  Census n = {0};
  Visit v = {.dim = census_dim, .shape = census_shape, .arg = &n, .c = c};
  dim_visit(&v, d);
  return n;
}

/* ---- equality of sizes ---- */

static void find_hole(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_META && v->hole && !v->bound && !v->top)
    *out = v;
}

static bool is_condition(const Fact *f) { return !f->known && !f->index; }

bool has_condition(const Fact *f) {
  while (f && !is_condition(f))
    f = f->outer;
  return f != NULL;
}

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

/* An equation that gives a _ by a division waits for all the others. */
static bool divides_hole(Checker *c, Dim *d) {
  DimVar *v = NULL;
  int64_t n;
  Dim *slope, *rest;
  dim_each_var(d, find_hole, NULL, &v);
  return v && (!dim_linear(c->dims, d, v, &slope, &rest) ||
               !dim_is_int(slope, &n) || (n != 1 && n != -1));
}

typedef struct Find {
  DimVar *var;
  bool found;
} Find;

static void find_dim(void *arg, DimVar *v) {
  Find *f = arg;
  f->found |= v == f->var;
}

/* Does a parameter of a function being checked have this size? */
bool of_parameter(Checker *c, DimVar *v) {
  Find f = {v, false};
  Visit look = {.dim = find_dim, .arg = &f, .c = c};
  for (uint32_t i = 0; i < c->params.len && !f.found; i++)
    ty_visit(&look, c->params.at[i]);
  return f.found;
}

/* For the messages about calls of what has the product in its body. */
static void note_inner(Dim *a) {
  DimVar *v = dim_as_var(a);
  if (v)
    v->inner = true;
}

/* Nothing more will be learnt of its sizes: what only sizes of 0 satisfy is
 * refuted then. */
static bool is_settled(Checker *c, const Constraint *k) {
  return !census(c, k->left).meta && !census(c, k->right).meta;
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

/* The size that n == 2*n makes 0; or NULL.  It is solved last: where n becomes
 * known otherwise, the message speaks of that number and its double. */
static DimVar *only_zero(Checker *c, Dim *a, Dim *b) {
  Dim *d = dim_cancel(c->dims, dim_sub(c->dims, a, b));
  DimVar *v = dim_as_var(d);
  if (!v)
    v = dim_as_var(dim_neg(c->dims, d));
  return v && v->kind == DV_META && !v->value &&
                 dim_mentions(c->dims, a, v) && dim_mentions(c->dims, b, v)
             ? v
             : NULL;
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

static Verdict settle_eq(Checker *c, Constraint *k) {
  Dim *a = dim_resolve(c->dims, k->left), *b = dim_resolve(c->dims, k->right);
  if (k->origin->prim == PRIM_MATMUL && k->origin->number)
    note_inner(a), note_inner(b);
  if (dim_has_top(a) || dim_has_top(b))
    return PROVED; /* `?` takes any size */
  if (dim_equal(a, b))
    return PROVED;
  Dim *d = dim_cancel(c->dims, dim_sub(c->dims, a, b));
  if (dim_is_const(d))
    return dim_sign(d) ? REFUTED : PROVED;
  harden(c, k, d);
  if (has_condition(k->facts)) {
    facts_load(c, k->facts);
    if (dim_eq0(c->solver, d, false) == PROVED)
      return PROVED;
  }
  if (divides_hole(c, d) || only_zero(c, a, b))
    return OPEN;
  Solver solver = {c, k};
  DimVar *v = dim_as_var(a), *w = dim_as_var(b);
  Dim *value = b;
  if (v && w && may_solve(&solver, w) && v->value == w->value &&
      v->id < w->id && (v->name || !w->name))
    v = NULL; /* the newer one is solved: fewer constraints mention it */
  if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, b, v)) {
    v = dim_as_var(b);
    value = a;
    if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, a, v))
      v = NULL;
  }
  if (v || dim_solve(c->dims, d, may_solve, &solver, &v, &value)) {
    value = dim_resolve(c->dims, value);
    int64_t n;
    if (!v->value && dim_is_int(value, &n) && n < 0)
      return REFUTED;
    if (census(c, value).data && of_parameter(c, v)) {
      k->at_run_time = true; /* callers do not know that size */
      return OPEN;
    }
    v->by = k->origin;
    if (k->joins && !v->value && !v->hole && dim_is_int(value, &n) && n == 1 &&
        (value == a || value == b)) /* it meets a 1; 3 - n == 2 is no such */
      warn_joined(c, k, v);
    dim_bind(c, v, value);
    if (!v->value && !dim_is_const(value) && !dim_as_var(value))
      demand_le(c, dim_int(c->dims, 0), value, k->origin);
    return PROVED;
  }
  facts_load(c, k->facts);
  return dim_eq0(c->solver, d, is_settled(c, k));
}

static Verdict settle_le(Checker *c, Constraint *k) {
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

static Verdict settle_ne(Checker *c, Constraint *k) {
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (dim_is_const(d))
    return dim_sign(d) ? PROVED : REFUTED;
  return OPEN;
}

/* ---- joins ---- */

typedef struct Joining {
  Shape **args; /* normalised; what is left of each */
  uint32_t count;
  Shape *suffix; /* what the result ends in */
} Joining;

/* Of one axis of all arguments: absent < * < a size.  An axis that may be
 * either (a splice of one) joins with stars to itself.  False: wait. */
static bool join_axis(Checker *c, Joining *j, ShapeIt *result, Origin *o) {
  *result = (ShapeIt){.tag = IT_STAR};
  bool any = false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len == 0)
      continue;
    ShapeIt *it = &s->at[s->len - 1];
    any = true;
    if (it->tag == IT_STAR)
      continue;
    if (it->tag == IT_SPLICE && it->var->fixed != 1)
      return false;
    if (result->tag == IT_STAR)
      *result = *it;
    else if (it->tag != result->tag)
      return false;
    else if (it->tag == IT_SPLICE && it->var != result->var)
      return false;
  }
  if (!any)
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len && s->at[s->len - 1].tag == IT_DIM)
      demand_eq(c, result->dim, s->at[s->len - 1].dim, o);
  }
  return true;
}

static bool join_last(Checker *c, Joining *j, Origin *o) {
  Shape *one = shape_new(c, 1);
  if (!join_axis(c, j, &one->at[0], o))
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len)
      j->args[i] = shape_slice(c, s, 0, s->len - 1);
  }
  j->suffix = shape_concat(c, one, j->suffix);
  return true;
}

/* What a splice of kept axes stands for: t where keep(w, t) is pending. */
static ShapeVar *kept_of(Checker *c, ShapeVar *w) {
  Constraint *k = wait_definer(c, w, CN_KEEP);
  return k ? shape_norm(c, k->b)->at[0].var : NULL;
}

/* Equal last splices cancel: join(s ++ x, t ++ x) is join(s, t) ++ x; and so
 * do x and the stars that stand for each of its axes. */
static bool join_same_splice(Checker *c, Joining *j) {
  ShapeVar *v = NULL;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (!s->len || s->at[s->len - 1].tag != IT_SPLICE)
      return false;
    ShapeVar *w = s->at[s->len - 1].var;
    ShapeVar *full = kept_of(c, w);
    if (!v || (v != w && kept_of(c, v) == w))
      v = w;
    else if (v != w && full != v)
      return false;
  }
  if (!v)
    return false;
  for (uint32_t i = 0; i < j->count; i++)
    j->args[i] = shape_slice(c, j->args[i], 0, j->args[i]->len - 1);
  j->suffix = shape_concat(c, shape_of_var(c, v), j->suffix);
  return true;
}

/* Drops empty and repeated arguments. */
static void join_dedupe(Checker *c, Joining *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->count; i++) {
    bool keep = j->args[i]->len > 0;
    for (uint32_t k = 0; keep && k < n; k++)
      keep = !shape_same(c, j->args[i], j->args[k]);
    if (keep)
      j->args[n++] = j->args[i];
  }
  j->count = n;
}

/* Arguments that other joins define are replaced by those joins' arguments. */
static void join_expand(Checker *c, Constraint *k) {
  enum { MOST = 12 }; /* a join may define itself: recursive functions */
  for (int round = 0; round < 4; round++) {
    bool any = false;
    for (uint32_t i = 0; i < k->join_count && k->join_count < MOST; i++) {
      Shape *s = shape_norm(c, k->joined[i]);
      Constraint *o = s->len == 1 && s->at[0].tag == IT_SPLICE
                          ? wait_definer(c, s->at[0].var, CN_JOIN)
                          : NULL;
      if (!o)
        continue;
      Shape **args = NEW_ARRAY(c->arena, Shape *,
                               k->join_count + o->join_count);
      uint32_t n = 0;
      for (uint32_t j = 0; j < k->join_count; j++)
        if (j != i)
          args[n++] = k->joined[j];
      for (uint32_t j = 0; j < o->join_count; j++)
        args[n++] = o->joined[j];
      k->joined = args;
      k->join_count = n;
      any = true;
    }
    if (!any)
      return;
  }
}

/* Axes counted from the right meet whatever stands further left: sizes that
 * differ are found although the join itself must wait. */
static void join_pairs(Checker *c, Constraint *whole) {
  Constraint flat = *whole, *k = &flat;
  join_expand(c, k);
  for (uint32_t at = 0;; at++) {
    Dim *first = NULL;
    bool any = false;
    for (uint32_t i = 0; i < k->join_count; i++) {
      Shape *s = shape_norm(c, k->joined[i]);
      if (at >= s->len)
        continue;
      bool reached = true;
      for (uint32_t j = 0; j <= at; j++)
        reached &= s->at[s->len - 1 - j].tag != IT_SPLICE ||
                   s->at[s->len - 1 - j].var->fixed == 1;
      ShapeIt *it = &s->at[s->len - 1 - at];
      any |= reached;
      if (!reached || it->tag != IT_DIM)
        continue;
      if (first && dim_is_const(dim_resolve(
                       c->dims, dim_sub(c->dims, first, it->dim))))
        demand_eq(c, first, it->dim, k->origin);
      first = first ? first : it->dim;
    }
    if (!any)
      return;
  }
}

/* What joins to nothing is nothing: an integer is a sum of integers. */
static bool join_is_scalar(Checker *c, Constraint *k) {
  Shape *none = shape_norm(c, k->a);
  if (none->len)
    return false;
  for (uint32_t i = 0; i < k->join_count; i++)
    if (!unify_shape(c, k->joined[i], none, k->origin))
      report_shapes(c, k->joined[i], none, k->origin);
  return true;
}

static bool in_scope(const Fact *chain, const Fact *outer) {
  while (chain && chain != outer)
    chain = chain->outer;
  return chain == outer;
}

static bool joins_like(Checker *c, const Constraint *k, const Constraint *o) {
  if (o->kind != CN_JOIN || o->done || o->join_count != k->join_count)
    return false;
  for (uint32_t i = 0; i < k->join_count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < o->join_count && !found; j++)
      found = shape_same(c, k->joined[i], o->joined[j]);
    if (!found)
      return false;
  }
  return true;
}

/* What the same shapes join to is the same. */
static bool same_join(Checker *c, Constraint *k) {
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *o = c->pending.at[i];
    if (o == k || (k->pending && o->order > k->order) ||
        !in_scope(k->facts, o->facts) || !joins_like(c, k, o))
      continue;
    if (!unify_shape(c, k->a, o->a, k->origin))
      report_shapes(c, k->a, o->a, k->origin);
    return true;
  }
  return false;
}

static Verdict settle_join(Checker *c, Constraint *k) {
  if (join_is_scalar(c, k))
    return PROVED;
  join_pairs(c, k);
  Joining j = {.count = k->join_count, .suffix = shape_new(c, 0)};
  j.args = NEW_ARRAY(c->arena, Shape *, j.count);
  for (uint32_t i = 0; i < j.count; i++)
    j.args[i] = shape_norm(c, k->joined[i]);
  join_dedupe(c, &j);
  while (j.count > 1 &&
         (join_last(c, &j, k->origin) || join_same_splice(c, &j))) {
    for (uint32_t i = 0; i < j.count; i++)
      j.args[i] = shape_norm(c, j.args[i]);
    join_dedupe(c, &j);
  }
  if (j.count <= 1) {
    Shape *whole =
        j.count ? shape_concat(c, j.args[0], j.suffix) : j.suffix;
    if (!unify_shape(c, k->a, whole, k->origin))
      report_shapes(c, k->a, whole, k->origin);
    return PROVED;
  }
  if (j.suffix->len) { /* some of it is known: say so, keep the rest */
    Shape *rest = shape_of_var(c, shape_var(c, -1));
    if (!unify_shape(c, k->a, shape_concat(c, rest, j.suffix), k->origin)) {
      report_shapes(c, k->a, j.suffix, k->origin);
      return PROVED;
    }
    k->a = rest;
  }
  k->joined = j.args;
  k->join_count = j.count;
  return same_join(c, k) ? PROVED : OPEN;
}

/* ---- keep ---- */

static Verdict settle_keep(Checker *c, Constraint *k) {
  Shape *r = shape_norm(c, k->b);
  if (!shape_known_rank(r))
    return OPEN;
  Shape *stars = shape_new(c, r->len);
  for (uint32_t i = 0; i < r->len; i++)
    stars->at[i].tag = IT_STAR;
  if (!unify_shape(c, k->a, stars, k->origin))
    report_shapes(c, k->a, stars, k->origin);
  return PROVED;
}

static Verdict settle_shape(Checker *c, Constraint *k) {
  uint32_t before = c->pending.len;
  if (!unify_shape(c, k->a, k->b, k->origin)) {
    report_shapes(c, k->a, k->b, k->origin);
    return PROVED;
  }
  if (c->pending.len > before) { /* it made one like itself: keep ours */
    Constraint *again = c->pending.at[c->pending.len - 1];
    if (again->kind == CN_SHAPE_EQ && again->origin == k->origin) {
      k->a = again->a, k->b = again->b;
      again->pending = false;
      c->pending.len--;
      return OPEN;
    }
  }
  return PROVED;
}

static Verdict settle(Checker *c, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ: return settle_eq(c, k);
  case CN_DIM_LE: return settle_le(c, k);
  case CN_DIM_NE: return settle_ne(c, k);
  case CN_SHAPE_EQ: return settle_shape(c, k);
  case CN_JOIN: return settle_join(c, k);
  case CN_KEEP: return settle_keep(c, k);
  }
  return OPEN;
}

/* An equality of sizes none of which can still change. */
static bool is_final(Checker *c, Constraint *k) {
  if (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE && k->kind != CN_DIM_NE)
    return false;
  Census l = census(c, k->left), r = census(c, k->right);
  return !l.meta && !r.meta;
}

void open_note(Checker *c, Span span, const char *text, const char *reason) {
  c->stats.open++;
  OpenConstraint o = {span, text, reason, NULL};
  VEC_PUSH(c->arena, c->open, o);
}

static void mention_prod(void *arg, ShapeVar *v) {
  (void)v;
  *(bool *)arg = true;
}

static void mention_nothing(void *arg, DimVar *v) { (void)arg, (void)v; }

static bool is_of_products(const Constraint *k) {
  bool found = k->divides;
  const Origin *o = k->origin;
  if (o && o->scheme && o->what && strcmp(o->what, "reshape") == 0)
    return true;
  dim_each_var(k->left, mention_nothing, mention_prod, &found);
  dim_each_var(k->right, mention_nothing, mention_prod, &found);
  return found;
}

CheckRow constraint_row(const Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    return k->joins ? ROW_JOIN : is_of_products(k) ? ROW_PROD : ROW_SIZE;
  case CN_DIM_NE: return ROW_SIZE;
  case CN_DIM_LE: return ROW_LE;
  case CN_SHAPE_EQ: return ROW_SHAPE;
  case CN_JOIN: return ROW_JOIN;
  case CN_KEEP: return ROW_KEEP;
  }
  return ROW_NONE;
}

static void count_proved(Checker *c, const Constraint *k) {
  c->stats.proved++;
  c->stats.row[constraint_row(k)].proved++;
}

static void note_open(Checker *c, Constraint *k, const char *reason) {
  c->stats.row[constraint_row(k)].open++;
  const char *text = "shapes that join";
  if (k->kind == CN_DIM_EQ || k->kind == CN_DIM_LE || k->kind == CN_DIM_NE)
  {
    const char *x, *y;
    dims_text(c, k->left, k->right, &x, &y);
    text = arena_printf(c->arena, "%s %s %s", x,
                        k->kind == CN_DIM_EQ   ? "=="
                        : k->kind == CN_DIM_LE ? "<="
                                               : "!=",
                        y);
  }
  open_note(c, k->origin->span, text, reason);
}

/* An equality between sizes that data decides is checked when it runs, and
 * known from there on. */
static void leave_to_run_time(Checker *c, Constraint *k) {
  Census l = census(c, k->left), r = census(c, k->right);
  k->done = true;
  VEC_PUSH(c->arena, c->stuck, k);
  if (l.top || r.top || k->implied || k->enough)
    return; /* no test will have made sure of it */
  if (k->kind == CN_DIM_EQ)
    fact_known(c, dim_sub(c->dims, k->left, k->right), true);
  else if (k->kind == CN_DIM_LE && !l.index && !r.index)
    fact_known(c, dim_sub(c->dims, k->right, k->left), false);
}

/* Sizes of the conditions under which a constraint has to hold. */
static Census census_conditions(Checker *c, const Constraint *k) {
  Census n = {0};
  Visit v = {.dim = census_dim, .shape = census_shape, .arg = &n, .c = c};
  for (const Fact *f = k->facts; k->implied && f && f != k->scope;
       f = f->outer)
    dim_visit(&v, f->dim);
  return n;
}

/* May its conditions fail to hold? */
static bool is_uncertain(Checker *c, const Constraint *k) {
  facts_load(c, k->scope);
  for (const Fact *f = k->facts; k->implied && f && f != k->scope;
       f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    Verdict v = f->eq   ? dim_eq0(c->solver, d, true)
                : f->ne ? dim_is_const(d) && dim_sign(d) ? PROVED : OPEN
                        : dim_ge0(c->solver, d, true);
    if (v != PROVED)
      return true;
  }
  return false;
}

/* The others are sizes: what else may well be 0 itself. */
static bool is_alone(Checker *c, Dim *const *factors, uint32_t count,
                     uint32_t one) {
  for (uint32_t i = 0; i < count; i++)
    if (i != one && !dim_cancels(c->dims, factors[i]) &&
        !dim_equal(factors[i], factors[one]))
      return false;
  return true;
}

/* x == d*(x/d), times sizes: that x % d == 0. */
bool is_divisibility(Checker *c, Constraint *k) {
  if (k->kind != CN_DIM_EQ)
    return false;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *num, *den, *factors[DIM_FACTORS];
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; i < count; i++)
    if (dim_is_remainder(c->dims, factors[i], &num, &den) &&
        is_alone(c, factors, count, i)) {
      k->divides = true;
      k->divisor = den;
      k->left = num;
      k->right = dim_mul(c->dims, den, dim_div(c->dims, num, den));
    }
  return k->divides;
}

uint32_t even_parts(Checker *c, const Constraint *k,
                    Division out[DIM_FACTORS]) {
  if (k->kind != CN_DIM_EQ)
    return 0;
  Dim *a = dim_resolve(c->dims, k->left), *b = dim_resolve(c->dims, k->right);
  uint32_t n = dim_divisions(c->dims, a, b, out);
  return n ? n : dim_divisions(c->dims, b, a, out);
}

/* What remains open although everything in it is final. */
static void settle_final(Checker *c, Constraint *k) {
  Division parts[DIM_FACTORS];
  if (k->divides || is_divisibility(c, k) || even_parts(c, k, parts))
    return; /* that it comes out even is for the callers to see to */
  Census l = census(c, k->left), r = census(c, k->right);
  Census when = census_conditions(c, k);
  bool rigid = l.rigid || r.rigid;
  if (when.rigid || when.meta || when.index)
    return;
  if (rigid && !l.data && !r.data && !l.index && !r.index && !l.top &&
      !r.top && k->kind == CN_DIM_EQ) {
    Dim *d = dim_sub(c->dims, k->left, k->right);
    Buffer ignored = {.arena = c->arena};
    facts_load(c, k->facts);
    bool witness = dim_witness(c->solver, dim_resolve(c->dims, d), true,
                               &ignored);
    if (witness) { /* an annotation promises every size */
      k->done = true;
      report_dims(c, k);
      return;
    }
  }
  if (rigid || l.index || r.index)
    return; /* it becomes a `given` of the function's type */
  leave_to_run_time(c, k);
}

/* The facts in whose scope it stands exclude each other. */
static bool never_runs(Checker *c, const Constraint *k) {
  if (!k->facts)
    return false;
  facts_load(c, k->facts);
  for (const Fact *f = k->facts; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (dim_is_const(d) && !f->index &&
        (f->eq ? dim_sign(d) != 0
               : f->ne ? dim_sign(d) == 0 : dim_sign(d) < 0))
      return true;
  }
  return dim_facts_contradictory(c->solver);
}

/* It stands under conditions that cannot be. */
bool constraint_is_void(Checker *c, Constraint *k) {
  return !k->assumed && has_condition(k->facts) && never_runs(c, k);
}

/* Sizes are left to the solver. */
static bool is_void(Checker *c, Constraint *k) {
  return (k->kind == CN_JOIN || k->kind == CN_SHAPE_EQ || k->kind == CN_KEEP) &&
         constraint_is_void(c, k);
}

static void leave_to_run_time(Checker *c, Constraint *k);

static void try_one(Checker *c, Constraint *k) {
  if (k->assumed) {
    wait_sleep(c, k);
    return;
  }
  Constraint *outer = c->solving;
  uint32_t changes = c->changes;
  Fact *facts = c->facts;
  uint32_t level = c->level;
  c->solving = k;
  c->facts = k->facts;
  c->level = k->level; /* what it brings into being belongs where it does */
  Verdict v = is_void(c, k) ? PROVED : settle(c, k);
  c->facts = facts;
  c->level = level;
  c->solving = outer;
  if (v == PROVED) {
    k->done = true;
    count_proved(c, k);
  } else if (k->at_run_time || (v == REFUTED && k->enough)) {
    leave_to_run_time(c, k);
  } else if (v == REFUTED && never_runs(c, k)) {
    k->done = true;
    count_proved(c, k);
  } else if (v == REFUTED && !is_uncertain(c, k)) {
    k->done = true;
    report_dims(c, k);
  } else {
    wait_sleep(c, k);
    k->asleep = c->changes == changes;
    c->awake |= !k->asleep;
  }
}

static void place_constraint(Checker *c, Constraint *k) {
  const Constraint *of = c->solving;
  k->serial = of ? of->serial : ++c->serial;
  k->site = of ? of->site : NULL;
  k->after = of && of->after;
  if (!k->implied)
    k->scope = of ? of->scope : NULL;
  k->placed = false;
  k->joins = of && of->kind == CN_JOIN;
  c->unclaimed += !k->site;
}

/* What else this shape is already said to be, the other side must be, too:
 * all of one shape's leading axes are one size. */
static bool same_as_pending(Checker *c, Constraint *k) {
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *o = c->pending.at[i];
    if (o->kind != CN_SHAPE_EQ || o->done || o->assumed || o == c->solving ||
        !in_scope(k->facts, o->facts) || !shape_same(c, o->a, k->a))
      continue;
    if (shape_same(c, o->b, k->b))
      return true;
    Shape *x = shape_norm(c, o->b), *y = shape_norm(c, k->b);
    bool alike = x->len && y->len &&
                 (x->at[0].tag != IT_SPLICE) == (y->at[0].tag != IT_SPLICE) &&
                 (x->at[x->len - 1].tag != IT_SPLICE) ==
                     (y->at[y->len - 1].tag != IT_SPLICE);
    if (!alike)
      continue; /* nothing can be learnt before the rank is known */
    if (!unify_shape(c, x, y, k->origin))
      report_shapes(c, k->a, k->b, k->origin);
    return true;
  }
  return false;
}

void demand(Checker *c, Constraint k0) {
  Constraint *k = NEW(c->arena, Constraint);
  *k = k0;
  k->facts = c->facts;
  k->level = c->level;
  place_constraint(c, k);
  if (k->kind == CN_SHAPE_EQ && same_as_pending(c, k))
    return;
  if (k->kind == CN_SHAPE_EQ) { /* unify_shape has just tried */
    pending_add(c, k);
    return;
  }
  try_one(c, k);
  if (!k->done && is_final(c, k))
    settle_final(c, k);
  if (!k->done)
    pending_add(c, k);
}

void demand_eq(Checker *c, Dim *a, Dim *b, Origin *o) {
  demand(c, (Constraint){.kind = CN_DIM_EQ, .origin = o, .left = a,
                         .right = b});
}

void demand_le(Checker *c, Dim *a, Dim *b, Origin *o) {
  demand(c, (Constraint){.kind = CN_DIM_LE, .origin = o, .left = a,
                         .right = b});
}

void demand_join(Checker *c, Shape *result, uint32_t n, Shape **args,
                 Origin *o) {
  demand(c, (Constraint){.kind = CN_JOIN, .origin = o, .a = result,
                         .joined = args, .join_count = n});
}

void solve_pending(Checker *c) {
  for (int round = 0; c->progress && round < 100; round++) {
    c->progress = false;
    if (!c->awake)
      return;
    c->awake = false;
    uint32_t n = c->pending.len, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
      Constraint *k = c->pending.at[i];
      if (k->asleep)
        continue;
      try_one(c, k);
      if (!k->done && !k->assumed && is_final(c, k) &&
          k->kind == CN_DIM_EQ)
        settle_final(c, k);
    }
    for (uint32_t i = 0; i < c->pending.len; i++)
      if (!c->pending.at[i]->done)
        c->pending.at[kept++] = c->pending.at[i];
    c->pending.len = kept;
  }
}

/* ---- the _ of a reshape ---- */

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
      !dim_linear(c->dims, d, v, &factor, &rest))
    return false;
  if (dim_is_const(factor) && dim_linear(c->dims, whole, v, &n, &of) &&
      dim_is_const(n))
    factor = n, rest = of; /* as the user knows them */
  if (is_turned(c, k, v, factor))
    factor = dim_neg(c->dims, factor);
  else
    rest = dim_neg(c->dims, rest);
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

static void solve_zeros(Checker *c, uint32_t mark) {
  for (uint32_t i = mark; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (k->kind != CN_DIM_EQ || k->done || k->assumed)
      continue;
    DimVar *v = only_zero(c, dim_resolve(c->dims, k->left),
                          dim_resolve(c->dims, k->right));
    if (v)
      dim_bind(c, v, dim_int(c->dims, 0));
  }
}

/* Those that stand alone in an equation first. */
void solve_holes(Checker *c, uint32_t mark) {
  solve_zeros(c, mark);
  for (uint32_t most = 1; most <= 2; most++)
    for (bool any = true; any;) {
      any = false;
      for (uint32_t i = mark; i < c->pending.len; i++)
        any |= solve_hole(c, c->pending.at[i], most);
    }
  solve_pending(c);
}

/* ---- the end of a declaration ---- */

static const char *why_open(Checker *c, Constraint *k) {
  if (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE && k->kind != CN_DIM_NE)
    return "a rank is not known before the program runs";
  if (k->enough)
    return "enough for every index of a loop, perhaps more than is needed";
  Census l = census(c, k->left), r = census(c, k->right);
  if (l.top || r.top)
    return "a size was forgotten";
  if (l.index || r.index)
    return "an index that the solver cannot bound";
  if (l.data || r.data)
    return "a size that data decides";
  return "beyond what the solver decides";
}

/* What is merely known of its sizes comes from no demand. */
void note_carried(Checker *c, Scheme *s, Sym *name) {
  for (uint32_t i = 0; i < s->given_count; i++)
    if (s->given[i]->origin) {
      Carried k = {s, s->given[i], name};
      VEC_PUSH(c->arena, c->carried, k);
      c->stats.carried++;
      c->stats.row[constraint_row(k.given)].carried++;
    }
}

static void note_entangled(void *arg, DimVar *v) {
  Checker *c = arg;
  if (v->kind == DV_META && !v->bound && !v->top)
    map_put(&c->entangled, v, v);
}

void constraints_settle(Checker *c) {
  c->progress = true;
  solve_pending(c);
  solve_holes(c, 0);
  solve_together(c);
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (!k->done && !k->assumed)
      VEC_PUSH(c->arena, c->stuck, k);
  }
  c->pending.len = 0;
  checks_place(c);
  for (uint32_t i = 0; i < c->stuck.len; i++) {
    Constraint *k = c->stuck.at[i];
    note_open(c, k, why_open(c, k));
    if (k->kind == CN_DIM_EQ)
      dim_each_var(dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right)),
                   note_entangled, NULL, c);
  }
  c->stuck.len = 0;
}
