/* Sizes that differ from call to call, or from item to item.
 *
 * Each call of a function decides existential sizes anew, so its results have
 * no single type.  If such a function is passed as an argument, its results
 * have `?` where the callee leaves their type open.  If the callee treats their
 * sizes as one size, or stacks the results to a tensor, a run-time check tests
 * that they agree.  The same holds for items of a list whose type has a `?`. */
#include "typecheck/internal.h"
#include "support/arena.h"

static void note_results_must_agree(Checker *c, Span span) {
  note_runtime_check(c, span, "the sizes of the results agree",
                     "each call has its own size");
}

typedef struct VaryingSizes {
  uint32_t mark; /* existential sizes from this id on vary; or PACKED_ONLY */
  Map dependent; /* set of the sizes that depend on these */
  bool existential, unknown;
} VaryingSizes;

static void note_varying(void *arg, DimVar *v) {
  VaryingSizes *p = arg;
  p->unknown |= v->unknown;
  p->existential |= dim_var_is_packed(v) || map_get(&p->dependent, v) ||
                    (v->kind == DV_EXISTENTIAL && v->id >= p->mark &&
                     v->level != LEVEL_GENERIC);
}

/* True if a size or an integer varies from call to call. */
static bool has_varying_size(Checker *c, Type *t, uint32_t mark) {
  VaryingSizes p = {.mark = mark};
  map_init(&p.dependent, c->arena);
  dependent_varying(c, mark, &p.dependent);
  TypeVisitor visit = {.dim = note_varying, .arg = &p, .c = c};
  ty_visit(&visit, t);
  return p.existential;
}

/* True if a size of a tensor varies or is unknown. */
static bool has_varying_or_unknown_size(Checker *c, Type *t, uint32_t mark) {
  VaryingSizes p = {.mark = mark};
  map_init(&p.dependent, c->arena);
  dependent_varying(c, mark, &p.dependent);
  TypeVisitor visit = {
      .dim = note_varying, .arg = &p, .c = c, .shapes_only = true};
  ty_visit(&visit, t);
  return p.existential || p.unknown;
}

/* A value of type `actual` is used where `expected` is required.  Returns true
   if varying sizes must be one size.  A variable that nothing else determines
   then becomes an existential size: later uses cannot choose it. */
static bool must_be_one_shape(Checker *c, Type *actual, Type *expected,
                              Span span) {
  Shape *g = shape_norm(c, actual->tensor.shape),
        *w = shape_norm(c, expected->tensor.shape);
  bool differ = false;
  for (uint32_t i = 0; i < g->len; i++) {
    VaryingSizes p = {.mark = PACKED_ONLY};
    if (g->axes[i].tag == SHAPE_DIM)
      dim_each_var(g->axes[i].dim, note_varying, NULL, &p);
    if (!p.existential && !p.unknown)
      continue;
    ShapeAxis *to = w->len == g->len ? &w->axes[i] : NULL;
    DimVar *v = NULL;
    if (to && to->tag == SHAPE_DIM) {
      if (dim_has_unknown(to->dim) || (!p.unknown && !dim_has_metas(to->dim)))
        continue; /* any size is accepted, or the sizes are compared */
      v = dim_as_var(to->dim);
    }
    differ = true;
    if (p.unknown && v && v->kind == DV_META && !v->solution) {
      Dim *some = existential_dim(c, NULL, span);
      dim_var_set_inaccessible(dim_as_var(some));
      dim_bind(c, v, some);
    }
  }
  return differ;
}

/* ---- functions that have a type already ---- */

static Type *with_result(Checker *c, Type *fun, Type *result) {
  if (result == fun->fun.result)
    return fun;
  Type *r = ty_new(c, TY_FUN);
  *r = *fun;
  r->fun.result = result;
  return r;
}

static Type *widen_result(Checker *c, Type *actual, Type *expected, Span span);

static Type *widen_components(Checker *c, Type *actual, Type *expected,
                              Span span) {
  Type *r = ty_new(c, actual->tag);
  *r = *actual;
  r->args = NEW_ARRAY(c->arena, Type *, actual->count);
  for (uint32_t i = 0; i < actual->count; i++) {
    Type *w = NULL;
    for (uint32_t k = 0; k < expected->count; k++)
      if (actual->tag == TY_RECORD
              ? expected->record.labels[k] == actual->record.labels[i]
              : k == i)
        w = expected->args[k];
    r->args[i] =
        w ? widen_result(c, actual->args[i], w, span) : actual->args[i];
  }
  return r;
}

static Type *widen_result(Checker *c, Type *actual, Type *expected, Span span) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (expected->tag == TY_VAR)
    return has_varying_size(c, actual, PACKED_ONLY)
               ? ty_forget_local_sizes(c, actual, 0, FORGET_PACKED)
               : actual;
  if (actual->tag != expected->tag)
    return actual;
  switch (actual->tag) {
  case TY_FUN:
    return with_result(
        c, actual,
        widen_result(c, actual->fun.result, expected->fun.result, span));
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATATYPE:
    return widen_components(c, actual, expected, span);
  case TY_TENSOR:
    if (must_be_one_shape(c, actual, expected, span))
      note_results_must_agree(c, span);
    return actual;
  case TY_VAR:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
  case TY_LIFT:
  case TY_CAST:
    return actual;
  }
  return actual;
}

Type *fun_widen_results(Checker *c, Type *actual, Type *expected, Span span) {
  return actual->tag == TY_FUN && expected->tag == TY_FUN
             ? widen_result(c, actual, expected, span)
             : actual;
}

/* ---- functions written where they are handed on ---- */

