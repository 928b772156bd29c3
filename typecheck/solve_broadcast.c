/* Solves constraints on complete shapes: broadcasts (join), kept axes (keep),
   and equal shapes. */
#include "typecheck/solver.h"
#include "support/arena.h"

typedef struct BroadcastState {
  Shape **args; /* normalized; the unsolved rest of each argument */
  uint32_t count;
  Shape *suffix; /* solved last axes of the result */
} BroadcastState;

/* Broadcasts one axis of all arguments.  Order: absent < * < size.  An axis
   that may be either (a splice of rank 1) broadcasts with stars to itself.
   Returns false if undetermined yet. */
static bool broadcast_axis(Checker *c, BroadcastState *j, ShapeAxis *result,
                           Origin *o) {
  *result = (ShapeAxis){.tag = SHAPE_STAR};
  bool any = false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len == 0)
      continue;
    ShapeAxis *it = &s->axes[s->len - 1];
    any = true;
    if (it->tag == SHAPE_STAR)
      continue;
    if (it->tag == SHAPE_SPLICE && it->var->fixed_rank != 1)
      return false;
    if (result->tag == SHAPE_STAR)
      *result = *it;
    else if (it->tag != result->tag)
      return false;
    else if (it->tag == SHAPE_SPLICE && it->var != result->var)
      return false;
    else if (open_stretch(it) && open_stretch(result))
      unify_stretch(it, result);
    else if (open_stretch(result)) /* the result has a size */
      *result = *it;
  }
  if (!any)
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len && s->axes[s->len - 1].tag == SHAPE_DIM)
      add_size_eq(c, result->dim, s->axes[s->len - 1].dim, o);
  }
  return true;
}

static bool broadcast_last_axis(Checker *c, BroadcastState *j, Origin *o) {
  Shape *one = shape_new(c, 1);
  if (!broadcast_axis(c, j, &one->axes[0], o))
    return false;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (s->len)
      j->args[i] = shape_slice(c, s, 0, s->len - 1);
  }
  j->suffix = shape_concat(c, one, j->suffix);
  return true;
}

/* The source of a splice of kept axes: t if keep(w, t) is pending. */
static ShapeVar *keep_source(Checker *c, ShapeVar *w) {
  Constraint *k = wakeup_find_definer(c, w, CN_KEEP);
  return k ? shape_norm(c, k->b)->axes[0].var : NULL;
}

/* Equal last splices cancel: join(s ++ x, t ++ x) becomes join(s, t) ++ x.  The
   same holds for x and the stars for each of its axes. */
static bool broadcast_same_splice(Checker *c, BroadcastState *j) {
  ShapeVar *v = NULL;
  for (uint32_t i = 0; i < j->count; i++) {
    Shape *s = j->args[i];
    if (!s->len || s->axes[s->len - 1].tag != SHAPE_SPLICE)
      return false;
    ShapeVar *w = s->axes[s->len - 1].var;
    ShapeVar *full = keep_source(c, w);
    if (!v || (v != w && keep_source(c, v) == w))
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

/* Removes empty and repeated arguments. */
static void broadcast_dedupe(Checker *c, BroadcastState *j) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < j->count; i++) {
    bool keep = j->args[i]->len > 0;
    for (uint32_t k = 0; keep && k < n; k++)
      keep = !shape_equal(c, j->args[i], j->args[k]);
    if (keep)
      j->args[n++] = j->args[i];
  }
  j->count = n;
}

/* Replaces arguments that other broadcasts define by those broadcasts'
   arguments. */
static void broadcast_expand(Checker *c, Constraint *k) {
  enum {
    MAX_BROADCAST_ARGS = 12
  }; /* in recursive functions a broadcast may define itself */
  for (int round = 0; round < 4; round++) {
    bool any = false;
    for (uint32_t i = 0; i < k->broadcast_arg_count &&
                         k->broadcast_arg_count < MAX_BROADCAST_ARGS;
         i++) {
      Shape *s = shape_norm(c, k->broadcast_args[i]);
      Constraint *o = s->len == 1 && s->axes[0].tag == SHAPE_SPLICE
                          ? wakeup_find_definer(c, s->axes[0].var, CN_BROADCAST)
                          : NULL;
      if (!o)
        continue;
      Shape **args = NEW_ARRAY(c->arena, Shape *,
                               k->broadcast_arg_count + o->broadcast_arg_count);
      uint32_t n = 0;
      for (uint32_t j = 0; j < k->broadcast_arg_count; j++)
        if (j != i)
          args[n++] = k->broadcast_args[j];
      for (uint32_t j = 0; j < o->broadcast_arg_count; j++)
        args[n++] = o->broadcast_args[j];
      k->broadcast_args = args;
      k->broadcast_arg_count = n;
      any = true;
    }
    if (!any)
      return;
  }
}

