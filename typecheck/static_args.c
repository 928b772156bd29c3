/* Arguments whose syntax depends on the expected type: axes, ~keep, shapes. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"

#include <stdlib.h>
#include <string.h>

static bool parse_axis(Expr *e, long *k) {
  if (e->kind != EX_NUM || e->is_float)
    return false;
  char *end;
  *k = strtol(e->num, &end, 0);
  return *end == 0 && *k > -64 && *k < 64;
}

static Shape *single_axis_metas(Checker *c, long n) {
  Shape *s = shape_new(c, (uint32_t)n);
  for (long i = 0; i < n; i++) {
    s->axes[i].tag = SHAPE_SPLICE;
    s->axes[i].var = shape_var_new(c, 1);
  }
  return s;
}

ShapeAxis shape_literal_axis(Checker *c, Span span) {
  ShapeAxis it = {.tag = SHAPE_DIM, .dim = meta_dim(c, NULL, span)};
  it.stretch = NEW(c->arena, Stretch);
  it.stretch->state = STRETCH_OPEN;
  return it;
}

/* The axes from `first` to first + count - 1.  A negative `first` counts from
   the end. */
static void unify_literal_axes(Checker *c, Type *expected, long first,
                               long count, Origin *o) {
  Shape *s = first >= 0 ? single_axis_metas(c, first) : shape_meta(c);
  Shape *r = single_axis_metas(c, count);
  for (long i = 0; i < count && !c->inference.axis_may_be_star; i++)
    r->axes[i] = shape_literal_axis(c, o->span);
  Shape *t = first >= 0 ? shape_meta(c) : single_axis_metas(c, -first - count);
  if (!stats_count_decided(c, CONSTRAINT_AXIS,
                           unify(c, ty_axis(c, s, r, t), expected, o))) {
    Diag *d = error_at(c, 316, o->span, "there is no axis %ld here", first);
    d->note = arena_printf(c->arena, "the groups of axes are %s",
                           ty_text(c, expected));
  }
}

static bool parse_adjacent_axes(Expr *e, long *first, long *count) {
  if (e->kind != EX_TUPLE || !e->item_count)
    return false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    long k;
    if (!parse_axis(e->items[i], &k) || (i && k != *first + (long)i))
      return false;
    if (!i)
      *first = k;
  }
  *count = (long)e->item_count;
  return *first >= 0 || *first + *count <= 0;
}

/* (0, 2): numbers that are not adjacent. */
static bool is_tuple_of_numbers(Expr *e) {
  long k;
  bool all = e->kind == EX_TUPLE && e->item_count > 0;
  for (uint32_t i = 0; all && i < e->item_count; i++)
    all = parse_axis(e->items[i], &k);
  return all;
}

