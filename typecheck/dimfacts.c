/* Sets of facts, and what follows from them.
 *
 * A query looks at the facts that share variables with it, directly or by
 * other facts, uses up equations that define a variable, and gives the rest to
 * dimlinear.c.  A claim is PROVED when its negation with the facts is
 * infeasible, REFUTED when the claim itself is; every limit ends in OPEN. */
#include "dimsolver.h"

typedef struct Fact {
  Dim *d; /* resolved when it was last looked at */
  bool eq;
  bool related; /* to the query in progress */
  uint32_t leaf_count;
  Atom **leaves;
  uint64_t signature; /* of the leaves: a quick test */
} Fact;

struct DimFacts {
  DimCtx *cx;
  VEC(Fact) all;
  uint32_t filled; /* facts that the array holds, past its end too */
  Scratch scratch;
  uint32_t consistent; /* facts before this one contradict nothing that was
                          found when it was asked */
  uint32_t depth;
};

DimFacts *dim_facts_new(DimCtx *cx) {
  DimFacts *facts = NEW(cx->arena, DimFacts);
  facts->cx = cx;
  facts->scratch.arena = cx->arena;
  return facts;
}

DimCtx *dim_facts_cx(const DimFacts *facts) { return facts->cx; }

Scratch *dim_facts_scratch(DimFacts *facts) { return &facts->scratch; }

uint32_t dim_facts_mark(const DimFacts *facts) { return facts->all.len; }

void dim_facts_reset(DimFacts *facts, uint32_t mark) {
  if (mark < facts->all.len)
    facts->all.len = mark;
  if (facts->consistent > mark)
    facts->consistent = mark;
}

/* ---- leaves ---- */

typedef struct LeafList {
  Arena *arena;
  VEC(Atom *) all;
  uint64_t signature;
} LeafList;

static uint64_t leaf_bit(const Atom *atom) {
  return (uint64_t)1 << (atom->hash >> 26);
}

static void leaf_add(void *arg, Atom *atom) {
  LeafList *list = arg;
  VEC_PUSH(list->arena, list->all, atom);
  list->signature |= leaf_bit(atom);
}

static void fact_set(DimFacts *facts, Fact *fact, Dim *d) {
  LeafList list = {.arena = facts->cx->arena};
  dim_each_leaf(d, dim_epoch(facts->cx), leaf_add, &list);
  fact->d = d;
  fact->leaves = list.all.at;
  fact->leaf_count = list.all.len;
  fact->signature = list.signature;
}

/* The same facts are asked about again and again: what stood in a place before
 * a reset is found there. */
static void facts_add(DimFacts *facts, Dim *d, bool eq) {
  uint32_t at = facts->all.len;
  d = dim_resolve(facts->cx, d);
  if (at < facts->filled && facts->all.at[at].d == d) {
    facts->all.at[at].eq = eq;
    facts->all.len++;
    return;
  }
  Fact fact = {.eq = eq};
  fact_set(facts, &fact, d);
  if (at == facts->all.cap)
    facts->filled = at; /* a larger array holds only these */
  VEC_PUSH(facts->cx->arena, facts->all, fact);
  if (facts->filled <= at)
    facts->filled = at + 1;
}

void dim_facts_add_ge(DimFacts *facts, Dim *d) { facts_add(facts, d, false); }
void dim_facts_add_eq(DimFacts *facts, Dim *d) { facts_add(facts, d, true); }

/* ---- the facts that a query looks at ---- */

static bool fact_touches(const Fact *fact, uint64_t epoch, uint64_t signature) {
  if (!(fact->signature & signature))
    return false;
  for (uint32_t i = 0; i < fact->leaf_count; i++)
    if (fact->leaves[i]->epoch == epoch)
      return true;
  return false;
}

typedef struct Reach { /* leaves stamped with the epoch */
  uint64_t epoch, signature;
} Reach;

static void reach_leaf(void *arg, Atom *atom) {
  ((Reach *)arg)->signature |= leaf_bit(atom);
}

