/* Types and shapes: construction, walks and printing; the typed tree; errors.
   Nothing here solves constraints.  Layers: this file, then the solver
   (solver.h), then inference (internal.h).  A file includes only its own layer
   and those below. */
#ifndef AXON_TYPECHECK_TYPES_H
#define AXON_TYPECHECK_TYPES_H

#include "support/span.h"
#include "typecheck/view.h"

typedef struct Diag Diag;
typedef struct Sym Sym;

/* ---- report.c ---- */
void report_constraint(
    Checker *c, Constraint *k); /* a contradicted constraint with its origin */
void report_shapes(Checker *c, Shape *a, Shape *b, Origin *o);
void report_type_mismatch(Checker *c, Type *actual, Type *expected, Origin *o);
/* Reports that the ranges of these indices are unknown.  Accesses from
   first_access on are in the body of the `for`. */
void report_for_range(Checker *c, const ForScope *scope, const Expr *e,
                      uint32_t first_access);
/* Adds a suggested correction to the message. */
void suggest(Checker *c, Diag *d, Suggestion s);

/* ---- type.c ---- */
ElemVar *elem_meta(Checker *c, uint32_t classes);
ElemVar *elem_fixed(Checker *c, Dtype t);
/* A cast must know whether e is an integer type: an undetermined element type
   of a global value becomes one if that is its default. */
void elem_require_default_int(Checker *c, ElemVar *e);
ShapeVar *shape_var_new(Checker *c, int fixed);
Shape *shape_of_var(Checker *c, ShapeVar *v);
Shape *shape_meta(Checker *c); /* a new variable, of any rank */
Shape *shape_of_dims(Checker *c, uint32_t n, Dim *const *dims);
Shape *shape_concat(Checker *c, const Shape *a, const Shape *b);
Shape *shape_slice(Checker *c, const Shape *s, uint32_t from, uint32_t to);
Dim *shape_product(Checker *c, const Shape *s);
Dim *meta_dim(Checker *c, Sym *name, Span origin); /* a size */
Dim *meta_integer(Checker *c, Span origin);        /* any integer */
Dim *existential_dim(Checker *c, Sym *name, Span origin);
Type *ty_meta(Checker *c);
Type *ty_tensor(Checker *c, ElemVar *e, Shape *s, Dim *singleton);
Type *ty_scalar(Checker *c, Dtype t, Dim *singleton);
Type *ty_int(Checker *c, Dim *singleton);
Type *ty_fun(Checker *c, Type *param, Type *result, Effect *e);
Type *ty_tuple(Checker *c, uint32_t n, Type *const *args);
Type *ty_datatype(Checker *c, Datatype *d, uint32_t n, Type *const *args);
Type *ty_list(Checker *c, Type *item);
Type *ty_string(Checker *c);
Type *ty_unit(Checker *c);
Type *ty_shape(Checker *c, Shape *s);
Type *ty_axis(Checker *c, Shape *s, Shape *r, Shape *t);
Effect *effect_var(Checker *c);
Effect *effect_pure(Checker *c);
Effect *effect_impure(Checker *c);
Effect *effect_close(Checker *c, Effect *context);
void effect_subsume(Checker *c, Effect *from, Effect *into, Span span,
                    const char *what); /* into runs from */
Dim *ty_singleton(
    Checker *c,
    Type *t); /* resolved; NULL if there is none or t is not an int */
bool ty_is_unit(Type *t);
/* true if no variable in it can still change */
bool ty_is_ground(Checker *c, Type *t);
/* A walk over a type pays for each step.  Shared parts are walked repeatedly,
   so the work can be exponential in the size of the text.  Beyond a limit, the
   declaration is in error and FAIL_LIMIT is raised. */
/* Charges steps to the limit of the declaration.  Copied types stay in memory;
   COPY_WORK steps per copy limit them to about 200 MB. */
enum { COPY_WORK = 64 };
void charge_work(Checker *c, uint32_t steps);
void shape_visit(TypeVisitor *v, const Shape *s);
void dim_visit(TypeVisitor *v, Dim *d);
void constraint_visit(TypeVisitor *v, Constraint *k);
Constraint *constraint_copy(TypeMapper *copy, Constraint *k);

/* ---- cast.c ---- */
/* ty_norm of a cast */
Type *ty_cast_norm(Checker *c, Type *t);

/* ---- type_print.c ---- */
/* Prints several parts of a scheme's type with consistent variable names.
   apply_defaults: undetermined variables get their top-level defaults. */
typedef struct TypePrinter TypePrinter;
TypePrinter *printer_new(Checker *c, Scheme *s, bool apply_defaults);
const char *printer_type(TypePrinter *p, Type *t);
const char *printer_dim(TypePrinter *p, Dim *d);
const char *printer_given(TypePrinter *p, Constraint *given);

/* ---- core_build.c ---- */
Core *core_new(Checker *c, CoreKind kind, Span span);
Var *var_new(Checker *c, Sym *name, Span span, bool global);
Core *core_var(Checker *c, Var *v, Span span);
Core *core_items(Checker *c, CoreKind kind, Span span, uint32_t n, ...);
Core *core_let(Checker *c, Var *v, Core *value, Core *body);
/* The core after an error; it has any type. */
Core *core_error(Checker *c, Span span, Type **type);

#endif
