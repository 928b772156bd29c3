/* dim: sizes as polynomials, and what is known of them.
 *
 * A Dim is an immutable canonical polynomial with integer coefficients over
 * atoms.  An atom is a variable, or a floor division, a minimum or maximum, or
 * the product of a shape variable, whose operands are polynomials again.
 * Coefficients are int64 until they overflow, then GMP's mpn_ functions on
 * limbs in the arena: nothing to free.  Two Dims that denote the same
 * polynomial are equal by dim_equal; structure is shared freely.
 *
 * bigint.c alone touches GMP. */
#ifndef AXON_SIZE_DIM_H
#define AXON_SIZE_DIM_H

#include "support/support.h"

typedef struct Dim Dim;
typedef struct DimVar DimVar;

typedef enum DimVarKind {
  DV_META,   /* to be solved */
  DV_SKOLEM, /* stands for every size: an annotation's name, or generalised */
  DV_EXISTENTIAL, /* decided by data: ?rows */
  DV_INDEX,       /* of a `for`: 0 <= i < range */
} DimVarKind;

struct DimVar {
  DimVarKind kind;
  uint32_t id;       /* unique in a session; the order of printing */
  uint32_t level;    /* generalisation level; typecheck's */
  Sym *name;         /* as the user wrote it, or NULL */
  Span origin;       /* where it came from */
  Dim *solution;     /* DV_META: its solution; or NULL */
  bool unknown;      /* forgotten: no known term (see typecheck/unify.c) */
  bool from_unknown; /* DV_EXISTENTIAL: it names a `?` of a type */
  bool maybe_star;   /* of the axis that a literal ~axis names, or an index */
  bool is_star;      /* literal, and bound to 1: the axis is a * */
  bool never_star;   /* literal: it met an axis of a size, so it is no * */
  bool reshape_hole; /* the _ of a reshape: solved by division if need be */
  bool matmul_inner; /* an inner dimension of some matrix product */
  bool is_integer;   /* may be any integer, also negative; else a size, >= 0 */
  void *user_data;   /* typecheck's: who supplies it at run time */
  void *solved_by;   /* typecheck's: what demanded its solution; or NULL */
  const char *
      printed_name; /* what a fresh short name was chosen to be, for printing */
  Dim *as_dim;      /* polynomial.c's: this variable as a Dim */
  struct Watcher *watchers; /* typecheck's: what to try when it is solved */
  Dim *resolved; /* substitute.c's: `bound`, as it was last resolved, while */
  uint64_t resolved_generation;     /* nothing has been forgotten since, */
  uint64_t resolved_solution_count; /* and what DimCtx's said then: is it
                                       resolved still? */
};

/* A shape variable, seen from here only as something with a product. */
typedef struct ShapeVar ShapeVar;

