/* Solves or decides equations and inequalities between two sizes. */
#include "typecheck/solver.h"
#include "support/arena_text.h"
#include "support/diag.h"

static void note_dim_kind(void *arg, DimVar *v) {
  VarKinds *n = arg;
  n->unknown |= v->unknown;
  switch (v->kind) {
  case DV_META:
    n->meta |= !v->unknown;
    break;
  case DV_EXISTENTIAL:
    n->existential = true;
    break;
  case DV_SKOLEM:
    n->skolem = true;
    break;
  case DV_INDEX:
    n->index = true;
    break;
  }
}

static void note_shape_kind(void *arg, ShapeVar *v) {
  VarKinds *n = arg;
  if (v->skolem)
    n->skolem = true;
  else
    n->meta = true;
}

VarKinds dim_var_kinds(Checker *c, Dim *d) {
  VarKinds n = {0};
  TypeVisitor v = {
      .dim = note_dim_kind, .shape = note_shape_kind, .arg = &n, .c = c};
  dim_visit(&v, d);
  return n;
}

/* Kinds of variables in the conditions of a constraint. */
VarKinds condition_var_kinds(Checker *c, const Constraint *k) {
  VarKinds n = {0};
  TypeVisitor v = {
      .dim = note_dim_kind, .shape = note_shape_kind, .arg = &n, .c = c};
  for (const Assumption *f = k->assumptions;
       k->is_implication && f && f != k->check.assumptions; f = f->outer)
    dim_visit(&v, f->dim);
  return n;
}

/* ---- equality of sizes ---- */

typedef struct SolveContext {
  Checker *c;
  const Constraint *k;
} SolveContext;

/* True if the condition of an enclosing branch mentions the variable.  The
   constraints of the branch then do not solve it. */
static bool occurs_in_condition(Checker *c, const Constraint *k, DimVar *v) {
  for (const Assumption *f = k->assumptions; f; f = f->outer)
    if (assumption_is_condition(f) &&
        dim_mentions(c->dims, dim_resolve(c->dims, f->dim), v))
      return true;
  return false;
}

static bool may_solve(void *arg, DimVar *v) {
  SolveContext *s = arg;
  return v->kind == DV_META && !v->solution && !v->unknown &&
         !occurs_in_condition(s->c, s->k, v);
}

/* A variable that stays within the function whose body computes a size. */
static bool may_solve_in_body(void *arg, DimVar *v) {
  SolveContext *s = arg;
  return may_solve(arg, v) &&
         !skolem_escapes(s->c, v, dim_sub(s->c->dims, s->k->left, s->k->right));
}

static bool may_solve_hole(void *arg, DimVar *v) {
  return v->reshape_hole && may_solve(arg, v);
}

bool constraint_has_final_sizes(Checker *c, const Constraint *k) {
  if (!dim_has_metas(dim_resolve(c->dims, k->left)) &&
      !dim_has_metas(dim_resolve(c->dims, k->right)))
    return true;
  return !dim_var_kinds(c, k->left).meta && !dim_var_kinds(c, k->right).meta;
}

typedef struct DivisorGuard {
  Checker *c;
  const Constraint *k;
} DivisorGuard;

static void guard_divisor(void *arg, Dim *divisor) {
  DivisorGuard *h = arg;
  Checker *c = h->c;
  Dim *one = dim_int(c->dims, 1);
  if (assumption_check_le(c, one, divisor) == ENTAILED)
    return;
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    const Constraint *o = c->solver.pending.at[i];
    if (o->kind == CN_DIM_LE && !o->solved &&
        o->assumptions == h->k->assumptions && dim_equal(o->left, one) &&
        dim_equal(dim_resolve(c->dims, o->right), divisor))
      return;
  }
  add_size_le(c, one, divisor, h->k->origin);
}

/* Makes the divisions in d guarded: the solver assumes that divisors are at
   least 1, so this adds these constraints. */
static void guard_divisors(Checker *c, const Constraint *k, Dim *d) {
  DivisorGuard h = {c, k};
  if (dim_has_unguarded_div(d))
    dim_each_divisor(c->dims, d, true, guard_divisor, &h);
}

typedef struct SharedMeta { /* an unsolved size that occurs on both sides */
  Checker *c;
  Dim *a, *b;
  DimVar *found;
} SharedMeta;

static void note_shared_meta(void *arg, DimVar *v) {
  SharedMeta *s = arg;
  DimCtx *cx = s->c->dims;
  if (v->kind == DV_META && !v->is_integer && dim_mentions(cx, s->a, v) &&
      dim_mentions(cx, s->b, v))
    s->found = v;
}