Core *check_axis(Checker *c, Expr *e, Type *expected, Origin *o) {
  long first, count = 1;
  if (parse_axis(e, &first) || parse_adjacent_axes(e, &first, &count)) {
    unify_literal_axes(c, expected, first, count, o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  if (e->kind == EX_ID && e->id == c->builtins.sym_all) {
    Binding *b = lookup(c, NULL, e->id);
    if (!b || b->kind == BK_PRIM) {
      Shape *none = shape_new(c, 0);
      if (!unify(c, ty_axis(c, none, shape_meta(c), none), expected, o))
        report_type_mismatch(c, ty_axis(c, none, shape_meta(c), none), expected,
                             o);
      return core_new(c, CORE_ALL_AXES, e->span);
    }
  }
  Type *t;
  Core *core = infer(c, e, &t);
  Type *n = ty_norm(c, t);
  if (n->tag == TY_TENSOR || n->tag == TY_TUPLE) {
    error_at(c, 317, e->span,
             "an axis must be a literal number, a tuple of adjacent numbers, "
             "`all`, or an axis parameter")
        ->help =
        is_tuple_of_numbers(e)
            ? "the axes of a tuple must be adjacent: reduce in two steps, as "
              "in `mean ~axis:0 (mean ~axis:(2, 3) x)`, or `permute` the axes "
              "first"
            : "write the number here: it determines the shape at compile time";
    return core;
  }
  return subsume(c, core, t, expected, o);
}

Core *check_keep(Checker *c, Expr *e, Type *expected, Origin *o) {
  if (e->kind == EX_CON &&
      (e->id == c->builtins.sym_true || e->id == c->builtins.sym_false)) {
    if (e->id == c->builtins.sym_true)
      add_constraint(c, (Constraint){.kind = CN_KEEP,
                                     .origin = o,
                                     .a = expected->axis[0],
                                     .b = expected->axis[1]});
    else if (!stats_count_decided(
                 c, CONSTRAINT_KEEP,
                 unify_shape(c, expected->axis[0], shape_new(c, 0), o)))
      report_shapes(c, expected->axis[0], shape_new(c, 0), o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  Type *t;
  Core *core = infer(c, e, &t);
  if (ty_norm(c, t)->tag == TY_TENSOR) {
    error_at(c, 317, e->span,
             "~~keep must be literal true or false, or a parameter of the same "
             "kind");
    return core;
  }
  return subsume(c, core, t, expected, o);
}

/* [n, 3], [b, _], [...s, 4] where a shape is expected. */
Core *check_shape_bracket(Checker *c, Expr *e, Type *expected, Origin *o) {
  Core *core = core_new(c, CORE_SHAPE, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  core->splices = NEW_ARRAY(c->arena, bool, e->item_count);
  Shape *s = shape_new(c, 0);
  uint32_t holes = 0;
  bool zero = false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Expr *item = e->items[i];
    Shape *one = shape_new(c, 1);
    Origin *oi = origin_new(c, ORIGIN_ELEMENT, item->span);
    oi->expr = item;
    Type *t;
    bool is_minus_one = o->prim == PRIM_RESHAPE && item->kind == EX_NUM &&
                        strcmp(item->num, "-1") == 0;
    if (is_minus_one)
      error_at(c, 306, item->span, "a size is at least 0; found -1")->help =
          "for the size that follows from the others, write `_`";
    if (item->kind == EX_HOLE || is_minus_one) {
      one->axes[0].dim = meta_dim(c, NULL, item->span);
      dim_as_var(one->axes[0].dim)->reshape_hole = true;
      ReshapeHole hole = {dim_as_var(one->axes[0].dim), e->span};
      VEC_PUSH(c->arena, c->solver.reshape_holes, hole);
      core->items[i] = core_new(c, CORE_DIM, item->span);
      core->items[i]->dim = one->axes[0].dim;
      core->items[i]->flag = true;
      if (holes++)
        error_at(c, 318, item->span, "at most one _ can be inferred");
    } else if (e->splices && e->splices[i]) {
      one = shape_meta(c);
      core->splices[i] = true;
      core->items[i] = check(c, item, ty_shape(c, one), oi);
    } else {
      core->items[i] = infer(c, item, &t);
      Type *n = ty_norm(c, t);
      if (n->tag == TY_TENSOR && n->tensor.singleton &&
          !(elem_root(n->tensor.elem)->classes & CLASS_INT))
        n->tensor.singleton = NULL;
      Type *want_int = ty_int(c, meta_integer(c, item->span));
      core->items[i] = subsume(c, core->items[i], t, want_int, oi);
      Dim *d = dim_resolve(c->dims, want_int->tensor.singleton);
      if (dim_has_unknown(d))
        d = int_to_size(c, item, &core->items[i], ty_int(c, NULL));
      add_size_le(c, dim_int(c->dims, 0), d, oi);
      one->axes[0].dim = d;
      zero |= dim_is_const(dim_resolve(c->dims, d)) &&
              !dim_sign(dim_resolve(c->dims, d));
    }
    s = shape_concat(c, s, one);
  }
  if (holes && zero && o->prim == PRIM_RESHAPE)
    error_at(c, 318, e->span,
             "cannot infer _: another size is 0, so any size is possible");
  if (!unify(c, ty_shape(c, s), expected, o))
    report_type_mismatch(c, ty_shape(c, s), expected, o);
  return core;
}
