/* Unification of types, shapes and sizes.  Main entry point: unify. */
#include "typecheck/solver.h"
#include "support/arena.h"
#include "support/intern.h"

/* --- levels: a variable gets the lowest level of the variables it is bound to
   --- */

static void adjust_elem_level(void *arg, ElemVar *v);

static void adjust_ty_level(void *arg, TyVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->floats)
    adjust_elem_level(arg, elem_root(v->floats));
  if (v->level > level)
    v->level = level;
}
static void adjust_elem_level(void *arg, ElemVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void adjust_dim_level(void *arg, DimVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void adjust_shape_level(void *arg, ShapeVar *v) {
  uint32_t level = *(uint32_t *)arg;
  if (v->level > level)
    v->level = level;
}
static void adjust_effect_level(void *arg, Effect *e) {
  uint32_t level = *(uint32_t *)arg;
  if (e->level > level)
    e->level = level;
}

static TypeVisitor level_adjuster(Checker *c, uint32_t *level) {
  return (TypeVisitor){.ty = adjust_ty_level,
                       .elem = adjust_elem_level,
                       .dim = adjust_dim_level,
                       .shape = adjust_shape_level,
                       .effect = adjust_effect_level,
                       .arg = level,
                       .c = c};
}

void ty_adjust_levels(Checker *c, Type *t) {
  TypeVisitor adjuster = level_adjuster(c, &c->inference.level);
  ty_visit(&adjuster, t);
}

void dim_bind(Checker *c, DimVar *v, Dim *d) {
  DimVar *data = dim_as_var(d);
  if (v->name && data && data->kind == DV_EXISTENTIAL &&
      data->level == v->level)
    data->name = v->name; /* use the name in the annotation */
  if (data)
    data->matmul_inner |= v->matmul_inner;
  TypeVisitor adjuster = level_adjuster(c, &v->level);
  dim_visit(&adjuster, d);
  v->solution = d;
  c->dims->solution_count++;
  c->solver.progress = true;
  wakeup_dim_solved(c, v);
}

void shape_bind(Checker *c, ShapeVar *v, Shape *s) {
  TypeVisitor adjuster = level_adjuster(c, &v->level);
  shape_visit(&adjuster, s);
  v->solution = s;
  c->dims->solution_count++;
  c->solver.progress = true;
  wakeup_shape_solved(c, v, s);
}

/* ---- element types ---- */

/* True if a variable of a global value stays, and b is bound to it. */
static bool outlives(const ElemVar *a, const ElemVar *b) {
  return a->global && (!b->global || a->id < b->id);
}

static bool unify_elem_roots(Checker *c, ElemVar *a, ElemVar *b) {
  if (!(a->classes & b->classes))
    return false;
  bool a_free = a->dtype == DT_NONE && !a->skolem;
  bool b_free = b->dtype == DT_NONE && !b->skolem;
  if ((!a_free && b_free) || (a_free && b_free && outlives(a, b))) {
    ElemVar *swap = a;
    a = b, b = swap;
  } else if (!a_free) {
    return false;
  }
  if (a->global && b->skolem) /* it stands for every element type */
    return false;
  global_elem_save(c, a);
  global_elem_save(c, b);
  /* a is solved: b must satisfy the requirements on a */
  if (b->dtype == DT_NONE) { /* a skolem may be narrowed: `given` states it */
    b->classes &= a->classes;
    b->prefers_by_scheme = (!a->default_preference || a->prefers_by_scheme) &&
                           (!b->default_preference || b->prefers_by_scheme);
    b->default_preference = b->default_preference > a->default_preference
                                ? b->default_preference
                                : a->default_preference;
    literal_merge(c, b, a->unfit);
  }
  if (b->dtype == DT_NONE && b->level > a->level)
    b->level = a->level;
  a->link = b;
  c->solver.progress = true;
  return true;
}

bool unify_elem(Checker *c, ElemVar *x, ElemVar *y) {
  ElemVar *a = elem_root(x), *b = elem_root(y);
  if (a == b)
    return true;
  bool free = a->classes == CLASS_ANY || b->classes == CLASS_ANY;
  bool fits = unify_elem_roots(c, a, b);
  if (a->link == b)
    a->link = elem_root_or_global(y);
  else if (b->link == a)
    b->link = elem_root_or_global(x);
  return free ? fits : stats_count_decided(c, CONSTRAINT_ELEM_CLASS, fits);
}

static ElemVar *undetermined_global(ElemVar *e) {
  e = elem_root(e);
  return e->global && e->dtype == DT_NONE ? e : NULL;
}

bool unify_tensor_elems(Checker *c, const Type *a, const Type *b,
                        const Origin *o) {
  ElemVar *global = undetermined_global(a->tensor.elem);
  if (!global)
    global = undetermined_global(b->tensor.elem);
  uint32_t classes = global ? global->classes : 0;
  if (!unify_elem(c, a->tensor.elem, b->tensor.elem))
    return false;
  if (!global || !o)
    return true;
  const ElemVar *root = elem_root(global);
  bool narrowed = root->classes != classes && !global->decided.file;
  if (root->dtype != DT_NONE || narrowed)
    global->decided = o->span;
  return true;
}

/* ---- shapes ---- */

static bool mentions_shape(const Shape *s, const ShapeVar *v) {
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_SPLICE && s->axes[i].var == v)
      return true;
  return false;
}

typedef struct ProductSearch {
  const ShapeVar *var;
  bool found;
} ProductSearch;

static void match_product(void *arg, ShapeVar *v) {
  ProductSearch *f = arg;
  f->found |= v == f->var;
}

/* True if a size in s is a product of v. */
static bool sizes_mention_product(Checker *c, const Shape *s,
                                  const ShapeVar *v) {
  ProductSearch f = {v, false};
  TypeVisitor visit = {.shape = match_product, .arg = &f, .c = c};
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM)
      dim_visit(&visit, s->axes[i].dim);
  return f.found;
}

