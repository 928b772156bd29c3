/* Constraints on whole shapes: joins of axes that broadcast, axes that keep,
 * equal shapes. */
#include "typecheck/internal.h"

typedef struct Joining {
  Shape **args; /* normalised; what is left of each */
  uint32_t count;
  Shape *suffix; /* what the result ends in */
} Joining;

/* Of one axis of all arguments: absent < * < a size.  An axis that may be
 * either (a splice of one) joins with stars to itself.  False: wait. */
static bool join_axis(Checker *c, Joining *j, ShapeIt *result, Origin *o) {
  *result = (ShapeIt){.tag = IT_STAR};
  bool any = false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len == 0)
      continue;
    ShapeIt *it = &s->at[s->len - 1];
    any = true;
    if (it->tag == IT_STAR)
      continue;
    if (it->tag == IT_SPLICE && it->var->fixed != 1)
      return false;
    if (result->tag == IT_STAR)
      *result = *it;
    else if (it->tag != result->tag)
      return false;
    else if (it->tag == IT_SPLICE && it->var != result->var)
      return false;
  }
  if (!any)
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len && s->at[s->len - 1].tag == IT_DIM)
      demand_eq(c, result->dim, s->at[s->len - 1].dim, o);
  }
  return true;
}

static bool join_last(Checker *c, Joining *j, Origin *o) {
  Shape *one = shape_new(c, 1);
  if (!join_axis(c, j, &one->at[0], o))
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len)
      j->args[i] = shape_slice(c, s, 0, s->len - 1);
  }
  j->suffix = shape_concat(c, one, j->suffix);
  return true;
}

/* What a splice of kept axes stands for: t where keep(w, t) is pending. */
static ShapeVar *kept_of(Checker *c, ShapeVar *w) {
  Constraint *k = wait_definer(c, w, CN_KEEP);
  return k ? shape_norm(c, k->b)->at[0].var : NULL;
}

/* Equal last splices cancel: join(s ++ x, t ++ x) is join(s, t) ++ x; and so
 * do x and the stars that stand for each of its axes. */
static bool join_same_splice(Checker *c, Joining *j) {
  ShapeVar *v = NULL;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (!s->len || s->at[s->len - 1].tag != IT_SPLICE)
      return false;
    ShapeVar *w = s->at[s->len - 1].var;
    ShapeVar *full = kept_of(c, w);
    if (!v || (v != w && kept_of(c, v) == w))
      v = w;
    else if (v != w && full != v)
      return false;
  }
  if (!v)
    return false;
  for (uint32_t i = 0; i < j->count; i++)
    j->args[i] = shape_slice(c, j->args[i], 0, j->args[i]->len - 1);
  j->suffix = shape_concat(c, shape_of_var(c, v), j->suffix);
  return true;
}

/* Drops empty and repeated arguments. */
static void join_dedupe(Checker *c, Joining *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->count; i++) {
    bool keep = j->args[i]->len > 0;
    for (uint32_t k = 0; keep && k < n; k++)
      keep = !shape_same(c, j->args[i], j->args[k]);
    if (keep)
      j->args[n++] = j->args[i];
  }
  j->count = n;
}

/* Arguments that other joins define are replaced by those joins' arguments. */
static void join_expand(Checker *c, Constraint *k) {
  enum { MOST = 12 }; /* a join may define itself: recursive functions */
  for (int round = 0; round < 4; round++) {
    bool any = false;
    for (uint32_t i = 0; i < k->join_count && k->join_count < MOST; i++) {
      Shape *s = shape_norm(c, k->joined[i]);
      Constraint *o = s->len == 1 && s->at[0].tag == IT_SPLICE
                          ? wait_definer(c, s->at[0].var, CN_JOIN)
                          : NULL;
      if (!o)
        continue;
      Shape **args = NEW_ARRAY(c->arena, Shape *,
                               k->join_count + o->join_count);
      uint32_t n = 0;
      for (uint32_t j = 0; j < k->join_count; j++)
        if (j != i)
          args[n++] = k->joined[j];
      for (uint32_t j = 0; j < o->join_count; j++)
        args[n++] = o->joined[j];
      k->joined = args;
      k->join_count = n;
      any = true;
    }
    if (!any)
      return;
  }
}

/* Axes counted from the right meet whatever stands further left: sizes that
 * differ are found although the join itself must wait. */
static void join_pairs(Checker *c, Constraint *whole) {
  Constraint flat = *whole, *k = &flat;
  join_expand(c, k);
  for (uint32_t at = 0;; at++) {
    Dim *first = NULL;
    bool any = false;
    for (uint32_t i = 0; i < k->join_count; i++) {
      Shape *s = shape_norm(c, k->joined[i]);
      if (at >= s->len)
        continue;
      bool reached = true;
      for (uint32_t j = 0; j <= at; j++)
        reached &= s->at[s->len - 1 - j].tag != IT_SPLICE ||
                   s->at[s->len - 1 - j].var->fixed == 1;
      ShapeIt *it = &s->at[s->len - 1 - at];
      any |= reached;
      if (!reached || it->tag != IT_DIM)
        continue;
      if (first && dim_is_const(dim_resolve(
                       c->dims, dim_sub(c->dims, first, it->dim))))
        demand_eq(c, first, it->dim, k->origin);
      first = first ? first : it->dim;
    }
    if (!any)
      return;
  }
}

