/* The solver of the checker: constraints on sizes and shapes, unification,
   assumptions.  Main entry points: add_constraint and unify. */
#ifndef AXON_TYPECHECK_SOLVER_H
#define AXON_TYPECHECK_SOLVER_H

#include "support/span.h"
#include "typecheck/types.h"

typedef struct Sym Sym;

/* ---- solve.c ---- */
Origin *origin_new(Checker *c, OriginKind kind, Span span);
/* adds, and tries to solve immediately */
void add_constraint(Checker *c, Constraint k);
void add_size_eq(Checker *c, Dim *a, Dim *b, Origin *o);
void add_size_le(Checker *c, Dim *a, Dim *b, Origin *o);
void add_broadcast(Checker *c, Shape *result, uint32_t n, Shape **args,
                   Origin *o);
void solve_pending(Checker *c);
void solve_residual(Checker *c); /* called at the end of a declaration */

/* ---- solver_wakeup.c ---- */
void pending_add(Checker *c, Constraint *k);
void pending_clear(Checker *c);
/* Suspends k: it is not retried until a variable in it changes. */
void wakeup_suspend(Checker *c, Constraint *k);
void wakeup_dim_solved(Checker *c, DimVar *v);
void wakeup_shape_solved(Checker *c, ShapeVar *v, const Shape *s);
void wakeup_all(Checker *c);
Constraint *wakeup_find_definer(Checker *c, ShapeVar *v, ConstraintKind kind);

/* ---- assumptions.c ---- */
/* Loads the assumptions for the goal d >= 0. */
void assumption_load_for(Checker *c, const Assumption *assumptions, Dim *d);
void assumption_add(Checker *c, Dim *d, bool eq);
/* A copy of an assumption inside of others. */
Assumption *assumption_copy(Checker *c, const Assumption *f, Assumption *outer);
void assumption_add_unconditional(Checker *c, Dim *d, bool eq);
/* Begins a control region: a part of the program, such as a branch or the body
   of a function, that may not run although its surroundings do.  A run-time
   check inside it proves nothing outside.  Returns the outer region, for
   control_region_end. */
uint32_t control_region_begin(Checker *c);
void control_region_end(Checker *c, uint32_t outer);
bool assumption_is_condition(const Assumption *f); /* f may be false */
/* True if f and g state the same; d == 0 and -d == 0 do. */
bool assumption_equal(Checker *c, const Assumption *f, const Assumption *g);
bool assumption_has_condition(const Assumption *f);
bool assumption_in_scope(const Assumption *chain, const Assumption *outer);
Verdict assumption_loaded_check_ge0(Checker *c, Dim *d, bool at_least_one);
bool assumption_loaded_entails(Checker *c, Dim *d, bool eq);
Verdict assumption_check_le(Checker *c, Dim *a, Dim *b);
bool assumption_inconsistent(
    Checker *c, const Assumption *assumptions); /* one may contradict another */
bool constraint_is_vacuous(Checker *c,
                           Constraint *k); /* k cannot be violated */
bool constraint_may_be_vacuous(Checker *c, const Constraint *k);

/* ---- unify.c ---- */
/* Returns false after a mismatch, which the caller reports
   (report_type_mismatch). */
bool unify(Checker *c, Type *a, Type *b, Origin *o);
/* Requires that a loop can stack the values of t; otherwise reports an error
   and returns false. */
bool require_stackable(Checker *c, Type *t, Origin *o);
/* The same for: all floats of t have one type, so that there is a cast of t. */
bool require_one_float_type(Checker *c, Type *t, Origin *o);
/* Adds numbers that have the element type of e. */
void literal_merge(Checker *c, ElemVar *e, const UnfitNumber *list);
/* True if the size of a literal axis or an index may turn out to be a *. */
bool axis_may_be_star(Checker *c, const ShapeAxis *it);
void unify_stretch(const ShapeAxis *a, const ShapeAxis *b);
bool unify_elem(Checker *c, ElemVar *a, ElemVar *b);
/* Unifies the element types of two tensors.  Records the use that determines
   the element type of a global value. */
