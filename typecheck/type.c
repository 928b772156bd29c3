/* Types, shapes and element types: constructors, resolution of solved
   variables, walks and copies. */
#include "typecheck/types.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/trap.h"

#include <string.h>

/* ---- element types ---- */

ElemVar *elem_meta(Checker *c, uint32_t classes) {
  ElemVar *e = NEW(c->arena, ElemVar);
  e->classes = classes;
  e->level = c->inference.level;
  e->id = ++c->next_id;
  return e;
}

ElemVar *elem_fixed(Checker *c, Dtype t) {
  if (!c->builtins.fixed_elems[t]) {
    ElemVar *e = NEW(c->arena, ElemVar);
    e->dtype = t;
    e->classes = 1u << t;
    c->builtins.fixed_elems[t] = e;
  }
  return c->builtins.fixed_elems[t];
}

ElemVar *elem_root(ElemVar *e) {
  while (e->link) {
    if (e->link->link && !e->link->global) /* that link may be undone */
      e->link = e->link->link;             /* path halving */
    e = e->link;
  }
  return e;
}

ElemVar *elem_root_or_global(ElemVar *e) {
  ElemVar *global = NULL;
  for (; e->link; e = e->link)
    if (e->global)
      global = e;
  return global ? global : e;
}

Dtype elem_default_dtype(const ElemVar *e) {
  if ((e->classes & CLASS_FLOAT) && e->default_preference != PREFERS_INT)
    return DT_F32;
  if (e->classes & 1u << DT_I64)
    return DT_I64;
  return e->classes & CLASS_FLOAT ? DT_F32 : DT_BOOL;
}

Dtype elem_shown_dtype(const ElemVar *e) {
  return e->dtype == DT_NONE && e->global ? elem_default_dtype(e) : e->dtype;
}

/* ---- shapes ---- */

ShapeVar *shape_var_new(Checker *c, int fixed) {
  ShapeVar *v = NEW(c->arena, ShapeVar);
  v->id = ++c->next_id;
  v->level = c->inference.level;
  v->fixed_rank = fixed;
  v->first_newer_size = c->dims->next_id;
  return v;
}

Shape *shape_new(Checker *c, uint32_t len) {
  Shape *s = arena_alloc(c->arena, sizeof *s + len * sizeof s->axes[0]);
  s->len = len;
  return s;
}

Shape *shape_of_var(Checker *c, ShapeVar *v) {
  Shape *s = shape_new(c, 1);
  s->axes[0] = (ShapeAxis){.tag = SHAPE_SPLICE, .var = v};
  return s;
}

Shape *shape_meta(Checker *c) {
  return shape_of_var(c, shape_var_new(c, -1));
}

Shape *shape_of_dims(Checker *c, uint32_t n, Dim *const *dims) {
  Shape *s = shape_new(c, n);
  for (uint32_t i = 0; i < n; i++)
    s->axes[i] = (ShapeAxis){.tag = SHAPE_DIM, .dim = dims[i]};
  return s;
}

Shape *shape_concat(Checker *c, const Shape *a, const Shape *b) {
  Shape *s = shape_new(c, a->len + b->len);
  for (uint32_t i = 0; i < a->len; i++)
    s->axes[i] = a->axes[i];
  for (uint32_t i = 0; i < b->len; i++)
    s->axes[a->len + i] = b->axes[i];
  return s;
}

Shape *shape_slice(Checker *c, const Shape *s, uint32_t from, uint32_t to) {
  Shape *part = shape_new(c, to - from);
  for (uint32_t i = from; i < to; i++)
    part->axes[i - from] = s->axes[i];
  return part;
}

static bool is_solved_splice(const ShapeAxis *it) {
  return it->tag == SHAPE_SPLICE && it->var->solution;
}

/* The solution of a variable without solved variables in it.  Stores the
   result, so that chains of solutions are followed only once. */
