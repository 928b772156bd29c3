/* Unification of types, shapes and terms, and the flow of a value to where it
 * is used. */
#include "typecheck/internal.h"

/* --- levels: a variable lives as long as the outermost it is bound to --- */

static void lower_ty(void *arg, TyVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void lower_elem(void *arg, ElemVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void lower_dim(void *arg, DimVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void lower_shape(void *arg, ShapeVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void lower_effect(void *arg, Effect *e) {
  uint32_t level = *(uint32_t *)arg;
  if (e->level > level)
    e->level = level;
}

static Visit lowering(Checker *c, uint32_t *level) {
  return (Visit){.ty = lower_ty, .elem = lower_elem, .dim = lower_dim,
                 .shape = lower_shape, .effect = lower_effect, .arg = level,
                 .c = c};
}

void ty_lower(Checker *c, Type *t) {
  Visit lower = lowering(c, &c->level);
  ty_visit(&lower, t);
}

void dim_bind(Checker *c, DimVar *v, Dim *d) {
  DimVar *data = dim_as_var(d);
  if (v->name && data && data->kind == DV_DATA && data->level == v->level)
    data->name = v->name; /* the annotation says what to call it */
  if (data)
    data->inner |= v->inner;
  Visit lower = lowering(c, &v->level);
  dim_visit(&lower, d);
  v->bound = d;
  c->dims->solved++;
  c->progress = true;
  wait_solved_dim(c, v);
}

void shape_bind(Checker *c, ShapeVar *v, Shape *s) {
  Visit lower = lowering(c, &v->level);
  shape_visit(&lower, s);
  v->bound = s;
  c->dims->solved++;
  c->progress = true;
  wait_solved_shape(c, v, s);
}

/* ---- element types ---- */

static bool unify_elem_roots(Checker *c, ElemVar *a, ElemVar *b) {
  if (!(a->classes & b->classes))
    return false;
  bool a_free = a->dtype == DT_NONE && !a->rigid;
  bool b_free = b->dtype == DT_NONE && !b->rigid;
  if (!a_free && b_free) {
    ElemVar *swap = a;
    a = b, b = swap;
  } else if (!a_free) {
    return false;
  }
  /* a is solved: b must do for all that was asked of a */
  if (b->dtype == DT_NONE) { /* a rigid one may be narrowed: `given` says so */
    b->classes &= a->classes;
    b->prefer = b->prefer > a->prefer ? b->prefer : a->prefer;
  }
  if (b->dtype == DT_NONE && b->level > a->level)
    b->level = a->level;
  a->link = b;
  c->progress = true;
  return true;
}

bool unify_elem(Checker *c, ElemVar *a, ElemVar *b) {
  a = elem_root(a), b = elem_root(b);
  if (a == b)
    return true;
  bool free = a->classes == CLASS_ANY || b->classes == CLASS_ANY;
  bool fits = unify_elem_roots(c, a, b);
  return free ? fits : decided(c, ROW_CLASS, fits);
}

/* ---- shapes ---- */

static bool mentions_shape(const Shape *s, const ShapeVar *v) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_SPLICE && s->at[i].var == v)
      return true;
  return false;
}

typedef struct InSizes {
  const ShapeVar *var;
  bool found;
} InSizes;

static void find_in_sizes(void *arg, ShapeVar *v) {
  InSizes *f = arg;
  f->found |= v == f->var;
}

/* A size in s is a product of v. */
static bool sizes_mention(Checker *c, const Shape *s, const ShapeVar *v) {
  InSizes f = {v, false};
  Visit look = {.shape = find_in_sizes, .arg = &f, .c = c};
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      dim_visit(&look, s->at[i].dim);
  return f.found;
}

static bool is_one(const ShapeIt *it) {
  return it->tag != IT_SPLICE || it->var->fixed == 1;
}

/* What a literal axis or an index takes: not known yet. */
static DimVar *of_literal(Checker *c, const ShapeIt *it) {
  DimVar *v = dim_as_var(dim_resolve(c->dims, it->dim));
  return v && v->kind == DV_META && v->literal ? v : NULL;
}

/* What a literal axis or an index takes may be a *: for it, an axis of 1.  Not
 * so a size of a parameter: no name of a size stands for a *; nor what was an
 * axis of a size before. */
static bool takes_star(Checker *c, const ShapeIt *it) {
  DimVar *v = of_literal(c, it);
  if (v && !of_parameter(c, v)) {
    v->star = true;
    dim_bind(c, v, dim_int(c->dims, 1));
    return true;
  }
  const DimVar *named = dim_as_var(it->dim);
  int64_t n;
  return (named ? named->literal && !named->sized : it->literal) &&
         dim_is_int(dim_resolve(c->dims, it->dim), &n) && n == 1;
}

static void same_size(Checker *c, const ShapeIt *a, const ShapeIt *b,
                      Origin *o) {
  DimVar *v = of_literal(c, a), *w = of_literal(c, b);
  if (v && !w)
    v->sized = true;
  if (w && !v)
    w->sized = true;
  demand_eq(c, a->dim, b->dim, o);
}

static bool unify_item(Checker *c, ShapeIt *a, ShapeIt *b, Origin *o) {
  if (a->tag == IT_SPLICE || b->tag == IT_SPLICE) {
    if (a->tag == IT_SPLICE && b->tag == IT_SPLICE && a->var == b->var)
      return true;
    if (a->tag != IT_SPLICE || a->var->rigid) {
      ShapeIt *swap = a;
      a = b, b = swap;
    }
    if (a->tag != IT_SPLICE || a->var->rigid)
      return false;
    Shape *s = shape_new(c, 1);
    s->at[0] = *b;
    if (!sizes_mention(c, s, a->var)) {
      inside_bind_shape(c, a->var, s, o);
      return true;
    }
    s->at[0].dim = meta_dim(c, NULL, (Span){0}); /* b is a product of a */
    shape_bind(c, a->var, s);
    demand_eq(c, s->at[0].dim, b->dim, o);
    return true;
  }
  bool a_star = item_is_star(a), b_star = item_is_star(b);
  if (a_star || b_star)
    return (a_star && b_star) || takes_star(c, a_star ? b : a);
  same_size(c, a, b, o);
  return true;
}

/* The sequences that are left when equal ends are gone. */
typedef struct Rest {
  Shape *a, *b;
} Rest;

static bool strip_ends(Checker *c, Rest *r, Origin *o) {
  uint32_t front = 0, back = 0;
  Shape *a = r->a, *b = r->b;
  uint32_t least = a->len < b->len ? a->len : b->len;
  for (; front < least; front++) {
    ShapeIt *x = &a->at[front], *y = &b->at[front];
    bool same = x->tag == IT_SPLICE && y->tag == IT_SPLICE &&
                x->var == y->var;
    if (!same && (!is_one(x) || !is_one(y)))
      break;
    if (!same && !unify_item(c, x, y, o))
      return false;
  }
  for (; back < least - front; back++) {
    ShapeIt *x = &a->at[a->len - 1 - back], *y = &b->at[b->len - 1 - back];
    bool same = x->tag == IT_SPLICE && y->tag == IT_SPLICE &&
                x->var == y->var;
    if (!same && (!is_one(x) || !is_one(y)))
      break;
    if (!same && !unify_item(c, x, y, o))
      return false;
  }
  r->a = shape_slice(c, a, front, a->len - back);
  r->b = shape_slice(c, b, front, b->len - back);
  return true;
}

/* All of s must be empty. */
static bool make_empty(Checker *c, Shape *s) {
  for (uint32_t i = 0; i < s->len; i++) {
    ShapeIt *it = &s->at[i];
    if (it->tag != IT_SPLICE || it->var->rigid || it->var->fixed > 0)
      return false;
    if (!it->var->bound)
      shape_bind(c, it->var, shape_new(c, 0));
  }
  return true;
}

uint32_t shape_least_rank(const Shape *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->len; i++)
    n += is_one(&s->at[i]);
  return n;
}

/* v as all, of which a size is a product of v: v has as many axes. */
static Shape *as_many_axes(Checker *c, const Shape *all) {
  Shape *s = shape_new(c, all->len);
  for (uint32_t i = 0; i < all->len; i++)
    if (all->at[i].tag == IT_DIM)
      s->at[i].dim = meta_dim(c, NULL, (Span){0});
    else
      s->at[i] = all->at[i];
  return s;
}

/* The variable for any number of axes that s is; or NULL. */
static ShapeVar *lone_var(const Shape *s) {
  if (s->len != 1 || s->at[0].tag != IT_SPLICE)
    return NULL;
  ShapeVar *v = s->at[0].var;
  return v->rigid || v->fixed >= 0 ? NULL : v;
}

/* The only variable of s that may stand for any number of axes; NULL if there
 * are more of them, or none.  *times is how often it stands there. */
static ShapeVar *only_var(const Shape *s, uint32_t *times) {
  ShapeVar *v = NULL;
  *times = 0;
  for (uint32_t i = 0; i < s->len; i++) {
    if (s->at[i].tag != IT_SPLICE)
      continue;
    ShapeVar *x = s->at[i].var;
    if (x->rigid || x->fixed >= 0 || (v && v != x))
      return NULL;
    v = x;
    ++*times;
  }
  return v;
}

/* [...v, 3, ...v] == all, of which the rank is known: so is that of v, if the
 * axes can be shared out.  NULL where they cannot. */
static Shape *shared_out(Checker *c, const Shape *s, const Shape *all,
                         uint32_t times) {
  uint32_t ones = shape_least_rank(s), at = 0;
  if (all->len < ones || (all->len - ones) % times)
    return NULL;
  while (s->at[at].tag != IT_SPLICE)
    at++;
  return shape_slice(c, all, at, at + (all->len - ones) / times);
}

/* No axes that a splice may stand for make the two of one rank. */
static bool ranks_clash(const Shape *a, const Shape *b) {
  return (shape_known_rank(a) && shape_least_rank(b) > a->len) ||
         (shape_known_rank(b) && shape_least_rank(a) > b->len);
}

static bool unify_ends(Checker *c, const Shape *a0, const Shape *b0,
                       Origin *o) {
  Rest r = {shape_norm(c, a0), shape_norm(c, b0)};
  /* first, for else some of the sizes were solved, and the message would speak
   * of these */
  if (ranks_clash(r.a, r.b) || !strip_ends(c, &r, o))
    return false;
  r.a = shape_norm(c, r.a), r.b = shape_norm(c, r.b);
  if (r.a->len == 0 || r.b->len == 0)
    return make_empty(c, r.a->len ? r.a : r.b);
  ShapeVar *x = lone_var(r.a), *y = lone_var(r.b);
  if (x && y && x->id < y->id)
    x = NULL; /* the newer one is solved: fewer constraints mention it */
  for (int turn = 0; turn < 2; turn++) {
    ShapeVar *v = turn ? y : x;
    Shape *one = turn ? r.b : r.a, *all = turn ? r.a : r.b;
    if (!v || mentions_shape(all, v))
      continue;
    if (!sizes_mention(c, all, v)) {
      inside_bind_shape(c, v, all, o);
      return true;
    }
    if (shape_known_rank(all)) {
      shape_bind(c, v, as_many_axes(c, all));
      return unify_ends(c, one, all, o);
    }
  }
  for (int turn = 0; turn < 2; turn++) {
    Shape *s = turn ? r.b : r.a, *all = turn ? r.a : r.b;
    uint32_t times;
    ShapeVar *v = only_var(s, &times);
    if (!v || !shape_known_rank(all))
      continue;
    Shape *part = shared_out(c, s, all, times);
    if (!part)
      return false;
    shape_bind(c, v, sizes_mention(c, part, v) ? as_many_axes(c, part) : part);
    return unify_ends(c, s, all, o);
  }
  /* Too short for what the other has, or rigid against sizes: no solution. */
  for (int turn = 0; turn < 2; turn++) {
    Shape *x = turn ? r.b : r.a, *y = turn ? r.a : r.b;
    if (shape_known_rank(x) && shape_least_rank(y) > x->len)
      return false;
    bool rigid = true;
    for (uint32_t i = 0; i < y->len; i++)
      rigid &= y->at[i].tag != IT_SPLICE || y->at[i].var->rigid;
    bool x_rigid = true;
    for (uint32_t i = 0; i < x->len; i++)
      x_rigid &= x->at[i].tag != IT_SPLICE || x->at[i].var->rigid;
    if (rigid && x_rigid)
      return false;
  }
  demand(c, (Constraint){.kind = CN_SHAPE_EQ, .origin = o, .a = r.a,
                         .b = r.b});
  return true;
}

static bool has_splice(const Shape *s) {
  bool found = false;
  for (uint32_t i = 0; i < s->len; i++)
    found |= s->at[i].tag == IT_SPLICE;
  return found;
}

bool unify_shape(Checker *c, const Shape *a, const Shape *b, Origin *o) {
  bool splice = has_splice(a) || has_splice(b);
  uint32_t waiting = c->pending.len;
  bool fits = unify_ends(c, a, b, o);
  if (splice && c->pending.len == waiting)
    return decided(c, ROW_SHAPE, fits);
  return fits;
}

/* ---- terms ---- */

/* The variable that d is, if it is a value meta that is not solved, or a soft
 * one: a meta standing for the term that an argument had. */
static DimVar *loose(Dim *d) {
  DimVar *v = dim_as_var(d);
  return v && v->kind == DV_META && !v->top ? v : NULL;
}

static void forget(Checker *c, DimVar *v) {
  dim_forget(c->dims, v);
  c->progress = true;
  if (v->bound)
    wait_forgotten(c);
  else
    wait_solved_dim(c, v);
  if (v->bound && v->home) { /* soft: what was proved with it is void */
    if (!map_get(&c->forgotten, v->home)) {
      map_put(&c->forgotten, v->home, v);
      c->again = true;
    }
  }
}

typedef struct Soft {
  Checker *c;
  bool any;
} Soft;

static void forget_each(void *arg, DimVar *v) {
  Soft *s = arg;
  if (v->kind != DV_META || v->top)
    return;
  if (v->bound && !v->home) {
    dim_each_var(v->bound, forget_each, NULL, s);
    return;
  }
  if (v->bound || v->value) {
    forget(s->c, v);
    s->any = true;
  }
}

/* Chases soft metas only as far as they are plainly bound to one another. */
static Dim *term_look(Checker *c, Dim *d) { return dim_resolve(c->dims, d); }

static bool unify_term(Checker *c, Dim *a, Dim *b, Origin *o) {
  Dim *x = term_look(c, a), *y = term_look(c, b);
  if (dim_has_top(x) || dim_has_top(y)) {
    Dim *other = dim_has_top(x) ? y : x;
    DimVar *v = loose(other);
    if (v && v->value)
      forget(c, v);
    return true;
  }
  if (dim_equal(x, y))
    return true;
  DimVar *v = loose(x), *w = loose(y);
  if (v && w && v->value == w->value && v->id < w->id)
    v = NULL; /* the newer one is solved */
  if (v && !v->bound && !dim_mentions(c->dims, y, v) &&
      (v->value || !w || !w->value)) {
    dim_bind(c, v, b);
    if (!v->value)
      demand_le(c, dim_int(c->dims, 0), y, o);
    return true;
  }
  if (w && !w->bound && !dim_mentions(c->dims, x, w)) {
    dim_bind(c, w, a);
    if (!w->value)
      demand_le(c, dim_int(c->dims, 0), x, o);
    return true;
  }
  Soft s = {c, false};
  dim_each_var(a, forget_each, NULL, &s);
  if (!s.any || !dim_has_top(dim_resolve(c->dims, a)))
    dim_each_var(b, forget_each, NULL, &s);
  if (!s.any)
    demand_eq(c, x, y, o);
  return true;
}

/* ---- types ---- */

typedef struct Occurs {
  TyVar *var;
  bool found;
} Occurs;

static void occurs_ty(void *arg, TyVar *v) {
  Occurs *o = arg;
  o->found |= o->var == v;
}

/* t, whose integers are data: each element is another. */
static Type *as_element(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_VAR)
    t->var->element = true;
  if (t->tag == TY_TENSOR && t->term) {
    DimVar *v = loose(dim_resolve(c->dims, t->term));
    if (v && v->value && !v->bound)
      forget(c, v);
    return ty_tensor(c, t->elem, t->shape, NULL);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = as_element(c, t->args[i]);
  return r;
}

static bool ty_bind(Checker *c, TyVar *v, Type *t) {
  Occurs o = {v, false};
  Visit look = {.ty = occurs_ty, .arg = &o, .c = c};
  ty_visit(&look, t);
  if (o.found)
    return false;
  Visit lower = lowering(c, &v->level);
  ty_visit(&lower, t);
  v->link = v->element ? as_element(c, t) : t;
  c->progress = true;
  return true;
}

static bool unify_terms_of(Checker *c, Type *a, Type *b, Origin *o) {
  if (!a->term && !b->term)
    return true;
  if (!(elem_root(a->elem)->classes & CLASS_INT))
    return true;
  Shape *s = shape_norm(c, a->shape);
  if (s->len && shape_known_rank(s))
    return true; /* not a scalar: it has no term */
  if (a->term && b->term)
    return unify_term(c, a->term, b->term, o);
  Dim *d = dim_resolve(c->dims, a->term ? a->term : b->term);
  DimVar *v = loose(d);
  if (v && !v->bound) {
    forget(c, v);
  } else {
    Soft soft = {c, false};
    dim_each_var(a->term ? a->term : b->term, forget_each, NULL, &soft);
  }
  return true;
}

static bool unify_effect(Effect *a, Effect *b) {
  a = effect_root(a), b = effect_root(b);
  if (a == b || (a->tag == b->tag && a->tag != EF_VAR))
    return true;
  if (a->tag != EF_VAR) {
    Effect *swap = a;
    a = b, b = swap;
  }
  if (a->tag != EF_VAR)
    return false;
  if (b->tag == EF_VAR && b->level > a->level)
    b->level = a->level;
  a->link = b;
  return true;
}

Type *row_field(Type *t, Sym *label) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->labels[i] == label)
      return t->args[i];
  return NULL;
}

