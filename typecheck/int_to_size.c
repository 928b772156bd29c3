/* Uses integer expressions as sizes.  Main entry point: int_to_size. */
#include "typecheck/internal.h"
#include "support/arena.h"

static bool is_integer_scalar(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_TENSOR && elem_root(t->tensor.elem)->dtype == DT_I64 &&
         shape_norm(c, t->tensor.shape)->len == 0;
}

/* The known term of an integer variable, or a size variable for its value.
   NULL if e is not an integer variable. */
static Dim *name_to_size(Checker *c, Expr *e) {
  Binding *b = lookup(c, NULL, e->id);
  if (!b || b->kind != BK_VALUE || !b->scheme || b->scheme->is_polymorphic ||
      b->value.recursive || !is_integer_scalar(c, b->scheme->type))
    return NULL;
  Dim *known = ty_singleton(c, b->scheme->type);
  if (known)
    return known;
  if (!b->value.size_var)
    b->value.size_var = dim_as_var(existential_dim(c, b->name, e->span));
  b->value.size_var->is_integer = true;
  if (b->value.var->global)
    VEC_PUSH(c->arena, c->sizes.bindings, b);
  return dim_of_var(c->dims, b->value.size_var);
}

static Dim *arithmetic_to_size(Checker *c, Expr *e);

static Dim *operand_to_size(Checker *c, Expr *e) {
  Dim *known = e->inferred_type ? ty_singleton(c, e->inferred_type) : NULL;
  return known ? known : arithmetic_to_size(c, e);
}

/* The term of `maximum a b` or `minimum a b`; otherwise NULL. */
static Dim *extreme_to_size(Checker *c, Expr *e) {
  Binding *f = e->arg[0]->kind == EX_ID && e->arg_count == 2
                   ? lookup(c, NULL, e->arg[0]->id)
                   : NULL;
  bool is_max = f && f->kind == BK_PRIM && f->prim == PRIM_MAXIMUM;
  bool is_min = f && f->kind == BK_PRIM && f->prim == PRIM_MINIMUM;
  if ((!is_max && !is_min) || e->args[0].label || e->args[1].label)
    return NULL;
  Dim *a = operand_to_size(c, e->args[0].expr);
  Dim *b = a ? operand_to_size(c, e->args[1].expr) : NULL;
  if (!b)
    return NULL;
  return is_max ? dim_max(c->dims, a, b) : dim_min(c->dims, a, b);
}

/* The term of sums, products and extremes of integer variables and literals;
   otherwise NULL. */
static Dim *arithmetic_to_size(Checker *c, Expr *e) {
  if (e->kind == EX_ID)
    return name_to_size(c, e);
  if (e->kind == EX_NUM && !e->is_float)
    return dim_parse(c->dims, e->num);
  if (e->kind == EX_APP)
    return extreme_to_size(c, e);
  if (e->kind != EX_BIN ||
      (e->op != BIN_ADD && e->op != BIN_SUB && e->op != BIN_MUL))
    return NULL;
  Dim *a = arithmetic_to_size(c, e->arg[0]);
  Dim *b = a ? arithmetic_to_size(c, e->arg[1]) : NULL;
  if (!b)
    return NULL;
  return e->op == BIN_ADD   ? dim_add(c->dims, a, b)
         : e->op == BIN_SUB ? dim_sub(c->dims, a, b)
                            : dim_mul(c->dims, a, b);
}

/* A term for an integer that only running code knows.  All uses of a variable
   share one term.  A sum has the term of its operands.  Anything else gets a
   new size variable. */
Dim *int_to_size(Checker *c, Expr *e, Core **core, Type *t) {
  Dim *known = ty_singleton(c, t);
  if (known)
    return t->tag == TY_TENSOR ? t->tensor.singleton : known;
  bool is_formula = e && (e->kind == EX_BIN || e->kind == EX_APP);
  Dim *sum = is_formula ? arithmetic_to_size(c, e) : NULL;
  if (sum)
    return sum;
  DimVar *v = NULL;
  Binding *b = e && e->kind == EX_ID ? lookup(c, NULL, e->id) : NULL;
  if (b && b->kind == BK_VALUE) {
    if (!b->value.size_var)
      b->value.size_var = dim_as_var(existential_dim(c, b->name, e->span));
    if (b->value.var->global)
      VEC_PUSH(c->arena, c->sizes.bindings, b);
    v = b->value.size_var;
  } else {
    v = dim_as_var(existential_dim(c, NULL, e ? e->span : (Span){0}));
  }
  v->is_integer = true; /* its use as a size will require that it is one */
  if (core && *core) {
    Core *unpack = core_items(c, CORE_UNPACK, (*core)->span, 1, *core);
    unpack->size_paths = NEW(c->arena, SizePath);
    unpack->size_paths[0] = (SizePath){.var = v, .is_value = true};
    unpack->size_path_count = 1;
    *core = unpack;
  }
  return dim_of_var(c->dims, v);
}