bool unify_tensor_elems(Checker *c, const Type *a, const Type *b,
                        const Origin *o);
/* Called before a change of e. */
void global_elem_save(Checker *c, ElemVar *e);
bool unify_shape(Checker *c, const Shape *a, const Shape *b, Origin *o);
/* The variable that d consists of, if it is an integer or a size that is
   unsolved or retractable; otherwise NULL. */
DimVar *unsolved_singleton(Dim *d);
/* Retracts the solution of v.  Proofs that used it become void. */
void retract_singleton(Checker *c, DimVar *v);
bool unify_singleton(Checker *c, Dim *a, Dim *b, Origin *o);
/* Lowers the levels of the variables in t to the current level, so that they
   are not generalized before it is left. */
void ty_adjust_levels(Checker *c, Type *t);
void dim_bind(Checker *c, DimVar *v, Dim *d);
void shape_bind(Checker *c, ShapeVar *v, Shape *s);

/* ---- solve_size.c: sizes; solve_broadcast.c: shapes ---- */
typedef struct VarKinds { /* the kinds of variables that occur */
  bool meta, existential, skolem, index, unknown;
} VarKinds;
VarKinds dim_var_kinds(Checker *c, Dim *d);
/* The kinds of variables in the path conditions of a constraint. */
VarKinds condition_var_kinds(Checker *c, const Constraint *k);
/* Solves v as the constraint k requires. */
Verdict bind_solution(Checker *c, Constraint *k, DimVar *v, Dim *value);
/* True if the two sizes have no unsolved variables.  Then an equation that only
   holds for sizes of 0 is contradicted. */
bool constraint_has_final_sizes(Checker *c, const Constraint *k);
Verdict solve_size_eq(Checker *c, Constraint *k);
Verdict solve_size_le(Checker *c, Constraint *k);
Verdict solve_size_ne(Checker *c, Constraint *k);
Verdict solve_broadcast(Checker *c, Constraint *k);
Verdict solve_keep(Checker *c, Constraint *k);
Verdict solve_shape_eq(Checker *c, Constraint *k);

/* ---- skolem_escape.c ---- */
/* Which sizes the arguments of functions determine.  Each axis is an equation.
   If it is linear in one size and everything else is known, it determines that
   size. */
typedef struct KnownSizes {
  Checker *c;
  DimVarKind kind; /* of the sizes that have to be determined */
  VEC(Dim *) axes; /* of the parameters */
  Map known;       /* set of DimVars */
  bool all_known;  /* result of the last test */
} KnownSizes;
/* Adds the axes of a parameter. */
void known_sizes_add_axes(KnownSizes *f, Type *t);
void known_sizes_solve(KnownSizes *f);
/* True if the arguments of the functions being checked determine v.  `axis`, if
   not NULL, is an axis of one of them, too. */
bool params_determine_size(Checker *c, const DimVar *v, Dim *axis);
typedef struct FreedTerm { /* a size that was solved by a term */
  DimVar *size;
  Dim *term;
  Constraint *by; /* the constraint that solved it */
} FreedTerm;
typedef VEC(FreedTerm) FreedTerms;
/* True if v occurs in a parameter's type of a function being checked. */
bool dim_var_in_parameter(Checker *c, DimVar *v);
/* The same if equations of shapes of unknown rank determine v from one. */
bool dim_var_of_parameter(Checker *c, DimVar *v);
/* True if existential sizes arose in the bodies of the functions being
   checked.  Sizes of unknown rank may turn out to be these. */
bool bodies_have_existential(const Checker *c);
/* True if v := d is a skolem escape: a parameter's type would get a size that
   only the body knows. */
bool skolem_escapes(Checker *c, DimVar *v, Dim *d);
/* Called if v := d is a skolem escape.  If parameters only have terms of v,
 * which do not determine it, such as n % 2, each of these becomes a size of its
 * own, and v may become d.  Otherwise returns false.  After v was solved,
 * skolem_require_terms requires that these sizes are equal to their terms. */