/* The record that stands where t has its row variable; or NULL. */
static Type *row_rest(Type *t) {
  Type *rest = t->arg[0] ? ty_root(t->arg[0]) : NULL;
  return rest && rest->tag == TY_RECORD ? rest : NULL;
}

Type *row_flat(Checker *c, Type *t) {
  t = ty_root(t);
  if (!row_rest(t))
    return t;
  Type *r = ty_new(c, TY_RECORD);
  uint32_t count = 0;
  for (Type *part = t; part; part = row_rest(part)) {
    count += part->count;
    r->arg[0] = part->arg[0];
  }
  r->args = NEW_ARRAY(c->arena, Type *, count);
  r->labels = NEW_ARRAY(c->arena, Sym *, count);
  for (Type *part = t; part; part = row_rest(part))
    for (uint32_t i = 0; i < part->count; i++) {
      r->args[r->count] = part->args[i];
      r->labels[r->count++] = part->labels[i];
    }
  r->alias = t->alias;
  return r;
}

/* The fields of a that b lacks, and as rest `rest`. */
static Type *row_missing(Checker *c, Type *a, Type *b, Type *rest) {
  Type *r = ty_new(c, TY_RECORD);
  r->args = NEW_ARRAY(c->arena, Type *, a->count);
  r->labels = NEW_ARRAY(c->arena, Sym *, a->count);
  r->arg[0] = rest;
  for (uint32_t i = 0; i < a->count; i++)
    if (!row_field(b, a->labels[i])) {
      r->args[r->count] = a->args[i];
      r->labels[r->count++] = a->labels[i];
    }
  return r;
}

