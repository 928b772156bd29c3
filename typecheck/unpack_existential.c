/* Unpacking of existential sizes, and of sizes that a type writes as `?`: they
   get names, and CORE_UNPACK reads them off the value.  Main entry point:
   ty_unpack. */
#include "typecheck/internal.h"
#include "support/arena.h"

#include <string.h>

/* Marks an existential size of an instantiated scheme that no application has
   unpacked yet. */
static char packed_marker;

void dim_var_set_packed(DimVar *v) {
  v->user_data = &packed_marker;
}

bool dim_var_is_packed(const DimVar *v) {
  return v->kind == DV_EXISTENTIAL && v->user_data == &packed_marker;
}

/* Marks a size that cannot be read off any value. */
static char inaccessible_marker;

void dim_var_set_inaccessible(DimVar *v) {
  v->user_data = &inaccessible_marker;
}

bool dim_var_is_inaccessible(const DimVar *v) {
  return v->kind == DV_EXISTENTIAL && v->user_data == &inaccessible_marker;
}

typedef struct PackedVars {
  Checker *c;
  VEC(DimVar *) vars;
} PackedVars;

static void collect_packed(void *arg, DimVar *v) {
  PackedVars *o = arg;
  if (!dim_var_is_packed(v))
    return;
  for (uint32_t i = 0; i < o->vars.len; i++)
    if (o->vars.at[i] == v)
      return;
  VEC_PUSH(o->c->arena, o->vars, v);
}

static void note_packed(void *arg, DimVar *v) {
  *(bool *)arg |= dim_var_is_packed(v);
}

static Dim *unpacked_dim(TypeMapper *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

typedef struct ValuePath {
  struct SizePathStep steps[8];
  uint32_t len;
} ValuePath;

static void add_size_path(Checker *c, Core *unpack, DimVar *v, ValuePath *path,
                          bool value, int axis) {
  SizePath b = {
      .var = v, .step_count = path->len, .is_value = value, .axis = axis};
  b.steps = NEW_ARRAY(c->arena, struct SizePathStep, path->len);
  for (uint32_t i = 0; i < path->len; i++)
    b.steps[i] = path->steps[i];
  SizePath *all = NEW_ARRAY(c->arena, SizePath, unpack->size_path_count + 1);
  for (uint32_t i = 0; i < unpack->size_path_count; i++)
    all[i] = unpack->size_paths[i];
  all[unpack->size_path_count++] = b;
  unpack->size_paths = all;
}

static void add_shape_paths(Checker *c, Core *unpack, const Shape *s0,
                            ValuePath *path, Map *fresh, bool value) {
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++) {
    DimVar *v = s->axes[i].tag == SHAPE_DIM ? dim_as_var(s->axes[i].dim) : NULL;
    if (!v || v->kind != DV_EXISTENTIAL || !map_get(fresh, v))
      continue;
    bool left = true, right = true;
    for (uint32_t k = 0; k < s->len; k++)
      if (s->axes[k].tag == SHAPE_SPLICE && s->axes[k].var->fixed_rank != 1) {
        left &= k > i;
        right &= k < i;
      }
    if (!left && !right)
      continue;
    add_size_path(c, unpack, v, path, value,
                  left ? (int)i : (int)i - (int)s->len);
    map_delete(fresh, v);
  }
}

static void add_type_paths(Checker *c, Core *unpack, Type *t, ValuePath *path,
                           Map *fresh) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    add_shape_paths(c, unpack, t->tensor.shape, path, fresh, false);
    DimVar *v = t->tensor.singleton
                    ? dim_as_var(dim_resolve(c->dims, t->tensor.singleton))
                    : NULL;
    if (v && v->kind == DV_EXISTENTIAL && map_get(fresh, v)) {
      add_size_path(c, unpack, v, path, true, 0);
      map_delete(fresh, v);
    }
  } else if (t->tag == TY_SHAPE) {
    add_shape_paths(c, unpack, t->shape, path, fresh, true);
  } else if ((t->tag == TY_TUPLE || t->tag == TY_RECORD) && path->len < 8) {
    for (uint32_t i = 0; i < t->count; i++) {
      path->steps[path->len++] = (struct SizePathStep){
          t->tag == TY_RECORD ? t->record.labels[i] : NULL, i};
      add_type_paths(c, unpack, t->args[i], path, fresh);
      path->len--;
    }
  }
}

/* Existential sizes that a branch has introduced since `mark` become unknown
   outside of it.  Other branches do not know them and need not agree with
   them. */
typedef struct ForgetCopy {
  TypeMapper copy;
  uint32_t mark;
  ForgetKind kind;
  Map dependent; /* set of the sizes that depend on those to forget */
} ForgetCopy;

