/* Related causes of a size that does not fit: another argument of the same
   call, or the `_` of a reshape.  Main entry points: error_related_argument and
   error_blame_reshape_hole. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* ---- the _ of a reshape ---- */

/* b rows and 4*b rows differ: the `_` absorbed the factor 4.  A factor that is
   not a number may be intended. */
void error_blame_reshape_hole(Checker *c, Diag *d, const Constraint *k) {
  Dim *x = dim_resolve(c->dims, k->left), *y = dim_resolve(c->dims, k->right);
  for (uint32_t i = c->solver.reshape_holes.len; i-- > 0;) {
    ReshapeHole *h = &c->solver.reshape_holes.at[i];
    Dim *value = dim_resolve(c->dims, dim_of_var(c->dims, h->var));
    bool left = dim_equal(value, x);
    if (dim_is_const(value) || (!left && !dim_equal(value, y)))
      continue;
    Dim *factor = dim_exact_quotient(c->dims, value, left ? y : x);
    const char *text =
        arena_printf(c->arena, "its _ is %s", dim_to_text(c, value));
    if (!factor || !dim_is_const(factor) ||
        h->shape_span.file != d->span.file) {
      diag_add_label(c->arena, d, h->shape_span, text);
      return;
    }
    diag_add_label(c->arena, d, d->span,
                   d->primary_label ? d->primary_label
                                    : "these sizes must be equal here");
    d->span = h->shape_span;
    d->primary_label = text;
    return;
  }
}

/* ---- another argument of the same call ---- */

typedef struct RelatedArgument {
  const char *name;   /* "p.fc1.w" */
  const char *holder; /* "p.fc1" */
  Expr *expr;
  Type *type; /* of p.fc1.w */
} RelatedArgument;

/* A part of t whose shape contains v, and its path from name. */
static Type *find_component_with(Checker *c, Type *t, const DimVar *v,
                                 const char **name) {
  t = ty_root(t);
  if (t->tag == TY_TENSOR) {
    for (uint32_t i = 0; i < t->tensor.shape->len; i++)
      if (t->tensor.shape->axes[i].tag == SHAPE_DIM &&
          dim_as_var(t->tensor.shape->axes[i].dim) == v)
        return t;
  } else if (t->tag == TY_RECORD || t->tag == TY_TUPLE) {
    for (uint32_t i = 0; i < t->count; i++) {
      const char *path = t->tag == TY_TUPLE
                             ? *name
                             : arena_printf(c->arena, "%s.%s", *name,
                                            t->record.labels[i]->text);
      Type *found = find_component_with(c, t->args[i], v, &path);
      if (!found)
        continue;
      *name = path;
      return found;
    }
  }
  return NULL;
}

/* The argument for the next parameter of a call. *next counts positional
   arguments. */
static Arg *arg_of_param(const Origin *o, const Type *param, uint32_t *next) {
  for (uint32_t i = param->fun.label ? 0 : *next; i < o->arg.arg_count; i++) {
    if (o->arg.args[i].label != param->fun.label)
      continue;
    if (!param->fun.label)
      *next = i + 1;
    return &o->arg.args[i];
  }
  return NULL;
}

static Type *param_type_of(const Origin *o) {
  uint32_t next = 0;
  for (Type *t = o->arg.fun_type ? ty_root(o->arg.fun_type) : NULL;
       t && t->tag == TY_FUN; t = ty_root(t->fun.result)) {
    Arg *a = arg_of_param(o, t, &next);
    if (a && a->expr == o->expr)
      return ty_root(t->fun.param);
  }
  return NULL;
}

static bool find_related_argument(Checker *c, const Origin *o, const DimVar *v,
                                  RelatedArgument *out) {
  uint32_t next = 0;
  for (Type *t = ty_root(o->arg.fun_type); t->tag == TY_FUN;
       t = ty_root(t->fun.result)) {
    Arg *a = arg_of_param(o, t, &next);
    const char *base =
        a && a->expr != o->expr ? error_expr_path(c, a->expr) : NULL;
    if (!base)
      continue;
    out->expr = a->expr;
    out->name = base;
    out->type = find_component_with(c, t->fun.param, v, &out->name);
    if (!out->type)
      continue;
    const char *dot = strrchr(out->name, '.');
    out->holder = out->name;
    if (dot && strlen(out->name) > strlen(base))
      out->holder =
          arena_printf(c->arena, "%.*s", (int)(dot - out->name), out->name);
    return true;
  }
  return false;
}