static bool unify_rows(Checker *c, Type *a, Type *b, Origin *o) {
  a = row_flat(c, a), b = row_flat(c, b);
  for (uint32_t i = 0; i < a->count; i++) {
    Type *other = row_field(b, a->labels[i]);
    if (other && !unify(c, a->args[i], other, o))
      return false;
  }
  Type *more_a = row_missing(c, a, b, NULL); /* what b must still get */
  Type *more_b = row_missing(c, b, a, NULL);
  if (!a->arg[0] && !b->arg[0])
    return more_a->count == 0 && more_b->count == 0;
  if (a->arg[0] && b->arg[0]) {
    if (ty_root(a->arg[0]) == ty_root(b->arg[0]))
      return more_a->count == 0 && more_b->count == 0;
    Type *rest = ty_meta(c);
    more_a->arg[0] = more_b->arg[0] = rest;
    return unify(c, a->arg[0], more_b, o) && unify(c, b->arg[0], more_a, o);
  }
  Type *open = a->arg[0] ? a : b;
  Type *missing = a->arg[0] ? more_b : more_a;
  Type *excess = a->arg[0] ? more_a : more_b;
  if (excess->count)
    return false;
  return unify(c, open->arg[0], missing, o);
}

static bool unify_record(Checker *c, Type *a, Type *b, Origin *o) {
  return decided(c, ROW_RECORD, unify_rows(c, a, b, o));
}

