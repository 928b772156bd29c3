/* Sets of assumptions, and what they entail.  Main entry points: dim_check_ge0
 * and dim_check_eq0.
 *
 * A query selects the assumptions that share variables with it, directly or
 * through other assumptions.  It substitutes equations that define a variable,
 * and gives the rest to linearize.c.  A claim is ENTAILED if its negation
 * together with the assumptions is infeasible.  It is CONTRADICTED if the claim
 * itself is.  Every limit ends in UNDECIDED. */
#include "solver.h"
#include "support/arena.h"
#include "support/trap.h"
#include "support/vec.h"

#include <string.h>

typedef struct SignFilter {    /* Bloom filters of a polynomial's monomials */
  uint64_t positive, negative; /* those with a coefficient of this sign */
} SignFilter;

typedef struct AssumptionEntry {
  Dim *d; /* resolved when it was last used */
  bool eq;
  bool relevant; /* to the current query */
  bool disabled; /* temporarily ignored */
  uint32_t leaf_count;
  Atom **leaves;
  uint64_t leaf_filter; /* Bloom filter of the leaves; all bits without any */
  Dim *simplified;      /* d without divisions that stand alone, or NULL */
  SignFilter signs;     /* of simplified */
} AssumptionEntry;

typedef struct CachedAnswer { /* says whether d is never negative */
  const Dim *d;
  uint32_t depth;
  bool entailed;
} CachedAnswer;

struct Assumptions {
  DimCtx *cx;
  VEC(AssumptionEntry) entries;
  uint32_t initialized_count; /* initialized entries of the array, including
                                 those past its end */
  uint64_t resolved_solution_count; /* cx->solution_count when all entries were
                                       last resolved */
  Scratch scratch;
  VEC(PolyConstraint)
  known_consistent; /* assumptions that were consistent when last tested; NULL
                       for skipped ones */
  uint32_t depth;
  Witness *witness;        /* of the entries; NULL if unknown */
  Witness *nested_witness; /* the same, for nested queries only */
  bool searched_nested_witness;
  bool low_effort;       /* queries consider few assumptions and stop early */
  uint64_t effort_spent; /* part of MAX_DECLARATION_EFFORT */
  CachedAnswer cached_answers[MAX_CACHED_ANSWERS]; /* of the current query */
  uint32_t cached_answer_count;
};

Assumptions *assumptions_new(DimCtx *cx) {
  Assumptions *assumptions = NEW(cx->arena, Assumptions);
  assumptions->cx = cx;
  assumptions->scratch.arena = cx->arena;
  return assumptions;
}

DimCtx *assumptions_cx(const Assumptions *assumptions) {
  return assumptions->cx;
}

Scratch *assumptions_scratch(Assumptions *assumptions) {
  return &assumptions->scratch;
}

uint32_t assumptions_mark(const Assumptions *assumptions) {
  return assumptions->entries.len;
}

static void forget_witness(Assumptions *assumptions) {
  assumptions->witness = assumptions->nested_witness = NULL;
  assumptions->searched_nested_witness = false;
}

void assumptions_backtrack(Assumptions *assumptions, uint32_t mark) {
  forget_witness(assumptions);
  if (mark < assumptions->entries.len)
    assumptions->entries.len = mark;
}

void assumptions_set_disabled(Assumptions *assumptions, uint32_t at,
                              bool disabled) {
  assumptions->entries.at[at].disabled = disabled;
  if (assumptions->witness)
    witness_set_disabled(assumptions->witness, at, disabled);
  if (assumptions->nested_witness)
    witness_set_disabled(assumptions->nested_witness, at, disabled);
}

Witness *assumptions_find_witness(Assumptions *assumptions) {
  uint32_t count = assumptions->entries.len;
  PolyConstraint *at =
      NEW_ARRAY(assumptions->cx->arena, PolyConstraint, count + 1);
  for (uint32_t i = 0; i < count; i++)
    at[i] = (PolyConstraint){assumptions->entries.at[i].d,
                             assumptions->entries.at[i].eq};
  return witness_new(assumptions->cx, at, count);
}

void assumptions_expect_queries(Assumptions *assumptions) {
  assumptions->witness = assumptions_find_witness(assumptions);
}

void assumptions_set_low_effort(Assumptions *assumptions, bool low_effort) {
  assumptions->low_effort = low_effort;
}

void assumptions_renew_effort(Assumptions *assumptions) {
  assumptions->effort_spent = 0;
}

static bool is_low_effort(const Assumptions *assumptions) {
  return assumptions->low_effort ||
         assumptions->effort_spent > MAX_DECLARATION_EFFORT;
}

/* ---- leaves ---- */

typedef struct LeafList {
  Arena *arena;
  VEC(Atom *) all;
  uint64_t leaf_filter;
} LeafList;

static uint64_t leaf_filter_bit(const Atom *atom) {
  return (uint64_t)1 << (atom->hash >> 26);
}

static void leaf_add(void *arg, Atom *atom) {
  LeafList *list = arg;
  VEC_PUSH(list->arena, list->all, atom);
  list->leaf_filter |= leaf_filter_bit(atom);
}

