/* Constraints: solved as soon as they can be, else kept until more is known.
 * Three outcomes: proved, refuted (a diagnostic), open. */
#include "typecheck/internal.h"

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
  Census l = dim_census(c, k->left), r = dim_census(c, k->right);
  return !l.meta && !r.meta;
}

/* An equality between sizes that data decides is checked when it runs, and
 * known from there on. */
static void leave_to_run_time(Checker *c, Constraint *k) {
  k->done = true;
  VEC_PUSH(c->arena, c->stuck, k);
  if (!k->left)
    return; /* of shapes: the operation itself will see */
  Census l = dim_census(c, k->left), r = dim_census(c, k->right);
  if (l.top || r.top || k->implied || k->enough || k->part != c->part ||
      !in_scope(c->facts, k->facts))
    return; /* no test will have made sure of it */
  if (k->kind == CN_DIM_EQ)
    fact_known(c, dim_sub(c->dims, k->left, k->right), true);
  else if (k->kind == CN_DIM_LE && !l.index && !r.index)
    fact_known(c, dim_sub(c->dims, k->right, k->left), false);
}

/* What remains open although everything in it is final. */
static void settle_final(Checker *c, Constraint *k) {
  Division parts[DIM_FACTORS];
  bool even =
      k->divides || is_divisibility(c, k) || even_parts(c, k, parts);
  Census l = dim_census(c, k->left), r = dim_census(c, k->right);
  Census when = conditions_census(c, k);
  bool rigid = l.rigid || r.rigid;
  if (when.rigid || when.meta || when.index)
    return;
  if (even && (rigid || l.meta || r.meta))
    return; /* that it comes out even is for the callers to see to */
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

/* Sizes are left to the solver. */
static bool is_void(Checker *c, Constraint *k) {
  return (k->kind == CN_JOIN || k->kind == CN_SHAPE_EQ || k->kind == CN_KEEP) &&
         constraint_is_void(c, k);
}

/* What was demanded before it is seen to, by callers or a check: where that
 * and its conditions exclude each other, it is never run. */
static bool is_never_reached(Checker *c, const Constraint *k) {
  if (!has_condition(k->facts))
    return false;
  facts_load(c, k->facts);
  for (uint32_t i = 0; i < c->pending.len; i++) {
    const Constraint *o = c->pending.at[i];
    if (o == k || o->done || o->enough || o->at_run_time ||
        (k->pending && o->order > k->order) || !in_scope(k->facts, o->facts) ||
        (o->kind != CN_DIM_LE && o->kind != CN_DIM_EQ))
      continue;
    Dim *d = dim_resolve(c->dims, dim_sub(c->dims, o->right, o->left));
    if (dim_has_top(d) || dim_is_soft(d))
      continue;
    if (o->kind == CN_DIM_EQ)
      dim_facts_add_eq(c->solver, d);
    else
      dim_facts_add_ge(c->solver, d);
  }
  return dim_facts_contradictory(c->solver);
}

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
  if (facts != k->facts) /* else it stays known what will have been checked */
    c->facts = facts;
  c->level = level;
  c->solving = outer;
  if (v == PROVED) {
    k->done = true;
    tally_proved(c, k);
  } else if (k->at_run_time || (v == REFUTED && k->enough)) {
    leave_to_run_time(c, k);
  } else if (v == REFUTED &&
             (facts_exclude(c, k->facts) || is_never_reached(c, k))) {
    k->done = true;
    tally_proved(c, k);
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
  k->part = of ? of->part : c->part;
  k->site = of ? of->site : NULL;
  k->after = of && of->after;
  if (!k->implied)
    k->scope = of ? of->scope : NULL;
  k->placed = false;
  k->joins = of && of->kind == CN_JOIN;
  c->unclaimed += !k->site;
}

/* What else this shape is already said to be, the other side must be, too:
 * all of one shape's leading axes are one size.  What that comes to is not
 * compared with the same constraint again: of x == y, x == z is y == z, and
 * that x == z. */
static bool same_as_pending(Checker *c, Constraint *k) {
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *o = c->pending.at[i];
    if (o->kind != CN_SHAPE_EQ || o->done || o->compared ||
        o == c->solving || !in_scope(k->facts, o->facts))
      continue;
    Shape *x, *y; /* what each says besides the side that they share */
    if (shape_same(c, o->a, k->a))
      x = shape_norm(c, o->b), y = shape_norm(c, k->b);
    else if (shape_same(c, o->a, k->b))
      x = shape_norm(c, o->b), y = shape_norm(c, k->a);
    else if (shape_same(c, o->b, k->a))
      x = shape_norm(c, o->a), y = shape_norm(c, k->b);
    else if (shape_same(c, o->b, k->b))
      x = shape_norm(c, o->a), y = shape_norm(c, k->a);
    else
      continue;
    if (shape_same(c, x, y))
      return true;
    bool alike = x->len && y->len &&
                 (x->at[0].tag != IT_SPLICE) == (y->at[0].tag != IT_SPLICE) &&
                 (x->at[x->len - 1].tag != IT_SPLICE) ==
                     (y->at[y->len - 1].tag != IT_SPLICE);
    if (!alike)
      continue; /* nothing can be learnt before the rank is known */
    o->compared = true;
    if (!unify_shape(c, x, y, k->origin))
      report_shapes(c, k->a, k->b, k->origin);
    o->compared = false;
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

/* ---- the end of a declaration ---- */

static void note_entangled(void *arg, DimVar *v) {
  Checker *c = arg;
  if (v->kind == DV_META && !v->bound && !v->top)
    map_put(&c->entangled, v, v);
}

void constraints_settle(Checker *c) {
  c->progress = true;
  solve_pending(c);
  solve_holes(c, 0);
  solve_together(c, 0, true);
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (!k->done && !k->assumed && c->stuck.len)
      try_one(c, k); /* with what will have been tested */
    if (!k->done && !k->assumed)
      leave_to_run_time(c, k);
  }
  c->pending.len = 0;
  checks_place(c);
  for (uint32_t i = 0; i < c->stuck.len; i++) {
    Constraint *k = c->stuck.at[i];
    tally_open(c, k);
    if (k->kind == CN_DIM_EQ)
      dim_each_var(dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right)),
                   note_entangled, NULL, c);
  }
  c->stuck.len = 0;
}
