/* backend: operations that are no loops over indices, by functions of a library
 * instead of generated code: sort, topk, cumsum, scatter, permutation, Fourier
 * transforms.
 *
 * The functions for the host are backend/cpu's; backend/cuda calls them for
 * nodes without a library kernel of its own. */
#ifndef AXON_BACKEND_LIBRARY_OPS_H
#define AXON_BACKEND_LIBRARY_OPS_H

#include "tensor/tensor.h"

/* Elements along an axis: outer * inner lines of `length`. */
typedef struct AxisLines {
  int64_t outer, length, inner;
} AxisLines;

static inline int64_t axis_line_start(const AxisLines *l, int64_t line) {
  return line / l->inner * l->length * l->inner + line % l->inner;
}

/* Is it a fold or a scan, which runs for each iteration in turn? */
bool library_op_is_recurrence(const Node *n);
/* The lines of the node's first input along its axis.  A recurrence, or a node
 * without an input, has one line of one element. */
AxisLines library_op_lines(const Node *n);
/* Is there one for the node?  False: free indices that not all inputs have, or
 * linear algebra, which the reference backend passes to LAPACK. */
bool library_op_exists(const Node *n);
/* Runs it on the host (backend/cpu/library_ops.c).  donated[k]: nothing reads
 * input k later, so the result may take its memory; NULL: none.  False: it is
 * left to the reference backend.  Raises FAIL_INTERRUPT. */
bool library_op_run(Graph *g, Node *n, const bool *donated);

#endif