static const Shape *flatten_solution(Checker *c, ShapeVar *v) {
  const Shape *s = v->solution;
  uint32_t len = 0, n = 0;
  bool flat = true;
  for (uint32_t i = 0; i < s->len; i++) {
    bool solved = is_solved_splice(&s->axes[i]);
    len += solved ? flatten_solution(c, s->axes[i].var)->len : 1;
    flat &= !solved;
  }
  if (flat)
    return s;
  Shape *out = shape_new(c, len);
  for (uint32_t i = 0; i < s->len; i++) {
    if (!is_solved_splice(&s->axes[i])) {
      out->axes[n++] = s->axes[i];
      continue;
    }
    const Shape *inner = s->axes[i].var->solution;
    for (uint32_t k = 0; k < inner->len; k++)
      out->axes[n++] = inner->axes[k];
  }
  v->solution = out;
  return out;
}

static Stretch *axis_stretch(const ShapeAxis *it) {
  Stretch *s = it->tag == SHAPE_DIM ? it->stretch : NULL;
  while (s && s->link)
    s = s->link;
  return s;
}

bool axis_is_star(const ShapeAxis *it) {
  const Stretch *s = axis_stretch(it);
  return it->tag == SHAPE_STAR || (s && s->state == STRETCH_STAR);
}

static ShapeAxis axis_norm(Checker *c, ShapeAxis it) {
  if (it.tag != SHAPE_DIM)
    return it;
  if (axis_is_star(&it))
    return (ShapeAxis){.tag = SHAPE_STAR};
  it.dim = dim_resolve(c->dims, it.dim);
  return it;
}

static bool axis_is_normal(Checker *c, const ShapeAxis *it) {
  if (it->tag != SHAPE_DIM)
    return !is_solved_splice(it);
  return !(it->stretch && axis_is_star(it)) &&
         dim_resolve(c->dims, it->dim) == it->dim;
}

Shape *shape_norm(Checker *c, const Shape *s) {
  uint32_t same = 0;
  while (same < s->len && axis_is_normal(c, &s->axes[same]))
    same++;
  if (same == s->len)
    return (Shape *)s;
  uint32_t len = same, n = same;
  for (uint32_t i = same; i < s->len; i++)
    len += is_solved_splice(&s->axes[i])
               ? flatten_solution(c, s->axes[i].var)->len
               : 1;
  Shape *out = shape_new(c, len);
  memcpy(out->axes, s->axes, same * sizeof out->axes[0]);
  for (uint32_t i = same; i < s->len; i++) {
    if (!is_solved_splice(&s->axes[i])) {
      out->axes[n++] = axis_norm(c, s->axes[i]);
      continue;
    }
    const Shape *inner = s->axes[i].var->solution;
    for (uint32_t k = 0; k < inner->len; k++)
      out->axes[n++] = axis_norm(c, inner->axes[k]);
  }
  return out;
}

bool shape_has_known_rank(const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_SPLICE && s->axes[i].var->fixed_rank != 1)
      return false;
  return true;
}

Dim *shape_product(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  Dim *d = dim_int(c->dims, 1);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      d = dim_mul(c->dims, d, s->axes[i].dim);
    else if (s->axes[i].tag == SHAPE_SPLICE)
      d = dim_mul(c->dims, d, dim_of_prod(c->dims, s->axes[i].var));
  return d;
}

Stretch *open_stretch(const ShapeAxis *it) {
  Stretch *s = axis_stretch(it);
  return s && s->state == STRETCH_OPEN ? s : NULL;
}

static bool axis_equal(const ShapeAxis *a, const ShapeAxis *b) {
  if (a->tag != b->tag)
    return false;
  switch (a->tag) {
  case SHAPE_DIM:
    return dim_equal(a->dim, b->dim) && !dim_has_unknown(a->dim) &&
           open_stretch(a) == open_stretch(b);
  case SHAPE_STAR:
    return true;
  case SHAPE_SPLICE:
    return a->var == b->var;
  }
  return false;
}

