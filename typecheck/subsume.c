/* Subsumption: a value of one type is used where another is expected.  Also the
   join of the types of two branches.  Main entry points: subsume and
   ty_join. */
#include "typecheck/internal.h"
#include "support/arena.h"

/* A singleton that can be retracted.  `site` is the expression where a second
   pass retracts it from the start. */
static Dim *retractable_singleton(Checker *c, Dim *singleton, Expr *site) {
  Dim *soft = meta_integer(c, (Span){0});
  DimVar *v = dim_as_var(soft);
  charge_work(c, 4 * COPY_WORK); /* cost of a variable and its data */
  v->solution = singleton;
  v->user_data = site;
  return soft;
}

/* A copy with retractable singletons.  `site` is the expression where a second
   pass retracts them from the start. */
static Type *ty_make_retractable(Checker *c, Type *t, Expr *site) {
  t = ty_norm(c, t);
  charge_work(c, COPY_WORK);
  if (t->tag == TY_TENSOR && t->tensor.singleton) {
    Dim *singleton = ty_singleton(c, t);
    if (!singleton)
      return t->tensor.singleton &&
                     dim_has_unknown(dim_resolve(c->dims, t->tensor.singleton))
                 ? ty_tensor(c, t->tensor.elem, t->tensor.shape, NULL)
                 : t;
    if (site && map_get(&c->inference.retracted_singletons, site))
      return ty_tensor(c, t->tensor.elem, t->tensor.shape, NULL);
    return ty_tensor(c, t->tensor.elem, t->tensor.shape,
                     retractable_singleton(c, t->tensor.singleton, site));
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATATYPE)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = ty_make_retractable(c, t->args[i], site);
  return r;
}

/* A function passed as a value loses its optional labels: a wrapper supplies
   the defaults. */
static Type *apply_optional_defaults(Checker *c, Type *actual, Type *expected,
                                     Core **core, Origin *o) {
  uint32_t n = 0;
  Type *t = ty_norm(c, actual);
  while (t->tag == TY_FUN && t->fun.optional &&
         !(expected->tag == TY_FUN && expected->fun.label == t->fun.label)) {
    if (t->fun.default_type)
      unify(c, t->fun.param, t->fun.default_type, o);
    t = ty_norm(c, t->fun.result);
    n++;
  }
  if (!n || !*core)
    return t;
  Core *app = core_new(c, CORE_APP, (*core)->span);
  app->items = NEW_ARRAY(c->arena, Core *, n + 1);
  app->items[app->item_count++] = *core;
  for (uint32_t i = 0; i < n; i++)
    app->items[app->item_count++] = core_new(c, CORE_ABSENT, (*core)->span);
  *core = app;
  return t;
}

static bool subsume_singleton(Checker *c, Core **core, Type *actual,
                              Type *expected, Origin *o) {
  if (!expected->tensor.singleton ||
      !(elem_root(expected->tensor.elem)->classes & CLASS_INT))
    return true;
  Shape *s = shape_norm(c, expected->tensor.shape);
  if (s->len && shape_has_known_rank(s)) {
    return true;
  }
  Dim *d = dim_resolve(c->dims, expected->tensor.singleton);
  if (dim_has_unknown(d))
    return true;
  bool known = actual->tensor.singleton &&
               !dim_has_unknown(dim_resolve(c->dims, actual->tensor.singleton));
  DimVar *v = unsolved_singleton(d);
  bool free = v && v->is_integer && !v->solution;
  if (known && free && o->expr &&
      map_get(&c->inference.retracted_singletons, o->expr))
    known = false;
  if (known && free &&
      !dim_mentions(c->dims, dim_resolve(c->dims, actual->tensor.singleton),
                    v)) {
    dim_bind(c, v, retractable_singleton(c, actual->tensor.singleton, o->expr));
    return true;
  }
  if (known)
    return unify_singleton(c, actual->tensor.singleton,
                           expected->tensor.singleton, o);
  if (free) {
    retract_singleton(c, v);
    return true;
  }
  if (s->len) /* may not be a scalar */
    return true;
  Dim *size = int_to_size(c, o->expr, core, actual);
  return unify_singleton(c, size, expected->tensor.singleton, o);
}