/* Axis `at` of s, counted from the right; NULL if it is not known. */
static const ShapeAxis *known_last_axis(const Shape *s, uint32_t at) {
  if (at >= s->len)
    return NULL;
  for (uint32_t j = 0; j <= at; j++) {
    const ShapeAxis *it = &s->axes[s->len - 1 - j];
    if (it->tag == SHAPE_SPLICE && it->var->fixed_rank != 1)
      return NULL;
  }
  return &s->axes[s->len - 1 - at];
}

/* Two broadcasts may have one result, such as those of two branches: then the
   known axes of the arguments of both are its axes. */
static void broadcast_add_same_result(Checker *c, Constraint *k) {
  const Shape *s = shape_norm(c, k->a);
  const Constraint *o =
      s->len == 1 && s->axes[0].tag == SHAPE_SPLICE
          ? wakeup_find_definer(c, s->axes[0].var, CN_BROADCAST)
          : NULL;
  if (!o || o->serial == k->serial ||
      !assumption_in_scope(k->assumptions, o->assumptions))
    return;
  uint32_t n = k->broadcast_arg_count;
  Shape **args = NEW_ARRAY(c->arena, Shape *, n + o->broadcast_arg_count);
  for (uint32_t i = 0; i < n; i++)
    args[i] = k->broadcast_args[i];
  for (uint32_t i = 0; i < o->broadcast_arg_count; i++)
    args[n++] = o->broadcast_args[i];
  k->broadcast_args = args;
  k->broadcast_arg_count = n;
}

/* Equates known last axes of the arguments and of the result, counted from the
   right, whatever is left of them: also if the broadcast itself is
   undetermined. */
static void broadcast_check_known_axes(Checker *c, Constraint *whole) {
  Constraint flat = *whole, *k = &flat;
  broadcast_expand(c, k);
  broadcast_add_same_result(c, k);
  for (uint32_t at = 0;; at++) {
    Dim *first = NULL;
    bool any = false;
    for (uint32_t i = 0; i <= k->broadcast_arg_count; i++) {
      bool is_result = i == k->broadcast_arg_count;
      const ShapeAxis *it = known_last_axis(
          shape_norm(c, is_result ? k->a : k->broadcast_args[i]), at);
      any |= it && !is_result;
      if (!it || it->tag != SHAPE_DIM ||
          (!is_result && axis_may_be_star(c, it)))
        continue;
      if (first && !dim_equal(dim_resolve(c->dims, first),
                              dim_resolve(c->dims, it->dim)))
        add_size_eq(c, first, it->dim, k->origin);
      first = first ? first : it->dim;
    }
    if (!any)
      return;
  }
}

/* If the result is a scalar, so is every argument. */
static bool broadcast_is_scalar(Checker *c, Constraint *k) {
  Shape *none = shape_norm(c, k->a);
  if (none->len)
    return false;
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++)
    if (!unify_shape(c, k->broadcast_args[i], none, k->origin))
      report_shapes(c, k->broadcast_args[i], none, k->origin);
  return true;
}

/* An argument has at most as many axes as the result.  If it has as many
   without its splices, these are empty.  Returns false after an error. */
static bool join_ranks(Checker *c, Constraint *k) {
  const Shape *whole = shape_norm(c, k->a);
  for (uint32_t i = 0;
       shape_has_known_rank(whole) && i < k->broadcast_arg_count; i++) {
    const Shape *s = shape_norm(c, k->broadcast_args[i]);
    if (shape_min_rank(s) > whole->len) {
      report_shapes(c, k->broadcast_args[i], k->a, k->origin);
      return false;
    }
    bool full = shape_min_rank(s) == whole->len;
    for (uint32_t at = 0; full && at < s->len; at++) {
      const ShapeAxis *it = &s->axes[at];
      if (it->tag == SHAPE_SPLICE && it->var->fixed_rank < 0 &&
          !it->var->skolem && !it->var->solution)
        shape_bind(c, it->var, shape_new(c, 0));
    }
  }
  return true;
}

