/* A constraint that is refuted: told where it stands, or of the call that does
 * not meet a condition of what it calls. */
#include "errors.h"

static bool is_arg(const Origin *call, Span span) {
  for (uint32_t i = 0; i < call->arg_count; i++) {
    Span arg = call->args[i].expr->span;
    if (span.file == arg.file && span.start >= arg.start && span.end <= arg.end)
      return true;
  }
  return false;
}

/* Of two arguments one has x where y is wanted, the other y where x is: what
 * both belong to is wrong, once. */
static bool told_of_sizes(Checker *c, const Constraint *k) {
  const Origin *o = k->origin;
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  for (uint32_t i = 0; o->kind == OR_ARG && i < c->told.len; i++) {
    const Origin *other = c->told.at[i];
    Dim *const *met = other->about;
    if (other != o && met[0] && met[1] && is_arg(o, other->span) &&
        dim_equal(met[0], y) && dim_equal(met[1], x))
      return true;
  }
  return false;
}

/* A condition of what is called, where an argument does not fit already; or it
 * would be a size below 0: the inequality that forbids that was refuted before.
 */
static bool follows(Checker *c, const Constraint *k) {
  int64_t n;
  const Origin *o = k->origin;
  if (c->diags->errors && o->scheme && o->args &&
      told_of(c, 0, o->span, o->args))
    return true;
  if (c->diags->errors && k->kind == CN_DIM_EQ && told_of_sizes(c, k))
    return true;
  return k->kind == CN_DIM_EQ && c->diags->errors &&
         ((dim_is_int(dim_resolve(c->dims, k->left), &n) && n < 0) ||
          (dim_is_int(dim_resolve(c->dims, k->right), &n) && n < 0));
}

static void report_one(Checker *c, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    size_error_eq(c, k);
    break;
  case CN_DIM_LE:
    size_error_le(c, k);
    break;
  case CN_DIM_NE:
    error_at(c, 302, k->origin->span, "sizes must differ: both are %s",
             dim_text_of(c, k->left));
    break;
  case CN_SHAPE_EQ:
  case CN_JOIN:
  case CN_KEEP:
    size_error_shapes(c, k->a, k->b, k->origin);
    break;
  }
}

/* ---- what a call does not meet ---- */

/* The place in the body, with the sizes of the call. */
static Origin *origin_in_call(Checker *c, Origin *call) {
  Origin *o = NEW(c->arena, Origin);
  const Origin *in = call;
  while (in->inner)
    in = in->inner;
  *o = *in;
  PutIn *as = o->as = put_in_of(c, call);
  o->got = put_in_type(c, as, in->got);
  o->want = put_in_type(c, as, in->want);
  o->fun = put_in_type(c, as, in->fun);
  o->from = put_in_dim(c, as, in->from);
  o->to = put_in_dim(c, as, in->to);
  o->axis = put_in_dim(c, as, in->axis);
  return o;
}

static const Diag *report_quietly(Checker *c, Constraint *k) {
  Diags told, *saved = c->diags;
  diags_init(&told, c->arena);
  c->diags = &told;
  report_one(c, k);
  c->diags = saved;
  return told.all.len ? told.all.at[0] : NULL;
}

/* The calls between, and the place in the body. */
static void mark_calls(Checker *c, Diag *d, const Origin *call,
                       const char *label) {
  for (const Origin *in = call->inner; in; in = in->inner)
    diag_mark(c->arena, d, in->span,
              !in->inner ? label
              : in->what ? arena_printf(c->arena, "calls %s", in->what)
                         : "calls");
}

/* The body is right for others: the call is at fault, and is shown why.  A
 * condition says itself what is wanted. */
static void report_in_call(Checker *c, const Constraint *k) {
  Origin *call = k->origin, *inner = origin_in_call(c, call);
  Origin *itself = NEW(c->arena, Origin);
  *itself = *call;
  itself->inner = NULL;
  bool stated = k->kind == CN_DIM_LE || inner->kind == OR_GIVEN;
  Constraint in = *k;
  in.origin = stated ? itself : inner;
  const Diag *body = report_quietly(c, &in);
  if (!body)
    return;
  Diag *d = error_at(c, body->code, call->span, "%s", body->message);
  d->label = stated      ? body->label
             : call->what ? arena_printf(c->arena, "in this call of %s",
                                         call->what)
                          : "in this call";
  d->axis = body->axis;
  chain_calls(c, d, call, in.origin);
  for (uint32_t i = 0; i < body->step_count; i++)
    diag_step(c->arena, d, body->steps[i].span, body->steps[i].shape,
              body->steps[i].text);
  d->marks = body->marks, d->mark_count = body->mark_count;
  d->found = body->found, d->expected = body->expected;
  d->witness = body->witness;
  mark_calls(c, d, call,
             stated ? "this needs it" : body->label ? body->label : "here");
  error_note_scheme(c, d, call);
  if (inner->self)
    d->help = body->help; /* the body can be written better */
}

/* ---- any of them ---- */

/* One variable has one name in all that is said of it. */
static void claim_names(Checker *c, const Constraint *k) {
  const Origin *o = k->origin;
  if (o->got)
    names_claim(c, o->got);
  if (o->want)
    names_claim(c, o->want);
  if (k->left)
    names_claim_dim(c, k->left);
  if (k->right)
    names_claim_dim(c, k->right);
}

void report_dims(Checker *c, Constraint *k) {
  if (follows(c, k))
    return;
  VEC_PUSH(c->arena, c->told, k->origin);
  Names *names = names_share(c);
  claim_names(c, k);
  if (k->origin->inner)
    report_in_call(c, k);
  else
    report_one(c, k);
  multiple_help(c, k);
  c->names = names;
}

void report_shapes(Checker *c, Shape *a, Shape *b, Origin *o) {
  Constraint k = {.kind = CN_SHAPE_EQ, .origin = o, .a = a, .b = b};
  report_dims(c, &k);
}
