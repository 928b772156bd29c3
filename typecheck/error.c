/* What a person reads when sizes or types do not fit. */
#include "typecheck/internal.h"

#include <math.h>
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

/* ---- the path by which it came to this ---- */

/* The other place that has to do with it. */
static void add_marks(Checker *c, Diag *d, const Origin *o) {
  if (o->other.file && o->kind == OR_ANNOTATION)
    diag_mark(c->arena, d, o->other, "the annotation");
  else if (o->other.file && (o->kind == OR_BRANCH || o->kind == OR_ELEMENT))
    diag_mark(c->arena, d, o->other, "the first one");
}

static void add_path(Checker *c, Diag *d, const Origin *o) {
  chain_add(c, d, o);
  add_marks(c, d, o);
}

/* ---- names of things ---- */

static const char *op_symbol(const Origin *o) {
  return o->what && strncmp(o->what, "op ", 3) == 0 ? o->what + 3 : o->what;
}

static const char *place(Checker *c, const Origin *o) {
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

/* ---- types ---- */

static bool prints_alike(Checker *c, Type *a, Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return strcmp(x, y) == 0;
}

/* "this is f32[2], wanted is f32[3]", and others of two types: the first gets
 * its names first, whatever the compiler does first. */
static const char *two_types(Checker *c, const char *format, Type *a,
                             Type *b) {
  const char *x = ty_text(c, a), *y = ty_text(c, b);
  return arena_printf(c->arena, format, x, y);
}

static bool is_tensor(Type *t) { return ty_root(t)->tag == TY_TENSOR; }

static const char *elem_text(ElemVar *e) {
  e = elem_root(e);
  if (e->dtype != DT_NONE)
    return dtype_info[e->dtype].name;
  return !(e->classes & ~(uint32_t)CLASS_INT)     ? "an integer type"
         : !(e->classes & ~(uint32_t)CLASS_FLOAT) ? "a float type"
         : !(e->classes & ~(uint32_t)CLASS_NUM)   ? "a numeric type"
         : e->name                                ? e->name->text
                                                  : "any element type";
}

static void elem_error(Checker *c, Type *got, Type *want, Origin *o) {
  ElemVar *g = elem_root(got->elem), *w = elem_root(want->elem);
  Diag *d = error_at(c, 308, o->span, "%s is %s where %s is wanted",
                     place(c, o), elem_text(g), elem_text(w));
  d->label = ty_text(c, got);
  if (w->dtype != DT_NONE && w->dtype != DT_BOOL && g->dtype != DT_BOOL)
    d->help = arena_printf(c->arena, "nothing converts by itself: write %s x "
                                     "to convert",
                           dtype_info[w->dtype].name);
  else if (w->classes == CLASS_FLOAT)
    d->help = "nothing converts by itself: write float x to convert";
  add_marks(c, d, o);
}

/* The literal axis of the call. */
static Expr *axis_of_call(const Origin *o) {
  for (uint32_t i = 0; i < o->arg_count; i++) {
    Arg *a = &o->args[i];
    bool axis = a->label ? strcmp(a->label->text, "axis") == 0
                         : i == 0 && o->prim == PRIM_DIM;
    if (axis && a->expr->kind == EX_NUM)
      return a->expr;
  }
  return NULL;
}

static const char *axes_text(Checker *c, uint32_t n) {
  return n == 0 ? "no axes"
                : arena_printf(c->arena, "%u %s", n, n == 1 ? "axis" : "axes");
}

/* "3 axes where 4 are wanted" */
static const char *ranks_text(Checker *c, const Shape *have,
                              const Shape *want) {
  uint32_t least = shape_least_rank(want), n = shape_least_rank(have);
  if (!shape_known_rank(have) || (!shape_known_rank(want) && least <= n))
    return "the wrong number of axes";
  if (least == 0)
    return arena_printf(c->arena, "%s where none is wanted", axes_text(c, n));
  return arena_printf(c->arena, "%s where %u%s %s wanted", axes_text(c, n),
                      least, shape_known_rank(want) ? "" : " or more",
                      least == 1 ? "is" : "are");
}

static bool is_unit(const ShapeIt *it) {
  int64_t n;
  return it->tag == IT_DIM && dim_is_int(it->dim, &n) && n == 1;
}

static bool is_free(Dim *d) {
  DimVar *v = dim_as_var(d);
  return v && v->kind == DV_META;
}

/* Are the axes of a from `at` on those of b, as far as they are known, and some
 * are? */
static bool agree(const Shape *a, uint32_t at, const Shape *b) {
  bool some = false;
  for (uint32_t i = 0; i < b->len; i++) {
    const ShapeIt *x = &a->at[at + i], *y = &b->at[i];
    if (x->tag != IT_DIM || y->tag != IT_DIM)
      return false;
    if (is_free(x->dim) || is_free(y->dim))
      continue;
    if (!dim_equal(x->dim, y->dim))
      return false;
    some = true;
  }
  return some;
}

static const char *rank_help(const Shape *have, const Shape *want) {
  if (!shape_known_rank(have) || !shape_known_rank(want))
    return NULL;
  if (want->len == have->len + 1 && agree(want, 1, have))
    return "a leading axis, as of a batch of one, is made by x.[new, ...]";
  if (want->len == have->len + 1 && is_unit(&want->at[have->len]) &&
      agree(want, 0, have))
    return "a last axis of 1 is made by x.[..., new]";
  if (have->len == want->len + 1 && is_unit(&have->at[want->len]) &&
      agree(have, 0, want))
    return "its last axis just is 1: take it off, x.[..., 0]";
  return NULL;
}

static void rank_error(Checker *c, Type *got, Type *want, Origin *o) {
  Shape *have = shape_norm(c, got->shape);
  Expr *axis = axis_of_call(o);
  if (axis && shape_known_rank(have)) {
    error_at(c, 316, axis->span, "there is no axis %s: %s has %s", axis->num,
             ty_text(c, got), axes_text(c, have->len))
        ->help = "axes are counted from 0, or from the end with -1, -2, ...";
    return;
  }
  Diag *d = error_at(c, 304, o->span, "%s has %s", place(c, o),
                     ranks_text(c, have, shape_norm(c, want->shape)));
  if (o->prim == PRIM_MATMUL) {
    d->label = arena_printf(c->arena, "this is %s", ty_text(c, got));
    d->help = "a matrix product wants rank 2 or more on both sides: dot m v "
              "takes a vector";
  } else {
    d->label = two_types(c, "this is %s, wanted is %s", got, want);
    d->help = rank_help(have, shape_norm(c, want->shape));
  }
  add_path(c, d, o);
}

static bool effect_clash(Type *got, Type *want) {
  for (; got->tag == TY_FUN && want->tag == TY_FUN;
       got = ty_root(got->arg[1]), want = ty_root(want->arg[1]))
    if (effect_root(got->effect)->tag == EF_EFFECT &&
        effect_root(want->effect)->tag == EF_PURE)
      return true;
  return false;
}

static bool is_list(Checker *c, Type *t) {
  return t->tag == TY_DATA && t->data == c->data_list;
}

/* Two datatypes of one name in types that print alike: the second was declared
 * when the first was in use already. */
static Data *namesake(Checker *c, Type *a, Type *b) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag != b->tag)
    return NULL;
  if (a->tag == TY_DATA && a->data != b->data)
    return a->data->name == b->data->name ? a->data : NULL;
  Data *found = NULL;
  for (uint32_t i = 0; i < a->count && i < b->count && !found; i++)
    found = namesake(c, a->args[i], b->args[i]);
  for (int i = 0; a->tag == TY_FUN && i < 2 && !found; i++)
    found = namesake(c, a->arg[i], b->arg[i]);
  return found;
}