static void reach_fact(Reach *reach, const Fact *fact) {
  for (uint32_t i = 0; i < fact->leaf_count; i++)
    fact->leaves[i]->epoch = reach->epoch;
  reach->signature |= fact->signature;
}

/* Collects the facts that goal's leaves reach within a few rounds.  No other
 * walk may run meanwhile: it would stamp leaves. */
static void relate(DimFacts *facts, Query *query, uint32_t rounds) {
  Reach reach = {.epoch = dim_epoch(facts->cx)};
  uint32_t picked[SOLVER_RELATED], count = 0;
  dim_each_leaf(query->goal, reach.epoch, reach_leaf, &reach);
  for (uint32_t round = 0, from = UINT32_MAX;
       count != from && round < rounds; round++) {
    from = count;
    for (uint32_t i = 0; i < facts->all.len && count < SOLVER_RELATED; i++) {
      Fact *fact = &facts->all.at[i];
      if (fact->related || !fact_touches(fact, reach.epoch, reach.signature))
        continue;
      fact->related = true;
      picked[count++] = i;
    }
    for (uint32_t i = from; i < count; i++)
      reach_fact(&reach, &facts->all.at[picked[i]]);
  }
  query->polys =
      scratch_alloc(&facts->scratch, sizeof *query->polys * (count + 1));
  for (uint32_t i = 0; i < count; i++) {
    Fact *fact = &facts->all.at[picked[i]];
    fact->related = false;
    query->polys[query->poly_count++] = (Poly){fact->d, fact->eq};
  }
}

/* ---- definitions: equations used up by substitution ---- */

static Dim *defined(void *arg, DimVar *var) {
  const Definition *def = arg;
  return var == def->var ? def->value : NULL;
}

/* A variable with coefficient +-1 that occurs nowhere else in d. */
static bool define(DimCtx *cx, Dim *d, Definition *def) {
  for (uint32_t i = d->count; i-- > 0;) {
    const Term *term = &d->at[i];
    if (term->mono->degree != 1 || !term->mono->at[0].atom->var ||
        (!num_is(term->coef, 1) && !num_is(term->coef, -1)))
      continue;
    DimVar *var = term->mono->at[0].atom->var;
    Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
    if (dim_mentions(cx, rest, var))
      continue;
    *def = (Definition){
        var, num_is(term->coef, 1) ? dim_neg(cx, rest) : rest};
    return true;
  }
  return false;
}

/* Uses poly i, an equation, where it defines a variable; what remains of it is
 * that a size is not negative. */
static void use_equation(Query *query, uint32_t i) {
  DimCtx *cx = query->cx;
  Poly *poly = &query->polys[i];
  if (dim_is_const(poly->d)) {
    query->contradiction |= dim_sign(poly->d) != 0;
    return;
  }
  Definition def;
  if (!define(cx, poly->d, &def))
    return;
  query->defs[query->def_count++] = def;
  *poly = (Poly){def.var->value ? dim_int(cx, 0) : def.value, false};
  for (uint32_t j = 0; j < query->poly_count; j++)
    if (j != i)
      query->polys[j].d =
          dim_subst(cx, query->polys[j].d, defined, NULL, &def);
  query->goal = dim_subst(cx, query->goal, defined, NULL, &def);
}

void query_init(Query *query, DimFacts *facts, Dim *goal, uint32_t rounds) {
  *query = (Query){.cx = facts->cx, .goal = goal};
  relate(facts, query, rounds);
  query->defs = scratch_alloc(
      &facts->scratch, sizeof *query->defs * (query->poly_count + 1));
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (query->polys[i].eq)
      use_equation(query, i);
  for (uint32_t i = 0; i < query->poly_count; i++) {
    const Poly *poly = &query->polys[i];
    if (dim_is_const(poly->d))
      query->contradiction |= poly->eq ? dim_sign(poly->d) != 0
                                       : dim_sign(poly->d) < 0;
  }
}