bool axis_is_single(const ShapeAxis *it) {
  return it->tag != SHAPE_SPLICE || it->var->fixed_rank == 1;
}

/* The size of a literal axis or an index may be a *, which counts as 1.  A size
   of a parameter may not: no size name denotes a *. */
bool axis_may_be_star(Checker *c, const ShapeAxis *it) {
  if (!open_stretch(it))
    return false;
  const Dim *d = dim_resolve(c->dims, it->dim);
  DimVar *v = dim_as_var(d);
  int64_t n;
  return v ? v->kind == DV_META && !dim_var_in_parameter(c, v)
           : dim_is_int(d, &n) && n == 1;
}

static bool unify_with_star(Checker *c, const ShapeAxis *it) {
  if (!axis_may_be_star(c, it))
    return false;
  DimVar *v = dim_as_var(dim_resolve(c->dims, it->dim));
  open_stretch(it)->state = STRETCH_STAR;
  c->solver.progress = true;
  if (v)
    dim_bind(c, v, dim_int(c->dims, 1));
  return true;
}

/* Both are a *, or neither is. */
void unify_stretch(const ShapeAxis *a, const ShapeAxis *b) {
  Stretch *s = open_stretch(a), *t = open_stretch(b);
  if (s && t && s != t)
    s->link = t;
  else if (s && !t)
    s->state = STRETCH_SIZED;
  else if (t && !s)
    t->state = STRETCH_SIZED;
}

/* The axis itself if the splice of rank 1 was solved by an axis before it. */
static ShapeAxis *axis_solution(Checker *c, ShapeAxis *it) {
  return it->tag == SHAPE_SPLICE && it->var->solution
             ? &shape_norm(c, shape_of_var(c, it->var))->axes[0]
             : it;
}

/* True if a splice of rank 1 is better solved by the axis b than the reverse:
   fewer constraints mention the newer of two. */
static bool is_solved_by_axis(const ShapeAxis *a, const ShapeAxis *b) {
  return a->tag == SHAPE_SPLICE && !a->var->skolem &&
         (b->tag != SHAPE_SPLICE || b->var->skolem || a->var->id > b->var->id);
}

static bool unify_axis(Checker *c, ShapeAxis *a, ShapeAxis *b, Origin *o) {
  a = axis_solution(c, a), b = axis_solution(c, b);
  if (a->tag == SHAPE_SPLICE || b->tag == SHAPE_SPLICE) {
    if (a->tag == SHAPE_SPLICE && b->tag == SHAPE_SPLICE && a->var == b->var)
      return true;
    if (!is_solved_by_axis(a, b)) {
      ShapeAxis *swap = a;
      a = b, b = swap;
    }
    if (a->tag != SHAPE_SPLICE || a->var->skolem)
      return false;
    Shape *s = shape_new(c, 1);
    s->axes[0] = *b;
    if (!sizes_mention_product(c, s, a->var)) {
      skolem_bind_shape(c, a->var, s, o);
      return true;
    }
    s->axes[0].dim = meta_dim(c, NULL, (Span){0}); /* b is a product of a */
    shape_bind(c, a->var, s);
    add_size_eq(c, s->axes[0].dim, b->dim, o);
    return true;
  }
  bool a_star = axis_is_star(a), b_star = axis_is_star(b);
  if (a_star || b_star)
    return (a_star && b_star) || unify_with_star(c, a_star ? b : a);
  unify_stretch(a, b);
  add_size_eq(c, a->dim, b->dim, o);
  return true;
}

