/* dim: sizes as polynomials, and reasoning about them under assumptions.
 *
 * A Dim is an immutable polynomial in canonical form, with integer coefficients
 * over atoms.  An atom is a variable, the product of a shape variable, a floor
 * division, a minimum or a maximum.  The operands of an atom are polynomials.
 * Coefficients are int64 until they overflow; then bigint.c uses GMP's mpn_
 * functions on limbs in the arena, so nothing has to be freed.  Two Dims that
 * denote the same polynomial are equal by dim_equal.  Structure is shared
 * freely.
 *
 * Main entry points: dim_check_ge0 and dim_check_eq0 decide a claim;
 * dim_solve_for_meta solves an equation. */
#ifndef AXON_SIZE_DIM_H
#define AXON_SIZE_DIM_H

#include "support/span.h"

#include <stdbool.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Dim Dim;
typedef struct DimVar DimVar;
typedef struct Sym Sym;

typedef enum DimVarKind {
  DV_META,        /* unification variable, to be solved */
  DV_SKOLEM,      /* skolem: the name of an annotation, or generalized */
  DV_EXISTENTIAL, /* existential: ?rows */
  DV_INDEX,       /* index of a `for`: 0 <= i < range */
} DimVarKind;

struct DimVar {
  DimVarKind kind;
  uint32_t id;    /* unique in a session; variables are printed in this order */
  uint32_t level; /* generalization level; owned by typecheck/ */
  Sym *name;      /* name in the source, or NULL */
  Span origin;    /* source span that introduced the variable */
  Dim *solution;  /* DV_META: the solution, or NULL */
  /* DV_META: forgotten, so no term is known (typecheck/unify.c) */
  bool unknown;
  bool from_unknown; /* DV_EXISTENTIAL: names a `?` of a type */
  bool reshape_hole; /* DV_META: the _ of a reshape; solved by division if
                        necessary */
  bool matmul_inner; /* inner dimension of some matrix product */
  bool dependent;    /* owned by typecheck/: depends on an existential size
                        through an equation of shapes of unknown rank */
  bool is_read;      /* dependent: running code reads it off a value */
  bool is_integer; /* any integer, possibly negative; otherwise a size, >= 0 */
  void *user_data; /* owned by typecheck/: supplies the value at run time */
  void *solved_by; /* owned by typecheck/: the constraint that caused the
                      solution, or NULL */
  const char *printed_name; /* short name chosen for printing */
  Dim *as_dim;              /* cached by polynomial.c: this variable as a Dim */
  struct Watcher *watchers; /* owned by typecheck/: constraints to retry once
                               this is solved */
  Dim *resolved;            /* cached by substitute.c: the resolved solution */
  uint64_t resolved_generation;     /* valid while the counter equals this: no
                                       variable was forgotten since */
  uint64_t resolved_solution_count; /* DimCtx.solution_count at that time */
};

/* A shape variable.  This module only knows its product. */
typedef struct ShapeVar ShapeVar;

typedef struct DimCtx { /* one per session */
  Arena *arena;
  uint32_t next_id;
  /* Callbacks of the owner. shape_product returns the product of the solution
     of a shape variable as a Dim, or NULL while it is unsolved. shape_name
     returns its name for printing. */
  Dim *(*shape_product)(void *owner, ShapeVar *var);
  const char *(*shape_name)(void *owner, ShapeVar *var);
  uint32_t (*shape_id)(void *owner, ShapeVar *var); /* a unique number */
  void *owner;
  /* Called when a polynomial exceeds a limit (internal.h; for example thousands
     of terms).  The owner emits a diagnostic; then FAIL_LIMIT is raised.  May
     be NULL. */
  void (*limit_exceeded)(void *owner);
  bool has_wide_numbers; /* some number did not fit in 64 bits */
  /* Counts solved metas and shape variables that terms already mentioned when
     they were solved.  The owner increments it.  dim_resolve keeps its results
     while it stays the same. */
  uint64_t solution_count;
  struct DimAtomTable *atom_table; /* owned by polynomial.c; initially NULL */
  struct QueryMemo *query_memo;    /* owned by query_memo.c; initially NULL */
} DimCtx;

DimVar *dim_new_var(DimCtx *cx, DimVarKind kind, Sym *name, Span origin);

Dim *dim_int(DimCtx *cx, int64_t n);
Dim *dim_parse(DimCtx *cx, const char *digits); /* "-12", "0xff", any length */
Dim *dim_of_var(DimCtx *cx, DimVar *var);
Dim *dim_of_prod(DimCtx *cx, ShapeVar *var); /* prod(s) */
Dim *dim_add(DimCtx *cx, Dim *a, Dim *b);
Dim *dim_sub(DimCtx *cx, Dim *a, Dim *b);
Dim *dim_neg(DimCtx *cx, Dim *a);
Dim *dim_mul(DimCtx *cx, Dim *a, Dim *b);
/* Floor division and its remainder.  Normal form: multiples of the divisor move
   out of the quotient; (n/a)/b becomes n/(a*b) for positive constants; n % d
   becomes n - d*(n/d); common constant factors cancel.  Exact polynomial
   division is done: (b*784)/784 becomes b.  (n*m)/m becomes n, since sizes that
   divide are at least 1. */
