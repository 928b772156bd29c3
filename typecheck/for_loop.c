/* Indexing, and `for` with inferred ranges.  Main entry points: infer_index and
 * infer_for.
 *
 * Every index is a size variable with 0 <= i < range.  An access x.[p], where p
 * is a polynomial in indices, requires 0 <= p < axis.  A range that is not
 * written is inferred by the rules of doc/language.md ("for"):
 *   1. an axis along which an index moves alone permits a range;
 *   2. all such axes of one index permit the same range;
 *   3. then an access with exactly one index left gives it the largest range
 *      in bounds, and several accesses must agree;
 *   4. if no or two indices are left, the range must be written;
 *   5. every other access is a constraint. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

/* ---- indexing ---- */

static bool negative_literal(Expr *e) {
  return e && e->kind == EX_NUM && e->num[0] == '-';
}

/* The position that a bound of a slice or an exact index denotes. */
static Dim *position(Checker *c, Expr *e, Type *t, Dim *axis, Core **core,
                     bool *from_end) {
  Dim *singleton = int_to_size(c, e, core, t);
  *from_end = negative_literal(e);
  return *from_end ? dim_add(c->dims, axis, dim_resolve(c->dims, singleton))
                   : singleton;
}

static Origin *index_origin(Checker *c, Span span, uint32_t axis, Type *base) {
  Origin *o = origin_new(c, ORIGIN_INDEX, span);
  o->number = axis;
  o->actual = base;
  return o;
}

typedef struct UnrangedIndices {
  Checker *c;
  DimVar *one;
  uint32_t count;
} UnrangedIndices;

static void count_unranged(void *arg, DimVar *v) {
  UnrangedIndices *u = arg;
  if (v->kind != DV_INDEX || v == u->one || index_range_of(v))
    return;
  u->one = v;
  u->count++;
}

static UnrangedIndices unranged(Checker *c, Dim *d) {
  UnrangedIndices u = {.c = c};
  dim_each_var(dim_resolve(c->dims, d), count_unranged, NULL, &u);
  return u;
}

/* side: for a slice, requires only the upper bound (1) or the lower bound
   (-1). */
static void require_in_bounds(Checker *c, Dim *p, Dim *axis, int side,
                              Origin *o) {
  o->index.from = p;
  o->index.axis = axis;
  Dim *one = dim_int(c->dims, 1);
  if (side <= 0)
    add_size_le(c, dim_int(c->dims, 0), p, o);
  if (side >= 0)
    add_size_le(c, dim_add(c->dims, p, one), axis, o);
}

/* The axis that an item consumes: the known one, or a new size. */
static ShapeAxis axis_at_or_fresh(Checker *c, Shape *base, uint32_t at,
                                  Span span) {
  if (base && at < base->len && base->axes[at].tag != SHAPE_SPLICE)
    return base->axes[at];
  return shape_literal_axis(c, span);
}

typedef struct Indexing {
  Checker *c;
  Expr *expr;
  Type *base;
  Shape *known;  /* shape of the base, or NULL if unknown */
  Shape *before; /* axes consumed left of `...` */
  Shape *after;  /* axes consumed right of `...` */
  Shape *result[2];
  bool rest;       /* `...` was seen */
  bool has_error;  /* an item has one */
  Shape *gathered; /* the axis of the first index tensor, or NULL */
  uint32_t axes_taken;
  /* number of items, and of those that consume an axis */
  uint32_t items, axes_to_take;
} Indexing;

static void take_base_axis(Indexing *x, ShapeAxis it) {
  Shape *one = shape_new(x->c, 1);
  one->axes[0] = it;
  Shape **into = x->rest ? &x->after : &x->before;
  *into = shape_concat(x->c, *into, one);
  x->axes_taken++;
}

static void add_result_axis(Indexing *x, ShapeAxis it) {
  Shape *one = shape_new(x->c, 1);
  one->axes[0] = it;
  Shape **into = &x->result[x->rest];
  *into = shape_concat(x->c, *into, one);
}

/* The number of the axis that the next item consumes. */
static uint32_t next_axis_number(Indexing *x) {
  if (!x->rest)
    return x->axes_taken;
  return x->known ? x->known->len - (x->axes_to_take - x->axes_taken)
                  : x->axes_taken;
}

