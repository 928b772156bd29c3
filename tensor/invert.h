/* Inversion of index maps: for a read U[e(v)] in a comprehension over axes v,
 * the axes v at which it reads a given element of U. */
#ifndef AXON_TENSOR_INVERT_H
#define AXON_TENSOR_INVERT_H

#include "tensor/internal.h"

enum { MAX_INVERT_VARS = 3 * MAX_RANK };

/* A variable: an axis of the comprehension, or a quotient, remainder or digit
 * that the inversion introduced. */
typedef struct InvertVar {
  int64_t extent;  /* 0 <= value < extent */
  uint32_t value;  /* op of the new body; UINT32_MAX: not known yet */
  bool is_summed;  /* a reduced axis of the new body */
  bool is_bounded; /* the value is in range only if the condition holds */
} InvertVar;

typedef struct Inversion {
  BodyBuilder *b;                  /* the new body */
  NodeSpec *spec;                  /* its specification; gets reduced axes */
  const Node *n;                   /* the comprehension */
  InvertVar vars[MAX_INVERT_VARS]; /* first the axes of n: free, own, reduced */
  uint32_t var_count;
  uint32_t condition; /* op of the new body, or UINT32_MAX: always true */
  /* Indices that depend on data, and the elements of U that they have to
   * equal. */
  uint32_t data_ops[MAX_RANK], data_targets[MAX_RANK], data_count;
  bool data_is_summed; /* a data index depends on a summed axis */
  /* By own axis of the new node: a stride s if elements with different indices
   * modulo s are computed differently; otherwise 0. */
  int64_t strides[MAX_RANK];
  /* By own axis of the node that is read: all indices are at least `low`, and
   * less than low + count. */
  int64_t lows[MAX_RANK], counts[MAX_RANK];
  /* Input.  By own axis: what is added to a target. */
  int64_t offsets[MAX_RANK];
  /* Input.  By free axis of n: an op of the new body if the axis is an axis of
   * it, or UINT32_MAX. */
  uint32_t kept_axes[MAX_RANK];
} Inversion;

/* Solves e(v) = target + offset for all axes of the read: op `read` of x->n.
 * `targets` are ops of the new body, one per free and own axis of the node that
 * is read. Every axis of x->n gets a value.  Returns false if that is not
 * possible. */
bool invert_read(Inversion *x, const BodyOp *read, const uint32_t *targets);
/* Adds a condition. */
void invert_require(Inversion *x, uint32_t condition);

#endif
