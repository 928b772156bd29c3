/* Skolem escape: an existential size of a function body must not become part of
   a parameter's type, since callers could not supply it.  Instead the parameter
   gets a new size, and a run-time check tests that both are equal.  Main entry
   points: skolem_escapes, skolem_free_terms and skolem_bind_shape. */
#include "typecheck/solver.h"

typedef struct VarSearch {
  const TyVar *ty;
  const ShapeVar *shape;
  const DimVar *dim;
  bool found;
} VarSearch;

static void match_ty(void *arg, TyVar *v) {
  VarSearch *o = arg;
  o->found |= v == o->ty;
}

static void match_shape(void *arg, ShapeVar *v) {
  VarSearch *o = arg;
  o->found |= v == o->shape;
}

static void match_dim(void *arg, DimVar *v) {
  VarSearch *o = arg;
  o->found |= v == o->dim;
}

/* The variables that parameters determine: those in their types, and those that
   equations of shapes of unknown rank determine from them. */
typedef struct Determined {
  Checker *c;
  uint32_t from; /* sizes from this id on are of the body */
  Map vars;      /* set of DimVars and ShapeVars */
  bool all;      /* all variables that occurred are in the set */
  bool more;
} Determined;

static void test_dim(void *arg, DimVar *v) {
  Determined *d = arg;
  bool of_body = v->kind == DV_EXISTENTIAL && v->id >= d->from;
  d->all &= v->kind == DV_META ? map_get(&d->vars, v) != NULL : !of_body;
}

static void test_shape(void *arg, ShapeVar *v) {
  Determined *d = arg;
  d->all &= v->skolem || map_get(&d->vars, v);
}

static void add_dim(void *arg, DimVar *v) {
  Determined *d = arg;
  if (v->kind != DV_META || map_get(&d->vars, v))
    return;
  map_put(&d->vars, v, v);
  d->more = true;
}

static void add_shape(void *arg, ShapeVar *v) {
  Determined *d = arg;
  if (map_get(&d->vars, v))
    return;
  map_put(&d->vars, v, v);
  d->more = true;
}

typedef struct AxisVars {
  Determined *to;
  Dim *axis;
} AxisVars;

static void add_linear_dim(void *arg, DimVar *v) {
  const AxisVars *a = arg;
  Dim *slope, *rest;
  if (dim_split_linear(a->to->c->dims, a->axis, v, &slope, &rest))
    add_dim(a->to, v);
}

/* An axis n/2 does not determine n. */
static void add_axes(Determined *d, const Shape *s0) {
  const Shape *s = s0 ? shape_norm(d->c, s0) : NULL;
  for (uint32_t i = 0; s && i < s->len; i++) {
    const ShapeAxis *it = &s->axes[i];
    if (it->tag == SHAPE_SPLICE)
      add_shape(d, it->var);
    AxisVars vars = {d, it->dim};
    if (it->tag == SHAPE_DIM)
      dim_each_var(it->dim, add_linear_dim, NULL, &vars);
  }
}

static void add_shapes(Determined *d, const Constraint *k) {
  add_axes(d, k->a);
  add_axes(d, k->b);
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++)
    add_axes(d, k->broadcast_args[i]);
}

static bool is_determined(Determined *d, const Shape *s) {
  TypeVisitor test = {
      .dim = test_dim, .shape = test_shape, .arg = d, .c = d->c};
  d->all = true;
  shape_visit(&test, s);
  return d->all;
}

static bool determines_rest(Determined *d, const Constraint *k) {
  if (k->kind == CN_SHAPE_EQ && is_determined(d, k->a))
    return true;
  if (k->kind != CN_BROADCAST)
    return is_determined(d, k->b);
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++)
    if (!is_determined(d, k->broadcast_args[i]))
      return false;
  return true;
}

