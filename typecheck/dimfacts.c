/* Sets of facts, and what follows from them.
 *
 * A query looks at the facts that share variables with it, directly or by
 * other facts, uses up equations that define a variable, and gives the rest to
 * dimlinear.c.  A claim is PROVED when its negation with the facts is
 * infeasible, REFUTED when the claim itself is; every limit ends in OPEN. */
#include "dimsolver.h"

#include <string.h>

typedef struct Fact {
  Dim *d; /* resolved when it was last looked at */
  bool eq;
  bool related; /* to the query in progress */
  bool skipped; /* for now it is no fact */
  uint32_t leaf_count;
  Atom **leaves;
  uint64_t signature; /* of the leaves: a quick test */
  Dim *plain;         /* d without divisions that stand alone, or NULL */
} Fact;

typedef struct Asked { /* whether d is never negative */
  const Dim *d;
  uint32_t depth;
  bool proved;
} Asked;

struct DimFacts {
  DimCtx *cx;
  VEC(Fact) all;
  uint32_t filled; /* facts that the array holds, past its end too */
  uint64_t fresh_at; /* cx->solved when all were looked at */
  Scratch scratch;
  VEC(Poly) consistent; /* facts of which no contradiction was found when that
                           was last asked; NULL for what was skipped */
  uint32_t depth;
  bool brief; /* queries look at what is near, and not for long */
  uint64_t spent; /* of SOLVER_EFFORT_ALL */
  Asked asked[SOLVER_ASKED]; /* by the query in progress */
  uint32_t asked_count;
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
}

void dim_facts_skip(DimFacts *facts, uint32_t at, bool skip) {
  facts->all.at[at].skipped = skip;
}

void dim_facts_brief(DimFacts *facts, bool brief) { facts->brief = brief; }

void dim_facts_renew(DimFacts *facts) { facts->spent = 0; }

