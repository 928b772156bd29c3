/* Annotations: reads the constraints after `given`. */
#include "typecheck/annotation.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

static void annot_class_given(Checker *c, GivenExpr *f, AnnotMode mode) {
  static const struct {
    const char *name;
    uint32_t classes;
  } named[] = {{"num", CLASS_NUM}, {"int", CLASS_INT}, {"float", CLASS_FLOAT}};
  for (size_t i = 0; i < ARRAY_LEN(named); i++)
    if (strcmp(f->id->text, named[i].name) == 0) {
      annot_elem_param(c, f->tyvar, mode, f->span)->classes &= named[i].classes;
      refs_add_size(c, f->span, f->tyvar, false);
      return;
    }
  bool is_data = strcmp(f->id->text, "data") == 0;
  if (is_data || strcmp(f->id->text, "tensors") == 0) {
    TyVar *v = annot_ty_param(c, f->tyvar, mode)->var;
    if (is_data)
      v->is_data = true;
    else
      v->is_stackable = v->is_tensor_element = true;
    refs_add_size(c, f->span, f->tyvar, false);
    return;
  }
  error_at(c, 344, f->span, "there is no class of element types `%s`",
           f->id->text)
      ->help = "the classes of element types are num, int and float.  The "
               "classes of types are data (no functions) and tensors (tensors, "
               "keys, and tuples and records of them)";
}

static bool is_broadcast_expr(const DimExpr *d) {
  return d->kind == DX_CALL && strcmp(d->id->text, "join") == 0;
}

static bool is_shape_expr(const DimExpr *d) {
  return d->kind == DX_SHAPE || is_broadcast_expr(d);
}

static Shape *annot_shape_expr(Checker *c, DimExpr *d, AnnotMode mode) {
  if (d->kind == DX_SHAPE)
    return annot_axes(c, d->axes, mode);
  AxisExpr a = {.kind = AXIS_SPLICE, .span = d->span, .id = d->id};
  if (d->kind == DX_CALL)
    a.is_call = true, a.args = d->axes;
  return annot_axes(c, (Axes){&a, 1}, mode);
}

/* A given constraint of a function is assumed.  At a value, it must hold. */
static void add_given(Checker *c, Constraint k, AnnotMode mode, bool assume) {
  if (c->names.collected_givens) {
    Constraint *copy = NEW(c->arena, Constraint);
    *copy = k;
    VEC_PUSH(c->arena, *c->names.collected_givens, copy);
    return;
  }
  if (!assume && mode == ANNOT_VAL)
    add_constraint(c, k);
  if (!assume)
    return;
  /* assumed in the body, required of callers */
  Constraint *given_constraint = NEW(c->arena, Constraint);
  *given_constraint = k;
  given_constraint->is_given = true;
  given_constraint->level = c->inference.level;
  pending_add(c, given_constraint);
  if (k.kind == CN_DIM_EQ && !k.assumptions)
    assumption_add_unconditional(c, dim_sub(c->dims, k.right, k.left), true);
  else if (k.kind == CN_DIM_LE && !k.assumptions)
    assumption_add_unconditional(c, dim_sub(c->dims, k.right, k.left), false);
}

/* Reads join(s, t) == [n, m], or [n, ...s] == [...t, m]. */
static void annot_shape_given(Checker *c, const GivenExpr *f, AnnotMode mode,
                              bool assume, Origin *o) {
  bool swapped = is_broadcast_expr(f->right);
  DimExpr *a = swapped ? f->right : f->left, *b = swapped ? f->left : f->right;
  if (f->op != REL_EQ) {
    error_at(c, 340, f->span, "shapes can only be compared with ==");
    return;
  }
  if (is_broadcast_expr(a)) {
    annot_broadcast(c, a->axes, a->span, annot_shape_expr(c, b, mode), mode);
    return;
  }
  Constraint k = {.kind = CN_SHAPE_EQ,
                  .a = annot_shape_expr(c, a, mode),
                  .b = annot_shape_expr(c, b, mode),
                  .origin = o};
  add_given(c, k, mode, assume);
}

/* Reads the conditions of a given constraint.  It applies if all of them
   hold. */
