/* What only the body of a function knows, a size that data decides there, does
 * not get into the types of its parameters: callers could not see to it.  The
 * parameter keeps a size of its own, and that the two are equal is left to the
 * running program. */
#include "typecheck/internal.h"

typedef struct Owner {
  const TyVar *ty;
  const ShapeVar *shape;
  const DimVar *dim;
  bool found;
} Owner;

static void see_ty(void *arg, TyVar *v) {
  Owner *o = arg;
  o->found |= v == o->ty;
}

static void see_shape(void *arg, ShapeVar *v) {
  Owner *o = arg;
  o->found |= v == o->shape;
}

static void see_dim(void *arg, DimVar *v) {
  Owner *o = arg;
  o->found |= v == o->dim;
}

/* Sizes from this number on were named in the body of the function of which it
 * is a parameter's; UINT32_MAX: it is none's. */
static uint32_t body_from(Checker *c, Owner *o) {
  Visit look = {.ty = see_ty, .shape = see_shape, .dim = see_dim, .arg = o,
                .c = c};
  for (uint32_t i = 0; i < c->params.len; i++) {
    ty_visit(&look, c->params.at[i].type);
    if (o->found)
      return c->params.at[i].from;
  }
  return UINT32_MAX;
}

bool of_parameter(Checker *c, DimVar *v) {
  Owner o = {.dim = v};
  return body_from(c, &o) != UINT32_MAX;
}

typedef struct Inside {
  uint32_t from;
  bool found;
} Inside;

static void see_data(void *arg, DimVar *v) {
  Inside *in = arg;
  in->found |= v->kind == DV_DATA && v->id >= in->from &&
               v->level != LEVEL_GENERIC;
}

static bool is_inside(Checker *c, uint32_t from, Dim *d) {
  Inside in = {from, false};
  dim_each_var(dim_resolve(c->dims, d), see_data, NULL, &in);
  return in.found;
}

/* Without looking at the parameters: is it of no body at all? */
static bool is_outside(Checker *c, Dim *d) {
  return !c->params.len || c->last_data < c->params.at[0].from ||
         !is_inside(c, c->params.at[0].from, d);
}

static bool shape_is_outside(Checker *c, Shape *s0) {
  if (!c->params.len || c->last_data < c->params.at[0].from)
    return true;
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM && !is_outside(c, s->at[i].dim))
      return false;
  return true;
}

bool inside_escapes(Checker *c, DimVar *v, Dim *d) {
  Owner o = {.dim = v};
  return !is_outside(c, d) && is_inside(c, body_from(c, &o), d);
}

static Shape *own_sizes(Checker *c, uint32_t from, Shape *s0, Origin *o) {
  Shape *s = shape_norm(c, s0), *own = NULL;
  for (uint32_t i = 0; i < s->len; i++) {
    if (s->at[i].tag != IT_DIM || !is_inside(c, from, s->at[i].dim))
      continue;
    own = own ? own : shape_slice(c, s, 0, s->len);
    own->at[i].dim = meta_dim(c, NULL, o->span);
  }
  return own ? own : s0;
}

/* After the parameter was given the sizes of its own. */
static void demand_same(Checker *c, const Shape *own, Shape *s0, Origin *o) {
  const Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; own != s0 && i < s->len && i < own->len; i++)
    if (s->at[i].tag == IT_DIM && own->at[i].dim != s->at[i].dim)
      demand_eq(c, own->at[i].dim, s->at[i].dim, o);
}

void inside_bind_shape(Checker *c, ShapeVar *v, Shape *s, Origin *o) {
  Owner owner = {.shape = v};
  uint32_t from = shape_is_outside(c, s) ? UINT32_MAX : body_from(c, &owner);
  Shape *own = from == UINT32_MAX ? s : own_sizes(c, from, s, o);
  shape_bind(c, v, own);
  demand_same(c, own, s, o);
}

Type *inside_own(Checker *c, TyVar *v, Type *t, Origin *o) {
  Owner owner = {.ty = v};
  if (t->tag != TY_TENSOR || shape_is_outside(c, t->shape))
    return t;
  uint32_t from = body_from(c, &owner);
  Shape *own = from == UINT32_MAX ? t->shape : own_sizes(c, from, t->shape, o);
  return own == t->shape ? t : ty_tensor(c, t->elem, own, t->term);
}

void inside_same(Checker *c, Type *own, Type *t, Origin *o) {
  if (own != t)
    demand_same(c, own->shape, t->shape, o);
}