/* The axis, counted from the right, along which an argument differs from its
   parameter, and the variable there. */
static DimVar *differing_axis(Checker *c, const Origin *o, uint32_t *axis) {
  Type *param = param_type_of(o),
       *actual = o->actual ? ty_norm(c, o->actual) : NULL;
  if (!param || !actual || param->tag != TY_TENSOR || actual->tag != TY_TENSOR)
    return NULL;
  Shape *s = shape_norm(c, actual->tensor.shape), *p = param->tensor.shape;
  for (uint32_t i = 1; i <= s->len && i <= p->len; i++) {
    ShapeAxis *have = &s->axes[s->len - i], *expected = &p->axes[p->len - i];
    if (have->tag != SHAPE_DIM || expected->tag != SHAPE_DIM)
      return NULL;
    if (dim_equal(have->dim, dim_resolve(c->dims, expected->dim)))
      continue;
    *axis = i;
    return dim_as_var(expected->dim);
  }
  return NULL;
}

typedef struct OccurrenceCount {
  const DimVar *of;
  uint32_t count;
} OccurrenceCount;

static void count_occurrence(void *arg, DimVar *v) {
  OccurrenceCount *u = arg;
  u->count += v == u->of;
}

static void count_occurrences(OccurrenceCount *u, Type *t) {
  t = ty_root(t);
  for (uint32_t i = 0; t->tag == TY_TENSOR && i < t->tensor.shape->len; i++)
    if (t->tensor.shape->axes[i].tag == SHAPE_DIM)
      dim_each_var(t->tensor.shape->axes[i].dim, count_occurrence, NULL, u);
  if (t->tag == TY_RECORD || t->tag == TY_TUPLE)
    for (uint32_t i = 0; i < t->count; i++)
      count_occurrences(u, t->args[i]);
}

/* Counts the layers in t (with path `path`) whose number of inputs is v. */
static uint32_t count_layers_with(Checker *c, Type *t, const DimVar *v,
                                  const char *path, Buffer *names) {
  t = ty_root(t);
  uint32_t found = 0;
  if (t->tag == TY_TENSOR && t->tensor.shape->len == 2 &&
      t->tensor.shape->axes[1].tag == SHAPE_DIM &&
      dim_as_var(t->tensor.shape->axes[1].dim) == v) {
    const char *dot = strrchr(path, '.');
    size_t len = dot ? (size_t)(dot - path) : strlen(path);
    buffer_printf(names, "%s%.*s", names->len ? " and " : "", (int)len, path);
    return 1;
  }
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    found += count_layers_with(
        c, t->args[i], v,
        arena_printf(c->arena, "%s.%s", path, t->record.labels[i]->text),
        names);
  return found;
}

/* All layers whose declaration has to change; NULL if the size also occurs
   elsewhere. */
static const char *layers_of(Checker *c, const Origin *o,
                             const RelatedArgument *related, const DimVar *v) {
  Buffer names = {.arena = c->arena};
  OccurrenceCount u = {.of = v};
  uint32_t next = 0, layers = 0;
  for (Type *t = ty_root(o->arg.fun_type); t->tag == TY_FUN;
       t = ty_root(t->fun.result)) {
    Arg *a = arg_of_param(o, t, &next);
    const char *path = a ? error_expr_path(c, a->expr) : NULL;
    count_occurrences(&u, t->fun.param);
    if (path && a->expr == related->expr)
      layers = count_layers_with(c, t->fun.param, v, path, &names);
  }
  return layers && u.count == layers + 1 ? names.text : NULL;
}

/* True if another tensor has as many elements as a matrix has rows, for example
   its bias. */