static void entry_set(Assumptions *assumptions, AssumptionEntry *entry,
                      Dim *d) {
  LeafList list = {.arena = assumptions->cx->arena};
  dim_each_leaf(d, dim_next_visit_epoch(assumptions->cx), leaf_add, &list);
  forget_witness(assumptions);
  entry->d = d;
  entry->simplified = NULL;
  entry->leaves = list.all.at;
  entry->leaf_count = list.all.len;
  entry->leaf_filter = list.all.len ? list.leaf_filter : UINT64_MAX;
}

/* Reuses the entry that was at this position before a backtrack: the same
   assumptions often return. */
static void add_entry(Assumptions *assumptions, Dim *d, bool eq) {
  uint32_t at = assumptions->entries.len;
  forget_witness(assumptions);
  d = dim_resolve(assumptions->cx, d);
  if (at < assumptions->initialized_count &&
      assumptions->entries.at[at].d == d) {
    assumptions->entries.at[at].eq = eq;
    assumptions->entries.at[at].disabled = false;
    assumptions->entries.len++;
    return;
  }
  AssumptionEntry entry = {.eq = eq};
  entry_set(assumptions, &entry, d);
  if (at == assumptions->entries.cap)
    assumptions->initialized_count = at; /* a larger array copies only these */
  VEC_PUSH(assumptions->cx->arena, assumptions->entries, entry);
  if (assumptions->initialized_count <= at)
    assumptions->initialized_count = at + 1;
}

void assumptions_add_ge(Assumptions *assumptions, Dim *d) {
  add_entry(assumptions, d, false);
}
void assumptions_add_eq(Assumptions *assumptions, Dim *d) {
  add_entry(assumptions, d, true);
}

/* ---- the facts that a query looks at ---- */

typedef enum Relation { UNRELATED, SHARES_LEAF, LEAVES_WITHIN } Relation;

/* Whether the entry mentions marked leaves, or no others. */
static Relation entry_relation(const AssumptionEntry *entry, uint64_t epoch) {
  bool shares = false, others = false;
  for (uint32_t i = 0; i < entry->leaf_count && !(shares && others); i++)
    if (entry->leaves[i]->visit_epoch == epoch)
      shares = true;
    else
      others = true;
  return !others ? LEAVES_WITHIN : shares ? SHARES_LEAF : UNRELATED;
}

typedef struct RelevantLeaves { /* leaves stamped with the epoch */
  uint64_t epoch, leaf_filter;
} RelevantLeaves;

static void mark_relevant_leaf(void *arg, Atom *atom) {
  ((RelevantLeaves *)arg)->leaf_filter |= leaf_filter_bit(atom);
}

static void mark_entry_leaves(RelevantLeaves *relevant,
                              const AssumptionEntry *entry) {
  for (uint32_t i = 0; i < entry->leaf_count; i++)
    entry->leaves[i]->visit_epoch = relevant->epoch;
  relevant->leaf_filter |= entry->leaf_filter;
}

/* Selects assumptions that share a reached leaf.  Those without other leaves
   come first. */
static uint32_t select_relevant(Assumptions *assumptions,
                                const RelevantLeaves *relevant,
                                uint32_t *picked, uint32_t count) {
  uint32_t others[MAX_RELEVANT_ASSUMPTIONS], other_count = 0;
  AssumptionEntry *all = assumptions->entries.at;
  for (uint32_t i = 0;
       i < assumptions->entries.len && count < MAX_RELEVANT_ASSUMPTIONS; i++) {
    if (!(all[i].leaf_filter & relevant->leaf_filter) || all[i].relevant ||
        all[i].disabled)
      continue;
    Relation relation = entry_relation(&all[i], relevant->epoch);
    if (relation == LEAVES_WITHIN)
      picked[count++] = i;
    else if (relation == SHARES_LEAF && other_count < MAX_RELEVANT_ASSUMPTIONS)
      others[other_count++] = i;
    all[i].relevant = relation == LEAVES_WITHIN;
  }
  for (uint32_t i = 0; i < other_count && count < MAX_RELEVANT_ASSUMPTIONS;
       i++) {
    all[others[i]].relevant = true;
    picked[count++] = others[i];
  }
  return count;
}

/* Collects the assumptions that the leaves of the goal reach within a few
   rounds.  No other walk may run meanwhile, since it would stamp leaves. */
static void collect_relevant(Assumptions *assumptions, Query *query,
                             uint32_t rounds) {
  RelevantLeaves relevant = {.epoch = dim_next_visit_epoch(assumptions->cx)};
  uint32_t picked[MAX_RELEVANT_ASSUMPTIONS], count = 0;
  dim_each_leaf(query->goal, relevant.epoch, mark_relevant_leaf, &relevant);
  for (uint32_t round = 0, from = UINT32_MAX; count != from && round < rounds;
       round++) {
    from = count;
    count = select_relevant(assumptions, &relevant, picked, count);
    for (uint32_t i = from; i < count; i++)
      mark_entry_leaves(&relevant, &assumptions->entries.at[picked[i]]);
  }
  query->polys =
      scratch_alloc(&assumptions->scratch, sizeof *query->polys * (count + 1));
  for (uint32_t i = 0; i < count; i++) {
    AssumptionEntry *entry = &assumptions->entries.at[picked[i]];
    entry->relevant = false;
    query->polys[query->poly_count++] = (PolyConstraint){entry->d, entry->eq};
  }
}

