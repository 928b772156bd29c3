/* backend/cpu: operations that are no loops over indices, by routines of their
 * own instead of generated code: sort, topk, cumsum, scatter, permutation.
 *
 * Where one has nothing for a node (free indices that not all inputs have), and
 * where an index is wrong, be it under a condition that does not hold, it is
 * left to the reference backend, which tells what is amiss.
 * Results do not depend on how many threads there are. */
#ifndef AXON_CPU_ROUTINES_H
#define AXON_CPU_ROUTINES_H

#include "tensor/kernel.h"

/* Elements along an axis: outer * inner lines of `length`. */
typedef struct Lines {
  int64_t outer, length, inner;
} Lines;

static inline int64_t line_start(const Lines *l, int64_t line) {
  return line / l->inner * l->length * l->inner + line % l->inner;
}

/* What a routine works on.  All that it asks for beside is in tensors, which
 * whoever calls it gives back. */
typedef struct Routine {
  Graph *graph;
  const Node *node;
  Arena *arena; /* or NULL: also given back */
  Tensor *out, *room, *more;
  Lines lines; /* of the first input */
} Routine;

/* Those of the node's first input along its axis. */
Lines routine_lines(const Node *n);
/* Is there one for it? */
bool routine_has(const Node *n);
/* False: it is left to the reference backend.  Raises FAIL_INTERRUPT. */
bool routine_run(Graph *g, Node *n);

/* Bytes for what is asked for beside; NULL: there are none. */
void *routine_room(Tensor **at, int64_t bytes);
/* Units on all threads; false: one had no memory.  Raises FAIL_INTERRUPT. */
bool routine_share(const Routine *r, int64_t units, int64_t grain,
                   int (*work)(void *, int64_t, int64_t), void *context);

/* ---- each of them: false, it is left ---- */

bool routine_sort(Routine *r); /* keys.c */
bool routine_argsort(Routine *r);
bool routine_topk(Routine *r);
bool routine_permutation(Routine *r);
bool routine_cumsum(Routine *r);
bool routine_scatter(Routine *r);
bool routine_in_order(Routine *r); /* folds and scans: inorder.c */

#endif
