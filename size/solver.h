/* Shared by the files that reason under assumptions: entailment.c (sets of
 * assumptions, verdicts), linearize.c (polynomials as linear rows),
 * fourier_motzkin.c (elimination), model_search.c (models).
 *
 * Soundness: a system counts as infeasible only if that was derived.  So
 * leaving out a row, because of any limit, is always sound. */
#ifndef AXON_SIZE_SOLVER_H
#define AXON_SIZE_SOLVER_H

#include "internal.h"

typedef struct Arena Arena;

enum {
  MAX_QUERY_MONOMIALS = 64,   /* distinct monomials in one query */
  MAX_ELIMINATION_ROWS = 600, /* rows at any time during elimination */
  MAX_QUERY_EFFORT = 400000,  /* coefficients processed in one query and its
                                 nested queries; less than a millisecond */
  /* effort before the second, longer model search */
  FIRST_ROUND_EFFORT = 60000,
  MODEL_SEARCH_EFFORT = 2000,       /* terms evaluated in one model search */
  NESTED_MODEL_SEARCH_EFFORT = 500, /* the same, in a nested query */
  MAX_MODEL_SEARCH_EFFORT = 80000,
  MAX_DEFINITION_TERMS = 24, /* terms of the definition of a variable */
  MAX_SUBSTITUTED_WEIGHT =
      10000, /* weight of terms created by substitution in one query */
  MAX_DERIVED_PRODUCTS = 64,     /* products of an assumption and a monomial */
  MAX_RELEVANT_ASSUMPTIONS = 96, /* assumptions that one query considers */
  RELEVANCE_ROUNDS = 4, /* how many links of shared variables a query follows */
  /* the same, when each assumption is queried only once */
  FAR_RELEVANCE_ROUNDS = 8,
  /* effort of all queries of a declaration */
  MAX_DECLARATION_EFFORT = 100000000,
  LOW_QUERY_EFFORT = 10000, /* effort of a query whose answer is optional */
  LOW_RELEVANCE_ROUNDS = 2,
  MAX_CASES_PER_QUERY = 24, /* cases of minima and maxima in one query */
  MAX_QUERY_DEPTH = 2,      /* nesting of queries, for signs of numerators */
  MAX_CACHED_ANSWERS = 32,  /* cached answers of nested queries */
};

/* ---- memory of a query, reused by the next ---- */

typedef struct ScratchBlock {
  struct ScratchBlock *next;
  size_t size, used;
} ScratchBlock;

typedef struct Scratch {
  Arena *arena;
  ScratchBlock *first, *current;
  uint32_t effort; /* remaining effort of the query */
} Scratch;

typedef struct ScratchMark {
  ScratchBlock *block;
  size_t used;
} ScratchMark;

void *scratch_alloc(Scratch *scratch, size_t size); /* not zeroed */
/* Spends effort.  Returns false if none is left. */
static inline bool scratch_spend_effort(Scratch *scratch, uint32_t by) {
  bool enough = scratch->effort > by;
  scratch->effort = enough ? scratch->effort - by : 0;
  return enough;
}
ScratchMark scratch_mark(Scratch *scratch);
void scratch_release(Scratch *scratch, ScratchMark mark);

/* ---- linear_equation.c: rows of coefficients, then the constant ---- */

/* The gcd of the coefficients; 0 if all are 0. */
uint64_t row_gcd(const int64_t *row, uint32_t columns);
/* Divides an equation by the gcd of its coefficients.  Returns false if it has
   no integer solution. */
bool row_normalize_equation(int64_t *eq, uint32_t columns);
/* Eliminates a column of the row by means of an equation, whose coefficient
   there is 1 or -1.  Returns false on overflow; then the row is undefined. */
bool row_eliminate(int64_t *row, const int64_t *eq, uint32_t column,
                   uint32_t columns);

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

/* True if the rows provably have no integer solution. */
bool fm_infeasible(Scratch *scratch, uint32_t columns,
                   const SparseRow *const *rows, uint32_t count);