/* ---- definitions: equations eliminated by substitution ---- */

static Dim *substitute_definition(void *arg, DimVar *var) {
  const Definition *def = arg;
  return var == def->var ? def->value : NULL;
}

/* Finds a variable with coefficient +-1 that occurs nowhere else in d. */
static bool solve_for_definition(DimCtx *cx, Dim *d, Definition *def) {
  for (uint32_t i = d->term_count; i-- > 0;) {
    const Term *term = &d->terms[i];
    if (term->mono->degree != 1 || !term->mono->powers[0].atom->var ||
        (!bigint_is(term->coef, 1) && !bigint_is(term->coef, -1)))
      continue;
    DimVar *var = term->mono->powers[0].atom->var;
    Dim *rest = dim_sub(cx, d, dim_of_term(cx, term->coef, term->mono));
    if (rest->term_count > MAX_DEFINITION_TERMS || dim_mentions(cx, rest, var))
      continue;
    *def =
        (Definition){var, bigint_is(term->coef, 1) ? dim_neg(cx, rest) : rest};
    return true;
  }
  return false;
}

/* If polynomial i is an equation that defines a variable, substitutes that
   variable.  The remaining condition is that a size is not negative. */
static void eliminate_equation(Query *query, uint32_t i) {
  DimCtx *cx = query->cx;
  PolyConstraint *poly = &query->polys[i];
  if (dim_is_const(poly->d)) {
    query->contradiction |= dim_sign(poly->d) != 0;
    return;
  }
  Definition def;
  if (query->substituted_weight > MAX_SUBSTITUTED_WEIGHT ||
      !solve_for_definition(cx, poly->d, &def))
    return;
  query->defs[query->def_count++] = def;
  *poly =
      (PolyConstraint){def.var->is_integer ? dim_int(cx, 0) : def.value, false};
  for (uint32_t j = 0; j < query->poly_count; j++) {
    if (j == i)
      continue;
    PolyConstraint *other = &query->polys[j];
    Dim *was = other->d;
    other->d = dim_subst(cx, was, substitute_definition, NULL, &def);
    if (other->d != was)
      query->substituted_weight += other->d->weight;
    if (other->d->term_count > MAX_QUERY_MONOMIALS) { /* too long for a row */
      *other = (PolyConstraint){dim_int(cx, 0), false};
      query->incomplete = true;
    }
  }
  query->goal = dim_subst(cx, query->goal, substitute_definition, NULL, &def);
}

static bool contains_poly(const PolyConstraint *polys, uint32_t count,
                          PolyConstraint poly) {
  for (uint32_t i = 0; i < count; i++)
    if (dim_hash(polys[i].d) == dim_hash(poly.d) && polys[i].eq == poly.eq &&
        dim_equal(polys[i].d, poly.d))
      return true;
  return false;
}

void query_init(Query *query, Assumptions *assumptions, Dim *goal,
                uint32_t rounds) {
  *query = (Query){.cx = assumptions->cx, .goal = goal};
  collect_relevant(assumptions, query, rounds);
  query->defs = scratch_alloc(&assumptions->scratch,
                              sizeof *query->defs * (query->poly_count + 1));
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (query->polys[i].eq)
      eliminate_equation(query, i);
  uint32_t kept = 0;
  uint64_t hashes[4] = {0}; /* Bloom filter of the kept ones */
  for (uint32_t i = 0; i < query->poly_count; i++) {
    PolyConstraint poly = query->polys[i];
    uint64_t *word = &hashes[dim_hash(poly.d) >> 30];
    uint64_t bit = (uint64_t)1 << (dim_hash(poly.d) >> 24 & 63);
    if (dim_is_const(poly.d))
      query->contradiction |=
          poly.eq ? dim_sign(poly.d) != 0 : dim_sign(poly.d) < 0;
    else if (!(*word & bit) || !contains_poly(query->polys, kept, poly))
      query->polys[kept++] = poly;
    *word |= bit;
  }
  query->poly_count = kept;
}

/* ---- verdicts ---- */

/* True if sign*d > 0 for all sizes: the constant and all other coefficients
   have this sign. */
static bool has_sign_everywhere(const Dim *d, int sign) {
  if (bigint_sign(dim_constant_term(d)) != sign)
    return false;
  for (uint32_t i = 0; i < d->term_count; i++)
    if (bigint_sign(d->terms[i].coef) != sign ||
        !dim_monomial_nonneg(d->terms[i].mono))
      return false;
  return true;
}

/* True if a sum of otherwise unconstrained variables can have any value: the
   signs are mixed and the gcd is 1.  This is the common case. */
