/* Types, shapes and element types: making them, following solutions, walking
 * and copying them. */
#include "typecheck/internal.h"

/* ---- element types ---- */

ElemVar *elem_meta(Checker *c, uint32_t classes) {
  ElemVar *e = NEW(c->arena, ElemVar);
  e->classes = classes;
  e->level = c->level;
  e->id = ++c->next_id;
  return e;
}

ElemVar *elem_fixed(Checker *c, Dtype t) {
  if (!c->fixed[t]) {
    ElemVar *e = NEW(c->arena, ElemVar);
    e->dtype = t;
    e->classes = 1u << t;
    c->fixed[t] = e;
  }
  return c->fixed[t];
}

ElemVar *elem_root(ElemVar *e) {
  while (e->link) {
    if (e->link->link)
      e->link = e->link->link; /* path halving */
    e = e->link;
  }
  return e;
}

/* ---- shapes ---- */

ShapeVar *shape_var(Checker *c, int fixed) {
  ShapeVar *v = NEW(c->arena, ShapeVar);
  v->id = ++c->next_id;
  v->level = c->level;
  v->fixed = fixed;
  return v;
}

Shape *shape_new(Checker *c, uint32_t len) {
  Shape *s = arena_alloc(c->arena, sizeof *s + len * sizeof s->at[0]);
  s->len = len;
  return s;
}

Shape *shape_of_var(Checker *c, ShapeVar *v) {
  Shape *s = shape_new(c, 1);
  s->at[0] = (ShapeIt){.tag = IT_SPLICE, .var = v};
  return s;
}

Shape *shape_any(Checker *c) { return shape_of_var(c, shape_var(c, -1)); }

Shape *shape_dims(Checker *c, uint32_t n, Dim *const *dims) {
  Shape *s = shape_new(c, n);
  for (uint32_t i = 0; i < n; i++)
    s->at[i] = (ShapeIt){.tag = IT_DIM, .dim = dims[i]};
  return s;
}

Shape *shape_concat(Checker *c, const Shape *a, const Shape *b) {
  Shape *s = shape_new(c, a->len + b->len);
  for (uint32_t i = 0; i < a->len; i++)
    s->at[i] = a->at[i];
  for (uint32_t i = 0; i < b->len; i++)
    s->at[a->len + i] = b->at[i];
  return s;
}

Shape *shape_slice(Checker *c, const Shape *s, uint32_t from, uint32_t to) {
  Shape *part = shape_new(c, to - from);
  for (uint32_t i = from; i < to; i++)
    part->at[i - from] = s->at[i];
  return part;
}

static bool is_solved(const ShapeIt *it) {
  return it->tag == IT_SPLICE && it->var->bound;
}

/* The solution of a variable without solved variables in it: what was found is
 * kept, so that chains of solutions are followed once. */
static const Shape *solution(Checker *c, ShapeVar *v) {
  const Shape *s = v->bound;
  uint32_t len = 0, n = 0;
  bool flat = true;
  for (uint32_t i = 0; i < s->len; i++) {
    bool solved = is_solved(&s->at[i]);
    len += solved ? solution(c, s->at[i].var)->len : 1;
    flat &= !solved;
  }
  if (flat)
    return s;
  Shape *out = shape_new(c, len);
  for (uint32_t i = 0; i < s->len; i++) {
    if (!is_solved(&s->at[i])) {
      out->at[n++] = s->at[i];
      continue;
    }
    const Shape *inner = s->at[i].var->bound;
    for (uint32_t k = 0; k < inner->len; k++)
      out->at[n++] = inner->at[k];
  }
  v->bound = out;
  return out;
}

bool item_is_star(const ShapeIt *it) {
  const DimVar *v = it->tag == IT_DIM ? dim_as_var(it->dim) : NULL;
  while (v && !v->star)
    v = v->bound ? dim_as_var(v->bound) : NULL;
  return v || it->tag == IT_STAR;
}