static ShapeAxis next_base_axis(Indexing *x, Span span) {
  bool known = x->known &&
               (x->rest || !x->known || shape_has_known_rank(x->known) || true);
  uint32_t at = next_axis_number(x);
  if (known && x->known) {
    uint32_t from = x->rest ? at : 0, to = x->rest ? x->known->len : at + 1;
    for (uint32_t i = from; i < to && i < x->known->len; i++)
      if (x->known->axes[i].tag == SHAPE_SPLICE &&
          x->known->axes[i].var->fixed_rank != 1)
        return axis_at_or_fresh(x->c, NULL, 0, span);
  }
  return axis_at_or_fresh(x->c, x->known, at, span);
}

static Dim *size_of_axis(Checker *c, ShapeAxis it) {
  return it.tag == SHAPE_DIM ? it.dim : dim_int(c->dims, 1);
}

/* A position by an index whose range is unknown: defers the bounds check until
   it is known. */
static bool defer_access(Indexing *x, Dim *p, Dim *size, Span span, int side) {
  Checker *c = x->c;
  p = dim_resolve(c->dims, p);
  if (!unranged(c, p).count)
    return false;
  bool guarded = c->loops.index_condition_depth > 0;
  /* number of the axis, which is already consumed */
  uint32_t last = x->axes_taken - 1;
  IndexAccess a = {.axis_size = size,
                   .index_expr = p,
                   .span = span,
                   .conditional = guarded,
                   .guarded = guarded,
                   .assumptions = c->facts.assumptions,
                   .side = side,
                   .expr = x->expr};
  a.axis_number = (int32_t)last - (x->rest ? (int32_t)x->axes_to_take : 0);
  VEC_PUSH(c->arena, c->loops.accesses, a);
  return true;
}

/* If such an index moves one end of a slice towards its bound, that end is
   treated as a position.  The other requirements are added immediately. */
static void require_slice_in_bounds(Indexing *x, Dim *from, Dim *to, Dim *size,
                                    Origin *o) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1);
  Dim *last = dim_resolve(c->dims, dim_sub(c->dims, to, one)), *slope, *rest;
  UnrangedIndices u = unranged(c, last);
  o->index.from = from, o->index.to = to, o->index.axis = size;
  bool down = u.count == 1 &&
              dim_split_linear(c->dims, last, u.one, &slope, &rest) &&
              dim_is_const(slope) && dim_sign(slope) < 0;
  if (!down || !defer_access(x, from, size, o->span, -1))
    add_size_le(c, zero, from, o);
  add_size_le(c, from, to, o);
  if (down || !defer_access(x, last, size, o->span, 1))
    add_size_le(c, to, size, o);
}

/* Warns if two index tensors have the same axis: NumPy pairs their elements. */
static void note_gather(Indexing *x, const Slice *s, Shape *shape) {
  Checker *c = x->c;
  if (shape->len != 1 || shape->axes[0].tag != SHAPE_DIM ||
      c->names.module->library)
    return;
  if (!x->gathered) {
    x->gathered = shape;
    return;
  }
  Dim *size = dim_resolve(c->dims, shape->axes[0].dim);
  if (!dim_equal(size, dim_resolve(c->dims, x->gathered->axes[0].dim)))
    return;
  warning_at(c, 408, s->span,
             "two index tensors select each combination of their %s elements, "
             "not pairs",
             dim_to_text(c, size))
      ->help = "for pairs, write `for i => x.[a.[i], b.[i]]`; for "
               "combinations, index in two steps: `x.[a, :].[:, b]`";
}