static bool is_unconstrained(DimCtx *cx, const Dim *d) {
  BigInt g = bigint_of(0);
  bool up = false, down = false;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    if (!mono->power_count)
      continue;
    if (mono->degree > 1 || mono->powers[0].atom->arg_count)
      return false;
    bool any = !dim_atom_nonneg(mono->powers[0].atom);
    up |= any || bigint_sign(d->terms[i].coef) > 0;
    down |= any || bigint_sign(d->terms[i].coef) < 0;
    if (!bigint_is(g, 1))
      g = bigint_gcd(cx, g, d->terms[i].coef);
  }
  return up && down && bigint_is(g, 1);
}

/* True if d is a sum of unconstrained variables and a constant, and d >= 0
   holds for some of their values and not for others: all coefficients have one
   sign, and d >= 0 differs between the bound of the variables and infinity. */
static bool is_undecided_bound(const Dim *d, bool at_least_one) {
  BigInt constant = dim_constant_term(d);
  int64_t least = constant.small; /* value if each size is at its minimum */
  int sign = 0;
  if (constant.limbs)
    return false;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    if (!mono->power_count)
      continue;
    const Atom *atom = mono->powers[0].atom;
    BigInt coef = d->terms[i].coef;
    if (mono->degree > 1 || !atom->var || atom->var->is_integer || coef.limbs ||
        (sign && bigint_sign(coef) != sign))
      return false;
    sign = bigint_sign(coef);
    if (at_least_one && sign < 0 &&
        __builtin_add_overflow(least, coef.small, &least))
      return false;
  }
  return sign > 0 ? least < 0 : sign < 0 && least >= 0;
}

/* ---- bounds that nothing implies ---- */

enum { GROWS = 1, FALLS = 2 }; /* how a term changes when a leaf grows */

static unsigned direction(const Dim *d, const Atom *leaf);

static unsigned atom_direction(const Atom *atom, const Atom *leaf) {
  if (atom == leaf)
    return GROWS;
  if (atom->kind == ATOM_DIV && direction(atom->args[1], leaf))
    return GROWS | FALLS;
  unsigned found = 0;
  for (uint32_t i = 0; i < atom->arg_count; i++)
    found |= direction(atom->args[i], leaf);
  return found;
}

/* The value of d may grow and fall, as the bits say, when the leaf grows. */
static unsigned direction(const Dim *d, const Atom *leaf) {
  unsigned found = 0;
  if (d->is_sum_of_vars && leaf->var) {
    int sign = bigint_sign(dim_coef_of(d, leaf->dim->terms[0].mono));
    return sign > 0 ? GROWS : sign < 0 ? FALLS : 0;
  }
  for (uint32_t i = 0; i < d->term_count && found != (GROWS | FALLS); i++) {
    const Monomial *mono = d->terms[i].mono;
    unsigned here = 0;
    for (uint32_t k = 0; k < mono->power_count; k++)
      here |= atom_direction(mono->powers[k].atom, leaf);
    if (here && mono->degree > 1 && !dim_monomial_nonneg(mono))
      here = GROWS | FALLS;
    bool swap = bigint_sign(d->terms[i].coef) < 0 && here != (GROWS | FALLS);
    found |= swap ? here ^ (here ? GROWS | FALLS : 0) : here;
  }
  return found;
}

/* True if a smaller value of the leaf never violates an assumption. */
static bool may_fall(const Assumptions *assumptions, const Atom *leaf) {
  uint64_t bit = leaf_filter_bit(leaf);
  for (uint32_t i = 0; i < assumptions->entries.len; i++) {
    const AssumptionEntry *entry = &assumptions->entries.at[i];
    if (entry->disabled || !(entry->leaf_filter & bit))
      continue;
    unsigned how = direction(entry->d, leaf);
    if (entry->eq ? how : how & GROWS)
      return false;
  }
  return true;
}

/* True if d >= 0 is violated where some sizes are 0, and these may be 0: most
   bounds 1 <= k of kernels are so.  (If the assumptions contradict each other,
   it is entailed all the same.) */
static bool is_violable_bound(const Assumptions *assumptions, const Dim *d) {
  if (bigint_sign(dim_constant_term(d)) >= 0)
    return false;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    if (!mono->power_count ||
        (bigint_sign(d->terms[i].coef) < 0 && dim_monomial_nonneg(mono)))
      continue;
    const Atom *atom = mono->powers[0].atom;
    if (mono->degree > 1 || !atom->var || atom->var->is_integer ||
        !may_fall(assumptions, atom))
      return false;
  }
  return true;
}

static Verdict query_verdict(Assumptions *assumptions, Dim *d, bool eq,
                             bool at_least_one, bool refute);

/* A witness is searched once for all nested queries: they mostly are about
   bounds of quotients that do not hold. */
static bool nested_witness_refutes(Assumptions *assumptions, Dim *d) {
  if (!assumptions->witness && !assumptions->searched_nested_witness) {
    assumptions->searched_nested_witness = true;
    assumptions->nested_witness = assumptions_find_witness(assumptions);
    for (uint32_t i = 0;
         assumptions->nested_witness && i < assumptions->entries.len; i++)
      witness_set_disabled(assumptions->nested_witness, i,
                           assumptions->entries.at[i].disabled);
  }
  Witness *witness =
      assumptions->witness ? assumptions->witness : assumptions->nested_witness;
  return witness && witness_refutes(witness, d, false);
}

