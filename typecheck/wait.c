/* Which constraints wait for which variables: a constraint that stays open
 * sleeps until something that it mentions is solved or forgotten, so that what
 * has not changed is not tried again.
 *
 * A join also depends on the joins and keeps that define its arguments (see
 * join_expand in joins.c): it is woken when one of those is added or changes.
 * A shape variable lists what defines it. */
#include "typecheck/internal.h"

/* Constraints that mention a variable.  One that has registered anew since
 * (its turn is another) is not meant any more. */
struct Waiter {
  Constraint *k;
  uint32_t turn;
  Waiter *next;
};

struct Definer {
  Constraint *k;
  Definer *next;
};

static void wake(Checker *c, Constraint *k);

/* What is woken registers anew, if it stays open: the list starts afresh. */
static void wake_all(Checker *c, Waiter **list) {
  Waiter *w = *list;
  *list = NULL;
  for (; w; w = w->next)
    if (w->turn == w->k->turn)
      wake(c, w->k);
}

/* The variable that a join or keep says something of; or NULL. */
static ShapeVar *defined_by(Checker *c, const Constraint *k) {
  if (k->kind != CN_JOIN && k->kind != CN_KEEP)
    return NULL;
  Shape *s = shape_norm(c, k->a);
  return s->len == 1 && s->at[0].tag == IT_SPLICE ? s->at[0].var : NULL;
}

/* What is defined by something that changes has changed itself. */
static void wake(Checker *c, Constraint *k) {
  if (!k->asleep)
    return;
  k->asleep = false;
  c->awake = true;
  ShapeVar *v = defined_by(c, k);
  if (v)
    wake_all(c, &v->waiting);
}

/* ---- registering ---- */

typedef struct Watch {
  Checker *c;
  Constraint *k;
} Watch;

static Waiter *waiter(Watch *w, Waiter *next) {
  if (next && next->k == w->k && next->turn == w->k->turn)
    return next;
  Waiter *one = NEW(w->c->arena, Waiter);
  *one = (Waiter){w->k, w->k->turn, next};
  return one;
}

static void watch_dim(void *arg, DimVar *v) {
  if (v->kind == DV_META && !v->bound && !v->top)
    v->waiting = waiter(arg, v->waiting);
}

static void watch_shape(void *arg, ShapeVar *v) {
  if (!v->rigid)
    v->waiting = waiter(arg, v->waiting);
}

static void define(Checker *c, ShapeVar *v, Constraint *k) {
  for (Definer *d = v->defined; d; d = d->next)
    if (d->k == k)
      return;
  Definer *d = NEW(c->arena, Definer);
  *d = (Definer){k, v->defined};
  v->defined = d;
  wake_all(c, &v->waiting);
}

void wait_sleep(Checker *c, Constraint *k) {
  k->turn++;
  ShapeVar *defined = defined_by(c, k);
  if (defined)
    define(c, defined, k); /* wakes who waits for it: k itself comes later */
  Watch w = {c, k};
  Visit v = {.dim = watch_dim, .shape = watch_shape, .arg = &w, .c = c};
  constraint_visit(&v, k);
  for (Fact *f = k->facts; f; f = f->outer)
    if (dim_may_change(f->dim))
      dim_visit(&v, f->dim);
  k->asleep = true;
}

void wait_solved_dim(Checker *c, DimVar *v) {
  c->changes++;
  wake_all(c, &v->waiting);
}

/* A solution is forgotten.  Who has used it is not known: all are tried
 * again. */
void wait_forgotten(Checker *c) {
  c->changes++;
  c->awake = true;
  for (uint32_t i = 0; i < c->pending.len; i++)
    c->pending.at[i]->asleep = false;
}

/* v has become s. */
void wait_solved_shape(Checker *c, ShapeVar *v, const Shape *s) {
  c->changes++;
  wake_all(c, &v->waiting);
  if (s->len == 1 && s->at[0].tag == IT_SPLICE)
    for (Definer *d = v->defined; d; d = d->next)
      define(c, s->at[0].var, d->k);
}

/* ---- what defines a variable ---- */

static bool keeps_one(Checker *c, const Constraint *k) {
  Shape *s = shape_norm(c, k->b);
  return s->len == 1 && s->at[0].tag == IT_SPLICE;
}

/* Of the joins (or the keeps of one variable) that are pending and say what v
 * is, the first. */
Constraint *wait_definer(Checker *c, ShapeVar *v, ConstraintKind kind) {
  Constraint *first = NULL;
  for (Definer **at = &v->defined; *at;) {
    Constraint *k = (*at)->k;
    if (k->done || defined_by(c, k) != v) { /* for good */
      *at = (*at)->next;
      continue;
    }
    if (k->kind == kind && k->pending &&
        (!first || k->order < first->order) &&
        (kind != CN_KEEP || keeps_one(c, k)))
      first = k;
    at = &(*at)->next;
  }
  return first;
}

/* ---- the list ---- */

void pending_add(Checker *c, Constraint *k) {
  k->pending = true;
  k->order = ++c->next_order;
  if (k->assumed)
    wait_sleep(c, k);
  if (!k->asleep)
    c->awake = true;
  VEC_PUSH(c->arena, c->pending, k);
}

void pending_clear(Checker *c) {
  for (uint32_t i = 0; i < c->pending.len; i++)
    c->pending.at[i]->pending = false;
  c->pending.len = 0;
}