/* True if the parameters up to `last` determine it together. */
static bool params_determine(Checker *c, uint32_t last, const VarSearch *o) {
  const ParamType *params = c->inference.params.at;
  Determined d = {.c = c, .from = params[last].first_body_size, .more = true};
  TypeVisitor add = {.dim = add_dim, .shape = add_shape, .arg = &d, .c = c};
  const void *sought = o->dim ? (const void *)o->dim : o->shape;
  map_init(&d.vars, c->arena);
  for (uint32_t i = 0; i <= last; i++)
    ty_visit(&add, params[i].type);
  while (d.more) {
    d.more = false;
    for (uint32_t i = 0; i < c->solver.pending.len; i++) {
      Constraint *k = c->solver.pending.at[i];
      if (!k->solved && !constraint_is_size(k) && determines_rest(&d, k))
        add_shapes(&d, k);
    }
  }
  return sought && map_get(&d.vars, sought);
}

/* Sizes from this id on were introduced in the body of the function in whose
   parameter it occurs.  UINT32_MAX if it occurs in none. */
static uint32_t first_body_size_at(Checker *c, VarSearch *o) {
  TypeVisitor visit = {.ty = match_ty,
                       .shape = match_shape,
                       .dim = match_dim,
                       .arg = o,
                       .done = &o->found,
                       .c = c};
  for (uint32_t i = 0; i < c->inference.params.len; i++) {
    ty_visit(&visit, c->inference.params.at[i].type);
    if (o->found)
      return c->inference.params.at[i].first_body_size;
  }
  return UINT32_MAX;
}

/* The same for the first parameter that determines it, together with those
   before. */
static uint32_t first_body_size_of(Checker *c, VarSearch *o) {
  uint32_t from = first_body_size_at(c, o);
  for (uint32_t i = 0; from == UINT32_MAX && i < c->inference.params.len; i++)
    if (params_determine(c, i, o))
      from = c->inference.params.at[i].first_body_size;
  return from;
}

bool dim_var_in_parameter(Checker *c, DimVar *v) {
  VarSearch o = {.dim = v};
  return first_body_size_at(c, &o) != UINT32_MAX;
}

bool dim_var_of_parameter(Checker *c, DimVar *v) {
  VarSearch o = {.dim = v};
  return first_body_size_of(c, &o) != UINT32_MAX;
}

typedef struct BodySizeSearch {
  uint32_t from;
  bool found;
} BodySizeSearch;

static void note_body_size(void *arg, DimVar *v) {
  BodySizeSearch *in = arg;
  in->found |= v->kind == DV_EXISTENTIAL && v->id >= in->from &&
               v->level != LEVEL_GENERIC;
}

static bool mentions_body_size(Checker *c, uint32_t from, Dim *d) {
  BodySizeSearch in = {from, false};
  dim_each_var(dim_resolve(c->dims, d), note_body_size, NULL, &in);
  return in.found;
}

bool bodies_have_existential(const Checker *c) {
  uint32_t last = c->sizes.last_existential_id; /* 0: there is none */
  return last && c->inference.params.len &&
         last >= c->inference.params.at[0].first_body_size;
}

/* Quick test without the parameters: true if no size is from a body. */
static bool mentions_no_body_size(Checker *c, Dim *d) {
  return !bodies_have_existential(c) ||
         !mentions_body_size(c, c->inference.params.at[0].first_body_size, d);
}

static bool shape_mentions_no_body_size(Checker *c, Shape *s0) {
  if (!bodies_have_existential(c))
    return true;
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM &&
        !mentions_no_body_size(c, s->axes[i].dim))
      return false;
  return true;
}

bool skolem_escapes(Checker *c, DimVar *v, Dim *d) {
  VarSearch o = {.dim = v};
  return !mentions_no_body_size(c, d) &&
         mentions_body_size(c, first_body_size_of(c, &o), d);
}

/* ---- sizes that the axes of parameters determine ---- */

