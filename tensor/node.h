/* Nodes as planning and compiling see them: what a node reads, and whether it
 * can be stored. */
#ifndef AXON_TENSOR_NODE_H
#define AXON_TENSOR_NODE_H

#include "tensor/tensor.h"

/* ---- node.c ---- */

int64_t *node_own_extents(const Node *n); /* the extents of the own axes */
int64_t shape_element_count(uint32_t count,
                            const int64_t *extents); /* saturates */
/* The nodes that n reads; node_operand returns NULL for some k. */
uint32_t node_operand_count(const Node *n);
Node *node_operand(const Node *n, uint32_t k);
/* A data node that takes over t, like `like`'s in dtype and stretching axes.
 * NULL without memory: then the caller still owns t. */
Node *node_try_data(Graph *g, Tensor *t, const Node *like);
/* Whether a node's data may be stored at all; false with a fault. */
bool node_fits_memory(const Graph *g, const Node *n, Fault *fault);
/* Turns a node that has its data into a data node: it releases its inputs and
 * its body.  graph_force does so after a backend has run. */
void node_drop_references(Node *n);

/* ---- guard.c ---- */

void guard_cache_clear(Graph *g);

/* ---- recurrence.c ---- */

/* Of what is just element after element of a tensor, one at each index: that;
 * else NULL. */
Node *node_row_source(const Node *n, const IndexVar *at);

/* ---- build_views.c ---- */

/* The axes that a node is to have. */
typedef struct NodeShape {
  uint32_t free_count, rank, broadcast_mask;
  IndexVar *const *free_vars;
  const int64_t *own_extents;
} NodeShape;
bool node_has_shape(const Node *n, const NodeShape *s);
/* A node that is x, repeated along the indices and stars that it does not
 * have. */
Node *node_broadcast_to_shape(Graph *g, Node *x, const NodeShape *s,
                              Fault *fault);

#endif