static void infer_index_position(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  Type *t;
  out->kind = CS_AT;
  out->from = infer(c, s->from, &t);
  x->has_error |= out->from->kind == CORE_ERROR;
  ShapeAxis axis = next_base_axis(x, s->span);
  Dim *size = size_of_axis(c, axis);
  Type *n = ty_norm(c, t);
  if (n->tag == TY_VAR) {
    Type *i = guess_assume(c, s->from, s->from)
                  ? ty_int(c, meta_integer(c, s->span))
                  : ty_tensor(c, elem_meta(c, CLASS_INT), shape_meta(c), NULL);
    unify(c, n, i, index_origin(c, s->span, x->axes_taken, x->base));
    n = ty_norm(c, n);
  }
  Origin *o = index_origin(c, s->span, x->axes_taken, x->base);
  o->expr = s->from;
  if (n->tag != TY_TENSOR ||
      !(elem_root(n->tensor.elem)->classes & CLASS_INT)) {
    report_type_mismatch(c, n, ty_int(c, NULL), o);
    take_base_axis(x, axis);
    return;
  }
  ElemVar *e = elem_root(n->tensor.elem);
  if (e->dtype == DT_NONE && !e->skolem && n->tensor.singleton)
    unify_elem(c, e, elem_fixed(c, DT_I64));
  unify_elem(c, n->tensor.elem, elem_meta(c, CLASS_INT));
  take_base_axis(x, axis);
  Shape *shape = shape_norm(c, n->tensor.shape);
  if (shape->len == 1 && shape->axes[0].tag == SHAPE_SPLICE &&
      !shape->axes[0].var->skolem && guess_assume(c, s->from, s->from)) {
    shape_bind(c, shape->axes[0].var, shape_new(c, 0));
    shape = shape_norm(c, n->tensor.shape);
  }
  Dim *singleton = ty_singleton(c, n);
  if (!singleton)
    note_gather(x, s, shape);
  if (!singleton) { /* data: a gather, checked at run time */
    for (uint32_t i = 0; i < shape->len; i++)
      add_result_axis(x, shape->axes[i]);
    return;
  }
  Dim *p = position(c, s->from, n, size, &out->from, &out->from_end);
  if (!defer_access(x, p, size, s->span, 0))
    require_in_bounds(c, dim_resolve(c->dims, p), size, 0, o);
}

/* The size of every step-th element of `count` elements.  A negative step is a
   literal and reverses a whole axis. */
static Dim *infer_slice_step(Indexing *x, Slice *s, CoreSlice *out,
                             Dim *count) {
  Checker *c = x->c;
  Type *t, *expected = ty_int(c, meta_integer(c, s->step->span));
  Core *core = infer(c, s->step, &t);
  Origin *o = origin_new(c, ORIGIN_INDEX, s->step->span);
  o->actual = t;
  out->step = subsume(c, core, t, expected, o);
  Type *known = ty_singleton(c, expected) ? expected : ty_int(c, NULL);
  Dim *step = dim_resolve(c->dims, int_to_size(c, s->step, &out->step, known));
  if (negative_literal(s->step)) {
    step = dim_neg(c->dims, step);
    if (s->from || s->to)
      error_at(c, 307, s->span, "a slice with a negative step has no bounds")
          ->help = "take the part first, then reverse it: x.[a:b] |> reverse "
                   "~axis:0";
  }
  Dim *one = dim_int(c->dims, 1);
  add_size_le(c, one, step, o);
  return dim_div(c->dims, dim_sub(c->dims, dim_add(c->dims, count, step), one),
                 step);
}

static void infer_slice_range(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  out->kind = CS_RANGE;
  ShapeAxis axis = next_base_axis(x, s->span);
  take_base_axis(x, axis);
  if (!s->from && !s->to && !s->step) {
    add_result_axis(x, axis);
    return;
  }
  Dim *size = size_of_axis(c, axis);
  Dim *from = dim_int(c->dims, 0), *to = size;
  Origin *o = index_origin(c, s->span, x->axes_taken - 1, x->base);
  Type *t;
  for (int end = 0; end < 2; end++) {
    Expr *e = end ? s->to : s->from;
    if (!e)
      continue;
    Type *expected = ty_int(c, meta_integer(c, e->span));
    Core *core = infer(c, e, &t);
    Origin *oi = index_origin(c, e->span, x->axes_taken - 1, x->base);
    oi->expr = e;
    core = subsume(c, core, t, expected, oi);
    Type *known = ty_singleton(c, expected) ? expected : ty_int(c, NULL);
    Dim *d =
        position(c, e, known, size, &core, end ? &out->to_end : &out->from_end);
    if (end)
      to = d, out->to = core;
    else
      from = d, out->from = core;
  }
  require_slice_in_bounds(x, from, to, size, o);
  ShapeAxis part = {.tag = SHAPE_DIM, .dim = dim_sub(c->dims, to, from)};
  if (s->step)
    part.dim = infer_slice_step(x, s, out, part.dim);
  add_result_axis(x, part);
}

