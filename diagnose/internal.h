/* What the files share that write messages: common.c (what all of them have),
 * type_mismatch.c (types), size_mismatch.c (sizes and shapes), divisibility.c
 * (divisions), related_location.c (who else has to do with it), rank_origin.c
 * (who wants that many axes), hint_shape.c and hint_type.c (ways out), fixit.c
 * (as fixes), refuted.c (where a refuted constraint is told).  Texts live in
 * the checker's arena. */
#ifndef AXON_DIAGNOSE_INTERNAL_H
#define AXON_DIAGNOSE_INTERNAL_H

#include "diagnose/diagnose.h"
#include "typecheck/view.h"

/* ---- common.c ---- */
/* "argument 1 of f" */
const char *error_subject(Checker *c, const Origin *o);
/* What a pipe brings is what stands on its left; others as they are. */
const Expr *error_brought(const Expr *e);
/* x, x.w, x.w.v as it is written; or NULL: it is something else. */
const char *error_expr_path(Checker *c, const Expr *e);
/* What stands there; or NULL, where that is no text of the user's, or long. */
const char *error_source_text(Checker *c, Span span);
/* The other place that has to do with it; with it, the chain. */
void error_add_labels(Checker *c, Diag *d, const Origin *o);
void error_add_provenance(Checker *c, Diag *d, const Origin *o);
/* Whatever a message about a constraint shows besides its text. */
void error_add_details(Checker *c, Diag *d, Constraint *k);
bool error_prints_alike(Checker *c, Type *a, Type *b);
/* The format has two %s: the first type gets its names first, whatever the
 * compiler does first. */
const char *error_two_types(Checker *c, const char *format, Type *a, Type *b);
bool error_is_tensor(Type *t);
/* NULL: it is no tensor. */
Shape *error_shape(Checker *c, Type *t);
/* The only axis along which two shapes differ, of each of them; the sizes are
 * aligned at the right.  False: there is none, or several. */
bool error_find_one_axis(const Shape *a, const Shape *b, uint32_t *i,
                         uint32_t *j);
/* The type of what is called, which says how its parameters hang together. */
void error_note_callee(Checker *c, Diag *d, const Origin *o);
/* The type whose condition it was. */
void error_note_scheme(Checker *c, Diag *d, const Origin *o);

/* The error that was told of this place; or NULL. */
Diag *error_find_at(Checker *c, Span span);

/* ---- did_you_mean.c: what may have been meant, as a help
 * with its fix ---- */
/* The span is that of the name alone. */
void suggest_name(Checker *c, Diag *d, Span span, Sym *name);
void suggest_member(Checker *c, Diag *d, Span span, Sym *module, Sym *name);
void suggest_con(Checker *c, Diag *d, Span span, Sym *name);
void suggest_field(Checker *c, Diag *d, Span span, const Type *record,
                   Sym *name);
void suggest_label(Checker *c, Diag *d, const Arg *arg, Type *fun);
void suggest_type(Checker *c, Diag *d, Span span, Sym *name);
void suggest_foreign(Checker *c, Diag *d, Span span, const ForeignWord *word);

/* ---- type_diff.c: where two types part ---- */

typedef struct TypeDiff {
  const char *path;        /* "attn.q" of records and tuples; "" at their top */
  Type *actual, *expected; /* what stands there */
  Sym *field;              /* one that `got` lacks, or NULL */
  bool extra;              /* it is `want` that lacks it */
} TypeDiff;

/* Finds the first difference of kind, of rank, of elements; false: none. */
bool type_diff(Checker *c, Type *actual, Type *expected, TypeDiff *out);
/* Finds the first tensors whose sizes differ, axis by axis: where there are
 * such, because of these two. */
bool type_diff_sizes(Checker *c, Type *actual, Type *expected, Dim *left,
                     Dim *right, TypeDiff *out);
bool elems_differ(ElemVar *a, ElemVar *b);

/* ---- provenance.c ---- */
/* The steps by which what met there has got its shape. */
void provenance_add(Checker *c, Diag *d, const Origin *o);
/* The items of a shape as they came to be, without what was solved since; of
 * them at most MAX_RANK. */
void provenance_axes(const Shape *s, ShapeAxis **items, uint32_t *count);
/* On the way to e, the term by which an axis came to have size n; or NULL. */
Dim *provenance_computed_dim(Checker *c, Expr *e, int64_t n);
/* And what the calls hand on by which a condition of a body is not met. */
void provenance_add_calls(Checker *c, Diag *d, Origin *call, const Origin *met);
/* All steps to the value of an expression, none left out. */
void provenance_add_all(Checker *c, Diag *d, Expr *e, bool library);
/* What the variables of a body stand for in a call, and those of the body with
 * that call in one further out; or NULL. */
typedef struct CallSubstitution {
  const Map *map;
  struct CallSubstitution *outer;
} CallSubstitution;
/* The one for the body that is furthest in. */
CallSubstitution *call_substitution_of(Checker *c, const Origin *call);
Type *call_substitute_type(Checker *c, const CallSubstitution *substitution,
                           Type *t);