bool shape_same(const Shape *a, const Shape *b) {
  if (a->len != b->len)
    return false;
  for (uint32_t i = 0; i < a->len; i++)
    if (!axis_equal(&a->axes[i], &b->axes[i]))
      return false;
  return true;
}

bool shape_equal(Checker *c, const Shape *a, const Shape *b) {
  return shape_same(shape_norm(c, a), shape_norm(c, b));
}

/* ---- sizes ---- */

static Dim *new_var_dim(Checker *c, DimVarKind kind, Sym *name, Span origin,
                        bool value) {
  DimVar *v = dim_new_var(c->dims, kind, name, origin);
  v->level = c->inference.level;
  v->is_integer = value;
  return dim_of_var(c->dims, v);
}

Dim *meta_dim(Checker *c, Sym *name, Span origin) {
  return new_var_dim(c, DV_META, name, origin, false);
}

Dim *meta_integer(Checker *c, Span origin) {
  return new_var_dim(c, DV_META, NULL, origin, true);
}

Dim *existential_dim(Checker *c, Sym *name, Span origin) {
  Dim *d = new_var_dim(c, DV_EXISTENTIAL, name, origin, false);
  c->sizes.last_existential_id = dim_as_var(d)->id;
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
  t->var->level = c->inference.level;
  return t;
}

Type *ty_tensor(Checker *c, ElemVar *e, Shape *s, Dim *singleton) {
  Type *t = ty_new(c, TY_TENSOR);
  t->tensor.elem = e;
  t->tensor.shape = s;
  t->tensor.singleton = singleton;
  return t;
}

Type *ty_scalar(Checker *c, Dtype d, Dim *singleton) {
  return ty_tensor(c, elem_fixed(c, d), shape_new(c, 0), singleton);
}

Type *ty_int(Checker *c, Dim *singleton) {
  return ty_scalar(c, DT_I64, singleton);
}

Type *ty_fun(Checker *c, Type *param, Type *result, Effect *e) {
  Type *t = ty_new(c, TY_FUN);
  t->fun.param = param;
  t->fun.result = result;
  t->fun.effect = e;
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

Type *ty_datatype(Checker *c, Datatype *d, uint32_t n, Type *const *args) {
  Type *t = ty_tuple(c, n, args);
  t->tag = TY_DATATYPE;
  t->data.type = d;
  return t;
}

Type *ty_list(Checker *c, Type *item) {
  return ty_datatype(c, c->builtins.list_datatype, 1, &item);
}

Type *ty_string(Checker *c) {
  return ty_datatype(c, c->builtins.string_datatype, 0, NULL);
}

Type *ty_unit(Checker *c) {
  return ty_tuple(c, 0, NULL);
}

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

static Type *lift_components(Checker *c, Dim *n, Type *t) {
  Type *copy = ty_new(c, t->tag);
  *copy = *t;
  copy->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    copy->args[i] = ty_lift(c, n, t->args[i]);
  if (t->tag == TY_RECORD && t->record.rest)
    copy->record.rest = ty_lift(c, n, t->record.rest);
  return copy;
}

Type *ty_lift(Checker *c, Dim *n, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR)
    return ty_tensor(c, t->tensor.elem,
                     shape_concat(c, shape_of_dims(c, 1, &n), t->tensor.shape),
                     NULL);
  if (t->tag == TY_TUPLE || t->tag == TY_RECORD)
    return lift_components(c, n, t);
  Type *item = t->tag == TY_CAST ? ty_norm(c, t->cast.type) : t;
  if (item->tag == TY_VAR)
    item->var->is_tensor_element = item->var->is_stackable = true;
  Type *lift = ty_new(c, TY_LIFT);
  lift->lift.dim = n;
  lift->lift.type = t;
  return lift;
}