/* The rests of both shapes after removal of equal ends. */
typedef struct ShapePair {
  Shape *a, *b;
} ShapePair;

static bool strip_ends(Checker *c, ShapePair *r, Origin *o) {
  uint32_t front = 0, back = 0;
  Shape *a = r->a, *b = r->b;
  uint32_t min_rank = a->len < b->len ? a->len : b->len;
  for (; front < min_rank; front++) {
    ShapeAxis *x = &a->axes[front], *y = &b->axes[front];
    bool same =
        x->tag == SHAPE_SPLICE && y->tag == SHAPE_SPLICE && x->var == y->var;
    if (!same && (!axis_is_single(x) || !axis_is_single(y)))
      break;
    if (!same && !unify_axis(c, x, y, o))
      return false;
  }
  for (; back < min_rank - front; back++) {
    ShapeAxis *x = &a->axes[a->len - 1 - back],
              *y = &b->axes[b->len - 1 - back];
    bool same =
        x->tag == SHAPE_SPLICE && y->tag == SHAPE_SPLICE && x->var == y->var;
    if (!same && (!axis_is_single(x) || !axis_is_single(y)))
      break;
    if (!same && !unify_axis(c, x, y, o))
      return false;
  }
  r->a = shape_slice(c, a, front, a->len - back);
  r->b = shape_slice(c, b, front, b->len - back);
  return true;
}

/* Requires that s is empty. */
static bool make_empty(Checker *c, Shape *s) {
  for (uint32_t i = 0; i < s->len; i++) {
    ShapeAxis *it = &s->axes[i];
    if (it->tag != SHAPE_SPLICE || it->var->skolem || it->var->fixed_rank > 0)
      return false;
    if (!it->var->solution)
      shape_bind(c, it->var, shape_new(c, 0));
  }
  return true;
}

uint32_t shape_min_rank(const Shape *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->len; i++)
    n += axis_is_single(&s->axes[i]);
  return n;
}

/* Solves v like `all`, of which a size is a product of v: v has as many
   axes. */
static Shape *fresh_axes_like(Checker *c, const Shape *all) {
  Shape *s = shape_new(c, all->len);
  for (uint32_t i = 0; i < all->len; i++) {
    s->axes[i] = all->axes[i];
    if (all->axes[i].tag == SHAPE_DIM)
      s->axes[i].dim = meta_dim(c, NULL, (Span){0});
  }
  return s;
}

/* The shape variable that s consists of, or NULL. */
static ShapeVar *sole_shape_var(const Shape *s) {
  if (s->len != 1 || s->axes[0].tag != SHAPE_SPLICE)
    return NULL;
  ShapeVar *v = s->axes[0].var;
  return v->skolem || v->fixed_rank >= 0 ? NULL : v;
}

/* The only shape variable of s, or NULL if there are several or none. *times is
   its number of occurrences. */
static ShapeVar *only_shape_var(const Shape *s, uint32_t *times) {
  ShapeVar *v = NULL;
  *times = 0;
  for (uint32_t i = 0; i < s->len; i++) {
    if (s->axes[i].tag != SHAPE_SPLICE)
      continue;
    ShapeVar *x = s->axes[i].var;
    if (x->skolem || x->fixed_rank >= 0 || (v && v != x))
      return NULL;
    v = x;
    ++*times;
  }
  return v;
}

/* [...v, 3, ...v] == all, where the rank of `all` is known.  It determines the
   rank of v if the axes can be divided evenly.  Otherwise NULL. */
static Shape *split_among_occurrences(Checker *c, const Shape *s,
                                      const Shape *all, uint32_t times) {
  uint32_t ones = shape_min_rank(s), at = 0;
  if (all->len < ones || (all->len - ones) % times)
    return NULL;
  while (s->axes[at].tag != SHAPE_SPLICE)
    at++;
  return shape_slice(c, all, at, at + (all->len - ones) / times);
}

/* True if the ranks differ whatever the splices are. */
static bool ranks_differ(const Shape *a, const Shape *b) {
  return (shape_has_known_rank(a) && shape_min_rank(b) > a->len) ||
         (shape_has_known_rank(b) && shape_min_rank(a) > b->len);
}

/* [n, m, ...s] == [...v, k]: v has at least one axis, the first of which is n.
   Solves v as [n, ...w], where w is new; likewise for the last axes.  Returns
   false if nothing is known about v. */
