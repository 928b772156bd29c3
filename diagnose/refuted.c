/* Reports a contradicted constraint: at its own place, or at the call that
   violates a constraint of the callee.  Main entry point:
   diagnose_constraint. */
#include "diagnose/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"

static bool is_within_arg(const Origin *call, Span span) {
  for (uint32_t i = 0; i < call->arg.arg_count; i++) {
    Span arg = call->arg.args[i].expr->span;
    if (span.file == arg.file && span.start >= arg.start && span.end <= arg.end)
      return true;
  }
  return false;
}

/* Two arguments have each other's expected sizes.  Reports their common cause
   once. */
static bool sizes_reported_swapped(Checker *c, const Constraint *k) {
  const Origin *o = k->origin;
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  for (uint32_t i = 0; o->kind == ORIGIN_ARG && i < c->solver.contradicted.len;
       i++) {
    const Origin *other = c->solver.contradicted.at[i];
    Dim *const *met = other->sizes;
    if (other != o && met[0] && met[1] && is_within_arg(o, other->span) &&
        dim_equal(met[0], y) && dim_equal(met[1], x))
      return true;
  }
  return false;
}

/* Another argument of the same call was reported with the same two sizes, and
   the parameters have no sizes of their own. */
static bool sizes_reported_in_call(Checker *c, const Constraint *k) {
  const Origin *o = k->origin;
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (o->kind != ORIGIN_ARG || error_parameter_has_number(c, o, x) ||
      error_parameter_has_number(c, o, y))
    return false;
  for (uint32_t i = 0; i < c->solver.contradicted.len; i++) {
    const Origin *other = c->solver.contradicted.at[i];
    Dim *const *met = other->sizes;
    if (other != o && other->kind == ORIGIN_ARG && o->arg.args &&
        other->arg.args == o->arg.args && met[0] && met[1] &&
        ((dim_equal(met[0], x) && dim_equal(met[1], y)) ||
         (dim_equal(met[0], y) && dim_equal(met[1], x))))
      return true;
  }
  return false;
}

/* A condition of a function that is an argument, after another argument of that
   call was reported. */
static bool is_condition_of_wrong_call(Checker *c, const Origin *o) {
  for (uint32_t i = 0; o->body_origin && i < c->solver.contradicted.len; i++) {
    const Origin *other = c->solver.contradicted.at[i];
    for (uint32_t j = 0; j < origin_arg_count(other); j++) {
      Span arg = other->arg.args[j].expr->span;
      if (other != o && arg.file == o->span.file &&
          arg.start == o->span.start && arg.end == o->span.end)
        return true;
    }
  }
  return false;
}

/* True if another error explains this one: an argument of the call already does
   not fit, or a size would be negative, and the inequality that forbids it was
   reported before. */
static bool is_consequence_of_reported(Checker *c, const Constraint *k) {
  int64_t n;
  const Origin *o = k->origin;
  if (c->diags->errors && o->scheme && o->kind == ORIGIN_ARG && o->arg.args &&
      error_reported_at(c, 0, o->span, o->arg.args))
    return true;
  if (c->diags->errors && k->kind == CN_DIM_EQ &&
      (sizes_reported_swapped(c, k) || sizes_reported_in_call(c, k)))
    return true;
  if (c->diags->errors && is_condition_of_wrong_call(c, o))
    return true;
  return k->kind == CN_DIM_EQ && c->diags->errors &&
         ((dim_is_int(dim_resolve(c->dims, k->left), &n) && n < 0) ||
          (dim_is_int(dim_resolve(c->dims, k->right), &n) && n < 0));
}

static void report_by_kind(Checker *c, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    size_error_eq(c, k);
    break;
  case CN_DIM_LE:
    size_error_le(c, k);
    break;
  case CN_DIM_NE:
    error_at(c, 302, k->origin->span, "sizes must differ: both are %s",
             dim_to_text(c, k->left));
    break;
  case CN_SHAPE_EQ:
  case CN_BROADCAST:
  case CN_KEEP:
    size_error_shapes(c, k->a, k->b, k->origin);
    break;
  }
}