/* "argument 1 of f", or a field of it. */
static const char *part_of(Checker *c, const Clash *part, const Origin *o) {
  return *part->path ? arena_printf(c->arena, "%s of %s", part->path,
                                    place(c, o))
                     : place(c, o);
}

/* "w, b" */
static const char *fields_text(Checker *c, const Type *record) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < record->count; i++)
    buffer_printf(&text, "%s%s", i ? ", " : "", record->labels[i]->text);
  if (record->arg[0] || !record->count)
    buffer_printf(&text, record->count ? ", ..." : "none");
  return text.text;
}

static Diag *clash_error(Checker *c, Type *got, Type *want, Origin *o) {
  Clash part;
  if (!type_clash(c, got, want, &part))
    part = (Clash){.path = "", .got = got, .want = want};
  const char *what = part_of(c, &part, o);
  if (!part.field)
    return error_at(c, 305, o->span, "%s is %s", what,
                    two_types(c, "%s where %s is wanted", part.got,
                              part.want));
  Diag *d = error_at(c, 305, o->span,
                     part.extra ? "%s has a field `%s`, which is not wanted"
                                : "%s lacks the field `%s`",
                     what, part.field->text);
  d->label = arena_printf(c->arena, "the fields are %s; wanted are %s",
                          fields_text(c, part.got), fields_text(c, part.want));
  return d;
}