static bool broadcasts_same_args(Checker *c, const Constraint *k,
                                 const Constraint *o) {
  if (o->kind != CN_BROADCAST || o->solved ||
      o->broadcast_arg_count != k->broadcast_arg_count)
    return false;
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < o->broadcast_arg_count && !found; j++)
      found = shape_equal(c, k->broadcast_args[i], o->broadcast_args[j]);
    if (!found)
      return false;
  }
  return true;
}

/* Two broadcasts of the same shapes have the same result. */
static bool broadcast_unify_duplicate(Checker *c, Constraint *k) {
  for (uint32_t i = 0; i < c->solver.pending.len; i++) {
    Constraint *o = c->solver.pending.at[i];
    if (o == k || (k->queue.active && o->queue.order > k->queue.order) ||
        !assumption_in_scope(k->assumptions, o->assumptions) ||
        !broadcasts_same_args(c, k, o))
      continue;
    if (!unify_shape(c, k->a, o->a, k->origin))
      report_shapes(c, k->a, o->a, k->origin);
    return true;
  }
  return false;
}

Verdict solve_broadcast(Checker *c, Constraint *k) {
  if (broadcast_is_scalar(c, k))
    return ENTAILED;
  if (!join_ranks(c, k))
    return ENTAILED;
  broadcast_check_known_axes(c, k);
  BroadcastState j = {.count = k->broadcast_arg_count,
                      .suffix = shape_new(c, 0)};
  j.args = NEW_ARRAY(c->arena, Shape *, j.count);
  for (uint32_t i = 0; i < j.count; i++)
    j.args[i] = shape_norm(c, k->broadcast_args[i]);
  broadcast_dedupe(c, &j);
  while (j.count > 1 && (broadcast_last_axis(c, &j, k->origin) ||
                         broadcast_same_splice(c, &j))) {
    for (uint32_t i = 0; i < j.count; i++)
      j.args[i] = shape_norm(c, j.args[i]);
    broadcast_dedupe(c, &j);
  }
  if (j.count <= 1) {
    Shape *whole = j.count ? shape_concat(c, j.args[0], j.suffix) : j.suffix;
    if (!unify_shape(c, k->a, whole, k->origin))
      report_shapes(c, k->a, whole, k->origin);
    return ENTAILED;
  }
  if (j.suffix->len) { /* a part is known: unify that, keep the rest */
    Shape *rest = shape_meta(c);
    if (!unify_shape(c, k->a, shape_concat(c, rest, j.suffix), k->origin)) {
      report_shapes(c, k->a, j.suffix, k->origin);
      return ENTAILED;
    }
    k->a = rest;
  }
  k->broadcast_args = j.args;
  k->broadcast_arg_count = j.count;
  return broadcast_unify_duplicate(c, k) ? ENTAILED : UNDECIDED;
}

/* ---- keep, and shapes as such ---- */

Verdict solve_keep(Checker *c, Constraint *k) {
  Shape *r = shape_norm(c, k->b);
  if (!shape_has_known_rank(r))
    return UNDECIDED;
  Shape *stars = shape_new(c, r->len);
  for (uint32_t i = 0; i < r->len; i++)
    stars->axes[i].tag = SHAPE_STAR;
  if (!unify_shape(c, k->a, stars, k->origin))
    report_shapes(c, k->a, stars, k->origin);
  return ENTAILED;
}

Verdict solve_shape_eq(Checker *c, Constraint *k) {
  uint32_t before = c->solver.pending.len;
  if (!unify_shape(c, k->a, k->b, k->origin)) {
    if (k->is_dependent)
      return CONTRADICTED;
    report_shapes(c, k->a, k->b, k->origin);
    return ENTAILED;
  }
  /* it created an equal constraint: keep this one */
  if (c->solver.pending.len > before) {
    Constraint *again = c->solver.pending.at[c->solver.pending.len - 1];
    if (again->kind == CN_SHAPE_EQ && again->origin == k->origin) {
      k->a = again->a, k->b = again->b;
      again->queue.active = false;
      c->solver.pending.len--;
      return UNDECIDED;
    }
  }
  return ENTAILED;
}