static bool unify_parts_lifted(Checker *c, Type *lift, Type *t, Origin *o) {
  if (t->tag == TY_LIFT) {
    demand_eq(c, lift->dim, t->dim, o);
    return unify(c, lift->arg[0], t->arg[0], o);
  }
  if (t->tag == TY_TENSOR) {
    Shape *rest = shape_any(c);
    Shape *whole = shape_concat(c, shape_dims(c, 1, &lift->dim), rest);
    if (!unify_shape(c, t->shape, whole, o))
      return false;
    return unify(c, lift->arg[0], ty_tensor(c, t->elem, rest, NULL), o);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return false;
  Type *inner = ty_new(c, t->tag);
  *inner = *t;
  inner->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++) {
    inner->args[i] = ty_meta(c);
    Type *part = ty_lift(c, lift->dim, inner->args[i]);
    if (!unify(c, part, t->args[i], o))
      return false;
  }
  return unify(c, lift->arg[0], inner, o);
}

static bool unify_lift(Checker *c, Type *lift, Type *t, Origin *o) {
  return decided(c, ROW_LIFT, unify_parts_lifted(c, lift, t, o));
}

/* The elements of a list share a type: none of them is known to be a size. */
static void forget_items(Checker *c, Type *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    Type *item = ty_norm(c, t->args[i]);
    if (item->tag == TY_TUPLE || item->tag == TY_RECORD)
      forget_items(c, item);
    if (item->tag != TY_TENSOR || !item->term)
      continue;
    DimVar *v = loose(dim_resolve(c->dims, item->term));
    if (v && v->value && !v->bound)
      forget(c, v);
    else
      item->term = NULL;
  }
}

