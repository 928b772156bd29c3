/* What all errors share: how places and types are called in them, and what they
 * show besides. */
#include "errors.h"

#include <string.h>

static Diag *add(Checker *c, bool error, uint16_t code, Span span,
                 const char *format, va_list args) {
  const char *text = arena_vprintf(c->arena, format, args);
  return error ? diag_error(c->diags, code, span, "%s", text)
               : diag_warning(c->diags, code, span, "%s", text);
}

Diag *error_at(Checker *c, uint16_t code, Span span, const char *format,
               ...) {
  va_list args;
  va_start(args, format);
  Diag *d = add(c, true, code, span, format, args);
  va_end(args);
  return d;
}

Diag *warning_at(Checker *c, uint16_t code, Span span, const char *format,
                 ...) {
  va_list args;
  va_start(args, format);
  Diag *d = add(c, false, code, span, format, args);
  va_end(args);
  return d;
}

Diag *error_told_at(Checker *c, Span span) {
  for (uint32_t i = c->diags->all.len; i-- > 0;) {
    Diag *d = c->diags->all.at[i];
    if (d->severity == SEV_ERROR && d->span.file == span.file &&
        d->span.start == span.start && d->span.end == span.end)
      return d;
  }
  return NULL;
}

/* ---- the path by which it came to this ---- */

/* The other place that has to do with it. */
void error_marks(Checker *c, Diag *d, const Origin *o) {
  if (o->other.file && o->kind == OR_ANNOTATION)
    diag_mark(c->arena, d, o->other, "the annotation");
  else if (o->other.file && (o->kind == OR_BRANCH || o->kind == OR_ELEMENT))
    diag_mark(c->arena, d, o->other, "the first one");
}

void error_path(Checker *c, Diag *d, const Origin *o) {
  chain_add(c, d, o);
  error_marks(c, d, o);
}

/* ---- names of things ---- */

static const char *op_symbol(const Origin *o) {
  return o->what && strncmp(o->what, "op ", 3) == 0 ? o->what + 3 : o->what;
}

const char *error_place(Checker *c, const Origin *o) {
  switch (o->kind) {
  case OR_ARG:
    if (o->what && strcmp(o->what, "if") == 0)
      return "this condition";
    if (o->label)
      return arena_printf(c->arena, "~%s of %s", o->label->text,
                          o->what ? o->what : "this function");
    return o->number
               ? arena_printf(c->arena, "argument %u of %s", o->number,
                              o->what ? o->what : "this function")
               : arena_printf(c->arena, "%s",
                              o->what ? o->what : "this function");
  case OR_OPERATOR:
    return o->number ? arena_printf(c->arena, "the %s side of %s",
                                    o->number == 1 ? "left" : "right",
                                    op_symbol(o))
                     : arena_printf(c->arena, "the operands of %s",
                                    op_symbol(o) ? op_symbol(o) : "this");
  case OR_ANNOTATION: return "the annotated value";
  case OR_BRANCH: return "this branch";
  case OR_ELEMENT: return "this element";
  case OR_INDEX: return "this index";
  case OR_RANGE: return "this range";
  case OR_PATTERN: return "this pattern";
  case OR_RESULT: return "the result";
  case OR_DEFAULT: return "a default";
  case OR_GIVEN: return "a given condition";
  case OR_FIELD: return "this field";
  case OR_NONE: break;
  }
  return "this";
}

const Expr *error_brought(const Expr *e) {
  while (e && e->kind == EX_ID && is_pipe_name(e->id) && e->means &&
         e->means->value)
    e = e->means->value;
  return e;
}

const char *error_path_text(Checker *c, const Expr *e) {
  e = error_brought(e);
  if (e->kind == EX_ID)
    return e->id->text;
  const char *base = e->kind == EX_FIELD ? error_path_text(c, e->arg[0]) : NULL;
  return base ? arena_printf(c->arena, "%s.%s", base, e->id->text) : NULL;
}

const char *error_written(Checker *c, Span span) {
  enum { LONG = 40 };
  const Source *source =
      span.file ? sources_get(c->sources, span.file) : NULL;
  if (!source || source->library || span.end - span.start > LONG)
    return NULL;
  const char *text = source->text + span.start;
  size_t len = span.end - span.start;
  return memchr(text, '\n', len) ? NULL : arena_text(c->arena, text, len);
}

/* ---- types ---- */

bool error_prints_alike(Checker *c, Type *a, Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return strcmp(x, y) == 0;
}

const char *error_two_types(Checker *c, const char *format, Type *a,
                            Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return arena_printf(c->arena, format, x, y);
}

bool error_is_tensor(Type *t) { return ty_root(t)->tag == TY_TENSOR; }

Shape *error_shape(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  return t && t->tag == TY_TENSOR ? shape_norm(c, t->shape) : NULL;
}

