/* Extents: sizes of axes that may be symbolic, during AOT tracing for `axon
 * build`.
 *
 * Extents are int64_t.  In a graph with an extent table, values from
 * FIRST_EXTENT_HANDLE on are *handles* of polynomials over size variables
 * (size/dim.h).  A polynomial has one handle.  A constant is the number itself.
 * In a graph without an extent table, all extents are numbers, and all of this
 * is checked int64_t arithmetic.
 *
 * A constraint on sizes that is neither proved nor refuted becomes a
 * *requirement*, which the compiled function checks.
 *
 * Ownership: an ExtentTable owns its handles and requirements.  The graph
 * borrows the table and the Dims, which live in the arena of their context. */
#ifndef AXON_TENSOR_EXTENT_H
#define AXON_TENSOR_EXTENT_H

#include "size/dim.h"
#include "support/span.h"
#include "tensor/tensor.h"

typedef struct Buffer Buffer;

#define FIRST_EXTENT_HANDLE ((int64_t)1 << 62)

typedef enum ExtentRelation {
  EXTENT_EQ, /* x == y */
  EXTENT_LE, /* x <= y */
  EXTENT_NE, /* x != y */
} ExtentRelation;

typedef struct ExtentConstraint {
  ExtentRelation relation;
  int64_t x, y;
} ExtentConstraint;

/* A condition that must hold; otherwise the compiled function fails with the
 * message. */
typedef struct Requirement {
  ExtentConstraint constraint;
  /* The condition must hold only if all premises hold. */
  const ExtentConstraint *premises;
  uint32_t premise_count;
  /* The condition must hold only if this bool scalar is true; NULL: always. */
  Node *guard;
  const char *message, *help; /* help: "" if there is none */
  Span span;
} Requirement;

/* Borrows the assumptions, and adds requirements to them. */
ExtentTable *extent_table_new(DimCtx *dims, Assumptions *assumptions);
void extent_table_free(ExtentTable *table); /* table may be NULL */
const Requirement *extent_table_requirements(const ExtentTable *table,
                                             uint32_t *count);

/* False for handles.  INT64_MAX counts as a number: it marks an overflow. */
static inline bool extent_is_static(const Graph *g, int64_t x) {
  return !g->extent_table || x < FIRST_EXTENT_HANDLE || x == INT64_MAX;
}

/* Returns a handle or a number.  d must not be NULL (a constant that does not
 * fit). */
int64_t extent_of_dim(Graph *g, Dim *d);
Dim *extent_dim(const Graph *g, int64_t x);

/* Return false on overflow, and if y is 0 in div and mod.  Division rounds
 * down, as in the language.  A symbolic divisor must be at least 1. */
