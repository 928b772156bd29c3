/* Indexing, and `for` with its inferred ranges.
 *
 * Every index is a size symbol with 0 <= i < range; an access x.[p] with p a
 * polynomial in indices asks for 0 <= p < the axis.  A range that is not
 * written is inferred by the rules of doc/language.md ("for"):
 *   1. an axis along which an index moves alone permits a range;
 *   2. all such axes of one index permit the same range;
 *   3. then an access with exactly one index left gives it the largest range
 *      in bounds, and several must agree;
 *   4. none, or two left: the range must be written;
 *   5. every other access is an obligation. */
#include "typecheck/internal.h"

/* ---- indexing ---- */

static bool negative_literal(Expr *e) {
  return e && e->kind == EX_NUM && e->num[0] == '-';
}

/* The position that a bound of a slice or an exact index denotes. */
static Dim *position(Checker *c, Expr *e, Type *t, Dim *axis, Core **core,
                     bool *from_end) {
  Dim *term = size_of(c, e, core, t);
  *from_end = negative_literal(e);
  return *from_end ? dim_add(c->dims, axis, dim_resolve(c->dims, term)) : term;
}

static Origin *index_origin(Checker *c, Span span, uint32_t axis, Type *base) {
  Origin *o = origin_new(c, OR_INDEX, span);
  o->number = axis;
  o->got = base;
  return o;
}

typedef struct Unranged {
  Checker *c;
  DimVar *one;
  uint32_t count;
} Unranged;

static void count_unranged(void *arg, DimVar *v) {
  Unranged *u = arg;
  if (v->kind != DV_INDEX || v == u->one || index_range_of(v))
    return;
  u->one = v;
  u->count++;
}

static Unranged unranged(Checker *c, Dim *d) {
  Unranged u = {.c = c};
  dim_each_var(dim_resolve(c->dims, d), count_unranged, NULL, &u);
  return u;
}

/* side: of a slice only the upper bound (1) or the lower (-1) is asked for. */
static void in_bounds(Checker *c, Dim *p, Dim *axis, int side, Origin *o) {
  o->from = p;
  o->axis = axis;
  Dim *one = dim_int(c->dims, 1);
  if (side <= 0)
    demand_le(c, dim_int(c->dims, 0), p, o);
  if (side >= 0)
    demand_le(c, dim_add(c->dims, p, one), axis, o);
}

/* The axis that an item takes: what is known of it, else a new size. */
static ShapeIt next_axis(Checker *c, Shape *base, uint32_t at, Span span) {
  if (base && at < base->len && base->at[at].tag != IT_SPLICE)
    return base->at[at];
  return literal_item(c, span);
}

typedef struct Indexing {
  Checker *c;
  Expr *expr;
  Type *base;
  Shape *known;   /* the base's shape, if it is known so far */
  Shape *before;  /* axes that the items consume, left of `...` */
  Shape *after;   /* and right of it */
  Shape *result[2];
  bool rest;      /* ... was seen */
  uint32_t used;
  uint32_t items, consumed; /* how many items take an axis, in all */
} Indexing;

static void take_axis(Indexing *x, ShapeIt it) {
  Shape *one = shape_new(x->c, 1);
  one->at[0] = it;
  Shape **into = x->rest ? &x->after : &x->before;
  *into = shape_concat(x->c, *into, one);
  x->used++;
}

static void give_axis(Indexing *x, ShapeIt it) {
  Shape *one = shape_new(x->c, 1);
  one->at[0] = it;
  Shape **into = &x->result[x->rest];
  *into = shape_concat(x->c, *into, one);
}

/* Which axis of the known shape the next item takes. */
static uint32_t place(Indexing *x) {
  if (!x->rest)
    return x->used;
  return x->known ? x->known->len - (x->consumed - x->used) : x->used;
}

static ShapeIt axis_here(Indexing *x, Span span) {
  bool known = x->known && (x->rest || !x->known ||
                            shape_known_rank(x->known) || true);
  uint32_t at = place(x);
  if (known && x->known) {
    uint32_t from = x->rest ? at : 0, to = x->rest ? x->known->len : at + 1;
    for (uint32_t i = from; i < to && i < x->known->len; i++)
      if (x->known->at[i].tag == IT_SPLICE && x->known->at[i].var->fixed != 1)
        return next_axis(x->c, NULL, 0, span);
  }
  return next_axis(x->c, x->known, at, span);
}

