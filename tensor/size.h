/* tensor: sizes that are not numbers yet, while a function is traced for
 * `axon build`.
 *
 * Extents are int64_t.  In a graph with `sizes` those from SIZE_FIRST on are
 * *handles* of polynomials over size variables (typecheck/dim.h): one
 * polynomial has one handle, and a constant is the number itself.  A graph
 * without `sizes` has numbers alone, and then all of this is checked int64_t
 * arithmetic.  What has to hold of sizes and is neither proved nor refuted
 * becomes a *requirement*, for the compiled function to test.
 *
 * Ownership: a Sizes owns its handles and requirements; the graph borrows it,
 * as it does the Dims, which lie in their context's arena. */
#ifndef AXON_TENSOR_SIZE_H
#define AXON_TENSOR_SIZE_H

#include "tensor/tensor.h"
#include "typecheck/dim.h"

#define SIZE_FIRST ((int64_t)1 << 62)

typedef enum SizeTest {
  SIZE_EQ, /* x == y */
  SIZE_LE, /* x <= y */
  SIZE_NE, /* x != y */
} SizeTest;

typedef struct SizeFact {
  SizeTest test;
  int64_t x, y;
} SizeFact;

/* Holds, or the compiled function fails with the message. */
typedef struct Requirement {
  SizeFact fact;
  const SizeFact *when; /* it has to hold only where all of these do, */
  uint32_t when_count;
  Node *guard;                /* and where this bool scalar is true; or NULL */
  const char *message, *help; /* help: "" if there is none */
  Span span;
} Requirement;

/* The facts are borrowed, and grow by requirements. */
Sizes *sizes_new(DimCtx *dims, DimFacts *facts);
void sizes_free(Sizes *sizes); /* NULL is fine */
const Requirement *sizes_required(const Sizes *sizes, uint32_t *count);

/* INT64_MAX is what a number that overflowed stands as. */
static inline bool size_is_number(const Graph *g, int64_t x) {
  return !g->sizes || x < SIZE_FIRST || x == INT64_MAX;
}

/* A handle, or a number.  NULL dims (a constant that does not fit) are not
 * for it. */
int64_t size_of_dim(Graph *g, Dim *d);
Dim *size_dim(const Graph *g, int64_t x);

/* False: it overflows, or y is 0 (div, mod).  Division is floored, as in the
 * language; by what is no number it is that of sizes: y is at least 1. */
bool size_add(Graph *g, int64_t x, int64_t y, int64_t *out);
bool size_sub(Graph *g, int64_t x, int64_t y, int64_t *out);
bool size_mul(Graph *g, int64_t x, int64_t y, int64_t *out);
bool size_div(Graph *g, int64_t x, int64_t y, int64_t *out);
bool size_mod(Graph *g, int64_t x, int64_t y, int64_t *out);
int64_t size_min(Graph *g, int64_t x, int64_t y);
int64_t size_max(Graph *g, int64_t x, int64_t y);
bool size_product(Graph *g, uint32_t count, const int64_t *x, int64_t *out);
/* x rounded up to a multiple of y, over y; y: at least 1 */
bool size_div_up(Graph *g, int64_t x, int64_t y, int64_t *out);

/* What it may be like, for decisions between forms of code that are all right
 * for all sizes: a number itself, and else its value where each size variable
 * is one of middling size. */
enum { SIZE_MIDDLING = 960 }; /* all tiles and vectors divide it */
int64_t size_guess(const Graph *g, int64_t x);
double size_guess_product(const Graph *g, uint32_t count, const int64_t *x);
/* What a variable is taken for from now on; 0: as others are. */
void sizes_guess(Sizes *sizes, const DimVar *var, int64_t value);
/* A variable that stands for the size, so that formulas it is part of stay
 * short; a number stays one.  Who emits them computes those from .. to - 1
 * before, in order. */