bool extent_add(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_sub(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_mul(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_floor_div(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_floor_mod(Graph *g, int64_t x, int64_t y, int64_t *out);
int64_t extent_min(Graph *g, int64_t x, int64_t y);
int64_t extent_max(Graph *g, int64_t x, int64_t y);
bool extent_product(Graph *g, uint32_t count, const int64_t *x, int64_t *out);
/* x rounded up to a multiple of y, divided by y; y is at least 1 */
bool extent_ceil_div(Graph *g, int64_t x, int64_t y, int64_t *out);

/* A likely value, for decisions between forms of code that are all correct for
 * all sizes.  For a number it is the number.  Otherwise, each size variable has
 * the hint EXTENT_HINT_DEFAULT. */
int64_t extent_hint(const Graph *g, int64_t x);
double extent_hint_product(const Graph *g, uint32_t count, const int64_t *x);
/* Sets the hint of a variable; 0: the default. */
void extent_table_set_hint(ExtentTable *table, const DimVar *var,
                           int64_t value);
/* Returns a variable that stands for extent x, so that formulas with it stay
 * short.  A number is returned unchanged.  Emitted code computes the aliases
 * from .. to - 1 first, in order. */
int64_t extent_new_alias(Graph *g, int64_t x);
uint32_t extent_table_alias_count(const ExtentTable *table);
/* Returns the variable of an alias, and the extent that it stands for. */
const DimVar *extent_table_alias_at(const ExtentTable *table, uint32_t k,
                                    int64_t *extent);
/* Calls f for each variable of a size, once for each occurrence. */
void extent_each_var(const Graph *g, int64_t x, void (*f)(void *, DimVar *),
                     void *arg);
/* Number of elements of the node, with hints for symbolic sizes. */
double node_element_hint(const Graph *g, const Node *n);

/* Returns the difference.  On overflow it returns INT64_MAX, and a later
 * attempt to materialize such a node fails. */
int64_t extent_sub_saturating(Graph *g, int64_t x, int64_t y);

/* True if the constraint holds without a solver: for numbers, or equal
 * handles. */
static inline bool extent_holds_trivially(const Graph *g,
                                          ExtentRelation relation, int64_t x,
                                          int64_t y) {
  if (x == y)
    return relation != EXTENT_NE;
  return relation != EXTENT_EQ && extent_is_static(g, x) &&
         extent_is_static(g, y) && (relation == EXTENT_NE || x < y);
}

/* x < y */
bool extent_proved_less(const Graph *g, int64_t x, int64_t y);
Verdict extent_decide(const Graph *g, ExtentRelation relation, int64_t x,
                      int64_t y);
static inline bool extent_proved(const Graph *g, ExtentRelation relation,
                                 int64_t x, int64_t y) {
  return extent_decide(g, relation, x, y) == ENTAILED;
}

/* Requires a constraint.  *fault describes the violation.  If the constraint is
 * refuted, the fault stays and the result is false.  Otherwise the fault is
 * cleared; an undecided constraint becomes a requirement. */
bool extent_require(Graph *g, ExtentRelation relation, int64_t x, int64_t y,
                    Fault *fault);
/* The same with a message.  premises may be NULL. */
Verdict extent_add_requirement(Graph *g, ExtentConstraint constraint,
                               const ExtentConstraint *premises,
                               uint32_t premise_count, const char *message,
                               const char *help);

/* Registers an integer argument of a traced function, from which sizes may be
 * computed.  extent_table_arg_var returns its variable; NULL if no size depends
 * on it. */
void extent_table_add_arg(ExtentTable *table, uint32_t arg, const char *name);
DimVar *extent_table_arg_var(const ExtentTable *table, uint32_t arg);

/* Adds a check that must be tested, even if it follows from other facts. */
void extent_table_add_check(Graph *g, ExtentConstraint constraint,
                            const char *message);

/* Assumes facts about the code that runs now, until the rollback. */
uint32_t extent_table_mark(Graph *g);
void extent_table_assume(Graph *g, ExtentConstraint constraint);
void extent_table_rollback(Graph *g, uint32_t mark);

/* Converts a scalar to a size, if possible: a constant, a size, or sums,
 * products and so on of these. */
bool node_to_extent(Graph *g, const Node *n, int64_t *out);
Node *node_extent_scalar(Graph *g, int64_t x);
/* True if n is a single BODY_EXTENT. */
bool node_is_extent(const Node *n, int64_t *out);
/* Converts a comparison of such scalars to a constraint.  Returns false if n is
 * none. */
bool node_to_constraint(Graph *g, const Node *n, ExtentConstraint *out);

/* "n - k + 1", "3" */
void extent_print(const Graph *g, Buffer *out, int64_t x);
typedef struct ExtentText {
  char text[96];
} ExtentText;
ExtentText extent_text(const Graph *g, int64_t x);
/* Emits a C expression of type int64_t.  `name` gives the C name of a variable.
 * Division, minimum and maximum are calls of extent_floor_div, extent_min and
 * extent_max.  Returns false if a constant does not fit. */
bool extent_emit_c(const Graph *g, Buffer *out, int64_t x,
                   const char *(*name)(void *, const DimVar *), void *arg);
/* Emits a C expression of type double: a bound on all intermediate values.  If
 * it is less than 2^63, no operation overflows.  size_abs is applied to
 * variables. */
bool extent_emit_magnitude(const Graph *g, Buffer *out, int64_t x,
                           const char *(*name)(void *, const DimVar *),
                           void *arg);
/* Evaluates the extent for given variables.  Returns false on overflow or
 * division by 0. */
bool extent_evaluate(const Graph *g, int64_t x,
                     int64_t (*value)(void *, const DimVar *), void *arg,
                     int64_t *out);
/* The same for the result of dim_postfix. */
bool dim_postfix_evaluate(const DimOp *ops, uint32_t count,
                          int64_t (*value)(void *, const DimVar *), void *arg,
                          int64_t *out);

#endif