/* Their difference without common factors. */
static Dim *size_difference(Checker *c, Dim *a, Dim *b) {
  return dim_cancel_common_factor(c->dims, dim_sub(c->dims, a, b));
}

/* forced_zero_size, where d is the difference. */
static DimVar *zero_size_of(Checker *c, Dim *a, Dim *b, Dim *d) {
  SharedMeta s = {c, a, b, NULL};
  if (dim_vanishes_only_at_zero(d))
    dim_each_var(d, note_shared_meta, NULL, &s);
  return s.found;
}

DimVar *forced_zero_size(Checker *c, Dim *a, Dim *b) {
  return zero_size_of(c, a, b, size_difference(c, a, b));
}

/* Warns that an axis of size 1 does not broadcast.  Probably * was meant, and
   the other size was not meant to be 1. */
static void warn_broadcast_forces_one(Checker *c, const Constraint *k,
                                      DimVar *v) {
  const Origin *o = k->origin;
  if (c->names.module->library || o->kind != ORIGIN_OPERATOR || o->body_origin)
    return; /* in a call, the arguments may still determine its sizes */
  VarNames *names = var_names_share(c);
  Diag *d =
      warning_at(c, 404, o->span,
                 "%s must be 1 here: it is combined with an axis of size 1",
                 dim_to_text(c, dim_of_var(c->dims, v)));
  if (o->actual && o->expected) {
    const char *left = ty_text(c, o->actual);
    d->primary_label =
        arena_printf(c->arena, "%s and %s", left, ty_text(c, o->expected));
  }
  c->notes.message_names = names;
  d->help = "an axis of size 1 does not broadcast; an axis made with * does, "
            "as in x.[:, *]";
}

/* Finds a variable that a == b determines, and its value: the side that is a
   single variable, or a variable that is linear in d, the difference.  Solves
   `_` before a size of a parameter, since the latter would need a division, or
   would become a term of a size of data. */
static DimVar *find_solution(Checker *c, const Constraint *k, Dim *a, Dim *b,
                             Dim *d, Dim **value) {
  SolveContext solver = {c, k};
  DimVar *v = dim_as_var(a), *w = dim_as_var(b);
  *value = b;
  if (v && w && may_solve(&solver, w) && v->is_integer == w->is_integer &&
      v->id < w->id && (v->name || !w->name))
    v = NULL; /* solve the newer one: fewer constraints mention it */
  if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, b, v)) {
    v = w;
    *value = a;
    if (!v || !may_solve(&solver, v) || dim_mentions(c->dims, a, v))
      v = NULL;
  }
  if (!v && !dim_solve_for_meta(c->dims, d, may_solve, &solver, &v, value))
    return NULL;
  if (!v->reshape_hole && dim_has_reshape_hole(d) &&
      (bodies_have_existential(c) ? dim_var_of_parameter(c, v)
                                  : dim_var_in_parameter(c, v)))
    dim_solve_for_meta(c->dims, d, may_solve_hole, &solver, &v, value);
  if (skolem_escapes(c, v, *value))
    dim_solve_for_meta(c->dims, d, may_solve_in_body, &solver, &v, value);
  *value = dim_resolve(c->dims, *value);
  return v;
}

static void note_bound_existential(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_EXISTENTIAL;
}

/* Without bounds by v of existential sizes: they hold only if v is a size, and
   so cannot prove it. */
static Assumption *without_bounds_by(Checker *c, Assumption *f,
                                     const DimVar *v) {
  if (!f)
    return NULL;
  Assumption *outer = without_bounds_by(c, f->outer, v);
  bool existential = false;
  Dim *d = dim_resolve(c->dims, f->dim);
  if (dim_mentions(c->dims, d, v))
    dim_each_var(d, note_bound_existential, NULL, &existential);
  if (existential)
    return outer;
  if (outer == f->outer)
    return f;
  return assumption_copy(c, f, outer);
}

/* Warns that only an axis of size 0 keeps the size of a loop's state, as in
   fold (fn acc x => concat ~axis:0 (acc, x)) (zeros [0]) rows. */
static void warn_loop_forces_zero(Checker *c, const Constraint *k, DimVar *v) {
  const Origin *o = k->origin;
  PrimId loop = origin_loop_of_result(o);
  if (c->names.module->library || !loop || o->other_span.file)
    return;
  warning_at(c, 411, o->span,
             "%s must be 0 here: the state of `%s` keeps its shape",
             dim_to_text(c, dim_of_var(c->dims, v)), prim_info[loop].name)
      ->primary_label =
      o->actual && o->expected
          ? arena_printf(c->arena, "found %s, expected %s",
                         ty_text(c, o->actual), ty_text(c, o->expected))
          : NULL;
}