static bool solve_outer_axes(Checker *c, const Shape *all, const Shape *s,
                             Origin *o) {
  uint32_t times, n = 0, len = all->len;
  ShapeVar *v = only_shape_var(s, &times);
  bool first = s->axes[0].tag == SHAPE_SPLICE;
  if (!v || times != 1 || (!first && s->axes[s->len - 1].tag != SHAPE_SPLICE) ||
      shape_min_rank(all) < s->len || mentions_shape(all, v) ||
      sizes_mention_product(c, all, v) || sizes_mention_product(c, s, v))
    return false;
  uint32_t known = shape_min_rank(all) - (s->len - 1);
  while (n < known && axis_is_single(&all->axes[first ? n : len - 1 - n]))
    n++;
  if (!n)
    return false;
  Shape *rest = shape_meta(c);
  skolem_bind_shape(
      c, v,
      first ? shape_concat(c, shape_slice(c, all, 0, n), rest)
            : shape_concat(c, rest, shape_slice(c, all, len - n, len)),
      o);
  return true;
}

static bool unify_ends(Checker *c, const Shape *a0, const Shape *b0,
                       Origin *o) {
  ShapePair r = {shape_norm(c, a0), shape_norm(c, b0)};
  /* compare ranks first: otherwise some sizes would be solved, and the message
     would mention these */
  if (ranks_differ(r.a, r.b) || !strip_ends(c, &r, o))
    return false;
  r.a = shape_norm(c, r.a), r.b = shape_norm(c, r.b);
  if (r.a->len == 0 || r.b->len == 0)
    return make_empty(c, r.a->len ? r.a : r.b);
  ShapeVar *x = sole_shape_var(r.a), *y = sole_shape_var(r.b);
  if (x && y && x->id < y->id)
    x = NULL; /* solve the newer one: fewer constraints mention it */
  for (int swapped = 0; swapped < 2; swapped++) {
    ShapeVar *v = swapped ? y : x;
    Shape *one = swapped ? r.b : r.a, *all = swapped ? r.a : r.b;
    if (!v || mentions_shape(all, v))
      continue;
    if (!sizes_mention_product(c, all, v)) {
      skolem_bind_shape(c, v, all, o);
      return true;
    }
    if (shape_has_known_rank(all)) {
      shape_bind(c, v, fresh_axes_like(c, all));
      return unify_ends(c, one, all, o);
    }
  }
  for (int swapped = 0; swapped < 2; swapped++) {
    Shape *s = swapped ? r.b : r.a, *all = swapped ? r.a : r.b;
    uint32_t times;
    ShapeVar *v = only_shape_var(s, &times);
    if (!v || !shape_has_known_rank(all))
      continue;
    Shape *part = split_among_occurrences(c, s, all, times);
    if (!part)
      return false;
    shape_bind(c, v,
               sizes_mention_product(c, part, v) ? fresh_axes_like(c, part)
                                                 : part);
    return unify_ends(c, s, all, o);
  }
  /* No solution if one side is too short for the other's axes, or is a skolem
     against sizes. */
  for (int swapped = 0; swapped < 2; swapped++) {
    Shape *x = swapped ? r.b : r.a, *y = swapped ? r.a : r.b;
    if (shape_has_known_rank(x) && shape_min_rank(y) > x->len)
      return false;
    bool all_skolem = true;
    for (uint32_t i = 0; i < y->len; i++)
      all_skolem &= y->axes[i].tag != SHAPE_SPLICE || y->axes[i].var->skolem;
    bool x_all_skolem = true;
    for (uint32_t i = 0; i < x->len; i++)
      x_all_skolem &= x->axes[i].tag != SHAPE_SPLICE || x->axes[i].var->skolem;
    if (all_skolem && x_all_skolem)
      return false;
  }
  if (solve_outer_axes(c, r.a, r.b, o) || solve_outer_axes(c, r.b, r.a, o))
    return unify_ends(c, r.a, r.b, o);
  add_constraint(
      c, (Constraint){.kind = CN_SHAPE_EQ, .origin = o, .a = r.a, .b = r.b});
  return true;
}

static bool has_splice(const Shape *s) {
  bool found = false;
  for (uint32_t i = 0; i < s->len; i++)
    found |= s->axes[i].tag == SHAPE_SPLICE;
  return found;
}

bool unify_shape(Checker *c, const Shape *a, const Shape *b, Origin *o) {
  bool splice = has_splice(a) || has_splice(b);
  uint32_t waiting = c->solver.pending.len;
  bool fits = unify_ends(c, a, b, o);
  if (splice && c->solver.pending.len == waiting)
    return stats_count_decided(c, CONSTRAINT_SHAPE_EQ, fits);
  return fits;
}

/* ---- terms ---- */

DimVar *unsolved_singleton(Dim *d) {
  DimVar *v = dim_as_var(d);
  return v && v->kind == DV_META && !v->unknown ? v : NULL;
}

void retract_singleton(Checker *c, DimVar *v) {
  dim_set_unknown(c->dims, v);
  c->solver.progress = true;
  if (v->solution)
    wakeup_all(c);
  else
    wakeup_dim_solved(c, v);
  /* retractable: proofs that used it are void */
  if (v->solution && v->user_data) {
    if (!map_get(&c->inference.retracted_singletons, v->user_data)) {
      map_put(&c->inference.retracted_singletons, v->user_data, v);
      c->inference.needs_recheck = true;
    }
  }
}

