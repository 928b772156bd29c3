/* Whether the sizes that a function's annotations name can be found from what
 * it is given.  Each axis is an equation: one that is linear in a name, with
 * everything else known, gives that name. */
#include "typecheck/internal.h"

typedef struct Found {
  Checker *c;
  VEC(Dim *) axes; /* of the parameters */
  Map known;       /* DimVar -> itself */
  bool all;        /* of the last look */
} Found;

static void axes_of_shape(Found *f, const Shape *s0) {
  Shape *s = shape_norm(f->c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      VEC_PUSH(f->c->arena, f->axes, s->at[i].dim);
}

static void axes_of(Found *f, Type *t) {
  t = ty_norm(f->c, t);
  spend(f->c, 1);
  if (t->shape)
    axes_of_shape(f, t->shape);
  if (t->tag == TY_TENSOR && t->term)
    VEC_PUSH(f->c->arena, f->axes, dim_resolve(f->c->dims, t->term));
  if (t->tag == TY_LIFT)
    VEC_PUSH(f->c->arena, f->axes, t->dim);
  for (uint32_t i = 0; t->tag == TY_DATA && i < t->data->dim_arity; i++)
    VEC_PUSH(f->c->arena, f->axes, dim_resolve(f->c->dims, t->dims[i]));
  for (uint32_t i = 0; (t->tag == TY_AXIS || t->tag == TY_KEEP) && i < 3; i++)
    if (t->axis[i])
      axes_of_shape(f, t->axis[i]);
  for (uint32_t i = 0; i < t->count; i++)
    axes_of(f, t->args[i]);
  for (uint32_t i = 0; i < 2; i++)
    if (t->arg[i])
      axes_of(f, t->arg[i]);
}

static void look_known(void *arg, DimVar *v) {
  Found *f = arg;
  f->all &= v->kind != DV_RIGID || map_get(&f->known, v) != NULL;
}

static bool all_known(Found *f, Dim *d) {
  f->all = true;
  dim_each_var(d, look_known, NULL, f);
  return f->all;
}

typedef struct Vars {
  Checker *c;
  VEC(DimVar *) at;
} Vars;

static void list_var(void *arg, DimVar *v) {
  Vars *vars = arg;
  if (v->kind == DV_RIGID)
    VEC_PUSH(vars->c->arena, vars->at, v);
}

static bool find_in_axis(Found *f, Dim *d) {
  Vars vars = {.c = f->c};
  dim_each_var(d, list_var, NULL, &vars);
  bool any = false;
  for (uint32_t i = 0; i < vars.at.len; i++) {
    DimVar *v = vars.at.at[i];
    Dim *slope, *rest;
    if (map_get(&f->known, v) ||
        !dim_linear(f->c->dims, d, v, &slope, &rest) ||
        !all_known(f, slope) || !all_known(f, rest))
      continue;
    map_put(&f->known, v, v);
    any = true;
  }
  return any;
}

void names_determined(Checker *c, uint32_t n, Type *const *params,
                      const Scope *from, const Scope *until) {
  bool any = false;
  for (const Scope *s = from; s && s != until; s = s->outer)
    any |= s->dim != NULL;
  if (!any)
    return;
  Found f = {.c = c};
  map_init(&f.known, c->arena);
  for (const Scope *s = until; s; s = s->outer) { /* of functions outside */
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (v)
      map_put(&f.known, v, v);
  }
  for (uint32_t i = 0; i < n; i++)
    axes_of(&f, params[i]);
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < f.axes.len; i++)
      more |= find_in_axis(&f, f.axes.at[i]);
  }
  for (const Scope *s = from; s && s != until; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (!v || v->kind != DV_RIGID || map_get(&f.known, v))
      continue;
    error_at(c, 363, v->origin,
             "the size `%s` cannot be found from the arguments",
             v->name->text)
        ->help = "write it where it stands alone, as in f32[n]: a term is "
                 "solved for one name at most, and not below / and %";
  }
}
