/* backend/cpu: operations that are no loops over indices, by routines of their
 * own instead of generated code: sort, topk, cumsum, scatter, permutation.
 *
 * Where one has nothing for a node (free indices that not all inputs have), and
 * where an index is wrong, be it under a condition that does not hold, it is
 * left to the reference backend, which tells what is amiss.
 * Results do not depend on how many threads there are. */
#ifndef AXON_CPU_LIBRARY_OPS_H
#define AXON_CPU_LIBRARY_OPS_H

#include "backend/library_ops.h"
#include "plan/fusion_group.h"

/* What a routine works on.  All that it asks for beside is in tensors, which
 * whoever calls it gives back. */
typedef struct LibraryOp {
  Graph *graph;
  const Node *node;
  Arena *arena; /* or NULL: also given back */
  Tensor *out, *scratch, *scratch2;
  AxisLines lines; /* of the first input */
} LibraryOp;

/* ---- library_op_tasks.c ---- */

/* Bytes for what is asked for beside; NULL: there are none. */
void *library_op_scratch(Tensor **at, int64_t bytes);
/* Units on all threads; false: one had no memory.  Raises FAIL_INTERRUPT. */
bool library_op_parallel_for(const LibraryOp *r, int64_t tasks, int64_t grain,
                             int (*work)(void *, int64_t, int64_t),
                             void *context);

/* ---- each of them: false, it is left ---- */

bool library_op_sort(LibraryOp *r); /* radix_sort.c */
bool library_op_argsort(LibraryOp *r);
bool library_op_topk(LibraryOp *r);
bool library_op_permutation(LibraryOp *r);
bool library_op_cumsum(LibraryOp *r);
bool library_op_scatter(LibraryOp *r);
bool library_op_recurrence(LibraryOp *r); /* folds and scans: recurrence.c */

#endif