Verdict bind_solution(Checker *c, Constraint *k, DimVar *v, Dim *value) {
  int64_t n;
  bool is_size = !v->is_integer && !v->reshape_hole;
  if (!v->is_integer && dim_is_int(value, &n) && n < 0)
    return CONTRADICTED;
  bool is_term = !v->is_integer && !dim_is_const(value) && !dim_as_var(value);
  FreedTerms freed = {0};
  k->may_escape = is_term && skolem_may_escape(c, v, value);
  if (k->may_escape)
    return UNDECIDED;
  if (skolem_escapes(c, v, value) && !skolem_free_terms(c, v, value, &freed)) {
    k->at_run_time = true; /* callers do not know that size */
    return UNDECIDED;
  }
  v->solved_by = k->origin;
  if (is_size && dim_is_int(value, &n) && n == 0)
    warn_loop_forces_zero(c, k, v);
  if (k->from_broadcast && is_size && dim_is_int(value, &n) && n == 1 &&
      (dim_equal(value, dim_resolve(c->dims, k->left)) ||
       dim_equal(value, dim_resolve(c->dims, k->right))))
    warn_broadcast_forces_one(
        c, k, v); /* unified with a 1; 3 - n == 2 does not count */
  Assumption *assumptions = c->facts.assumptions;
  Assumption *others =
      is_term ? without_bounds_by(c, assumptions, v) : assumptions;
  dim_bind(c, v, value);
  skolem_require_terms(c, &freed);
  if (!is_term)
    return ENTAILED;
  VEC_PUSH(c->arena, c->solver.solved_by_terms, ((SolvedByTerm){v, k}));
  c->facts.assumptions = others;
  add_size_le(c, dim_int(c->dims, 0), value, k->origin);
  if (others != assumptions)
    c->facts.assumptions = assumptions;
  return ENTAILED;
}

/* a*x == b*x, where d is a == b.  The factor x may be 0 even if all sizes are
   at least 1 (as n/2).  Then the equation holds for any a and b. */
static Verdict undecided_if_vanishing(Checker *c, Dim *ax, Dim *bx,
                                      Verdict of_d) {
  return of_d == CONTRADICTED &&
                 dim_common_factor_may_vanish(c->dims, dim_sub(c->dims, ax, bx))
             ? UNDECIDED
             : of_d;
}

Verdict solve_size_eq(Checker *c, Constraint *k) {
  Dim *a = dim_resolve(c->dims, k->left), *b = dim_resolve(c->dims, k->right);
  if (dim_has_unknown(a) || dim_has_unknown(b))
    return ENTAILED; /* `?` accepts any size */
  if (dim_equal(a, b))
    return ENTAILED;
  Dim *d = size_difference(c, a, b), *value;
  if (dim_is_const(d))
    return undecided_if_vanishing(c, a, b,
                                  dim_sign(d) ? CONTRADICTED : ENTAILED);
  guard_divisors(c, k, d);
  if (assumption_has_condition(k->assumptions)) {
    assumption_load(c, k->assumptions);
    if (dim_check_eq0(c->facts.loaded, d, false) == ENTAILED)
      return ENTAILED;
  }
  if (solves_hole_by_division(c, k->assumptions, d) || zero_size_of(c, a, b, d))
    return UNDECIDED;
  DimVar *v = find_solution(c, k, a, b, d, &value);
  if (v)
    return undecided_if_vanishing(c, a, b, bind_solution(c, k, v, value));
  assumption_load(c, k->assumptions);
  return undecided_if_vanishing(
      c, a, b,
      dim_check_eq0(c->facts.loaded, d, constraint_has_final_sizes(c, k)));
}

Verdict solve_size_le(Checker *c, Constraint *k) {
  Dim *d = dim_sub(c->dims, dim_resolve(c->dims, k->right),
                   dim_resolve(c->dims, k->left));
  guard_divisors(c, k, d);
  d = dim_simplify_ge(c->dims, d);
  if (dim_has_unknown(d))
    return UNDECIDED;
  if (dim_is_const(d))
    return dim_sign(d) >= 0 ? ENTAILED : CONTRADICTED;
  assumption_load_for(c, k->assumptions, d);
  return assumption_loaded_check_ge0(c, d, constraint_has_final_sizes(c, k));
}

Verdict solve_size_ne(Checker *c, Constraint *k) {
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (dim_is_const(d))
    return dim_sign(d) ? ENTAILED : CONTRADICTED;
  return UNDECIDED;
}