static Dim *size_of_axis(Checker *c, ShapeIt it) {
  return it.tag == IT_DIM ? it.dim : dim_int(c->dims, 1);
}

/* A position by an index whose range is not known yet: that it is in bounds is
 * seen to when it is. */
static bool is_access(Indexing *x, Dim *p, Dim *size, Span span, int side) {
  Checker *c = x->c;
  p = dim_resolve(c->dims, p);
  if (!unranged(c, p).count)
    return false;
  bool guarded = c->conditional > 0;
  uint32_t last = x->used - 1; /* the axis was taken */
  Access a = {.axis = size, .term = p, .span = span, .conditional = guarded,
              .guarded = guarded, .facts = c->facts, .side = side,
              .expr = x->expr};
  a.number = (int32_t)last - (x->rest ? (int32_t)x->consumed : 0);
  VEC_PUSH(c->arena, c->accesses, a);
  return true;
}

/* Of a slice the end that such an index moves towards its bound is like a
 * position; the rest is demanded as of any. */
static void slice_bounds(Indexing *x, Dim *from, Dim *to, Dim *size,
                         Origin *o) {
  Checker *c = x->c;
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1);
  Dim *last = dim_resolve(c->dims, dim_sub(c->dims, to, one)), *slope, *rest;
  Unranged u = unranged(c, last);
  o->from = from, o->to = to, o->axis = size;
  bool down = u.count == 1 &&
              dim_linear(c->dims, last, u.one, &slope, &rest) &&
              dim_is_const(slope) && dim_sign(slope) < 0;
  if (!down || !is_access(x, from, size, o->span, -1))
    demand_le(c, zero, from, o);
  demand_le(c, from, to, o);
  if (down || !is_access(x, last, size, o->span, 1))
    demand_le(c, to, size, o);
}

static void index_at(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  Type *t;
  out->kind = CS_AT;
  out->from = infer(c, s->from, &t);
  ShapeIt axis = axis_here(x, s->span);
  Dim *size = size_of_axis(c, axis);
  Type *n = ty_norm(c, t);
  if (n->tag == TY_VAR) { /* not known yet: an integer */
    Type *i = ty_int(c, meta_term(c, s->span));
    unify(c, n, i, index_origin(c, s->span, x->used, x->base));
    n = ty_norm(c, n);
  }
  Origin *o = index_origin(c, s->span, x->used, x->base);
  o->expr = s->from;
  if (n->tag != TY_TENSOR ||
      !(elem_root(n->elem)->classes & CLASS_INT)) {
    mismatch(c, n, ty_int(c, NULL), o);
    take_axis(x, axis);
    return;
  }
  ElemVar *e = elem_root(n->elem);
  if (e->dtype == DT_NONE && !e->rigid && n->term)
    unify_elem(c, e, elem_fixed(c, DT_I64));
  unify_elem(c, n->elem, elem_meta(c, CLASS_INT));
  take_axis(x, axis);
  Shape *shape = shape_norm(c, n->shape);
  if (shape->len == 1 && shape->at[0].tag == IT_SPLICE &&
      !shape->at[0].var->rigid) { /* of unknown rank: taken for a scalar */
    shape_bind(c, shape->at[0].var, shape_new(c, 0));
    shape = shape_norm(c, n->shape);
  }
  Dim *term = term_of(c, n);
  if (!term) { /* data: a gather, checked when it runs */
    for (uint32_t i = 0; i < shape->len; i++)
      give_axis(x, shape->at[i]);
    return;
  }
  Dim *p = position(c, s->from, n, size, &out->from, &out->from_end);
  if (!is_access(x, p, size, s->span, 0))
    in_bounds(c, dim_resolve(c->dims, p), size, 0, o);
}