void mismatch(Checker *c, Type *got, Type *want, Origin *o) {
  VEC_PUSH(c->arena, c->told, o);
  got = ty_norm(c, got), want = ty_norm(c, want);
  if (is_tensor(got) && is_tensor(want)) {
    if (elems_clash(got->elem, want->elem))
      elem_error(c, got, want, o);
    else
      rank_error(c, got, want, o);
    return;
  }
  const char *g = ty_text(c, got), *w = ty_text(c, want);
  Diag *d;
  if (got->tag == TY_FUN && want->tag == TY_FUN && effect_clash(got, want)) {
    d = error_at(c, 320, o->span,
                 "%s has effects where a pure function is wanted",
                 place(c, o));
    d->label = g;
    d->help = o->prim != PRIM_NONE
                  ? "map, for, reduce, fold and scan run their function in any "
                    "order: use iterate, lists.map or a recursive function"
                  : "an arrow `->` is of a pure function; with effects it is "
                    "`->!`";
    return;
  }
  if (want->tag == TY_LIFT && got->tag == TY_TENSOR) {
    d = error_at(c, 304, o->span, "%s has no leading axis to run over",
                 place(c, o));
    d->label = g;
    add_path(c, d, o);
    return;
  }
  Data *two = strcmp(g, w) == 0 ? namesake(c, got, want) : NULL;
  if (two) {
    d = error_at(c, 305, o->span, "%s is %s, where another datatype %s is "
                                  "wanted",
                 place(c, o), g, two->name->text);
    d->note = arena_printf(c->arena, "there are two datatypes %s: what was "
                                     "made of the earlier one stays of it",
                           two->name->text);
  } else if (strcmp(g, w) == 0)
    d = error_at(c, 305, o->span, "%s does not fit: a type would contain "
                                  "itself, or a size would leave its scope",
                 place(c, o));
  else
    d = clash_error(c, got, want, o);
  if (got->tag == TY_FUN && want->tag != TY_FUN)
    d->help = "an argument may be missing";
  else if (o->prim == PRIM_ADD && got->tag == TY_DATA &&
           got->data == c->data_string)
    d->help = "strings are joined by `^`";
  else if (o->prim == PRIM_APPEND && is_tensor(got))
    d->help = "`^` joins strings; a power is `pow x y`";
  else if (is_list(c, want) && o->expr && o->expr->kind == EX_BRACKET)
    d->help = "a list is written `list [x, y]`: brackets alone make a tensor";
  else if (is_list(c, got) && o->expr && o->expr->kind == EX_LIST)
    d->help = "a tensor is written without `list`: `[x, y]`";
  if (o->kind == OR_FIELD && o->what && got->tag == TY_RECORD)
    d->note = arena_printf(c->arena, "there is no field `%s` in %s", o->what,
                           g);
  add_marks(c, d, o);
}

/* ---- shapes ---- */

static void shapes_error(Checker *c, const Shape *a, const Shape *b,
                         Origin *o) {
  Diag *d;
  VEC_PUSH(c->arena, c->told, o);
  if (o->kind == OR_OPERATOR && o->got && o->want)
    d = error_at(c, 303, o->span, "%s do not broadcast",
                 two_types(c, "%s and %s", o->got, o->want));
  else {
    const char *got = shape_text(c, a), *want = shape_text(c, b);
    d = error_at(c, 304, o->span, "%s has shape %s where %s is wanted",
                 place(c, o), got, want);
  }
  add_path(c, d, o);
}

/* ---- sizes ---- */

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

static void note_rigid(Checker *c, Diag *d, Constraint *k) {
  Rigids r = {.count = 0};
  dim_each_var(dim_resolve(c->dims, k->left), find_rigid, NULL, &r);
  dim_each_var(dim_resolve(c->dims, k->right), find_rigid, NULL, &r);
  for (uint32_t i = 0; i < r.count; i++)
    diag_mark(c->arena, d, r.at[i]->origin,
              arena_printf(c->arena, "%s stands for every size",
                          r.at[i]->name->text));
}

/* ---- what met ---- */

static Shape *shape_of(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  return t && t->tag == TY_TENSOR ? shape_norm(c, t->shape) : NULL;
}

/* The only axis along which two shapes differ, of each of them; the sizes are
 * aligned at the right. */
static bool only_difference(const Shape *a, const Shape *b, uint32_t *i,
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
  Shape *a = shape_of(c, o->got), *b = shape_of(c, o->want);
  uint32_t i, j;
  if (k->left) {
    o->about[0] = dim_resolve(c->dims, k->left);
    o->about[1] = dim_resolve(c->dims, k->right);
  }
  if (a && b) {
    d->found = ty_text(c, o->got), d->expected = ty_text(c, o->want);
    if (o->prim == PRIM_MATMUL && o->number)
      d->axis = a->len ? (int32_t)a->len - 1 : -1;
    else if (only_difference(a, b, &i, &j))
      d->axis = (int32_t)i;
  } else if (k->kind == CN_DIM_EQ) {
    dims_text(c, k->left, k->right, &d->found, &d->expected);
  }
}