static bool outputs_fit(Checker *c, const Origin *o,
                        const RelatedArgument *related) {
  const ShapeAxis *rows = &ty_root(related->type)->tensor.shape->axes[0];
  OccurrenceCount u = {.of = rows->tag == SHAPE_DIM ? dim_as_var(rows->dim)
                                                    : NULL};
  uint32_t next = 0;
  const char *name = "";
  for (Type *t = ty_root(o->arg.fun_type); u.of && t->tag == TY_FUN;
       t = ty_root(t->fun.result)) {
    Arg *a = arg_of_param(o, t, &next);
    if (a && a->expr == related->expr) {
      u.count = 0;
      count_occurrences(&u, t->fun.param);
      if (u.count > 1)
        return true;
    } else if (a && a->expr != o->expr &&
               find_component_with(c, t->fun.param, u.of, &name)) {
      return !error_reported_at(c, 0, a->expr->span, NULL);
    }
  }
  return false;
}

/* The data is not flattened yet, or the layer is declared for other data. */
static void hint_layer_inputs(Checker *c, Diag *d, const Origin *o, DimVar *v,
                              const RelatedArgument *related) {
  enum { IMAGE_BATCH_RANK = 4 }; /* axes */
  Dim *wanted = dim_of_var(c->dims, v);
  Shape *s = shape_norm(c, ty_norm(c, o->actual)->tensor.shape);
  if (hint_flatten(c, d, o, o->expr, o->actual, wanted) || s->len < 2)
    return;
  Dim *columns = s->axes[s->len - 1].dim, *row = columns;
  Shape *w = error_shape(c, related->type);
  if (w && w->len == 2 && w->axes[0].tag == SHAPE_DIM &&
      dim_equal(w->axes[0].dim, columns) && !dim_equal(columns, wanted) &&
      !outputs_fit(c, o, related)) {
    d->help = arena_printf(c->arena,
                           "%s may be transposed: expected [outputs, inputs]",
                           related->name);
    if (strcmp(related->name, related->holder) == 0)
      fixit_apply(c, d, o, related->expr, "transpose");
    return;
  }
  if (!dim_is_const(columns))
    return;
  bool images = s->len == IMAGE_BATCH_RANK;
  for (uint32_t i = 1; images && i + 1 < s->len; i++) {
    images = s->axes[i].tag == SHAPE_DIM && dim_is_const(s->axes[i].dim);
    if (images)
      row = dim_mul(c->dims, row, s->axes[i].dim);
  }
  const char *layers = layers_of(c, o, related, v);
  if (!layers)
    return;
  d->help = arena_printf(c->arena, "%sdeclare %s with %s inputs",
                         images ? "insert flatten, and " : "", layers,
                         dim_to_text(c, images ? row : columns));
}

/* "5408 columns found, fc1.w needs 9216". */
bool error_related_argument(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  uint32_t axis;
  RelatedArgument related;
  DimVar *v = o->kind == ORIGIN_ARG ? differing_axis(c, o, &axis) : NULL;
  if (!v || !find_related_argument(c, o, v, &related))
    return false;
  if (error_reported_at(c, 0, related.expr->span, NULL))
    return true; /* the related argument is wrong itself */
  Shape *s = shape_norm(c, ty_norm(c, o->actual)->tensor.shape);
  const char *actual, *expected;
  dims_text(c, s->axes[s->len - axis].dim, dim_of_var(c->dims, v), &actual,
            &expected);
  Diag *d = v->matmul_inner ? error_inner_sizes(c, o->span, actual, expected)
                            : error_sizes_differ(c, o, actual, expected);
  d->primary_label =
      arena_printf(c->arena, "%s %s, %s needs %s", actual,
                   v->matmul_inner && axis == 1 ? "columns found" : "found",
                   related.name, expected);
  Dim *actual_size = s->axes[s->len - axis].dim;
  bool direct = strcmp(related.name, related.holder) == 0;
  if (v->matmul_inner && axis == 1)
    hint_layer_inputs(c, d, o, v, &related);
  else if (direct)
    hint_transposed_matrix(c, d, o, related.name, related.expr, related.type,
                           actual_size,
                           dim_resolve(c->dims, dim_of_var(c->dims, v)));
  error_add_details(c, d, k);
  diag_add_step(
      c->arena, d, o->span,
      arena_printf(c->arena, "%s : %s", related.name, ty_text(c, related.type)),
      NULL);
  error_blame_reshape_hole(c, d, k);
  return true;
}