typedef struct Retraction {
  Checker *c;
  bool any;
} Retraction;

static void retract_each(void *arg, DimVar *v) {
  Retraction *s = arg;
  if (v->kind != DV_META || v->unknown)
    return;
  if (v->solution && !v->user_data) {
    dim_each_var(v->solution, retract_each, NULL, s);
    return;
  }
  if (v->solution || v->is_integer) {
    retract_singleton(s->c, v);
    s->any = true;
  }
}

/* Follows retractable variables only while they are bound directly to each
   other. */
static Dim *resolve_singleton(Checker *c, Dim *d) {
  return dim_resolve(c->dims, d);
}

bool unify_singleton(Checker *c, Dim *a, Dim *b, Origin *o) {
  Dim *x = resolve_singleton(c, a), *y = resolve_singleton(c, b);
  if (dim_has_unknown(x) || dim_has_unknown(y)) {
    Retraction other = {c, false};
    dim_each_var(dim_has_unknown(x) ? b : a, retract_each, NULL, &other);
    return true;
  }
  if (dim_equal(x, y))
    return true;
  DimVar *v = unsolved_singleton(x), *w = unsolved_singleton(y);
  if (v && w && v->is_integer == w->is_integer && v->id < w->id)
    v = NULL; /* solve the newer one */
  if (v && !v->solution && !dim_mentions(c->dims, y, v) &&
      (v->is_integer || !w || !w->is_integer)) {
    dim_bind(c, v, b);
    if (!v->is_integer)
      add_size_le(c, dim_int(c->dims, 0), y, o);
    return true;
  }
  if (w && !w->solution && !dim_mentions(c->dims, x, w)) {
    dim_bind(c, w, a);
    if (!w->is_integer)
      add_size_le(c, dim_int(c->dims, 0), x, o);
    return true;
  }
  Retraction s = {c, false};
  dim_each_var(a, retract_each, NULL, &s);
  if (!s.any || !dim_has_unknown(dim_resolve(c->dims, a)))
    dim_each_var(b, retract_each, NULL, &s);
  if (!s.any)
    add_size_eq(c, x, y, o);
  return true;
}

/* ---- types ---- */

typedef struct OccursCheck {
  TyVar *var;
  bool found;
} OccursCheck;

static void occurs_ty(void *arg, TyVar *v) {
  OccursCheck *o = arg;
  o->found |= o->var == v;
}

/* t, with integers as data: each element may differ. */
static Type *as_tensor_element(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_VAR)
    t->var->is_tensor_element = true;
  if (t->tag == TY_TENSOR && t->tensor.singleton) {
    DimVar *v = unsolved_singleton(dim_resolve(c->dims, t->tensor.singleton));
    if (v && v->is_integer && !v->solution)
      retract_singleton(c, v);
    return ty_tensor(c, t->tensor.elem, t->tensor.shape, NULL);
  }
  if (t->tag == TY_CAST)
    return ty_cast(c, as_tensor_element(c, t->cast.type), t->cast.elem);
  if (!ty_has_args(t))
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = as_tensor_element(c, t->args[i]);
  if (t->tag == TY_RECORD && t->record.rest)
    r->record.rest = as_tensor_element(c, t->record.rest);
  return r;
}

static bool require_fixed_floats(Checker *c, ElemVar *floats,
                                 const Datatype *d) {
  ElemVar *fixed = datatype_fixed_float(c, d);
  return !d->fixed_floats || (fixed && unify_elem(c, floats, fixed));
}

static bool require_class(Checker *c, const TyVar *v, Type *t);

/* All floats of a cast are cast->cast.elem. */
static bool require_cast_class(Checker *c, const TyVar *v, Type *cast) {
  TyVar others = *v;
  others.floats = NULL;
  return (!v->floats || unify_elem(c, cast->cast.elem, v->floats)) &&
         require_class(c, &others, cast->cast.type);
}

/* The type inside nested lifts.  To normalize each of them takes quadratic
   time. */
static Type *lifted_type(Type *t) {
  while (t->tag == TY_LIFT)
    t = ty_root(t->lift.type);
  return t;
}

/* Puts t into the class of v: data without functions, values that a loop can
 * stack, and the element type of its floats.  Returns false if t is not in the
 * class. */
