/* Sizes that an application brings into being, or that a type writes as `?`:
 * they get names, and CORE_OPEN reads them off the value. */
#include "typecheck/internal.h"

#include <string.h>

/* Marks a data size that a scheme has just given and no application has
 * opened yet. */
static char unopened;

void dim_leave_unopened(DimVar *v) {
  v->home = &unopened;
}

bool dim_is_unopened(const DimVar *v) {
  return v->kind == DV_DATA && v->home == &unopened;
}

/* Marks a size that no value shows. */
static char nowhere;

void dim_leave_nowhere(DimVar *v) {
  v->home = &nowhere;
}

bool dim_is_nowhere(const DimVar *v) {
  return v->kind == DV_DATA && v->home == &nowhere;
}

typedef struct Opening {
  Checker *c;
  VEC(DimVar *) vars;
} Opening;

static void find_unopened(void *arg, DimVar *v) {
  Opening *o = arg;
  if (!dim_is_unopened(v))
    return;
  for (uint32_t i = 0; i < o->vars.len; i++)
    if (o->vars.at[i] == v)
      return;
  VEC_PUSH(o->c->arena, o->vars, v);
}

static void any_unopened(void *arg, DimVar *v) {
  *(bool *)arg |= dim_is_unopened(v);
}

static Dim *opened_dim(Copy *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

typedef struct Path {
  struct CoreStep steps[8];
  uint32_t len;
} Path;

static void add_bind(Checker *c, Core *open, DimVar *v, Path *path, bool value,
                     int axis) {
  CoreBind b = {.var = v, .step_count = path->len, .value = value,
                .axis = axis};
  b.steps = NEW_ARRAY(c->arena, struct CoreStep, path->len);
  for (uint32_t i = 0; i < path->len; i++)
    b.steps[i] = path->steps[i];
  CoreBind *all = NEW_ARRAY(c->arena, CoreBind, open->bind_count + 1);
  for (uint32_t i = 0; i < open->bind_count; i++)
    all[i] = open->binds[i];
  all[open->bind_count++] = b;
  open->binds = all;
}

static void bind_shape(Checker *c, Core *open, const Shape *s0, Path *path,
                       Map *fresh, bool value) {
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++) {
    DimVar *v = s->at[i].tag == IT_DIM ? dim_as_var(s->at[i].dim) : NULL;
    if (!v || v->kind != DV_DATA || !map_get(fresh, v))
      continue;
    bool left = true, right = true;
    for (uint32_t k = 0; k < s->len; k++)
      if (s->at[k].tag == IT_SPLICE && s->at[k].var->fixed != 1) {
        left &= k > i;
        right &= k < i;
      }
    if (!left && !right)
      continue;
    add_bind(c, open, v, path, value,
             left ? (int)i : (int)i - (int)s->len);
    map_delete(fresh, v);
  }
}

static void bind_sizes(Checker *c, Core *open, Type *t, Path *path,
                       Map *fresh) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    bind_shape(c, open, t->shape, path, fresh, false);
    DimVar *v = t->term ? dim_as_var(dim_resolve(c->dims, t->term)) : NULL;
    if (v && v->kind == DV_DATA && map_get(fresh, v)) {
      add_bind(c, open, v, path, true, 0);
      map_delete(fresh, v);
    }
  } else if (t->tag == TY_SHAPE) {
    bind_shape(c, open, t->shape, path, fresh, true);
  } else if ((t->tag == TY_TUPLE || t->tag == TY_RECORD) && path->len < 8) {
    for (uint32_t i = 0; i < t->count; i++) {
      path->steps[path->len++] = (struct CoreStep){
          t->tag == TY_RECORD ? t->labels[i] : NULL, i};
      bind_sizes(c, open, t->args[i], path, fresh);
      path->len--;
    }
  }
}

/* Sizes that a branch alone has named, since `mark`, are unknown outside it:
 * the others do not know them, and are not to be like them. */
typedef struct Leaving {
  Copy copy;
  uint32_t mark;
  LeaveKind kind;
} Leaving;

static bool leaves(const Leaving *l, const DimVar *v) {
  if (v->kind != DV_DATA || v->id < l->mark || v->level == LEVEL_GENERIC)
    return false;
  switch (l->kind) {
  case LEAVE_NEW: return true;
  case LEAVE_FORGOTTEN: return v->forgotten;
  case LEAVE_UNOPENED: return dim_is_unopened(v);
  }
  return false;
}

static Dim *left_behind(Copy *copy, DimVar *v) {
  const Leaving *l = (const Leaving *)(const void *)copy;
  if (!leaves(l, v))
    return NULL;
  Dim *d = meta_dim(copy->c, v->name, v->origin);
  dim_as_var(d)->top = true;
  return d;
}

Type *ty_leave(Checker *c, Type *t, uint32_t mark, LeaveKind kind) {
  if (mark == c->dims->next_id)
    return t;
  t = ty_norm(c, t);
  if (t->tag == TY_FUN || t->tag == TY_VAR)
    return t;
  Leaving l = {{.c = c, .dim = left_behind}, mark, kind};
  map_init(&l.copy.map, c->arena);
  return ty_copy(&l.copy, t);
}

void open_sizes(Checker *c, Type *t, Core **core, Map *fresh) {
  Core *open = core_items(c, CORE_OPEN, (*core)->span, 1, *core);
  Path path = {.len = 0};
  bind_sizes(c, open, t, &path, fresh);
  if (open->bind_count)
    *core = open;
}