static bool is_brief(const DimFacts *facts) {
  return facts->brief || facts->spent > SOLVER_EFFORT_ALL;
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
  fact->plain = NULL;
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
    facts->all.at[at].skipped = false;
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

/* It speaks of nothing else. */
static bool fact_within(const Fact *fact, uint64_t epoch, uint64_t signature) {
  if (fact->signature & ~signature)
    return false;
  for (uint32_t i = 0; i < fact->leaf_count; i++)
    if (fact->leaves[i]->epoch != epoch)
      return false;
  return true;
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

/* Picks facts that touch what was reached, first those within it. */
static uint32_t pick_facts(DimFacts *facts, const Reach *reach,
                           uint32_t *picked, uint32_t count) {
  for (int within = 1; within >= 0; within--)
    for (uint32_t i = 0; i < facts->all.len && count < SOLVER_RELATED; i++) {
      Fact *fact = &facts->all.at[i];
      if (fact->related || fact->skipped ||
          !(within ? fact_within : fact_touches)(fact, reach->epoch,
                                                 reach->signature))
        continue;
      fact->related = true;
      picked[count++] = i;
    }
  return count;
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
    count = pick_facts(facts, &reach, picked, count);
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
    if (rest->count > SOLVER_DEFINITION || dim_mentions(cx, rest, var))
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
  if (query->put_in > SOLVER_PUT_IN || !define(cx, poly->d, &def))
    return;
  query->defs[query->def_count++] = def;
  *poly = (Poly){def.var->value ? dim_int(cx, 0) : def.value, false};
  for (uint32_t j = 0; j < query->poly_count; j++) {
    if (j == i)
      continue;
    Poly *other = &query->polys[j];
    Dim *was = other->d;
    other->d = dim_subst(cx, was, defined, NULL, &def);
    if (other->d != was)
      query->put_in += other->d->weight;
    if (other->d->count > SOLVER_COLUMNS) { /* too long for a row */
      *other = (Poly){dim_int(cx, 0), false};
      query->partial = true;
    }
  }
  query->goal = dim_subst(cx, query->goal, defined, NULL, &def);
}

static bool is_among(const Poly *polys, uint32_t count, Poly poly) {
  for (uint32_t i = 0; i < count; i++)
    if (polys[i].d->hash == poly.d->hash && polys[i].eq == poly.eq &&
        dim_equal(polys[i].d, poly.d))
      return true;
  return false;
}

void query_init(Query *query, DimFacts *facts, Dim *goal, uint32_t rounds) {
  *query = (Query){.cx = facts->cx, .goal = goal};
  relate(facts, query, rounds);
  query->defs = scratch_alloc(
      &facts->scratch, sizeof *query->defs * (query->poly_count + 1));
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (query->polys[i].eq)
      use_equation(query, i);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < query->poly_count; i++) {
    Poly poly = query->polys[i];
    if (dim_is_const(poly.d))
      query->contradiction |= poly.eq ? dim_sign(poly.d) != 0
                                      : dim_sign(poly.d) < 0;
    else if (!is_among(query->polys, kept, poly))
      query->polys[kept++] = poly;
  }
  query->poly_count = kept;
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
  for (uint32_t i = 0; i < facts->asked_count; i++)
    if (facts->asked[i].depth == facts->depth &&
        dim_equal(facts->asked[i].d, d))
      return facts->asked[i].proved;
  facts->depth++;
  bool proved = query_verdict(facts, d, false, false, false) == PROVED;
  facts->depth--;
  if (facts->asked_count < SOLVER_ASKED)
    facts->asked[facts->asked_count++] = (Asked){d, facts->depth, proved};
  return proved;
}

/* One that is at least 1 unless something is empty. */
static bool is_size(const DimVar *var) {
  return !var->value && var->kind != DV_INDEX && var->kind != DV_DATA;
}

static Linear *query_linear(DimFacts *facts, Query *query) {
  DimCtx *cx = facts->cx;
  Linear *lin = linear_new(cx, &facts->scratch, query->polys,
                           query->poly_count, query->goal, proves_nonneg,
                           facts);
  for (uint32_t i = 0; i < query->def_count; i++) {
    const Definition *def = &query->defs[i];
    if (is_size(def->var))
      linear_at_least(lin, dim_sub(cx, def->value, dim_int(cx, 1)));
  }
  return lin;
}

/* What is asked of a query: do the facts allow d >= 0, or d == 0? */
typedef struct Claim {
  Dim *d;
  bool eq, at_least_one;
  bool possible; /* yes, at a point that was found */
  bool refuted;  /* no */
} Claim;

static void claim_point(DimFacts *facts, const Query *query, Claim *claim,
                        uint32_t effort) {
  DimCtx *cx = facts->cx;
  if (claim->possible || claim->refuted || !effort)
    return;
  uint32_t count = query->poly_count;
  Poly *all = scratch_alloc(&facts->scratch,
                            sizeof *all * (count + query->def_count + 1));
  memcpy(all, query->polys, sizeof *all * count);
  for (uint32_t i = 0; claim->at_least_one && i < query->def_count; i++)
    if (is_size(query->defs[i].var))
      all[count++] = (Poly){
          dim_sub(cx, query->defs[i].value, dim_int(cx, 1)), false};
  all[count++] = (Poly){claim->d, claim->eq};
  claim->possible = point_exists(cx, &facts->scratch, all, count,
                                 claim->at_least_one, effort);
}

/* Elimination with a part of the effort that is left. */
static void claim_refute(DimFacts *facts, Linear *lin, Claim *claim,
                         uint32_t effort) {
  if (claim->possible || claim->refuted)
    return;
  uint32_t left = facts->scratch.effort;
  uint32_t most = left < effort ? left : effort;
  facts->scratch.effort = most;
  claim->refuted =
      linear_refutes(lin, claim->d, claim->eq, claim->at_least_one);
  facts->scratch.effort += left - most;
}

/* A second search pays where the answer is worth it. */
static uint32_t trials_for(const DimFacts *facts, bool patient) {
  if (!patient)
    return facts->depth ? SOLVER_TRIALS_WITHIN : SOLVER_TRIALS;
  return facts->depth || is_brief(facts) ? 0 : SOLVER_TRIALS_MOST;
}

/* A claim is proved when what denies it is refuted, and refuted when it is
 * itself.  Points that show that neither can be are looked for first, shortly;
 * then proofs that are short; then each with more patience. */
static Verdict by_elimination(DimFacts *facts, Query *query, bool eq,
                              bool at_least_one, bool refute) {
  DimCtx *cx = facts->cx;
  Dim *d = query->goal, *one = dim_int(cx, 1);
  Claim below = {.d = dim_neg(cx, dim_add(cx, d, one))};
  Claim above = {.d = dim_sub(cx, d, one), .refuted = !eq};
  Claim itself = {d, eq, at_least_one, .possible = !refute};
  Linear *lin = NULL;
  for (int patient = 0; patient < 2; patient++) {
    uint32_t trials = trials_for(facts, patient);
    claim_point(facts, query, &itself, trials);
    claim_point(facts, query, &below, trials);
    if (!below.possible)
      claim_point(facts, query, &above, trials);
    bool unproved = below.possible || above.possible;
    if (unproved && itself.possible)
      return OPEN;
    if (!lin)
      lin = query_linear(facts, query);
    uint32_t effort = patient ? SOLVER_EFFORT : SOLVER_EFFORT_FIRST;
    if (!unproved) {
      claim_refute(facts, lin, &below, effort);
      if (below.refuted)
        claim_refute(facts, lin, &above, effort);
      if (below.refuted && above.refuted)
        return PROVED;
    }
    claim_refute(facts, lin, &itself, effort);
    if (itself.refuted)
      return REFUTED;
  }
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

/* Is a >= b for all sizes, as each coefficient shows? */
static bool exceeds(const Dim *a, const Dim *b) {
  uint32_t i = 0, j = 0;
  while (i < a->count || j < b->count) {
    int order = i == a->count   ? 1
                : j == b->count ? -1
                                : dim_mono_cmp(a->at[i].mono, b->at[j].mono);
    Num x = order <= 0 ? a->at[i].coef : num_of(0);
    Num y = order >= 0 ? b->at[j].coef : num_of(0);
    const Mono *mono = order <= 0 ? a->at[i].mono : b->at[j].mono;
    int sign = num_cmp(x, y);
    if (sign < 0 || (sign > 0 && !dim_mono_nonneg(mono)))
      return false;
    i += order <= 0;
    j += order >= 0;
  }
  return true;
}

/* d >= 0 from a single fact, as most that is asked follows. */
static bool follows_from_one(DimFacts *facts, Dim *d) {
  DimCtx *cx = facts->cx;
  d = dim_simplify_ge(cx, d);
  if (dim_obviously_nonneg(d))
    return true;
  for (uint32_t i = 0; i < facts->all.len; i++) {
    Fact *fact = &facts->all.at[i];
    if (fact->eq || fact->skipped)
      continue;
    if (!fact->plain)
      fact->plain = dim_simplify_ge(cx, fact->d);
    if (exceeds(d, fact->plain))
      return true;
  }
  return false;
}

static Verdict query_verdict(DimFacts *facts, Dim *d, bool eq,
                             bool at_least_one, bool refute) {
  Verdict simple = simple_verdict(facts->cx, d, eq);
  if (simple != OPEN)
    return simple;
  if (!eq && follows_from_one(facts, d))
    return PROVED;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Query query;
  query_init(&query, facts, d,
             is_brief(facts) ? SOLVER_BRIEF_ROUNDS : SOLVER_ROUNDS);
  Verdict verdict = simple_verdict(facts->cx, query.goal, eq);
  if (query.contradiction)
    verdict = PROVED; /* of nothing */
  else if (verdict == OPEN && (query.poly_count ||
                               !unconstrained(facts->cx, query.goal)))
    verdict = by_elimination(facts, &query, eq, at_least_one, refute);
  scratch_release(&facts->scratch, mark);
  return verdict;
}

/* Looks again at facts whose metas may have been solved. */
static void refresh(DimFacts *facts) {
  if (facts->fresh_at == facts->cx->solved)
    return;
  facts->fresh_at = facts->cx->solved;
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
  bool eq, at_least_one, refute;
} Ask;

/* Runs f; a polynomial that grows past a limit meanwhile ends it, without a
 * word to the user: the query is then just open. */
static bool within_limits(DimFacts *facts, Verdict (*f)(const Ask *),
                          const Ask *ask, Verdict *verdict) {
  DimCtx *cx = facts->cx;
  void (*too_big)(void *) = cx->too_big;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Trap trap;
  facts->asked_count = 0;
  uint32_t effort = is_brief(facts) ? SOLVER_BRIEF_EFFORT : SOLVER_EFFORT;
  facts->scratch.effort = effort;
  if (TRAP_SET(trap) == FAIL_NONE) {
    cx->too_big = NULL;
    *verdict = f(ask);
    facts->spent += effort - facts->scratch.effort;
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
  return query_verdict(ask->facts, ask->d, ask->eq, ask->at_least_one,
                       ask->refute);
}

static Verdict verdict_of(DimFacts *facts, Dim *d, bool eq,
                          bool at_least_one, bool refute) {
  d = dim_resolve(facts->cx, d);
  Verdict verdict = simple_verdict(facts->cx, d, eq);
  if (verdict != OPEN)
    return verdict;
  refresh(facts);
  if (!facts->all.len && unconstrained(facts->cx, d))
    return OPEN;
  Ask ask = {facts, d, eq, at_least_one, refute};
  return within_limits(facts, ask_query, &ask, &verdict) ? verdict : OPEN;
}

Verdict dim_ge0(DimFacts *facts, Dim *d, bool at_least_one) {
  return verdict_of(facts, d, false, at_least_one, true);
}

Verdict dim_eq0(DimFacts *facts, Dim *d, bool at_least_one) {
  return verdict_of(facts, d, true, at_least_one, true);
}

bool dim_holds(DimFacts *facts, Dim *d, bool eq) {
  return verdict_of(facts, d, eq, false, false) == PROVED;
}

void dim_facts_each_leaf(DimFacts *facts, void (*f)(void *, Atom *),
                         void *arg) {
  for (uint32_t i = 0; i < facts->all.len; i++) {
    const Fact fact = facts->all.at[i]; /* f may ask the facts */
    for (uint32_t k = 0; !fact.skipped && k < fact.leaf_count; k++)
      f(arg, fact.leaves[k]);
  }
}

/* ---- contradictions ---- */

/* PROVED: ask->d, a fact, and those related to it have no solution. */
static Verdict ask_contradiction(const Ask *ask) {
  DimFacts *facts = ask->facts;
  ScratchMark mark = scratch_mark(&facts->scratch);
  Query query;
  query_init(&query, facts, ask->d, SOLVER_ROUNDS_FAR);
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

/* The fact at i is what stood at `old` when nothing was found. */
static bool still_consistent(const DimFacts *facts, uint32_t i, uint32_t old) {
  const Fact *fact = &facts->all.at[i];
  const Poly *was = &facts->consistent.at[old];
  return fact->d == was->d && fact->eq == was->eq;
}

static void keep_consistent(DimFacts *facts) {
  facts->consistent.len = 0;
  for (uint32_t i = 0; i < facts->all.len; i++) {
    const Fact *fact = &facts->all.at[i];
    Poly poly = {fact->skipped ? NULL : fact->d, fact->eq};
    VEC_PUSH(facts->cx->arena, facts->consistent, poly);
  }
}

/* Facts come and go at the start, the newest, or at the end.  A contradiction
 * of which nothing was found before needs one that was not there: only those
 * between what is still at the start and what is still at the end are asked. */
bool dim_facts_contradictory(DimFacts *facts) {
  refresh(facts);
  uint32_t from = 0, to = facts->all.len, old = facts->consistent.len;
  while (to && old && still_consistent(facts, to - 1, old - 1))
    to--, old--;
  while (from < to && from < old && still_consistent(facts, from, from))
    from++;
  for (uint32_t i = from; i < to; i++)
    if (fact_contradicts(facts, &facts->all.at[i]))
      return true;
  if (!facts->brief)
    keep_consistent(facts);
  return false;
}