static void forget_result_sizes(Checker *c, Type *expected, uint32_t mark,
                                Span span) {
  TyVar *v = NULL;
  for (; expected->tag == TY_VAR && expected->var->link;
       expected = expected->var->link)
    v = expected->var;
  switch (expected->tag) {
  case TY_TENSOR:
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATATYPE:
  case TY_LIFT:
  case TY_CAST:
    break;
  case TY_VAR:
  case TY_FUN:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    return;
  }
  if (!has_varying_size(c, expected, mark))
    return;
  if (v)
    v->link = ty_forget_local_sizes(c, expected, mark, FORGET_NEW);
  else if (!ty_has_args(expected))
    note_results_must_agree(c, span);
  else
    for (uint32_t i = 0; i < expected->count; i++)
      forget_result_sizes(c, expected->args[i], mark, span);
}

void lambda_widen_results(Checker *c, Type *expected, uint32_t arity,
                          uint32_t mark, Span span) {
  expected = ty_root(expected);
  for (; arity && expected->tag == TY_FUN; arity--)
    expected = expected->fun.result; /* its variables are wanted unchanged */
  if (!arity)
    forget_result_sizes(c, expected, mark, span);
}

/* ---- what makes a tensor of all results ---- */

typedef struct Lifted {
  Checker *c;
  bool differ;
} Lifted;

static void note_lifted(Lifted *l, Type *t, int depth) {
  t = ty_root(t);
  if (depth > 16)
    return;
  if (t->tag == TY_LIFT)
    l->differ |= has_varying_or_unknown_size(l->c, t->lift.type, PACKED_ONLY);
  if (t->tag == TY_FUN) {
    note_lifted(l, t->fun.param, depth + 1);
    note_lifted(l, t->fun.result, depth + 1);
  }
  if (t->tag == TY_TUPLE || t->tag == TY_RECORD)
    for (uint32_t i = 0; i < t->count; i++)
      note_lifted(l, t->args[i], depth + 1);
}

void note_lifted_results_agree(Checker *c, Type *fun, Span span) {
  Lifted l = {c, false};
  note_lifted(&l, fun, 0);
  if (l.differ)
    note_results_must_agree(c, span);
}

Type *for_body_widen(Checker *c, Type *body, uint32_t mark, Span span) {
  if (!has_varying_or_unknown_size(c, body, mark))
    return body;
  note_results_must_agree(c, span);
  return ty_forget_local_sizes(c, body, mark, FORGET_NEW);
}

/* ---- lists ---- */

static bool items_must_be_one_shape(Checker *c, Type *actual, Type *expected,
                                    Span span) {
  actual = ty_norm(c, actual), expected = ty_norm(c, expected);
  if (actual->tag == TY_TENSOR && expected->tag == TY_TENSOR)
    return must_be_one_shape(c, actual, expected, span);
  bool differ = false;
  if (actual->tag == expected->tag && ty_has_args(actual) &&
      actual->count == expected->count)
    for (uint32_t i = 0; i < actual->count; i++)
      differ |=
          items_must_be_one_shape(c, actual->args[i], expected->args[i], span);
  return differ;
}

void note_list_items_agree(Checker *c, Type *actual, Type *expected,
                           Span span) {
  if (actual->tag == TY_DATATYPE && expected->tag == TY_DATATYPE &&
      actual->data.type == expected->data.type &&
      items_must_be_one_shape(c, actual, expected, span))
    note_runtime_check(c, span, "the sizes of the items agree",
                       "the size is unknown");
}

/* True if a function of this type takes values with `?` sizes.  A name is then
   instantiated anew for each of them. */
static void note_unknown(void *arg, DimVar *v) {
  *(bool *)arg |= v->unknown;
}

bool fun_takes_unknown_sizes(Checker *c, Type *fun) {
  bool found = false;
  TypeVisitor visit = {.dim = note_unknown, .arg = &found, .c = c};
  for (fun = ty_norm(c, fun); fun->tag == TY_FUN;
       fun = ty_norm(c, fun->fun.result)) {
    if (fun->fun.label)
      return false;
    Type *p = ty_norm(c, fun->fun.param);
    if (p->tag == TY_TENSOR || p->tag == TY_TUPLE || p->tag == TY_RECORD)
      ty_visit(&visit, p);
  }
  return found;
}

/* ---- recursive functions ---- */

bool result_size_varies(Checker *c, Type *result, uint32_t mark) {
  return has_varying_or_unknown_size(c, result, mark);
}

static Type *fresh_type(TypeMapper *copy, TyVar *v) {
  (void)v;
  return ty_meta(copy->c);
}

static ElemVar *fresh_elem(TypeMapper *copy, ElemVar *v) {
  return elem_meta(copy->c, v->classes);
}

static Dim *fresh_dim(TypeMapper *copy, DimVar *v) {
  Dim *d = meta_dim(copy->c, v->name, v->origin);
  if (v->unknown || v->kind == DV_EXISTENTIAL)
    dim_set_unknown(copy->c->dims, dim_as_var(d));
  return d;
}

static Shape *fresh_shape(TypeMapper *copy, ShapeVar *v) {
  return shape_of_var(copy->c, shape_var_new(copy->c, v->fixed_rank));
}

Type *result_fresh_copy(Checker *c, Type *result) {
  TypeMapper copy = {.c = c,
                     .ty = fresh_type,
                     .elem = fresh_elem,
                     .dim = fresh_dim,
                     .shape = fresh_shape,
                     .drop_singletons = true};
  map_init(&copy.map, c->arena);
  return ty_copy(&copy, result);
}

Type *fun_with_fresh_result(Checker *c, Type *fun, uint32_t arity) {
  if (!arity)
    return ty_meta(c);
  fun = ty_norm(c, fun);
  return with_result(c, fun,
                     fun_with_fresh_result(c, fun->fun.result, arity - 1));
}
