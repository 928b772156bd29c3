/* Type schemes of primitives and conversions.  They are parsed from their text
   at their first use. */
#include "typecheck/internal.h"
#include "support/arena_text.h"

/* Integer arithmetic tracks singletons: the result's term is computed from
   those of the arguments.  The operator handles division, since it knows the
   divisor. */
static void track_singletons(Checker *c, PrimId id, Type *t) {
  Dim *x[2] = {NULL, NULL};
  int n = 0;
  Type *r = t;
  for (; r->tag == TY_FUN && n < 2; r = r->fun.result) {
    DimVar *v = dim_new_var(c->dims, DV_SKOLEM, NULL, (Span){0});
    v->is_integer = true;
    v->level = LEVEL_GENERIC;
    Dim *d = dim_of_var(c->dims, v);
    r->fun.param->tensor.singleton = d;
    x[n++] = d;
  }
  switch (id) {
  case PRIM_ADD:
    r->tensor.singleton = dim_add(c->dims, x[0], x[1]);
    break;
  case PRIM_SUB:
    r->tensor.singleton = dim_sub(c->dims, x[0], x[1]);
    break;
  case PRIM_MUL:
    r->tensor.singleton = dim_mul(c->dims, x[0], x[1]);
    break;
  case PRIM_NEG:
    r->tensor.singleton = dim_neg(c->dims, x[0]);
    break;
  case PRIM_MAXIMUM:
    r->tensor.singleton = dim_max(c->dims, x[0], x[1]);
    break;
  case PRIM_MINIMUM:
    r->tensor.singleton = dim_min(c->dims, x[0], x[1]);
    break;
  default:
    break; /* DIV, MOD: parameters only */
  }
}

static bool prim_tracks_singletons(PrimId id) {
  return id == PRIM_ADD || id == PRIM_SUB || id == PRIM_MUL || id == PRIM_NEG ||
         id == PRIM_MAXIMUM || id == PRIM_MINIMUM || id == PRIM_DIV ||
         id == PRIM_MOD;
}

static void set_floats(void *arg, TyVar *v) {
  v->floats = arg;
}

/* The parameters after the function have floats of the function's element
   type. */
static void relate_floats(Checker *c, Type *t) {
  Type *of = t->fun.param->fun.param;
  TypeVisitor visit = {
      .ty = set_floats, .arg = elem_root(of->tensor.elem), .c = c};
  ty_visit(&visit, t);
}

static void set_tensor_element(void *arg, TyVar *v) {
  (void)arg;
  v->is_tensor_element = true;
}

/* The integers of a result come from a file, or differ between two compared
   values. */
static void forget_integers(Checker *c, Type *t) {
  TypeVisitor visit = {.ty = set_tensor_element, .c = c};
  ty_visit(&visit, t);
}

static Scheme *prim_scheme(Checker *c, PrimId id) {
  const PrimInfo *info = &prim_info[id];
  Scheme *s = scheme_of_text(c, info->scheme, info->flags, info->name);
  if (prim_tracks_singletons(id))
    track_singletons(c, id, s->type);
  if (id == PRIM_EACH1 || id == PRIM_EACH2 || id == PRIM_EACH3 ||
      id == PRIM_TOTAL)
    relate_floats(c, s->type);
  if (id == PRIM_LOAD_TREE || id == PRIM_EQUAL || id == PRIM_COMPARE)
    forget_integers(c, s->type);
  if (id == PRIM_VJP)
    s->type->fun.param->fun.is_differentiated = true;
  return s;
}

static Scheme *dtype_scheme(Checker *c, Dtype t) {
  return scheme_of_text(
      c, arena_printf(c->arena, "'a[...s] -> %s[...s]", dtype_info[t].name), 0,
      dtype_info[t].name);
}

Scheme *binding_scheme(Checker *c, Binding *b) {
  if (!b->scheme && b->kind == BK_PRIM)
    b->scheme = prim_scheme(c, b->prim);
  if (!b->scheme && b->kind == BK_DTYPE)
    b->scheme = dtype_scheme(c, b->dtype);
  return b->scheme;
}