static bool is_to_forget(const ForgetCopy *l, const DimVar *v) {
  if (map_get(&l->dependent, v))
    return true;
  if (v->kind != DV_EXISTENTIAL || v->id < l->mark || v->level == LEVEL_GENERIC)
    return false;
  switch (l->kind) {
  case FORGET_NEW:
    return true;
  case FORGET_FROM_UNKNOWN:
    return v->from_unknown;
  case FORGET_PACKED:
    return dim_var_is_packed(v);
  }
  return false;
}

static Dim *forget_size(TypeMapper *copy, DimVar *v) {
  const ForgetCopy *l = (const ForgetCopy *)(const void *)copy;
  if (!is_to_forget(l, v))
    return NULL;
  Dim *d = meta_dim(copy->c, v->name, v->origin);
  dim_set_unknown(copy->c->dims, dim_as_var(d));
  return d;
}

Type *ty_forget_local_sizes(Checker *c, Type *t, uint32_t mark,
                            ForgetKind kind) {
  if (mark == c->dims->next_id)
    return t;
  t = ty_norm(c, t);
  if (t->tag == TY_FUN || t->tag == TY_VAR)
    return t;
  ForgetCopy l = {{.c = c, .dim = forget_size}, mark, kind, {0}};
  map_init(&l.copy.map, c->arena);
  map_init(&l.dependent, c->arena);
  if (kind != FORGET_FROM_UNKNOWN)
    dependent_varying(c, kind == FORGET_PACKED ? PACKED_ONLY : mark,
                      &l.dependent);
  return ty_copy(&l.copy, t);
}

void unpack_sizes(Checker *c, Type *t, Core **core, Map *fresh) {
  Core *unpack = core_items(c, CORE_UNPACK, (*core)->span, 1, *core);
  ValuePath path = {.len = 0};
  add_type_paths(c, unpack, t, &path, fresh);
  if (unpack->size_path_count)
    *core = unpack;
}

static bool may_have_unknown_axes(Checker *c, const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++) {
    const ShapeAxis *it = &s->axes[i];
    if (it->tag == SHAPE_DIM ? dim_has_unknown(dim_resolve(c->dims, it->dim))
                             : it->tag == SHAPE_SPLICE && it->var->solution)
      return true;
  }
  return false;
}

/* Names axes of unknown size (`?`). */
static Shape *name_unknown_axes(Checker *c, Shape *s0, Span span, bool *any) {
  if (!may_have_unknown_axes(c, s0))
    return s0;
  Shape *s = shape_norm(c, s0);
  bool some = false;
  for (uint32_t i = 0; i < s->len; i++)
    some |= s->axes[i].tag == SHAPE_DIM && dim_has_unknown(s->axes[i].dim);
  if (!some)
    return s;
  s = shape_slice(c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM && dim_has_unknown(s->axes[i].dim)) {
      s->axes[i].dim = existential_dim(c, NULL, span);
      dim_as_var(s->axes[i].dim)->from_unknown = true;
      *any = true;
    }
  return s;
}

/* `plain` has the tuples and records without unknown axes that were visited: a
 * type may share them 2^n times. */
static Type *unpack_unknowns(Checker *c, Type *t, Span span, Map *fresh,
                             Map *plain) {
  t = ty_norm(c, t);
  bool any = false;
  if (t->tag == TY_TENSOR) {
    Shape *s = name_unknown_axes(c, t->tensor.shape, span, &any);
    if (!any)
      return t;
    for (uint32_t i = 0; i < s->len; i++) {
      DimVar *v =
          s->axes[i].tag == SHAPE_DIM ? dim_as_var(s->axes[i].dim) : NULL;
      if (v && v->kind == DV_EXISTENTIAL)
        map_put(fresh, v, v);
    }
    return ty_tensor(c, t->tensor.elem, s, t->tensor.singleton);
  }
  if ((t->tag != TY_TUPLE && t->tag != TY_RECORD) || map_get(plain, t))
    return t;
  Type *r = t; /* copies only if something in it is unpacked */
  for (uint32_t i = 0; i < t->count; i++) {
    Type *unpacked = unpack_unknowns(c, t->args[i], span, fresh, plain);
    if (unpacked == ty_root(t->args[i]))
      continue;
    if (r == t) {
      r = ty_new(c, t->tag);
      *r = *t;
      r->args = NEW_ARRAY(c->arena, Type *, t->count);
      memcpy(r->args, t->args, sizeof *r->args * t->count);
    }
    r->args[i] = unpacked;
  }
  if (r == t)
    map_put(plain, t, t);
  return r;
}

/* Sizes that no axis shows on its own.  A size computed from one gets a name of
   its own; that of a list item is unknown. */