static bool require_class(Checker *c, const TyVar *v, Type *t) {
  t = ty_norm(c, t);
  bool fits = true;
  switch (t->tag) {
  case TY_VAR:
    if (t->var->skolem && !t->var->is_data && !t->var->is_stackable &&
        (v->is_data || (v->floats && !t->var->floats)))
      return false;
    t->var->is_data |= v->is_data;
    t->var->is_stackable |= v->is_stackable;
    if (v->floats && t->var->floats)
      return unify_elem(c, t->var->floats, v->floats);
    if (v->floats) { /* the parameters of a function may get it, too */
      t->var->floats = v->floats;
      adjust_elem_level(&t->var->level, elem_root(v->floats));
    }
    return true;
  case TY_FUN:
    return !v->is_data && !v->is_stackable;
  case TY_DATATYPE:
    if (v->is_stackable && t->data.type != c->builtins.key_datatype)
      return false;
    if (v->is_data && t->data.type->has_function)
      return false;
    if (v->floats && !require_fixed_floats(c, v->floats, t->data.type))
      return false;
    __attribute__((fallthrough));
  case TY_TUPLE:
  case TY_RECORD:
    for (uint32_t i = 0; i < t->count; i++)
      fits = fits && require_class(c, v, t->args[i]);
    return fits && (t->tag != TY_RECORD || !t->record.rest ||
                    require_class(c, v, t->record.rest));
  case TY_LIFT:
    return require_class(c, v, lifted_type(t));
  case TY_CAST:
    return require_cast_class(c, v, t);
  case TY_TENSOR: /* an undetermined element type is that of the floats */
    elem_require_default_int(c, t->tensor.elem);
    return !v->floats || !(elem_root(t->tensor.elem)->classes & CLASS_FLOAT) ||
           unify_elem(c, t->tensor.elem, v->floats);
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    return !v->is_stackable;
  }
  return true;
}

bool ty_stackable(Checker *c, Type *t) {
  TyVar stackable = {.is_stackable = true};
  return require_class(c, &stackable, t);
}

bool require_stackable(Checker *c, Type *t, Origin *o) {
  if (ty_stackable(c, t))
    return true;
  Type *expected = ty_meta(c);
  expected->var->is_stackable = true;
  report_type_mismatch(c, t, expected, o);
  return false;
}

bool require_one_float_type(Checker *c, Type *t, Origin *o) {
  Type *expected = ty_meta(c);
  expected->var->floats = elem_meta(c, CLASS_FLOAT);
  bool fits = ty_norm(c, t)->tag == TY_VAR /* which ty_cast restricts */
              || require_class(c, expected->var, t);
  if (!fits)
    report_type_mismatch(c, t, expected, o);
  return fits;
}

static bool ty_bind(Checker *c, TyVar *v, Type *t) {
  if ((v->is_data || v->is_stackable || v->floats) && !require_class(c, v, t))
    return false;
  OccursCheck o = {v, false};
  TypeVisitor visit = {.ty = occurs_ty, .arg = &o, .done = &o.found, .c = c};
  ty_visit(&visit, t);
  if (o.found)
    return false;
  TypeVisitor adjuster = level_adjuster(c, &v->level);
  ty_visit(&adjuster, t);
  v->link = v->is_tensor_element ? as_tensor_element(c, t) : t;
  c->solver.progress = true;
  return true;
}