Type *ty_norm(Checker *c, Type *t) {
  t = ty_root(t);
  if (t->tag == TY_CAST)
    return ty_cast_norm(c, t);
  if (t->tag != TY_LIFT)
    return t;
  Type *inner = ty_norm(c, t->lift.type);
  if (inner->tag == TY_TENSOR || inner->tag == TY_TUPLE ||
      inner->tag == TY_RECORD)
    return ty_lift(c, t->lift.dim, inner);
  return t;
}

/* ---- effects ---- */

Effect *effect_var(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_VAR;
  e->level = c->inference.level;
  return e;
}

Effect *effect_pure(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_PURE;
  return e;
}

Effect *effect_impure(Checker *c) {
  Effect *e = NEW(c->arena, Effect);
  e->tag = EF_IMPURE;
  return e;
}

Effect *effect_root(Effect *e) {
  while (e->link)
    e = e->link;
  return e;
}

/* The effect of a body: a fixed one, or the variable that replaces all unknown
   effects in it. */
Effect *effect_close(Checker *c, Effect *context) {
  Effect *shared = NULL;
  if (effect_root(context)->tag == EF_IMPURE)
    return effect_root(context);
  for (uint32_t i = 0; i < context->lower_bounds.len; i++) {
    Effect *e = effect_root(context->lower_bounds.at[i]);
    if (e->tag == EF_IMPURE)
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

void effect_subsume(Checker *c, Effect *from, Effect *into, Span span,
                    const char *what) {
  from = effect_root(from), into = effect_root(into);
  if (from == into || from->tag == EF_PURE || into->tag == EF_IMPURE)
    return;
  if (into->tag == EF_VAR) {
    if (from->tag == EF_VAR)
      VEC_PUSH(c->arena, into->lower_bounds, from);
    else
      into->link = from;
    return;
  }
  if (from->tag == EF_VAR) {
    from->link = into;
    return;
  }
  Diag *d = error_at(c, 320, span, "%s has effects; expected a pure function",
                     what ? what : "this function");
  d->help = "map, for, reduce, fold and scan call a function in any order: use "
            "iterate, lists.map or a recursive function";
}

Dim *ty_singleton(Checker *c, Type *t) {
  t = ty_root(t);
  if (t->tag != TY_TENSOR || !t->tensor.singleton)
    return NULL;
  Dim *d = dim_resolve(c->dims, t->tensor.singleton);
  if (dim_has_unknown(d))
    return NULL;
  ElemVar *e = elem_root(t->tensor.elem);
  if (!(e->classes & CLASS_INT))
    return NULL;
  Shape *s = shape_norm(c, t->tensor.shape);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag != SHAPE_SPLICE || s->axes[i].var->fixed_rank == 1)
      return NULL;
  return d;
}

/* ---- walking ---- */

static void visit_dimvar(void *arg, DimVar *var) {
  TypeVisitor *v = arg;
  if (v->dim)
    v->dim(v->arg, var);
}

static void visit_shapevar(void *arg, ShapeVar *var) {
  TypeVisitor *v = arg;
  if (var->solution)
    shape_visit(v, var->solution);
  else if (v->shape)
    v->shape(v->arg, var);
}

void dim_visit(TypeVisitor *v, Dim *d) {
  if (!v->dim && !v->shape)
    return;
  d = dim_resolve(v->c->dims, d);
  if (v->dim || dim_has_products(d))
    dim_each_var(d, v->dim ? visit_dimvar : NULL, visit_shapevar, v);
}

void shape_visit(TypeVisitor *v, const Shape *s) {
  if (!v->dim && !v->shape)
    return;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      dim_visit(v, s->axes[i].dim);
    else if (s->axes[i].tag == SHAPE_SPLICE)
      visit_shapevar(v, s->axes[i].var);
}

static void visit_elem(TypeVisitor *v, ElemVar *e) {
  e = elem_root(e);
  if (e->dtype == DT_NONE && v->elem)
    v->elem(v->arg, e);
}

enum { MAX_WORK = 50 * 1000 * 1000 };

void charge_work(Checker *c, uint32_t steps) {
  c->inference.work += steps;
  if (c->inference.work < MAX_WORK)
    return;
  c->inference.work = 0;
  error_at(c, 324, c->inference.dec_span,
           "the types in this declaration are too large")
      ->help = "give names to parts of the type, or use fewer fields";
  trap_raise(FAIL_LIMIT);
}

void ty_visit(TypeVisitor *v, Type *t) {
  if (v->done && *v->done)
    return;
  t = ty_root(t);
  if (t->tag == TY_CAST)
    t = ty_norm(v->c, t); /* the type that it replaces may be gone */
  if (v->c)
    charge_work(v->c, 1);
  if (t->alias && v->alias)
    v->alias(v->arg, t);
  switch (t->tag) {
  case TY_VAR:
    if (v->ty)
      v->ty(v->arg, t->var);
    return;
  case TY_TENSOR:
    visit_elem(v, t->tensor.elem);
    shape_visit(v, t->tensor.shape);
    if (t->tensor.singleton && !v->shapes_only)
      dim_visit(v, t->tensor.singleton);
    return;
  case TY_FUN: {
    Effect *e = effect_root(t->fun.effect);
    if (e->tag == EF_VAR && v->effect)
      v->effect(v->arg, e);
    if (t->fun.default_type)
      ty_visit(v, t->fun.default_type);
    ty_visit(v, t->fun.param);
    ty_visit(v, t->fun.result);
    return;
  }
  case TY_DATATYPE:
    if (t->data.dims)
      for (uint32_t i = 0; i < t->data.type->dim_arity; i++)
        dim_visit(v, t->data.dims[i]);
    __attribute__((fallthrough));
  case TY_TUPLE:
  case TY_RECORD:
    for (uint32_t i = 0; i < t->count; i++)
      ty_visit(v, t->args[i]);
    if (t->tag == TY_RECORD && t->record.rest)
      ty_visit(v, t->record.rest);
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
    dim_visit(v, t->lift.dim);
    ty_visit(v, t->lift.type);
    return;
  case TY_CAST:
    visit_elem(v, t->cast.elem);
    ty_visit(v, t->cast.type);
    return;
  }
}

void constraint_visit(TypeVisitor *v, Constraint *k) {
  if (constraint_is_size(k)) {
    dim_visit(v, k->left);
    dim_visit(v, k->right);
    return;
  }
  shape_visit(v, k->a);
  if (k->b)
    shape_visit(v, k->b);
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++)
    shape_visit(v, k->broadcast_args[i]);
}