/* What joins to nothing is nothing: an integer is a sum of integers. */
static bool join_is_scalar(Checker *c, Constraint *k) {
  Shape *none = shape_norm(c, k->a);
  if (none->len)
    return false;
  for (uint32_t i = 0; i < k->join_count; i++)
    if (!unify_shape(c, k->joined[i], none, k->origin))
      report_shapes(c, k->joined[i], none, k->origin);
  return true;
}

/* An argument has no more axes than the result: where it has as many without
 * its splices, these are empty. */
static void join_ranks(Checker *c, const Constraint *k) {
  const Shape *whole = shape_norm(c, k->a);
  for (uint32_t i = 0; shape_known_rank(whole) && i < k->join_count; i++) {
    const Shape *s = shape_norm(c, k->joined[i]);
    bool full = shape_least_rank(s) == whole->len;
    for (uint32_t at = 0; full && at < s->len; at++) {
      const ShapeIt *it = &s->at[at];
      if (it->tag == IT_SPLICE && it->var->fixed < 0 && !it->var->rigid &&
          !it->var->bound)
        shape_bind(c, it->var, shape_new(c, 0));
    }
  }
}

static bool joins_like(Checker *c, const Constraint *k, const Constraint *o) {
  if (o->kind != CN_JOIN || o->done || o->join_count != k->join_count)
    return false;
  for (uint32_t i = 0; i < k->join_count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < o->join_count && !found; j++)
      found = shape_same(c, k->joined[i], o->joined[j]);
    if (!found)
      return false;
  }
  return true;
}

/* What the same shapes join to is the same. */
static bool same_join(Checker *c, Constraint *k) {
  for (uint32_t i = 0; i < c->pending.len; i++) {
    Constraint *o = c->pending.at[i];
    if (o == k || (k->pending && o->order > k->order) ||
        !in_scope(k->facts, o->facts) || !joins_like(c, k, o))
      continue;
    if (!unify_shape(c, k->a, o->a, k->origin))
      report_shapes(c, k->a, o->a, k->origin);
    return true;
  }
  return false;
}

Verdict settle_join(Checker *c, Constraint *k) {
  if (join_is_scalar(c, k))
    return PROVED;
  join_ranks(c, k);
  join_pairs(c, k);
  Joining j = {.count = k->join_count, .suffix = shape_new(c, 0)};
  j.args = NEW_ARRAY(c->arena, Shape *, j.count);
  for (uint32_t i = 0; i < j.count; i++)
    j.args[i] = shape_norm(c, k->joined[i]);
  join_dedupe(c, &j);
  while (j.count > 1 &&
         (join_last(c, &j, k->origin) || join_same_splice(c, &j))) {
    for (uint32_t i = 0; i < j.count; i++)
      j.args[i] = shape_norm(c, j.args[i]);
    join_dedupe(c, &j);
  }
  if (j.count <= 1) {
    Shape *whole =
        j.count ? shape_concat(c, j.args[0], j.suffix) : j.suffix;
    if (!unify_shape(c, k->a, whole, k->origin))
      report_shapes(c, k->a, whole, k->origin);
    return PROVED;
  }
  if (j.suffix->len) { /* some of it is known: say so, keep the rest */
    Shape *rest = shape_any(c);
    if (!unify_shape(c, k->a, shape_concat(c, rest, j.suffix), k->origin)) {
      report_shapes(c, k->a, j.suffix, k->origin);
      return PROVED;
    }
    k->a = rest;
  }
  k->joined = j.args;
  k->join_count = j.count;
  return same_join(c, k) ? PROVED : OPEN;
}

/* ---- keep, and shapes as such ---- */

Verdict settle_keep(Checker *c, Constraint *k) {
  Shape *r = shape_norm(c, k->b);
  if (!shape_known_rank(r))
    return OPEN;
  Shape *stars = shape_new(c, r->len);
  for (uint32_t i = 0; i < r->len; i++)
    stars->at[i].tag = IT_STAR;
  if (!unify_shape(c, k->a, stars, k->origin))
    report_shapes(c, k->a, stars, k->origin);
  return PROVED;
}

Verdict settle_shape(Checker *c, Constraint *k) {
  uint32_t before = c->pending.len;
  if (!unify_shape(c, k->a, k->b, k->origin)) {
    report_shapes(c, k->a, k->b, k->origin);
    return PROVED;
  }
  if (c->pending.len > before) { /* it made one like itself: keep ours */
    Constraint *again = c->pending.at[c->pending.len - 1];
    if (again->kind == CN_SHAPE_EQ && again->origin == k->origin) {
      k->a = again->a, k->b = again->b;
      again->pending = false;
      c->pending.len--;
      return OPEN;
    }
  }
  return PROVED;
}