Dim *dim_div(DimCtx *cx, Dim *a, Dim *b);
Dim *dim_mod(DimCtx *cx, Dim *a, Dim *b);
/* An unguarded division: a/b on integers, where 1 <= b is not yet required.  A
   caller that makes a size, an assumption or a constraint of the term adds that
   condition. */
Dim *dim_div_unguarded(DimCtx *cx, Dim *a, Dim *b);
bool dim_has_unguarded_div(const Dim *d);
/* Calls f for each divisor in d that is not a positive number; if `unguarded`,
   only for divisors of unguarded divisions. */
void dim_each_divisor(DimCtx *cx, const Dim *d, bool unguarded,
                      void (*f)(void *, Dim *), void *arg);
/* True if d contains a division by 0 or a negative number. */
bool dim_divides_by_zero(DimCtx *cx, const Dim *d);
/* flattens, sorts, and folds constants and operands with a known difference */
Dim *dim_min(DimCtx *cx, Dim *a, Dim *b);
Dim *dim_max(DimCtx *cx, Dim *a, Dim *b);

/* Replaces solved metas and products of solved shapes, at any depth.  Returns a
   Dim without any of these unchanged, and quickly. */
Dim *dim_resolve(DimCtx *cx, Dim *d);
/* Replaces variables. f returns the new Dim, or NULL to keep the variable. g
   does the same for products of shape variables; it may be NULL. */
Dim *dim_subst(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
               Dim *(*g)(void *, ShapeVar *), void *arg);
/* The same for many sizes.  The functions must always return the same for a
   variable, so results are reused.  *epoch identifies them; it is initially
   0. */
Dim *dim_subst_consistently(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
                            Dim *(*g)(void *, ShapeVar *), void *arg,
                            uint64_t *epoch);

/* resolve both with dim_resolve first */
bool dim_equal(const Dim *a, const Dim *b);
uint32_t dim_hash(const Dim *d); /* equal for equal polynomials */
bool dim_equal_up_to_sign(DimCtx *cx, Dim *a, Dim *b);
/* true for a constant that fits */
bool dim_is_int(const Dim *d, int64_t *value);
bool dim_is_const(const Dim *d);
/* true if every term is a constant times at most one atom */
bool dim_is_linear(const Dim *d);
int64_t dim_offset(const Dim *d); /* the constant term; 0 if it does not fit */
/* The greatest common divisor of all coefficients except the constant term.  0
   if there are no such coefficients or it does not fit. */
int64_t dim_content(DimCtx *cx, const Dim *d);
/* true if d has metas or products of shapes */
bool dim_has_metas(const Dim *d);
bool dim_has_products(const Dim *d); /* true if d has products of shapes */
int dim_sign(const Dim *d); /* sign of a constant; 1 if d is not constant */
/* the variable if d is exactly one, otherwise NULL */
DimVar *dim_as_var(const Dim *d);
bool dim_mentions(DimCtx *cx, Dim *d, const DimVar *var); /* at any depth */
/* Calls f for every variable at any depth, and g for every product of a shape
   variable. */
void dim_each_var(const Dim *d, void (*f)(void *, DimVar *),
                  void (*g)(void *, ShapeVar *), void *arg);
/* true if d mentions a forgotten variable */
bool dim_has_unknown(const Dim *d);
bool dim_any_unknown(DimCtx *cx); /* false if no variable was ever forgotten */
void dim_set_unknown(DimCtx *cx, DimVar *var); /* sets `unknown` of a meta */
/* Replaces or (NULL) removes the solution of var.  Invalidates resolved
   forms. */
void dim_replace_solution(DimCtx *cx, DimVar *var, Dim *solution);

/* ---- evaluation and printing ---- */

/* Postfix form for other modules: how to compute d from its variables.  DOP_INT
   pushes num, DOP_VAR pushes var, DOP_PROD pushes the product of shape.  Each
   other operation pops two values and pushes one. */
typedef enum DimOpKind {
  DOP_INT,
  DOP_VAR,
  DOP_PROD,
  DOP_ADD,
  DOP_SUB,
  DOP_MUL,
  DOP_DIV,
  DOP_MIN,
  DOP_MAX,
} DimOpKind;
typedef struct DimOp {
  DimOpKind kind;
  int64_t num;
  DimVar *var;
  ShapeVar *shape;
} DimOp;
/* Returns NULL if a coefficient does not fit in int64. */
DimOp *dim_postfix(DimCtx *cx, const Dim *d, uint32_t *count);

