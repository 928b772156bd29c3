/* What the files share that write messages: error.c (what all of them have),
 * mismatch.c (types), sizeerror.c (sizes and shapes), multiple.c (divisions),
 * party.c (who else has to do with it), help.c (ways out), report.c (where a
 * refuted constraint is told).  Texts live in the checker's arena. */
#ifndef AXON_TYPECHECK_ERRORS_H
#define AXON_TYPECHECK_ERRORS_H

#include "typecheck/internal.h"

/* ---- error.c ---- */
/* "argument 1 of f" */
const char *error_place(Checker *c, const Origin *o);
/* x, x.w, x.w.v as it is written; or NULL: it is something else. */
const char *error_path_text(Checker *c, const Expr *e);
/* What stands there; or NULL, where that is no text of the user's, or long. */
const char *error_written(Checker *c, Span span);
/* The other place that has to do with it; with it, the chain. */
void error_marks(Checker *c, Diag *d, const Origin *o);
void error_path(Checker *c, Diag *d, const Origin *o);
/* Whatever a message about a constraint shows besides its text. */
void error_explain(Checker *c, Diag *d, Constraint *k);
bool error_prints_alike(Checker *c, Type *a, Type *b);
/* The format has two %s: the first type gets its names first, whatever the
 * compiler does first. */
const char *error_two_types(Checker *c, const char *format, Type *a, Type *b);
bool error_is_tensor(Type *t);
/* NULL: it is no tensor. */
Shape *error_shape(Checker *c, Type *t);
/* The only axis along which two shapes differ, of each of them; the sizes are
 * aligned at the right.  False: there is none, or several. */
bool error_one_axis(const Shape *a, const Shape *b, uint32_t *i, uint32_t *j);
/* The type of what is called, which says how its parameters hang together. */
void error_note_callee(Checker *c, Diag *d, const Origin *o);
/* The type whose condition it was. */
void error_note_scheme(Checker *c, Diag *d, const Origin *o);

/* ---- sizeerror.c ---- */
void size_error_eq(Checker *c, Constraint *k);
void size_error_le(Checker *c, Constraint *k);
void size_error_shapes(Checker *c, const Shape *a, const Shape *b, Origin *o);

/* ---- party.c ---- */
/* "5408 columns arrive, fc1.w wants 9216", if another argument says so. */
bool party_error(Checker *c, Constraint *k);
/* Where a `_` took a factor over, the blame is its reshape's. */
void party_hole(Checker *c, Diag *d, const Constraint *k);

/* ---- multiple.c: "60 is not a multiple of 8", or NULL ---- */
const char *multiple_of(Checker *c, Constraint *k);
const char *multiple_uneven(Checker *c, const Constraint *k);

/* ---- help.c; NULL: none is right ---- */
const char *help_rank(const Shape *have, const Shape *want);
bool help_swapped(Checker *c, Origin *o);
const char *help_join(Checker *c, const Origin *o);

#endif