static bool unify_parts(Checker *c, Type *a, Type *b, Origin *o) {
  if (a->count != b->count)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!unify(c, a->args[i], b->args[i], o))
      return false;
  return true;
}

static bool bind_var(Checker *c, TyVar *v, Type *t, Origin *o) {
  Type *own = inside_own(c, v, t, o);
  if (!ty_bind(c, v, own))
    return false;
  inside_same(c, own, t, o);
  return true;
}

bool unify(Checker *c, Type *a, Type *b, Origin *o) {
  spend(c, 1);
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a == b)
    return true;
  if (a->tag == TY_VAR && b->tag == TY_VAR && a->var == b->var)
    return true;
  if (a->tag == TY_VAR && !a->var->rigid)
    return bind_var(c, a->var, b, o);
  if (b->tag == TY_VAR && !b->var->rigid)
    return bind_var(c, b->var, a, o);
  if (a->tag == TY_LIFT)
    return unify_lift(c, a, b, o);
  if (b->tag == TY_LIFT)
    return unify_lift(c, b, a, o);
  if (a->tag != b->tag)
    return false;
  switch (a->tag) {
  case TY_VAR:
  case TY_LIFT:
    return false;
  case TY_TENSOR:
    return unify_elem(c, a->elem, b->elem) &&
           unify_shape(c, a->shape, b->shape, o) &&
           unify_terms_of(c, a, b, o);
  case TY_FUN:
    if (a->label != b->label || a->optional != b->optional)
      return false;
    return unify(c, a->arg[0], b->arg[0], o) &&
           unify(c, a->arg[1], b->arg[1], o) &&
           unify_effect(a->effect, b->effect);
  case TY_TUPLE:
    return unify_parts(c, a, b, o);
  case TY_RECORD:
    return unify_record(c, a, b, o);
  case TY_DATA:
    if (a->data != b->data)
      return false;
    forget_items(c, a);
    forget_items(c, b);
    for (uint32_t i = 0; i < a->data->dim_arity; i++)
      demand_eq(c, a->dims[i], b->dims[i], o);
    return unify_parts(c, a, b, o);
  case TY_SHAPE:
    return unify_shape(c, a->shape, b->shape, o);
  case TY_AXIS:
    return unify_shape(c, a->axis[0], b->axis[0], o) &&
           unify_shape(c, a->axis[1], b->axis[1], o) &&
           unify_shape(c, a->axis[2], b->axis[2], o);
  case TY_KEEP:
    return unify_shape(c, a->axis[0], b->axis[0], o) &&
           unify_shape(c, a->axis[1], b->axis[1], o);
  }
  return false;
}

