/* Arguments whose notation depends on what is wanted: axes, ~keep, shapes. */
#include "typecheck/internal.h"

#include <stdlib.h>

static bool literal_axis(Expr *e, long *k) {
  if (e->kind != EX_NUM || e->is_float)
    return false;
  char *end;
  *k = strtol(e->num, &end, 0);
  return *end == 0 && *k > -64 && *k < 64;
}

static Shape *some_axes(Checker *c, long n) {
  Shape *s = shape_new(c, (uint32_t)n);
  for (long i = 0; i < n; i++) {
    s->at[i].tag = IT_SPLICE;
    s->at[i].var = shape_var(c, 1);
  }
  return s;
}

ShapeIt literal_item(Checker *c, Span span) {
  ShapeIt it = {.tag = IT_DIM, .dim = meta_dim(c, NULL, span)};
  dim_as_var(it.dim)->literal = true;
  return it;
}

/* The axes first .. first + count - 1; a negative first counts from the end. */
static void axis_literal(Checker *c, Type *want, long first, long count,
                         Origin *o) {
  Shape *s = first >= 0 ? some_axes(c, first) : shape_any(c);
  Shape *r = some_axes(c, count);
  for (long i = 0; i < count && !c->loose_axis; i++)
    r->at[i] = literal_item(c, o->span);
  Shape *t = first >= 0 ? shape_any(c) : some_axes(c, -first - count);
  if (!decided(c, ROW_AXIS, unify(c, ty_axis(c, s, r, t), want, o))) {
    Diag *d = error_at(c, 316, o->span, "there is no axis %ld here", first);
    d->note = arena_printf(c->arena, "the axes are split as %s",
                           ty_text(c, want));
  }
}

static bool tuple_axes(Expr *e, long *first, long *count) {
  if (e->kind != EX_TUPLE || !e->item_count)
    return false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    long k;
    if (!literal_axis(e->items[i], &k) || (i && k != *first + (long)i))
      return false;
    if (!i)
      *first = k;
  }
  *count = (long)e->item_count;
  return *first >= 0 || *first + *count <= 0;
}

/* (0, 2): numbers, but not adjacent ones. */
static bool literal_axes(Expr *e) {
  long k;
  bool all = e->kind == EX_TUPLE && e->item_count > 0;
  for (uint32_t i = 0; all && i < e->item_count; i++)
    all = literal_axis(e->items[i], &k);
  return all;
}

Core *check_axis(Checker *c, Expr *e, Type *want, Origin *o) {
  long first, count = 1;
  if (literal_axis(e, &first) || tuple_axes(e, &first, &count)) {
    axis_literal(c, want, first, count, o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  if (e->kind == EX_ID && e->id == c->sym_all) {
    Binding *b = lookup(c, NULL, e->id);
    if (!b || b->kind == BK_PRIM) {
      Shape *none = shape_new(c, 0);
      if (!unify(c, ty_axis(c, none, shape_any(c), none), want, o))
        mismatch(c, ty_axis(c, none, shape_any(c), none), want, o);
      return core_new(c, CORE_AXIS_ALL, e->span);
    }
  }
  Type *t;
  Core *core = infer(c, e, &t);
  Type *n = ty_norm(c, t);
  if (n->tag == TY_TENSOR || n->tag == TY_TUPLE) {
    error_at(c, 317, e->span, "an axis is a literal number, a tuple of "
                              "adjacent ones, `all`, or a parameter that "
                              "takes an axis")
        ->help = literal_axes(e)
                     ? "the axes of a tuple follow one another: reduce in two "
                       "steps, as in `mean ~axis:0 (mean ~axis:(2, 3) x)`, or "
                       "`permute` them together first"
                     : "write the number here: shapes are known before the "
                       "program runs";
    return core;
  }
  return flow(c, core, t, want, o);
}

Core *check_keep(Checker *c, Expr *e, Type *want, Origin *o) {
  if (e->kind == EX_CON && (e->id == c->sym_true || e->id == c->sym_false)) {
    if (e->id == c->sym_true)
      demand(c, (Constraint){.kind = CN_KEEP, .origin = o, .a = want->axis[0],
                             .b = want->axis[1]});
    else if (!decided(c, ROW_KEEP,
                      unify_shape(c, want->axis[0], shape_new(c, 0), o)))
      report_shapes(c, want->axis[0], shape_new(c, 0), o);
    Type *ignored;
    return infer(c, e, &ignored);
  }
  Type *t;
  Core *core = infer(c, e, &t);
  if (ty_norm(c, t)->tag == TY_TENSOR) {
    error_at(c, 317, e->span,
             "~keep is a literal true or false, or a parameter that takes one");
    return core;
  }
  return flow(c, core, t, want, o);
}

/* [n, 3], [b, _], [...s, 4] where a shape is wanted. */
Core *check_shape_bracket(Checker *c, Expr *e, Type *want, Origin *o) {
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
    Origin *oi = origin_new(c, OR_ELEMENT, item->span);
    oi->expr = item;
    Type *t;
    if (item->kind == EX_HOLE) {
      one->at[0].dim = meta_dim(c, NULL, item->span);
      dim_as_var(one->at[0].dim)->hole = true;
      Filled hole = {dim_as_var(one->at[0].dim), e->span};
      VEC_PUSH(c->arena, c->holes, hole);
      core->items[i] = core_new(c, CORE_DIM, item->span);
      core->items[i]->dim = one->at[0].dim;
      core->items[i]->flag = true;
      if (holes++)
        error_at(c, 318, item->span, "only one _ can be solved for");
    } else if (e->splices && e->splices[i]) {
      one = shape_any(c);
      core->splices[i] = true;
      core->items[i] = check(c, item, ty_shape(c, one), oi);
    } else {
      core->items[i] = infer(c, item, &t);
      Type *n = ty_norm(c, t);
      if (n->tag == TY_TENSOR && n->term &&
          !(elem_root(n->elem)->classes & CLASS_INT))
        n->term = NULL;
      Type *want_int = ty_int(c, meta_term(c, item->span));
      core->items[i] = flow(c, core->items[i], t, want_int, oi);
      Dim *d = dim_resolve(c->dims, want_int->term);
      if (dim_has_top(d))
        d = size_of(c, item, &core->items[i], ty_int(c, NULL));
      demand_le(c, dim_int(c->dims, 0), d, oi);
      one->at[0].dim = d;
      zero |= dim_is_const(dim_resolve(c->dims, d)) &&
              !dim_sign(dim_resolve(c->dims, d));
    }
    s = shape_concat(c, s, one);
  }
  if (holes && zero && o->prim == PRIM_RESHAPE)
    error_at(c, 318, e->span, "a _ beside a size of 0 could be any size");
  if (!unify(c, ty_shape(c, s), want, o))
    mismatch(c, ty_shape(c, s), want, o);
  return core;
}
