/* What the dim*.c files share: the representation of Dim.
 *
 * Atoms are interned per DimCtx: two atoms are equal iff they are one pointer,
 * so comparing and hashing a Dim never descends into operands.  A monomial is
 * a sorted list of powers; terms are sorted by graded lexicographic order,
 * largest first (constants last), which is a monomial order: multiplying by a
 * monomial keeps it, and division by a leading term terminates. */
#ifndef AXON_SIZE_INTERNAL_H
#define AXON_SIZE_INTERNAL_H

#include "size/dim.h"

/* What is larger ends in dim_limit_exceeded: a program that needs it is
 * refused. */
enum {
  DIM_MAX_TERMS = 4096,
  DIM_MAX_PRODUCTS = 1 << 16, /* of terms, in one multiplication */
  DIM_MAX_EXPONENT = 4096,
  DIM_MAX_LIMBS = 4096,
  DIM_MAX_WEIGHT = 1 << 16, /* atoms, terms: bounds printing and postfix */
  DIM_MAX_DEPTH = 500,      /* nesting of atoms */
  DIM_MAX_RESOLVE_DEPTH =
      5000,          /* the same through solved metas: of recursion */
  DIM_MAX_ARGS = 64, /* of one min or max */
};

/* ---- bigint.c: integers ---- */

/* limbs == NULL: small is the value.  Else a value that does not fit in
 * int64: the magnitude is limbs[0..len), limbs[len - 1] != 0. */
typedef struct BigInt {
  int64_t small;
  const unsigned long *limbs; /* mp_limb_t */
  uint32_t len;
  bool negative;
} BigInt;

static inline BigInt bigint_of(int64_t n) {
  return (BigInt){.small = n};
}
static inline bool bigint_is(BigInt a, int64_t n) {
  return !a.limbs && a.small == n;
}
static inline int bigint_sign(BigInt a) {
  if (a.limbs)
    return a.negative ? -1 : 1;
  return (a.small > 0) - (a.small < 0);
}
int bigint_cmp(BigInt a, BigInt b);
BigInt bigint_add(DimCtx *cx, BigInt a, BigInt b);
BigInt bigint_sub(DimCtx *cx, BigInt a, BigInt b);
BigInt bigint_neg(DimCtx *cx, BigInt a);
BigInt bigint_abs(DimCtx *cx, BigInt a);
BigInt bigint_mul(DimCtx *cx, BigInt a, BigInt b);
/* a = q*b + r with 0 <= r < |b|; b != 0. */
void bigint_divide(DimCtx *cx, BigInt a, BigInt b, BigInt *q, BigInt *r);
BigInt bigint_gcd(DimCtx *cx, BigInt a, BigInt b); /* >= 0 */
uint32_t bigint_hash(BigInt a);
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
  Power powers[]; /* by increasing atom->key */
} Monomial;

typedef struct Term {
  BigInt coef; /* not 0 */
  const Monomial *mono;
} Term;

struct Dim {
  uint32_t term_count, hash, weight;
  uint16_t depth;
  bool has_meta;      /* an unsolved meta or a product, when it was made */
  bool has_unguarded; /* a division whose divisor may be anything */
  Dim *resolved; /* substitute.c's: as it was last resolved, if that is another,
                  */
  uint64_t resolved_generation; /* while nothing has been forgotten since */
  Term terms[];
};

struct Atom {
  AtomKind kind;
  bool has_meta, nonneg; /* nonneg: see dim_atom_nonneg */
  bool unguarded,
      has_unguarded; /* ATOM_DIV: see dim_div_unguarded; in operands, too */
  uint16_t depth;
  uint32_t hash, weight;
  uint64_t key; /* the order; unique */
  DimVar *var;
  ShapeVar *shape;
  uint32_t arg_count; /* ATOM_DIV: 2, numerator and divisor */
  Dim **args;         /* ATOM_MIN, ATOM_MAX: sorted */
  Dim *dim;           /* this atom as a Dim */
  struct DimAtomTable *table;
  uint64_t visit_epoch; /* of the last walk that was here, and */
  Dim *visit_result;    /* what it found */
  int64_t model_value;  /* model_search.c's: its value at the last point, */
  bool has_model_value; /* if it has been at one, */
  uint32_t model_index; /* and its place among the variables there */
  Dim **bounds;         /* linearize.c's: polynomials that are never negative */
  uint32_t bound_count;
};

struct DimAtomTable {
  Atom **slots; /* open addressing; capacity a power of two */
  uint32_t len, cap, next_key;
  uint64_t epoch;
  uint64_t resolved_generation; /* how many solved metas were */
  Monomial *unit_monomial;      /* no powers */
  Dim *zero;
  Dim *cached_ints[272]; /* -16 .. 255 */
};

NORETURN void dim_limit_exceeded(DimCtx *cx);
struct DimAtomTable *dim_atom_table(DimCtx *cx);
/* The Dim of count sorted terms without zero coefficients; copies them. */
Dim *dim_of_terms(DimCtx *cx, const Term *at, uint32_t count);
/* Sorts terms, in place, and adds up those of one monomial. */
Dim *dim_of_unsorted_terms(DimCtx *cx, Term *at, uint32_t count);
Dim *dim_of_bigint(DimCtx *cx, BigInt n);
Dim *dim_of_term(DimCtx *cx, BigInt coef, const Monomial *mono);
Dim *dim_scale(DimCtx *cx, Dim *d, BigInt by);
int dim_monomial_cmp(const Monomial *a,
                     const Monomial *b); /* < 0: a stands first */
uint32_t dim_monomial_hash(const Monomial *mono);
BigInt dim_coef_of(const Dim *d, const Monomial *mono); /* 0 when absent */
BigInt dim_constant_term(const Dim *d);                 /* its constant term */
/* Never negative for sizes: structurally, without facts. */
bool dim_atom_nonneg(const Atom *atom);
bool dim_monomial_nonneg(const Monomial *mono);
bool dim_obviously_nonneg(const Dim *d);
/* substitute.c: visits the variables and unsolved products of d that the walk
 * of this epoch has not seen yet. */
uint64_t dim_next_visit_epoch(DimCtx *cx);
void dim_each_leaf(const Dim *d, uint64_t epoch, void (*f)(void *, Atom *),
                   void *arg);

#endif
