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
  uint64_t mask;     /* of the leaves that a walk has met; */
  uint64_t held;     /* of those that some condition wants to be large */
  uint64_t *touched; /* of each condition, the leaves in it; */
  uint32_t *by;      /* how much it is violated; */
  uint32_t *weights; /* grows while it stays so */
  uint32_t sum;      /* of all, by weight */
  uint64_t epoch;    /* of the values that compound atoms remember */
} Point;

/* ---- evaluation ---- */

static void take_effort(Point *p, uint32_t effort) {
  p->effort -= effort < p->effort ? effort : p->effort;
}

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

/* What the sum is where leaf i has moved; notes that, or not yet. */
static uint32_t sum_at(Point *p, uint32_t i, bool note) {
  uint64_t bit = (uint64_t)1 << i;
  uint32_t sum = p->sum;
  p->epoch = dim_epoch(p->cx);
  take_effort(p, p->count / 8);
  for (uint32_t c = 0; c < p->count; c++) {
    if (!(p->touched[c] & bit))
      continue;
    uint32_t by = violation(p, &p->at[c]);
    sum += (by - p->by[c]) * p->weights[c]; /* modulo 2^32 */
    if (note)
      p->by[c] = by;
  }
  if (note)
    p->sum = sum;
  return sum;
}

/* Of a violated condition, from `from` on and around. */
static uint32_t nearest_violated(const Point *p, uint32_t from) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->by[(from + i) % p->count])
      return (from + i) % p->count;
  return 0;
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
  uint32_t i = atom->place;
  if (i >= p->leaf_count || p->leaves[i] != atom) {
    if (p->leaf_count == POINT_LEAVES) {
      p->too_many = true;
      return;
    }
    atom->place = i = p->leaf_count++;
    p->leaves[i] = atom;
  }
  p->mask |= (uint64_t)1 << i;
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
  uint32_t best = UINT32_MAX, best_sum = UINT32_MAX;
  int64_t best_to = 0;
  for (uint64_t left = p->touched[which]; left; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    Atom *leaf = p->leaves[i];
    int64_t from = leaf->point, to;
    if (!target(p, &p->at[which], leaf, &to) ||
        (leaf == last->leaf && to == last->from))
      continue;
    leaf->point = to;
    uint32_t sum = sum_at(p, i, false);
    leaf->point = from;
    if (sum < best_sum) {
      best = i;
      best_to = to;
      best_sum = sum;
    }
    if (!sum)
      break;
  }
  if (best == UINT32_MAX) {
    best = (which + p->effort) % p->leaf_count;
    best_to = p->leaves[best]->point == POINT_START ? 2 : POINT_START;
  }
  *last = (Move){p->leaves[best], p->leaves[best]->point};
  p->leaves[best]->point = best_to;
  sum_at(p, best, true);
}

/* ---- the search ---- */

static bool repair(Point *p) {
  Move last = {0};
  uint32_t which = 0;
  for (uint32_t n = 0; n < POINT_MOVES && p->effort; n++) {
    if (!p->sum)
      return true;
    which = nearest_violated(p, which);
    p->weights[which]++;
    p->sum += p->by[which];
    move(p, which++, &last);
  }
  return false;
}

/* Is the term a product of leaves, and never falls where one of them grows? */
static bool grows(const Point *p, const Term *term) {
  const Mono *mono = term->mono;
  for (uint32_t i = 0; i < mono->count; i++)
    if (mono->at[i].atom->arg_count ||
        (mono->degree > 1 && lowest(p, mono->at[i].atom) < 0))
      return false;
  return num_sign(term->coef) > 0;
}

static bool falls(const Point *p, const Term *term) {
  Term opposite = *term;
  opposite.coef = num_of(1);
  return num_sign(term->coef) < 0 && grows(p, &opposite);
}