static ShapeIt item_norm(Checker *c, ShapeIt it) {
  if (it.tag != IT_DIM)
    return it;
  if (item_is_star(&it))
    return (ShapeIt){.tag = IT_STAR};
  const DimVar *v = dim_as_var(it.dim);
  if (v)
    it.literal = v->literal && !v->sized;
  it.dim = dim_resolve(c->dims, it.dim);
  return it;
}

Shape *shape_norm(Checker *c, const Shape *s) {
  uint32_t len = 0, n = 0;
  bool same = true;
  for (uint32_t i = 0; i < s->len; i++) {
    bool solved = is_solved(&s->at[i]);
    len += solved ? solution(c, s->at[i].var)->len : 1;
    ShapeIt item = item_norm(c, s->at[i]);
    same &= !solved && item.tag == s->at[i].tag && item.dim == s->at[i].dim;
  }
  if (same)
    return (Shape *)s;
  Shape *out = shape_new(c, len);
  for (uint32_t i = 0; i < s->len; i++) {
    if (!is_solved(&s->at[i])) {
      out->at[n++] = item_norm(c, s->at[i]);
      continue;
    }
    const Shape *inner = s->at[i].var->bound;
    for (uint32_t k = 0; k < inner->len; k++)
      out->at[n++] = item_norm(c, inner->at[k]);
  }
  return out;
}

bool shape_known_rank(const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_SPLICE && s->at[i].var->fixed != 1)
      return false;
  return true;
}

Dim *shape_prod_dim(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  Dim *d = dim_int(c->dims, 1);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      d = dim_mul(c->dims, d, s->at[i].dim);
    else if (s->at[i].tag == IT_SPLICE)
      d = dim_mul(c->dims, d, dim_of_prod(c->dims, s->at[i].var));
  return d;
}

static bool item_same(const ShapeIt *a, const ShapeIt *b) {
  if (a->tag != b->tag)
    return false;
  switch (a->tag) {
  case IT_DIM:
    return dim_equal(a->dim, b->dim) && !dim_has_top(a->dim);
  case IT_STAR:
    return true;
  case IT_SPLICE:
    return a->var == b->var;
  }
  return false;
}

bool shape_same(Checker *c, const Shape *a, const Shape *b) {
  a = shape_norm(c, a), b = shape_norm(c, b);
  if (a->len != b->len)
    return false;
  for (uint32_t i = 0; i < a->len; i++)
    if (!item_same(&a->at[i], &b->at[i]))
      return false;
  return true;
}

/* ---- sizes ---- */

static Dim *var_dim(Checker *c, DimVarKind kind, Sym *name, Span origin,
                    bool value) {
  DimVar *v = dim_new_var(c->dims, kind, name, origin);
  v->level = c->level;
  v->value = value;
  return dim_of_var(c->dims, v);
}

Dim *meta_dim(Checker *c, Sym *name, Span origin) {
  return var_dim(c, DV_META, name, origin, false);
}

Dim *meta_term(Checker *c, Span origin) {
  return var_dim(c, DV_META, NULL, origin, true);
}

Dim *data_dim(Checker *c, Sym *name, Span origin) {
  Dim *d = var_dim(c, DV_DATA, name, origin, false);
  c->last_data = dim_as_var(d)->id;
  return d;
}

/* ---- types ---- */

Type *ty_new(Checker *c, TypeTag tag) {
  Type *t = NEW(c->arena, Type);
  t->tag = tag;
  return t;
}

Type *ty_meta(Checker *c) {
  Type *t = ty_new(c, TY_VAR);
  t->var = NEW(c->arena, TyVar);
  t->var->id = ++c->next_id;
  t->var->level = c->level;
  return t;
}

Type *ty_tensor(Checker *c, ElemVar *e, Shape *s, Dim *term) {
  Type *t = ty_new(c, TY_TENSOR);
  t->elem = e;
  t->shape = s;
  t->term = term;
  return t;
}