/* ---- what a call does not meet ---- */

/* ---- which operator of an expression fails ---- */

typedef struct OperatorSearch {
  Checker *c;
  const CallSubstitution *at_call;
  const Expr *failed; /* the first operator whose operands do not broadcast */
  Shape *left, *right;
} OperatorSearch;

static bool is_arithmetic(const Expr *e) {
  return e->kind == EX_BIN && e->op >= BIN_ADD && e->op <= BIN_MOD;
}

/* The broadcast of two shapes of known rank; NULL if it fails. */
static Shape *join_of(Checker *c, const Shape *a, const Shape *b) {
  const Shape *longer = a->len >= b->len ? a : b;
  const Shape *shorter = longer == a ? b : a;
  Shape *s = shape_new(c, longer->len);
  for (uint32_t i = 1; i <= longer->len; i++) {
    ShapeAxis x = longer->axes[longer->len - i];
    const ShapeAxis *y =
        i <= shorter->len ? &shorter->axes[shorter->len - i] : NULL;
    if (y && y->tag == SHAPE_DIM) {
      if (x.tag == SHAPE_DIM && !dim_equal(x.dim, y->dim))
        return NULL;
      x = *y;
    }
    s->axes[longer->len - i] = x;
  }
  return s;
}

/* The shape of e at the call, if its rank is known or follows from that of
   operands; NULL otherwise. */
static Shape *search_operators(OperatorSearch *x, const Expr *e) {
  Checker *c = x->c;
  while (e && e->kind == EX_ID && e->binding && binding_expr(e->binding))
    e = e->binding->value.expr;
  if (!e || !e->inferred_type || x->failed)
    return NULL;
  Shape *s =
      error_shape(c, call_substitute_type(c, x->at_call, e->inferred_type));
  if (!s || shape_has_known_rank(s) || !is_arithmetic(e))
    return s && shape_has_known_rank(s) ? s : NULL;
  Shape *a = search_operators(x, e->arg[0]);
  Shape *b = search_operators(x, e->arg[1]);
  if (!a || !b || x->failed)
    return NULL;
  s = join_of(c, a, b);
  if (!s)
    x->failed = e, x->left = a, x->right = b;
  return s;
}

/* The tensor type t with another shape. */
static Type *tensor_of_shape(Checker *c, Type *t, Shape *s) {
  Type *r = NEW(c->arena, Type);
  *r = *ty_norm(c, t);
  r->tensor.shape = s;
  r->tensor.singleton = NULL;
  return r;
}

/* A broadcast of several operators has the place of the last one: finds the
   one that fails. */
static void narrow_to_operator(Checker *c, Origin *o) {
  OperatorSearch x = {.c = c, .at_call = o->call_substitution};
  if (o->kind != ORIGIN_OPERATOR || o->number || !o->actual || !o->expected ||
      o->prim == PRIM_MATMUL || ty_norm(c, o->actual)->tag != TY_TENSOR)
    return;
  if (origin_left(o))
    search_operators(&x, origin_left(o));
  if (origin_right(o))
    search_operators(&x, origin_right(o));
  if (!x.failed)
    return;
  o->span = x.failed->op_span.file ? x.failed->op_span : x.failed->span;
  o->other_span = x.failed->span;
  o->operands.left = x.failed->arg[0];
  o->operands.right = x.failed->arg[1];
  o->expected = tensor_of_shape(c, o->actual, x.right);
  o->actual = tensor_of_shape(c, o->actual, x.left);
}

