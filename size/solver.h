/* What the files that reason about facts share: entailment.c (sets of facts and
 * verdicts), linearize.c (polynomials as linear rows), fourier_motzkin.c
 * (elimination).
 *
 * Everything rests on one direction: a system is infeasible only if that was
 * derived.  Leaving out a row, for any limit, is always sound. */
#ifndef AXON_SIZE_SOLVER_H
#define AXON_SIZE_SOLVER_H

#include "internal.h"

enum {
  MAX_QUERY_MONOMIALS = 64,   /* distinct monomials in one query */
  MAX_ELIMINATION_ROWS = 600, /* at any time during elimination */
  MAX_QUERY_EFFORT = 400000,  /* coefficients looked at, in one query with those
                                 that it asks: less than a millisecond */
  FIRST_ROUND_EFFORT = 60000, /* before a point is looked for in earnest */
  MODEL_SEARCH_EFFORT = 2000, /* terms looked at in the search for a point */
  NESTED_MODEL_SEARCH_EFFORT = 500, /* in a query within a query */
  MAX_MODEL_SEARCH_EFFORT = 80000,
  MAX_DEFINITION_TERMS = 24, /* terms of what an equation puts for a variable */
  MAX_SUBSTITUTED_WEIGHT =
      10000,                 /* weight of what comes of that, in one query */
  MAX_DERIVED_PRODUCTS = 64, /* facts multiplied by monomials */
  MAX_RELEVANT_ASSUMPTIONS = 96, /* facts that one query considers */
  RELEVANCE_ROUNDS = 4,          /* how far relatedness reaches */
  FAR_RELEVANCE_ROUNDS = 8, /* where a fact is asked about once, not again for
                               each that comes after it */
  MAX_DECLARATION_EFFORT = 100000000, /* in all queries of a declaration */
  LOW_QUERY_EFFORT = 10000,           /* where an answer is merely welcome */
  LOW_RELEVANCE_ROUNDS = 2,
  MAX_CASES_PER_QUERY = 24, /* of minima and maxima, in one query */
  MAX_QUERY_DEPTH = 2,      /* queries within queries: signs of numerators, */
  MAX_CACHED_ANSWERS = 32,  /* of which so many answers are kept */
};

/* ---- memory of a query, reused by the next ---- */

typedef struct ScratchBlock {
  struct ScratchBlock *next;
  size_t size, used;
} ScratchBlock;

typedef struct Scratch {
  Arena *arena;
  ScratchBlock *first, *current;
  uint32_t effort; /* that is left to the query */
} Scratch;

typedef struct ScratchMark {
  ScratchBlock *block;
  size_t used;
} ScratchMark;

void *scratch_alloc(Scratch *scratch, size_t size); /* not zeroed */
/* Takes effort; false when none is left. */
static inline bool scratch_spend_effort(Scratch *scratch, uint32_t by) {
  bool enough = scratch->effort > by;
  scratch->effort = enough ? scratch->effort - by : 0;
  return enough;
}
ScratchMark scratch_mark(Scratch *scratch);
void scratch_release(Scratch *scratch, ScratchMark mark);

/* ---- fourier_motzkin.c ---- */

typedef struct RowEntry {
  uint32_t column;
  int64_t coef;
} RowEntry;

typedef struct SparseRow { /* sum of cells + constant >= 0, or == 0 */
  bool eq;
  uint32_t count;
  int64_t constant;
  RowEntry entries[];
} SparseRow;

/* Whether provably no integers satisfy the rows. */
bool fm_infeasible(Scratch *scratch, uint32_t columns,
                   const SparseRow *const *rows, uint32_t count);

/* ---- linearize.c ---- */

typedef struct PolyConstraint { /* d >= 0, or d == 0 */
  Dim *d;
  bool eq;
} PolyConstraint;

typedef struct Linearization Linearization;

/* A system: the polys, what holds of the atoms in them and in goal, and
 * products of facts that look useful.  nonneg (may be NULL) is asked about
 * polynomials whose sign cannot be seen. */
Linearization *linearization_new(DimCtx *cx, Scratch *scratch,
                                 const PolyConstraint *polys, uint32_t count,
                                 Dim *goal, bool (*nonneg)(void *, Dim *),
                                 void *arg);
/* Whether the system with one more is infeasible; at_least_one also adds that
 * every size variable is at least 1. */
bool linearization_refutes(Linearization *lin, Dim *d, bool eq,
                           bool at_least_one);

/* For at_least_one: d >= 0 then holds too. */
void linearization_add_at_least_one(Linearization *lin, Dim *d);

/* ---- model_search.c ---- */

/* Whether integers were found that meet all conditions, with sizes of at least
 * 0, or 1.  False: none was found, with so many terms looked at. */
bool model_exists(DimCtx *cx, Scratch *scratch, const PolyConstraint *at,
                  uint32_t count, bool at_least_one, uint32_t effort);

/* ---- entailment.c, for counterexample.c ---- */

typedef struct Definition { /* by an equation */
  DimVar *var;
  Dim *value;
} Definition;

typedef struct Query {
  DimCtx *cx;
  Dim *goal;
  PolyConstraint *polys; /* the related facts, definitions applied */
  Definition *defs;      /* a value may mention variables defined later */
  uint32_t poly_count, def_count;
  uint32_t substituted_weight; /* weight of what came of definitions that were
                                  put in */
  bool contradiction;
  bool incomplete; /* some facts were left out */
} Query;

/* Prepares a query; valid until the scratch is released. */
void query_init(Query *query, Assumptions *assumptions, Dim *goal,
                uint32_t rounds);
/* The variables of all facts, of the newest first, some several times. */
void assumptions_each_leaf(Assumptions *assumptions, void (*f)(void *, Atom *),
                           void *arg);
DimCtx *assumptions_cx(const Assumptions *assumptions);
Scratch *assumptions_scratch(Assumptions *assumptions);

#endif
