/* What diagnose/ reads of the checker: its state, and functions that neither
   solve nor add constraints. */
#ifndef AXON_TYPECHECK_VIEW_H
#define AXON_TYPECHECK_VIEW_H

#include "support/compiler.h"
#include "support/map.h"
#include "support/span.h"
#include "typecheck/refutation.h"

typedef struct Diag Diag;
typedef struct Sym Sym;

/* ---- Types: type.c, unify.c ---- */
/* True for a *, or the axis of a literal that was bound to one. */
bool axis_is_star(const ShapeAxis *it);
/* True for a size, a *, and a splice of rank 1. */
bool axis_is_single(const ShapeAxis *it);
/* The state of an axis that may still be a * or have a size; otherwise NULL. */
Stretch *open_stretch(const ShapeAxis *it);
Shape *shape_new(Checker *c, uint32_t len);
/* Replaces solved variables recursively, including dims.  May return s itself,
   so do not write to the result. */
Shape *shape_norm(Checker *c, const Shape *s);
bool shape_has_known_rank(const Shape *s); /* requires a normalized shape */
uint32_t shape_min_rank(const Shape *s);
bool shape_equal(Checker *c, const Shape *a, const Shape *b);
/* The same for normalized shapes (shape_norm). */
bool shape_same(const Shape *a, const Shape *b);
ElemVar *elem_root(ElemVar *e);
/* The root of e or, if a global value determined it, the variable of that
   value: messages name the value. */
ElemVar *elem_root_or_global(ElemVar *e);
/* The element type of a global value. */
typedef struct GlobalElem {
  const Binding *value;      /* NULL: it is not that of one */
  const ElemVar *determined; /* the variable that was determined */
  bool by_default;           /* no use determined it */
} GlobalElem;
GlobalElem global_elem_of(const ElemVar *e);
/* Labels the value, and what determined its element type. */
void global_elem_label(Checker *c, Diag *d, const GlobalElem *global);
/* The element type that messages show: an undetermined one of a global value is
   its default; DT_NONE: a variable. */
Dtype elem_shown_dtype(const ElemVar *e);
Effect *effect_root(Effect *e);
Type *ty_new(Checker *c, TypeTag tag);
Type *ty_lift(Checker *c, Dim *n, Type *t); /* normalized where known */
/* t with elem in place of each float type; normalized where known.  All floats
   in t have one type. */
Type *ty_cast(Checker *c, Type *t, ElemVar *elem);
/* The float types that t fixes: a bit set. */
uint32_t ty_fixed_floats(Checker *c, Type *t);
/* The only float type in the constructors of d, or NULL. */
ElemVar *datatype_fixed_float(Checker *c, const Datatype *d);
/* Puts the variables of t into the class of values that a loop can stack.
   Returns false if other values occur in t. */
bool ty_stackable(Checker *c, Type *t);
Type *ty_root(Type *t); /* follows links only */
/* resolves the root, and pushes lifts and casts inwards */
Type *ty_norm(Checker *c, Type *t);
/* A field of a record, or NULL; the record with its row resolved. */
Type *row_field(Type *t, Sym *label);
Type *row_flat(Checker *c, Type *t);
Type *ty_forget_singletons(Checker *c, Type *t);
/* Calls a function for every variable, after following links. */
typedef struct TypeVisitor {
  void (*ty)(void *, TyVar *);
  void (*elem)(void *, ElemVar *);
  void (*dim)(void *, DimVar *);
  void (*shape)(void *, ShapeVar *);
  void (*effect)(void *, Effect *);
  void (*alias)(void *, Type *); /* for a type written as an alias */
  void *arg;
  Checker *c;
  bool shapes_only; /* of tensors: ignores singletons of integers */
  const bool *done; /* the walk may end once this is true; or NULL */
} TypeVisitor;
void ty_visit(TypeVisitor *v, Type *t);
/* A copy in which functions replace variables; NULL keeps them. */
typedef struct TypeMapper {
  Checker *c;
  Type *(*ty)(struct TypeMapper *, TyVar *);
  ElemVar *(*elem)(struct TypeMapper *, ElemVar *);
  Dim *(*dim)(struct TypeMapper *, DimVar *);
  Shape *(*shape)(struct TypeMapper *, ShapeVar *);
  Effect *(*effect)(struct TypeMapper *, Effect *);
  Dim *(*size)(struct TypeMapper *, Dim *); /* for whole sizes, called last */
  void *arg;
  bool drop_singletons;
  /* copies each named type once and shares it through map */
  bool share_aliases;
  /* the functions always return the same for a variable */
  bool is_consistent;
  uint64_t epoch; /* if consistent: see dim_subst_consistently */
  Map map;
} TypeMapper;
Type *ty_copy(TypeMapper *copy, Type *t);
Dim *dim_copy(TypeMapper *copy, Dim *d);