Type *ty_scalar(Checker *c, Dtype d, Dim *term) {
  return ty_tensor(c, elem_fixed(c, d), shape_new(c, 0), term);
}

Type *ty_int(Checker *c, Dim *term) { return ty_scalar(c, DT_I64, term); }

Type *ty_fun(Checker *c, Type *param, Type *result, Effect *e) {
  Type *t = ty_new(c, TY_FUN);
  t->arg[0] = param;
  t->arg[1] = result;
  t->effect = e;
  return t;
}

Type *ty_tuple(Checker *c, uint32_t n, Type *const *args) {
  Type *t = ty_new(c, TY_TUPLE);
  t->count = n;
  t->args = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    t->args[i] = args[i];
  return t;
}

Type *ty_data(Checker *c, Data *d, uint32_t n, Type *const *args) {
  Type *t = ty_tuple(c, n, args);
  t->tag = TY_DATA;
  t->data = d;
  return t;
}

Type *ty_list(Checker *c, Type *item) {
  return ty_data(c, c->data_list, 1, &item);
}

Type *ty_string(Checker *c) {
  return ty_data(c, c->data_string, 0, NULL);
}

Type *ty_unit(Checker *c) { return ty_tuple(c, 0, NULL); }

bool ty_is_unit(Type *t) {
  t = ty_root(t);
  return t->tag == TY_TUPLE && t->count == 0;
}

Type *ty_shape(Checker *c, Shape *s) {
  Type *t = ty_new(c, TY_SHAPE);
  t->shape = s;
  return t;
}

Type *ty_axis(Checker *c, Shape *s, Shape *r, Shape *t) {
  Type *a = ty_new(c, TY_AXIS);
  a->axis[0] = s, a->axis[1] = r, a->axis[2] = t;
  return a;
}

Type *ty_root(Type *t) {
  while (t->tag == TY_VAR && t->var->link)
    t = t->var->link;
  return t;
}

static Type *lift_parts(Checker *c, Dim *n, Type *t) {
  Type *copy = ty_new(c, t->tag);
  *copy = *t;
  copy->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    copy->args[i] = ty_lift(c, n, t->args[i]);
  return copy;
}

Type *ty_lift(Checker *c, Dim *n, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR)
    return ty_tensor(c, t->elem,
                       shape_concat(c, shape_dims(c, 1, &n), t->shape), NULL);
  if (t->tag == TY_TUPLE || (t->tag == TY_RECORD && !t->arg[0]))
    return lift_parts(c, n, t);
  if (t->tag == TY_VAR)
    t->var->element = true;
  Type *lift = ty_new(c, TY_LIFT);
  lift->dim = n;
  lift->arg[0] = t;
  return lift;
}

Type *ty_norm(Checker *c, Type *t) {
  t = ty_root(t);
  if (t->tag != TY_LIFT)
    return t;
  Type *inner = ty_norm(c, t->arg[0]);
  if (inner->tag == TY_TENSOR || inner->tag == TY_TUPLE ||
      (inner->tag == TY_RECORD && !inner->arg[0]))
    return ty_lift(c, t->dim, inner);
  return t;
}

/* ---- effects ---- */

Effect *effect_var(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_VAR;
  e->level = c->level;
  return e;
}

Effect *effect_pure(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_PURE;
  return e;
}

Effect *effect_full(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_EFFECT;
  return e;
}

Effect *effect_root(Effect *e) {
  while (e->link)
    e = e->link;
  return e;
}

/* What a body has come to: an effect, or the variable that all unknown effects
 * in it share. */
Effect *effect_close(Checker *c, Effect *context) {
  Effect *shared = NULL;
  if (effect_root(context)->tag == EF_EFFECT)
    return effect_root(context);
  for (uint32_t i = 0; i < context->lowers.len; i++) {
    Effect *e = effect_root(context->lowers.at[i]);
    if (e->tag == EF_EFFECT)
      return e;
    if (e->tag != EF_VAR || e == shared)
      continue;
    if (shared) {
      if (e->level < shared->level)
        shared->level = e->level;
      e->link = shared;
    } else {
      shared = e;
    }
  }
  return shared ? shared : effect_var(c);
}