Core *subsume(Checker *c, Core *core, Type *actual, Type *expected, Origin *o) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (actual->tag == TY_FUN && actual->fun.optional)
    actual = apply_optional_defaults(c, actual, expected, &core, o);
  if (!o->actual)
    o->actual = actual, o->expected = expected;
  if (o->kind == ORIGIN_ARG)
    actual = fun_widen_results(c, actual, expected, o->span);
  note_list_items_agree(c, actual, expected, o->span);
  bool ok;
  if (actual->tag == TY_VAR && !actual->var->skolem &&
      expected->tag == TY_TENSOR && !expected->tensor.singleton &&
      (elem_root(expected->tensor.elem)->classes & CLASS_INT)) {
    /* the unknown value may be an integer: keep its singleton */
    ok = unify(c, actual,
               ty_tensor(c, expected->tensor.elem, expected->tensor.shape,
                         meta_integer(c, (Span){0})),
               o);
  } else if (expected->tag == TY_VAR && !expected->var->skolem) {
    if (o->kind == ORIGIN_ARG && o->arg.is_loop_state)
      actual = ty_forget_local_sizes(c, actual, 0, FORGET_FROM_UNKNOWN);
    ok = unify(c, ty_make_retractable(c, actual, o->expr), expected, o);
  } else if (actual->tag == TY_TENSOR && expected->tag == TY_TENSOR) {
    ok = unify_tensor_elems(c, actual, expected, o) &&
         unify_shape(c, actual->tensor.shape, expected->tensor.shape, o) &&
         subsume_singleton(c, &core, actual, expected, o);
  } else if (actual->tag == TY_TUPLE && expected->tag == TY_TUPLE &&
             actual->count == expected->count) {
    ok = true;
    for (uint32_t i = 0; i < actual->count; i++) {
      Type *g = ty_norm(c, actual->args[i]), *w = ty_norm(c, expected->args[i]);
      if (w->tag == TY_VAR)
        g = ty_make_retractable(c, g, o->expr);
      if (w->tag == TY_TENSOR && g->tag == TY_TENSOR && !w->tensor.singleton)
        g = ty_forget_singletons(c, g);
      ok = ok && unify(c, g, w, o);
    }
  } else if (actual->tag == TY_FUN && expected->tag == TY_FUN &&
             effect_root(actual->fun.effect)->tag == EF_PURE &&
             effect_root(expected->fun.effect)->tag == EF_IMPURE) {
    ok = actual->fun.label == expected->fun.label &&
         unify(c, actual->fun.param, expected->fun.param, o) &&
         unify(c, actual->fun.result, expected->fun.result, o);
  } else {
    ok = unify(c, actual, expected, o);
  }
  if (!ok)
    report_type_mismatch(c, actual, expected, o);
  return core;
}

/* a, with the axes that are `?` in b. */
static Shape *with_unknown_axes(Checker *c, Shape *a, Shape *b) {
  a = shape_norm(c, a), b = shape_norm(c, b);
  if (a->len != b->len)
    return a;
  Shape *r = shape_new(c, a->len);
  for (uint32_t i = 0; i < a->len; i++)
    r->axes[i] = a->axes[i].tag == SHAPE_DIM && b->axes[i].tag == SHAPE_DIM &&
                         dim_has_unknown(b->axes[i].dim)
                     ? b->axes[i]
                     : a->axes[i];
  return r;
}

/* The join of two types: different singletons are forgotten, and `?` absorbs
   sizes. */
Type *ty_join(Checker *c, Type *a, Type *b, Origin *o) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag == TY_TENSOR && b->tag == TY_TENSOR) {
    Dim *x = ty_singleton(c, a), *y = ty_singleton(c, b);
    Dim *singleton = x && y && dim_equal(x, y) ? x : NULL;
    Shape *shape = with_unknown_axes(c, a->tensor.shape, b->tensor.shape);
    Type *ta = ty_tensor(c, a->tensor.elem, shape, NULL);
    Type *tb = ty_tensor(c, b->tensor.elem, b->tensor.shape, NULL);
    if (!unify(c, ta, tb, o))
      report_type_mismatch(c, b, a, o);
    ta->tensor.singleton = singleton;
    return ta;
  }
  if (a->tag == TY_TUPLE && b->tag == TY_TUPLE && a->count == b->count) {
    Type *t = ty_tuple(c, a->count, a->args);
    for (uint32_t i = 0; i < a->count; i++)
      t->args[i] = ty_join(c, a->args[i], b->args[i], o);
    return t;
  }
  a = ty_forget_singletons(c, a), b = ty_forget_singletons(c, b);
  if (!unify(c, a, b, o))
    report_type_mismatch(c, b, a, o);
  return a;
}