/* ---- Texts: type_print.c ---- */
/* Gives each variable one name in all texts, until c->notes.message_names is
   reset to the returned value.  Names from the program in reserved types are
   taken before other names are chosen. */
VarNames *var_names_share(Checker *c);
void var_names_reserve(Checker *c, Type *t);
void var_names_reserve_dim(Checker *c, Dim *d);
const char *ty_text(Checker *c, Type *t);
/* The type with the names of the enclosing scheme; that may be NULL. */
const char *ty_text_within(Checker *c, Scheme *enclosing, Type *t);
/* The same, but avoids these names (Sym) for variables.  The value of an entry
   is the variable that may have its name. */
const char *ty_text_avoiding(Checker *c, Scheme *enclosing, Type *t,
                             const Map *avoided);
const char *scheme_text(Checker *c, Scheme *s);
/* The text of one given constraint, with the names of its whole scheme. */
const char *given_text(Checker *c, Scheme *s, Constraint *given);
const char *shape_text(Checker *c, const Shape *s);
const char *dim_to_text(Checker *c, Dim *d);
/* Prints both sizes with the same names. */
void dims_text(Checker *c, Dim *a, Dim *b, const char **x, const char **y);
/* "28 - 3 + 1": d with numbers for solved variables; NULL if that does not
   help. */
const char *dim_arithmetic(Checker *c, Dim *d);
void inequality_text(Checker *c, Dim *a, Dim *b, const char **x,
                     const char **y);

/* ---- Bindings: environment.c, application.c, polymorphic_recursion.c ---- */
Binding *lookup(Checker *c, Sym *module, Sym *name);
/* The module of this name, imported or of the library, even if a value has the
   same name; NULL if there is none. */
Module *module_named(Checker *c, Sym *name);
Scheme *binding_scheme(Checker *c, Binding *b);
/* True for the name of a pipe's argument. */
bool is_pipe_name(const Sym *id);
/* True if annotations determine the complete type. */
bool clause_is_annotated(const Clause *k);

/* ---- Assumptions and sizes: assumptions.c, index_bounds.c, solve.c,
 * solve_size.c ---- */
void assumption_load(Checker *c, const Assumption *assumptions);
Dim *index_range_of(const DimVar *v); /* NULL while unknown */
/* The size that a == b forces to be 0, as in n == 2*n, or NULL.  The constraint
   waits: once n is known, the message names n and 2*n as numbers. */
DimVar *forced_zero_size(Checker *c, Dim *a, Dim *b);
/* True if an error was reported after `mark` at this place, or at an argument
   of the call with these args. */
bool error_reported_at(const Checker *c, uint32_t mark, Span place,
                       const Arg *args);

/* ---- Messages: report.c ---- */
Diag *error_at(Checker *c, uint16_t code, Span span, const char *format, ...)
    PRINTF_LIKE(4, 5);
Diag *warning_at(Checker *c, uint16_t code, Span span, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
