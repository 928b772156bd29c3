/* Solves constraints immediately if possible, otherwise keeps them until more
   is known.  Main entry points: add_constraint and solve_residual.  A
   constraint is entailed, contradicted (a diagnostic), or undecided. */
#include "typecheck/solver.h"
#include "support/arena.h"
#include "support/buffer.h"

Origin *origin_new(Checker *c, OriginKind kind, Span span) {
  Origin *o = NEW(c->arena, Origin);
  o->kind = kind;
  o->span = span;
  return o;
}

bool error_reported_at(const Checker *c, uint32_t mark, Span place,
                       const Arg *args) {
  for (uint32_t i = mark; i < c->solver.contradicted.len; i++) {
    const Origin *o = c->solver.contradicted.at[i];
    if ((args && o->kind == ORIGIN_ARG && o->arg.args == args) ||
        (o->span.file == place.file && o->span.start == place.start &&
         o->span.end == place.end))
      return true;
  }
  return false;
}

static Verdict solve_constraint(Checker *c, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    return solve_size_eq(c, k);
  case CN_DIM_LE:
    return solve_size_le(c, k);
  case CN_DIM_NE:
    return solve_size_ne(c, k);
  case CN_SHAPE_EQ:
    return solve_shape_eq(c, k);
  case CN_BROADCAST:
    return solve_broadcast(c, k);
  case CN_KEEP:
    return solve_keep(c, k);
  }
  return UNDECIDED;
}

/* An equation between existential sizes becomes a run-time check, and an
   assumption after it. */
static void defer_to_run_time(Checker *c, Constraint *k) {
  k->solved = true;
  VEC_PUSH(c->arena, c->solver.residual, k);
  if (!constraint_is_size(k) || k->is_dependent)
    return; /* shapes: the operation checks them itself */
  VarKinds l = dim_var_kinds(c, k->left), r = dim_var_kinds(c, k->right);
  if (l.unknown || r.unknown || k->is_implication || k->sufficient_only ||
      k->control_region != c->facts.control_region ||
      !assumption_in_scope(c->facts.assumptions, k->assumptions))
    return; /* no check will have established it */
  if (k->kind == CN_DIM_EQ)
    assumption_add_unconditional(c, dim_sub(c->dims, k->left, k->right), true);
  else if (k->kind == CN_DIM_LE && !l.index && !r.index)
    assumption_add_unconditional(c, dim_sub(c->dims, k->right, k->left), false);
}

/* Decides about a constraint that is still undecided although all its variables
   are final. */
static void finalize_constraint(Checker *c, Constraint *k) {
  FloorDivision parts[DIM_MAX_FACTORS];
  bool is_divisible = k->divisibility ||
                      constraint_as_divisibility(c, k, NULL) ||
                      divisibility_parts(c, k, parts);
  VarKinds l = dim_var_kinds(c, k->left), r = dim_var_kinds(c, k->right);
  VarKinds when = condition_var_kinds(c, k);
  bool skolem = l.skolem || r.skolem;
  if (when.skolem || when.meta || when.index)
    return;
  if (is_divisible && (skolem || l.meta || r.meta))
    return; /* callers have to ensure that the division is exact */
  if (skolem && !k->is_dependent && !l.existential && !r.existential &&
      !l.index && !r.index && !l.unknown && !r.unknown &&
      k->kind == CN_DIM_EQ) {
    Dim *d = dim_sub(c->dims, k->left, k->right);
    Buffer ignored = {.arena = c->arena};
    assumption_load(c, k->assumptions);
    bool counterexample = dim_counterexample(
        c->facts.loaded, dim_resolve(c->dims, d), true, &ignored);
    if (counterexample) { /* an annotation promises all sizes */
      k->solved = true;
      report_constraint(c, k);
      return;
    }
  }
  if (skolem || l.index || r.index)
    return; /* becomes a `given` constraint of the function's type */
  defer_to_run_time(c, k);
}