/* ---- linearize.c ---- */

typedef struct PolyConstraint { /* d >= 0, or d == 0 */
  Dim *d;
  bool eq;
} PolyConstraint;

typedef struct Linearization Linearization;

/* Builds a linear system: the polynomials, properties of the atoms in them and
   in goal, and products of assumptions that look useful. nonneg is called for
   polynomials whose sign is not obvious; it may be NULL. */
Linearization *linearization_new(DimCtx *cx, Scratch *scratch,
                                 const PolyConstraint *polys, uint32_t count,
                                 Dim *goal, bool (*nonneg)(void *, Dim *),
                                 void *arg);
/* True if the system becomes infeasible after d is added. at_least_one also
   adds that every size variable is at least 1. */
bool linearization_refutes(Linearization *lin, Dim *d, bool eq,
                           bool at_least_one);

/* Registers d >= 0 as true under at_least_one. */
void linearization_add_at_least_one(Linearization *lin, Dim *d);

/* ---- evaluate.c ---- */

typedef struct Evaluation {
  uint64_t epoch;  /* epoch of the cached values of compound atoms: a new one
                      (dim_next_visit_epoch) after each change of a leaf */
  uint32_t effort; /* number of terms that may still be evaluated */
} Evaluation;

/* Evaluates d; the leaves have the values Atom.model_value.  Returns false on
   overflow, if a divisor is less than 1, or if the effort is used up. */
bool dim_evaluate(Evaluation *e, const Dim *d, int64_t *value);

/* ---- model_search.c ---- */

/* True if a model was found: integers that satisfy all conditions, with sizes
   of at least 0, or at least 1 with at_least_one.  False if the search ended
   without one. */
bool model_exists(DimCtx *cx, Scratch *scratch, const PolyConstraint *at,
                  uint32_t count, bool at_least_one, uint32_t effort);

/* ---- witness.c ---- */

/* See assumptions_find_witness. */
Witness *witness_new(DimCtx *cx, const PolyConstraint *at, uint32_t count);

/* ---- query_memo.c ---- */

/* The key of a query: flags and polynomials.  Equal keys have equal
   verdicts. */
void memo_key_begin(DimCtx *cx, uint32_t flags);
void memo_key_add(DimCtx *cx, const Dim *d, uint32_t flags);
/* True if a polynomial of the key has a divisor that is not a number. */
bool memo_key_divides(const DimCtx *cx);
/* The verdict of queries with the current key.  NULL if the key is too long, or
   if too many are stored. */
typedef struct MemoEntry MemoEntry;
MemoEntry *memo_entry(DimCtx *cx);
bool memo_recall(const MemoEntry *entry, Verdict *verdict);
void memo_store(MemoEntry *entry, Verdict verdict);

/* ---- entailment.c, for counterexample.c ---- */

typedef struct Definition { /* a variable that an equation defines */
  DimVar *var;
  Dim *value;
} Definition;

typedef struct Query {
  DimCtx *cx;
  Dim *goal;
  /* related assumptions after substitution of definitions */
  PolyConstraint *polys;
  /* a definition may mention variables that are defined later */
  Definition *defs;
  uint32_t poly_count, def_count;
  uint32_t substituted_weight; /* weight of terms created by substitution */
  bool contradiction;
  bool incomplete; /* some assumptions were left out */
} Query;

/* Prepares a query.  It is valid until the scratch memory is released. */
void query_init(Query *query, Assumptions *assumptions, Dim *goal,
                uint32_t rounds);
/* Visits the variables of all assumptions, newest assumption first.  Some
   variables are visited several times. */
void assumptions_each_leaf(Assumptions *assumptions, void (*f)(void *, Atom *),
                           void *arg);
DimCtx *assumptions_cx(const Assumptions *assumptions);
Scratch *assumptions_scratch(Assumptions *assumptions);

#endif