static void infer_index_item(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  out->span = s->span;
  switch (s->kind) {
  case SLICE_INDEX:
    infer_index_position(x, s, out);
    break;
  case SLICE_RANGE:
    infer_slice_range(x, s, out);
    break;
  case SLICE_ELLIPSIS:
    out->kind = CS_ELLIPSIS;
    if (x->rest)
      error_at(c, 350, s->span, "an index has at most one ...");
    x->rest = true;
    break;
  case SLICE_NEWAXIS:
    out->kind = CS_NEWAXIS;
    add_result_axis(x,
                    (ShapeAxis){.tag = SHAPE_DIM, .dim = dim_int(c->dims, 1)});
    break;
  case SLICE_STAR:
    out->kind = CS_STAR;
    add_result_axis(x, (ShapeAxis){.tag = SHAPE_STAR});
    break;
  }
}

/* Reports items that do not match the axes. */
static void error_index_count(Indexing *x, Expr *e, Type *expected, Origin *o) {
  Checker *c = x->c;
  Type *t = x->base;
  Shape *have = t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
  if (!have || !shape_has_known_rank(have)) {
    report_type_mismatch(c, t, expected, o);
    return;
  }
  Diag *d = error_at(c, 351, e->span, "%u %s for %u ax%ss: indexing is exact",
                     x->axes_taken, x->axes_taken == 1 ? "index" : "indices",
                     have->len, have->len == 1 ? "i" : "e");
  d->note = arena_printf(c->arena, "the indexed value is %s", ty_text(c, t));
  if (x->axes_taken < have->len && !x->rest)
    d->help = "write ... to keep the other axes, as in x.[0, ...]";
}

Core *infer_index(Checker *c, Expr *e, Type **type) {
  Type *base;
  Core *core = core_new(c, CORE_INDEX, e->span);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, e->arg[0], &base);
  Type *t = ty_norm(c, base);
  Indexing x = {.c = c, .expr = e, .base = t};
  if (t->tag == TY_TENSOR)
    x.known = shape_norm(c, t->tensor.shape);
  x.before = x.after = x.result[0] = x.result[1] = shape_new(c, 0);
  for (uint32_t i = 0; i < e->slice_count; i++)
    x.axes_to_take +=
        e->slices[i].kind == SLICE_INDEX || e->slices[i].kind == SLICE_RANGE;
  core->slices = NEW_ARRAY(c->arena, CoreSlice, e->slice_count);
  core->slice_count = e->slice_count;
  for (uint32_t i = 0; i < e->slice_count; i++)
    infer_index_item(&x, &e->slices[i], &core->slices[i]);
  Shape *rest = x.rest ? shape_meta(c) : shape_new(c, 0);
  Shape *whole = shape_concat(c, shape_concat(c, x.before, rest), x.after);
  ElemVar *elem =
      t->tag == TY_TENSOR ? t->tensor.elem : elem_meta(c, CLASS_ANY);
  Type *expected = ty_tensor(c, elem, whole, NULL);
  Origin *o = origin_new(c, ORIGIN_INDEX, e->span);
  o->subject = "the indexed value";
  o->actual = base;
  o->number = x.axes_taken;
  o->expr = e;
  bool ok = t->tag == TY_TENSOR ? unify_shape(c, t->tensor.shape, whole, o)
                                : unify(c, t, expected, o);
  if (!ok && x.has_error)
    return core_error(c, e->span, type);
  if (!ok) {
    error_index_count(&x, e, expected, o);
    return core_error(c, e->span, type);
  }
  *type = ty_tensor(
      c, elem, shape_concat(c, shape_concat(c, x.result[0], rest), x.result[1]),
      NULL);
  return core;
}

/* ---- for ---- */