static bool entails_nonneg(void *arg, Dim *d) {
  Assumptions *assumptions = arg;
  if (assumptions->depth >= MAX_QUERY_DEPTH)
    return dim_obviously_nonneg(d);
  if (nested_witness_refutes(assumptions, d))
    return false;
  for (uint32_t i = 0; i < assumptions->cached_answer_count; i++)
    if (assumptions->cached_answers[i].depth == assumptions->depth &&
        dim_equal(assumptions->cached_answers[i].d, d))
      return assumptions->cached_answers[i].entailed;
  assumptions->depth++;
  bool proved = query_verdict(assumptions, d, false, false, false) == ENTAILED;
  assumptions->depth--;
  if (assumptions->cached_answer_count < MAX_CACHED_ANSWERS)
    assumptions->cached_answers[assumptions->cached_answer_count++] =
        (CachedAnswer){d, assumptions->depth, proved};
  return proved;
}

/* True for a size that is at least 1 unless something is empty. */
static bool is_at_least_one_size(const DimVar *var) {
  return !var->is_integer && var->kind != DV_INDEX &&
         var->kind != DV_EXISTENTIAL;
}

static Linearization *query_linearize(Assumptions *assumptions, Query *query) {
  DimCtx *cx = assumptions->cx;
  Linearization *lin = linearization_new(
      cx, &assumptions->scratch, query->polys, query->poly_count, query->goal,
      entails_nonneg, assumptions);
  for (uint32_t i = 0; i < query->def_count; i++) {
    const Definition *def = &query->defs[i];
    if (is_at_least_one_size(def->var))
      linearization_add_at_least_one(lin,
                                     dim_sub(cx, def->value, dim_int(cx, 1)));
  }
  return lin;
}

/* Asks whether the assumptions allow d >= 0, or d == 0. */
typedef struct Claim {
  Dim *d;
  bool eq, at_least_one;
  bool satisfiable;       /* a model was found */
  bool refuted;           /* infeasibility was proved */
  uint32_t failed_effort; /* elimination ended without a proof at this effort;
                             0 if it was not tried, or stopped early */
} Claim;

static void claim_find_model(Assumptions *assumptions, const Query *query,
                             Claim *claim, uint32_t effort) {
  DimCtx *cx = assumptions->cx;
  if (claim->satisfiable || claim->refuted || !effort)
    return;
  uint32_t count = query->poly_count;
  PolyConstraint *all = scratch_alloc(
      &assumptions->scratch, sizeof *all * (count + query->def_count + 1));
  memcpy(all, query->polys, sizeof *all * count);
  for (uint32_t i = 0; claim->at_least_one && i < query->def_count; i++)
    if (is_at_least_one_size(query->defs[i].var))
      all[count++] = (PolyConstraint){
          dim_sub(cx, query->defs[i].value, dim_int(cx, 1)), false};
  all[count++] = (PolyConstraint){claim->d, claim->eq};
  claim->satisfiable = model_exists(cx, &assumptions->scratch, all, count,
                                    claim->at_least_one, effort);
}

/* Runs elimination with a part of the remaining effort.  An elimination that
   ended by itself would end in the same way: only its effort is spent again. */
static void claim_refute(Assumptions *assumptions, Linearization *lin,
                         Claim *claim, uint32_t effort) {
  if (claim->satisfiable || claim->refuted)
    return;
  Scratch *scratch = &assumptions->scratch;
  if (claim->failed_effort) {
    scratch_spend_effort(scratch, claim->failed_effort);
    return;
  }
  uint32_t left = scratch->effort;
  uint32_t granted = left < effort ? left : effort;
  if (!granted)
    return;
  scratch->effort = granted;
  claim->refuted =
      linearization_refutes(lin, claim->d, claim->eq, claim->at_least_one);
  if (!claim->refuted && scratch->effort)
    claim->failed_effort = granted - scratch->effort;
  scratch->effort += left - granted;
}

/* The second search gets more effort if the answer is important. */
static uint32_t model_search_effort(const Assumptions *assumptions,
                                    bool second_round) {
  if (assumptions->witness && assumptions->low_effort && !assumptions->depth)
    return 0; /* the witness has not refuted the claim: a proof is likely */
  if (!second_round)
    return assumptions->depth ? NESTED_MODEL_SEARCH_EFFORT
                              : MODEL_SEARCH_EFFORT;
  return assumptions->depth || is_low_effort(assumptions)
             ? 0
             : MAX_MODEL_SEARCH_EFFORT;
}

/* A claim is entailed if its negation is infeasible, and contradicted if the
   claim itself is.  First a short search looks for models that rule out both.
   Then short proofs are tried, then both with more effort. */