/* ---- flow ---- */

/* A term that can be forgotten later: `site` is the expression where a second
 * pass would forget it from the start. */
static Dim *soft_term(Checker *c, Dim *term, Expr *site) {
  Dim *soft = meta_term(c, (Span){0});
  DimVar *v = dim_as_var(soft);
  spend(c, 4 * COPY_WORK); /* a variable with all that is kept of it */
  v->bound = term;
  v->home = site;
  return soft;
}

/* A copy whose terms can be forgotten later, each knowing the place (an
 * expression) where a second pass would forget it from the start. */
static Type *ty_relax(Checker *c, Type *t, Expr *site) {
  t = ty_norm(c, t);
  spend(c, COPY_WORK);
  if (t->tag == TY_TENSOR && t->term) {
    Dim *term = term_of(c, t);
    if (!term)
      return t->term && dim_has_top(dim_resolve(c->dims, t->term))
                 ? ty_tensor(c, t->elem, t->shape, NULL)
                 : t;
    if (site && map_get(&c->forgotten, site))
      return ty_tensor(c, t->elem, t->shape, NULL);
    return ty_tensor(c, t->elem, t->shape, soft_term(c, t->term, site));
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATA)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = ty_relax(c, t->args[i], site);
  return r;
}

Type *ty_forget_terms(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR)
    return t->term ? ty_tensor(c, t->elem, t->shape, NULL) : t;
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD && t->tag != TY_DATA)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = ty_forget_terms(c, t->args[i]);
  return r;
}