bool skolem_free_terms(Checker *c, DimVar *v, Dim *d, FreedTerms *freed);
void skolem_require_terms(Checker *c, const FreedTerms *freed);
/* True if v := d may turn out to be an escape once ranks are known: the type of
   a parameter would get a term of sizes that it does not determine, and that
   may be existential sizes. */
bool skolem_may_escape(Checker *c, const DimVar *v, Dim *d);
/* Solves v.  Existential sizes of the body of v's function are replaced by new
   sizes; a run-time check tests that they are equal. */
void skolem_bind_shape(Checker *c, ShapeVar *v, Shape *s, Origin *o);
/* The same for v := t.  Returns the type to bind; then call
   skolem_require_same. */
Type *skolem_replace_escaping(Checker *c, TyVar *v, Type *t, Origin *o);
void skolem_require_same(Checker *c, Type *own, Type *t, Origin *o);

/* ---- solve_divisibility.c ---- */
/* True if the constraint only states that a division is exact, x == d*(x/d),
   possibly times sizes.  Then rewrites it to that.  If `with` is not NULL, an
   integer n is a size, too, if 0 <= n is one of these constraints. */
bool constraint_as_divisibility(Checker *c, Constraint *k,
                                const Constraints *with);
/* The exact divisions that an equation such as n*m == d*(n/d) * e*(m/e) states.
   Returns their number; 0 if there are none. */
uint32_t divisibility_parts(Checker *c, const Constraint *k,
                            FloorDivision out[DIM_MAX_FACTORS]);

/* ---- solve_reshape.c ---- */
bool dim_has_reshape_hole(const Dim *d);
bool solves_hole_by_division(Checker *c, const Assumption *assumptions, Dim *d);
/* An equation with v times a factor gives v := rest / factor.  Requires that
 * the division is exact.  Returns false if the equation is not linear in v. */
bool solve_by_division(Checker *c, Constraint *k, DimVar *v);
void solve_reshape_holes(Checker *c, uint32_t mark);

/* ---- solve_system.c ---- */
/* Solves the equations suspended since mark as systems. last: uses all
   methods. */
void solve_equation_systems(Checker *c, uint32_t mark, bool last);

/* ---- simplify_givens.c ---- */
/* An equation d == 0 without common factors.  Quotients such as n/2 stay: they
   may be 0 even if all sizes are at least 1. */
Dim *given_cancel_sizes(Checker *c, Dim *d);
/* Simplifies the constraints of a type.  Redundant ones become NULL. */
void givens_simplify(Checker *c, Constraints *all);
/* Normalizes a constraint for readers: k <= n instead of 0 <= n - k. */
void given_normalize(Checker *c, Constraint *k);

/* ---- runtime_checks.c ---- */
/* Assigns the constraints since `mark` (value of c->solver.serial) without a
   site to this expression. */
void runtime_checks_claim(Checker *c, Core *core, uint32_t mark, bool after);
/* The message of the constraint as an error; NULL if there is none. */
const Diag *runtime_check_diagnostic(Checker *c, Constraint *k);
/* The CORE_CHECK, with the value that it follows. */
Core *runtime_check_after_value(Checker *c, Core *value, Core *check);
void runtime_checks_insert(
    Checker *c); /* inserts the run-time checks of stuck constraints */

/* ---- constraint_stats.c ---- */
/* The class of a constraint, for statistics. */
ConstraintClass constraint_class(const Constraint *k);
void stats_count_proved(Checker *c, const Constraint *k);
void stats_count_unproved(Checker *c, Constraint *k);
/* Counts a constraint that is decided immediately: proved, or an error. */
static inline bool stats_count_decided(Checker *c, ConstraintClass row,
                                       bool holds) {
  c->notes.stats.by_class[row].proved += holds;
  return holds;
}
/* Records another run-time check that is not a constraint. */
void note_runtime_check(Checker *c, Span span, const char *text,
                        const char *reason);
/* Counts the deferred constraints of the type of a global name. */
void note_deferred(Checker *c, Scheme *s, Sym *name);

#endif