/* Prints "n - k + 1", "2*n", "(h - k)/s + 1" or "prod(s)". */
void dim_print(DimCtx *cx, Buffer *out, const Dim *d);
/* Splits d == slope*v + rest, where v occurs in neither.  Returns false if that
   is impossible. */
bool dim_split_linear(DimCtx *cx, Dim *d, DimVar *v, Dim **slope, Dim **rest);
/* The result with a == result*b; NULL if the division is not exact. */
Dim *dim_exact_quotient(DimCtx *cx, Dim *a, Dim *b);
enum { DIM_MAX_FACTORS = 16 }; /* maximum number of factors returned */
/* Splits d == slope*(num/den) + rest, where v occurs in num or den. */
typedef struct FloorDivision {
  Dim *num, *den, *coef, *rest;
} FloorDivision;
bool dim_split_division(DimCtx *cx, Dim *d, DimVar *v, FloorDivision *out);
/* True if d or -d is num - den*(num/den). */
bool dim_is_remainder(DimCtx *cx, Dim *d, Dim **num, Dim **den);
/* Finds exact divisions that are equivalent to a == b: each num must be a
   multiple of its den, as in n*m and d*(n/d) * e*(m/e).  Sizes are assumed to
   be at least 1.  Returns their number, or 0 if a and b do not have this
   form. */
uint32_t dim_exact_divisions(DimCtx *cx, Dim *a, Dim *b,
                             FloorDivision out[DIM_MAX_FACTORS]);
/* True if a nonzero d can only be 0 where some size is 0: all its terms are
   products of sizes with one sign. */
bool dim_vanishes_only_at_zero(const Dim *d);
/* Returns d with den*(num/den) replaced by num.  Requires that den divides
   num. */
Dim *dim_cancel_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den);
/* Returns d times a power of den, without num/den.  Requires that den divides
   num.  Returns d if it does not contain num/den. */
Dim *dim_eliminate_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den);
/* Returns d after replacing a product by means of the equation eq == 0.  The
   product is the n-th term of eq.  Returns d unchanged if that term is not a
   product, and NULL if eq has at most n terms. */
Dim *dim_reduce_modulo(DimCtx *cx, Dim *d, Dim *eq, uint32_t n);
/* True if d is a single quotient. */
bool dim_as_quotient(const Dim *d, Dim **num, Dim **den);
/* True if d contains a division by this divisor. */
bool dim_has_divisor(const Dim *d, const Dim *divisor);
/* Finds factors of d that are linear in some variable.  Returns their number,
   at most DIM_MAX_FACTORS, or 1 if d does not factor.  The product of the
   factors is d. */
uint32_t dim_factor(DimCtx *cx, Dim *d, Dim *out[DIM_MAX_FACTORS]);
/* A condition equivalent to d >= 0: multiplies out divisions that stand alone,
   and divides out common factors. */
Dim *dim_simplify_ge(DimCtx *cx, Dim *d);
/* Splits d >= 0 into equivalent conjuncts: 1 <= n*m into conditions on the
   factors, max(n, m) <= k into conditions on the operands.  Returns their
   number; 1 if d itself is the only one. nonneg decides the sign of variables
   that are not sizes. */
uint32_t dim_ge_conjuncts(DimCtx *cx, Dim *d, bool (*nonneg)(void *, Dim *),
                          void *arg, Dim *out[DIM_MAX_FACTORS]);
/* True if some monomial occurs in both. */
bool dim_share_monomial(const Dim *a, const Dim *b);
/* Splits d == pos - neg, both without negative coefficients.  Used to print
   relations. */
void dim_split_signs(DimCtx *cx, Dim *d, Dim **pos, Dim **neg);
/* The name of a variable: its printed_name, otherwise its own name, otherwise
   "n12". */
const char *dim_var_name(DimCtx *cx, const DimVar *var);

/* ---- solving equations ---- */

typedef enum Verdict { UNDECIDED, ENTAILED, CONTRADICTED } Verdict;

/* Tries to satisfy d == 0 by solving one meta that occurs linearly with
   coefficient +1 or -1 and nowhere else in d. can(arg, var) says which metas
   may be solved; NULL allows all.  On success, sets *var and *value and returns
   true; the caller binds the variable.  Prefers the newest meta (largest
   id). */
bool dim_solve_for_meta(DimCtx *cx, Dim *d, bool (*can)(void *, DimVar *),
                        void *arg, DimVar **var, Dim **value);

/* Divides d == 0 by the common factors of its terms: the constant content, and
   symbolic factors.  For example, b*784 - b*m becomes 784 - m.  A size variable
   that divides every term cancels although it may be 0 (doc/language.md). */
