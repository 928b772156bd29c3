/* Assumptions at a place in the program: conditions of surrounding branches,
   ranges of loops, and properties of existential sizes and calls. */
#include "typecheck/solver.h"
#include "support/arena.h"

static void load_chain(Checker *c, const Assumption *f, const Dim *divisor) {
  assumptions_backtrack(c->facts.loaded, 0);
  for (; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (f->relation == ASSUME_NE || dim_has_unknown(d) ||
        dim_has_unguarded_div(d) || (divisor && dim_has_divisor(d, divisor)))
      continue;
    if (f->relation == ASSUME_EQ)
      assumptions_add_eq(c->facts.loaded, d);
    else
      assumptions_add_ge(c->facts.loaded, d);
  }
}

void assumption_load(Checker *c, const Assumption *f) {
  load_chain(c, f, NULL);
}

/* Loads assumptions for the goal d >= 0.  If the goal is that a divisor is at
   least 1, bounds of divisions by it are left out, since they presuppose
   that. */
void assumption_load_for(Checker *c, const Assumption *f, Dim *d) {
  load_chain(c, f, f ? dim_add(c->dims, d, dim_int(c->dims, 1)) : NULL);
}

Assumption *assumption_copy(Checker *c, const Assumption *f,
                            Assumption *outer) {
  Assumption *copy = NEW(c->arena, Assumption);
  *copy = *f;
  copy->outer = outer;
  return copy;
}

void assumption_add(Checker *c, Dim *d, bool eq) {
  Assumption *f = NEW(c->arena, Assumption);
  f->outer = c->facts.assumptions;
  f->relation = eq ? ASSUME_EQ : ASSUME_GE;
  f->dim = d;
  c->facts.assumptions = f;
}

/* True if d is a product of non-negative factors. */
static bool factors_nonneg(Checker *c, Dim *d) {
  if (dim_is_linear(d))
    return false;
  Dim *factors[DIM_MAX_FACTORS];
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; count > 1 && i < count; i++)
    if (!dim_entailed(c->facts.loaded, factors[i], false))
      return false;
  return count > 1;
}

/* Decides d >= 0 under the assumptions loaded last. */
Verdict assumption_loaded_check_ge0(Checker *c, Dim *d, bool at_least_one) {
  Verdict v = dim_check_ge0(c->facts.loaded, d, at_least_one);
  return v == UNDECIDED && factors_nonneg(c, d) ? ENTAILED : v;
}

bool assumption_loaded_entails(Checker *c, Dim *d, bool eq) {
  return dim_entailed(c->facts.loaded, d, eq) || (!eq && factors_nonneg(c, d));
}

/* Decides a <= b under the current assumptions. */
Verdict assumption_check_le(Checker *c, Dim *a, Dim *b) {
  assumption_load(c, c->facts.assumptions);
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, b, a));
  return dim_has_unknown(d) ? UNDECIDED
                            : assumption_loaded_check_ge0(c, d, false);
}

/* Adds an assumption that holds from here on; it is not a branch condition. */
void assumption_add_unconditional(Checker *c, Dim *d, bool eq) {
  assumption_add(c, d, eq);
  c->facts.assumptions->role = ROLE_UNCONDITIONAL;
}

uint32_t control_region_begin(Checker *c) {
  uint32_t outer = c->facts.control_region;
  c->facts.control_region = ++c->facts.control_region_count;
  return outer;
}

void control_region_end(Checker *c, uint32_t outer) {
  c->facts.control_region = outer;
}

bool assumption_is_condition(const Assumption *f) {
  return f->role != ROLE_UNCONDITIONAL && f->role != ROLE_INDEX_RANGE;
}

bool assumption_equal(Checker *c, const Assumption *f, const Assumption *g) {
  Dim *a = dim_resolve(c->dims, f->dim), *b = dim_resolve(c->dims, g->dim);
  return f->relation == g->relation &&
         (f->relation == ASSUME_GE ? dim_equal(a, b)
                                   : dim_equal_up_to_sign(c->dims, a, b));
}

bool assumption_has_condition(const Assumption *f) {
  while (f && !assumption_is_condition(f))
    f = f->outer;
  return f != NULL;
}

bool assumption_in_scope(const Assumption *chain, const Assumption *outer) {
  while (chain && chain != outer)
    chain = chain->outer;
  return chain == outer;
}

/* True if the code there never runs. */
bool assumption_inconsistent(Checker *c, const Assumption *assumptions) {
  if (!assumptions)
    return false;
  assumption_load(c, assumptions);
  for (const Assumption *f = assumptions; f; f = f->outer) {
    Dim *d = f->relation == ASSUME_NE ? dim_resolve(c->dims, f->dim) : NULL;
    if (d && !dim_has_unknown(d) && dim_entailed(c->facts.loaded, d, true))
      return true;
  }
  return assumptions_inconsistent(c->facts.loaded);
}

/* True if the conditions of the constraint cannot hold. */
bool constraint_is_vacuous(Checker *c, Constraint *k) {
  return !k->is_given && assumption_has_condition(k->assumptions) &&
         assumption_inconsistent(c, k->assumptions);
}

/* True if the conditions of the constraint may be false. */
bool constraint_may_be_vacuous(Checker *c, const Constraint *k) {
  assumption_load(c, k->check.assumptions);
  for (const Assumption *f = k->assumptions;
       k->is_implication && f && f != k->check.assumptions; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    Verdict v = f->relation == ASSUME_EQ
                    ? dim_check_eq0(c->facts.loaded, d, true)
                : f->relation == ASSUME_NE
                    ? dim_is_const(d) && dim_sign(d) ? ENTAILED : UNDECIDED
                    : dim_check_ge0(c->facts.loaded, d, true);
    if (v != ENTAILED)
      return true;
  }
  return false;
}