/* What a message about a constraint shows besides. */
static void explain(Checker *c, Diag *d, Constraint *k) {
  set_met(c, d, k);
  add_path(c, d, k->origin);
  if (k->kind == CN_DIM_EQ)
    note_rigid(c, d, k);
  add_witness(c, d, k);
}

/* b rows meet 4*b: the `_` that took the factor over is at fault.  With a
 * factor that is no number it may be as it should. */
static void blame_hole(Checker *c, Diag *d, const Constraint *k) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  for (uint32_t i = c->holes.len; i-- > 0;) {
    Filled *h = &c->holes.at[i];
    Dim *value = dim_resolve(c->dims, dim_of_var(c->dims, h->var));
    bool left = dim_equal(value, x);
    if (dim_is_const(value) || (!left && !dim_equal(value, y)))
      continue;
    Dim *factor = dim_quotient(c->dims, value, left ? y : x);
    const char *text = arena_printf(c->arena, "its _ is %s",
                                    dim_text_of(c, value));
    if (!factor || !dim_is_const(factor) || h->shape.file != d->span.file) {
      diag_mark(c->arena, d, h->shape, text);
      return;
    }
    diag_mark(c->arena, d, d->span, d->label ? d->label : "here they meet");
    d->span = h->shape;
    d->label = text;
    return;
  }
}

/* ---- who said so: another argument of the same call ---- */

typedef struct Party {
  const char *name;   /* "p.fc1.w" */
  const char *holder; /* "p.fc1" */
  Expr *expr;
  Type *type;         /* of p.fc1.w */
} Party;

/* A part of t in whose shape v stands, and its path from name. */
static Type *part_with(Checker *c, Type *t, const DimVar *v,
                       const char **name) {
  t = ty_root(t);
  if (t->tag == TY_TENSOR) {
    for (uint32_t i = 0; i < t->shape->len; i++)
      if (t->shape->at[i].tag == IT_DIM &&
          dim_as_var(t->shape->at[i].dim) == v)
        return t;
  } else if (t->tag == TY_RECORD || t->tag == TY_TUPLE) {
    for (uint32_t i = 0; i < t->count; i++) {
      const char *path =
          t->tag == TY_TUPLE
              ? *name
              : arena_printf(c->arena, "%s.%s", *name, t->labels[i]->text);
      Type *found = part_with(c, t->args[i], v, &path);
      if (!found)
        continue;
      *name = path;
      return found;
    }
  }
  return NULL;
}

/* The argument that the next parameter of a call takes; *next counts the
 * positional ones. */
static Arg *arg_of_param(const Origin *o, const Type *param, uint32_t *next) {
  for (uint32_t i = param->label ? 0 : *next; i < o->arg_count; i++) {
    if (o->args[i].label != param->label)
      continue;
    if (!param->label)
      *next = i + 1;
    return &o->args[i];
  }
  return NULL;
}

static Type *param_of(const Origin *o) {
  uint32_t next = 0;
  for (Type *t = o->fun ? ty_root(o->fun) : NULL; t && t->tag == TY_FUN;
       t = ty_root(t->arg[1])) {
    Arg *a = arg_of_param(o, t, &next);
    if (a && a->expr == o->expr)
      return ty_root(t->arg[0]);
  }
  return NULL;
}

/* x, x.w, x.w.v as it is written; or NULL. */
static const char *path_text(Checker *c, const Expr *e) {
  if (e->kind == EX_ID)
    return e->id->text;
  const char *base = e->kind == EX_FIELD ? path_text(c, e->arg[0]) : NULL;
  return base ? arena_printf(c->arena, "%s.%s", base, e->id->text) : NULL;
}

static bool find_party(Checker *c, const Origin *o, const DimVar *v,
                       Party *out) {
  uint32_t next = 0;
  for (Type *t = ty_root(o->fun); t->tag == TY_FUN; t = ty_root(t->arg[1])) {
    Arg *a = arg_of_param(o, t, &next);
    const char *base = a && a->expr != o->expr ? path_text(c, a->expr) : NULL;
    if (!base)
      continue;
    out->expr = a->expr;
    out->name = base;
    out->type = part_with(c, t->arg[0], v, &out->name);
    if (!out->type)
      continue;
    const char *dot = strrchr(out->name, '.');
    out->holder = out->name;
    if (dot && strlen(out->name) > strlen(base))
      out->holder = arena_printf(c->arena, "%.*s", (int)(dot - out->name),
                                 out->name);
    return true;
  }
  return false;
}