/* A bound of a single leaf holds none: where the leaf has to go is known. */
static bool is_bound(const Point *p, uint32_t i) {
  const Poly *at = &p->at[i];
  uint64_t touched = p->touched[i];
  return !at->eq && touched && !(touched & (touched - 1)) &&
         at->d->at[0].mono->degree == 1 &&
         !at->d->at[0].mono->at[0].atom->arg_count;
}

static void collect_leaves(Point *p, uint32_t i) {
  const Dim *d = p->at[i].d;
  uint64_t touched = 0, held = 0;
  for (uint32_t t = 0; t < d->count; t++) {
    const Mono *mono = d->at[t].mono;
    p->mask = 0;
    for (uint32_t j = 0; j < mono->count; j++)
      if (mono->at[j].atom->arg_count)
        dim_each_leaf(mono->at[j].atom->dim, dim_epoch(p->cx), leaf_take, p);
      else
        leaf_take(p, mono->at[j].atom);
    touched |= p->mask;
    if (p->at[i].eq || !falls(p, &d->at[t]))
      held |= p->mask;
  }
  p->touched[i] = touched;
  if (!is_bound(p, i))
    p->held |= held;
}

/* What no condition wants to be large starts as small as can be. */
static void settle_low(Point *p) {
  for (uint32_t i = 0; i < p->leaf_count; i++)
    if (!(p->held >> i & 1))
      p->leaves[i]->point = lowest(p, p->leaves[i]);
  for (uint32_t c = 0; c < p->count; c++) {
    if (!p->touched[c])
      continue; /* a condition on numbers alone */
    uint32_t i = (uint32_t)__builtin_ctzll(p->touched[c]);
    int64_t to;
    if (is_bound(p, c) && !(p->held >> i & 1) && violation(p, &p->at[c]) &&
        target(p, &p->at[c], p->leaves[i], &to))
      p->leaves[i]->point = to;
  }
}

static void point_collect(Point *p, Scratch *scratch) {
  p->touched = scratch_alloc(scratch, sizeof *p->touched * p->count);
  p->by = scratch_alloc(scratch, sizeof *p->by * p->count);
  p->weights = scratch_alloc(scratch, sizeof *p->weights * p->count);
  for (uint32_t i = 0; i < p->count; i++) {
    collect_leaves(p, i);
    p->weights[i] = 1;
  }
}

static void point_start(Point *p) {
  for (uint32_t i = 0; i < p->leaf_count; i++) {
    Atom *leaf = p->leaves[i];
    if (!leaf->pointed) {
      leaf->pointed = true;
      leaf->point = POINT_START;
    }
    if (leaf->point < lowest(p, leaf))
      leaf->point = lowest(p, leaf);
  }
}

static void point_store(const Point *p, int64_t *to) {
  for (uint32_t i = 0; i < p->leaf_count; i++)
    to[i] = p->leaves[i]->point;
}

static void point_restore(const Point *p, const int64_t *from) {
  for (uint32_t i = 0; i < p->leaf_count; i++)
    p->leaves[i]->point = from[i];
}

/* What is remembered is a point of the facts alone: most of them are those of
 * the next claim too, which is then few moves away. */
bool point_exists(DimCtx *cx, Scratch *scratch, const Poly *at,
                  uint32_t count, bool at_least_one, uint32_t effort) {
  Point p = {.cx = cx, .at = at, .count = count, .at_least_one = at_least_one,
             .effort = effort};
  point_collect(&p, scratch);
  if (p.too_many || !p.leaf_count)
    return false;
  int64_t start[POINT_LEAVES];
  point_start(&p);
  settle_low(&p);
  p.count--;
  p.epoch = dim_epoch(cx);
  for (uint32_t i = 0; i < p.count; i++)
    p.sum += p.by[i] = violation(&p, &at[i]);
  if (!repair(&p))
    return false;
  point_store(&p, start);
  p.count++;
  p.epoch = dim_epoch(cx);
  p.sum = p.by[count - 1] = violation(&p, &at[count - 1]);
  bool found = repair(&p);
  point_restore(&p, start);
  return found;
}
