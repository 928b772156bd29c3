/* Model search: finds integers that satisfy the assumptions of a query by local
 * search.  Main entry point: model_exists.
 *
 * A model in which a claim is false shows that no proof exists, so elimination
 * need not start.  The search begins with the last model and moves one variable
 * at a time to satisfy a violated condition.  Quotients, minima and products
 * are evaluated exactly, so a model is never wrong.  The search is
 * incomplete. */
#include "solver.h"

enum {
  MAX_MODEL_VARIABLES = 64,
  MAX_MOVES = 400,
  INITIAL_VALUE = 12,      /* value of an unconstrained size */
  MAX_ABS_VALUE = 1 << 20, /* limit of all values */
};

typedef struct LocalSearch {
  DimCtx *cx;
  const PolyConstraint *constraints;
  uint32_t count;
  Evaluation evaluation;
  bool at_least_one;
  Atom *variables[MAX_MODEL_VARIABLES];
  uint32_t variable_count;
  bool overflow;
  uint64_t visited_mask;    /* leaves that the current walk has met */
  uint64_t pushed_up_mask;  /* leaves that some condition wants to be large */
  uint64_t *variable_masks; /* per condition: the leaves in it */
  uint32_t *violations;     /* per condition: degree of violation */
  uint32_t *weights;        /* per condition: grows while it stays violated */
  uint32_t cost;            /* weighted sum of all violations */
} LocalSearch;

/* ---- evaluation ---- */

static void spend_effort(LocalSearch *p, uint32_t effort) {
  uint32_t *left = &p->evaluation.effort;
  *left -= effort < *left ? effort : *left;
}

/* Degree of violation, by order of magnitude.  0 if the condition holds. */
static uint32_t violation(LocalSearch *p, const PolyConstraint *condition) {
  int64_t x;
  if (!dim_evaluate(&p->evaluation, condition->d, &x))
    return 64;
  if (x == 0 || (x > 0 && !condition->eq))
    return 0;
  return 66 - (uint32_t)__builtin_clzll(x < 0 ? -(uint64_t)x : (uint64_t)x);
}

/* The cost after a move of leaf i.  Stores the new violations if `commit`. */
static uint32_t cost_after_move(LocalSearch *p, uint32_t i, bool commit) {
  uint64_t bit = (uint64_t)1 << i;
  uint32_t sum = p->cost;
  p->evaluation.epoch = dim_next_visit_epoch(p->cx);
  spend_effort(p, p->count / 8);
  for (uint32_t c = 0; c < p->count; c++) {
    if (!(p->variable_masks[c] & bit))
      continue;
    uint32_t by = violation(p, &p->constraints[c]);
    sum += (by - p->violations[c]) * p->weights[c]; /* modulo 2^32 */
    if (commit)
      p->violations[c] = by;
  }
  if (commit)
    p->cost = sum;
  return sum;
}

/* The next violated condition from `from` on, cyclically. */
static uint32_t next_violated(const LocalSearch *p, uint32_t from) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->violations[(from + i) % p->count])
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

static void collect_variable(void *arg, Atom *atom) {
  LocalSearch *p = arg;
  uint32_t i = atom->model_index;
  if (i >= p->variable_count || p->variables[i] != atom) {
    if (p->variable_count == MAX_MODEL_VARIABLES) {
      p->overflow = true;
      return;
    }
    atom->model_index = i = p->variable_count++;
    p->variables[i] = atom;
  }
  p->visited_mask |= (uint64_t)1 << i;
}

/* The value of the leaf that satisfies the condition while others stay.  If
   there is none, some other value. */