/* For shapes only; the solver handles sizes. */
static bool is_vacuous_shape_constraint(Checker *c, Constraint *k) {
  return (k->kind == CN_BROADCAST || k->kind == CN_SHAPE_EQ ||
          k->kind == CN_KEEP) &&
         constraint_is_vacuous(c, k);
}

/* True if the conditions contradict earlier constraints, which callers or
   checks ensure.  The code then never runs. */
static bool is_unreachable(Checker *c, const Constraint *k) {
  if (!assumption_has_condition(k->assumptions))
    return false;
  assumption_load(c, k->assumptions);
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    const Constraint *o = c->solver.pending.at[i];
    if (o == k || o->solved || o->sufficient_only || o->at_run_time ||
        (k->queue.active && o->queue.order > k->queue.order) ||
        !assumption_in_scope(k->assumptions, o->assumptions) ||
        (o->kind != CN_DIM_LE && o->kind != CN_DIM_EQ))
      continue;
    Dim *d = dim_resolve(c->dims, dim_sub(c->dims, o->right, o->left));
    if (dim_has_unknown(d) || dim_has_unguarded_div(d))
      continue;
    if (o->kind == CN_DIM_EQ)
      assumptions_add_eq(c->facts.loaded, d);
    else
      assumptions_add_ge(c->facts.loaded, d);
  }
  return assumptions_inconsistent(c->facts.loaded);
}

/* True if a size divides by zero.  Another constraint requires that divisors
   are at least 1; its message is clearer. */
static bool is_undefined(Checker *c, const Constraint *k) {
  return constraint_is_size(k) &&
         dim_divides_by_zero(
             c->dims,
             dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left)));
}

/* A contradiction between sizes is an error of the caller, unless data may
   satisfy the constraint. */
static bool is_left_to_data(Checker *c, const Constraint *k) {
  if (!k->is_dependent || !constraint_is_size(k))
    return k->is_dependent;
  VarKinds l = dim_var_kinds(c, k->left), r = dim_var_kinds(c, k->right);
  return l.existential || r.existential || l.unknown || r.unknown;
}

static void try_constraint(Checker *c, Constraint *k) {
  if (k->is_given) {
    wakeup_suspend(c, k);
    return;
  }
  Constraint *outer = c->solver.current_constraint;
  uint32_t changes = c->solver.solution_changes;
  Assumption *assumptions = c->facts.assumptions;
  uint32_t level = c->inference.level;
  c->solver.current_constraint = k;
  c->facts.assumptions = k->assumptions;
  c->inference.level =
      k->level; /* derived constraints belong to the same level */
  Verdict v =
      is_vacuous_shape_constraint(c, k) ? ENTAILED : solve_constraint(c, k);
  if (v == CONTRADICTED && is_undefined(c, k))
    v = UNDECIDED;
  if (assumptions !=
      k->assumptions) /* otherwise assume what will have been checked */
    c->facts.assumptions = assumptions;
  c->inference.level = level;
  c->solver.current_constraint = outer;
  if (v == ENTAILED) {
    k->solved = true;
    stats_count_proved(c, k);
  } else if (k->at_run_time || (v == CONTRADICTED && is_left_to_data(c, k)) ||
             (v == CONTRADICTED && k->sufficient_only)) {
    defer_to_run_time(c, k);
  } else if (v == CONTRADICTED && (assumption_inconsistent(c, k->assumptions) ||
                                   is_unreachable(c, k))) {
    k->solved = true;
    stats_count_proved(c, k);
  } else if (v == CONTRADICTED && !constraint_may_be_vacuous(c, k)) {
    k->solved = true;
    report_constraint(c, k);
  } else {
    wakeup_suspend(c, k);
    k->queue.suspended = c->solver.solution_changes == changes;
    c->solver.has_awake |= !k->queue.suspended;
  }
}

static void init_constraint_site(Checker *c, Constraint *k) {
  const Constraint *of = c->solver.current_constraint;
  k->serial = of ? of->serial : ++c->solver.serial;
  k->control_region = of ? of->control_region : c->facts.control_region;
  k->check.site = of ? of->check.site : NULL;
  k->check.after_site = of && of->check.after_site;
  if (!k->is_implication)
    k->check.assumptions = of ? of->check.assumptions : NULL;
  k->check.inserted = false;
  k->is_dependent |= of && of->is_dependent;
  k->from_broadcast = of && of->kind == CN_BROADCAST;
  c->solver.max_unclaimed += !k->check.site;
}

