/* Points: integers that satisfy a query's facts, found by repairing what the
 * last query ended with.
 *
 * A point at which the facts hold and a claim does not shows that no proof
 * exists; elimination, which would find that out by coming to its end, need
 * not begin.  Variables are moved one at a time, to where a violated condition
 * holds, as in local search; quotients, minima and products are evaluated, so
 * a point that is found is one.  None may be found where there is one. */
#include "dimsolver.h"

enum {
  POINT_LEAVES = 64,
  POINT_MOVES = 400,
  POINT_START = 12,    /* a size of which nothing is known */
  POINT_FAR = 1 << 20, /* no value moves beyond */
};

typedef struct Point {
  DimCtx *cx;
  const Poly *at;
  uint32_t count, effort;
  bool at_least_one;
  Atom *leaves[POINT_LEAVES];
  uint32_t leaf_count;
  bool too_many;
  uint16_t *weights; /* grow while a condition stays violated */
  uint64_t epoch; /* of the values that compound atoms remember */
} Point;

/* ---- evaluation ---- */

static bool value_of(Point *p, const Dim *d, int64_t *value);

static bool compound_value(Point *p, Atom *atom, int64_t *value) {
  if (atom->epoch == p->epoch) {
    *value = atom->point;
    return true;
  }
  int64_t best = 0;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    int64_t x;
    if (!value_of(p, atom->args[i], &x))
      return false;
    if (!i)
      best = x;
    else if (atom->kind == AT_DIV && x < 1)
      return false;
    else if (atom->kind == AT_DIV)
      best = best / x - (best % x < 0);
    else if (atom->kind == AT_MIN ? x < best : x > best)
      best = x;
  }
  atom->epoch = p->epoch;
  *value = atom->point = best;
  return true;
}

/* False when it overflows, divides by less than 1, or takes too long. */
static bool value_of(Point *p, const Dim *d, int64_t *value) {
  *value = 0;
  for (uint32_t i = 0; i < d->count; i++) {
    if (!p->effort-- || d->at[i].coef.limbs) {
      p->effort = 0;
      return false;
    }
    const Mono *mono = d->at[i].mono;
    int64_t x, term = d->at[i].coef.small;
    for (uint32_t j = 0; j < mono->count; j++) {
      Atom *atom = mono->at[j].atom;
      if (!atom->arg_count)
        x = atom->point;
      else if (!compound_value(p, atom, &x))
        return false;
      for (uint32_t k = 0; k < mono->at[j].exp; k++)
        if (__builtin_mul_overflow(term, x, &term))
          return false;
    }
    if (__builtin_add_overflow(*value, term, value))
      return false;
  }
  return true;
}

/* How much it is violated, by order of magnitude: 0 where it holds. */
static uint32_t violation(Point *p, const Poly *condition) {
  int64_t x;
  if (!value_of(p, condition->d, &x))
    return 64;
  if (x == 0 || (x > 0 && !condition->eq))
    return 0;
  return 66 - (uint32_t)__builtin_clzll(x < 0 ? -(uint64_t)x : (uint64_t)x);
}

/* The weighted sum of the violations, and, from *which on and around, the
 * index of a violated condition. */
static uint32_t violations(Point *p, uint32_t *which) {
  uint32_t sum = 0, from = which ? *which : 0, nearest = UINT32_MAX;
  p->epoch = dim_epoch(p->cx);
  for (uint32_t i = 0; i < p->count; i++) {
    uint32_t by = violation(p, &p->at[i]);
    sum += by * p->weights[i];
    if (by && (i >= from || nearest == UINT32_MAX))
      if (nearest == UINT32_MAX || nearest < from)
        nearest = i;
  }
  if (which)
    *which = nearest;
  return sum;
}

/* ---- moves ---- */

static int64_t lowest(const Point *p, const Atom *leaf) {
  const DimVar *var = leaf->var;
  if (var && var->value)
    return -POINT_FAR;
  if (!var || var->kind == DV_INDEX)
    return 0;
  return var->kind != DV_DATA && p->at_least_one;
}

