/* Sizes that differ from call to call, or from item to item.
 *
 * What data decides is decided anew each time a function is called: the type
 * of its result is then no one type.  A function that is handed on gives
 * results with `?` where the one that takes it leaves their type open; where
 * that one takes their sizes for one size, or makes a tensor of all of them,
 * that they agree is left to the running program.  So it is for the items of
 * a list whose type has a `?`. */
#include "typecheck/internal.h"

static void note_differ(Checker *c, Span span) {
  open_note(c, span, "the sizes of the results agree",
            "each call decides its own");
}

enum { NO_MARK = UINT32_MAX };

typedef struct PerCall {
  uint32_t mark; /* sizes of data that are as new as this differ; NO_MARK */
  bool data, top;
} PerCall;

static void find_per_call(void *arg, DimVar *v) {
  PerCall *p = arg;
  p->top |= v->top;
  p->data |= dim_is_unopened(v) ||
             (v->kind == DV_DATA && v->id >= p->mark &&
              v->level != LEVEL_GENERIC);
}

/* A size, or an integer, that each call decides. */
static bool decides(Checker *c, Type *t, uint32_t mark) {
  PerCall p = {.mark = mark};
  Visit look = {.dim = find_per_call, .arg = &p, .c = c};
  ty_visit(&look, t);
  return p.data;
}

/* A size of a tensor that does, or that nobody knows. */
static bool differs(Checker *c, Type *t, uint32_t mark) {
  PerCall p = {.mark = mark};
  Visit look = {.dim = find_per_call, .arg = &p, .c = c, .shapes = true};
  ty_visit(&look, t);
  return p.data || p.top;
}

/* Of a value whose shape is `got`, where `want` is wanted: true if what differs
 * is to be one size.  One that nothing else decides is then some size: it is
 * not whatever its next use needs. */
static bool one_shape(Checker *c, Type *got, Type *want, Span span) {
  Shape *g = shape_norm(c, got->shape), *w = shape_norm(c, want->shape);
  bool differ = false;
  for (uint32_t i = 0; i < g->len; i++) {
    PerCall p = {.mark = NO_MARK};
    if (g->at[i].tag == IT_DIM)
      dim_each_var(g->at[i].dim, find_per_call, NULL, &p);
    if (!p.data && !p.top)
      continue;
    ShapeIt *to = w->len == g->len ? &w->at[i] : NULL;
    DimVar *v = NULL;
    if (to && to->tag == IT_DIM) {
      if (dim_has_top(to->dim) || (!p.top && !dim_may_change(to->dim)))
        continue; /* any size will do; or it is compared with that one */
      v = dim_as_var(to->dim);
    }
    differ = true;
    if (p.top && v && v->kind == DV_META && !v->bound) {
      Dim *some = data_dim(c, NULL, span);
      dim_leave_nowhere(dim_as_var(some));
      dim_bind(c, v, some);
    }
  }
  return differ;
}

/* ---- functions that have a type already ---- */

static Type *with_result(Checker *c, Type *fun, Type *result) {
  if (result == fun->arg[1])
    return fun;
  Type *r = ty_new(c, TY_FUN);
  *r = *fun;
  r->arg[1] = result;
  return r;
}

static Type *result_per_call(Checker *c, Type *got, Type *want, Span span);

static Type *parts_per_call(Checker *c, Type *got, Type *want, Span span) {
  Type *r = ty_new(c, got->tag);
  *r = *got;
  r->args = NEW_ARRAY(c->arena, Type *, got->count);
  for (uint32_t i = 0; i < got->count; i++) {
    Type *w = NULL;
    for (uint32_t k = 0; k < want->count; k++)
      if (got->tag == TY_RECORD ? want->labels[k] == got->labels[i] : k == i)
        w = want->args[k];
    r->args[i] = w ? result_per_call(c, got->args[i], w, span) : got->args[i];
  }
  return r;
}

static Type *result_per_call(Checker *c, Type *got, Type *want, Span span) {
  got = ty_norm(c, got), want = ty_norm(c, want);
  if (want->tag == TY_VAR)
    return decides(c, got, NO_MARK) ? ty_leave(c, got, 0, LEAVE_UNOPENED)
                                    : got;
  if (got->tag != want->tag)
    return got;
  switch (got->tag) {
  case TY_FUN:
    return with_result(
        c, got, result_per_call(c, got->arg[1], want->arg[1], span));
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATA:
    return parts_per_call(c, got, want, span);
  case TY_TENSOR:
    if (one_shape(c, got, want, span))
      note_differ(c, span);
    return got;
  case TY_VAR:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
  case TY_LIFT:
    return got;
  }
  return got;
}

Type *fun_per_call(Checker *c, Type *got, Type *want, Span span) {
  return got->tag == TY_FUN && want->tag == TY_FUN
             ? result_per_call(c, got, want, span)
             : got;
}

/* ---- functions written where they are handed on ---- */