/* The range that an access permits for v, its only index without a range. */
static Dim *permitted_range(Checker *c, IndexAccess *a, DimVar *v, Origin *o) {
  Dim *p = dim_resolve(c->dims, a->index_expr), *slope, *rest;
  if (!dim_split_linear(c->dims, p, v, &slope, &rest) ||
      mentions_index(c, slope))
    return NULL;
  assumption_load(c, c->facts.assumptions);
  Dim *one = dim_int(c->dims, 1);
  Dim *end;
  if (dim_entailed(c->facts.loaded, dim_sub(c->dims, slope, one), false) ||
      (dim_as_var(slope) && !dim_is_const(slope))) {
    if (!dim_is_const(slope))
      add_size_le(c, one, slope, o);
    if (!index_bound(c, rest, true, &end, o))
      return NULL;
    c->loops.range_shortened |= !dim_is_const(end) || dim_sign(end) > 0;
    Dim *slack = dim_sub(c->dims, dim_sub(c->dims, a->axis_size, one), end);
    Dim *low;
    if (!a->side && index_bound(c, rest, false, &low, o))
      add_size_le(c, dim_int(c->dims, 0), low, o);
    return dim_add(c->dims, dim_div(c->dims, slack, slope), one);
  }
  Dim *down = dim_neg(c->dims, slope);
  if (!dim_entailed(c->facts.loaded, dim_sub(c->dims, down, one), false))
    return NULL;
  if (!index_bound(c, rest, false, &end, o))
    return NULL;
  Dim *high;
  if (index_bound(c, rest, true, &high, o)) {
    Dim *max = dim_resolve(c->dims, dim_add(c->dims, high, one));
    if (!a->side)
      add_size_le(c, max, a->axis_size, o);
    c->loops.range_shortened |=
        !dim_equal(max, dim_resolve(c->dims, a->axis_size));
  }
  return dim_add(c->dims, dim_div(c->dims, end, down), one);
}

/* True if the access moves along its axis by index v alone.  Of several such
   accesses along one axis, the tightest determines the range. */
static bool is_sole_index(Checker *c, IndexAccess *a, DimVar *v) {
  if (a->conditional)
    return false;
  Dim *p = dim_resolve(c->dims, a->index_expr);
  UnrangedIndices u = unranged(c, p);
  if (u.count != 1 || u.one != v)
    return false;
  Dim *slope, *rest; /* alone: no other index may occur */
  return dim_split_linear(c->dims, p, v, &slope, &rest) &&
         !mentions_index(c, rest) && !mentions_index(c, slope);
}

static Dim *smaller_range(Checker *c, Dim *a, Dim *b, Origin *o) {
  if (assumption_check_le(c, a, b) == ENTAILED)
    return a;
  if (assumption_check_le(c, b, a) == ENTAILED)
    return b;
  Dim *one = dim_int(c->dims, 1); /* the smaller one must be 1 */
  add_size_le(c, one, a, o);
  add_size_le(c, one, b, o);
  return c->loops.range_min = dim_min(c->dims, a, b);
}

/* Removes from f the assumptions that the loops up to `until` are not empty. */
static Assumption *drop_range_assumptions(Checker *c, Assumption *f,
                                          const Assumption *until) {
  if (!f || f == until)
    return f;
  Assumption *outer = drop_range_assumptions(c, f->outer, until);
  if (f->role == ROLE_INDEX_RANGE || outer == f->outer)
    return f->role == ROLE_INDEX_RANGE ? outer : f;
  return assumption_copy(c, f, outer);
}

/* Two ranges must agree even if the loops are inside an empty loop. */
static void require_same_range(Checker *c, Dim *a, Dim *b, Origin *o) {
  Assumption *assumptions = c->facts.assumptions;
  const ForScope *outermost = c->loops.innermost;
  while (outermost->outer)
    outermost = outermost->outer;
  if (!mentions_index(c, a) && !mentions_index(c, b))
    c->facts.assumptions =
        drop_range_assumptions(c, assumptions, outermost->assumptions);
  add_size_eq(c, a, b, o);
  c->facts.assumptions = assumptions;
}