/* Equal shapes have equal hashes. */
static uint32_t shape_hash(const Shape *s) {
  uint32_t h = s->len;
  for (uint32_t i = 0; i < s->len; i++) {
    const ShapeAxis *it = &s->axes[i];
    const DimVar *size = it->tag == SHAPE_DIM ? dim_as_var(it->dim) : NULL;
    h = h * 31 + it->tag + 1;
    h = h * 31 + (it->tag == SHAPE_SPLICE ? it->var->id : size ? size->id : 0);
  }
  return h;
}

/* True if no variable of k has been solved since n was computed: k would have
   been woken. */
static bool is_current(Checker *c, const NormalSides *n, const Constraint *k) {
  return n->of_a == k->a && n->of_b == k->b &&
         (n->solution_changes == c->solver.solution_changes ||
          (k->queue.suspended && n->suspension == k->queue.watch_generation));
}

static const NormalSides *normal_sides(Checker *c, Constraint *k) {
  if (!k->normal)
    k->normal = NEW(c->arena, NormalSides);
  NormalSides *n = k->normal;
  if (is_current(c, n, k))
    return n;
  *n = (NormalSides){.of_a = k->a,
                     .of_b = k->b,
                     .solution_changes = c->solver.solution_changes,
                     .suspension =
                         k->queue.suspended ? k->queue.watch_generation : 0,
                     .a = shape_norm(c, k->a),
                     .b = shape_norm(c, k->b)};
  n->hash_a = shape_hash(n->a);
  n->hash_b = shape_hash(n->b);
  return n;
}

typedef struct OtherSides { /* of two equations that share a side */
  const Shape *x, *y;
} OtherSides;

/* True if a side of o equals a side of k. */
static bool share_side(const NormalSides *o, const NormalSides *k,
                       OtherSides *rest) {
  if (o->hash_a == k->hash_a && shape_same(o->a, k->a))
    *rest = (OtherSides){o->of_b, k->of_b};
  else if (o->hash_a == k->hash_b && shape_same(o->a, k->b))
    *rest = (OtherSides){o->of_b, k->of_a};
  else if (o->hash_b == k->hash_a && shape_same(o->b, k->a))
    *rest = (OtherSides){o->of_a, k->of_b};
  else if (o->hash_b == k->hash_b && shape_same(o->b, k->b))
    *rest = (OtherSides){o->of_a, k->of_a};
  else
    return false;
  return true;
}

static bool is_end(const Checker *c, const ShapeAxis *it) {
  return c->solver.unifies_single_axes ? axis_is_single(it)
                                       : it->tag != SHAPE_SPLICE;
}

/* True if unification can learn something before the ranks are known. */
static bool have_alike_ends(const Checker *c, const Shape *x, const Shape *y) {
  return x->len && y->len && is_end(c, &x->axes[0]) == is_end(c, &y->axes[0]) &&
         is_end(c, &x->axes[x->len - 1]) == is_end(c, &y->axes[y->len - 1]);
}

/* If pending constraints define the same shape, unifies their other sides: all
   leading axes of one shape are one size.  The result is not compared with the
   same constraint again: x == y and x == z give y == z only once. */
static bool unify_with_pending(Checker *c, Constraint *k) {
  const NormalSides *own = normal_sides(c, k);
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    Constraint *o = c->solver.pending.at[i];
    OtherSides rest;
    if (o->kind != CN_SHAPE_EQ || o->solved || o->queue.being_compared ||
        o == c->solver.current_constraint ||
        !share_side(normal_sides(c, o), own, &rest) ||
        !assumption_in_scope(k->assumptions, o->assumptions))
      continue;
    Shape *x = shape_norm(c, rest.x), *y = shape_norm(c, rest.y);
    if (shape_same(x, y))
      return true;
    if (!have_alike_ends(c, x, y))
      continue;
    o->queue.being_compared = true;
    if (!unify_shape(c, x, y, k->origin))
      report_shapes(c, k->a, k->b, k->origin);
    o->queue.being_compared = false;
    return true;
  }
  return false;
}

