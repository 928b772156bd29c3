/* Shared by the files that write messages: common.c (shared details),
   type_mismatch.c (types), size_mismatch.c (sizes and shapes), divisibility.c
   (divisions), related_location.c (other arguments involved),
   parameter_origin.c (what requires the type of a parameter), hint_shape.c and
   hint_type.c (suggestions), fixit.c (edits), refuted.c (which place a
   contradicted constraint is reported at).  Texts live in the checker's
   arena. */
#ifndef AXON_DIAGNOSE_INTERNAL_H
#define AXON_DIAGNOSE_INTERNAL_H

#include "diagnose/diagnose.h"
#include "support/span.h"
#include "typecheck/view.h"

typedef struct Diag Diag;
typedef struct Sym Sym;

/* ---- common.c ---- */
/* "argument 1 of f" */
const char *error_subject(Checker *c, const Origin *o);
/* For the input of a pipe, the expression on its left.  Otherwise e. */
const Expr *error_brought(const Expr *e);
/* x, x.w, x.w.v as written; NULL for other expressions. */
const char *error_expr_path(Checker *c, const Expr *e);
/* The text of a span; NULL if it is long or not the user's. */
const char *error_source_text(Checker *c, Span span);
/* Labels the related location; also adds the provenance trace. */
void error_add_labels(Checker *c, Diag *d, const Origin *o);
void error_add_provenance(Checker *c, Diag *d, const Origin *o);
/* Adds all details of a constraint to its message. */
void error_add_details(Checker *c, Diag *d, Constraint *k);
bool error_prints_alike(Checker *c, Type *a, Type *b);
/* format has two %s.  The first type gets its variable names first, whatever
   the C evaluation order. */
const char *error_two_types(Checker *c, const char *format, Type *a, Type *b);
Diag *error_inner_sizes(Checker *c, Span span, const char *left,
                        const char *right);
Diag *error_sizes_differ(Checker *c, const Origin *o, const char *found,
                         const char *expected);
bool error_is_tensor(Type *t);
/* True for element types of different annotations that have one name. */
bool error_are_namesakes(const ElemVar *x, const ElemVar *y);
/* NULL if t is not a tensor. */
Shape *error_shape(Checker *c, Type *t);
/* Finds the only axis along which two shapes differ, as its position in each.
   Axes are aligned at the right.  Returns false if there is none, or if there
   are several. */
bool error_find_one_axis(const Shape *a, const Shape *b, uint32_t *i,
                         uint32_t *j);
/* Adds the type of the callee, which shows how its parameters depend on each
   other. */
void error_note_callee(Checker *c, Diag *d, const Origin *o);
/* Adds the type whose constraint was violated. */
void error_note_scheme(Checker *c, Diag *d, const Origin *o);

/* Adds that a loop keeps the type and shape of its state. */
void error_note_loop_state(Checker *c, Diag *d, const Origin *o);

/* The error reported at this place, or NULL. */
Diag *error_find_at(Checker *c, Span span);

/* ---- did_you_mean.c: suggestions as a help with its fix-it ---- */
/* The span covers the name alone. */
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
  const char *path; /* "attn.q" inside of records and tuples; "" at the top;
                       "parameter 2.attn.q" inside of a function */
  Type *actual, *expected; /* types at that path */
  bool is_in_function;
  Sym *field; /* a field that `actual` lacks, or NULL */
  bool extra; /* `actual` has the field, `expected` lacks it */
} TypeDiff;

/* Finds the first difference of kind, rank or element type.  Returns false if
   there is none. */
bool type_diff(Checker *c, Type *actual, Type *expected, TypeDiff *out);
/* Finds the first tensors whose sizes differ, axis by axis.  Prefers a
   difference between these two sizes. */
bool type_diff_sizes(Checker *c, Type *actual, Type *expected, Dim *left,
                     Dim *right, TypeDiff *out);
/* Calls that meet the same wrong part of one variable have one mistake. */
void error_set_mistake_in(Diag *d, const Origin *o, const TypeDiff *part,
                          const char *what);