/* ---- verdicts ---- */

static bool obviously_negative(DimCtx *cx, Dim *d) {
  return num_sign(dim_constant(d)) < 0 &&
         dim_obviously_nonneg(dim_neg(cx, dim_add(cx, d, dim_int(cx, 1))));
}

/* What sums of variables can be where nothing else is known of them, which is
 * the common case: anything, if signs are mixed and the gcd is 1. */
static bool unconstrained(DimCtx *cx, const Dim *d) {
  Num g = num_of(0);
  bool up = false, down = false;
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    if (!mono->count)
      continue;
    if (mono->degree > 1 || mono->at[0].atom->arg_count)
      return false;
    bool any = !dim_atom_nonneg(mono->at[0].atom);
    up |= any || num_sign(d->at[i].coef) > 0;
    down |= any || num_sign(d->at[i].coef) < 0;
    g = num_gcd(cx, g, d->at[i].coef);
  }
  return up && down && num_is(g, 1);
}

static Verdict query_verdict(DimFacts *facts, Dim *d, bool eq,
                             bool at_least_one, bool refute);

static bool proves_nonneg(void *arg, Dim *d) {
  DimFacts *facts = arg;
  if (facts->depth >= SOLVER_DEPTH)
    return dim_obviously_nonneg(d);
  facts->depth++;
  bool proved = query_verdict(facts, d, false, false, false) == PROVED;
  facts->depth--;
  return proved;
}

static Linear *query_linear(DimFacts *facts, Query *query) {
  DimCtx *cx = facts->cx;
  Linear *lin = linear_new(cx, &facts->scratch, query->polys,
                           query->poly_count, query->goal, proves_nonneg,
                           facts);
  for (uint32_t i = 0; i < query->def_count; i++) {
    const Definition *def = &query->defs[i];
    if (!def->var->value && def->var->kind != DV_INDEX &&
        def->var->kind != DV_DATA)
      linear_at_least(lin, dim_sub(cx, def->value, dim_int(cx, 1)));
  }
  return lin;
}

static Verdict by_elimination(DimFacts *facts, Query *query, bool eq,
                              bool at_least_one, bool refute) {
  DimCtx *cx = facts->cx;
  Dim *d = query->goal, *one = dim_int(cx, 1);
  Linear *lin = query_linear(facts, query);
  if (linear_refutes(lin, dim_neg(cx, dim_add(cx, d, one)), false, false) &&
      (!eq || linear_refutes(lin, dim_sub(cx, d, one), false, false)))
    return PROVED;
  if (refute && linear_refutes(lin, d, eq, at_least_one))
    return REFUTED;
  return OPEN;
}

/* d is resolved. */
static Verdict simple_verdict(DimCtx *cx, Dim *d, bool eq) {
  if (dim_is_const(d))
    return (eq ? dim_sign(d) == 0 : dim_sign(d) >= 0) ? PROVED : REFUTED;
  if (!eq && dim_obviously_nonneg(d))
    return PROVED;
  if (obviously_negative(cx, d) ||
      (eq && obviously_negative(cx, dim_neg(cx, d))))
    return REFUTED;
  return OPEN;
}

/* d is at least what a single fact says is not negative. */
static bool by_one_fact(const Query *query) {
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (dim_obviously_nonneg(
            dim_sub(query->cx, query->goal, query->polys[i].d)))
      return true;
  return false;
}

static Verdict query_verdict(DimFacts *facts, Dim *d, bool eq,
                             bool at_least_one, bool refute) {
  Verdict simple = simple_verdict(facts->cx, d, eq);
  if (simple != OPEN)
    return simple;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Query query;
  query_init(&query, facts, d, SOLVER_ROUNDS);
  Verdict verdict = simple_verdict(facts->cx, query.goal, eq);
  if (query.contradiction)
    verdict = PROVED; /* of nothing */
  else if (verdict == OPEN && !eq && by_one_fact(&query))
    verdict = PROVED;
  else if (verdict == OPEN && (query.poly_count ||
                               !unconstrained(facts->cx, query.goal)))
    verdict = by_elimination(facts, &query, eq, at_least_one, refute);
  scratch_release(&facts->scratch, mark);
  return verdict;
}