static bool unify_tensor_singletons(Checker *c, Type *a, Type *b, Origin *o) {
  if (!a->tensor.singleton && !b->tensor.singleton)
    return true;
  if (!(elem_root(a->tensor.elem)->classes & CLASS_INT))
    return true;
  Shape *s = shape_norm(c, a->tensor.shape);
  if (s->len && shape_has_known_rank(s))
    return true; /* not a scalar, so no singleton */
  if (a->tensor.singleton && b->tensor.singleton)
    return unify_singleton(c, a->tensor.singleton, b->tensor.singleton, o);
  Dim *d = dim_resolve(c->dims, a->tensor.singleton ? a->tensor.singleton
                                                    : b->tensor.singleton);
  DimVar *v = unsolved_singleton(d);
  if (v && !v->solution) {
    retract_singleton(c, v);
  } else {
    Retraction soft = {c, false};
    dim_each_var(a->tensor.singleton ? a->tensor.singleton
                                     : b->tensor.singleton,
                 retract_each, NULL, &soft);
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
    if (t->record.labels[i] == label)
      return t->args[i];
  return NULL;
}

/* The record that is the solution of t's row variable, or NULL. */
static Type *row_rest(Checker *c, Type *t) {
  Type *rest = t->record.rest ? ty_norm(c, t->record.rest) : NULL;
  return rest && rest->tag == TY_RECORD ? rest : NULL;
}

Type *row_flat(Checker *c, Type *t) {
  t = ty_root(t);
  if (!row_rest(c, t))
    return t;
  Type *r = ty_new(c, TY_RECORD);
  uint32_t count = 0;
  for (Type *part = t; part; part = row_rest(c, part)) {
    count += part->count;
    r->record.rest = part->record.rest;
  }
  r->args = NEW_ARRAY(c->arena, Type *, count);
  r->record.labels = NEW_ARRAY(c->arena, Sym *, count);
  for (Type *part = t; part; part = row_rest(c, part))
    for (uint32_t i = 0; i < part->count; i++) {
      r->args[r->count] = part->args[i];
      r->record.labels[r->count++] = part->record.labels[i];
    }
  r->alias = t->alias;
  return r;
}

/* The fields of a that b does not have, with `rest` as row variable. */
static Type *row_missing(Checker *c, Type *a, Type *b, Type *rest) {
  Type *r = ty_new(c, TY_RECORD);
  r->args = NEW_ARRAY(c->arena, Type *, a->count);
  r->record.labels = NEW_ARRAY(c->arena, Sym *, a->count);
  r->record.rest = rest;
  for (uint32_t i = 0; i < a->count; i++)
    if (!row_field(b, a->record.labels[i])) {
      r->args[r->count] = a->args[i];
      r->record.labels[r->count++] = a->record.labels[i];
    }
  return r;
}

/* The variable that t or a cast t consists of, or NULL. */
static TyVar *cast_var(Checker *c, Type *t) {
  if (t->tag == TY_CAST)
    t = ty_norm(c, t->cast.type);
  return t->tag == TY_VAR ? t->var : NULL;
}

/* The type of the floats in a variable, of which there is a cast, or in a
   cast. */
static ElemVar *floats_of(const Type *t) {
  return t->tag == TY_CAST ? t->cast.elem : t->var->floats;
}

/* Returns true if both rows are the same variable: lift(n, r) and lift(m, r)
 * are equal if n == m, and casts of r if their floats are. */
static bool is_same_row(Checker *c, Type *a, Type *b, Origin *o) {
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a->tag == TY_CAST || b->tag == TY_CAST) {
    const TyVar *v = cast_var(c, a), *w = cast_var(c, b);
    return v && v == w && unify_elem(c, floats_of(a), floats_of(b));
  }
  if (a->tag != TY_LIFT || b->tag != TY_LIFT)
    return a == b;
  if (!is_same_row(c, a->lift.type, b->lift.type, o))
    return false;
  add_size_eq(c, a->lift.dim, b->lift.dim, o);
  return true;
}

static bool unify_rows(Checker *c, Type *a, Type *b, Origin *o) {
  a = row_flat(c, a), b = row_flat(c, b);
  for (uint32_t i = 0; i < a->count; i++) {
    Type *other = row_field(b, a->record.labels[i]);
    if (other && !unify(c, a->args[i], other, o))
      return false;
  }
  Type *more_a = row_missing(c, a, b, NULL); /* fields missing in b */
  Type *more_b = row_missing(c, b, a, NULL);
  if (!a->record.rest && !b->record.rest)
    return more_a->count == 0 && more_b->count == 0;
  if (a->record.rest && b->record.rest) {
    if (is_same_row(c, a->record.rest, b->record.rest, o))
      return more_a->count == 0 && more_b->count == 0;
    Type *rest = ty_meta(c);
    more_a->record.rest = more_b->record.rest = rest;
    return unify(c, a->record.rest, more_b, o) &&
           unify(c, b->record.rest, more_a, o);
  }
  Type *open = a->record.rest ? a : b;
  Type *missing = a->record.rest ? more_b : more_a;
  Type *excess = a->record.rest ? more_a : more_b;
  if (excess->count)
    return false;
  return unify(c, open->record.rest, missing, o);
}

static bool unify_record(Checker *c, Type *a, Type *b, Origin *o) {
  return stats_count_decided(c, CONSTRAINT_RECORD, unify_rows(c, a, b, o));
}

static bool unify_lifted_components(Checker *c, Type *lift, Type *t,
                                    Origin *o) {
  if (t->tag == TY_LIFT) {
    add_size_eq(c, lift->lift.dim, t->lift.dim, o);
    return unify(c, lift->lift.type, t->lift.type, o);
  }
  if (t->tag == TY_TENSOR) {
    Shape *rest = shape_meta(c);
    Shape *whole = shape_concat(c, shape_of_dims(c, 1, &lift->lift.dim), rest);
    if (!unify_shape(c, t->tensor.shape, whole, o))
      return false;
    return unify(c, lift->lift.type, ty_tensor(c, t->tensor.elem, rest, NULL),
                 o);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return false;
  Type *inner = ty_new(c, t->tag);
  *inner = *t;
  inner->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++) {
    inner->args[i] = ty_meta(c);
    Type *part = ty_lift(c, lift->lift.dim, inner->args[i]);
    if (!unify(c, part, t->args[i], o))
      return false;
  }
  if (t->tag == TY_RECORD && t->record.rest) {
    inner->record.rest = ty_meta(c);
    Type *part = ty_lift(c, lift->lift.dim, inner->record.rest);
    if (!unify(c, part, t->record.rest, o))
      return false;
  }
  return unify(c, lift->lift.type, inner, o);
}

