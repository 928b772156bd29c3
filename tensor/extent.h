/* tensor: sizes that are not numbers yet, while a function is traced for
 * `axon build`.
 *
 * Extents are int64_t.  In a graph with `sizes` those from FIRST_EXTENT_HANDLE
 * on are *handles* of polynomials over size variables (size/dim.h): one
 * polynomial has one handle, and a constant is the number itself.  A graph
 * without `sizes` has numbers alone, and then all of this is checked int64_t
 * arithmetic.  What has to hold of sizes and is neither proved nor refuted
 * becomes a *requirement*, for the compiled function to test.
 *
 * Ownership: a Sizes owns its handles and requirements; the graph borrows it,
 * as it does the Dims, which lie in their context's arena. */
#ifndef AXON_TENSOR_EXTENT_H
#define AXON_TENSOR_EXTENT_H

#include "size/dim.h"
#include "tensor/tensor.h"

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

/* Holds, or the compiled function fails with the message. */
typedef struct Requirement {
  ExtentConstraint constraint;
  const ExtentConstraint
      *premises; /* it has to hold only where all of these do, */
  uint32_t premise_count;
  Node *guard;                /* and where this bool scalar is true; or NULL */
  const char *message, *help; /* help: "" if there is none */
  Span span;
} Requirement;

/* The facts are borrowed, and grow by requirements. */
ExtentTable *extent_table_new(DimCtx *dims, Assumptions *assumptions);
void extent_table_free(ExtentTable *table); /* NULL is fine */
const Requirement *extent_table_requirements(const ExtentTable *table,
                                             uint32_t *count);

/* INT64_MAX is what a number that overflowed stands as. */
static inline bool extent_is_static(const Graph *g, int64_t x) {
  return !g->extent_table || x < FIRST_EXTENT_HANDLE || x == INT64_MAX;
}

/* A handle, or a number.  NULL dims (a constant that does not fit) are not
 * for it. */
int64_t extent_of_dim(Graph *g, Dim *d);
Dim *extent_dim(const Graph *g, int64_t x);

/* False: it overflows, or y is 0 (div, mod).  Division is floored, as in the
 * language; by what is no number it is that of sizes: y is at least 1. */
bool extent_add(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_sub(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_mul(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_floor_div(Graph *g, int64_t x, int64_t y, int64_t *out);
bool extent_floor_mod(Graph *g, int64_t x, int64_t y, int64_t *out);
int64_t extent_min(Graph *g, int64_t x, int64_t y);
int64_t extent_max(Graph *g, int64_t x, int64_t y);
bool extent_product(Graph *g, uint32_t count, const int64_t *x, int64_t *out);
/* x rounded up to a multiple of y, over y; y: at least 1 */
bool extent_ceil_div(Graph *g, int64_t x, int64_t y, int64_t *out);

/* What it may be like, for decisions between forms of code that are all right
 * for all sizes: a number itself, and else its value where each size variable
 * is one of middling size. */
enum { EXTENT_HINT_DEFAULT = 960 }; /* all tiles and vectors divide it */
int64_t extent_hint(const Graph *g, int64_t x);
double extent_hint_product(const Graph *g, uint32_t count, const int64_t *x);
/* What a variable is taken for from now on; 0: as others are. */
void extent_table_set_hint(ExtentTable *table, const DimVar *var,
                           int64_t value);
/* A variable that stands for the size, so that formulas it is part of stay
 * short; a number stays one.  Who emits them computes those from .. to - 1
 * before, in order. */
int64_t extent_new_alias(Graph *g, int64_t x);
uint32_t extent_table_alias_count(const ExtentTable *table);
/* What it is called in a formula, and what it stands for. */
const DimVar *extent_table_alias_at(const ExtentTable *table, uint32_t k,
                                    int64_t *extent);
/* Calls f for each variable of a size; those twice that stand there twice. */
void extent_each_var(const Graph *g, int64_t x, void (*f)(void *, DimVar *),
                     void *arg);
/* Of elements that the node has. */
double node_element_hint(const Graph *g, const Node *n);

/* The difference of sizes that fit: what overflows becomes INT64_MAX, and
 * storing it will be refused. */
int64_t extent_sub_saturating(Graph *g, int64_t x, int64_t y);

/* Does it hold without a word: of numbers, or as one handle is one size? */
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

/* What has to hold.  *fault says what is wrong if it does not: it stays where
 * that is refuted, and the answer is false; else it is cleared, and if it is
 * open it becomes a requirement. */
bool extent_require(Graph *g, ExtentRelation relation, int64_t x, int64_t y,
                    Fault *fault);
/* The same with a message; conditions: or NULL. */
Verdict extent_add_requirement(Graph *g, ExtentConstraint constraint,
                               const ExtentConstraint *premises,
                               uint32_t premise_count, const char *message,
                               const char *help);

/* Integers among a traced function's arguments: sizes may be made of them.
 * The variable that stands for one; NULL: no size is. */
void extent_table_add_arg(ExtentTable *table, uint32_t arg, const char *name);
DimVar *extent_table_arg_var(const ExtentTable *table, uint32_t arg);

/* One that is to be tested although it follows from what a size is. */
void extent_table_add_check(Graph *g, ExtentConstraint constraint,
                            const char *message);

/* In what is run now these facts hold, up to the reset. */
uint32_t extent_table_mark(Graph *g);
void extent_table_assume(Graph *g, ExtentConstraint constraint);
void extent_table_rollback(Graph *g, uint32_t mark);

/* A scalar that is a size for all that is known: a constant, a size, sums,
 * products and so on of such. */
bool node_to_extent(Graph *g, const Node *n, int64_t *out);
Node *node_extent_scalar(Graph *g, int64_t x);
/* Is it one as it stands: a single BODY_EXTENT? */
bool node_is_extent(const Node *n, int64_t *out);
/* A comparison of such scalars, and which it is; false: n is none. */
bool node_to_constraint(Graph *g, const Node *n, ExtentConstraint *out);

/* "n - k + 1", "3" */
void extent_print(const Graph *g, Buffer *out, int64_t x);
typedef struct ExtentText {
  char text[96];
} ExtentText;
ExtentText extent_text(const Graph *g, int64_t x);
/* As a C expression of int64_t.  name: what a variable is called there; f/,
 * min and max are calls of extent_floor_div, extent_min and extent_max.  False:
 * a constant does not fit. */
bool extent_emit_c(const Graph *g, Buffer *out, int64_t x,
                   const char *(*name)(void *, const DimVar *), void *arg);
/* As one of double, that which no value on the way to it exceeds: where this
 * is less than 2^63, nothing wraps around.  size_abs takes a variable. */
bool extent_emit_magnitude(const Graph *g, Buffer *out, int64_t x,
                           const char *(*name)(void *, const DimVar *),
                           void *arg);
/* Its value where its variables have these; false: it overflows, or divides by
 * 0. */
bool extent_evaluate(const Graph *g, int64_t x,
                     int64_t (*value)(void *, const DimVar *), void *arg,
                     int64_t *out);
/* The same of what dim_postfix gives. */
bool dim_postfix_evaluate(const DimOp *ops, uint32_t count,
                          int64_t (*value)(void *, const DimVar *), void *arg,
                          int64_t *out);

#endif