void effect_join(Checker *c, Effect *from, Effect *into, Span span,
                 const char *what) {
  from = effect_root(from), into = effect_root(into);
  if (from == into || from->tag == EF_PURE || into->tag == EF_EFFECT)
    return;
  if (into->tag == EF_VAR) {
    if (from->tag == EF_VAR)
      VEC_PUSH(c->arena, into->lowers, from);
    else
      into->link = from;
    return;
  }
  if (from->tag == EF_VAR) {
    from->link = into;
    return;
  }
  Diag *d = error_at(c, 320, span,
                     "%s has effects where a pure function is wanted",
                     what ? what : "this function");
  d->help = "map, for, reduce, fold and scan run their function in any order: "
            "use iterate, lists.map or a recursive function";
}

Dim *term_of(Checker *c, Type *t) {
  t = ty_root(t);
  if (t->tag != TY_TENSOR || !t->term)
    return NULL;
  Dim *d = dim_resolve(c->dims, t->term);
  if (dim_has_top(d))
    return NULL;
  ElemVar *e = elem_root(t->elem);
  if (!(e->classes & CLASS_INT))
    return NULL;
  Shape *s = shape_norm(c, t->shape);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag != IT_SPLICE || s->at[i].var->fixed == 1)
      return NULL;
  return d;
}

/* ---- walking ---- */

static void visit_dimvar(void *arg, DimVar *var) {
  Visit *v = arg;
  if (v->dim)
    v->dim(v->arg, var);
}

static void visit_shapevar(void *arg, ShapeVar *var) {
  Visit *v = arg;
  if (var->bound)
    shape_visit(v, var->bound);
  else if (v->shape)
    v->shape(v->arg, var);
}

void dim_visit(Visit *v, Dim *d) {
  dim_each_var(dim_resolve(v->c->dims, d), visit_dimvar, visit_shapevar, v);
}

void shape_visit(Visit *v, const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      dim_visit(v, s->at[i].dim);
    else if (s->at[i].tag == IT_SPLICE)
      visit_shapevar(v, s->at[i].var);
}

static void visit_elem(Visit *v, ElemVar *e) {
  e = elem_root(e);
  if (e->dtype == DT_NONE && v->elem)
    v->elem(v->arg, e);
}

enum { WORK_MAX = 50 * 1000 * 1000 };

void spend(Checker *c, uint32_t steps) {
  c->work += steps;
  if (c->work < WORK_MAX)
    return;
  c->work = 0;
  error_at(c, 324, c->at, "the types of this declaration grow too large")
      ->help = "give parts of it types of their own, or fewer fields";
  trap_raise(FAIL_LIMIT);
}

void ty_visit(Visit *v, Type *t) {
  t = ty_root(t);
  if (v->c)
    spend(v->c, 1);
  switch (t->tag) {
  case TY_VAR:
    if (v->ty)
      v->ty(v->arg, t->var);
    return;
  case TY_TENSOR:
    visit_elem(v, t->elem);
    shape_visit(v, t->shape);
    if (t->term && !v->shapes)
      dim_visit(v, t->term);
    return;
  case TY_FUN: {
    Effect *e = effect_root(t->effect);
    if (e->tag == EF_VAR && v->effect)
      v->effect(v->arg, e);
    if (t->preset)
      ty_visit(v, t->preset);
    ty_visit(v, t->arg[0]);
    ty_visit(v, t->arg[1]);
    return;
  }
  case TY_DATA:
    if (t->dims)
      for (uint32_t i = 0; i < t->data->dim_arity; i++)
        dim_visit(v, t->dims[i]);
    __attribute__((fallthrough));
  case TY_TUPLE:
  case TY_RECORD:
    for (uint32_t i = 0; i < t->count; i++)
      ty_visit(v, t->args[i]);
    if (t->tag == TY_RECORD && t->arg[0])
      ty_visit(v, t->arg[0]);
    return;
  case TY_SHAPE:
    shape_visit(v, t->shape);
    return;
  case TY_AXIS:
    for (int i = 0; i < 3; i++)
      shape_visit(v, t->axis[i]);
    return;
  case TY_KEEP:
    shape_visit(v, t->axis[0]);
    shape_visit(v, t->axis[1]);
    return;
  case TY_LIFT:
    dim_visit(v, t->dim);
    ty_visit(v, t->arg[0]);
    return;
  }
}