static void index_range(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  out->kind = CS_RANGE;
  ShapeIt axis = axis_here(x, s->span);
  take_axis(x, axis);
  if (!s->from && !s->to) {
    give_axis(x, axis);
    return;
  }
  Dim *size = size_of_axis(c, axis);
  Dim *from = dim_int(c->dims, 0), *to = size;
  Origin *o = index_origin(c, s->span, x->used - 1, x->base);
  Type *t;
  for (int end = 0; end < 2; end++) {
    Expr *e = end ? s->to : s->from;
    if (!e)
      continue;
    Type *want = ty_int(c, meta_term(c, e->span));
    Core *core = infer(c, e, &t);
    Origin *oi = index_origin(c, e->span, x->used - 1, x->base);
    oi->expr = e;
    core = flow(c, core, t, want, oi);
    Type *known = term_of(c, want) ? want : ty_int(c, NULL);
    Dim *d = position(c, e, known, size, &core,
                      end ? &out->to_end : &out->from_end);
    if (end)
      to = d, out->to = core;
    else
      from = d, out->from = core;
  }
  slice_bounds(x, from, to, size, o);
  ShapeIt part = {.tag = IT_DIM, .dim = dim_sub(c->dims, to, from)};
  give_axis(x, part);
}

static void index_item(Indexing *x, Slice *s, CoreSlice *out) {
  Checker *c = x->c;
  out->span = s->span;
  switch (s->kind) {
  case SLICE_AT: index_at(x, s, out); break;
  case SLICE_RANGE: index_range(x, s, out); break;
  case SLICE_REST:
    out->kind = CS_REST;
    if (x->rest)
      error_at(c, 350, s->span, "one ... at most stands in an index");
    x->rest = true;
    break;
  case SLICE_NEW:
    out->kind = CS_NEW;
    give_axis(x, (ShapeIt){.tag = IT_DIM, .dim = dim_int(c->dims, 1)});
    break;
  case SLICE_STAR:
    out->kind = CS_STAR;
    give_axis(x, (ShapeIt){.tag = IT_STAR});
    break;
  }
}

/* The items do not take the axes that there are. */
static void wrong_items(Indexing *x, Expr *e, Type *want, Origin *o) {
  Checker *c = x->c;
  Type *t = x->base;
  Shape *have = t->tag == TY_TENSOR ? shape_norm(c, t->shape) : NULL;
  if (!have || !shape_known_rank(have)) {
    mismatch(c, t, want, o);
    return;
  }
  Diag *d = error_at(c, 351, e->span, "%u index%s for %u ax%ss: indexing is "
                                      "exact",
                     x->used, x->used == 1 ? "" : "es", have->len,
                     have->len == 1 ? "i" : "e");
  d->note = arena_printf(c->arena, "what is indexed is %s", ty_text(c, t));
  if (x->used < have->len && !x->rest)
    d->help = "write ... for the axes that stay whole, as in x.[0, ...]";
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
    x.known = shape_norm(c, t->shape);
  x.before = x.after = x.result[0] = x.result[1] = shape_new(c, 0);
  for (uint32_t i = 0; i < e->slice_count; i++)
    x.consumed += e->slices[i].kind == SLICE_AT ||
                  e->slices[i].kind == SLICE_RANGE;
  core->slices = NEW_ARRAY(c->arena, CoreSlice, e->slice_count);
  core->slice_count = e->slice_count;
  for (uint32_t i = 0; i < e->slice_count; i++)
    index_item(&x, &e->slices[i], &core->slices[i]);
  Shape *rest = x.rest ? shape_any(c) : shape_new(c, 0);
  Shape *whole =
      shape_concat(c, shape_concat(c, x.before, rest), x.after);
  ElemVar *elem = t->tag == TY_TENSOR ? t->elem : elem_meta(c, CLASS_ANY);
  Type *want = ty_tensor(c, elem, whole, NULL);
  Origin *o = origin_new(c, OR_INDEX, e->span);
  o->got = base;
  o->number = x.used;
  o->expr = e;
  bool ok = t->tag == TY_TENSOR ? unify_shape(c, t->shape, whole, o)
                                : unify(c, t, want, o);
  if (!ok)
    wrong_items(&x, e, want, o);
  *type = ty_tensor(
      c, elem,
      shape_concat(c, shape_concat(c, x.result[0], rest), x.result[1]), NULL);
  return core;
}

/* ---- for ---- */