/* A function handed on as a value loses its optional labels: the defaults are
 * put in by a wrapper. */
static Type *drop_optional(Checker *c, Type *got, Type *want, Core **core,
                           Origin *o) {
  uint32_t n = 0;
  Type *t = ty_norm(c, got);
  while (t->tag == TY_FUN && t->optional &&
         !(want->tag == TY_FUN && want->label == t->label)) {
    if (t->preset)
      unify(c, t->arg[0], t->preset, o);
    t = ty_norm(c, t->arg[1]);
    n++;
  }
  if (!n || !*core)
    return t;
  Core *app = core_new(c, CORE_APP, (*core)->span);
  app->items = NEW_ARRAY(c->arena, Core *, n + 1);
  app->items[app->item_count++] = *core;
  for (uint32_t i = 0; i < n; i++)
    app->items[app->item_count++] =
        core_new(c, CORE_ABSENT, (*core)->span);
  *core = app;
  return t;
}

static bool flow_term(Checker *c, Core **core, Type *got, Type *want,
                      Origin *o) {
  if (!want->term || !(elem_root(want->elem)->classes & CLASS_INT))
    return true;
  Shape *s = shape_norm(c, want->shape);
  if (s->len && shape_known_rank(s)) {
    return true;
  }
  Dim *d = dim_resolve(c->dims, want->term);
  if (dim_has_top(d))
    return true;
  bool known = got->term && !dim_has_top(dim_resolve(c->dims, got->term));
  DimVar *v = loose(d);
  bool free = v && v->value && !v->bound;
  if (known && free && o->expr && map_get(&c->forgotten, o->expr))
    known = false;
  if (known && free &&
      !dim_mentions(c->dims, dim_resolve(c->dims, got->term), v)) {
    dim_bind(c, v, soft_term(c, got->term, o->expr));
    return true;
  }
  if (known)
    return unify_term(c, got->term, want->term, o);
  if (free) {
    forget(c, v);
    return true;
  }
  if (s->len) /* perhaps not a scalar at all */
    return true;
  Dim *size = size_of(c, o->expr, core, got);
  return unify_term(c, size, want->term, o);
}

