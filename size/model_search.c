/* Model search: finds integers that satisfy the assumptions of a query by local
 * search.  Main entry point: model_exists.
 *
 * A model in which a claim is false shows that no proof exists, so elimination
 * need not start.  The search begins with the last model and moves one variable
 * at a time to satisfy a violated condition.  Quotients, minima and products
 * are evaluated exactly, so a model is never wrong.  The search is
 * incomplete. */
#include "solver.h"

#include <stddef.h>
#include <string.h>

enum {
  MAX_MODEL_VARIABLES = 64,
  STALLED_MOVES = 10,      /* moves without progress, plus two for each leaf */
  INITIAL_VALUE = 12,      /* value of an unconstrained size */
  MAX_ABS_VALUE = 1 << 20, /* limit of all values */
};

/* A leaf in a condition. */
typedef struct Occurrence {
  struct Occurrence *next; /* of this leaf, in an earlier condition */
  uint32_t condition, variable;
  int64_t coef; /* of the leaf, if it occurs only as a term; otherwise 0 */
} Occurrence;

typedef struct Condition {
  const PolyConstraint *poly;
  uint64_t variable_mask; /* the leaves in it */
  Occurrence *leaves;     /* those leaves, in the order of their indices */
  uint32_t leaf_count;
  uint32_t weight;    /* grows while it stays violated */
  uint32_t violation; /* degree of violation */
  bool known;         /* value is its value; otherwise it has none */
  int64_t value;
} Condition;

typedef struct LocalSearch {
  DimCtx *cx;
  Condition *conditions;
  uint32_t count;
  Evaluation evaluation;
  bool at_least_one;
  bool overflow;
  uint32_t variable_count;
  uint32_t cost;           /* weighted sum of all violations */
  uint32_t violated;       /* sum of all violations */
  uint64_t visited_mask;   /* leaves that the current walk has met */
  uint64_t pushed_up_mask; /* leaves that some condition wants to be large */
  Atom *variables[MAX_MODEL_VARIABLES];
  Occurrence *occurrences[MAX_MODEL_VARIABLES]; /* per leaf: all of them */
  int64_t coefs[MAX_MODEL_VARIABLES]; /* of the condition that is collected */
} LocalSearch;

/* ---- evaluation ---- */

static void spend_effort(LocalSearch *p, uint32_t effort) {
  uint32_t *left = &p->evaluation.effort;
  *left -= effort < *left ? effort : *left;
}

/* Degree of violation, by order of magnitude.  0 if the condition holds. */
static uint32_t violation_at(const Condition *at, bool known, int64_t x) {
  if (!known)
    return 64;
  if (x == 0 || (x > 0 && !at->poly->eq))
    return 0;
  return 66 - (uint32_t)__builtin_clzll(x < 0 ? -(uint64_t)x : (uint64_t)x);
}

static void evaluate_condition(LocalSearch *p, Condition *at) {
  at->known = dim_evaluate(&p->evaluation, at->poly->d, &at->value);
  at->violation = violation_at(at, at->known, at->value);
}

/* The value of a condition after its leaf has moved by `delta`.  Returns false
   if it has none. */
static bool value_after_move(LocalSearch *p, const Occurrence *leaf,
                             int64_t delta, int64_t *value) {
  const Condition *at = &p->conditions[leaf->condition];
  int64_t by;
  return (leaf->coef && at->known &&
          !__builtin_mul_overflow(leaf->coef, delta, &by) &&
          !__builtin_add_overflow(at->value, by, value)) ||
         dim_evaluate(&p->evaluation, at->poly->d, value);
}

/* The cost after leaf i has moved by `delta`.  Stores the new violations if
   `commit`. */
static uint32_t cost_after_move(LocalSearch *p, uint32_t i, int64_t delta,
                                bool commit) {
  uint32_t sum = p->cost, visited = 0;
  p->evaluation.epoch = dim_next_visit_epoch(p->cx);
  for (const Occurrence *o = p->occurrences[i]; o; o = o->next, visited++) {
    if (o->condition >= p->count)
      continue;
    Condition *at = &p->conditions[o->condition];
    int64_t value;
    bool known = value_after_move(p, o, delta, &value);
    uint32_t violation = violation_at(at, known, value);
    sum += (violation - at->violation) * at->weight; /* modulo 2^32 */
    if (commit) {
      p->violated += violation - at->violation;
      at->known = known;
      at->value = value;
      at->violation = violation;
    }
  }
  spend_effort(p, visited);
  if (commit)
    p->cost = sum;
  return sum;
}