/* The range that one access permits its only unranged index v. */
static Dim *permitted(Checker *c, Access *a, DimVar *v, Origin *o) {
  Dim *p = dim_resolve(c->dims, a->term), *slope, *rest;
  if (!dim_linear(c->dims, p, v, &slope, &rest) || mentions_index(c, slope))
    return NULL;
  facts_load(c, c->facts);
  Dim *one = dim_int(c->dims, 1);
  Dim *end;
  if (dim_holds(c->solver, dim_sub(c->dims, slope, one), false) ||
      (dim_as_var(slope) && !dim_is_const(slope))) {
    if (!dim_is_const(slope))
      demand_le(c, one, slope, o);
    if (!index_extreme(c, rest, true, &end, o))
      return NULL;
    c->shortened |= !dim_is_const(end) || dim_sign(end) > 0;
    Dim *room = dim_sub(c->dims, dim_sub(c->dims, a->axis, one), end);
    Dim *low;
    if (!a->side && index_extreme(c, rest, false, &low, o))
      demand_le(c, dim_int(c->dims, 0), low, o);
    return dim_add(c->dims, dim_div(c->dims, room, slope), one);
  }
  Dim *down = dim_neg(c->dims, slope);
  if (!dim_holds(c->solver, dim_sub(c->dims, down, one), false))
    return NULL;
  if (!index_extreme(c, rest, false, &end, o))
    return NULL;
  Dim *high;
  if (index_extreme(c, rest, true, &high, o)) {
    Dim *most = dim_resolve(c->dims, dim_add(c->dims, high, one));
    if (!a->side)
      demand_le(c, most, a->axis, o);
    c->shortened |= !dim_equal(most, dim_resolve(c->dims, a->axis));
  }
  return dim_add(c->dims, dim_div(c->dims, end, down), one);
}

/* The terms of all accesses along one axis by one index that move alone: the
 * tightest decides. */
static bool moves_alone(Checker *c, Access *a, DimVar *v) {
  if (a->conditional)
    return false;
  Dim *p = dim_resolve(c->dims, a->term);
  Unranged u = unranged(c, p);
  if (u.count != 1 || u.one != v)
    return false;
  Dim *slope, *rest; /* alone: no other index either */
  return dim_linear(c->dims, p, v, &slope, &rest) && !mentions_index(c, rest) &&
         !mentions_index(c, slope);
}

static Dim *tighter(Checker *c, Dim *a, Dim *b, Origin *o) {
  if (facts_le(c, a, b) == PROVED)
    return a;
  if (facts_le(c, b, a) == PROVED)
    return b;
  Dim *one = dim_int(c->dims, 1); /* as the smaller one has to be */
  demand_le(c, one, a, o);
  demand_le(c, one, b, o);
  return c->tightened = dim_min(c->dims, a, b);
}

/* f without what says that the loops up to `until` have an index at all. */
static Fact *without_ranges(Checker *c, Fact *f, const Fact *until) {
  if (!f || f == until)
    return f;
  Fact *outer = without_ranges(c, f->outer, until);
  if (f->index || outer == f->outer)
    return f->index ? outer : f;
  Fact *copy = NEW(c->arena, Fact);
  *copy = *f;
  copy->outer = outer;
  return copy;
}

/* That two ranges agree is asked of loops inside of an empty one, too. */
static void same_range(Checker *c, Dim *a, Dim *b, Origin *o) {
  Fact *facts = c->facts;
  const Loop *outermost = c->loop;
  while (outermost->outer)
    outermost = outermost->outer;
  if (!mentions_index(c, a) && !mentions_index(c, b))
    c->facts = without_ranges(c, facts, outermost->facts);
  demand_eq(c, a, b, o);
  c->facts = facts;
}

/* Rules 1 and 2 for index v: NULL if no axis permits a range. */
static Dim *range_alone(Checker *c, DimVar *v, uint32_t from) {
  Dim *range = NULL;
  for (uint32_t i = from; i < c->accesses.len; i++) {
    Access *a = &c->accesses.at[i];
    if (!a->axis || !moves_alone(c, a, v))
      continue;
    Origin *o = origin_new(c, OR_RANGE, a->span);
    Dim *r = permitted(c, a, v, o);
    if (!r)
      continue;
    /* the tightest over this axis's accesses */
    for (uint32_t j = i + 1; j < c->accesses.len; j++) {
      Access *b = &c->accesses.at[j];
      if (!b->axis || !dim_equal(dim_resolve(c->dims, a->axis),
                                 dim_resolve(c->dims, b->axis)) ||
          !moves_alone(c, b, v))
        continue;
      Dim *other = permitted(c, b, v, o);
      if (other)
        r = tighter(c, r, other, o);
      b->conditional = true; /* settled: checked like any other */
    }
    if (!range)
      range = r;
    else
      same_range(c, range, r, o);
    a->axis = NULL; /* in bounds by construction */
  }
  return range;
}