static Assumption *given_conditions(Checker *c, const GivenExpr *f,
                                    AnnotMode mode) {
  if (!f || f->kind != GIVEN_REL)
    return NULL;
  Dim *one = dim_int(c->dims, 1);
  Dim *d = dim_sub(c->dims, annot_dim(c, f->right, mode),
                   annot_dim(c, f->left, mode));
  Assumption *cond = NEW(c->arena, Assumption);
  *cond = (Assumption){.relation = f->op == REL_EQ   ? ASSUME_EQ
                                   : f->op == REL_NE ? ASSUME_NE
                                                     : ASSUME_GE,
                       .outer = given_conditions(c, f->condition, mode)};
  switch (f->op) {
  case REL_EQ:
  case REL_NE:
  case REL_LE:
    cond->dim = d;
    break;
  case REL_LT:
    cond->dim = dim_sub(c->dims, d, one);
    break;
  case REL_GE:
    cond->dim = dim_neg(c->dims, d);
    break;
  case REL_GT:
    cond->dim = dim_sub(c->dims, dim_neg(c->dims, d), one);
    break;
  }
  return cond;
}

static void annot_given(Checker *c, GivenExpr *f, AnnotMode mode, bool assume) {
  Origin *o = origin_new(c, ORIGIN_GIVEN, f->span);
  if (f->kind == GIVEN_CLASS) {
    annot_class_given(c, f, mode);
    return;
  }
  if (f->kind == GIVEN_DIM) {
    if (f->left->kind == DX_CALL)
      annot_shape_expr(c, f->left, mode);
    return;
  }
  if (is_shape_expr(f->left) || is_shape_expr(f->right)) {
    annot_shape_given(c, f, mode, assume, o);
    return;
  }
  Dim *a = annot_dim(c, f->left, mode), *b = annot_dim(c, f->right, mode);
  if (f->op == REL_NE && dim_equal(a, b) && !c->names.collected_givens) {
    error_at(c, 372, f->span, "no sizes satisfy this condition");
    return;
  }
  Constraint k = {.kind = CN_DIM_LE, .origin = o};
  Dim *one = dim_int(c->dims, 1);
  switch (f->op) {
  case REL_EQ:
    k.kind = CN_DIM_EQ, k.left = a, k.right = b;
    break;
  case REL_NE:
    k.kind = CN_DIM_NE, k.left = a, k.right = b;
    break;
  case REL_LE:
    k.left = a, k.right = b;
    break;
  case REL_GE:
    k.left = b, k.right = a;
    break;
  case REL_LT:
    k.left = dim_add(c->dims, a, one), k.right = b;
    break;
  case REL_GT:
    k.left = dim_add(c->dims, b, one), k.right = a;
    break;
  }
  k.assumptions = given_conditions(c, f->condition, mode);
  add_given(c, k, mode, assume);
}

/* Checks that a condition mentions only sizes of parameters, or known sizes. */
static void check_sizes_known(Checker *c, const DimExpr *d) {
  if (!d)
    return;
  if (d->kind == DX_SHAPE)
    return; /* may determine its names */
  if (d->kind == DX_CALL) {
    for (uint32_t i = 0; i < d->axes.len; i++)
      if (strcmp(d->id->text, "prod") != 0 && strcmp(d->id->text, "join") != 0)
        check_sizes_known(c, d->axes.at[i].dim);
    return;
  }
  if (d->kind == DX_ID && !annot_size_in_scope(c, d->id))
    error_at(c, 371, d->span, "the size `%s` is not in a parameter",
             d->id->text)
        ->help = "a condition uses only sizes that callers can see";
  check_sizes_known(c, d->arg[0]);
  check_sizes_known(c, d->arg[1]);
}

static void check_given(Checker *c, const GivenExpr *f) {
  if (f->kind == GIVEN_CLASS)
    return;
  if (f->kind == GIVEN_DIM &&
      (f->left->kind != DX_CALL || strcmp(f->left->id->text, "join") != 0))
    error_at(c, 373, f->span, "this is a size, not a condition")->help =
        "write a condition such as `n <= m`, `'a : num` or `join(s, t)`";
  else
    check_sizes_known(c, f->left);
  check_sizes_known(c, f->right);
  if (f->condition)
    check_given(c, f->condition);
}

void annot_givens(Checker *c, Givens givens, AnnotMode mode, bool assume) {
  if (!givens.len)
    return;
  bool unreachable = assumption_inconsistent(c, c->facts.assumptions);
  uint32_t errors = c->diags->errors;
  if (mode == ANNOT_PARAM) /* introduces no names; global sizes are meant */
    mode = ANNOT_VAL;
  for (uint32_t i = 0; i < givens.len; i++) {
    if (!c->names.collected_givens)
      check_given(c, &givens.at[i]);
    if (c->diags->errors > errors)
      return;
    annot_given(c, &givens.at[i], mode, assume);
    if (!assume || unreachable ||
        !assumption_inconsistent(c, c->facts.assumptions))
      continue;
    error_at(c, 372, givens.at[i].span, "no sizes satisfy this condition")
        ->help = i ? "it contradicts the other conditions after `given`"
                   : "sizes are at least 0";
    return;
  }
}