Dim *call_substitute_dim(Checker *c, const CallSubstitution *substitution,
                         Dim *d);

/* ---- size_mismatch.c ---- */
void size_error_eq(Checker *c, Constraint *k);
void size_error_le(Checker *c, Constraint *k);
void size_error_shapes(Checker *c, const Shape *a, const Shape *b, Origin *o);

/* ---- related_location.c ---- */
/* "5408 columns found, fc1.w needs 9216", if another argument says so. */
bool error_related_argument(Checker *c, Constraint *k);
/* Where a `_` took a factor over, the blame is its reshape's. */
void error_blame_reshape_hole(Checker *c, Diag *d, const Constraint *k);

/* ---- divisibility.c ---- */
typedef struct NonMultiple {
  const char *text; /* "60 is not a multiple of 8" */
  int64_t num, den;
} NonMultiple;
/* Of 60 and 8*n; false: it is no such thing. */
bool divisibility_failure(Checker *c, const Constraint *k, NonMultiple *out);
/* Of two sizes that are equal but for a division that is not exact. */
bool divisibility_inexact_division(Checker *c, Dim *left, Dim *right,
                                   NonMultiple *out);
/* Adds to the message about it what would be one. */
void hint_divisibility(Checker *c, const Constraint *k);

/* ---- hint_type.c: ways out of types that do not fit; none where none is right
 * ---- */
void hint_type_kind(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o);
void hint_elem_type(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o);

/* ---- hint_shape.c: of shapes ---- */
void hint_rank(Checker *c, Diag *d, Type *actual, Type *expected,
               const Origin *o);
/* Of as many axes, which is the first that stretches and should not? */
bool hint_find_star(const Shape *have, const Shape *expected, uint32_t *at);
/* Of the operands that met. */
void hint_broadcast(Checker *c, Diag *d, const Origin *o);
/* Of a product whose inner sizes are x and y. */
void hint_matmul_inner(Checker *c, Diag *d, const Origin *o, Dim *x, Dim *y);
/* A matrix t has the sizes that met as its rows and columns, the other way
 * round: `have` is there, `want` is wanted.  e may be NULL. */
bool hint_transposed_matrix(Checker *c, Diag *d, const Origin *o,
                            const char *name, Expr *e, Type *t, Dim *have,
                            Dim *expected);
/* Of a field of a record, by its siblings. */
void hint_record_field(Checker *c, Diag *d, const Origin *o,
                       const TypeDiff *part);
/* One number of the shape that is written would make the elements as many. */
void hint_reshape(Checker *c, Diag *d, const Expr *shape, const Constraint *k);
/* The tensors of a concat would fit along another axis. */
bool hint_concat_axis(Checker *c, Diag *d, const Origin *o);
/* What has the axes of `got`, e, would fit if they stood in another order. */
bool hint_axis_order(Checker *c, Diag *d, const Origin *o, Expr *e,
                     Type *actual, Type *expected);
/* Rows of the size that is wanted are made of e by flatten. */
bool hint_flatten(Checker *c, Diag *d, const Origin *o, Expr *e, Type *actual,
                  Dim *wanted);

/* ---- rank_origin.c ---- */
/* Marks the place in the body of the called function for which an argument, or
 * the field `path` of it, is to have as many axes as `want`. */
void error_mark_rank_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, Type *expected);

/* ---- fixit.c: fixes; none where the text is not the user's ---- */
/* As it may stand as an argument; or NULL. */
const char *fixit_argument_text(Checker *c, const Expr *e);
/* The function `fun` is applied to an operand or argument, which may come by a
 * pipe. */
void fixit_apply(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *fun);
/* The index .[items] behind it. */
void fixit_index(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *items);
void fixit_replace(Checker *c, Diag *d, Span span, const char *text);
/* Of the arguments, which stand in order, one tuple. */
void fixit_tuple(Checker *c, Diag *d, const Arg *args, uint32_t count);
/* Those since `first` before the others. */
void fixit_labels(Checker *c, Diag *d, const Arg *args, uint32_t count,
                  uint32_t first);
/* What is called becomes an argument of `fun`. */
void fixit_wrap_callee(Checker *c, Diag *d, const Origin *o, const char *fun);
/* Of two arguments, the first of which stands first. */
void fixit_swap(Checker *c, Diag *d, const Expr *a, const Expr *b);

/* ---- what diagnose.c chooses from ---- */
void diagnose_constraint(Checker *c, Constraint *k); /* refuted.c */
void diagnose_types(Checker *c, Type *actual, Type *expected,
                    Origin *o); /* type_mismatch.c */
/* for_range.c: why ranges of these indices are not known, and what to write. */
void diagnose_range(Checker *c, const ForScope *scope, const Expr *e,
                    uint32_t first_access);

#endif