/* Rules 1 and 2 for index v.  Returns NULL if no axis permits a range. */
static Dim *range_from_sole_index(Checker *c, DimVar *v, uint32_t from) {
  Dim *range = NULL;
  for (uint32_t i = from; i < c->loops.accesses.len; i++) {
    IndexAccess *a = &c->loops.accesses.at[i];
    if (!a->axis_size || !is_sole_index(c, a, v))
      continue;
    Origin *o = origin_new(c, ORIGIN_RANGE, a->span);
    Dim *r = permitted_range(c, a, v, o);
    if (!r)
      continue;
    /* the tightest of the accesses along this axis */
    for (uint32_t j = i + 1; j < c->loops.accesses.len; j++) {
      IndexAccess *b = &c->loops.accesses.at[j];
      if (!b->axis_size ||
          !dim_equal(dim_resolve(c->dims, a->axis_size),
                     dim_resolve(c->dims, b->axis_size)) ||
          !is_sole_index(c, b, v))
        continue;
      Dim *other = permitted_range(c, b, v, o);
      if (other)
        r = smaller_range(c, r, other, o);
      b->conditional = true; /* solved: checked like any other access */
    }
    if (!range)
      range = r;
    else
      require_same_range(c, range, r, o);
    a->axis_size = NULL; /* in bounds by construction */
  }
  return range;
}

/* Rule 3. */
static Dim *range_from_last_index(Checker *c, DimVar *v, uint32_t from) {
  Dim *range = NULL;
  for (uint32_t i = from; i < c->loops.accesses.len; i++) {
    IndexAccess *a = &c->loops.accesses.at[i];
    if (!a->axis_size || a->conditional)
      continue;
    UnrangedIndices u = unranged(c, a->index_expr);
    if (u.count != 1 || u.one != v)
      continue;
    Origin *o = origin_new(c, ORIGIN_RANGE, a->span);
    Dim *r = permitted_range(c, a, v, o);
    if (!r)
      continue;
    if (!range)
      range = r;
    else
      require_same_range(c, range, r, o);
    a->axis_size = NULL;
  }
  return range;
}

static void assume_index_range(Checker *c, DimVar *v, Dim *range) {
  Dim *i = dim_of_var(c->dims, v);
  assumption_add(
      c, dim_sub(c->dims, dim_sub(c->dims, range, i), dim_int(c->dims, 1)),
      false);
  c->facts.assumptions->role = ROLE_INDEX_RANGE;
}

static void find_unsolved(void *arg, DimVar *v) {
  bool *is_known = arg;
  *is_known &= v->kind != DV_META;
}

/* The type that the context demands of the body of a loop with n indices, or
   NULL. */
static Type *expected_body(Checker *c, Type *expected, uint32_t n) {
  Type *t = expected ? ty_norm(c, expected) : NULL;
  Shape *s = t && t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
  for (uint32_t k = 0; s && k < n; k++)
    if (k >= s->len || s->axes[k].tag != SHAPE_DIM)
      return NULL;
  if (!s)
    return NULL;
  Shape *rest = shape_new(c, s->len - n);
  for (uint32_t k = n; k < s->len; k++)
    rest->axes[k - n] = s->axes[k];
  return ty_tensor(c, t->tensor.elem, rest, NULL);
}

/* Rule 4: the size that the program demands of axis i of the result, as in
   `val x : f32[n] = for i => 1.0`.  Returns NULL if there is none. */
static Dim *range_from_result(Checker *c, const ForScope *l, uint32_t i) {
  Type *t = l->expected ? ty_norm(c, l->expected) : NULL;
  Shape *s = t && t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
  for (uint32_t k = 0; s && k <= i; k++)
    if (k >= s->len || s->axes[k].tag != SHAPE_DIM)
      return NULL;
  Dim *d = s ? dim_resolve(c->dims, s->axes[i].dim) : NULL;
  bool is_known = d && !dim_has_unknown(d) && !mentions_index(c, d);
  if (is_known)
    dim_each_var(d, find_unsolved, NULL, &is_known);
  return is_known ? d : NULL;
}