/* Rule 3. */
static Dim *range_last(Checker *c, DimVar *v, uint32_t from) {
  Dim *range = NULL;
  for (uint32_t i = from; i < c->accesses.len; i++) {
    Access *a = &c->accesses.at[i];
    if (!a->axis || a->conditional)
      continue;
    Unranged u = unranged(c, a->term);
    if (u.count != 1 || u.one != v)
      continue;
    Origin *o = origin_new(c, OR_RANGE, a->span);
    Dim *r = permitted(c, a, v, o);
    if (!r)
      continue;
    if (!range)
      range = r;
    else
      same_range(c, range, r, o);
    a->axis = NULL;
  }
  return range;
}

static void index_facts(Checker *c, DimVar *v, Dim *range) {
  Dim *i = dim_of_var(c->dims, v);
  fact_add(c, dim_sub(c->dims, dim_sub(c->dims, range, i),
                      dim_int(c->dims, 1)),
           false);
  c->facts->index = true;
}

static void infer_ranges(Checker *c, Loop *l, Expr *e, uint32_t from) {
  for (int rule = 1; rule <= 3; rule += 2)
    for (int round = 0; round < 2; round++)
      for (uint32_t i = 0; i < l->count; i++) {
        if (l->range[i])
          continue;
        c->shortened = false;
        c->tightened = NULL;
        Dim *r = rule == 1 ? range_alone(c, l->index[i], from)
                           : range_last(c, l->index[i], from);
        if (!r)
          continue;
        l->range[i] = l->index[i]->home = dim_resolve(c->dims, r);
        Origin *o = origin_new(c, OR_RANGE, e->binders[i].span);
        o->what = e->binders[i].id->text;
        if (c->shortened && r != c->tightened)
          demand_le(c, dim_int(c->dims, 1), r, o);
        else if (dim_is_const(r))
          demand_le(c, dim_int(c->dims, 0), r, o);
      }
  unranged_error(c, l, e, from);
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->range[i])
      continue;
    for (uint32_t k = from; k < c->accesses.len; k++)
      if (dim_mentions(c->dims, c->accesses.at[k].term, l->index[i]))
        c->accesses.at[k].axis = NULL; /* what it breaks is not told as well */
    l->range[i] = l->index[i]->home = meta_dim(c, NULL, e->binders[i].span);
  }
}

/* Accesses whose indices all have ranges now are obligations. */
static void check_accesses(Checker *c, uint32_t from) {
  uint32_t kept = from;
  Fact *facts = c->facts;
  for (uint32_t i = from; i < c->accesses.len; i++) {
    Access a = c->accesses.at[i];
    if (!a.axis)
      continue;
    if (unranged(c, a.term).count) {
      c->accesses.at[kept++] = a;
      continue;
    }
    c->facts = a.facts;
    in_bounds(c, a.term, a.axis, a.side, origin_new(c, OR_INDEX, a.span));
  }
  c->facts = facts;
  c->accesses.len = kept;
}

typedef struct Escape {
  Loop *l;
  DimVar *found;
} Escape;

static void find_escape(void *arg, DimVar *v) {
  Escape *e = arg;
  for (uint32_t i = 0; i < e->l->count; i++)
    if (e->l->index[i] == v)
      e->found = v;
}

static bool nests_too_deep(Checker *c, const Loop *loop, Span span) {
  uint32_t nested = 0;
  for (const Loop *l = loop; l; l = l->outer)
    nested += l->count;
  if (nested > RANK_MAX)
    error_at(c, 324, span, "more than %d indices of `for` are nested",
             RANK_MAX);
  return nested > RANK_MAX;
}

static Dim *written_range(Checker *c, Binder *b, Core **core) {
  Type *t, *want = ty_int(c, meta_term(c, b->range->span));
  Origin *o = origin_new(c, OR_RANGE, b->range->span);
  o->expr = b->range;
  *core = infer(c, b->range, &t);
  *core = flow(c, *core, t, want, o);
  Type *known = term_of(c, want) ? want : ty_int(c, NULL);
  Dim *range = size_of(c, b->range, core, known);
  demand_le(c, dim_int(c->dims, 0), range, o);
  return range;
}

