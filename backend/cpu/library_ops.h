/* backend/cpu: operations that are library routines instead of generated loops:
 * sort, topk, cumsum, scatter, permutation, Fourier transforms.
 *
 * The reference backend executes a node if its routine does not support it
 * (free indices that not all inputs have).  It also executes nodes with an
 * invalid index, even under a false guard, and reports the error.  Results do
 * not depend on the number of threads. */
#ifndef AXON_CPU_LIBRARY_OPS_H
#define AXON_CPU_LIBRARY_OPS_H

#include "backend/library_ops.h"
#include "plan/fusion_group.h"

typedef struct Arena Arena;

/* State of a library operation.  The caller releases its tensors. */
typedef struct LibraryOp {
  Graph *graph;
  const Node *node;
  Arena *arena; /* or NULL; the caller releases it */
  Tensor *out, *scratch, *scratch2;
  AxisLines lines; /* of the first input */
  bool in_place;   /* `out` is the tensor of the first input */
} LibraryOp;

/* ---- library_op_tasks.c ---- */

/* Allocates scratch memory; NULL: out of memory. */
void *library_op_scratch(Tensor **at, int64_t bytes);
/* Runs the tasks on all threads.  Returns false if out of memory.  Raises
 * FAIL_INTERRUPT. */
bool library_op_parallel_for(const LibraryOp *r, int64_t tasks, int64_t grain,
                             int (*work)(void *, int64_t, int64_t),
                             void *context);

/* ---- operations; false: the reference backend executes the node ---- */

bool library_op_sort(LibraryOp *r); /* radix_sort.c */
bool library_op_argsort(LibraryOp *r);
bool library_op_topk(LibraryOp *r);
bool library_op_permutation(LibraryOp *r);
bool library_op_cumsum(LibraryOp *r);
bool library_op_scatter(LibraryOp *r);
/* Can it write over its first input?  Then it does, if r->in_place. */
bool library_op_scatter_in_place(const LibraryOp *r);
bool library_op_fourier(LibraryOp *r);    /* DFT and its relatives */
bool library_op_recurrence(LibraryOp *r); /* folds and scans: recurrence.c */

#endif