/* The axis, counted from the right, along which a call's argument differs
 * from its parameter, and the variable that stands there. */
static DimVar *differing(Checker *c, const Origin *o, uint32_t *axis) {
  Type *param = param_of(o), *got = o->got ? ty_norm(c, o->got) : NULL;
  if (!param || !got || param->tag != TY_TENSOR || got->tag != TY_TENSOR)
    return NULL;
  Shape *s = shape_norm(c, got->shape), *p = param->shape;
  for (uint32_t i = 1; i <= s->len && i <= p->len; i++) {
    ShapeIt *have = &s->at[s->len - i], *want = &p->at[p->len - i];
    if (have->tag != IT_DIM || want->tag != IT_DIM)
      return NULL;
    if (dim_equal(have->dim, dim_resolve(c->dims, want->dim)))
      continue;
    *axis = i;
    return dim_as_var(want->dim);
  }
  return NULL;
}

/* "5408 columns arrive, fc1.w wants 9216". */
static bool call_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  uint32_t axis;
  Party party;
  DimVar *v = o->kind == OR_ARG ? differing(c, o, &axis) : NULL;
  if (!v || !find_party(c, o, v, &party))
    return false;
  if (told_of(c, 0, party.expr->span, NULL))
    return true; /* what it does not fit does not fit itself */
  Shape *s = shape_norm(c, ty_norm(c, o->got)->shape);
  const char *got, *want;
  dims_text(c, s->at[s->len - axis].dim, dim_of_var(c->dims, v), &got, &want);
  Diag *d =
      v->inner
          ? error_at(c, 301, o->span, "inner dimensions of a matrix product "
                                      "differ: %s and %s",
                     got, want)
          : error_at(c, 302, o->span, "sizes differ in %s: %s and %s",
                     place(c, o), got, want);
  d->label = arena_printf(c->arena, "%s %s, %s wants %s", got,
                          v->inner && axis == 1 ? "columns arrive" : "arrive",
                          party.name, want);
  if (v->inner && axis == 1 && s->len > 1 &&
      dim_is_const(s->at[s->len - axis].dim))
    d->help = arena_printf(c->arena, "declare %s with %s inputs",
                           party.holder, got);
  explain(c, d, k);
  diag_step(c->arena, d, o->span,
            arena_printf(c->arena, "%s : %s", party.name,
                         ty_text(c, party.type)),
            NULL);
  blame_hole(c, d, k);
  return true;
}

/* ---- what does not fit ---- */

static void batch_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *x, *y;
  dims_text(c, k->left, k->right, &x, &y);
  Diag *d = error_at(c, 303, o->span, "the axes in front of a matrix product "
                                      "do not broadcast: %s meets %s",
                     x, y);
  d->label = two_types(c, "%s @ %s", o->got, o->want);
  explain(c, d, k);
}

static void inner_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  /* the left side flows first: its size is the one that arrived */
  Type *a = ty_norm(c, o->got), *b = ty_norm(c, o->want);
  Dim *x = NULL, *y = NULL;
  if (a->tag == TY_TENSOR && b->tag == TY_TENSOR) {
    Shape *s = shape_norm(c, a->shape), *t = shape_norm(c, b->shape);
    if (s->len && t->len > 1 && s->at[s->len - 1].tag == IT_DIM &&
        t->at[t->len - 2].tag == IT_DIM) {
      x = s->at[s->len - 1].dim;
      y = t->at[t->len - 2].dim;
    }
  }
  if (!x || dim_equal(x, y))
    x = dim_resolve(c->dims, k->left), y = dim_resolve(c->dims, k->right);
  const char *left = dim_text_of(c, x), *right = dim_text_of(c, y);
  Diag *d = error_at(c, 301, o->span,
                     "inner dimensions of a matrix product differ: %s and %s",
                     left, right);
  d->label = two_types(c, "%s @ %s", a, b);
  explain(c, d, k);
  if (b->tag == TY_TENSOR) {
    Shape *t = shape_norm(c, b->shape);
    if (t->len == 2 && t->at[1].tag == IT_DIM &&
        dim_equal(t->at[1].dim, x))
      d->help = "the right side looks transposed: write transpose";
  }
}