Core *flow(Checker *c, Core *core, Type *got, Type *want, Origin *o) {
  got = ty_norm(c, got), want = ty_norm(c, want);
  if (got->tag == TY_FUN && got->optional)
    got = drop_optional(c, got, want, &core, o);
  if (!o->got)
    o->got = got, o->want = want;
  if (o->kind == OR_ARG)
    got = fun_per_call(c, got, want, o->span);
  items_agree(c, got, want, o->span);
  bool ok;
  if (got->tag == TY_VAR && !got->var->rigid && want->tag == TY_TENSOR &&
      !want->term && (elem_root(want->elem)->classes & CLASS_INT)) {
    /* an unknown value may turn out to be an integer: it keeps its term */
    ok = unify(c, got, ty_tensor(c, want->elem, want->shape,
                                   meta_term(c, (Span){0})), o);
  } else if (want->tag == TY_VAR && !want->var->rigid) {
    if (o->state)
      got = ty_leave(c, got, 0, LEAVE_FORGOTTEN);
    ok = unify(c, ty_relax(c, got, o->expr), want, o);
  } else if (got->tag == TY_TENSOR && want->tag == TY_TENSOR) {
    ok = unify_elem(c, got->elem, want->elem) &&
         unify_shape(c, got->shape, want->shape, o) &&
         flow_term(c, &core, got, want, o);
  } else if (got->tag == TY_TUPLE && want->tag == TY_TUPLE &&
             got->count == want->count) {
    ok = true;
    for (uint32_t i = 0; i < got->count; i++) {
      Type *g = ty_norm(c, got->args[i]), *w = ty_norm(c, want->args[i]);
      if (w->tag == TY_VAR)
        g = ty_relax(c, g, o->expr);
      if (w->tag == TY_TENSOR && g->tag == TY_TENSOR && !w->term)
        g = ty_forget_terms(c, g);
      ok = ok && unify(c, g, w, o);
    }
  } else if (got->tag == TY_FUN && want->tag == TY_FUN &&
             effect_root(got->effect)->tag == EF_PURE &&
             effect_root(want->effect)->tag == EF_EFFECT) {
    ok = got->label == want->label &&
         unify(c, got->arg[0], want->arg[0], o) &&
         unify(c, got->arg[1], want->arg[1], o);
  } else {
    ok = unify(c, got, want, o);
  }
  if (!ok)
    mismatch(c, got, want, o);
  return core;
}

/* a, with the axes that are `?` in b. */
static Shape *with_tops(Checker *c, Shape *a, Shape *b) {
  a = shape_norm(c, a), b = shape_norm(c, b);
  if (a->len != b->len)
    return a;
  Shape *r = shape_new(c, a->len);
  for (uint32_t i = 0; i < a->len; i++)
    r->at[i] = a->at[i].tag == IT_DIM && b->at[i].tag == IT_DIM &&
                       dim_has_top(b->at[i].dim)
                   ? b->at[i]
                   : a->at[i];
  return r;
}

/* The type of a place that two values reach: terms that differ are forgotten,
 * `?` absorbs sizes. */
Type *ty_join(Checker *c, Type *a, Type *b, Origin *o) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag == TY_TENSOR && b->tag == TY_TENSOR) {
    Dim *x = term_of(c, a), *y = term_of(c, b);
    Dim *term = x && y && dim_equal(x, y) ? x : NULL;
    Shape *shape = with_tops(c, a->shape, b->shape);
    Type *ta = ty_tensor(c, a->elem, shape, NULL);
    Type *tb = ty_tensor(c, b->elem, b->shape, NULL);
    if (!unify(c, ta, tb, o))
      mismatch(c, b, a, o);
    ta->term = term;
    return ta;
  }
  if (a->tag == TY_TUPLE && b->tag == TY_TUPLE && a->count == b->count) {
    Type *t = ty_tuple(c, a->count, a->args);
    for (uint32_t i = 0; i < a->count; i++)
      t->args[i] = ty_join(c, a->args[i], b->args[i], o);
    return t;
  }
  a = ty_forget_terms(c, a), b = ty_forget_terms(c, b);
  if (!unify(c, a, b, o))
    mismatch(c, b, a, o);
  return a;
}