void add_constraint(Checker *c, Constraint k0) {
  Constraint *k = NEW(c->arena, Constraint);
  *k = k0;
  k->assumptions = c->facts.assumptions;
  k->level = c->inference.level;
  init_constraint_site(c, k);
  if (k->kind == CN_SHAPE_EQ && !k->is_dependent && unify_with_pending(c, k))
    return;
  if (k->kind == CN_SHAPE_EQ) { /* unify_shape has already tried */
    pending_add(c, k);
    return;
  }
  try_constraint(c, k);
  if (!k->solved && constraint_is_size(k) && constraint_has_final_sizes(c, k))
    finalize_constraint(c, k);
  if (!k->solved)
    pending_add(c, k);
}

void add_size_eq(Checker *c, Dim *a, Dim *b, Origin *o) {
  add_constraint(
      c, (Constraint){.kind = CN_DIM_EQ, .origin = o, .left = a, .right = b});
}

void add_size_le(Checker *c, Dim *a, Dim *b, Origin *o) {
  add_constraint(
      c, (Constraint){.kind = CN_DIM_LE, .origin = o, .left = a, .right = b});
}

void add_broadcast(Checker *c, Shape *result, uint32_t n, Shape **args,
                   Origin *o) {
  add_constraint(c, (Constraint){.kind = CN_BROADCAST,
                                 .origin = o,
                                 .a = result,
                                 .broadcast_args = args,
                                 .broadcast_arg_count = n});
}

void solve_pending(Checker *c) {
  for (int round = 0; c->solver.progress && round < 100; round++) {
    c->solver.progress = false;
    if (!c->solver.has_awake)
      return;
    c->solver.has_awake = false;
    uint32_t n = c->solver.pending.len, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
      Constraint *k = c->solver.pending.at[i];
      if (k->queue.suspended)
        continue;
      try_constraint(c, k);
      if (!k->solved && !k->is_given && k->kind == CN_DIM_EQ &&
          constraint_has_final_sizes(c, k))
        finalize_constraint(c, k);
    }
    for (uint32_t i = 0; i < c->solver.pending.len; i++)
      if (!c->solver.pending.at[i]->solved)
        c->solver.pending.at[kept++] = c->solver.pending.at[i];
    c->solver.pending.len = kept;
  }
}

/* ---- the end of a declaration ---- */

static void note_in_unproved_equation(void *arg, DimVar *v) {
  Checker *c = arg;
  if (v->kind == DV_META && !v->solution && !v->unknown)
    map_put(&c->solver.in_unproved_equations, v, v);
}

/* A size that divides by zero remains: the constraint that requires a positive
   divisor was implied by others, which are undefined now.  No error explains it
   better. */
static void report_undefined(Checker *c) {
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (k->solved || k->is_given || k->is_dependent ||
        assumption_has_condition(k->assumptions) || !is_undefined(c, k))
      continue;
    k->solved = true;
    report_constraint(c, k);
    return;
  }
}

void solve_residual(Checker *c) {
  c->solver.progress = true;
  solve_pending(c);
  solve_reshape_holes(c, 0);
  solve_equation_systems(c, 0, true);
  report_undefined(c);
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (!k->solved && !k->is_given && c->solver.residual.len)
      try_constraint(c, k); /* assume what will have been checked */
    if (!k->solved && !k->is_given)
      defer_to_run_time(c, k);
  }
  c->solver.pending.len = 0;
  runtime_checks_insert(c);
  for (uint32_t i = 0; i < c->solver.residual.len; i++) {
    Constraint *k = c->solver.residual.at[i];
    stats_count_unproved(c, k);
    if (k->kind == CN_DIM_EQ)
      dim_each_var(dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right)),
                   note_in_unproved_equation, NULL, c);
  }
}