static void leaf_take(void *arg, Atom *atom) {
  Point *p = arg;
  if (p->leaf_count == POINT_LEAVES) {
    p->too_many = true;
    return;
  }
  p->leaves[p->leaf_count++] = atom;
}

/* Where the leaf must go for the condition to hold, others staying; if that
 * has no value here, somewhere else. */
static bool target(Point *p, const Poly *condition, Atom *leaf,
                   int64_t *to) {
  int64_t from = leaf->point, here, there = 0;
  p->epoch = dim_epoch(p->cx);
  if (!value_of(p, condition->d, &here)) {
    *to = from == 1 ? POINT_START : 1;
    return true;
  }
  for (int64_t step = 1; step <= 64; step *= 8) {
    leaf->point = from + step;
    p->epoch = dim_epoch(p->cx);
    bool known = value_of(p, condition->d, &there);
    leaf->point = from;
    if (!known || there == here)
      continue;
    int64_t slope = there - here, need = -here * step;
    if (here < -POINT_FAR || here > POINT_FAR)
      return false;
    *to = need / slope;
    if (*to * slope != need) /* away from 0: enough, for an inequality */
      *to += (need < 0) == (slope < 0) ? 1 : -1;
    *to += from;
    int64_t least = lowest(p, leaf);
    if (*to < least)
      *to = least;
    return *to != from && *to < POINT_FAR;
  }
  return false;
}

typedef struct Move {
  const Atom *leaf;
  int64_t from;
} Move;

/* Makes the best move that mends condition `which`, but for going back on the
 * last one; where there is none, a leaf starts anew. */
static void move(Point *p, uint32_t which, Move *last) {
  Atom *best = NULL;
  int64_t best_to = 0;
  uint32_t best_sum = UINT32_MAX;
  Point own = {.cx = p->cx};
  dim_each_leaf(p->at[which].d, dim_epoch(p->cx), leaf_take, &own);
  for (uint32_t i = 0; i < own.leaf_count; i++) {
    Atom *leaf = own.leaves[i];
    int64_t from = leaf->point, to;
    if (!target(p, &p->at[which], leaf, &to) ||
        (leaf == last->leaf && to == last->from))
      continue;
    leaf->point = to;
    uint32_t sum = violations(p, NULL);
    leaf->point = from;
    if (sum < best_sum) {
      best = leaf;
      best_to = to;
      best_sum = sum;
    }
  }
  if (!best) {
    best = p->leaves[(which + p->effort) % p->leaf_count];
    best_to = best->point == POINT_START ? 2 : POINT_START;
  }
  *last = (Move){best, best->point};
  best->point = best_to;
}

/* ---- the search ---- */

static bool repair(Point *p) {
  Move last = {0};
  uint32_t which = 0;
  for (uint32_t n = 0; n < POINT_MOVES && p->effort; n++) {
    if (!violations(p, &which))
      return p->effort > 0;
    p->weights[which]++;
    move(p, which++, &last);
  }
  return false;
}

bool point_exists(DimCtx *cx, Scratch *scratch, const Poly *at,
                  uint32_t count, bool at_least_one, uint32_t effort) {
  Point p = {.cx = cx, .at = at, .count = count, .at_least_one = at_least_one,
             .effort = effort};
  p.weights = scratch_alloc(scratch, sizeof *p.weights * count);
  for (uint32_t i = 0; i < count; i++)
    p.weights[i] = 1;
  uint64_t epoch = dim_epoch(cx);
  for (uint32_t i = 0; i < count; i++)
    dim_each_leaf(at[i].d, epoch, leaf_take, &p);
  if (p.too_many || !p.leaf_count)
    return false;
  int64_t start[POINT_LEAVES];
  for (uint32_t i = 0; i < p.leaf_count; i++) {
    Atom *leaf = p.leaves[i];
    if (!leaf->pointed) {
      leaf->pointed = true;
      leaf->point = POINT_START;
    }
    if (leaf->point < lowest(&p, leaf))
      leaf->point = lowest(&p, leaf);
    start[i] = leaf->point;
  }
  bool found = repair(&p);
  for (uint32_t i = 0; i < p.leaf_count && !found; i++)
    p.leaves[i]->point = start[i];
  return found;
}
