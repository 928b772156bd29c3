/* tensor: plans of a function that is compiled, for `axon build`.
 *
 * What is wanted at one place of the function is a region: it is planned and
 * put together as what runs at once is, but the sizes are no numbers yet
 * (size.h), and its kernels are written and not run. */
#ifndef AXON_TENSOR_REGION_H
#define AXON_TENSOR_REGION_H

#include "tensor/kernel.h"

typedef struct Region {
  uint32_t cluster_count, stored_count;
  Cluster *const *clusters; /* in order: what runs at once */
  Node **stored;            /* their nodes, borrowed */
  struct Plan *plan;
} Region;

/* Of nodes that are not there yet.  May raise; region_end must run in any case.
 */
void region_plan(Region *r, Arena *arena, Graph *g, uint32_t count,
                 Node *const *roots);
void region_end(Region *r);

/* What elements are like that a node is to have. */
typedef struct Shape {
  uint32_t free_count, rank, stars;
  IndexVar *const *free;
  const int64_t *own;
} Shape;
bool node_has_shape(const Node *n, const Shape *s);
/* A node that is x, repeated along the indices and stars that it does not
 * have. */
Node *node_shaped(Graph *g, Node *x, const Shape *s, Fault *fault);

#endif
