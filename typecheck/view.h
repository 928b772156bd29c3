/* What diagnose/ reads of the checker: its state and these functions, none of
 * which solves or demands anything. */
#ifndef AXON_TYPECHECK_VIEW_H
#define AXON_TYPECHECK_VIEW_H

#include "typecheck/refutation.h"

/* ---- Types: type.c, unify.c ---- */
/* A *, or the axis of a literal to which one was given. */
bool axis_is_star(const ShapeAxis *it);
Shape *shape_new(Checker *c, uint32_t len);
/* Solutions put in, recursively; dims too.  May be s itself: not to be written
 * to. */
Shape *shape_norm(Checker *c, const Shape *s);
bool shape_has_known_rank(const Shape *s); /* of a normalised one */
uint32_t shape_min_rank(const Shape *s);
bool shape_equal(Checker *c, const Shape *a, const Shape *b);
ElemVar *elem_root(ElemVar *e);
Effect *effect_root(Effect *e);
Type *ty_new(Checker *c, TypeTag tag);
Type *ty_lift(Checker *c, Dim *n, Type *t); /* normalised where known */
Type *ty_root(Type *t);                     /* follows links only */
Type *ty_norm(Checker *c, Type *t);         /* root, and lifts pushed inwards */
/* A field of a record, or NULL; the record with its rest put in. */
Type *row_field(Type *t, Sym *label);
Type *row_flat(Checker *c, Type *t);
Type *ty_forget_singletons(Checker *c, Type *t);
/* Applies f to every variable, after following links. */
typedef struct TypeVisitor {
  void (*ty)(void *, TyVar *);
  void (*elem)(void *, ElemVar *);
  void (*dim)(void *, DimVar *);
  void (*shape)(void *, ShapeVar *);
  void (*effect)(void *, Effect *);
  void *arg;
  Checker *c;
  bool shapes_only; /* of tensors: the terms of integers are left out */
} TypeVisitor;
void ty_visit(TypeVisitor *v, Type *t);
/* A copy in which f replaces variables (NULL keeps them). */
typedef struct TypeMapper {
  Checker *c;
  Type *(*ty)(struct TypeMapper *, TyVar *);
  ElemVar *(*elem)(struct TypeMapper *, ElemVar *);
  Dim *(*dim)(struct TypeMapper *, DimVar *);
  Shape *(*shape)(struct TypeMapper *, ShapeVar *);
  Effect *(*effect)(struct TypeMapper *, Effect *);
  Dim *(*size)(struct TypeMapper *,
               Dim *); /* of whole sizes, after the others */
  void *arg;
  bool drop_singletons;
  bool share_aliases; /* what has a name is copied once, in map */
  Map map;
} TypeMapper;
Type *ty_copy(TypeMapper *copy, Type *t);
Dim *dim_copy(TypeMapper *copy, Dim *d);

/* ---- Texts: type_print.c ---- */
/* From here on one variable has one name in all texts, until c->names is what
 * it was before, which is returned.  The user's names in what is claimed are
 * taken before others are given. */
VarNames *var_names_share(Checker *c);
void var_names_reserve(Checker *c, Type *t);
void var_names_reserve_dim(Checker *c, Dim *d);
const char *ty_text(Checker *c, Type *t);
/* With the names that the scheme around it has when printed; or NULL. */
const char *ty_text_within(Checker *c, Scheme *enclosing, Type *t);
/* The same, with none of these names (Sym) for a variable but that which such
 * a name stands for: its value. */
const char *ty_text_avoiding(Checker *c, Scheme *enclosing, Type *t,
                             const Map *avoided);
const char *scheme_text(Checker *c, Scheme *s);
/* One of its givens, with the names that the whole of it has when printed. */
const char *given_text(Checker *c, Scheme *s, Constraint *given);
const char *shape_text(Checker *c, const Shape *s);
const char *dim_to_text(Checker *c, Dim *d);
/* Both with the same names. */
void dims_text(Checker *c, Dim *a, Dim *b, const char **x, const char **y);
/* "28 - 3 + 1": d with its solved variables as numbers; NULL if no help. */
const char *dim_arithmetic(Checker *c, Dim *d);
void inequality_text(Checker *c, Dim *a, Dim *b, const char **x,
                     const char **y);

/* ---- Bindings: environment.c, application.c, polymorphic_recursion.c ---- */
Binding *lookup(Checker *c, Sym *module, Sym *name);
Scheme *binding_scheme(Checker *c, Binding *b);
/* Is it the name of what a pipe brings? */
bool is_pipe_name(const Sym *id);
/* Do annotations say all of its type? */
bool clause_is_annotated(const Clause *k);

/* ---- Assumptions and sizes: assumptions.c, index_bounds.c, solve.c,
 * solve_size.c ---- */
void assumption_load(Checker *c, const Assumption *assumptions);
Dim *index_range_of(const DimVar *v); /* NULL while it is not known */
/* A size that a == b, like n == 2*n, makes 0; or NULL.  It waits: where n
 * becomes known otherwise, the message speaks of that number and its double. */
DimVar *forced_zero_size(Checker *c, Dim *a, Dim *b);
/* Whether an error was told of this place, or of an argument of the call with
 * these, after so many were told. */
bool error_reported_at(const Checker *c, uint32_t mark, Span place,
                       const Arg *args);

/* ---- Messages: report.c ---- */
Diag *error_at(Checker *c, uint16_t code, Span span, const char *format, ...)
    PRINTF_LIKE(4, 5);
Diag *warning_at(Checker *c, uint16_t code, Span span, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