bool elems_differ(ElemVar *a, ElemVar *b);
/* For a field that one of two records lacks, and the other has under a similar
   name. */
void suggest_similar_field(Checker *c, Diag *d, const TypeDiff *part);

/* ---- global_elem.c ---- */
/* If the tensor type t has the element type of a global value, adds where it
   was determined, and how to declare the value with that of `other`. */
void error_global_elem(Checker *c, Diag *d, Type *t, Type *other);

/* ---- derivative.c ---- */
/* Reports a function that cannot be differentiated because of its result.
   Returns false if the type of the result is no reason. */
bool diagnose_differentiated(Checker *c, Type *actual, Type *expected,
                             const Origin *o);
/* A help for the argument of a derivative such as hessian, which must be one
   tensor; NULL: it is something else. */
const char *derivative_argument_help(Checker *c, const Type *actual,
                                     const Type *expected, const Origin *o);

/* ---- provenance.c ---- */
/* Adds the provenance trace of the shapes that do not fit. */
void provenance_add(Checker *c, Diag *d, const Origin *o);
/* The original axes of a shape, without replacing variables that were solved
   later.  At most MAX_RANK. */
void provenance_axes(const Shape *s, ShapeAxis **items, uint32_t *count);
/* The term that gave an axis size n on the way to e, or NULL. */
Dim *provenance_computed_dim(Checker *c, Expr *e, int64_t n);
/* Adds the trace of the call arguments that violate a constraint of the
   body. */
void provenance_add_calls(Checker *c, Diag *d, Origin *call, const Origin *met);
/* Adds the complete trace of an expression's value. */
void provenance_add_all(Checker *c, Diag *d, Expr *e, bool library);
/* Maps the variables of a body to their values in a call. outer does the same
   for the body that contains this call, or is NULL. */
typedef struct CallSubstitution {
  const Map *map;
  struct CallSubstitution *outer;
} CallSubstitution;
/* For the innermost body. */
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
/* "5408 columns found, fc1.w needs 9216", if another argument explains the
   size. */
bool error_related_argument(Checker *c, Constraint *k);
/* If a `_` absorbed a factor, blames its reshape. */
void error_blame_reshape_hole(Checker *c, Diag *d, const Constraint *k);

/* ---- divisibility.c ---- */
typedef struct NonMultiple {
  const char *text; /* "60 is not a multiple of 8" */
  int64_t num, den;
} NonMultiple;
/* For example of 60 and 8*n.  Returns false if that is not the cause. */
bool divisibility_failure(Checker *c, const Constraint *k, NonMultiple *out);
/* Two sizes that would be equal if a division were exact. */
bool divisibility_inexact_division(Checker *c, Dim *left, Dim *right,
                                   NonMultiple *out);
/* Adds the nearest possible values to the message. */
void hint_divisibility(Checker *c, const Constraint *k);

/* ---- float_types.c ---- */
/* Reports a structure whose floats have several types, or another one than a
   function takes.  Returns false if that is not the cause. */
bool diagnose_float_types(Checker *c, Type *actual, Type *expected, Origin *o);
/* A help for functions on floats, and for casts of datatypes. */
void hint_float_types(Checker *c, Diag *d, Type *actual, Type *expected,
                      const Origin *o);

/* ---- hint_type.c: suggestions for types that do not fit, if one is certain
   ---- */
/* The argument is at the place of a key, and the call has too few arguments. */
bool error_key_is_missing(Checker *c, const Origin *o);
void hint_type_kind(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o);
void hint_elem_type(Checker *c, Diag *d, Type *actual, Type *expected,
                    const Origin *o);

/* ---- hint_shape.c: of shapes ---- */
void hint_rank(Checker *c, Diag *d, Type *actual, Type *expected,
               const Origin *o);
/* Finds the first axis that broadcasts but should not.  Both shapes have the
   same rank. */
