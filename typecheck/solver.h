/* The solver: constraints on sizes and shapes, unification, assumptions. */
#ifndef AXON_TYPECHECK_SOLVER_H
#define AXON_TYPECHECK_SOLVER_H

#include "typecheck/types.h"

/* ---- solve.c ---- */
Origin *origin_new(Checker *c, OriginKind kind, Span span);
void add_constraint(Checker *c, Constraint k); /* adds, and tries at once */
void add_size_eq(Checker *c, Dim *a, Dim *b, Origin *o);
void add_size_le(Checker *c, Dim *a, Dim *b, Origin *o);
void add_broadcast(Checker *c, Shape *result, uint32_t n, Shape **args,
                   Origin *o);
void solve_pending(Checker *c);
void solve_residual(Checker *c); /* end of a declaration */

/* ---- solver_wakeup.c ---- */
void pending_add(Checker *c, Constraint *k);
void pending_clear(Checker *c);
/* k is open: it is not tried again until something in it changes. */
void wakeup_suspend(Checker *c, Constraint *k);
void wakeup_dim_solved(Checker *c, DimVar *v);
void wakeup_shape_solved(Checker *c, ShapeVar *v, const Shape *s);
void wakeup_all(Checker *c);
Constraint *wakeup_find_definer(Checker *c, ShapeVar *v, ConstraintKind kind);

/* ---- assumptions.c ---- */
/* For the goal d >= 0. */
void assumption_load_for(Checker *c, const Assumption *assumptions, Dim *d);
void assumption_add(Checker *c, Dim *d, bool eq);
void assumption_add_unconditional(Checker *c, Dim *d, bool eq);
/* A part of the program, as the body of a function or a branch, may not run
 * although what is around it does: what is tested there is not known behind.
 * Returns the part around it, for control_region_end. */
uint32_t control_region_begin(Checker *c);
void control_region_end(Checker *c, uint32_t outer);
bool assumption_is_condition(
    const Assumption *f); /* one that may fail to hold */
bool assumption_has_condition(const Assumption *f);
bool assumption_in_scope(const Assumption *chain, const Assumption *outer);
Verdict assumption_loaded_check_ge0(Checker *c, Dim *d, bool at_least_one);
bool assumption_loaded_entails(Checker *c, Dim *d, bool eq);
Verdict assumption_check_le(Checker *c, Dim *a, Dim *b);
bool assumption_inconsistent(Checker *c,
                             const Assumption *assumptions); /* each other */
bool constraint_is_vacuous(Checker *c,
                           Constraint *k); /* nothing can break it */
bool constraint_may_be_vacuous(Checker *c, const Constraint *k);

/* ---- unify.c ---- */
/* False after a mismatch, which the caller reports (report_type_mismatch). */
bool unify(Checker *c, Type *a, Type *b, Origin *o);
bool unify_elem(Checker *c, ElemVar *a, ElemVar *b);
bool unify_shape(Checker *c, const Shape *a, const Shape *b, Origin *o);
/* The variable that d is, if it is an integer or a size that is not solved, or
 * one whose solution can be retracted; or NULL. */
DimVar *unsolved_singleton(Dim *d);
/* v is no known integer; what was proved with its solution is void. */
void retract_singleton(Checker *c, DimVar *v);
bool unify_singleton(Checker *c, Dim *a, Dim *b, Origin *o);
/* What is in it is no more general than what is made at this level. */
void ty_adjust_levels(Checker *c, Type *t);
void dim_bind(Checker *c, DimVar *v, Dim *d);
void shape_bind(Checker *c, ShapeVar *v, Shape *s);

/* ---- solve_size.c: sizes; solve_broadcast.c: shapes ---- */
typedef struct VarKinds { /* the kinds of variables that there are */
  bool meta, existential, skolem, index, unknown;
} VarKinds;
VarKinds dim_var_kinds(Checker *c, Dim *d);
/* Of the conditions under which a constraint has to hold. */
VarKinds condition_var_kinds(Checker *c, const Constraint *k);
/* v is that size: what k says. */
Verdict bind_solution(Checker *c, Constraint *k, DimVar *v, Dim *value);
Verdict solve_size_eq(Checker *c, Constraint *k);
Verdict solve_size_le(Checker *c, Constraint *k);
Verdict solve_size_ne(Checker *c, Constraint *k);
Verdict solve_broadcast(Checker *c, Constraint *k);
Verdict solve_keep(Checker *c, Constraint *k);
Verdict solve_shape_eq(Checker *c, Constraint *k);

/* ---- skolem_escape.c ---- */
/* Does a parameter of a function being checked have this size? */
bool dim_var_in_parameter(Checker *c, DimVar *v);
/* Would v := d give a parameter's type a size that only the body knows? */
bool skolem_escapes(Checker *c, DimVar *v, Dim *d);
/* Solves v; sizes of data that only the body of v's function knows become sizes
 * of its own, of which the running program tests that they are those. */
void skolem_bind_shape(Checker *c, ShapeVar *v, Shape *s, Origin *o);
/* The same for v := t: the type to bind, and what to ask then. */
Type *skolem_replace_escaping(Checker *c, TyVar *v, Type *t, Origin *o);
void skolem_require_same(Checker *c, Type *own, Type *t, Origin *o);

/* ---- solve_divisibility.c ---- */
/* Whether it says, at bottom, that a division is exact: then it says only
 * that. */
bool constraint_as_divisibility(Checker *c, Constraint *k);
/* n*m == d*(n/d) * e*(m/e) says of both that they come out even: what is
 * divided; 0: it is nothing of the kind. */
uint32_t divisibility_parts(Checker *c, const Constraint *k,
                            FloorDivision out[DIM_MAX_FACTORS]);

/* ---- solve_reshape.c ---- */
bool dim_has_reshape_hole(const Dim *d);
bool solves_hole_by_division(Checker *c, const Assumption *assumptions, Dim *d);
void solve_reshape_holes(Checker *c, uint32_t mark);

/* ---- solve_system.c ---- */
/* Those that wait since mark; the last time: with all that can be done. */
void solve_equation_systems(Checker *c, uint32_t mark, bool last);

/* ---- simplify_givens.c ---- */
/* Constraints that a type is to carry; those that others say too become
 * NULL. */
void givens_simplify(Checker *c, Constraints *all);
/* As callers will read it: k <= n rather than 0 <= n - k. */
void given_normalize(Checker *c, Constraint *k);

/* ---- runtime_checks.c ---- */
/* Constraints demanded since `mark` (c->serial then) that have no site belong
 * to this expression. */
void runtime_checks_claim(Checker *c, Core *core, uint32_t mark, bool after);
void runtime_checks_insert(
    Checker *c); /* puts in the tests of those that are stuck */

/* ---- constraint_stats.c ---- */
/* What a constraint is about. */
ConstraintClass constraint_class(const Constraint *k);
void stats_count_proved(Checker *c, const Constraint *k);
void stats_count_unproved(Checker *c, Constraint *k);
/* What never waits is proved, or an error, at once; and is counted so. */
static inline bool stats_count_decided(Checker *c, ConstraintClass row,
                                       bool holds) {
  c->stats.by_class[row].proved += holds;
  return holds;
}
/* What only the running program can check, besides constraints. */
void note_runtime_check(Checker *c, Span span, const char *text,
                        const char *reason);
/* Counts what the type of a name at top level asks of its callers. */
void note_deferred(Checker *c, Scheme *s, Sym *name);

#endif