void constraint_visit(Visit *v, Constraint *k) {
  if (k->left)
    dim_visit(v, k->left);
  if (k->right)
    dim_visit(v, k->right);
  if (k->a)
    shape_visit(v, k->a);
  if (k->b)
    shape_visit(v, k->b);
  for (uint32_t i = 0; i < k->join_count; i++)
    shape_visit(v, k->joined[i]);
}

static void found_ty(void *arg, TyVar *v) {
  (void)v;
  *(bool *)arg = true;
}
static void found_dim(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_META;
}
static void found_shape(void *arg, ShapeVar *v) {
  *(bool *)arg |= !v->rigid;
}

/* Sizes that were forgotten, or still may be, are variables here. */
bool ty_is_ground(Checker *c, Type *t) {
  bool found = false;
  Visit look = {.ty = found_ty, .dim = found_dim, .shape = found_shape,
                .arg = &found, .c = c};
  ty_visit(&look, t);
  return !found;
}

/* ---- copying ---- */

static Dim *copy_dimvar(void *arg, DimVar *v) {
  Copy *copy = arg;
  return copy->dim ? copy->dim(copy, v) : NULL;
}

static Dim *copy_prod(void *arg, ShapeVar *v) {
  Copy *copy = arg;
  Shape *s = copy->shape ? copy->shape(copy, v) : NULL;
  return s ? shape_prod_dim(copy->c, s) : NULL;
}

Dim *dim_copy(Copy *copy, Dim *d) {
  d = dim_resolve(copy->c->dims, d);
  d = dim_subst(copy->c->dims, d, copy_dimvar, copy_prod, copy);
  return copy->size ? copy->size(copy, d) : d;
}

static Shape *shape_copy(Copy *copy, const Shape *s0) {
  Shape *s = shape_norm(copy->c, s0);
  Shape *out = shape_new(copy->c, s->len);
  bool splice = false;
  for (uint32_t i = 0; i < s->len; i++) {
    out->at[i] = s->at[i];
    if (s->at[i].tag == IT_DIM)
      out->at[i].dim = dim_copy(copy, s->at[i].dim);
    else if (s->at[i].tag == IT_SPLICE && copy->shape) {
      Shape *r = copy->shape(copy, s->at[i].var);
      if (r && r->len == 1)
        out->at[i] = r->at[0];
      else if (r)
        splice = true;
    }
  }
  if (!splice)
    return out;
  Shape *whole = shape_new(copy->c, 0);
  for (uint32_t i = 0; i < s->len; i++) {
    Shape *r = s->at[i].tag == IT_SPLICE ? copy->shape(copy, s->at[i].var)
                                         : NULL;
    whole = shape_concat(copy->c, whole,
                         r ? r : shape_slice(copy->c, out, i, i + 1));
  }
  return whole;
}

static ElemVar *elem_copy(Copy *copy, ElemVar *e) {
  e = elem_root(e);
  ElemVar *r = e->dtype == DT_NONE && copy->elem ? copy->elem(copy, e) : NULL;
  return r ? r : e;
}

static Effect *effect_copy(Copy *copy, Effect *e) {
  e = effect_root(e);
  Effect *r = e->tag == EF_VAR && copy->effect ? copy->effect(copy, e) : NULL;
  return r ? r : e;
}