bool hint_find_star(const Shape *have, const Shape *expected, uint32_t *at);
/* For the operands. */
void hint_broadcast(Checker *c, Diag *d, const Origin *o);
/* For a matrix product with inner sizes x and y. */
void hint_matmul_inner(Checker *c, Diag *d, const Origin *o, Dim *x, Dim *y);
/* Suggests a transpose if matrix t has the two differing sizes as its rows and
   columns in reverse: `have` is found, `expected` is required. e may be
   NULL. */
bool hint_transposed_matrix(Checker *c, Diag *d, const Origin *o,
                            const char *name, Expr *e, Type *t, Dim *have,
                            Dim *expected);
/* For a field of a record, with the help of its other fields. */
void hint_record_field(Checker *c, Diag *d, const Origin *o,
                       const TypeDiff *part);
/* Suggests a number of the written shape that makes the element counts
   equal. */
void hint_reshape(Checker *c, Diag *d, const Expr *shape, const Constraint *k);
/* Suggests another axis along which the tensors of a concat fit. */
bool hint_concat_axis(Checker *c, Diag *d, const Origin *o);
/* Suggests another order of the axes of e, if that fits. */
bool hint_axis_order(Checker *c, Diag *d, const Origin *o, Expr *e,
                     Type *actual, Type *expected);
/* Suggests flatten, if it gives rows of the expected size. */
bool hint_flatten(Checker *c, Diag *d, const Origin *o, Expr *e, Type *actual,
                  Dim *wanted);

/* ---- parameter_origin.c ---- */
/* Labels the places in the body of the callee that require the kind or the rank
   of an argument, or of its field `path`. */
void error_mark_type_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, Type *actual, Type *expected);
/* For an argument that is one integer: labels the index in the body of the
   callee that must be a tensor, and the place that is the reason. */
void error_mark_index_tensor(Checker *c, Diag *d, const Origin *o,
                             const Shape *actual);
/* For an argument that is no tensor: labels a comparison in the body of the
   callee that takes it for one. */
void error_mark_comparison(Checker *c, Diag *d, const Origin *o);
/* For an argument that is a function: labels the places in its body that
   require another parameter than the callee gives to it. */
void error_mark_function_origin(Checker *c, Diag *d, const Origin *o,
                                Type *actual, Type *expected);
/* True if an axis of the parameter has this size for every call. */
bool error_parameter_has_number(Checker *c, const Origin *o, Dim *d);
/* Labels the places in the body of the callee that determine the size of an
   axis, counted from the right from 1, of an argument or of its field `path`;
   or the value of an integer that is a size. */
void error_mark_size_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, uint32_t from_right);

/* ---- fixit.c: edits; none if the text is not the user's ---- */
/* The text as an argument, with parentheses if needed; or NULL. */
const char *fixit_argument_text(Checker *c, const Expr *e);
/* Applies `fun` to an operand or argument, which may come from a pipe. */
void fixit_apply(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *fun);
/* Appends the index .[items]. */
void fixit_index(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *items);
void fixit_replace(Checker *c, Diag *d, Span span, const char *text);
/* Puts the arguments, which are in order, into one tuple. */
void fixit_tuple(Checker *c, Diag *d, const Arg *args, uint32_t count);
/* Moves the arguments from `first` on before the others. */
void fixit_labels(Checker *c, Diag *d, const Arg *args, uint32_t count,
                  uint32_t first);
/* Makes the callee an argument of `fun`. */
void fixit_wrap_callee(Checker *c, Diag *d, const Origin *o, const char *fun);
/* Exchanges two arguments; a comes first in the text. */
void fixit_swap(Checker *c, Diag *d, const Expr *a, const Expr *b);

/* ---- what diagnose.c chooses from ---- */
void diagnose_constraint(Checker *c, Constraint *k); /* refuted.c */
void diagnose_types(Checker *c, Type *actual, Type *expected,
                    Origin *o); /* type_mismatch.c */
/* for_range.c: explains why the ranges of these indices are unknown, and
   suggests ranges. */
void diagnose_range(Checker *c, const ForScope *scope, const Expr *e,
                    uint32_t first_access);

#endif
