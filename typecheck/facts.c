/* What is known at a place: the conditions of the branches around it, the
 * ranges of loops, what data and calls are known to be. */
#include "typecheck/internal.h"

static void load(Checker *c, const Fact *f, const Dim *divisor) {
  dim_facts_reset(c->solver, 0);
  for (; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (f->ne || dim_has_top(d) || dim_is_soft(d) ||
        (divisor && dim_divides_by(d, divisor)))
      continue;
    if (f->eq)
      dim_facts_add_eq(c->solver, d);
    else
      dim_facts_add_ge(c->solver, d);
  }
}

void facts_load(Checker *c, const Fact *f) { load(c, f, NULL); }

/* For the goal d >= 0: where it says that a divisor is at least 1, what is
 * divided by it must not be taken to know that. */
void facts_load_for(Checker *c, const Fact *f, Dim *d) {
  load(c, f, dim_add(c->dims, d, dim_int(c->dims, 1)));
}

void fact_add(Checker *c, Dim *d, bool eq) {
  Fact *f = NEW(c->arena, Fact);
  f->outer = c->facts;
  f->eq = eq;
  f->dim = d;
  c->facts = f;
}

/* A product of what is not negative. */
static bool factors_ge0(Checker *c, Dim *d) {
  if (dim_is_linear(d))
    return false;
  Dim *factors[DIM_FACTORS];
  uint32_t count = dim_factor(c->dims, d, factors);
  for (uint32_t i = 0; count > 1 && i < count; i++)
    if (!dim_holds(c->solver, factors[i], false))
      return false;
  return count > 1;
}

/* d >= 0 by the facts that were loaded last. */
Verdict loaded_ge0(Checker *c, Dim *d, bool at_least_one) {
  Verdict v = dim_ge0(c->solver, d, at_least_one);
  return v == OPEN && factors_ge0(c, d) ? PROVED : v;
}

bool loaded_holds(Checker *c, Dim *d, bool eq) {
  return dim_holds(c->solver, d, eq) || (!eq && factors_ge0(c, d));
}

/* By the facts at this place. */
Verdict facts_le(Checker *c, Dim *a, Dim *b) {
  facts_load(c, c->facts);
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, b, a));
  return dim_has_top(d) ? OPEN : loaded_ge0(c, d, false);
}

/* A fact that holds from here on, not a condition of a branch. */
void fact_known(Checker *c, Dim *d, bool eq) {
  fact_add(c, d, eq);
  c->facts->known = true;
}

uint32_t part_begin(Checker *c) {
  uint32_t outer = c->part;
  c->part = ++c->parts;
  return outer;
}

void part_end(Checker *c, uint32_t outer) { c->part = outer; }

bool is_condition(const Fact *f) { return !f->known && !f->index; }

bool has_condition(const Fact *f) {
  while (f && !is_condition(f))
    f = f->outer;
  return f != NULL;
}

bool in_scope(const Fact *chain, const Fact *outer) {
  while (chain && chain != outer)
    chain = chain->outer;
  return chain == outer;
}

/* What stands there never runs. */
bool facts_exclude(Checker *c, const Fact *facts) {
  if (!facts)
    return false;
  facts_load(c, facts);
  for (const Fact *f = facts; f; f = f->outer) {
    Dim *d = f->ne ? dim_resolve(c->dims, f->dim) : NULL;
    if (d && !dim_has_top(d) && dim_holds(c->solver, d, true))
      return true;
  }
  return dim_facts_contradictory(c->solver);
}

/* It stands under conditions that cannot be. */
bool constraint_is_void(Checker *c, Constraint *k) {
  return !k->assumed && has_condition(k->facts) && facts_exclude(c, k->facts);
}

/* May its conditions fail to hold? */
bool is_uncertain(Checker *c, const Constraint *k) {
  facts_load(c, k->scope);
  for (const Fact *f = k->facts; k->implied && f && f != k->scope;
       f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    Verdict v = f->eq   ? dim_eq0(c->solver, d, true)
                : f->ne ? dim_is_const(d) && dim_sign(d) ? PROVED : OPEN
                        : dim_ge0(c->solver, d, true);
    if (v != PROVED)
      return true;
  }
  return false;
}
