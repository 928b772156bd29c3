/* Who else has to do with a size that does not fit: another argument of the
 * same call, or the `_` of a reshape. */
#include "errors.h"

#include <string.h>

/* ---- the _ of a reshape ---- */

/* b rows meet 4*b: the `_` that took the factor over is at fault.  With a
 * factor that is no number it may be as it should. */
void party_hole(Checker *c, Diag *d, const Constraint *k) {
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

/* ---- another argument of the same call ---- */

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

static bool find_party(Checker *c, const Origin *o, const DimVar *v,
                       Party *out) {
  uint32_t next = 0;
  for (Type *t = ty_root(o->fun); t->tag == TY_FUN; t = ty_root(t->arg[1])) {
    Arg *a = arg_of_param(o, t, &next);
    const char *base =
        a && a->expr != o->expr ? error_path_text(c, a->expr) : NULL;
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

typedef struct Uses {
  const DimVar *of;
  uint32_t count;
} Uses;

static void count_use(void *arg, DimVar *v) {
  Uses *u = arg;
  u->count += v == u->of;
}

static void count_in(Uses *u, Type *t) {
  t = ty_root(t);
  for (uint32_t i = 0; t->tag == TY_TENSOR && i < t->shape->len; i++)
    if (t->shape->at[i].tag == IT_DIM)
      dim_each_var(t->shape->at[i].dim, count_use, NULL, u);
  if (t->tag == TY_RECORD || t->tag == TY_TUPLE)
    for (uint32_t i = 0; i < t->count; i++)
      count_in(u, t->args[i]);
}

/* The layers within t, called `path`, that have v as the number of their
 * inputs. */
static uint32_t layers_with(Checker *c, Type *t, const DimVar *v,
                            const char *path, Buffer *names) {
  t = ty_root(t);
  uint32_t found = 0;
  if (t->tag == TY_TENSOR && t->shape->len == 2 &&
      t->shape->at[1].tag == IT_DIM &&
      dim_as_var(t->shape->at[1].dim) == v) {
    const char *dot = strrchr(path, '.');
    size_t len = dot ? (size_t)(dot - path) : strlen(path);
    buffer_printf(names, "%s%.*s", names->len ? " and " : "", (int)len, path);
    return 1;
  }
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    found += layers_with(c, t->args[i], v,
                         arena_printf(c->arena, "%s.%s", path,
                                      t->labels[i]->text),
                         names);
  return found;
}

/* All layers that have to be declared otherwise, where it is only these that
 * have the size; or NULL. */
static const char *layers_of(Checker *c, const Origin *o, const Party *party,
                             const DimVar *v) {
  Buffer names = {.arena = c->arena};
  Uses u = {.of = v};
  uint32_t next = 0, layers = 0;
  for (Type *t = ty_root(o->fun); t->tag == TY_FUN; t = ty_root(t->arg[1])) {
    Arg *a = arg_of_param(o, t, &next);
    const char *path = a ? error_path_text(c, a->expr) : NULL;
    count_in(&u, t->arg[0]);
    if (path && a->expr == party->expr)
      layers = layers_with(c, t->arg[0], v, path, &names);
  }
  return layers && u.count == layers + 1 ? names.text : NULL;
}

/* Has something else as many numbers as a matrix has rows, as its bias? */
static bool outputs_fit(Checker *c, const Origin *o, const Party *party) {
  const ShapeIt *rows = &ty_root(party->type)->shape->at[0];
  Uses u = {.of = rows->tag == IT_DIM ? dim_as_var(rows->dim) : NULL};
  uint32_t next = 0;
  const char *name = "";
  for (Type *t = ty_root(o->fun); u.of && t->tag == TY_FUN;
       t = ty_root(t->arg[1])) {
    Arg *a = arg_of_param(o, t, &next);
    if (a && a->expr == party->expr) {
      u.count = 0;
      count_in(&u, t->arg[0]);
      if (u.count > 1)
        return true;
    } else if (a && a->expr != o->expr &&
               part_with(c, t->arg[0], u.of, &name)) {
      return !told_of(c, 0, a->expr->span, NULL);
    }
  }
  return false;
}

/* Data that is not flat yet, or a layer that is declared for other data. */
static void inner_help(Checker *c, Diag *d, const Origin *o, DimVar *v,
                       const Party *party) {
  enum { IMAGES = 4 }; /* axes */
  Dim *wanted = dim_of_var(c->dims, v);
  Shape *s = shape_norm(c, ty_norm(c, o->got)->shape);
  if (help_flatten(c, d, o, o->expr, o->got, wanted) || s->len < 2)
    return;
  Dim *columns = s->at[s->len - 1].dim, *row = columns;
  Shape *w = error_shape(c, party->type);
  if (w && w->len == 2 && w->at[0].tag == IT_DIM &&
      dim_equal(w->at[0].dim, columns) && !dim_equal(columns, wanted) &&
      !outputs_fit(c, o, party)) {
    d->help = arena_printf(c->arena, "%s looks transposed: [outputs, inputs] "
                                     "is wanted",
                           party->name);
    if (strcmp(party->name, party->holder) == 0)
      edit_apply(c, d, o, party->expr, "transpose");
    return;
  }
  if (!dim_is_const(columns))
    return;
  bool images = s->len == IMAGES;
  for (uint32_t i = 1; images && i + 1 < s->len; i++) {
    images = s->at[i].tag == IT_DIM && dim_is_const(s->at[i].dim);
    if (images)
      row = dim_mul(c->dims, row, s->at[i].dim);
  }
  const char *layers = layers_of(c, o, party, v);
  if (!layers)
    return;
  d->help = arena_printf(c->arena, "%sdeclare %s with %s inputs",
                         images ? "insert flatten, and " : "", layers,
                         dim_text_of(c, images ? row : columns));
}

/* "5408 columns arrive, fc1.w wants 9216". */
bool party_error(Checker *c, Constraint *k) {
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
                     error_place(c, o), got, want);
  d->label = arena_printf(c->arena, "%s %s, %s wants %s", got,
                          v->inner && axis == 1 ? "columns arrive" : "arrive",
                          party.name, want);
  Dim *arrived = s->at[s->len - axis].dim;
  bool direct = strcmp(party.name, party.holder) == 0;
  if (v->inner && axis == 1)
    inner_help(c, d, o, v, &party);
  else if (direct)
    help_matrix(c, d, o, party.name, party.expr, party.type, arrived,
                dim_resolve(c->dims, dim_of_var(c->dims, v)));
  error_explain(c, d, k);
  diag_step(c->arena, d, o->span,
            arena_printf(c->arena, "%s : %s", party.name,
                         ty_text(c, party.type)),
            NULL);
  party_hole(c, d, k);
  return true;
}