/* "60 is not a multiple of 8", of 60 and 8*n; NULL: no such thing. */
static const char *no_multiple(Checker *c, Constraint *k) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  if (dim_is_const(y)) {
    Dim *z = x;
    x = y, y = z;
  }
  int64_t n, factor = dim_content(c->dims, y);
  Dim *rest = NULL;
  if (dim_is_int(x, &n) && factor > 1)
    rest = dim_quotient(c->dims, y, dim_int(c->dims, factor));
  return rest && n % factor
             ? arena_printf(c->arena, "%lld is not a multiple of %lld",
                            (long long)n, (long long)factor)
             : NULL;
}

/* Do the two shapes hold the same sizes in another order? */
static bool same_count(Checker *c, Origin *o) {
  if (!o->got || !o->want || !is_tensor(o->got) || !is_tensor(o->want))
    return false;
  Shape *a = shape_norm(c, ty_norm(c, o->got)->shape);
  Shape *b = shape_norm(c, ty_norm(c, o->want)->shape);
  if (a->len != b->len || a->len < 2 || shape_same(c, a, b))
    return false;
  uint64_t used = 0;
  for (uint32_t i = 0; i < a->len; i++) {
    bool found = false;
    for (uint32_t j = 0; j < b->len && !found; j++)
      if (!(used >> j & 1) && a->at[i].tag == IT_DIM &&
          b->at[j].tag == IT_DIM && dim_equal(a->at[i].dim, b->at[j].dim)) {
        used |= (uint64_t)1 << j;
        found = true;
      }
    if (!found)
      return false;
  }
  return true;
}

/* The type of what is called, which says how its parameters hang together. */
static void note_callee(Checker *c, Diag *d, const Origin *o) {
  enum { LONG = 200 };
  const Binding *b = o->kind == OR_ARG && o->head ? o->head->means : NULL;
  if (!b || !b->scheme || !b->scheme->poly || !o->what || d->note)
    return;
  const char *type = scheme_text(c, b->scheme);
  if (strlen(type) <= LONG)
    d->note = arena_printf(c->arena, "%s : %s", o->what, type);
}

/* The type whose condition it was. */
static void note_scheme(Checker *c, Diag *d, const Origin *o) {
  if (o->scheme && o->what)
    d->note = arena_printf(c->arena, "%s : %s", o->what,
                           scheme_text(c, o->scheme));
}

static void squeeze_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  Dim *one = dim_int(c->dims, 1), *x = dim_resolve(c->dims, k->left);
  if (dim_equal(x, one))
    x = dim_resolve(c->dims, k->right);
  Diag *d = error_at(c, 302, o->span,
                     "squeeze removes axes that are * or 1, not one of size %s",
                     dim_text_of(c, x));
  if (o->got)
    d->label = arena_printf(c->arena, "this is %s", ty_text(c, o->got));
  explain(c, d, k);
}

/* The left operand's comes first. */
static void operand_sizes(Checker *c, const Origin *o, const char **x,
                          const char **y) {
  Shape *a = shape_of(c, o->got), *b = shape_of(c, o->want);
  uint32_t i, j;
  if (only_difference(a, b, &i, &j))
    dims_text(c, a->at[i].dim, b->at[j].dim, x, y);
}

static bool same_axis(const ShapeIt *a, const ShapeIt *b) {
  return a->tag == IT_DIM && b->tag == IT_DIM && dim_equal(a->dim, b->dim);
}

/* How the two operands would broadcast. */
static const char *join_help(Checker *c, const Origin *o) {
  static const char usual[] = "only a missing leading axis and a stretching "
                              "one (x.[:, *], ~keep:true) stretch";
  if (!is_tensor(o->got) || !is_tensor(o->want))
    return usual;
  Shape *x = shape_norm(c, ty_norm(c, o->got)->shape);
  Shape *y = shape_norm(c, ty_norm(c, o->want)->shape);
  if (!shape_known_rank(x) || !shape_known_rank(y))
    return usual;
  Shape *small = x->len < y->len ? x : y, *large = x->len < y->len ? y : x;
  uint32_t same = 0; /* axes in front that are equal */
  while (same < small->len && same_axis(&small->at[same], &large->at[same]))
    same++;
  if (same == small->len && large->len == same + 1 &&
      is_unit(&large->at[same]))
    return arena_printf(c->arena, "the last axis of %s just is 1: take it off, "
                                  "x.[..., 0]",
                        shape_text(c, large));
  if (same && same == small->len && large->len > same) {
    Buffer stars = {.arena = c->arena};
    for (uint32_t i = same; i < large->len; i++)
      buffer_puts(&stars, ", *");
    return arena_printf(c->arena,
                        "axes line up at the right: %s lacks %s behind its "
                        "own, made by x.[...%s], or by ~keep:true in a "
                        "reduction",
                        shape_text(c, small),
                        large->len == same + 1 ? "a stretching axis"
                                               : "stretching axes",
                        stars.text);
  }
  bool units = x->len == y->len;
  for (uint32_t i = 0; i < x->len && units; i++)
    units = same_axis(&x->at[i], &y->at[i]) || is_unit(&x->at[i]) ||
            is_unit(&y->at[i]);
  return units ? "an axis that just is 1 does not stretch: take it off by an "
                 "index 0, and make one that does, as in x.[:, *]"
               : usual;
}

