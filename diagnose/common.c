/* Shared by all error messages: how they name places and types, and details
   that they add. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

Diag *error_find_at(Checker *c, Span span) {
  for (uint32_t i = c->diags->all.len; i-- > 0;) {
    Diag *d = c->diags->all.at[i];
    if (d->severity == SEV_ERROR && d->span.file == span.file &&
        d->span.start == span.start && d->span.end == span.end)
      return d;
  }
  return NULL;
}

/* ---- the path by which it came to this ---- */

static bool is_inside(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

/* The warning that x[0] calls x explains errors about the type of x. */
static const Diag *bracket_call_warning(Checker *c, const Origin *o) {
  for (uint32_t i = 0; i < c->inference.bracket_calls.len; i++) {
    const BracketCall *call = &c->inference.bracket_calls.at[i];
    Type *callee = ty_norm(c, call->callee);
    if ((o->actual && ty_norm(c, o->actual) == callee) ||
        (o->expected && ty_norm(c, o->expected) == callee))
      return call->warning;
  }
  return NULL;
}

/* The warnings that `f (x).[0]` indexes x, and that x[0] calls x, explain
   errors about this argument and about calls of a function that contains it.
   In a called function, x[0] makes its parameter x a function: the warning
   explains only an argument where a function is expected. */
static void explain_by_warning(Checker *c, Diag *d, const Origin *o) {
  const Binding *callee =
      o->kind == ORIGIN_ARG && o->arg.callee ? o->arg.callee->binding : NULL;
  const Clause *clause = callee ? binding_clause(callee) : NULL;
  const Diag *bracket_call = bracket_call_warning(c, o);
  bool expects_function = o->expected && ty_norm(c, o->expected)->tag == TY_FUN;
  for (uint32_t i = 0; !d->cause && i < c->diags->all.len; i++) {
    const Diag *w = c->diags->all.at[i];
    bool is_here = w->code == 410 && is_inside(o->span, w->span);
    bool is_in_callee = clause && is_inside(w->span, clause->body->span) &&
                        (w->code == 410 || expects_function);
    if ((w->code != 410 && w->code != 412) ||
        (!is_here && !is_in_callee && w != bracket_call))
      continue;
    if (is_here)
      d->note = w->message;
    else
      diag_add_label(c->arena, d, w->span, w->message);
    d->help = w->help;
    d->cause = w;
  }
}

/* Labels the related location. */
void error_add_labels(Checker *c, Diag *d, const Origin *o) {
  explain_by_warning(c, d, o);
  if (o->other_span.file && o->kind == ORIGIN_ANNOTATION)
    diag_add_label(c->arena, d, o->other_span, "the annotation");
  else if (o->other_span.file &&
           (o->kind == ORIGIN_BRANCH || o->kind == ORIGIN_ELEMENT))
    diag_add_label(c->arena, d, o->other_span,
                   o->other_span.start < o->span.start ? "the first one"
                                                       : "the other one");
}

void error_add_provenance(Checker *c, Diag *d, const Origin *o) {
  provenance_add(c, d, o);
  error_add_labels(c, d, o);
}

void error_set_mistake_in(Diag *d, const Origin *o, const TypeDiff *part,
                          const char *what) {
  const Expr *e = o->expr ? error_brought(o->expr) : NULL;
  if (e && e->kind == EX_ID && e->binding && !part->is_in_function) {
    d->mistake = e->binding->span;
    d->mistake_part = what;
  }
}

/* ---- names of things ---- */

static const char *op_symbol(const Origin *o) {
  return o->subject && strncmp(o->subject, "op ", 3) == 0 ? o->subject + 3
                                                          : o->subject;
}

const char *error_subject(Checker *c, const Origin *o) {
  switch (o->kind) {
  case ORIGIN_ARG:
    if (o->subject && strcmp(o->subject, "if") == 0)
      return "this condition";
    if (o->arg.label)
      return arena_printf(c->arena, "~%s of %s", o->arg.label->text,
                          o->subject ? o->subject : "this function");
    return o->number ? arena_printf(c->arena, "argument %u of %s", o->number,
                                    o->subject ? o->subject : "this function")
                     : arena_printf(c->arena, "%s",
                                    o->subject ? o->subject : "this function");
  case ORIGIN_OPERATOR:
    return o->number
               ? arena_printf(c->arena, "the %s side of %s",
                              o->number == 1 ? "left" : "right", op_symbol(o))
               : arena_printf(c->arena, "the operands of %s",
                              op_symbol(o) ? op_symbol(o) : "this");
  case ORIGIN_ANNOTATION:
    return "the annotated value";
  case ORIGIN_BRANCH:
    return "this branch";
  case ORIGIN_ELEMENT:
    return "this element";
  case ORIGIN_INDEX:
    return o->subject ? o->subject : "this index";
  case ORIGIN_RANGE:
    return "this range";
  case ORIGIN_PATTERN:
    return "this pattern";
  case ORIGIN_RESULT:
    return "the result";
  case ORIGIN_DEFAULT:
    return "a default";
  case ORIGIN_GIVEN:
    return "a given condition";
  case ORIGIN_FIELD:
    return "this field";
  case ORIGIN_NONE:
    break;
  }
  return "this";
}

const Expr *error_brought(const Expr *e) {
  while (e && e->kind == EX_ID && is_pipe_name(e->id) && e->binding &&
         binding_expr(e->binding))
    e = e->binding->value.expr;
  return e;
}

const char *error_expr_path(Checker *c, const Expr *e) {
  e = error_brought(e);
  if (e->kind == EX_ID)
    return e->id->text;
  const char *base = e->kind == EX_FIELD ? error_expr_path(c, e->arg[0]) : NULL;
  return base ? arena_printf(c->arena, "%s.%s", base, e->id->text) : NULL;
}

const char *error_source_text(Checker *c, Span span) {
  enum { MAX_QUOTED_BYTES = 40 };
  const Source *source = span.file ? sources_get(c->sources, span.file) : NULL;
  if (!source || source->is_library || span.end - span.start > MAX_QUOTED_BYTES)
    return NULL;
  const char *text = source->text + span.start;
  size_t len = span.end - span.start;
  return memchr(text, '\n', len) ? NULL : arena_strndup(c->arena, text, len);
}

/* ---- types ---- */

bool error_prints_alike(Checker *c, Type *a, Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return strcmp(x, y) == 0;
}

const char *error_two_types(Checker *c, const char *format, Type *a, Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return arena_printf(c->arena, format, x, y);
}

bool error_is_tensor(Type *t) {
  return ty_root(t)->tag == TY_TENSOR;
}

Shape *error_shape(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  return t && t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
}

void error_note_callee(Checker *c, Diag *d, const Origin *o) {
  enum { MAX_QUOTED_BYTES = 200 };
  const Binding *b =
      o->kind == ORIGIN_ARG && o->arg.callee ? o->arg.callee->binding : NULL;
  if (!b || !b->scheme || !b->scheme->is_polymorphic || !o->subject || d->note)
    return;
  const char *type = scheme_text(c, b->scheme);
  if (strlen(type) <= MAX_QUOTED_BYTES)
    d->note = arena_printf(c->arena, "%s : %s", o->subject, type);
}

void error_note_loop_state(Checker *c, Diag *d, const Origin *o) {
  PrimId loop = origin_loop_of_result(o);
  if (loop && !d->note && o->expected)
    d->note =
        arena_printf(c->arena, "the state of `%s` keeps its type and shape, %s",
                     prim_info[loop].name, ty_text(c, ty_norm(c, o->expected)));
}

void error_note_scheme(Checker *c, Diag *d, const Origin *o) {
  enum { MAX_QUOTED_BYTES = 600 }; /* a longer type hides the message */
  if (!o->scheme || !o->subject)
    return;
  const char *type = scheme_text(c, o->scheme);
  if (strlen(type) <= MAX_QUOTED_BYTES)
    d->note = arena_printf(c->arena, "%s : %s", o->subject, type);
}

/* ---- sizes for which it fails ---- */

static void add_counterexample(Checker *c, Diag *d, Constraint *k) {
  Dim *x = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (dim_is_const(x) || dim_has_unknown(x))
    return;
  Buffer text = {.arena = c->arena};
  dim_to_text(c, x); /* names its variables */
  assumption_load(c, k->assumptions);
  if (dim_counterexample(c->facts.loaded, x, k->kind == CN_DIM_EQ, &text))
    d->counterexample = arena_printf(c->arena, "fails at %s", text.text);
}

typedef struct SkolemPair {
  DimVar *at[2];
  uint32_t count;
} SkolemPair;

static void collect_skolem(void *arg, DimVar *v) {
  SkolemPair *r = arg;
  if (v->kind == DV_SKOLEM && v->name && r->count < 2 &&
      (!r->count || r->at[0] != v))
    r->at[r->count++] = v;
}

/* Labels a value of the same name: expressions refer to that value. */
static void label_shadowing_value(Checker *c, Diag *d, const DimVar *v) {
  for (const Scope *s = c->names.scope; s; s = s->outer)
    if (s->name == v->name && s->dim) {
      return;
    } else if (s->name == v->name && s->binding &&
               s->binding->kind == BK_VALUE) {
      diag_add_label(c->arena, d, s->binding->span,
                     arena_printf(c->arena, "this value hides the size %s",
                                  v->name->text));
      return;
    }
}

static void label_skolems(Checker *c, Diag *d, Constraint *k) {
  SkolemPair r = {.count = 0};
  dim_each_var(dim_resolve(c->dims, k->left), collect_skolem, NULL, &r);
  dim_each_var(dim_resolve(c->dims, k->right), collect_skolem, NULL, &r);
  for (uint32_t i = 0; i < r.count; i++) {
    diag_add_label(c->arena, d, r.at[i]->origin,
                   arena_printf(c->arena,
                                "%s is arbitrary: it must work for every size",
                                r.at[i]->name->text));
    label_shadowing_value(c, d, r.at[i]);
  }
}

/* ---- what met ---- */

/* Finds the only axis along which two shapes differ, as its position in each.
   Axes are aligned at the right. */
bool error_find_one_axis(const Shape *a, const Shape *b, uint32_t *i,
                         uint32_t *j) {
  uint32_t count = 0;
  if (!a || !b || !shape_has_known_rank(a) || !shape_has_known_rank(b))
    return false;
  for (uint32_t k = 1; k <= a->len && k <= b->len; k++) {
    const ShapeAxis *x = &a->axes[a->len - k], *y = &b->axes[b->len - k];
    if (x->tag != SHAPE_DIM || y->tag != SHAPE_DIM || dim_equal(x->dim, y->dim))
      continue;
    *i = a->len - k, *j = b->len - k;
    count++;
  }
  return count == 1;
}

static void set_found_expected(Checker *c, Diag *d, const Constraint *k) {
  Origin *o = k->origin;
  Shape *a = error_shape(c, o->actual), *b = error_shape(c, o->expected);
  uint32_t i, j;
  if (constraint_is_size(k) && !o->sizes[0]) { /* the first one is shown */
    o->sizes[0] = dim_resolve(c->dims, k->left);
    o->sizes[1] = dim_resolve(c->dims, k->right);
  }
  if (a && b) {
    d->found = ty_text(c, o->actual), d->expected = ty_text(c, o->expected);
    if (o->prim == PRIM_MATMUL && o->number)
      d->axis = a->len ? (int32_t)a->len - 1 : -1;
    else if (error_find_one_axis(a, b, &i, &j))
      d->axis = (int32_t)i;
  } else if (k->kind == CN_DIM_EQ) {
    dims_text(c, k->left, k->right, &d->found, &d->expected);
  }
}

/* Adds the details of a constraint to its message. */
void error_add_details(Checker *c, Diag *d, Constraint *k) {
  set_found_expected(c, d, k);
  error_add_provenance(c, d, k->origin);
  if (k->kind == CN_DIM_EQ)
    label_skolems(c, d, k);
  add_counterexample(c, d, k);
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (k->kind == CN_DIM_EQ && !d->note && forced_zero_size(c, x, y)) {
    const char *left, *right;
    dims_text(c, x, y, &left, &right);
    d->note =
        arena_printf(c->arena, "only sizes of 0 satisfy %s == %s", left, right);
  }
}

/* ---- messages with more than one cause ---- */

Diag *error_inner_sizes(Checker *c, Span span, const char *left,
                        const char *right) {
  return error_at(c, 301, span,
                  "inner dimensions of a matrix product differ: %s and %s",
                  left, right);
}

Diag *error_sizes_differ(Checker *c, const Origin *o, const char *found,
                         const char *expected) {
  return error_at(c, 302, o->span, "sizes differ in %s: %s and %s",
                  error_subject(c, o), found, expected);
}