void error_note_callee(Checker *c, Diag *d, const Origin *o) {
  enum { LONG = 200 };
  const Binding *b = o->kind == OR_ARG && o->head ? o->head->means : NULL;
  if (!b || !b->scheme || !b->scheme->poly || !o->what || d->note)
    return;
  const char *type = scheme_text(c, b->scheme);
  if (strlen(type) <= LONG)
    d->note = arena_printf(c->arena, "%s : %s", o->what, type);
}

void error_note_scheme(Checker *c, Diag *d, const Origin *o) {
  if (o->scheme && o->what)
    d->note = arena_printf(c->arena, "%s : %s", o->what,
                           scheme_text(c, o->scheme));
}

/* ---- sizes for which it fails ---- */

static void add_witness(Checker *c, Diag *d, Constraint *k) {
  Dim *x = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  if (dim_is_const(x) || dim_has_top(x))
    return;
  Buffer text = {.arena = c->arena};
  facts_load(c, k->facts);
  if (dim_witness(c->solver, x, k->kind == CN_DIM_EQ, &text))
    d->witness = arena_printf(c->arena, "fails at %s", text.text);
}

typedef struct Rigids {
  DimVar *at[2];
  uint32_t count;
} Rigids;

static void find_rigid(void *arg, DimVar *v) {
  Rigids *r = arg;
  if (v->kind == DV_RIGID && v->name && r->count < 2 &&
      (!r->count || r->at[0] != v))
    r->at[r->count++] = v;
}

/* A value of the same name, which is the one that is meant in expressions. */
static void mark_hiding(Checker *c, Diag *d, const DimVar *v) {
  for (const Scope *s = c->scope; s; s = s->outer)
    if (s->name == v->name && s->dim) {
      return;
    } else if (s->name == v->name && s->binding &&
               s->binding->kind == BK_VALUE) {
      diag_mark(c->arena, d, s->binding->span,
                arena_printf(c->arena, "a value, which hides the size %s",
                             v->name->text));
      return;
    }
}

static void note_rigid(Checker *c, Diag *d, Constraint *k) {
  Rigids r = {.count = 0};
  dim_each_var(dim_resolve(c->dims, k->left), find_rigid, NULL, &r);
  dim_each_var(dim_resolve(c->dims, k->right), find_rigid, NULL, &r);
  for (uint32_t i = 0; i < r.count; i++) {
    diag_mark(c->arena, d, r.at[i]->origin,
              arena_printf(c->arena, "%s stands for every size",
                          r.at[i]->name->text));
    mark_hiding(c, d, r.at[i]);
  }
}

/* ---- what met ---- */

/* The only axis along which two shapes differ, of each of them; the sizes are
 * aligned at the right. */
bool error_one_axis(const Shape *a, const Shape *b, uint32_t *i,
                    uint32_t *j) {
  uint32_t count = 0;
  if (!a || !b || !shape_known_rank(a) || !shape_known_rank(b))
    return false;
  for (uint32_t k = 1; k <= a->len && k <= b->len; k++) {
    const ShapeIt *x = &a->at[a->len - k], *y = &b->at[b->len - k];
    if (x->tag != IT_DIM || y->tag != IT_DIM || dim_equal(x->dim, y->dim))
      continue;
    *i = a->len - k, *j = b->len - k;
    count++;
  }
  return count == 1;
}

static void set_met(Checker *c, Diag *d, const Constraint *k) {
  Origin *o = k->origin;
  Shape *a = error_shape(c, o->got), *b = error_shape(c, o->want);
  uint32_t i, j;
  if (k->left) {
    o->about[0] = dim_resolve(c->dims, k->left);
    o->about[1] = dim_resolve(c->dims, k->right);
  }
  if (a && b) {
    d->found = ty_text(c, o->got), d->expected = ty_text(c, o->want);
    if (o->prim == PRIM_MATMUL && o->number)
      d->axis = a->len ? (int32_t)a->len - 1 : -1;
    else if (error_one_axis(a, b, &i, &j))
      d->axis = (int32_t)i;
  } else if (k->kind == CN_DIM_EQ) {
    dims_text(c, k->left, k->right, &d->found, &d->expected);
  }
}

/* What a message about a constraint shows besides. */
void error_explain(Checker *c, Diag *d, Constraint *k) {
  set_met(c, d, k);
  error_path(c, d, k->origin);
  if (k->kind == CN_DIM_EQ)
    note_rigid(c, d, k);
  add_witness(c, d, k);
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (k->kind == CN_DIM_EQ && !d->note && only_zero(c, x, y)) {
    const char *left, *right;
    dims_text(c, x, y, &left, &right);
    d->note = arena_printf(c->arena, "only sizes of 0 satisfy %s == %s", left,
                           right);
  }
}
