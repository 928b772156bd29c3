/* The tensors of a type one by one, with how many elements each has. */
#include "typecheck/internal.h"

typedef struct Walk {
  Checker *c;
  Printer *printer;
  const char *path;
  Shape *front; /* axes of lifts that could not be pushed inwards */
  VEC(Leaf) leaves;
  Dim *total;
} Walk;

static void walk(Walk *w, Type *t);

static void walk_part(Walk *w, const char *name, Type *t) {
  const char *path = w->path;
  w->path = path[0] ? arena_printf(w->c->arena, "%s.%s", path, name) : name;
  walk(w, t);
  w->path = path;
}

static void walk_fields(Walk *w, Type *t) {
  for (; t && t->tag == TY_RECORD;
       t = t->arg[0] ? ty_norm(w->c, t->arg[0]) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      walk_part(w, t->labels[i]->text, t->args[i]);
}

static void walk_lift(Walk *w, Type *t) {
  Shape *front = w->front;
  w->front = shape_concat(w->c, front, shape_dims(w->c, 1, &t->dim));
  walk(w, t->arg[0]);
  w->front = front;
}

static void add(Walk *w, Type *t, const char *count) {
  Leaf leaf = {w->path, printer_type(w->printer, t), count};
  VEC_PUSH(w->c->arena, w->leaves, leaf);
}

static void add_tensor(Walk *w, Type *t) {
  Type *whole = t;
  if (w->front->len)
    whole = ty_tensor(w->c, t->elem, shape_concat(w->c, w->front, t->shape),
                      NULL);
  Dim *count = shape_prod_dim(w->c, whole->shape);
  w->total = dim_add(w->c->dims, w->total, count);
  add(w, whole, printer_dim(w->printer, count));
}

static void walk(Walk *w, Type *t) {
  spend(w->c, 1);
  t = ty_norm(w->c, t);
  switch (t->tag) {
  case TY_TENSOR:
    add_tensor(w, t);
    return;
  case TY_RECORD:
    walk_fields(w, t);
    return;
  case TY_TUPLE:
    for (uint32_t i = 0; i < t->count; i++)
      walk_part(w, arena_printf(w->c->arena, "%u", i), t->args[i]);
    return;
  case TY_LIFT:
    walk_lift(w, t);
    return;
  case TY_VAR:
  case TY_FUN:
  case TY_DATA:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    add(w, t, NULL);
    return;
  }
}

static bool leaves_of(Checker *c, Scheme *s, Leaves *out) {
  if (!s)
    return false;
  Type *t = ty_norm(c, s->type);
  while (t->tag == TY_FUN)
    t = ty_norm(c, t->arg[1]);
  Walk w = {.c = c, .printer = printer_new(c, s, true), .path = "",
            .front = shape_new(c, 0), .total = dim_int(c->dims, 0)};
  walk(&w, t);
  *out = (Leaves){w.leaves.at, w.leaves.len, printer_dim(w.printer, w.total)};
  return true;
}

bool checker_expr_leaves(Checker *c, Module *module, Expr *expr, Diags *diags,
                         Leaves *out) {
  return leaves_of(c, expr_scheme(c, module, expr, diags), out);
}

bool binding_leaves(Checker *c, Binding *b, Diags *diags, Leaves *out) {
  c->diags = diags;
  c->work = 0;
  return leaves_of(c, binding_scheme(c, b), out);
}