typedef struct DimCtx { /* one per session */
  Arena *arena;
  uint32_t next_id;
  /* Supplied by the owner: the solution's product of a shape variable as a
   * Dim, or NULL while it has none; and its name for printing. */
  Dim *(*shape_product)(void *owner, ShapeVar *var);
  const char *(*shape_name)(void *owner, ShapeVar *var);
  uint32_t (*shape_id)(void *owner, ShapeVar *var); /* unique */
  void *owner;
  /* A polynomial passed a limit (internal.h: thousands of terms, ...).  The
   * owner emits a diagnostic; then FAIL_LIMIT is raised.  May be NULL. */
  void (*limit_exceeded)(void *owner);
  /* The owner counts here each meta and each shape variable that was given its
   * solution after terms had come to mention it. */
  uint64_t solution_count;
  struct DimAtomTable *atom_table; /* polynomial.c's; NULL at first */
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
/* Floor division and its remainder.  Normal form: multiples of the divisor
 * move out, (n/a)/b is n/(a*b) for positive constants, n % d is n - d*(n/d),
 * a common constant factor cancels; exact polynomial division is done
 * ((b*784)/784 is b; (n*m)/m is n: sizes that divide are at least 1). */
Dim *dim_div(DimCtx *cx, Dim *a, Dim *b);
Dim *dim_mod(DimCtx *cx, Dim *a, Dim *b);
/* a/b as a mere integer: nobody has asked for 1 <= b.  A term with such a
 * division is soft; who makes a size, a fact or a demand of it asks. */
Dim *dim_div_unguarded(DimCtx *cx, Dim *a, Dim *b);
bool dim_has_unguarded_div(const Dim *d);
/* Calls f for each divisor in d that is not constant, or for those of soft
 * divisions. */
void dim_each_divisor(DimCtx *cx, const Dim *d, bool unguarded,
                      void (*f)(void *, Dim *), void *arg);
Dim *dim_min(DimCtx *cx, Dim *a, Dim *b); /* flattened, sorted, constants and
                                             known differences folded */
Dim *dim_max(DimCtx *cx, Dim *a, Dim *b);

/* Replaces solved metas (and products of solved shapes), everywhere inside.
 * A Dim without any is returned as it is, quickly. */
Dim *dim_resolve(DimCtx *cx, Dim *d);
/* Replaces variables: f gives the new Dim or NULL to keep one; g likewise for
 * products of shape variables (may be NULL). */
Dim *dim_subst(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
               Dim *(*g)(void *, ShapeVar *), void *arg);

bool dim_equal(const Dim *a, const Dim *b);    /* after dim_resolve of both */
bool dim_is_int(const Dim *d, int64_t *value); /* constant that fits */
bool dim_is_const(const Dim *d);
bool dim_is_linear(const Dim *d); /* in atoms: it has constant factors alone */
/* The greatest common divisor of all coefficients but the constant; 0: there
 * are none, or it does not fit. */
int64_t dim_content(DimCtx *cx, const Dim *d);
bool dim_has_metas(const Dim *d); /* has metas, or products of shapes */
int dim_sign(const Dim *d);       /* of a constant; 1 for what is none */
DimVar *dim_as_var(const Dim *d); /* exactly one variable, or NULL */
bool dim_mentions(DimCtx *cx, Dim *d, const DimVar *var); /* at any depth */
/* Calls f for every variable at any depth (g for every product). */
void dim_each_var(const Dim *d, void (*f)(void *, DimVar *),
                  void (*g)(void *, ShapeVar *), void *arg);
bool dim_has_unknown(const Dim *d); /* mentions a forgotten variable */
void dim_set_unknown(DimCtx *cx, DimVar *var); /* sets `top` of a meta */

/* ---- evaluation and printing ---- */

/* A walk for other rooms, in postfix order: how to compute d from variables.
 * DOP_INT pushes num, DOP_VAR var, DOP_PROD the product of shape; the others
 * pop two and push one. */
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
/* NULL when a coefficient does not fit in int64. */
DimOp *dim_postfix(DimCtx *cx, const Dim *d, uint32_t *count);

/* "n - k + 1", "2*n", "(h - k)/s + 1", "prod(s)". */
void dim_print(DimCtx *cx, Buffer *out, const Dim *d);
/* d == slope*v + rest, v in neither; false: it is not so. */
bool dim_split_linear(DimCtx *cx, Dim *d, DimVar *v, Dim **slope, Dim **rest);
/* a == result*b exactly; NULL: it is not so. */
Dim *dim_exact_quotient(DimCtx *cx, Dim *a, Dim *b);
enum { DIM_MAX_FACTORS = 16 }; /* at most */
/* d == slope*(num/den) + rest where v stands in num or den. */
typedef struct FloorDivision {
  Dim *num, *den, *coef, *rest;
} FloorDivision;
bool dim_split_division(DimCtx *cx, Dim *d, DimVar *v, FloorDivision *out);
/* d == num - den*(num/den), or the negative of it. */
bool dim_is_remainder(DimCtx *cx, Dim *d, Dim **num, Dim **den);
/* Are a and b equal just if some num are divided by their den without rest, as
 * n*m and d*(n/d) * e*(m/e) are?  How many (where sizes are at least 1); 0: no
 * such thing. */
uint32_t dim_exact_divisions(DimCtx *cx, Dim *a, Dim *b,
                             FloorDivision out[DIM_MAX_FACTORS]);
/* Is d, which is not 0, 0 just where sizes are: all of its terms are products
 * of sizes, with one sign? */
bool dim_vanishes_only_at_zero(const Dim *d);
/* d, where den divides num: num for den*(num/den). */
Dim *dim_cancel_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den);
/* d times a power of den, without num/den, where den divides num; or d, where
 * that is not in it. */
Dim *dim_eliminate_exact_division(DimCtx *cx, Dim *d, Dim *num, Dim *den);
/* d with a product put in as eq, which is 0, says: its n-th term, if that is a
 * product.  NULL: there are not so many terms. */
Dim *dim_reduce_modulo(DimCtx *cx, Dim *d, Dim *eq, uint32_t n);
/* Is d just a quotient? */
bool dim_as_quotient(const Dim *d, Dim **num, Dim **den);
/* Does something in d stand over this divisor? */
bool dim_has_divisor(const Dim *d, const Dim *divisor);
/* Its factors, as far as they are found: those in which some variable is
 * linear.  At most DIM_MAX_FACTORS, 1 if it does not factor; their product is
 * d. */
uint32_t dim_factor(DimCtx *cx, Dim *d, Dim *out[DIM_MAX_FACTORS]);
/* An equivalent of d >= 0: divisions that stand alone multiplied out, common
 * factors divided out. */
Dim *dim_simplify_ge(DimCtx *cx, Dim *d);
/* d >= 0 just where each of these is: the factors of 1 <= n*m, what stands in
 * max(n, m) <= k.  How many: 1 if it is d itself.  nonneg is asked about
 * variables that are no sizes. */
uint32_t dim_ge_conjuncts(DimCtx *cx, Dim *d, bool (*nonneg)(void *, Dim *),
                          void *arg, Dim *out[DIM_MAX_FACTORS]);