/* Looks again at facts whose metas may have been solved. */
static void refresh(DimFacts *facts) {
  for (uint32_t i = 0; i < facts->all.len; i++) {
    Fact *fact = &facts->all.at[i];
    if (!fact->d->has_meta)
      continue;
    Dim *now = dim_resolve(facts->cx, fact->d);
    if (now != fact->d)
      fact_set(facts, fact, now);
  }
}

typedef struct Ask {
  DimFacts *facts;
  Dim *d;
  bool eq, at_least_one;
} Ask;

/* Runs f; a polynomial that grows past a limit meanwhile ends it, without a
 * word to the user: the query is then just open. */
static bool within_limits(DimFacts *facts, Verdict (*f)(const Ask *),
                          const Ask *ask, Verdict *verdict) {
  DimCtx *cx = facts->cx;
  void (*too_big)(void *) = cx->too_big;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Trap trap;
  facts->scratch.effort = SOLVER_EFFORT;
  if (TRAP_SET(trap) == FAIL_NONE) {
    cx->too_big = NULL;
    *verdict = f(ask);
    trap_end(&trap);
    cx->too_big = too_big;
    return true;
  }
  cx->too_big = too_big;
  facts->depth = 0;
  scratch_release(&facts->scratch, mark);
  if (trap.kind != FAIL_LIMIT)
    trap_raise(trap.kind);
  return false;
}

static Verdict ask_query(const Ask *ask) {
  return query_verdict(ask->facts, ask->d, ask->eq, ask->at_least_one, true);
}

static Verdict verdict_of(DimFacts *facts, Dim *d, bool eq,
                          bool at_least_one) {
  d = dim_resolve(facts->cx, d);
  Verdict verdict = simple_verdict(facts->cx, d, eq);
  if (verdict != OPEN)
    return verdict;
  refresh(facts);
  if (!facts->all.len && unconstrained(facts->cx, d))
    return OPEN;
  Ask ask = {facts, d, eq, at_least_one};
  return within_limits(facts, ask_query, &ask, &verdict) ? verdict : OPEN;
}

Verdict dim_ge0(DimFacts *facts, Dim *d, bool at_least_one) {
  return verdict_of(facts, d, false, at_least_one);
}

Verdict dim_eq0(DimFacts *facts, Dim *d, bool at_least_one) {
  return verdict_of(facts, d, true, at_least_one);
}

/* ---- contradictions ---- */

/* PROVED: ask->d, a fact, and those related to it have no solution. */
static Verdict ask_contradiction(const Ask *ask) {
  DimFacts *facts = ask->facts;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Query query;
  query_init(&query, facts, ask->d, SOLVER_ROUNDS);
  bool found = query.contradiction;
  if (!found)
    found = linear_refutes(query_linear(facts, &query),
                           dim_int(facts->cx, 0), false, false);
  scratch_release(&facts->scratch, mark);
  return found ? PROVED : OPEN;
}

static bool fact_contradicts(DimFacts *facts, const Fact *fact) {
  Verdict verdict = simple_verdict(facts->cx, fact->d, fact->eq);
  if (verdict != OPEN)
    return verdict == REFUTED;
  Ask ask = {.facts = facts, .d = fact->d};
  return within_limits(facts, ask_contradiction, &ask, &verdict) &&
         verdict == PROVED;
}

bool dim_facts_contradictory(DimFacts *facts) {
  refresh(facts);
  for (uint32_t i = facts->consistent; i < facts->all.len; i++)
    if (fact_contradicts(facts, &facts->all.at[i]))
      return true;
  facts->consistent = facts->all.len;
  return false;
}
