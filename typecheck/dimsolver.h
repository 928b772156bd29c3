/* What the files that reason about facts share: dimfacts.c (sets of facts and
 * verdicts), dimlinear.c (polynomials as linear rows), dimfm.c (elimination).
 *
 * Everything rests on one direction: a system is infeasible only if that was
 * derived.  Leaving out a row, for any limit, is always sound. */
#ifndef AXON_TYPECHECK_DIMSOLVER_H
#define AXON_TYPECHECK_DIMSOLVER_H

#include "diminternal.h"

enum {
  SOLVER_COLUMNS = 64,   /* distinct monomials in one query */
  SOLVER_ROWS = 600,     /* at any time during elimination */
  SOLVER_EFFORT = 400000, /* coefficients looked at, in one query with those
                             that it asks: less than a millisecond */
  SOLVER_EFFORT_FIRST = 60000, /* before a point is looked for in earnest */
  SOLVER_TRIALS = 2000,  /* terms looked at in the search for a point */
  SOLVER_TRIALS_WITHIN = 500, /* in a query within a query */
  SOLVER_TRIALS_MOST = 80000,
  SOLVER_DEFINITION = 24, /* terms of what an equation puts for a variable */
  SOLVER_PUT_IN = 10000,  /* weight of what comes of that, in one query */
  SOLVER_PRODUCTS = 64,  /* facts multiplied by monomials */
  SOLVER_RELATED = 96,   /* facts that one query considers */
  SOLVER_ROUNDS = 4,     /* how far relatedness reaches */
  SOLVER_ROUNDS_FAR = 8, /* where a fact is asked about once, not again for each
                            that comes after it */
  SOLVER_EFFORT_ALL = 100000000, /* in all queries of a declaration */
  SOLVER_BRIEF_EFFORT = 10000, /* where an answer is merely welcome */
  SOLVER_BRIEF_ROUNDS = 2,
  SOLVER_CASES = 24,     /* of minima and maxima, in one query */
  SOLVER_DEPTH = 2,      /* queries within queries: signs of numerators, */
  SOLVER_ASKED = 32,     /* of which so many answers are kept */
};

/* ---- memory of a query, reused by the next ---- */

typedef struct ScratchBlock {
  struct ScratchBlock *next;
  size_t size, used;
} ScratchBlock;

typedef struct Scratch {
  Arena *arena;
  ScratchBlock *first, *now;
  uint32_t effort; /* that is left to the query */
} Scratch;

typedef struct ScratchMark {
  ScratchBlock *block;
  size_t used;
} ScratchMark;

void *scratch_alloc(Scratch *scratch, size_t size); /* not zeroed */
/* Takes effort; false when none is left. */
static inline bool scratch_effort(Scratch *scratch, uint32_t by) {
  bool enough = scratch->effort > by;
  scratch->effort = enough ? scratch->effort - by : 0;
  return enough;
}
ScratchMark scratch_mark(Scratch *scratch);
void scratch_release(Scratch *scratch, ScratchMark mark);

/* ---- dimfm.c ---- */

typedef struct Cell {
  uint32_t column;
  int64_t coef;
} Cell;

typedef struct Row { /* sum of cells + constant >= 0, or == 0 */
  bool eq;
  uint32_t count;
  int64_t constant;
  Cell at[];
} Row;

/* Whether provably no integers satisfy the rows. */
bool fm_infeasible(Scratch *scratch, uint32_t columns, const Row *const *rows,
                   uint32_t count);

/* ---- dimlinear.c ---- */

typedef struct Poly { /* d >= 0, or d == 0 */
  Dim *d;
  bool eq;
} Poly;

typedef struct Linear Linear;

/* A system: the polys, what holds of the atoms in them and in goal, and
 * products of facts that look useful.  nonneg (may be NULL) is asked about
 * polynomials whose sign cannot be seen. */
Linear *linear_new(DimCtx *cx, Scratch *scratch, const Poly *polys,
                   uint32_t count, Dim *goal, bool (*nonneg)(void *, Dim *),
                   void *arg);
/* Whether the system with one more is infeasible; at_least_one also adds that
 * every size variable is at least 1. */
bool linear_refutes(Linear *lin, Dim *d, bool eq, bool at_least_one);

/* For at_least_one: d >= 0 then holds too. */
void linear_at_least(Linear *lin, Dim *d);

/* ---- dimpoint.c ---- */

/* Whether integers were found that meet all conditions, with sizes of at least
 * 0, or 1.  False: none was found, with so many terms looked at. */
bool point_exists(DimCtx *cx, Scratch *scratch, const Poly *at,
                  uint32_t count, bool at_least_one, uint32_t effort);

/* ---- dimfacts.c, for dimwitness.c ---- */

typedef struct Definition { /* by an equation */
  DimVar *var;
  Dim *value;
} Definition;

typedef struct Query {
  DimCtx *cx;
  Dim *goal;
  Poly *polys; /* the related facts, definitions applied */
  Definition *defs; /* a value may mention variables defined later */
  uint32_t poly_count, def_count;
  uint32_t put_in; /* weight of what came of definitions that were put in */
  bool contradiction;
  bool partial; /* some facts were left out */
} Query;

/* Prepares a query; valid until the scratch is released. */
void query_init(Query *query, DimFacts *facts, Dim *goal, uint32_t rounds);
/* The variables of all facts, of the newest first, some several times. */
void dim_facts_each_leaf(DimFacts *facts, void (*f)(void *, Atom *),
                         void *arg);
DimCtx *dim_facts_cx(const DimFacts *facts);
Scratch *dim_facts_scratch(DimFacts *facts);

#endif