static void infer_ranges(Checker *c, ForScope *l, Expr *e, uint32_t from) {
  for (int rule = 1; rule <= 3; rule += 2)
    for (int round = 0; round < 2; round++)
      for (uint32_t i = 0; i < l->count; i++) {
        if (l->ranges[i])
          continue;
        c->loops.range_shortened = false;
        c->loops.range_min = NULL;
        Dim *r = rule == 1 ? range_from_sole_index(c, l->indices[i], from)
                           : range_from_last_index(c, l->indices[i], from);
        if (!r)
          continue;
        l->ranges[i] = l->indices[i]->user_data = dim_resolve(c->dims, r);
        Origin *o = origin_new(c, ORIGIN_RANGE, e->binders[i].span);
        o->subject = e->binders[i].id->text;
        if (c->loops.range_shortened && r != c->loops.range_min)
          add_size_le(c, dim_int(c->dims, 1), r, o);
        else if (dim_is_const(r))
          add_size_le(c, dim_int(c->dims, 0), r, o);
      }
  for (uint32_t i = 0; i < l->count; i++)
    if (!l->ranges[i])
      l->ranges[i] = l->indices[i]->user_data = range_from_result(c, l, i);
  report_for_range(c, l, e, from);
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->ranges[i])
      continue;
    for (uint32_t k = from; k < c->loops.accesses.len; k++)
      if (dim_mentions(c->dims, c->loops.accesses.at[k].index_expr,
                       l->indices[i]))
        c->loops.accesses.at[k].axis_size =
            NULL; /* its violation is not reported too */
    l->ranges[i] = l->indices[i]->user_data =
        meta_dim(c, NULL, e->binders[i].span);
  }
}

/* Adds constraints for accesses whose indices all have ranges now. */
static void check_accesses(Checker *c, uint32_t from) {
  uint32_t kept = from;
  Assumption *assumptions = c->facts.assumptions;
  for (uint32_t i = from; i < c->loops.accesses.len; i++) {
    IndexAccess a = c->loops.accesses.at[i];
    if (!a.axis_size)
      continue;
    if (unranged(c, a.index_expr).count) {
      c->loops.accesses.at[kept++] = a;
      continue;
    }
    c->facts.assumptions = a.assumptions;
    require_in_bounds(c, a.index_expr, a.axis_size, a.side,
                      origin_new(c, ORIGIN_INDEX, a.span));
  }
  c->facts.assumptions = assumptions;
  c->loops.accesses.len = kept;
}

typedef struct Escape {
  ForScope *l;
  DimVar *found;
} Escape;

static void find_escape(void *arg, DimVar *v) {
  Escape *e = arg;
  for (uint32_t i = 0; i < e->l->count; i++)
    if (e->l->indices[i] == v)
      e->found = v;
}

static bool nests_too_deep(Checker *c, const ForScope *loop, Span span) {
  uint32_t nested = 0;
  for (const ForScope *l = loop; l; l = l->outer)
    nested += l->count;
  if (nested > MAX_RANK)
    error_at(c, 324, span, "more than %d indices of `for` are nested",
             MAX_RANK);
  return nested > MAX_RANK;
}

static Dim *written_range(Checker *c, Binder *b, Core **core) {
  Type *t, *expected = ty_int(c, meta_integer(c, b->range->span));
  Origin *o = origin_new(c, ORIGIN_RANGE, b->range->span);
  o->expr = b->range;
  *core = infer(c, b->range, &t);
  *core = subsume(c, *core, t, expected, o);
  Type *known = ty_singleton(c, expected) ? expected : ty_int(c, NULL);
  Dim *range = int_to_size(c, b->range, core, known);
  add_size_le(c, dim_int(c->dims, 0), range, o);
  return range;
}

/* Brings the indices into scope. */
static void begin_indices(Checker *c, ForScope *loop, Expr *e, Core *core) {
  for (uint32_t i = 0; i < loop->count; i++) {
    Binder *b = &e->binders[i];
    if (b->range)
      loop->ranges[i] = written_range(c, b, &core->ranges[i].expr);
    DimVar *v = dim_new_var(c->dims, DV_INDEX, b->id, b->span);
    v->level = c->inference.level;
    v->user_data = loop->ranges[i];
    loop->indices[i] = v;
    if (b->range)
      assume_index_range(c, v, loop->ranges[i]);
    else
      loop->range_metas[i] = dim_as_var(meta_integer(c, b->span));
    Binding *x = binding_new(c, BK_VALUE, b->id, b->span);
    x->scheme = scheme_mono(c, ty_int(c, dim_of_var(c->dims, v)));
    x->value.var = var_new(c, b->id, b->span, false);
    core->params[i].var = x->value.var;
    scope_push(c, b->id, x);
    refs_add_binding(c, b->span, x, x->scheme->type);
  }
}