static void copy_alias(Copy *copy, const Type *t, Type *r) {
  r->alias = t->alias;
  r->alias_count = t->alias_count;
  r->alias_dims = NULL;
  if (t->alias_count)
    r->alias_dims = NEW_ARRAY(copy->c->arena, Dim *, t->alias_count);
  for (uint32_t i = 0; i < t->alias_count; i++)
    r->alias_dims[i] = dim_copy(copy, t->alias_dims[i]);
}

static Type *copy_type(Copy *copy, Type *t) {
  spend(copy->c, COPY_WORK);
  Type *r;
  switch (t->tag) {
  case TY_VAR:
    r = copy->ty ? copy->ty(copy, t->var) : NULL;
    return r ? r : t;
  case TY_TENSOR:
    r = ty_tensor(copy->c, elem_copy(copy, t->elem),
                    shape_copy(copy, t->shape), NULL);
    if (t->term && !copy->drop_terms)
      r->term = dim_copy(copy, t->term);
    r->span = t->span;
    copy_alias(copy, t, r);
    return r;
  case TY_SHAPE:
    return ty_shape(copy->c, shape_copy(copy, t->shape));
  case TY_LIFT:
    return ty_lift(copy->c, dim_copy(copy, t->dim),
                     ty_copy(copy, t->arg[0]));
  case TY_FUN:
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATA:
  case TY_AXIS:
  case TY_KEEP:
    break;
  }
  r = ty_new(copy->c, t->tag);
  *r = *t;
  copy_alias(copy, t, r);
  for (int i = 0; i < 2; i++)
    if (t->arg[i])
      r->arg[i] = ty_copy(copy, t->arg[i]);
  if (t->preset)
    r->preset = ty_copy(copy, t->preset);
  if (t->effect)
    r->effect = effect_copy(copy, t->effect);
  if (t->count) {
    r->args = NEW_ARRAY(copy->c->arena, Type *, t->count);
    for (uint32_t i = 0; i < t->count; i++)
      r->args[i] = ty_copy(copy, t->args[i]);
  }
  if (t->dims) {
    r->dims = NEW_ARRAY(copy->c->arena, Dim *, t->data->dim_arity);
    for (uint32_t i = 0; i < t->data->dim_arity; i++)
      r->dims[i] = dim_copy(copy, t->dims[i]);
  }
  for (int i = 0; i < 3; i++)
    if (t->axis[i])
      r->axis[i] = shape_copy(copy, t->axis[i]);
  return r;
}

Type *ty_copy(Copy *copy, Type *t) {
  t = ty_root(t);
  if (!copy->share || !t->alias)
    return copy_type(copy, t);
  Type *r = map_get(&copy->map, t);
  if (!r)
    map_put(&copy->map, t, r = copy_type(copy, t));
  return r;
}

static Fact *facts_copy(Copy *copy, Fact *f) {
  if (!f)
    return NULL;
  Fact *r = NEW(copy->c->arena, Fact);
  *r = *f;
  r->dim = dim_copy(copy, f->dim);
  r->outer = facts_copy(copy, f->outer);
  return r;
}

Constraint *constraint_copy(Copy *copy, Constraint *k) {
  Constraint *r = NEW(copy->c->arena, Constraint);
  *r = *k;
  if (k->left)
    r->left = dim_copy(copy, k->left);
  if (k->right)
    r->right = dim_copy(copy, k->right);
  if (k->a)
    r->a = shape_copy(copy, k->a);
  if (k->b)
    r->b = shape_copy(copy, k->b);
  if (k->join_count) {
    r->joined = NEW_ARRAY(copy->c->arena, Shape *, k->join_count);
    for (uint32_t i = 0; i < k->join_count; i++)
      r->joined[i] = shape_copy(copy, k->joined[i]);
  }
  r->facts = facts_copy(copy, k->facts);
  r->assumed = r->divides = false;
  if (k->divisor)
    r->divisor = dim_copy(copy, k->divisor);
  return r;
}