/* `?` axes get names here, too. */
static Shape *name_tops(Checker *c, Shape *s0, Span span, bool *any) {
  Shape *s = shape_norm(c, s0);
  bool some = false;
  for (uint32_t i = 0; i < s->len; i++)
    some |= s->at[i].tag == IT_DIM && dim_has_top(s->at[i].dim);
  if (!some)
    return s;
  s = shape_slice(c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM && dim_has_top(s->at[i].dim)) {
      s->at[i].dim = data_dim(c, NULL, span);
      dim_as_var(s->at[i].dim)->forgotten = true;
      *any = true;
    }
  return s;
}

static Type *open_tops(Checker *c, Type *t, Span span, Map *fresh) {
  t = ty_norm(c, t);
  bool any = false;
  if (t->tag == TY_TENSOR) {
    Shape *s = name_tops(c, t->shape, span, &any);
    if (!any)
      return t;
    for (uint32_t i = 0; i < s->len; i++) {
      DimVar *v = s->at[i].tag == IT_DIM ? dim_as_var(s->at[i].dim) : NULL;
      if (v && v->kind == DV_DATA)
        map_put(fresh, v, v);
    }
    return ty_tensor(c, t->elem, s, t->term);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return t;
  Type *r = t; /* a copy only where something in it is opened */
  for (uint32_t i = 0; i < t->count; i++) {
    Type *opened = open_tops(c, t->args[i], span, fresh);
    if (opened == ty_root(t->args[i]))
      continue;
    if (r == t) {
      r = ty_new(c, t->tag);
      *r = *t;
      r->args = NEW_ARRAY(c->arena, Type *, t->count);
      memcpy(r->args, t->args, sizeof *r->args * t->count);
    }
    r->args[i] = opened;
  }
  return r;
}

/* What no axis of the value shows alone: a size that is computed of it gets a
 * name of its own, and that of an item of a list is unknown. */
typedef struct Others {
  Checker *c;
  Span span;
  Map *hidden;    /* those variables, */
  VEC(Dim *) of;  /* sizes that mention them */
  VEC(Dim *) as;  /* and what these are called */
  bool mentioned; /* one was found */
} Others;

static void find_hidden(void *arg, DimVar *v) {
  Others *o = arg;
  o->mentioned |= map_get(o->hidden, v) != NULL;
}

static Dim *other_dim(Others *o, Dim *d, bool item) {
  o->mentioned = false;
  d = dim_resolve(o->c->dims, d);
  dim_each_var(d, find_hidden, NULL, o);
  if (!o->mentioned)
    return d;
  if (item) {
    d = meta_dim(o->c, NULL, o->span);
    dim_as_var(d)->top = true;
    return d;
  }
  for (uint32_t i = 0; i < o->of.len; i++)
    if (dim_equal(o->of.at[i], d))
      return o->as.at[i];
  VEC_PUSH(o->c->arena, o->of, d);
  VEC_PUSH(o->c->arena, o->as, data_dim(o->c, NULL, o->span));
  return o->as.at[o->as.len - 1];
}

static Shape *other_shape(Others *o, const Shape *s0, bool item) {
  Shape *s = shape_norm(o->c, s0);
  s = shape_slice(o->c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      s->at[i].dim = other_dim(o, s->at[i].dim, item);
  return s;
}

static Type *other_sizes(Others *o, Type *t, bool item) {
  t = ty_norm(o->c, t);
  if (t->tag == TY_TENSOR)
    return ty_tensor(o->c, t->elem, other_shape(o, t->shape, item),
                     t->term && item ? NULL : t->term);
  if (t->tag == TY_SHAPE)
    return ty_shape(o->c, other_shape(o, t->shape, item));
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATA)
    return t;
  item |= t->tag == TY_DATA;
  Type *r = ty_new(o->c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(o->c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = other_sizes(o, t->args[i], item);
  return r;
}

static Type *open_others(Checker *c, Type *t, Core **core, Map *hidden) {
  Others o = {.c = c, .span = (*core)->span, .hidden = hidden};
  t = other_sizes(&o, t, false);
  Map fresh;
  map_init(&fresh, c->arena);
  for (uint32_t i = 0; i < o.as.len; i++)
    map_put(&fresh, dim_as_var(o.as.at[i]), o.as.at[i]);
  if (fresh.len)
    open_sizes(c, t, core, &fresh);
  return t;
}

Type *ty_open_data(Checker *c, Type *result, Core **core) {
  result = ty_norm(c, result);
  if (result->tag == TY_FUN || result->tag == TY_VAR)
    return result;
  Opening o = {.c = c};
  Visit look = {.dim = find_unopened, .arg = &o, .c = c};
  ty_visit(&look, result);
  Copy copy = {.c = c, .dim = opened_dim};
  Map fresh;
  map_init(&copy.map, c->arena);
  map_init(&fresh, c->arena);
  Fact *facts = c->facts;
  for (uint32_t i = 0; i < o.vars.len; i++) {
    Dim *d = data_dim(c, o.vars.at[i]->name, (*core)->span);
    map_put(&copy.map, o.vars.at[i], d);
    map_put(&fresh, dim_as_var(d), d);
  }
  if (o.vars.len) {
    result = ty_copy(&copy, result);
    for (Fact *f = facts; f; f = f->outer) {
      bool any = false;
      dim_each_var(dim_resolve(c->dims, f->dim), any_unopened, NULL, &any);
      if (!any)
        continue;
      Dim *d = dim_copy(&copy, f->dim);
      if (!dim_equal(d, dim_resolve(c->dims, f->dim))) {
        fact_known(c, d, f->eq);
        VEC_PUSH(c->arena, c->data_facts, c->facts);
      }
    }
  }
  result = open_tops(c, result, (*core)->span, &fresh);
  if (fresh.len)
    open_sizes(c, result, core, &fresh);
  return fresh.len ? open_others(c, result, core, &fresh) : result;
}