/* The place in the body, with the sizes of the call. */
static Origin *origin_in_call(Checker *c, Origin *call) {
  Origin *o = NEW(c->arena, Origin);
  const Origin *in = call;
  while (in->body_origin)
    in = in->body_origin;
  *o = *in;
  CallSubstitution *as = o->call_substitution = call_substitution_of(c, call);
  o->actual = call_substitute_type(c, as, in->actual);
  o->expected = call_substitute_type(c, as, in->expected);
  narrow_to_operator(c, o);
  if (o->kind == ORIGIN_ARG)
    o->arg.fun_type = call_substitute_type(c, as, in->arg.fun_type);
  if (o->kind == ORIGIN_INDEX) {
    o->index.from = call_substitute_dim(c, as, in->index.from);
    o->index.to = call_substitute_dim(c, as, in->index.to);
    o->index.axis = call_substitute_dim(c, as, in->index.axis);
  }
  return o;
}

static const Diag *report_to_scratch(Checker *c, Constraint *k) {
  Diags scratch_diags, *saved = c->diags;
  diags_init(&scratch_diags, c->arena);
  c->diags = &scratch_diags;
  report_by_kind(c, k);
  c->diags = saved;
  return scratch_diags.all.len ? scratch_diags.all.at[0] : NULL;
}

/* Labels the calls in between, and the place in the body. */
static void label_calls(Checker *c, Diag *d, const Origin *call, Span place,
                        const char *label) {
  for (const Origin *in = call->body_origin; in; in = in->body_origin)
    diag_add_label(c->arena, d, in->body_origin ? in->span : place,
                   !in->body_origin ? label
                   : in->subject
                       ? arena_printf(c->arena, "calls %s", in->subject)
                       : "calls");
}

/* The body is correct for other calls, so the call is at fault; its label
   explains why.  A condition states the requirement itself. */
static void report_in_call(Checker *c, const Constraint *k) {
  Origin *call = k->origin, *inner = origin_in_call(c, call);
  Origin *direct = NEW(c->arena, Origin);
  *direct = *call;
  direct->body_origin = NULL;
  bool stated = k->kind == CN_DIM_LE || inner->kind == ORIGIN_GIVEN;
  Constraint in = *k;
  in.origin = stated ? direct : inner;
  const Diag *body = report_to_scratch(c, &in);
  if (!body)
    return;
  Diag *d = error_at(c, body->code, call->span, "%s", body->message);
  d->primary_label =
      stated ? body->primary_label
      : call->subject
          ? arena_printf(c->arena, "in this call of %s", call->subject)
          : "in this call";
  d->axis = body->axis;
  provenance_add_calls(c, d, call, in.origin);
  for (uint32_t i = 0; i < body->step_count; i++)
    diag_add_step(c->arena, d, body->steps[i].span, body->steps[i].shape,
                  body->steps[i].text);
  d->labels = body->labels, d->label_count = body->label_count;
  d->found = body->found, d->expected = body->expected;
  d->counterexample = body->counterexample;
  label_calls(c, d, call, inner->span,
              stated                ? "this call requires it"
              : body->primary_label ? body->primary_label
                                    : "here");
  error_note_scheme(c, d, call);
  if (origin_recursive_callee(inner) || error_source_text(c, inner->span))
    d->help = body->help; /* the body can be improved */
}

/* ---- any of them ---- */

/* Gives each variable one name in the whole message. */
static void reserve_names(Checker *c, const Constraint *k) {
  const Origin *o = k->origin;
  if (o->actual)
    var_names_reserve(c, o->actual);
  if (o->expected)
    var_names_reserve(c, o->expected);
  if (constraint_is_size(k)) {
    var_names_reserve_dim(c, k->left);
    var_names_reserve_dim(c, k->right);
  }
}

void diagnose_constraint(Checker *c, Constraint *k) {
  if (is_consequence_of_reported(c, k))
    return;
  VEC_PUSH(c->arena, c->solver.contradicted, k->origin);
  VarNames *names = var_names_share(c);
  reserve_names(c, k);
  if (k->origin->body_origin)
    report_in_call(c, k);
  else
    report_by_kind(c, k);
  hint_divisibility(c, k);
  c->notes.message_names = names;
}
