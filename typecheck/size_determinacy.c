/* Whether the arguments of a function determine a size.  Each axis is an
   equation.  If it is linear in one size and everything else is known, it
   determines that size.  Main entry points: check_sizes_determined, for the
   sizes that annotations name, and params_determine_size. */
#include "typecheck/internal.h"
#include "support/diag.h"
#include "support/intern.h"

typedef struct KnownSizes {
  Checker *c;
  DimVarKind kind; /* of the sizes that have to be determined */
  VEC(Dim *) axes; /* of the parameters */
  Map known;       /* set of DimVars */
  bool all_known;  /* result of the last test */
} KnownSizes;

static void collect_shape_axes(KnownSizes *f, const Shape *s0) {
  Shape *s = shape_norm(f->c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      VEC_PUSH(f->c->arena, f->axes, s->axes[i].dim);
}

static void collect_axes(KnownSizes *f, Type *t) {
  t = ty_norm(f->c, t);
  charge_work(f->c, 1);
  if (t->tag == TY_TENSOR)
    collect_shape_axes(f, t->tensor.shape);
  if (t->tag == TY_SHAPE)
    collect_shape_axes(f, t->shape);
  if (t->tag == TY_TENSOR && t->tensor.singleton)
    VEC_PUSH(f->c->arena, f->axes,
             dim_resolve(f->c->dims, t->tensor.singleton));
  if (t->tag == TY_LIFT)
    VEC_PUSH(f->c->arena, f->axes, t->lift.dim);
  for (uint32_t i = 0; t->tag == TY_DATATYPE && i < t->data.type->dim_arity;
       i++)
    VEC_PUSH(f->c->arena, f->axes, dim_resolve(f->c->dims, t->data.dims[i]));
  for (uint32_t i = 0; ty_has_axes(t) && i < 3; i++)
    if (t->axis[i])
      collect_shape_axes(f, t->axis[i]);
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    collect_axes(f, t->args[i]);
  if (t->tag == TY_RECORD && t->record.rest)
    collect_axes(f, t->record.rest);
  if (t->tag == TY_LIFT)
    collect_axes(f, t->lift.type);
  if (t->tag == TY_CAST)
    collect_axes(f, t->cast.type);
  if (t->tag == TY_FUN) {
    collect_axes(f, t->fun.param);
    collect_axes(f, t->fun.result);
  }
}

static void note_unknown_size(void *arg, DimVar *v) {
  KnownSizes *f = arg;
  f->all_known &= v->kind != f->kind || map_get(&f->known, v) != NULL;
}

static bool sizes_all_known(KnownSizes *f, Dim *d) {
  f->all_known = true;
  dim_each_var(d, note_unknown_size, NULL, f);
  return f->all_known;
}

typedef struct SizeList {
  const KnownSizes *of;
  VEC(DimVar *) at;
} SizeList;

static void collect_size(void *arg, DimVar *v) {
  SizeList *vars = arg;
  if (v->kind == vars->of->kind)
    VEC_PUSH(vars->of->c->arena, vars->at, v);
}

static bool solve_axis(KnownSizes *f, Dim *d) {
  SizeList vars = {.of = f};
  dim_each_var(d, collect_size, NULL, &vars);
  bool any = false;
  for (uint32_t i = 0; i < vars.at.len; i++) {
    DimVar *v = vars.at.at[i];
    Dim *slope, *rest;
    if (map_get(&f->known, v) ||
        !dim_split_linear(f->c->dims, d, v, &slope, &rest) ||
        !sizes_all_known(f, slope) || !sizes_all_known(f, rest))
      continue;
    map_put(&f->known, v, v);
    any = true;
  }
  return any;
}

static void solve_axes(KnownSizes *f) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < f->axes.len; i++)
      more |= solve_axis(f, f->axes.at[i]);
  }
}

bool params_determine_size(Checker *c, const DimVar *v, Dim *axis) {
  KnownSizes f = {.c = c, .kind = v->kind};
  map_init(&f.known, c->arena);
  for (uint32_t i = 0; i < c->inference.params.len; i++)
    collect_axes(&f, c->inference.params.at[i].type);
  if (axis)
    VEC_PUSH(c->arena, f.axes, axis);
  solve_axes(&f);
  return map_get(&f.known, v) != NULL;
}

void check_sizes_determined(Checker *c, uint32_t n, Type *const *params,
                            const Scope *from, const Scope *until) {
  bool any = false;
  for (const Scope *s = from; s && s != until; s = s->outer)
    any |= s->dim != NULL;
  if (!any)
    return;
  KnownSizes f = {.c = c, .kind = DV_SKOLEM};
  map_init(&f.known, c->arena);
  /* names of surrounding functions */
  for (const Scope *s = until; s; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (v)
      map_put(&f.known, v, v);
  }
  for (uint32_t i = 0; i < n; i++)
    collect_axes(&f, params[i]);
  solve_axes(&f);
  for (const Scope *s = from; s && s != until; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(s->dim) : NULL;
    if (!v || v->kind != DV_SKOLEM || map_get(&f.known, v))
      continue;
    error_at(c, 363, v->origin, "the arguments do not determine the size `%s`",
             v->name->text)
        ->help = "give it an axis of its own, as in f32[n]: a term determines "
                 "at most one name, and not inside / or %";
    map_put(&f.known, v, v); /* with an axis of its own */
    solve_axes(&f);
  }
}