static void note_ty_var(void *arg, TyVar *v) {
  (void)v;
  *(bool *)arg = true;
}
static void note_dim_meta(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_META;
}
static void note_shape_meta(void *arg, ShapeVar *v) {
  *(bool *)arg |= !v->skolem;
}

/* True for a record that may get more fields. */
static bool is_open_record(Checker *c, Type *t) {
  t = ty_norm(c, t);
  while (t->tag == TY_RECORD && t->record.rest)
    t = ty_norm(c, t->record.rest);
  return t->tag == TY_VAR;
}

/* Sizes that are or may be forgotten count as variables. */
bool ty_is_ground(Checker *c, Type *t) {
  bool found = is_open_record(c, t);
  TypeVisitor visit = {.ty = note_ty_var,
                       .dim = note_dim_meta,
                       .shape = note_shape_meta,
                       .arg = &found,
                       .done = &found,
                       .c = c};
  ty_visit(&visit, t);
  return !found;
}

/* ---- copying ---- */

static Dim *copy_dimvar(void *arg, DimVar *v) {
  TypeMapper *copy = arg;
  return copy->dim ? copy->dim(copy, v) : NULL;
}

static Dim *copy_prod(void *arg, ShapeVar *v) {
  TypeMapper *copy = arg;
  Shape *s = copy->shape ? copy->shape(copy, v) : NULL;
  return s ? shape_product(copy->c, s) : NULL;
}