int64_t size_alias(Graph *g, int64_t x);
uint32_t sizes_alias_count(const Sizes *sizes);
/* What it is called in a formula, and what it stands for. */
const DimVar *sizes_alias(const Sizes *sizes, uint32_t k, int64_t *is);
/* Calls f for each variable of a size; those twice that stand there twice. */
void size_each_var(const Graph *g, int64_t x, void (*f)(void *, DimVar *),
                   void *arg);
/* Of elements that the node has. */
double node_guess(const Graph *g, const Node *n);

/* The difference of sizes that fit: what overflows becomes INT64_MAX, and
 * storing it will be refused. */
int64_t size_less(Graph *g, int64_t x, int64_t y);

/* Does it hold without a word: of numbers, or as one handle is one size? */
static inline bool size_plainly(const Graph *g, SizeTest test, int64_t x,
                                int64_t y) {
  if (x == y)
    return test != SIZE_NE;
  return test != SIZE_EQ && size_is_number(g, x) && size_is_number(g, y) &&
         (test == SIZE_NE || x < y);
}

/* x < y */
bool size_below(const Graph *g, int64_t x, int64_t y);
Verdict size_test(const Graph *g, SizeTest test, int64_t x, int64_t y);
static inline bool size_holds(const Graph *g, SizeTest test, int64_t x,
                              int64_t y) {
  return size_test(g, test, x, y) == PROVED;
}

/* What has to hold.  *fault says what is wrong if it does not: it stays where
 * that is refuted, and the answer is false; else it is cleared, and if it is
 * open it becomes a requirement. */
bool size_demand(Graph *g, SizeTest test, int64_t x, int64_t y, Fault *fault);
/* The same with a message; conditions: or NULL. */
Verdict size_require(Graph *g, SizeFact fact, const SizeFact *when,
                     uint32_t when_count, const char *message,
                     const char *help);

/* Integers among a traced function's arguments: sizes may be made of them.
 * The variable that stands for one; NULL: no size is. */
void sizes_call_arg(Sizes *sizes, uint32_t arg, const char *name);
DimVar *sizes_arg_var(const Sizes *sizes, uint32_t arg);

/* One that is to be tested although it follows from what a size is. */
void sizes_test(Graph *g, SizeFact fact, const char *message);

/* In what is run now these facts hold, up to the reset. */
uint32_t sizes_mark(Graph *g);
void sizes_assume(Graph *g, SizeFact fact);
void sizes_reset(Graph *g, uint32_t mark);

/* A scalar that is a size for all that is known: a constant, a size, sums,
 * products and so on of such. */
bool node_to_size(Graph *g, const Node *n, int64_t *out);
Node *node_size_scalar(Graph *g, int64_t x);
/* Is it one as it stands: a single CELL_SIZE? */
bool node_is_size(const Node *n, int64_t *out);
/* A comparison of such scalars, and which it is; false: n is none. */
bool node_to_fact(Graph *g, const Node *n, SizeFact *out);

/* "n - k + 1", "3" */
void size_put(const Graph *g, Buffer *out, int64_t x);
typedef struct SizeText {
  char text[96];
} SizeText;
SizeText size_text(const Graph *g, int64_t x);
/* As a C expression of int64_t.  name: what a variable is called there; f/,
 * min and max are calls of size_div, size_min and size_max.  False: a constant
 * does not fit. */
bool size_emit(const Graph *g, Buffer *out, int64_t x,
               const char *(*name)(void *, const DimVar *), void *arg);
/* As one of double, that which no value on the way to it exceeds: where this
 * is less than 2^63, nothing wraps around.  size_abs takes a variable. */
bool size_emit_reach(const Graph *g, Buffer *out, int64_t x,
                     const char *(*name)(void *, const DimVar *), void *arg);
/* Its value where its variables have these; false: it overflows, or divides by
 * 0. */
bool size_at_values(const Graph *g, int64_t x,
                    int64_t (*value)(void *, const DimVar *), void *arg,
                    int64_t *out);
/* The same of what dim_postfix gives. */
bool dim_ops_value(const DimOp *ops, uint32_t count,
                   int64_t (*value)(void *, const DimVar *), void *arg,
                   int64_t *out);

#endif