static bool repair_value(LocalSearch *p, const PolyConstraint *condition,
                         Atom *leaf, int64_t *to) {
  int64_t from = leaf->model_value, here, there = 0;
  p->evaluation.epoch = dim_next_visit_epoch(p->cx);
  if (!dim_evaluate(&p->evaluation, condition->d, &here)) {
    *to = from == 1 ? INITIAL_VALUE : 1;
    return true;
  }
  for (int64_t step = 1; step <= 64; step *= 8) {
    leaf->model_value = from + step;
    p->evaluation.epoch = dim_next_visit_epoch(p->cx);
    bool known = dim_evaluate(&p->evaluation, condition->d, &there);
    leaf->model_value = from;
    if (!known || there == here)
      continue;
    int64_t slope = there - here, need = -here * step;
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
  return false;
}

typedef struct Move {
  const Atom *leaf;
  int64_t from;
} Move;

/* Makes the best move that satisfies condition `which`, but does not undo the
   last move.  If there is none, a leaf gets a new start value. */
static void make_best_move(LocalSearch *p, uint32_t which, Move *last) {
  uint32_t best = UINT32_MAX, best_sum = UINT32_MAX;
  int64_t best_to = 0;
  for (uint64_t left = p->variable_masks[which]; left; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    Atom *leaf = p->variables[i];
    int64_t from = leaf->model_value, to;
    if (!repair_value(p, &p->constraints[which], leaf, &to) ||
        (leaf == last->leaf && to == last->from))
      continue;
    leaf->model_value = to;
    uint32_t sum = cost_after_move(p, i, false);
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
  p->variables[best]->model_value = best_to;
  cost_after_move(p, best, true);
}

/* ---- the search ---- */

static bool repair(LocalSearch *p) {
  Move last = {0};
  uint32_t which = 0;
  for (uint32_t n = 0; n < MAX_MOVES && p->evaluation.effort; n++) {
    if (!p->cost)
      return true;
    which = next_violated(p, which);
    p->weights[which]++;
    p->cost += p->violations[which];
    make_best_move(p, which++, &last);
  }
  return false;
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

/* True if the condition is a bound of a single leaf. */
static bool is_variable_bound(const LocalSearch *p, uint32_t i) {
  const PolyConstraint *at = &p->constraints[i];
  uint64_t variable_mask = p->variable_masks[i];
  return !at->eq && variable_mask && !(variable_mask & (variable_mask - 1)) &&
         at->d->terms[0].mono->degree == 1 &&
         !at->d->terms[0].mono->powers[0].atom->arg_count;
}

static void collect_variables(LocalSearch *p, uint32_t i) {
  const Dim *d = p->constraints[i].d;
  uint64_t variable_mask = 0, pushed_up = 0;
  for (uint32_t t = 0; t < d->term_count; t++) {
    const Monomial *mono = d->terms[t].mono;
    p->visited_mask = 0;
    for (uint32_t j = 0; j < mono->power_count; j++)
      if (mono->powers[j].atom->arg_count)
        dim_each_leaf(mono->powers[j].atom->dim, dim_next_visit_epoch(p->cx),
                      collect_variable, p);
      else
        collect_variable(p, mono->powers[j].atom);
    variable_mask |= p->visited_mask;
    if (p->constraints[i].eq || !is_decreasing(p, &d->terms[t]))
      pushed_up |= p->visited_mask;
  }
  p->variable_masks[i] = variable_mask;
  if (!is_variable_bound(p, i))
    p->pushed_up_mask |= pushed_up;
}

/* Leaves that no condition wants to be large start at their lower bounds. */
static void start_at_lower_bounds(LocalSearch *p) {
  for (uint32_t i = 0; i < p->variable_count; i++)
    if (!(p->pushed_up_mask >> i & 1))
      p->variables[i]->model_value = lower_bound(p, p->variables[i]);
  for (uint32_t c = 0; c < p->count; c++) {
    if (!p->variable_masks[c])
      continue; /* a condition without variables */
    uint32_t i = (uint32_t)__builtin_ctzll(p->variable_masks[c]);
    int64_t to;
    if (is_variable_bound(p, c) && !(p->pushed_up_mask >> i & 1) &&
        violation(p, &p->constraints[c]) &&
        repair_value(p, &p->constraints[c], p->variables[i], &to))
      p->variables[i]->model_value = to;
  }
}

static void search_collect(LocalSearch *p, Scratch *scratch) {
  p->variable_masks =
      scratch_alloc(scratch, sizeof *p->variable_masks * p->count);
  p->violations = scratch_alloc(scratch, sizeof *p->violations * p->count);
  p->weights = scratch_alloc(scratch, sizeof *p->weights * p->count);
  for (uint32_t i = 0; i < p->count; i++) {
    collect_variables(p, i);
    p->weights[i] = 1;
  }
}

static void search_start(LocalSearch *p) {
  for (uint32_t i = 0; i < p->variable_count; i++) {
    Atom *leaf = p->variables[i];
    if (!leaf->has_model_value) {
      leaf->has_model_value = true;
      leaf->model_value = INITIAL_VALUE;
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
  LocalSearch p = {.cx = cx,
                   .constraints = at,
                   .count = count,
                   .at_least_one = at_least_one,
                   .evaluation.effort = effort};
  search_collect(&p, scratch);
  if (p.overflow || !p.variable_count)
    return false;
  int64_t start[MAX_MODEL_VARIABLES];
  search_start(&p);
  start_at_lower_bounds(&p);
  p.count--;
  p.evaluation.epoch = dim_next_visit_epoch(cx);
  for (uint32_t i = 0; i < p.count; i++)
    p.cost += p.violations[i] = violation(&p, &at[i]);
  if (!repair(&p))
    return false;
  assignment_save(&p, start);
  p.count++;
  p.evaluation.epoch = dim_next_visit_epoch(cx);
  p.cost = p.violations[count - 1] = violation(&p, &at[count - 1]);
  bool found = repair(&p);
  assignment_restore(&p, start);
  return found;
}