/* The indices come into scope. */
static void begin_indices(Checker *c, Loop *loop, Expr *e, Core *core) {
  for (uint32_t i = 0; i < loop->count; i++) {
    Binder *b = &e->binders[i];
    if (b->range)
      loop->range[i] = written_range(c, b, &core->ranges[i].expr);
    DimVar *v = dim_new_var(c->dims, DV_INDEX, b->id, b->span);
    v->level = c->level;
    v->home = loop->range[i];
    loop->index[i] = v;
    if (b->range)
      index_facts(c, v, loop->range[i]);
    else
      loop->later[i] = dim_as_var(meta_term(c, b->span));
    Binding *x = binding_new(c, BK_VALUE, b->id, b->span);
    x->scheme = scheme_mono(c, ty_int(c, dim_of_var(c->dims, v)));
    x->var = var_new(c, b->id, b->span, false);
    core->params[i].var = x->var;
    scope_push(c, b->id, x);
    places_binding(c, b->span, x, x->scheme->type);
  }
}

/* Where a range is not known yet, what is asked for inside knows that the index
 * is below it: loop->later is solved by it. */
static void later_facts(Checker *c, const Loop *loop) {
  for (uint32_t i = 0; i < loop->count; i++)
    if (loop->later[i])
      index_facts(c, loop->index[i], dim_of_var(c->dims, loop->later[i]));
}

/* Not by those facts: that a range is not empty has to be shown. */
static void end_indices(Checker *c, Loop *loop, Expr *e, Core *core,
                        uint32_t from) {
  infer_ranges(c, loop, e, from);
  for (uint32_t i = 0; i < loop->count; i++)
    if (loop->later[i]) {
      core->ranges[i].dim = loop->range[i];
      dim_bind(c, loop->later[i], loop->range[i]);
    }
  later_facts(c, loop);
  check_accesses(c, from);
}

/* No size of the result may depend on an index. */
static void refute_escape(Checker *c, Loop *loop, Expr *e, Type *body) {
  Escape esc = {loop, NULL};
  Visit look = {.dim = find_escape, .arg = &esc, .c = c};
  ty_visit(&look, body);
  for (uint32_t i = 0; i < loop->count; i++)
    dim_visit(&look, loop->range[i]);
  if (!esc.found)
    return;
  Diag *d = error_at(c, 353, e->arg[0]->span,
                     "the size of the result depends on the index `%s`",
                     esc.found->name->text);
  d->note = arena_printf(c->arena, "the body is %s", ty_text(c, body));
  d->help = "results of different sizes do not make a tensor: reduce the "
            "inner one, or collect a list with lists.tabulate";
}

Core *infer_for(Checker *c, Expr *e, Type **type) {
  uint32_t n = e->binder_count, from = c->accesses.len;
  Loop loop = {.outer = c->loop, .count = n, .facts = c->facts};
  if (nests_too_deep(c, &loop, e->span) ||
      !unique_binders(c, e->binders, n)) {
    *type = ty_meta(c);
    return core_new(c, CORE_ERROR, e->span);
  }
  loop.index = NEW_ARRAY(c->arena, DimVar *, n);
  loop.later = NEW_ARRAY(c->arena, DimVar *, n);
  loop.range = NEW_ARRAY(c->arena, Dim *, n);
  Core *core = core_new(c, CORE_FOR, e->span);
  core->params = NEW_ARRAY(c->arena, CoreParam, n);
  core->ranges = NEW_ARRAY(c->arena, CoreRange, n);
  core->param_count = n;
  Scope *saved = c->scope;
  Fact *facts = c->facts;
  Effect *effect = c->effect;
  Type *body;
  c->loop = &loop;
  begin_indices(c, &loop, e, core);
  Fact *written = c->facts;
  later_facts(c, &loop);
  c->effect = effect_pure(c);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  uint32_t mark = c->dims->next_id, part = part_begin(c);
  core->items[0] = infer(c, e->arg[0], &body);
  c->effect = effect;
  solve_pending(c);
  part_end(c, part);
  c->facts = written;
  end_indices(c, &loop, e, core, from);
  body = body_per_index(c, ty_forget_terms(c, body), mark, e->arg[0]->span);
  refute_escape(c, &loop, e, body);
  c->loop = loop.outer;
  c->scope = saved;
  c->facts = facts;
  refute_accesses(c);
  for (uint32_t i = n; i-- > 0;)
    body = ty_lift(c, loop.range[i], body);
  core->inst = body;
  *type = ty_open_data(c, body, &core);
  return core;
}