static bool unify_lift(Checker *c, Type *lift, Type *t, Origin *o) {
  return stats_count_decided(c, CONSTRAINT_LIFT,
                             unify_lifted_components(c, lift, t, o));
}

/* The floats of a cast are cast.elem, and those of its argument have one type,
   too: thus ('x, 'b) cast == t if the floats in t are 'b and 'x is t, cast back
   to the float type of 'x. */
static bool unify_cast(Checker *c, Type *cast, Type *t, Origin *o) {
  Type *from = ty_norm(c, cast->cast.type);
  if (from->tag == TY_VAR && !from->var->skolem) {
    TyVar floats = {.floats = cast->cast.elem};
    return require_class(c, &floats, t) &&
           unify(c, from, ty_cast(c, t, from->var->floats), o);
  }
  if (t->tag == TY_CAST) {
    Type *other = ty_norm(c, t->cast.type);
    if (other->tag == TY_VAR && !other->var->skolem)
      return unify_cast(c, t, cast, o);
    return unify_elem(c, cast->cast.elem, t->cast.elem) &&
           unify(c, from, other, o);
  }
  ElemVar *own = from->tag == TY_VAR ? from->var->floats
                                     : datatype_fixed_float(c, from->data.type);
  return own && unify_elem(c, cast->cast.elem, own) && unify(c, from, t, o);
}

/* The elements of a list share a type, so none of them has a known size as its
   value. */
static void retract_item_singletons(Checker *c, Type *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    Type *item = ty_norm(c, t->args[i]);
    if (item->tag == TY_TUPLE || item->tag == TY_RECORD)
      retract_item_singletons(c, item);
    if (item->tag != TY_TENSOR || !item->tensor.singleton)
      continue;
    DimVar *v =
        unsolved_singleton(dim_resolve(c->dims, item->tensor.singleton));
    if (v && v->is_integer && !v->solution)
      retract_singleton(c, v);
    else
      item->tensor.singleton = NULL;
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
  Type *own = skolem_replace_escaping(c, v, t, o);
  if (!ty_bind(c, v, own))
    return false;
  skolem_require_same(c, own, t, o);
  return true;
}

bool unify(Checker *c, Type *a, Type *b, Origin *o) {
  charge_work(c, 1);
  a = ty_norm(c, a), b = ty_norm(c, b);
  if (a == b)
    return true;
  if (a->tag == TY_VAR && b->tag == TY_VAR && a->var == b->var)
    return true;
  bool is_cast_of_other = cast_var(c, a) && cast_var(c, a) == cast_var(c, b);
  if (a->tag == TY_VAR && !a->var->skolem && !is_cast_of_other)
    return bind_var(c, a->var, b, o);
  if (b->tag == TY_VAR && !b->var->skolem && !is_cast_of_other)
    return bind_var(c, b->var, a, o);
  if (a->tag == TY_CAST)
    return unify_cast(c, a, b, o);
  if (b->tag == TY_CAST)
    return unify_cast(c, b, a, o);
  if (a->tag == TY_LIFT)
    return unify_lift(c, a, b, o);
  if (b->tag == TY_LIFT)
    return unify_lift(c, b, a, o);
  if (a->tag != b->tag)
    return false;
  switch (a->tag) {
  case TY_VAR:
  case TY_LIFT:
  case TY_CAST:
    return false;
  case TY_TENSOR:
    return unify_tensor_elems(c, a, b, o) &&
           unify_shape(c, a->tensor.shape, b->tensor.shape, o) &&
           unify_tensor_singletons(c, a, b, o);
  case TY_FUN:
    if (a->fun.label != b->fun.label || a->fun.optional != b->fun.optional)
      return false;
    a->fun.is_differentiated |= b->fun.is_differentiated;
    b->fun.is_differentiated |= a->fun.is_differentiated;
    return unify(c, a->fun.param, b->fun.param, o) &&
           unify(c, a->fun.result, b->fun.result, o) &&
           unify_effect(a->fun.effect, b->fun.effect);
  case TY_TUPLE:
    return unify_parts(c, a, b, o);
  case TY_RECORD:
    return unify_record(c, a, b, o);
  case TY_DATATYPE:
    if (a->data.type != b->data.type)
      return false;
    retract_item_singletons(c, a);
    retract_item_singletons(c, b);
    for (uint32_t i = 0; i < a->data.type->dim_arity; i++)
      add_size_eq(c, a->data.dims[i], b->data.dims[i], o);
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