/* While a range is unknown, constraints inside may assume that the index is
   below its range: a variable of loop->range_metas. */
static void assume_range_metas(Checker *c, const ForScope *loop) {
  for (uint32_t i = 0; i < loop->count; i++)
    if (loop->range_metas[i])
      assume_index_range(c, loop->indices[i],
                         dim_of_var(c->dims, loop->range_metas[i]));
}

/* Closes the scope of the indices.  Their assumptions are removed first: that a
   range is not empty must be proved. */
static void end_indices(Checker *c, ForScope *loop, Expr *e, Core *core,
                        uint32_t from) {
  infer_ranges(c, loop, e, from);
  for (uint32_t i = 0; i < loop->count; i++)
    if (loop->range_metas[i]) {
      core->ranges[i].dim = loop->ranges[i];
      dim_bind(c, loop->range_metas[i], loop->ranges[i]);
    }
  assume_range_metas(c, loop);
  check_accesses(c, from);
}

/* Reports a size of the result that depends on an index. */
static void error_index_escape(Checker *c, ForScope *loop, Expr *e,
                               Type *body) {
  Escape esc = {loop, NULL};
  TypeVisitor visit = {.dim = find_escape, .arg = &esc, .c = c};
  ty_visit(&visit, body);
  for (uint32_t i = 0; i < loop->count; i++)
    dim_visit(&visit, loop->ranges[i]);
  if (!esc.found)
    return;
  Diag *d = error_at(c, 353, e->arg[0]->span,
                     "the size of the result depends on the index `%s`",
                     esc.found->name->text);
  d->note = arena_printf(c->arena, "the body has type %s", ty_text(c, body));
  d->help = "results of different sizes do not form a tensor: reduce the inner "
            "axis, or collect a list with lists.tabulate";
}

Core *infer_for(Checker *c, Expr *e, Type *expected, Type **type) {
  uint32_t n = e->binder_count, from = c->loops.accesses.len;
  ForScope loop = {.outer = c->loops.innermost,
                   .count = n,
                   .expected = expected,
                   .assumptions = c->facts.assumptions};
  if (nests_too_deep(c, &loop, e->span) ||
      !check_unique_binders(c, e->binders, n)) {
    *type = ty_meta(c);
    return core_new(c, CORE_ERROR, e->span);
  }
  loop.indices = NEW_ARRAY(c->arena, DimVar *, n);
  loop.range_metas = NEW_ARRAY(c->arena, DimVar *, n);
  loop.ranges = NEW_ARRAY(c->arena, Dim *, n);
  Core *core = core_new(c, CORE_FOR, e->span);
  core->params = NEW_ARRAY(c->arena, CoreParam, n);
  core->ranges = NEW_ARRAY(c->arena, CoreRange, n);
  core->param_count = n;
  Scope *saved = c->names.scope;
  Assumption *assumptions = c->facts.assumptions;
  Effect *effect = c->inference.effect;
  Type *body;
  c->loops.innermost = &loop;
  begin_indices(c, &loop, e, core);
  Assumption *written = c->facts.assumptions;
  assume_range_metas(c, &loop);
  c->inference.effect = effect_pure(c);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  uint32_t mark = c->dims->next_id, part = control_region_begin(c);
  core->items[0] =
      infer_expecting(c, e->arg[0], expected_body(c, expected, n), &body);
  c->inference.effect = effect;
  solve_pending(c);
  control_region_end(c, part);
  c->facts.assumptions = written;
  end_indices(c, &loop, e, core, from);
  body =
      for_body_widen(c, ty_forget_singletons(c, body), mark, e->arg[0]->span);
  if (require_stackable(c, body, origin_new(c, ORIGIN_RANGE, e->arg[0]->span)))
    error_index_escape(c, &loop, e, body);
  else
    body = ty_meta(c);
  c->loops.innermost = loop.outer;
  c->names.scope = saved;
  c->facts.assumptions = assumptions;
  index_report_out_of_bounds(c);
  for (uint32_t i = n; i-- > 0;)
    body = ty_lift(c, loop.ranges[i], body);
  core->checker_data = body;
  *type = ty_unpack(c, body, &core);
  return core;
}
