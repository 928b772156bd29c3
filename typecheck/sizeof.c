/* Integers of expressions as sizes. */
#include "typecheck/internal.h"

static bool is_integer(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_TENSOR && elem_root(t->elem)->dtype == DT_I64 &&
         shape_norm(c, t->shape)->len == 0;
}

/* An integer variable, by its known term or the name of its value; NULL if e
 * is none. */
static Dim *size_of_name(Checker *c, Expr *e) {
  Binding *b = lookup(c, NULL, e->id);
  if (!b || b->kind != BK_VALUE || !b->scheme || b->scheme->poly ||
      b->recursive || !is_integer(c, b->scheme->type))
    return NULL;
  Dim *known = term_of(c, b->scheme->type);
  if (known)
    return known;
  if (!b->size)
    b->size = dim_as_var(data_dim(c, b->name, e->span));
  b->size->value = true;
  if (b->var->global)
    VEC_PUSH(c->arena, c->sized, b);
  return dim_of_var(c->dims, b->size);
}

/* Of sums and products of integer variables and literals; else NULL. */
static Dim *size_of_sum(Checker *c, Expr *e) {
  if (e->kind == EX_ID)
    return size_of_name(c, e);
  if (e->kind == EX_NUM && !e->is_float)
    return dim_text(c->dims, e->num);
  if (e->kind != EX_BIN || (e->op != BIN_ADD && e->op != BIN_SUB &&
                            e->op != BIN_MUL))
    return NULL;
  Dim *a = size_of_sum(c, e->arg[0]);
  Dim *b = a ? size_of_sum(c, e->arg[1]) : NULL;
  if (!b)
    return NULL;
  return e->op == BIN_ADD   ? dim_add(c->dims, a, b)
         : e->op == BIN_SUB ? dim_sub(c->dims, a, b)
                            : dim_mul(c->dims, a, b);
}

/* A term for an integer whose value only running code knows: of a variable
 * one for all uses, of a sum that of its parts, else a new one. */
Dim *size_of(Checker *c, Expr *e, Core **core, Type *t) {
  Dim *known = term_of(c, t);
  if (known)
    return t->term ? ty_root(t)->term : known;
  Dim *sum = e && e->kind == EX_BIN ? size_of_sum(c, e) : NULL;
  if (sum)
    return sum;
  DimVar *v = NULL;
  Binding *b = e && e->kind == EX_ID ? lookup(c, NULL, e->id) : NULL;
  if (b && b->kind == BK_VALUE) {
    if (!b->size)
      b->size = dim_as_var(data_dim(c, b->name, e->span));
    if (b->var->global)
      VEC_PUSH(c->arena, c->sized, b);
    v = b->size;
  } else {
    v = dim_as_var(data_dim(c, NULL, e ? e->span : (Span){0}));
  }
  v->value = true; /* what makes a size of it demands that it is one */
  if (core && *core) {
    Core *open = core_items(c, CORE_OPEN, (*core)->span, 1, *core);
    open->binds = NEW(c->arena, CoreBind);
    open->binds[0] = (CoreBind){.var = v, .value = true};
    open->bind_count = 1;
    *core = open;
  }
  return dim_of_var(c->dims, v);
}