static void leave_results(Checker *c, Type *want, uint32_t mark, Span span) {
  TyVar *v = NULL;
  for (; want->tag == TY_VAR && want->var->link; want = want->var->link)
    v = want->var;
  switch (want->tag) {
  case TY_TENSOR:
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATA:
  case TY_LIFT:
    break;
  case TY_VAR:
  case TY_FUN:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    return;
  }
  if (!decides(c, want, mark))
    return;
  if (v)
    v->link = ty_leave(c, want, mark, LEAVE_NEW);
  else if (want->tag == TY_TENSOR || want->tag == TY_LIFT)
    note_differ(c, span);
  else
    for (uint32_t i = 0; i < want->count; i++)
      leave_results(c, want->args[i], mark, span);
}

void lambda_per_call(Checker *c, Type *want, uint32_t arity, uint32_t mark,
                     Span span) {
  want = ty_root(want);
  for (; arity && want->tag == TY_FUN; arity--)
    want = want->arg[1]; /* its variables are wanted as they are */
  if (!arity)
    leave_results(c, want, mark, span);
}

/* ---- what makes a tensor of all results ---- */

typedef struct Lifted {
  Checker *c;
  bool differ;
} Lifted;

static void find_lifted(Lifted *l, Type *t, int depth) {
  t = ty_root(t);
  if (depth > 16)
    return;
  if (t->tag == TY_LIFT)
    l->differ |= differs(l->c, t->arg[0], NO_MARK);
  for (int i = 0; i < 2; i++)
    if (t->tag == TY_FUN)
      find_lifted(l, t->arg[i], depth + 1);
  if (t->tag == TY_TUPLE || t->tag == TY_RECORD)
    for (uint32_t i = 0; i < t->count; i++)
      find_lifted(l, t->args[i], depth + 1);
}

void lifts_agree(Checker *c, Type *fun, Span span) {
  Lifted l = {c, false};
  find_lifted(&l, fun, 0);
  if (l.differ)
    note_differ(c, span);
}

Type *body_per_index(Checker *c, Type *body, uint32_t mark, Span span) {
  if (!differs(c, body, mark))
    return body;
  note_differ(c, span);
  return ty_leave(c, body, mark, LEAVE_NEW);
}

/* ---- lists ---- */

static bool items_differ(Checker *c, Type *got, Type *want, Span span) {
  got = ty_norm(c, got), want = ty_norm(c, want);
  if (got->tag == TY_TENSOR && want->tag == TY_TENSOR)
    return one_shape(c, got, want, span);
  bool differ = false;
  if (got->tag == want->tag && got->count == want->count &&
      (got->tag == TY_TUPLE || got->tag == TY_RECORD || got->tag == TY_DATA))
    for (uint32_t i = 0; i < got->count; i++)
      differ |= items_differ(c, got->args[i], want->args[i], span);
  return differ;
}

void items_agree(Checker *c, Type *got, Type *want, Span span) {
  if (got->tag == TY_DATA && want->tag == TY_DATA &&
      got->data == want->data && items_differ(c, got, want, span))
    open_note(c, span, "the sizes of the items agree",
              "a size was forgotten");
}

/* Does a function of this type take values whose sizes are `?`?  A name is then
 * used anew for each of them: its sizes are theirs. */
static void find_top(void *arg, DimVar *v) { *(bool *)arg |= v->top; }

bool takes_unknown(Checker *c, Type *fun) {
  bool found = false;
  Visit look = {.dim = find_top, .arg = &found, .c = c};
  for (fun = ty_norm(c, fun); fun->tag == TY_FUN;
       fun = ty_norm(c, fun->arg[1])) {
    if (fun->label)
      return false;
    Type *p = ty_norm(c, fun->arg[0]);
    if (p->tag == TY_TENSOR || p->tag == TY_TUPLE || p->tag == TY_RECORD)
      ty_visit(&look, p);
  }
  return found;
}

/* ---- recursive functions ---- */

bool result_differs(Checker *c, Type *result, uint32_t mark) {
  return differs(c, result, mark);
}

static Type *any_type(Copy *copy, TyVar *v) {
  (void)v;
  return ty_meta(copy->c);
}

static ElemVar *any_elem(Copy *copy, ElemVar *v) {
  return elem_meta(copy->c, v->classes);
}

static Dim *any_dim(Copy *copy, DimVar *v) {
  Dim *d = meta_dim(copy->c, v->name, v->origin);
  dim_as_var(d)->top = v->top || v->kind == DV_DATA;
  return d;
}

static Shape *any_shape(Copy *copy, ShapeVar *v) {
  return shape_of_var(copy->c, shape_var(copy->c, v->fixed));
}

Type *result_anew(Checker *c, Type *result) {
  Copy copy = {.c = c, .ty = any_type, .elem = any_elem, .dim = any_dim,
               .shape = any_shape, .drop_terms = true};
  map_init(&copy.map, c->arena);
  return ty_copy(&copy, result);
}

Type *fun_params(Checker *c, Type *fun, uint32_t arity) {
  if (!arity)
    return ty_meta(c);
  fun = ty_norm(c, fun);
  return with_result(c, fun, fun_params(c, fun->arg[1], arity - 1));
}