static Verdict decide_by_elimination(Assumptions *assumptions, Query *query,
                                     bool eq, bool at_least_one, bool refute) {
  DimCtx *cx = assumptions->cx;
  Dim *d = query->goal, *one = dim_int(cx, 1);
  Claim below = {.d = dim_neg(cx, dim_add(cx, d, one))};
  Claim above = {.d = dim_sub(cx, d, one), .refuted = !eq};
  Claim itself = {d, eq, at_least_one, .satisfiable = !refute};
  Linearization *lin = NULL;
  for (int second_round = 0; second_round < 2; second_round++) {
    uint32_t trials = model_search_effort(assumptions, second_round);
    claim_find_model(assumptions, query, &itself, trials);
    claim_find_model(assumptions, query, &below, trials);
    if (!below.satisfiable)
      claim_find_model(assumptions, query, &above, trials);
    bool unproved = below.satisfiable || above.satisfiable;
    if (unproved && itself.satisfiable)
      return UNDECIDED;
    if (!lin)
      lin = query_linearize(assumptions, query);
    uint32_t effort = second_round ? MAX_QUERY_EFFORT : FIRST_ROUND_EFFORT;
    if (!unproved) {
      claim_refute(assumptions, lin, &below, effort);
      if (below.refuted)
        claim_refute(assumptions, lin, &above, effort);
      if (below.refuted && above.refuted)
        return ENTAILED;
    }
    claim_refute(assumptions, lin, &itself, effort);
    if (itself.refuted)
      return CONTRADICTED;
  }
  return UNDECIDED;
}

/* Requires that d is resolved. */
static Verdict syntactic_verdict(const Dim *d, bool eq) {
  if (dim_is_const(d))
    return (eq ? dim_sign(d) == 0 : dim_sign(d) >= 0) ? ENTAILED : CONTRADICTED;
  if (!eq && dim_obviously_nonneg(d))
    return ENTAILED;
  if (has_sign_everywhere(d, -1) || (eq && has_sign_everywhere(d, 1)))
    return CONTRADICTED;
  return UNDECIDED;
}

static SignFilter sign_filter(const Dim *d) {
  SignFilter out = {0};
  for (uint32_t i = 0; i < d->term_count; i++) {
    uint64_t bit = (uint64_t)1 << (dim_monomial_hash(d->terms[i].mono) >> 26);
    if (bigint_sign(d->terms[i].coef) > 0)
      out.positive |= bit;
    else
      out.negative |= bit;
  }
  return out;
}

/* False if a certainly does not dominate b: a has all positive monomials of b,
   and no other negative ones. */
static bool may_dominate(SignFilter a, SignFilter b) {
  return !(b.positive & ~a.positive) && !(a.negative & ~b.negative);
}

/* True if a >= b for all sizes, by comparison of coefficients.  Begins at the
   constant terms and at the newest variables: there most pairs differ. */
static bool dominates(const Dim *a, const Dim *b) {
  uint32_t i = a->term_count, j = b->term_count;
  while (i || j) {
    int order =
        !i   ? 1
        : !j ? -1
             : -dim_monomial_cmp(a->terms[i - 1].mono, b->terms[j - 1].mono);
    BigInt x = order <= 0 ? a->terms[i - 1].coef : bigint_of(0);
    BigInt y = order >= 0 ? b->terms[j - 1].coef : bigint_of(0);
    const Monomial *mono =
        order <= 0 ? a->terms[i - 1].mono : b->terms[j - 1].mono;
    int sign = bigint_cmp(x, y);
    if (sign < 0 || (sign > 0 && !dim_monomial_nonneg(mono)))
      return false;
    i -= order <= 0;
    j -= order >= 0;
  }
  return true;
}

/* True if some assumption is at most d. */
static bool some_assumption_dominates(Assumptions *assumptions, const Dim *d) {
  SignFilter signs = sign_filter(d);
  for (uint32_t i = 0; i < assumptions->entries.len; i++) {
    AssumptionEntry *entry = &assumptions->entries.at[i];
    if (entry->eq || entry->disabled)
      continue;
    if (!entry->simplified) {
      entry->simplified = dim_simplify_ge(assumptions->cx, entry->d);
      entry->signs = sign_filter(entry->simplified);
    }
    if (may_dominate(signs, entry->signs) && dominates(d, entry->simplified))
      return true;
  }
  return false;
}

/* True if d is a sum of products, each of atoms that are never negative or that
   an assumption bounds. */
static bool is_sum_of_nonneg(Assumptions *assumptions, const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++)
    if (bigint_sign(d->terms[i].coef) < 0)
      return false;
  for (uint32_t i = 0; i < d->term_count; i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      Power power = d->terms[i].mono->powers[j];
      if (power.exp % 2 && !dim_atom_nonneg(power.atom) &&
          !some_assumption_dominates(assumptions, power.atom->dim))
        return false;
    }
  return true;
}

/* Tries to derive d >= 0 from single assumptions.  This answers most
   queries. */
static bool entailed_by_one(Assumptions *assumptions, Dim *d) {
  d = dim_simplify_ge(assumptions->cx, d);
  return dim_obviously_nonneg(d) || some_assumption_dominates(assumptions, d) ||
         (!dim_is_linear(d) && is_sum_of_nonneg(assumptions, d));
}

