/* Takes sums over iterations out of a loop. */
#ifndef AXON_TENSOR_LOOP_SUMS_H
#define AXON_TENSOR_LOOP_SUMS_H

#include "support/map.h"
#include "support/vec.h"
#include "tensor/node.h"

typedef struct LoopSums {
  Graph *graph;
  Arena *arena;
  const FoldIteration *whole;
  Fault *fault;
  /* The iteration without the sums.  After the stacked outputs of `whole`, it
   * stacks the operands of the sums. */
  FoldIteration rest;
  /* The rest is private. */
  Node **sums; /* for each value of the carry: the sum of its terms, or NULL */
  VEC(Node *) operands, stacks, owned;
  Map read_counts;
} LoopSums;

/* Set the first four fields before.  Returns false, perhaps with a fault, if no
 * value of the carry is such a sum, or if the operands of all iterations take
 * more than max_bytes. */
bool loop_sums_split(LoopSums *s, double max_bytes);
/* rest: the results of the rest.  out gets those of the whole. */
bool loop_sums_join(LoopSums *s, Node *const *rest, Node **out);
void loop_sums_release(LoopSums *s);

#endif