/* The next violated condition from `from` on, cyclically. */
static uint32_t next_violated(const LocalSearch *p, uint32_t from) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->conditions[(from + i) % p->count].violation)
      return (from + i) % p->count;
  return 0;
}

/* ---- moves ---- */

static int64_t lower_bound(const LocalSearch *p, const Atom *leaf) {
  const DimVar *var = leaf->var;
  if (var && var->is_integer)
    return -MAX_ABS_VALUE;
  if (!var || var->kind == DV_INDEX)
    return 0;
  return var->kind != DV_EXISTENTIAL && p->at_least_one;
}

/* The index of the leaf.  Sets p->overflow if there are too many. */
static uint32_t variable_index(LocalSearch *p, Atom *atom) {
  uint32_t i = atom->model_index;
  if (i < p->variable_count && p->variables[i] == atom)
    return i;
  if (p->variable_count == MAX_MODEL_VARIABLES) {
    p->overflow = true;
    return 0;
  }
  atom->model_index = i = p->variable_count++;
  p->variables[i] = atom;
  p->occurrences[i] = NULL;
  return i;
}

static void collect_variable(void *arg, Atom *atom) {
  LocalSearch *p = arg;
  p->visited_mask |= (uint64_t)1 << variable_index(p, atom);
}

/* A value of the leaf between which and `from` the condition grows by `slope`
   per `step`, such that the condition holds. */
static bool solve_for_leaf(const LocalSearch *p, const Atom *leaf, int64_t here,
                           int64_t slope, int64_t step, int64_t *to) {
  int64_t from = leaf->model_value, need = -here * step;
  if (here < -MAX_ABS_VALUE || here > MAX_ABS_VALUE)
    return false;
  *to = need / slope;
  /* round away from 0: sufficient for an inequality */
  if (*to * slope != need)
    *to += (need < 0) == (slope < 0) ? 1 : -1;
  *to += from;
  int64_t min = lower_bound(p, leaf);
  if (*to < min)
    *to = min;
  return *to != from && *to < MAX_ABS_VALUE;
}

/* The value of the leaf that satisfies its condition while others stay.  If
   there is none, some other value. */
static bool repair_value(LocalSearch *p, const Occurrence *o, int64_t *to) {
  const Condition *at = &p->conditions[o->condition];
  Atom *leaf = p->variables[o->variable];
  int64_t from = leaf->model_value, there = 0;
  if (!at->known) {
    *to = from == 1 ? INITIAL_VALUE : 1;
    return true;
  }
  if (o->coef)
    return solve_for_leaf(p, leaf, at->value, o->coef, 1, to);
  for (int64_t step = 1; step <= 64; step *= 8) {
    leaf->model_value = from + step;
    p->evaluation.epoch = dim_next_visit_epoch(p->cx);
    bool known = dim_evaluate(&p->evaluation, at->poly->d, &there);
    leaf->model_value = from;
    if (known && there != at->value)
      return solve_for_leaf(p, leaf, at->value, there - at->value, step, to);
  }
  return false;
}

typedef struct Move {
  const Atom *leaf;
  int64_t from;
} Move;

static void move(LocalSearch *p, uint32_t i, int64_t to) {
  int64_t delta = to - p->variables[i]->model_value;
  p->variables[i]->model_value = to;
  cost_after_move(p, i, delta, true);
}

/* Makes the best move that satisfies condition `which`, but does not undo the
   last move.  If there is none, a leaf gets a new start value. */