/* A term computed twice: rounding down, and exactly. */
typedef struct Value {
  int64_t floor;
  double exact;
  bool named; /* a size that somebody knows, not an interim result */
} Value;

typedef struct Uneven { /* the first division that is not exact */
  bool found, named;
  int64_t num, den;
} Uneven;

static bool apply_op(DimOpKind kind, Value x, Value y, Value *out, Uneven *u) {
  switch (kind) {
  case DOP_ADD:
    *out = (Value){x.floor + y.floor, x.exact + y.exact, false};
    break;
  case DOP_SUB:
    *out = (Value){x.floor - y.floor, x.exact - y.exact, false};
    break;
  case DOP_MUL:
    *out = (Value){x.floor * y.floor, x.exact * y.exact, false};
    break;
  case DOP_DIV:
    if (y.floor < 1 || x.floor < 0)
      return false;
    if (!u->found && x.floor % y.floor)
      *u = (Uneven){true, x.named, x.floor, y.floor};
    *out = (Value){x.floor / y.floor, x.exact / y.exact, false};
    break;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
  case DOP_MIN:
  case DOP_MAX: return false;
  }
  const int64_t limit = (int64_t)1 << 31; /* of what is multiplied */
  return out->floor < limit && out->floor > -limit;
}

/* The value of d, in which all is known by now, in the form that it had before
 * it was; false: it is not so. */
static bool value_of(Checker *c, Dim *d, Value *out, Uneven *u) {
  enum { DEEP = 32 };
  Value stack[DEEP];
  uint32_t count, top = 0;
  DimOp *ops = dim_postfix(c->dims, d, &count);
  for (uint32_t i = 0; ops && i < count; i++) {
    DimOp *op = &ops[i];
    int64_t n = op->num;
    if (op->kind == DOP_INT || op->kind == DOP_VAR) {
      if (top == DEEP ||
          (op->kind == DOP_VAR &&
           !dim_is_int(dim_resolve(c->dims, dim_of_var(c->dims, op->var)),
                       &n)))
        return false;
      stack[top++] = (Value){n, (double)n, op->kind == DOP_VAR};
    } else if (top < 2 || !apply_op(op->kind, stack[top - 2], stack[top - 1],
                                    &stack[top - 2], u)) {
      return false;
    } else {
      top--;
    }
  }
  *out = stack[0];
  return ops && top == 1;
}

/* "15 is not a multiple of 2", where nothing but that makes two sizes differ;
 * or NULL.  Where both sides are rounded there is no telling. */
static const char *uneven_division(Checker *c, const Constraint *k) {
  Uneven u = {0};
  Value x, y;
  if (!value_of(c, k->left, &x, &u) || !value_of(c, k->right, &y, &u) ||
      !u.named || fabs(x.exact - y.exact) > 1e-9 * fabs(x.exact) ||
      (x.exact > (double)x.floor && y.exact > (double)y.floor))
    return NULL;
  return arena_printf(c->arena, "%lld is not a multiple of %lld",
                      (long long)u.num, (long long)u.den);
}