/* True for a claim that has no row, since it is too long, or about variables of
   which nothing is known, that clearly depends on them. */
static bool is_trivially_undecided(const Query *query, bool eq,
                                   bool at_least_one) {
  if (query->goal->term_count > MAX_QUERY_MONOMIALS + 1)
    return true;
  return !query->poly_count &&
         (is_unconstrained(query->cx, query->goal) ||
          (!eq && !query->def_count &&
           is_undecided_bound(query->goal, at_least_one)));
}

/* The entry of a query in the memo.  The key contains what the verdict depends
   on.  Nested queries, about quotients with a symbolic divisor, may use any
   assumption. */
static MemoEntry *query_memo_entry(Assumptions *assumptions, const Query *query,
                                   bool eq, bool at_least_one, bool refute) {
  DimCtx *cx = assumptions->cx;
  uint32_t flags = eq | at_least_one << 1 | refute << 2 |
                   is_low_effort(assumptions) << 3 |
                   (assumptions->witness != NULL) << 4;
  if (assumptions->depth)
    return NULL;
  memo_key_begin(cx, flags);
  memo_key_add(cx, query->goal, query->poly_count);
  for (uint32_t i = 0; i < query->poly_count; i++)
    memo_key_add(cx, query->polys[i].d, query->polys[i].eq);
  for (uint32_t i = 0; at_least_one && i < query->def_count; i++)
    memo_key_add(cx, query->defs[i].value,
                 is_at_least_one_size(query->defs[i].var));
  for (uint32_t i = 0; memo_key_divides(cx) && i < assumptions->entries.len;
       i++)
    if (!assumptions->entries.at[i].disabled)
      memo_key_add(cx, assumptions->entries.at[i].d,
                   assumptions->entries.at[i].eq);
  return memo_entry(cx);
}

static Verdict decide_query(Assumptions *assumptions, Query *query, bool eq,
                            bool at_least_one, bool refute) {
  MemoEntry *entry =
      query_memo_entry(assumptions, query, eq, at_least_one, refute);
  Verdict verdict;
  if (memo_recall(entry, &verdict))
    return verdict;
  verdict = decide_by_elimination(assumptions, query, eq, at_least_one, refute);
  memo_store(entry, verdict);
  return verdict;
}

static Verdict query_verdict(Assumptions *assumptions, Dim *d, bool eq,
                             bool at_least_one, bool refute) {
  Verdict simple = syntactic_verdict(d, eq);
  if (simple != UNDECIDED)
    return simple;
  if (!eq && entailed_by_one(assumptions, d))
    return ENTAILED;
  ScratchMark mark = scratch_mark(&assumptions->scratch);
  Query query;
  query_init(&query, assumptions, d,
             is_low_effort(assumptions) ? LOW_RELEVANCE_ROUNDS
                                        : RELEVANCE_ROUNDS);
  Verdict verdict = syntactic_verdict(query.goal, eq);
  if (query.contradiction)
    verdict = ENTAILED; /* no assumptions needed */
  else if (verdict == UNDECIDED &&
           !is_trivially_undecided(&query, eq, at_least_one))
    verdict = decide_query(assumptions, &query, eq, at_least_one, refute);
  scratch_release(&assumptions->scratch, mark);
  return verdict;
}

/* Resolves assumptions again whose metas may have been solved. */
static void resolve_entries(Assumptions *assumptions) {
  if (assumptions->resolved_solution_count == assumptions->cx->solution_count)
    return;
  assumptions->resolved_solution_count = assumptions->cx->solution_count;
  for (uint32_t i = 0; i < assumptions->entries.len; i++) {
    AssumptionEntry *entry = &assumptions->entries.at[i];
    if (!entry->d->has_meta)
      continue;
    Dim *now = dim_resolve(assumptions->cx, entry->d);
    if (now != entry->d)
      entry_set(assumptions, entry, now);
  }
}

typedef struct QueryArgs {
  Assumptions *facts;
  Dim *d;
  bool eq, at_least_one, refute;
} QueryArgs;

/* Runs f.  If a polynomial exceeds a limit meanwhile, the query ends as
   UNDECIDED, without a message to the user. */
static bool run_within_limits(Assumptions *assumptions,
                              Verdict (*f)(const QueryArgs *),
                              const QueryArgs *args, Verdict *verdict) {
  DimCtx *cx = assumptions->cx;
  void (*too_big)(void *) = cx->limit_exceeded;
  ScratchMark mark = scratch_mark(&assumptions->scratch);
  Trap trap;
  assumptions->cached_answer_count = 0;
  uint32_t effort =
      is_low_effort(assumptions) ? LOW_QUERY_EFFORT : MAX_QUERY_EFFORT;
  assumptions->scratch.effort = effort;
  if (TRAP_SET(trap) == FAIL_NONE) {
    cx->limit_exceeded = NULL;
    *verdict = f(args);
    assumptions->effort_spent += effort - assumptions->scratch.effort;
    trap_end(&trap);
    cx->limit_exceeded = too_big;
    return true;
  }
  cx->limit_exceeded = too_big;
  assumptions->depth = 0;
  scratch_release(&assumptions->scratch, mark);
  if (trap.kind != FAIL_LIMIT)
    trap_raise(trap.kind);
  return false;
}