static void make_best_move(LocalSearch *p, uint32_t which, Move *last) {
  uint32_t best = UINT32_MAX, best_sum = UINT32_MAX;
  int64_t best_to = 0;
  const Condition *at = &p->conditions[which];
  for (uint32_t k = 0; k < at->leaf_count; k++) {
    uint32_t i = at->leaves[k].variable;
    Atom *leaf = p->variables[i];
    int64_t from = leaf->model_value, to;
    if (!repair_value(p, &at->leaves[k], &to) ||
        (leaf == last->leaf && to == last->from))
      continue;
    leaf->model_value = to;
    uint32_t sum = cost_after_move(p, i, to - from, false);
    leaf->model_value = from;
    if (sum < best_sum) {
      best = i;
      best_to = to;
      best_sum = sum;
    }
    if (!sum)
      break;
  }
  if (best == UINT32_MAX) {
    best = (which + p->evaluation.effort) % p->variable_count;
    best_to =
        p->variables[best]->model_value == INITIAL_VALUE ? 2 : INITIAL_VALUE;
  }
  *last = (Move){p->variables[best], p->variables[best]->model_value};
  move(p, best, best_to);
}

/* ---- the search ---- */

/* Moves until no condition is violated.  Gives up if the violations have not
   decreased for a while: then the search mostly goes in circles. */
static bool repair(LocalSearch *p) {
  Move last = {0};
  uint32_t which = 0, least = UINT32_MAX, stalled = 0;
  while (p->cost && p->evaluation.effort &&
         stalled < STALLED_MOVES + 2 * p->variable_count) {
    which = next_violated(p, which);
    p->conditions[which].weight++;
    p->cost += p->conditions[which].violation;
    make_best_move(p, which++, &last);
    stalled = p->violated < least ? 0 : stalled + 1;
    least = p->violated < least ? p->violated : least;
  }
  return !p->cost;
}

/* True if the term is a product of leaves and never decreases when one of them
   grows. */
static bool is_increasing(const LocalSearch *p, const Term *term) {
  const Monomial *mono = term->mono;
  for (uint32_t i = 0; i < mono->power_count; i++)
    if (mono->powers[i].atom->arg_count ||
        (mono->degree > 1 && lower_bound(p, mono->powers[i].atom) < 0))
      return false;
  return bigint_sign(term->coef) > 0;
}

static bool is_decreasing(const LocalSearch *p, const Term *term) {
  Term opposite = *term;
  opposite.coef = bigint_of(1);
  return bigint_sign(term->coef) < 0 && is_increasing(p, &opposite);
}

/* The leaf that the term is a multiple of, or NULL. */
static Atom *as_leaf(const Term *term) {
  Atom *atom = term->mono->degree == 1 ? term->mono->powers[0].atom : NULL;
  return atom && !atom->arg_count && !term->coef.limbs ? atom : NULL;
}

/* True if the condition is a bound of a single leaf. */
static bool is_variable_bound(const Condition *at) {
  return !at->poly->eq && at->leaf_count == 1 &&
         as_leaf(&at->poly->d->terms[0]);
}

/* Finds the leaves of a term that is not a single leaf. */
static uint64_t collect_term(LocalSearch *p, const Monomial *mono) {
  p->visited_mask = 0;
  for (uint32_t j = 0; j < mono->power_count; j++)
    if (mono->powers[j].atom->arg_count)
      dim_each_leaf(mono->powers[j].atom->dim, dim_next_visit_epoch(p->cx),
                    collect_variable, p);
    else
      collect_variable(p, mono->powers[j].atom);
  return p->visited_mask;
}

/* Finds the leaves of the condition, and their coefficients. */
static void collect_leaves(LocalSearch *p, Condition *at, uint64_t *pushed_up) {
  const Dim *d = at->poly->d;
  uint64_t linear = 0, other = 0;
  for (uint32_t t = 0; t < d->term_count; t++) {
    const Term *term = &d->terms[t];
    Atom *leaf = as_leaf(term);
    uint64_t mask = leaf ? (uint64_t)1 << variable_index(p, leaf)
                         : collect_term(p, term->mono);
    if (at->poly->eq || !(leaf ? term->coef.small < 0 : is_decreasing(p, term)))
      *pushed_up |= mask;
    if (leaf) {
      linear |= mask;
      p->coefs[leaf->model_index] = term->coef.small;
    } else {
      other |= mask;
    }
  }
  at->variable_mask = linear | other;
  for (uint64_t left = other; left; left &= left - 1)
    p->coefs[__builtin_ctzll(left)] = 0;
}