/* Is there a monomial that both have? */
bool dim_share_monomial(const Dim *a, const Dim *b);
/* d == pos - neg, both without negative coefficients: to print relations. */
void dim_split_signs(DimCtx *cx, Dim *d, Dim **pos, Dim **neg);
/* The name of a variable: var->printed_name, else its own, else "n12". */
const char *dim_var_name(DimCtx *cx, const DimVar *var);

/* ---- solving equations ---- */

typedef enum Verdict { UNDECIDED, ENTAILED, CONTRADICTED } Verdict;

/* Tries to make d == 0 true by solving one meta that occurs linearly with
 * coefficient +1 or -1 and nowhere else in d (`can(arg, var)` says which metas
 * may be solved; NULL: all).  On success sets *var and *value (the caller
 * binds) and returns true.  Prefers the newest meta (largest id). */
bool dim_solve_for_meta(DimCtx *cx, Dim *d, bool (*can)(void *, DimVar *),
                        void *arg, DimVar **var, Dim **value);

/* d == 0, divided by what it has in common: constant content, and symbolic
 * factors (b*784 - b*m gives 784 - m: a size variable that divides every term
 * cancels although it may be 0, as doc/language.md has it). */
Dim *dim_cancel_common_factor(DimCtx *cx, Dim *d);
Dim *dim_common_factor(DimCtx *cx, Dim *d); /* what it has in common */
/* Is a quotient or the like among that, 0 also for sizes of at least 1? */
bool dim_common_factor_may_vanish(DimCtx *cx, Dim *d);
/* Is d a constant or a product of such factors? */
bool dim_is_cancellable_factor(DimCtx *cx, const Dim *d);

/* ---- equations solved together: linear_diophantine.c ---- */

/* A system of equations over the integers; what is not linear in one is an
 * unknown of its own. */
typedef struct DimSystem DimSystem;
typedef struct DimSolution {
  DimVar *var;        /* an unsolved meta */
  Dim *value;         /* which does not mention it */
  uint64_t equations; /* the n-th equation that was added is bit n % 64 */
} DimSolution;
DimSystem *dim_system_new(DimCtx *cx);
/* d == 0.  False: no integers satisfy it with those before. */
bool dim_system_add(DimSystem *s, Dim *d);
/* Then: which equations contradict each other, bits as above. */
uint64_t dim_system_unsat_core(const DimSystem *s);
/* The metas that are solved, one after the other: *at is 0 at first. */
bool dim_system_next(const DimSystem *s, uint32_t *at, DimSolution *out);

/* ---- what is known ---- */

typedef struct Assumptions Assumptions;
/* A set of facts that can be extended and goes back to an earlier state:
 * scopes of `if` branches and `for` bodies.  A fact follows the solutions of
 * its metas; while it stands, a solution is neither taken back nor forgotten
 * (`top`).  From facts that contradict each other anything may be PROVED. */
Assumptions *assumptions_new(DimCtx *cx);
uint32_t assumptions_mark(const Assumptions *assumptions);
void assumptions_backtrack(Assumptions *assumptions, uint32_t mark);
void assumptions_add_ge(Assumptions *assumptions, Dim *d); /* d >= 0 */
void assumptions_add_eq(Assumptions *assumptions, Dim *d); /* d == 0 */
/* The fact added after `at` others is left out, or no longer. */
void assumptions_set_disabled(Assumptions *assumptions, uint32_t at,
                              bool disabled);
bool assumptions_inconsistent(
    Assumptions *assumptions); /* provably no solution */
/* Queries may end in OPEN early: for many that nothing depends on. */
void assumptions_set_low_effort(Assumptions *assumptions, bool low_effort);
/* So much effort as a declaration may take in all is there again; when it is
 * used up, queries end early too. */
void assumptions_renew_effort(Assumptions *assumptions);

/* Integer reasoning over the facts, over `var >= 0` for every size variable,
 * over 0 <= a - b*(a/b) <= b - 1 and 1 <= b for each division atom, and over
 * the bounds of min, max and products that occur: Fourier-Motzkin with integer
 * tightening, with an effort limit that ends in OPEN.  Products of two sizes
 * that are non-negative are non-negative.
 *   PROVED:  holds for all values that satisfy the facts.
 *   REFUTED: holds for none of them (`at_least_one`: for none where every size
 *            variable but those of data is at least 1).
 * Metas count as variables that stand for every value. */
Verdict dim_check_ge0(Assumptions *assumptions, Dim *d, bool at_least_one);
Verdict dim_check_eq0(Assumptions *assumptions, Dim *d, bool at_least_one);
/* Whether d >= 0, or d == 0, is PROVED: half the work. */
bool dim_entailed(Assumptions *assumptions, Dim *d, bool eq);

/* Looks for small sizes that satisfy the facts and make d != 0 (eq) or d < 0
 * (ge): a witness for an error message, verified by evaluation.  Writes
 * "h = 350" or "n = 2, m = 3" and returns true, or returns false. */
bool dim_counterexample(Assumptions *assumptions, Dim *d, bool eq, Buffer *out);

#endif