Dim *dim_copy(TypeMapper *copy, Dim *d) {
  d = dim_resolve(copy->c->dims, d);
  if (!copy->is_consistent)
    copy->epoch = 0;
  d = dim_subst_consistently(copy->c->dims, d, copy_dimvar, copy_prod, copy,
                             &copy->epoch);
  return copy->size ? copy->size(copy, d) : d;
}

/* What is general has a size in each instance. */
static void axis_copy(TypeMapper *copy, ShapeAxis *it) {
  const Dim *before = it->dim;
  Stretch *open = open_stretch(it);
  it->dim = dim_copy(copy, it->dim);
  if (open && dim_is_const(it->dim))
    open->state = STRETCH_SIZED;
  if (it->dim != before)
    it->stretch = NULL;
}

static Shape *shape_copy(TypeMapper *copy, const Shape *s0) {
  Shape *s = shape_norm(copy->c, s0);
  Shape *out = shape_new(copy->c, s->len);
  bool splice = false;
  for (uint32_t i = 0; i < s->len; i++) {
    out->axes[i] = s->axes[i];
    if (s->axes[i].tag == SHAPE_DIM)
      axis_copy(copy, &out->axes[i]);
    else if (s->axes[i].tag == SHAPE_SPLICE && copy->shape) {
      Shape *r = copy->shape(copy, s->axes[i].var);
      if (r && r->len == 1)
        out->axes[i] = r->axes[0];
      else if (r)
        splice = true;
    }
  }
  if (!splice)
    return out;
  Shape *whole = shape_new(copy->c, 0);
  for (uint32_t i = 0; i < s->len; i++) {
    Shape *r = s->axes[i].tag == SHAPE_SPLICE
                   ? copy->shape(copy, s->axes[i].var)
                   : NULL;
    whole = shape_concat(copy->c, whole,
                         r ? r : shape_slice(copy->c, out, i, i + 1));
  }
  return whole;
}

static ElemVar *elem_copy(TypeMapper *copy, ElemVar *e) {
  ElemVar *root = elem_root(e);
  ElemVar *r =
      root->dtype == DT_NONE && copy->elem ? copy->elem(copy, root) : NULL;
  return r ? r : elem_root_or_global(e);
}

static Effect *effect_copy(TypeMapper *copy, Effect *e) {
  e = effect_root(e);
  Effect *r = e->tag == EF_VAR && copy->effect ? copy->effect(copy, e) : NULL;
  return r ? r : e;
}

static void copy_alias(TypeMapper *copy, const Type *t, Type *r) {
  r->alias = t->alias;
  r->alias_count = t->alias_count;
  r->alias_dims = NULL;
  if (t->alias_count)
    r->alias_dims = NEW_ARRAY(copy->c->arena, Dim *, t->alias_count);
  for (uint32_t i = 0; i < t->alias_count; i++)
    r->alias_dims[i] = dim_copy(copy, t->alias_dims[i]);
}