static void collect_condition(LocalSearch *p, Scratch *scratch, uint32_t c) {
  Condition *at = &p->conditions[c];
  uint64_t pushed_up = 0;
  collect_leaves(p, at, &pushed_up);
  if (p->overflow)
    return;
  for (uint64_t left = at->variable_mask; left; left &= left - 1)
    at->leaf_count++;
  at->leaves = scratch_alloc(scratch, sizeof *at->leaves * at->leaf_count);
  Occurrence *o = at->leaves;
  for (uint64_t left = at->variable_mask; left; left &= left - 1, o++) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    *o = (Occurrence){p->occurrences[i], c, i, p->coefs[i]};
    p->occurrences[i] = o;
  }
  if (!is_variable_bound(at))
    p->pushed_up_mask |= pushed_up;
}

/* Leaves that no condition wants to be large start at their lower bounds. */
static void start_at_lower_bounds(LocalSearch *p) {
  for (uint32_t i = 0; i < p->variable_count; i++)
    if (!(p->pushed_up_mask >> i & 1))
      p->variables[i]->model_value = lower_bound(p, p->variables[i]);
  p->evaluation.epoch = dim_next_visit_epoch(p->cx);
  for (uint32_t c = 0; c < p->count; c++) {
    Condition *at = &p->conditions[c];
    int64_t to;
    if (!is_variable_bound(at) ||
        (p->pushed_up_mask >> at->leaves[0].variable & 1))
      continue;
    evaluate_condition(p, at);
    if (at->violation && repair_value(p, &at->leaves[0], &to))
      p->variables[at->leaves[0].variable]->model_value = to;
  }
}

static void search_collect(LocalSearch *p, Scratch *scratch,
                           const PolyConstraint *at) {
  p->conditions = scratch_alloc(scratch, sizeof *p->conditions * p->count);
  for (uint32_t i = 0; i < p->count && !p->overflow; i++) {
    p->conditions[i] = (Condition){.poly = &at[i], .weight = 1};
    collect_condition(p, scratch, i);
  }
}

static void search_start(LocalSearch *p) {
  for (uint32_t i = 0; i < p->variable_count; i++) {
    Atom *leaf = p->variables[i];
    if (!leaf->has_model_value) {
      leaf->has_model_value = true;
      leaf->model_value = 1;
    }
    if (leaf->model_value < lower_bound(p, leaf))
      leaf->model_value = lower_bound(p, leaf);
  }
}

static void assignment_save(const LocalSearch *p, int64_t *to) {
  for (uint32_t i = 0; i < p->variable_count; i++)
    to[i] = p->variables[i]->model_value;
}

static void assignment_restore(const LocalSearch *p, const int64_t *from) {
  for (uint32_t i = 0; i < p->variable_count; i++)
    p->variables[i]->model_value = from[i];
}

/* Saves a model of the assumptions alone.  The next claim mostly has the same
   assumptions, so its model is only a few moves away. */
bool model_exists(DimCtx *cx, Scratch *scratch, const PolyConstraint *at,
                  uint32_t count, bool at_least_one, uint32_t effort) {
  LocalSearch p; /* variables and their occurrences are set as they appear */
  memset(&p, 0, offsetof(LocalSearch, variables));
  p.cx = cx;
  p.count = count;
  p.at_least_one = at_least_one;
  p.evaluation.effort = effort;
  search_collect(&p, scratch, at);
  if (p.overflow || !p.variable_count)
    return false;
  int64_t start[MAX_MODEL_VARIABLES];
  search_start(&p);
  start_at_lower_bounds(&p);
  p.count--;
  p.evaluation.epoch = dim_next_visit_epoch(cx);
  for (uint32_t i = 0; i < p.count; i++) {
    evaluate_condition(&p, &p.conditions[i]);
    p.cost += p.conditions[i].violation;
  }
  p.violated = p.cost;
  if (!repair(&p))
    return false;
  assignment_save(&p, start);
  Condition *claim = &p.conditions[p.count++];
  p.evaluation.epoch = dim_next_visit_epoch(cx);
  evaluate_condition(&p, claim);
  p.cost = p.violated = claim->violation;
  bool found = repair(&p);
  assignment_restore(&p, start);
  return found;
}
