/* Lists the tensors of a type with their numbers of elements.  Main entry
   point: binding_leaves. */
#include "typecheck/internal.h"
#include "support/arena_text.h"
#include "support/intern.h"

typedef struct LeafWalk {
  Checker *c;
  TypePrinter *printer;
  const char *path;
  Shape *lifted_axes; /* axes of lifts that could not be pushed inwards */
  VEC(TypeLeaf) leaves;
  Dim *total;
} LeafWalk;

static void walk_type(LeafWalk *w, Type *t);

static void walk_component(LeafWalk *w, const char *name, Type *t) {
  const char *path = w->path;
  w->path = path[0] ? arena_printf(w->c->arena, "%s.%s", path, name) : name;
  walk_type(w, t);
  w->path = path;
}

static void walk_fields(LeafWalk *w, Type *t) {
  for (; t && t->tag == TY_RECORD;
       t = t->record.rest ? ty_norm(w->c, t->record.rest) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      walk_component(w, t->record.labels[i]->text, t->args[i]);
}

static void walk_lift(LeafWalk *w, Type *t) {
  Shape *lifted_axes = w->lifted_axes;
  w->lifted_axes =
      shape_concat(w->c, lifted_axes, shape_of_dims(w->c, 1, &t->lift.dim));
  walk_type(w, t->lift.type);
  w->lifted_axes = lifted_axes;
}

static void add_leaf(LeafWalk *w, Type *t, const char *count) {
  TypeLeaf leaf = {w->path, printer_type(w->printer, t), count};
  VEC_PUSH(w->c->arena, w->leaves, leaf);
}

static void add_tensor_leaf(LeafWalk *w, Type *t) {
  Type *whole = t;
  if (w->lifted_axes->len)
    whole =
        ty_tensor(w->c, t->tensor.elem,
                  shape_concat(w->c, w->lifted_axes, t->tensor.shape), NULL);
  Dim *count = shape_product(w->c, whole->tensor.shape);
  w->total = dim_add(w->c->dims, w->total, count);
  add_leaf(w, whole, printer_dim(w->printer, count));
}

static void walk_type(LeafWalk *w, Type *t) {
  charge_work(w->c, 1);
  t = ty_norm(w->c, t);
  switch (t->tag) {
  case TY_TENSOR:
    add_tensor_leaf(w, t);
    return;
  case TY_RECORD:
    walk_fields(w, t);
    return;
  case TY_TUPLE:
    for (uint32_t i = 0; i < t->count; i++)
      walk_component(w, arena_printf(w->c->arena, "%u", i), t->args[i]);
    return;
  case TY_LIFT:
    walk_lift(w, t);
    return;
  case TY_VAR:
  case TY_CAST:
  case TY_FUN:
  case TY_DATATYPE:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    add_leaf(w, t, NULL);
    return;
  }
}

static bool leaves_of(Checker *c, Scheme *s, TypeLeaves *out) {
  if (!s)
    return false;
  Type *t = ty_norm(c, s->type);
  while (t->tag == TY_FUN)
    t = ty_norm(c, t->fun.result);
  LeafWalk w = {.c = c,
                .printer = printer_new(c, s, true),
                .path = "",
                .lifted_axes = shape_new(c, 0),
                .total = dim_int(c->dims, 0)};
  walk_type(&w, t);
  *out =
      (TypeLeaves){w.leaves.at, w.leaves.len, printer_dim(w.printer, w.total)};
  return true;
}

bool checker_expr_leaves(Checker *c, Module *module, Expr *expr, Diags *diags,
                         TypeLeaves *out) {
  return leaves_of(c, expr_scheme(c, module, expr, diags), out);
}

bool binding_leaves(Checker *c, Binding *b, Diags *diags, TypeLeaves *out) {
  c->diags = diags;
  c->inference.work = 0;
  return leaves_of(c, binding_scheme(c, b), out);
}
