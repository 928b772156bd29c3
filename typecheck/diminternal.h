/* What the dim*.c files share: the representation of Dim.
 *
 * Atoms are interned per DimCtx: two atoms are equal iff they are one pointer,
 * so comparing and hashing a Dim never descends into operands.  A monomial is
 * a sorted list of powers; terms are sorted by graded lexicographic order,
 * largest first (constants last), which is a monomial order: multiplying by a
 * monomial keeps it, and division by a leading term terminates. */
#ifndef AXON_TYPECHECK_DIMINTERNAL_H
#define AXON_TYPECHECK_DIMINTERNAL_H

#include "typecheck/dim.h"

/* What is larger ends in dim_too_big: a program that needs it is refused. */
enum {
  DIM_MAX_TERMS = 4096,
  DIM_MAX_PRODUCTS = 1 << 16, /* of terms, in one multiplication */
  DIM_MAX_EXPONENT = 4096,
  DIM_MAX_LIMBS = 4096,
  DIM_MAX_WEIGHT = 1 << 16, /* atoms, terms: bounds printing and postfix */
  DIM_MAX_DEPTH = 500,      /* nesting of atoms */
  DIM_MAX_CHAIN = 5000,     /* the same through solved metas: of recursion */
  DIM_MAX_ARGS = 64,        /* of one min or max */
};

/* ---- dimnum.c: integers ---- */

/* limbs == NULL: small is the value.  Else a value that does not fit in
 * int64: the magnitude is limbs[0..len), limbs[len - 1] != 0. */
typedef struct Num {
  int64_t small;
  const unsigned long *limbs; /* mp_limb_t */
  uint32_t len;
  bool negative;
} Num;

static inline Num num_of(int64_t n) { return (Num){.small = n}; }
static inline bool num_is(Num a, int64_t n) { return !a.limbs && a.small == n; }
static inline int num_sign(Num a) {
  if (a.limbs)
    return a.negative ? -1 : 1;
  return (a.small > 0) - (a.small < 0);
}
int num_cmp(Num a, Num b);
Num num_add(DimCtx *cx, Num a, Num b);
Num num_sub(DimCtx *cx, Num a, Num b);
Num num_neg(DimCtx *cx, Num a);
Num num_abs(DimCtx *cx, Num a);
Num num_mul(DimCtx *cx, Num a, Num b);
/* a = q*b + r with 0 <= r < |b|; b != 0. */
void num_divide(DimCtx *cx, Num a, Num b, Num *q, Num *r);
Num num_gcd(DimCtx *cx, Num a, Num b); /* >= 0 */
uint32_t num_hash(Num a);
Num num_parse(DimCtx *cx, const char *text);
const char *num_text(DimCtx *cx, Num a); /* decimal */

/* ---- polynomials ---- */

typedef enum AtomKind { AT_VAR, AT_PROD, AT_DIV, AT_MIN, AT_MAX } AtomKind;

typedef struct Atom Atom;

typedef struct Power {
  Atom *atom;
  uint32_t exp;
} Power;

typedef struct Mono {
  uint32_t count, degree;
  Power at[]; /* by increasing atom->key */
} Mono;

typedef struct Term {
  Num coef; /* not 0 */
  const Mono *mono;
} Term;

struct Dim {
  uint32_t count, hash, weight;
  uint16_t depth;
  bool has_meta; /* an unsolved meta or a product, when it was made */
  bool has_soft; /* a division whose divisor may be anything */
  Dim *near;     /* dimwalk.c's: as it was last resolved, if that is another, */
  uint64_t near_at; /* while nothing has been forgotten since */
  Term at[];
};

struct Atom {
  AtomKind kind;
  bool has_meta, nonneg; /* nonneg: see dim_atom_nonneg */
  bool soft, has_soft;   /* AT_DIV: see dim_div_soft; in operands, too */
  uint16_t depth;
  uint32_t hash, weight;
  uint64_t key; /* the order; unique */
  DimVar *var;
  ShapeVar *shape;
  uint32_t arg_count; /* AT_DIV: 2, numerator and divisor */
  Dim **args;         /* AT_MIN, AT_MAX: sorted */
  Dim *dim;           /* this atom as a Dim */
  struct DimAtoms *home;
  uint64_t epoch; /* of the last walk that was here, and */
  Dim *memo;      /* what it found */
  int64_t point;  /* dimpoint.c's: its value at the last point, */
  bool pointed;   /* if it has been at one, */
  uint32_t place; /* and its place among the variables there */
  Dim **bounds;   /* dimlinear.c's: polynomials that are never negative */
  uint32_t bound_count;
};

struct DimAtoms {
  Atom **slots; /* open addressing; capacity a power of two */
  uint32_t len, cap, next;
  uint64_t epoch;
  uint64_t forgotten; /* how many solved metas were */
  Mono *unit; /* no powers */
  Dim *zero;
  Dim *ints[272]; /* -16 .. 255 */
};

NORETURN void dim_too_big(DimCtx *cx);
struct DimAtoms *dim_atoms(DimCtx *cx);
/* The Dim of count sorted terms without zero coefficients; copies them. */
Dim *dim_make(DimCtx *cx, const Term *at, uint32_t count);
/* Sorts terms, in place, and adds up those of one monomial. */
Dim *dim_collect(DimCtx *cx, Term *at, uint32_t count);
Dim *dim_of_num(DimCtx *cx, Num n);
Dim *dim_of_term(DimCtx *cx, Num coef, const Mono *mono);
Dim *dim_scale(DimCtx *cx, Dim *d, Num by);
int dim_mono_cmp(const Mono *a, const Mono *b); /* < 0: a stands first */
uint32_t dim_mono_hash(const Mono *mono);
Num dim_coef(const Dim *d, const Mono *mono); /* 0 when absent */
Num dim_constant(const Dim *d);               /* its constant term */
/* Never negative for sizes: structurally, without facts. */
bool dim_atom_nonneg(const Atom *atom);
bool dim_mono_nonneg(const Mono *mono);
bool dim_obviously_nonneg(const Dim *d);
/* dimwalk.c: visits the variables and unsolved products of d that the walk of
 * this epoch has not seen yet. */
uint64_t dim_epoch(DimCtx *cx);
void dim_each_leaf(const Dim *d, uint64_t epoch, void (*f)(void *, Atom *),
                   void *arg);

#endif
