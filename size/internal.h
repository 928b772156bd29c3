/* Representation of Dim, shared by the files of this module.
 *
 * Atoms are interned per DimCtx: two atoms are equal iff their pointers are.
 * So comparing and hashing a Dim never descends into operands.  A monomial is a
 * sorted list of powers.  Terms are sorted by graded lexicographic order,
 * largest first and constants last.  This is a monomial order: multiplication
 * by a monomial preserves it, and division by a leading term terminates. */
#ifndef AXON_SIZE_INTERNAL_H
#define AXON_SIZE_INTERNAL_H

#include "size/dim.h"
#include "support/compiler.h"

/* Limits.  Exceeding one calls dim_limit_exceeded, which rejects the
   program. */
enum {
  DIM_MAX_TERMS = 4096,
  DIM_MAX_PRODUCTS = 1 << 16, /* term products in one multiplication */
  DIM_MAX_EXPONENT = 4096,
  DIM_MAX_LIMBS = 4096,
  /* number of atoms and terms; bounds printing and postfix */
  DIM_MAX_WEIGHT = 1 << 20,
  DIM_MAX_DEPTH = 500, /* nesting depth of atoms */
  DIM_MAX_RESOLVE_DEPTH =
      5000,          /* nesting depth through solved metas; bounds recursion */
  DIM_MAX_ARGS = 64, /* operands of one minimum or maximum */
};

/* ---- bigint.c: integers ---- */

/* If limbs is NULL, small is the value.  Otherwise the value does not fit in
   int64.  Its magnitude is limbs[0..n), with limbs[n - 1] != 0; small is n, or
   -n for a negative value. */
typedef struct BigInt {
  int64_t small;
  const unsigned long *limbs; /* mp_limb_t */
} BigInt;

static inline BigInt bigint_of(int64_t n) {
  return (BigInt){.small = n};
}
static inline bool bigint_is(BigInt a, int64_t n) {
  return !a.limbs && a.small == n;
}
static inline int bigint_sign(BigInt a) {
  return (a.small > 0) - (a.small < 0);
}
static inline uint32_t bigint_limb_count(BigInt a) {
  return a.limbs ? (uint32_t)(a.small < 0 ? -a.small : a.small) : 0;
}
int bigint_cmp_wide(BigInt a, BigInt b);
BigInt bigint_add_wide(DimCtx *cx, BigInt a, BigInt b);
BigInt bigint_mul_wide(DimCtx *cx, BigInt a, BigInt b);
static inline int bigint_cmp(BigInt a, BigInt b) {
  return a.limbs || b.limbs ? bigint_cmp_wide(a, b)
                            : (a.small > b.small) - (a.small < b.small);
}
static inline BigInt bigint_add(DimCtx *cx, BigInt a, BigInt b) {
  int64_t sum;
  if (!a.limbs && !b.limbs && !__builtin_add_overflow(a.small, b.small, &sum))
    return bigint_of(sum);
  return bigint_add_wide(cx, a, b);
}
static inline BigInt bigint_mul(DimCtx *cx, BigInt a, BigInt b) {
  int64_t product;
  if (!a.limbs && !b.limbs &&
      !__builtin_mul_overflow(a.small, b.small, &product))
    return bigint_of(product);
  return bigint_mul_wide(cx, a, b);
}
BigInt bigint_sub(DimCtx *cx, BigInt a, BigInt b);
BigInt bigint_neg(DimCtx *cx, BigInt a);
BigInt bigint_abs(DimCtx *cx, BigInt a);
/* a == q*b + r with 0 <= r < |b|. Requires b != 0. */
void bigint_divide(DimCtx *cx, BigInt a, BigInt b, BigInt *q, BigInt *r);
BigInt bigint_gcd(DimCtx *cx, BigInt a, BigInt b); /* >= 0 */
static inline uint32_t bigint_hash(BigInt a) {
  uint64_t h = (uint64_t)a.small * 0x9E3779B97F4A7C15u;
  for (uint32_t i = 0; i < bigint_limb_count(a); i++)
    h = (h ^ a.limbs[i]) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32);
}
BigInt bigint_parse(DimCtx *cx, const char *text);
const char *bigint_text(DimCtx *cx, BigInt a); /* decimal */

/* ---- polynomials ---- */

typedef enum AtomKind {
  ATOM_VAR,
  ATOM_PROD,
  ATOM_DIV,
  ATOM_MIN,
  ATOM_MAX
} AtomKind;

typedef struct Atom Atom;

typedef struct Power {
  Atom *atom;
  uint32_t exp;
} Power;

typedef struct Monomial {
  uint32_t power_count, degree;
  Power powers[]; /* sorted by increasing atom->key */
} Monomial;

typedef struct Term {
  BigInt coef; /* nonzero */
  const Monomial *mono;
} Term;

struct Dim {
  uint32_t term_count, weight;
  uint32_t hash; /* see dim_hash */
  uint16_t depth;
  bool has_hash : 1;
  bool has_meta : 1; /* contained an unsolved meta or a product when created */
  bool has_product : 1;   /* contains the product of a shape variable */
  bool has_unguarded : 1; /* contains an unguarded division */
  bool
      is_sum_of_vars : 1; /* each term is a number times at most one variable */
  /* cached by substitute.c: the resolved form, or NULL.  It can be resolved
     further if the generation agrees: no variable has been forgotten since.  It
     is final if the number of solutions agrees, too. */
  Dim *resolved;
  uint64_t resolved_generation;
  uint64_t resolved_solution_count; /* DimCtx.solution_count at that time */
  /* cached by substitute.c: the result of the substitution with this epoch */
  Dim *substituted;
  uint64_t substituted_epoch;
  Term terms[];
};