typedef struct DerivedSizes {
  Checker *c;
  Span span;
  Map *inaccessible; /* these variables */
  VEC(Dim *) exprs;  /* sizes that mention them */
  VEC(Dim *) names;  /* names of these sizes */
  bool mentioned;    /* one occurred */
} DerivedSizes;

static void note_inaccessible(void *arg, DimVar *v) {
  DerivedSizes *o = arg;
  o->mentioned |= map_get(o->inaccessible, v) != NULL;
}

static Dim *derived_dim(DerivedSizes *o, Dim *d, bool item) {
  o->mentioned = false;
  d = dim_resolve(o->c->dims, d);
  dim_each_var(d, note_inaccessible, NULL, o);
  if (!o->mentioned)
    return d;
  if (item) {
    d = meta_dim(o->c, NULL, o->span);
    dim_set_unknown(o->c->dims, dim_as_var(d));
    return d;
  }
  for (uint32_t i = 0; i < o->exprs.len; i++)
    if (dim_equal(o->exprs.at[i], d))
      return o->names.at[i];
  VEC_PUSH(o->c->arena, o->exprs, d);
  VEC_PUSH(o->c->arena, o->names, existential_dim(o->c, NULL, o->span));
  return o->names.at[o->names.len - 1];
}

static Shape *derived_shape(DerivedSizes *o, const Shape *s0, bool item) {
  Shape *s = shape_norm(o->c, s0);
  s = shape_slice(o->c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      s->axes[i].dim = derived_dim(o, s->axes[i].dim, item);
  return s;
}

static Type *derived_sizes(DerivedSizes *o, Type *t, bool item) {
  t = ty_norm(o->c, t);
  if (t->tag == TY_TENSOR)
    return ty_tensor(o->c, t->tensor.elem,
                     derived_shape(o, t->tensor.shape, item),
                     t->tensor.singleton && item ? NULL : t->tensor.singleton);
  if (t->tag == TY_SHAPE)
    return ty_shape(o->c, derived_shape(o, t->shape, item));
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATATYPE)
    return t;
  item |= t->tag == TY_DATATYPE;
  Type *r = ty_new(o->c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(o->c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = derived_sizes(o, t->args[i], item);
  return r;
}

static Type *unpack_derived_sizes(Checker *c, Type *t, Core **core,
                                  Map *inaccessible) {
  DerivedSizes o = {
      .c = c, .span = (*core)->span, .inaccessible = inaccessible};
  t = derived_sizes(&o, t, false);
  Map fresh;
  map_init(&fresh, c->arena);
  for (uint32_t i = 0; i < o.names.len; i++)
    map_put(&fresh, dim_as_var(o.names.at[i]), o.names.at[i]);
  if (fresh.len)
    unpack_sizes(c, t, core, &fresh);
  return t;
}

Type *ty_unpack(Checker *c, Type *result, Core **core) {
  result = ty_norm(c, result);
  if (result->tag == TY_FUN || result->tag == TY_VAR)
    return result;
  PackedVars o = {.c = c};
  TypeVisitor visit = {.dim = collect_packed, .arg = &o, .c = c};
  if (c->sizes.has_packed)
    ty_visit(&visit, result);
  TypeMapper copy = {.c = c, .dim = unpacked_dim};
  Map fresh, plain;
  map_init(&copy.map, c->arena);
  map_init(&fresh, c->arena);
  map_init(&plain, c->arena);
  Assumption *assumptions = c->facts.assumptions;
  for (uint32_t i = 0; i < o.vars.len; i++) {
    Dim *d = existential_dim(c, o.vars.at[i]->name, (*core)->span);
    map_put(&copy.map, o.vars.at[i], d);
    map_put(&fresh, dim_as_var(d), d);
  }
  if (o.vars.len) {
    result = ty_copy(&copy, result);
    for (Assumption *f = assumptions; f; f = f->outer) {
      bool any = false;
      dim_each_var(dim_resolve(c->dims, f->dim), note_packed, NULL, &any);
      if (!any)
        continue;
      Dim *d = dim_copy(&copy, f->dim);
      if (!dim_equal(d, dim_resolve(c->dims, f->dim))) {
        assumption_add_unconditional(c, d, f->relation == ASSUME_EQ);
        VEC_PUSH(c->arena, c->sizes.existential_assumptions,
                 c->facts.assumptions);
      }
    }
  }
  if (dim_any_unknown(c->dims))
    result = unpack_unknowns(c, result, (*core)->span, &fresh, &plain);
  if (fresh.len)
    unpack_sizes(c, result, core, &fresh);
  return fresh.len ? unpack_derived_sizes(c, result, core, &fresh) : result;
}