static Verdict run_query(const QueryArgs *args) {
  return query_verdict(args->facts, args->d, args->eq, args->at_least_one,
                       args->refute);
}

static Verdict verdict_of(Assumptions *assumptions, Dim *d, bool eq,
                          bool at_least_one, bool refute) {
  d = dim_resolve(assumptions->cx, d);
  Verdict verdict = syntactic_verdict(d, eq);
  if (verdict != UNDECIDED)
    return verdict;
  resolve_entries(assumptions);
  if (!assumptions->entries.len && is_unconstrained(assumptions->cx, d))
    return UNDECIDED;
  if (!eq && !refute && is_violable_bound(assumptions, d))
    return UNDECIDED;
  if (!refute && assumptions->witness &&
      witness_refutes(assumptions->witness, d, eq))
    return UNDECIDED;
  QueryArgs args = {assumptions, d, eq, at_least_one, refute};
  return run_within_limits(assumptions, run_query, &args, &verdict) ? verdict
                                                                    : UNDECIDED;
}

Verdict dim_check_ge0(Assumptions *assumptions, Dim *d, bool at_least_one) {
  return verdict_of(assumptions, d, false, at_least_one, true);
}

Verdict dim_check_eq0(Assumptions *assumptions, Dim *d, bool at_least_one) {
  return verdict_of(assumptions, d, true, at_least_one, true);
}

bool dim_entailed(Assumptions *assumptions, Dim *d, bool eq) {
  return verdict_of(assumptions, d, eq, false, false) == ENTAILED;
}

void assumptions_each_leaf(Assumptions *assumptions, void (*f)(void *, Atom *),
                           void *arg) {
  for (uint32_t i = 0; i < assumptions->entries.len; i++) {
    const AssumptionEntry entry =
        assumptions->entries.at[i]; /* f may query the assumptions */
    for (uint32_t k = 0; !entry.disabled && k < entry.leaf_count; k++)
      f(arg, entry.leaves[k]);
  }
}

/* ---- contradictions ---- */

/* ENTAILED: the assumption ask->d and those related to it have no solution. */
static Verdict run_inconsistency_query(const QueryArgs *args) {
  Assumptions *assumptions = args->facts;
  ScratchMark mark = scratch_mark(&assumptions->scratch);
  Query query;
  query_init(&query, assumptions, args->d, FAR_RELEVANCE_ROUNDS);
  bool found = query.contradiction;
  if (!found)
    found = linearization_refutes(query_linearize(assumptions, &query),
                                  dim_int(assumptions->cx, 0), false, false);
  scratch_release(&assumptions->scratch, mark);
  return found ? ENTAILED : UNDECIDED;
}

static bool entry_is_inconsistent(Assumptions *assumptions,
                                  const AssumptionEntry *entry) {
  Verdict verdict = syntactic_verdict(entry->d, entry->eq);
  if (verdict != UNDECIDED)
    return verdict == CONTRADICTED;
  QueryArgs args = {.facts = assumptions, .d = entry->d};
  return run_within_limits(assumptions, run_inconsistency_query, &args,
                           &verdict) &&
         verdict == ENTAILED;
}

/* True if assumption i equals the one at `old` when the set was last found
   consistent. */
static bool unchanged_since(const Assumptions *assumptions, uint32_t i,
                            uint32_t old) {
  const AssumptionEntry *entry = &assumptions->entries.at[i];
  const PolyConstraint *was = &assumptions->known_consistent.at[old];
  return entry->d == was->d && entry->eq == was->eq;
}

static void record_consistent(Assumptions *assumptions) {
  assumptions->known_consistent.len = 0;
  for (uint32_t i = 0; i < assumptions->entries.len; i++) {
    const AssumptionEntry *entry = &assumptions->entries.at[i];
    PolyConstraint poly = {entry->disabled ? NULL : entry->d, entry->eq};
    VEC_PUSH(assumptions->cx->arena, assumptions->known_consistent, poly);
  }
}

/* Assumptions are added and removed at both ends.  A contradiction that was not
   found before must involve a new assumption.  So only the entries between the
   unchanged ones at the start and at the end are tested. */
bool assumptions_inconsistent(Assumptions *assumptions) {
  resolve_entries(assumptions);
  uint32_t from = 0, to = assumptions->entries.len,
           old = assumptions->known_consistent.len;
  while (to && old && unchanged_since(assumptions, to - 1, old - 1))
    to--, old--;
  while (from < to && from < old && unchanged_since(assumptions, from, from))
    from++;
  for (uint32_t i = from; i < to; i++)
    if (entry_is_inconsistent(assumptions, &assumptions->entries.at[i]))
      return true;
  if (!assumptions->low_effort)
    record_consistent(assumptions);
  return false;
}