struct Atom {
  AtomKind kind;
  bool has_meta, has_product;    /* as for Dim */
  bool nonneg;                   /* see dim_atom_nonneg */
  bool unguarded, has_unguarded; /* ATOM_DIV: unguarded, or an operand is
                                    (dim_div_unguarded) */
  uint16_t depth;
  uint32_t hash, weight;
  uint64_t key; /* unique; defines the order */
  DimVar *var;
  ShapeVar *shape;
  uint32_t arg_count; /* ATOM_DIV has 2: numerator and divisor */
  Dim **args;         /* ATOM_MIN, ATOM_MAX: sorted */
  Dim *dim;           /* this atom as a Dim */
  struct DimAtomTable *table;
  uint64_t visit_epoch;   /* last walk that visited this atom */
  Dim *visit_result;      /* result of that walk */
  int64_t model_value;    /* model_search.c: value at the last model */
  bool has_model_value;   /* model_search.c: model_value is set */
  uint32_t model_index;   /* model_search.c: index among the variables */
  uint32_t witness_index; /* witness.c: index among the leaves */
  uint32_t memo_index;    /* query_memo.c: number in the current key */
  uint32_t column_index;  /* linearize.c: its last column */
  Dim **bounds;           /* linearize.c: polynomials that are never negative */
  uint32_t bound_count;
};

struct DimAtomTable {
  Atom **slots; /* hash table with open addressing; the capacity is a power of
                   two */
  uint32_t len, cap, next_key;
  uint64_t epoch;
  bool has_unknown; /* some meta was forgotten */
  /* counts how often solved metas were forgotten */
  uint64_t resolved_generation;
  Monomial *unit_monomial; /* the empty monomial */
  Term *term_buffer;       /* see dim_term_buffer */
  uint32_t term_buffer_cap;
  Dim *zero;
  Dim *cached_ints[272]; /* -16 to 255 */
};

NORETURN void dim_limit_exceeded(DimCtx *cx);
struct DimAtomTable *dim_atom_table(DimCtx *cx);
/* Memory for the terms of a result, valid until the next arithmetic of Dims. */
Term *dim_term_buffer(DimCtx *cx, uint32_t count);
/* Builds a Dim from count sorted terms with nonzero coefficients.  Copies
   them. */
Dim *dim_of_terms(DimCtx *cx, const Term *at, uint32_t count);
/* The same, if the terms may contain parts of Hermite's identity. */
Dim *dim_of_sum_terms(DimCtx *cx, const Term *at, uint32_t count);
/* Sorts terms in place and combines those with equal monomials. */
Dim *dim_of_unsorted_terms(DimCtx *cx, Term *at, uint32_t count);
Dim *dim_of_bigint(DimCtx *cx, BigInt n);
Dim *dim_of_term(DimCtx *cx, BigInt coef, const Monomial *mono);
Dim *dim_scale(DimCtx *cx, Dim *d, BigInt by);
int dim_monomial_cmp_long(const Monomial *a, const Monomial *b);
/* Negative if a comes first. */
static inline int dim_monomial_cmp(const Monomial *a, const Monomial *b) {
  if (a == b)
    return 0;
  if (a->degree != b->degree)
    return a->degree > b->degree ? -1 : 1;
  if (a->degree != 1)
    return dim_monomial_cmp_long(a, b);
  uint64_t x = a->powers[0].atom->key;
  uint64_t y = b->powers[0].atom->key;
  return (x > y) - (x < y);
}
uint32_t dim_monomial_hash(const Monomial *mono);
BigInt dim_coef_of(const Dim *d, const Monomial *mono); /* 0 if absent */
BigInt dim_constant_term(const Dim *d);
/* The unique atom equal to key. */
Dim *dim_atom_intern(DimCtx *cx, Atom *key);
/* A total order, for sorted lists of operands. */
int dim_canonical_cmp(const Dim *a, const Dim *b);
/* The gcd of g and of the coefficients, including constant terms if asked. */
BigInt dim_coefficient_gcd(DimCtx *cx, const Dim *d, BigInt g, bool constants);
/* Divides each coefficient by `by`, rounding down (only a constant term can be
   inexact), and each monomial by mono, exactly. */
Dim *dim_divide_out(DimCtx *cx, Dim *d, BigInt by, const Monomial *mono);
/* True if the value is never negative for sizes.  A structural test that uses
   no assumptions. */
bool dim_atom_nonneg(const Atom *atom);
bool dim_monomial_nonneg(const Monomial *mono);
bool dim_obviously_nonneg(const Dim *d);
/* substitute.c: visits the variables and unsolved products of d that the walk
   with this epoch has not visited yet. */
uint64_t dim_next_visit_epoch(DimCtx *cx);
void dim_each_leaf(const Dim *d, uint64_t epoch, void (*f)(void *, Atom *),
                   void *arg);

#endif