static void eq_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *x, *y;
  dims_text(c, k->left, k->right, &x, &y);
  if (o->prim == PRIM_MATMUL && o->got && o->want) {
    if (o->number)
      inner_error(c, k);
    else
      batch_error(c, k);
    return;
  }
  if (call_error(c, k))
    return;
  if (o->prim == PRIM_SQUEEZE) {
    squeeze_error(c, k);
    return;
  }
  Diag *d;
  bool operator = o->kind == OR_OPERATOR && !o->number && o->got && o->want;
  const char *uneven = o->got && o->want ? NULL : uneven_division(c, k);
  if (uneven) {
    d = error_at(c, 302, o->span, "%s, as %s needs", uneven, place(c, o));
    note_scheme(c, d, o);
    explain(c, d, k);
    d->witness = NULL; /* it says so itself */
    return;
  }
  uneven = no_multiple(c, k);
  if (k->divisor && !operator) {
    dims_text(c, k->left, k->divisor, &x, &y);
    d = error_at(c, 302, o->span, "%s is not a multiple of %s, as %s needs", x,
                 y, place(c, o));
    note_scheme(c, d, o);
  } else if (o->scheme && o->what && strcmp(o->what, "reshape") == 0) {
    d = error_at(c, 302, o->span, "reshape keeps the number of elements: %s "
                                  "and %s differ",
                 x, y);
  } else if (o->kind == OR_ARG && k->joins && !o->got) {
    d = error_at(c, 303, o->span, "shapes do not broadcast in %s: %s meets %s",
                 place(c, o), x, y);
    d->help = "only a missing leading axis and a stretching one (x.[:, *], "
              "~keep:true) stretch";
    note_scheme(c, d, o);
  } else if (operator) {
    operand_sizes(c, o, &x, &y);
    d = error_at(c, 303, o->span, "%s do not broadcast: %s meets %s",
                 two_types(c, "%s and %s", o->got, o->want), x, y);
    if (k->divisor) {
      dims_text(c, k->left, k->divisor, &x, &y);
      d->note = arena_printf(c->arena, "%s is not a multiple of %s", x, y);
    } else {
      d->help = join_help(c, o);
    }
  } else {
    d = uneven ? error_at(c, 302, o->span, "sizes differ in %s: %s",
                          place(c, o), uneven)
               : error_at(c, 302, o->span, "sizes differ in %s: %s and %s",
                          place(c, o), x, y);
    if (same_count(c, o))
      d->help = "the axes look swapped: write transpose, or permute";
    Clash part;
    if (!o->got || !o->want)
      note_scheme(c, d, o);
    else if (size_clash(c, o->got, o->want, k->left, k->right, &part) &&
             *part.path)
      d->label = arena_printf(
          c->arena, "%s : %s", part.path,
          two_types(c, "%s, wanted is %s", part.got, part.want));
    else if (!prints_alike(c, o->got, o->want))
      d->label = two_types(c, "this is %s, wanted is %s", o->got, o->want);
    note_callee(c, d, o);
  }
  explain(c, d, k);
  if (uneven)
    d->witness = NULL; /* it says so itself */
  blame_hole(c, d, k);
}

static void index_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *from = o->expr && o->expr->kind == EX_NUM && !o->to
                         ? o->expr->num
                         : dim_text_of(c, o->from);
  const char *size = dim_text_of(c, o->axis);
  Diag *d;
  if (!o->to)
    d = error_at(c, 307, o->span,
                 "index %s is out of bounds for axis %u of size %s", from,
                 o->number, size);
  else
    d = error_at(c, 307, o->span,
                 "the slice %s:%s does not fit axis %u of size %s", from,
                 dim_text_of(c, o->to), o->number, size);
  if (o->got)
    d->label = arena_printf(c->arena, "of %s", ty_text(c, o->got));
  d->help = o->to ? "slices are not cut to fit: write : alone for the rest of "
                    "an axis"
                  : "indices run from 0 to one less than the size; a literal "
                    "-k counts from the end";
  explain(c, d, k);
}

static void le_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  if (o->kind == OR_INDEX && o->axis) {
    index_error(c, k);
    return;
  }
  const char *x, *y;
  order_text(c, k->left, k->right, &x, &y);
  Diag *d = error_at(c, 306, o->span,
                     "a size does not fit in %s: %s <= %s does not hold",
                     place(c, o), x, y);
  if (o->got)
    d->label = ty_text(c, o->got);
  else
    note_scheme(c, d, o);
  explain(c, d, k);
}

/* It would be a size below 0: the inequality that forbids that was refuted
 * before, and this only follows. */
static bool follows(Checker *c, const Constraint *k) {
  return k->kind == CN_DIM_EQ && c->diags->errors &&
         (dim_sign(dim_resolve(c->dims, k->left)) < 0 ||
          dim_sign(dim_resolve(c->dims, k->right)) < 0);
}

static void report_one(Checker *c, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    eq_error(c, k);
    break;
  case CN_DIM_LE:
    le_error(c, k);
    break;
  case CN_DIM_NE:
    error_at(c, 302, k->origin->span, "sizes must differ: both are %s",
             dim_text_of(c, k->left));
    break;
  case CN_SHAPE_EQ:
  case CN_JOIN:
  case CN_KEEP:
    shapes_error(c, k->a, k->b, k->origin);
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
  note_scheme(c, d, call);
}

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
  c->names = names;
}

void report_shapes(Checker *c, Shape *a, Shape *b, Origin *o) {
  Constraint k = {.kind = CN_SHAPE_EQ, .origin = o, .a = a, .b = b};
  report_dims(c, &k);
}