Dim *dim_cancel_common_factor(DimCtx *cx, Dim *d);
Dim *dim_common_factor(DimCtx *cx, Dim *d); /* the factors that this removes */
/* True if the common factor contains a quotient, minimum or maximum, which may
   be 0 even if all sizes are at least 1. */
bool dim_common_factor_may_vanish(DimCtx *cx, Dim *d);
/* True if d is a constant or a product of factors that may be cancelled. */
bool dim_is_cancellable_factor(DimCtx *cx, const Dim *d);

/* ---- systems of equations: linear_diophantine.c ---- */

/* A system of equations over the integers.  Each nonlinear monomial is an
   unknown of its own. */
typedef struct DimSystem DimSystem;
typedef struct DimSolution {
  DimVar *var;        /* unsolved meta */
  Dim *value;         /* does not mention var */
  uint64_t equations; /* bit n % 64 is set if the n-th equation was used */
} DimSolution;
DimSystem *dim_system_new(DimCtx *cx);
/* Adds d == 0.  Returns false if the system has no integer solution any
   more. */
bool dim_system_add(DimSystem *s, Dim *d);
/* After a false: the equations that contradict each other, as bits like
   above. */
uint64_t dim_system_unsat_core(const DimSystem *s);
/* Iterates over the solved metas. *at is initially 0. */
bool dim_system_next(const DimSystem *s, uint32_t *at, DimSolution *out);

/* ---- what is known ---- */

typedef struct Assumptions Assumptions;
/* A stack of assumptions, for the scopes of `if` branches and `for` bodies.  It
   can be extended, and can backtrack to a mark.  An assumption follows the
   solutions of its metas.  While it is on the stack, no solution may be
   retracted or forgotten (`unknown`).  If assumptions contradict each other,
   any claim may be ENTAILED. */
Assumptions *assumptions_new(DimCtx *cx);
uint32_t assumptions_mark(const Assumptions *assumptions);
void assumptions_backtrack(Assumptions *assumptions, uint32_t mark);
void assumptions_add_ge(Assumptions *assumptions, Dim *d); /* d >= 0 */
void assumptions_add_eq(Assumptions *assumptions, Dim *d); /* d == 0 */
/* Disables or enables the assumption at position `at`. */
void assumptions_set_disabled(Assumptions *assumptions, uint32_t at,
                              bool disabled);
bool assumptions_inconsistent(
    Assumptions *assumptions); /* provably no solution */
/* Models of the assumptions; NULL if a short search finds none. */
typedef struct Witness Witness;
Witness *assumptions_find_witness(Assumptions *assumptions);
/* The assumption at this position may be violated. */
void witness_set_disabled(Witness *w, uint32_t at, bool disabled);
/* True if a model of the enabled assumptions violates d >= 0, or d == 0: they
   do not entail it. */
bool witness_refutes(Witness *w, Dim *d, bool eq);
/* Finds models that answer many queries faster until the assumptions change. */
void assumptions_expect_queries(Assumptions *assumptions);
/* Lets queries give up early with UNDECIDED.  Used for many queries whose
   answers are optional. */
void assumptions_set_low_effort(Assumptions *assumptions, bool low_effort);
/* Resets the effort limit of a declaration.  Once it is used up, queries give
   up early too. */
void assumptions_renew_effort(Assumptions *assumptions);

/* Decides d >= 0 or d == 0 over the integers.  Uses the assumptions, `var >= 0`
 * for every size variable, 0 <= a - b*(a/b) <= b - 1 and 1 <= b for each
 * division, and bounds of minima, maxima and products.  A product of two
 * non-negative sizes is non-negative.  Method: Fourier-Motzkin elimination with
 * integer tightening; an effort limit ends it with UNDECIDED.
 *
 *   ENTAILED:      holds for all values that satisfy the assumptions.
 *   CONTRADICTED:  holds for none of them.  With at_least_one, values are
 *                  only considered if every size variable that is not
 *                  existential is at least 1.
 *
 * Metas are treated as universally quantified variables. */
Verdict dim_check_ge0(Assumptions *assumptions, Dim *d, bool at_least_one);
Verdict dim_check_eq0(Assumptions *assumptions, Dim *d, bool at_least_one);
/* True if d >= 0 (or d == 0 if eq) is ENTAILED.  Half the work of a full
   check. */
bool dim_entailed(Assumptions *assumptions, Dim *d, bool eq);

/* Searches for small sizes that satisfy the assumptions and make d != 0 (eq) or
   d < 0 (otherwise).  On success, writes a counterexample such as "h = 350" or
   "n = 2, m = 3" and returns true.  It is verified by evaluation. */
bool dim_counterexample(Assumptions *assumptions, Dim *d, bool eq, Buffer *out);

#endif
