/* Suspended constraints: an undecided constraint is not retried until a
 * variable in it is solved or forgotten (watchers).
 *
 * A broadcast also depends on the broadcasts and keeps that define its
 * arguments (broadcast_expand in solve_broadcast.c).  It is woken if one of
 * those is added or changes.  A shape variable lists the constraints that
 * define it. */
#include "typecheck/solver.h"
#include "support/arena.h"

/* Constraints that mention a variable.  An entry is stale if its constraint has
   registered again since (watch_generation differs). */
struct Watcher {
  Constraint *k;
  uint32_t watch_generation;
  Watcher *next;
};

struct DefiningConstraint {
  Constraint *k;
  DefiningConstraint *next;
};

static void wake(Checker *c, Constraint *k);

/* A woken constraint registers again if it stays undecided, so the list is
   cleared. */
static void wake_all(Checker *c, Watcher **list) {
  Watcher *w = *list;
  *list = NULL;
  for (; w; w = w->next)
    if (w->watch_generation == w->k->queue.watch_generation)
      wake(c, w->k);
}

/* The variable that a broadcast or keep defines, or NULL. */
static ShapeVar *defined_shape_var(Checker *c, const Constraint *k) {
  if (k->kind != CN_BROADCAST && k->kind != CN_KEEP)
    return NULL;
  Shape *s = shape_norm(c, k->a);
  return s->len == 1 && s->axes[0].tag == SHAPE_SPLICE ? s->axes[0].var : NULL;
}

/* Wakes k, and the constraints that depend on the variable that it defines. */
static void wake(Checker *c, Constraint *k) {
  if (!k->queue.suspended)
    return;
  k->queue.suspended = false;
  c->solver.has_awake = true;
  ShapeVar *v = defined_shape_var(c, k);
  if (v)
    wake_all(c, &v->watchers);
}

/* ---- registering ---- */

typedef struct WatchContext {
  Checker *c;
  Constraint *k;
} WatchContext;

static Watcher *watcher_add(WatchContext *w, Watcher *next) {
  if (next && next->k == w->k &&
      next->watch_generation == w->k->queue.watch_generation)
    return next;
  Watcher *one = NEW(w->c->arena, Watcher);
  *one = (Watcher){w->k, w->k->queue.watch_generation, next};
  return one;
}

static void watch_dim(void *arg, DimVar *v) {
  if (v->kind == DV_META && !v->solution && !v->unknown)
    v->watchers = watcher_add(arg, v->watchers);
}

static void watch_shape(void *arg, ShapeVar *v) {
  if (!v->skolem)
    v->watchers = watcher_add(arg, v->watchers);
}

static void add_definer(Checker *c, ShapeVar *v, Constraint *k) {
  for (DefiningConstraint *d = v->definers; d; d = d->next)
    if (d->k == k)
      return;
  DefiningConstraint *d = NEW(c->arena, DefiningConstraint);
  *d = (DefiningConstraint){k, v->definers};
  v->definers = d;
  wake_all(c, &v->watchers);
}

void wakeup_suspend(Checker *c, Constraint *k) {
  k->queue.watch_generation++;
  ShapeVar *defined = defined_shape_var(c, k);
  if (defined)
    add_definer(c, defined,
                k); /* wakes its dependents; k itself is processed later */
  WatchContext w = {c, k};
  TypeVisitor v = {.dim = watch_dim, .shape = watch_shape, .arg = &w, .c = c};
  constraint_visit(&v, k);
  for (Assumption *f = k->assumptions; f; f = f->outer)
    if (dim_has_metas(f->dim))
      dim_visit(&v, f->dim);
  k->queue.suspended = true;
}

void wakeup_dim_solved(Checker *c, DimVar *v) {
  c->solver.solution_changes++;
  wake_all(c, &v->watchers);
}

/* A solution was forgotten.  Its users are unknown, so all constraints are
   retried. */
void wakeup_all(Checker *c) {
  c->solver.solution_changes++;
  c->solver.has_awake = true;
  for (uint32_t i = 0; i < c->solver.pending.len; i++)
    c->solver.pending.at[i]->queue.suspended = false;
}

/* v was solved as s. */
void wakeup_shape_solved(Checker *c, ShapeVar *v, const Shape *s) {
  c->solver.solution_changes++;
  wake_all(c, &v->watchers);
  if (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE)
    for (DefiningConstraint *d = v->definers; d; d = d->next)
      add_definer(c, s->axes[0].var, d->k);
}

/* ---- what defines a variable ---- */

static bool is_keep_of_one_var(Checker *c, const Constraint *k) {
  Shape *s = shape_norm(c, k->b);
  return s->len == 1 && s->axes[0].tag == SHAPE_SPLICE;
}

/* The first pending broadcast (or keep) that defines v. */
Constraint *wakeup_find_definer(Checker *c, ShapeVar *v, ConstraintKind kind) {
  Constraint *first = NULL;
  for (DefiningConstraint **at = &v->definers; *at;) {
    Constraint *k = (*at)->k;
    if (k->solved || defined_shape_var(c, k) != v) { /* permanently stale */
      *at = (*at)->next;
      continue;
    }
    if (k->kind == kind && k->queue.active &&
        (!first || k->queue.order < first->queue.order) &&
        (kind != CN_KEEP || is_keep_of_one_var(c, k)))
      first = k;
    at = &(*at)->next;
  }
  return first;
}

/* ---- the list ---- */

void pending_add(Checker *c, Constraint *k) {
  k->queue.active = true;
  k->queue.order = ++c->solver.next_order;
  if (k->is_given)
    wakeup_suspend(c, k);
  if (!k->queue.suspended)
    c->solver.has_awake = true;
  VEC_PUSH(c->arena, c->solver.pending, k);
}

void pending_clear(Checker *c) {
  for (uint32_t i = 0; i < c->solver.pending.len; i++)
    c->solver.pending.at[i]->queue.active = false;
  c->solver.pending.len = 0;
}