static void copy_args(TypeMapper *copy, const Type *t, Type *r) {
  if (!t->count)
    return;
  r->args = NEW_ARRAY(copy->c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = ty_copy(copy, t->args[i]);
}

static void copy_fun(TypeMapper *copy, const Type *t, Type *r) {
  r->fun.param = ty_copy(copy, t->fun.param);
  r->fun.result = ty_copy(copy, t->fun.result);
  if (t->fun.default_type)
    r->fun.default_type = ty_copy(copy, t->fun.default_type);
  if (t->fun.effect)
    r->fun.effect = effect_copy(copy, t->fun.effect);
}

static void copy_datatype(TypeMapper *copy, const Type *t, Type *r) {
  copy_args(copy, t, r);
  if (!t->data.dims)
    return;
  r->data.dims = NEW_ARRAY(copy->c->arena, Dim *, t->data.type->dim_arity);
  for (uint32_t i = 0; i < t->data.type->dim_arity; i++)
    r->data.dims[i] = dim_copy(copy, t->data.dims[i]);
}

static Type *copy_type(TypeMapper *copy, Type *t) {
  charge_work(copy->c, COPY_WORK);
  Type *r;
  switch (t->tag) {
  case TY_VAR:
    r = copy->ty ? copy->ty(copy, t->var) : NULL;
    return r ? r : t;
  case TY_TENSOR:
    r = ty_tensor(copy->c, elem_copy(copy, t->tensor.elem),
                  shape_copy(copy, t->tensor.shape), NULL);
    if (t->tensor.singleton && !copy->drop_singletons)
      r->tensor.singleton = dim_copy(copy, t->tensor.singleton);
    r->span = t->span;
    copy_alias(copy, t, r);
    return r;
  case TY_SHAPE:
    return ty_shape(copy->c, shape_copy(copy, t->shape));
  case TY_LIFT:
    return ty_lift(copy->c, dim_copy(copy, t->lift.dim),
                   ty_copy(copy, t->lift.type));
  case TY_CAST:
    return ty_cast(copy->c, ty_copy(copy, t->cast.type),
                   elem_copy(copy, t->cast.elem));
  case TY_FUN:
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATATYPE:
  case TY_AXIS:
  case TY_KEEP:
    break;
  }
  r = ty_new(copy->c, t->tag);
  *r = *t;
  copy_alias(copy, t, r);
  if (t->tag == TY_FUN)
    copy_fun(copy, t, r);
  if (t->tag == TY_RECORD && t->record.rest)
    r->record.rest = ty_copy(copy, t->record.rest);
  if (t->tag == TY_TUPLE || t->tag == TY_RECORD)
    copy_args(copy, t, r);
  if (t->tag == TY_DATATYPE)
    copy_datatype(copy, t, r);
  for (int i = 0; ty_has_axes(t) && i < 3; i++)
    if (t->axis[i])
      r->axis[i] = shape_copy(copy, t->axis[i]);
  return r;
}

Type *ty_copy(TypeMapper *copy, Type *t) {
  t = ty_root(t);
  if (!copy->share_aliases || !t->alias)
    return copy_type(copy, t);
  Type *r = map_get(&copy->map, t);
  if (!r)
    map_put(&copy->map, t, r = copy_type(copy, t));
  return r;
}

static Assumption *assumption_copy(TypeMapper *copy, Assumption *f) {
  if (!f)
    return NULL;
  Assumption *r = NEW(copy->c->arena, Assumption);
  *r = *f;
  r->dim = dim_copy(copy, f->dim);
  r->outer = assumption_copy(copy, f->outer);
  return r;
}

static void copy_shapes(TypeMapper *copy, Constraint *r, const Constraint *k) {
  r->a = shape_copy(copy, k->a);
  if (k->b)
    r->b = shape_copy(copy, k->b);
  if (!k->broadcast_arg_count)
    return;
  r->broadcast_args =
      NEW_ARRAY(copy->c->arena, Shape *, k->broadcast_arg_count);
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++)
    r->broadcast_args[i] = shape_copy(copy, k->broadcast_args[i]);
}

Constraint *constraint_copy(TypeMapper *copy, Constraint *k) {
  Constraint *r = NEW(copy->c->arena, Constraint);
  *r = *k;
  if (constraint_is_size(k)) {
    r->left = dim_copy(copy, k->left);
    r->right = dim_copy(copy, k->right);
  } else {
    copy_shapes(copy, r, k);
  }
  r->assumptions = assumption_copy(copy, k->assumptions);
  r->is_given = r->divisibility = false;
  if (constraint_is_size(k) && k->divisor)
    r->divisor = dim_copy(copy, k->divisor);
  return r;
}

Type *ty_forget_singletons(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR)
    return t->tensor.singleton
               ? ty_tensor(c, t->tensor.elem, t->tensor.shape, NULL)
               : t;
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATATYPE)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = ty_forget_singletons(c, t->args[i]);
  return r;
}