static void collect_shape_axes(KnownSizes *f, const Shape *s0) {
  Shape *s = shape_norm(f->c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      VEC_PUSH(f->c->arena, f->axes, s->axes[i].dim);
}

void known_sizes_add_axes(KnownSizes *f, Type *t) {
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
    known_sizes_add_axes(f, t->args[i]);
  if (t->tag == TY_RECORD && t->record.rest)
    known_sizes_add_axes(f, t->record.rest);
  if (t->tag == TY_LIFT)
    known_sizes_add_axes(f, t->lift.type);
  if (t->tag == TY_CAST)
    known_sizes_add_axes(f, t->cast.type);
  if (t->tag == TY_FUN) {
    known_sizes_add_axes(f, t->fun.param);
    known_sizes_add_axes(f, t->fun.result);
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

void known_sizes_solve(KnownSizes *f) {
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
    known_sizes_add_axes(&f, c->inference.params.at[i].type);
  if (axis)
    VEC_PUSH(c->arena, f.axes, axis);
  known_sizes_solve(&f);
  return map_get(&f.known, v) != NULL;
}

/* ---- sizes that were solved by terms of an escaping size ---- */

/* In order, since a size may be solved by a term of another one. */
static void free_sizes_of(Checker *c, const DimVar *v, FreedTerms *freed) {
  for (uint32_t i = 0; i < c->solver.solved_by_terms.len; i++) {
    const SolvedByTerm *at = &c->solver.solved_by_terms.at[i];
    DimVar *size = at->size;
    if (!size->solution || size->unknown ||
        !dim_mentions(c->dims, size->solution, v))
      continue;
    VEC_PUSH(c->arena, *freed, ((FreedTerm){size, size->solution, at->by}));
    dim_replace_solution(c->dims, size, NULL);
  }
}

bool skolem_free_terms(Checker *c, DimVar *v, Dim *d, FreedTerms *freed) {
  if (params_determine_size(c, v, NULL))
    return false;
  free_sizes_of(c, v, freed);
  if (freed->len && !skolem_escapes(c, v, d)) {
    wakeup_all(c);
    return true;
  }
  for (uint32_t i = freed->len; i-- > 0;)
    dim_replace_solution(c->dims, freed->at[i].size, freed->at[i].term);
  freed->len = 0;
  return false;
}

/* Each equation holds where the constraint that solved the size does. */
void skolem_require_terms(Checker *c, const FreedTerms *freed) {
  Assumption *assumptions = c->facts.assumptions;
  Constraint *current = c->solver.current_constraint;
  for (uint32_t i = 0; i < freed->len; i++) {
    const FreedTerm *at = &freed->at[i];
    c->facts.assumptions = at->by->assumptions;
    c->solver.current_constraint = at->by;
    add_size_eq(c, at->term, dim_of_var(c->dims, at->size), at->by->origin);
  }
  c->facts.assumptions = assumptions;
  c->solver.current_constraint = current;
}

/* Variables that equations of shapes link to sizes of the body: the ranks
   decide which of them are such sizes. */
typedef struct BodySizes {
  Checker *c;
  uint32_t from; /* existential sizes from this id on are of the body */
  Map known;     /* set of the variables in the types of parameters */
  Map linked;    /* set */
  bool found, more;
} BodySizes;

static void add_known_dim(void *arg, DimVar *v) {
  map_put(&((BodySizes *)arg)->known, v, v);
}

static void add_known_shape(void *arg, ShapeVar *v) {
  map_put(&((BodySizes *)arg)->known, v, v);
}

static void find_linked_dim(void *arg, DimVar *v) {
  BodySizes *b = arg;
  b->found |=
      map_get(&b->linked, v) || (v->kind == DV_EXISTENTIAL &&
                                 v->id >= b->from && v->level != LEVEL_GENERIC);
}

static void find_linked_shape(void *arg, ShapeVar *v) {
  BodySizes *b = arg;
  b->found |= map_get(&b->linked, v) != NULL;
}

static void link_var(BodySizes *b, void *v) {
  if (map_get(&b->known, v) || map_get(&b->linked, v))
    return;
  map_put(&b->linked, v, v);
  b->more = true;
}

static void link_dim(void *arg, DimVar *v) {
  if (v->kind == DV_META && !v->unknown)
    link_var(arg, v);
}

static void link_shape(void *arg, ShapeVar *v) {
  link_var(arg, v);
}

static void find_linked(BodySizes *b) {
  Checker *c = b->c;
  TypeVisitor known = {
      .dim = add_known_dim, .shape = add_known_shape, .arg = b, .c = c};
  TypeVisitor find = {
      .dim = find_linked_dim, .shape = find_linked_shape, .arg = b, .c = c};
  TypeVisitor link = {.dim = link_dim, .shape = link_shape, .arg = b, .c = c};
  map_init(&b->known, c->arena);
  map_init(&b->linked, c->arena);
  for (uint32_t i = 0; i < c->inference.params.len; i++)
    ty_visit(&known, c->inference.params.at[i].type);
  for (b->more = true; b->more;) {
    b->more = false;
    for (uint32_t i = 0; i < c->solver.pending.len; i++) {
      Constraint *k = c->solver.pending.at[i];
      b->found = false;
      if (!k->solved && !constraint_is_size(k))
        constraint_visit(&find, k);
      if (b->found)
        constraint_visit(&link, k);
    }
  }
}

typedef struct LinkedTerm {
  const BodySizes *sizes;
  Dim *term;
  bool escapes; /* it mentions one that the parameters do not determine */
} LinkedTerm;

static void note_linked(void *arg, DimVar *v) {
  LinkedTerm *t = arg;
  t->escapes |= map_get(&t->sizes->linked, v) &&
                !params_determine_size(t->sizes->c, v, t->term);
}

bool skolem_may_escape(Checker *c, const DimVar *v, Dim *d) {
  VarSearch owner = {.dim = v};
  uint32_t from =
      bodies_have_existential(c) ? first_body_size_at(c, &owner) : UINT32_MAX;
  if (from == UINT32_MAX)
    return false;
  BodySizes sizes = {.c = c, .from = from};
  find_linked(&sizes);
  LinkedTerm term = {.sizes = &sizes, .term = d};
  dim_each_var(d, note_linked, NULL, &term);
  return term.escapes;
}

/* ---- shapes ---- */

static Shape *replace_body_sizes(Checker *c, uint32_t from, Shape *s0,
                                 Origin *o) {
  Shape *s = shape_norm(c, s0), *replaced = NULL;
  for (uint32_t i = 0; i < s->len; i++) {
    if (s->axes[i].tag != SHAPE_DIM ||
        !mentions_body_size(c, from, s->axes[i].dim))
      continue;
    replaced = replaced ? replaced : shape_slice(c, s, 0, s->len);
    replaced->axes[i].dim = meta_dim(c, NULL, o->span);
  }
  return replaced ? replaced : s0;
}

/* Call after the parameter got its new sizes. */
static void require_same_axes(Checker *c, const Shape *replaced, Shape *s0,
                              Origin *o) {
  const Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; replaced != s0 && i < s->len && i < replaced->len; i++)
    if (s->axes[i].tag == SHAPE_DIM && replaced->axes[i].dim != s->axes[i].dim)
      add_size_eq(c, replaced->axes[i].dim, s->axes[i].dim, o);
}

void skolem_bind_shape(Checker *c, ShapeVar *v, Shape *s, Origin *o) {
  VarSearch owner = {.shape = v};
  uint32_t from = shape_mentions_no_body_size(c, s)
                      ? UINT32_MAX
                      : first_body_size_of(c, &owner);
  Shape *replaced = from == UINT32_MAX ? s : replace_body_sizes(c, from, s, o);
  shape_bind(c, v, replaced);
  require_same_axes(c, replaced, s, o);
}

Type *skolem_replace_escaping(Checker *c, TyVar *v, Type *t, Origin *o) {
  VarSearch owner = {.ty = v};
  if (t->tag != TY_TENSOR || shape_mentions_no_body_size(c, t->tensor.shape))
    return t;
  uint32_t from = first_body_size_of(c, &owner);
  Shape *replaced = from == UINT32_MAX
                        ? t->tensor.shape
                        : replace_body_sizes(c, from, t->tensor.shape, o);
  return replaced == t->tensor.shape
             ? t
             : ty_tensor(c, t->tensor.elem, replaced, t->tensor.singleton);
}

void skolem_require_same(Checker *c, Type *replaced, Type *t, Origin *o) {
  if (replaced != t)
    require_same_axes(c, replaced->tensor.shape, t->tensor.shape, o);
}
