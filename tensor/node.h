/* Nodes as the planner and the compilers see them: operands, and whether a node
 * can be stored. */
#ifndef AXON_TENSOR_NODE_H
#define AXON_TENSOR_NODE_H

#include "tensor/tensor.h"

/* ---- node.c ---- */

int64_t *node_own_extents(const Node *n); /* the extents of the own axes */
/* saturates. */
int64_t shape_element_count(uint32_t count, const int64_t *extents);
/* The operands of n.  node_operand returns NULL for some k. */
uint32_t node_operand_count(const Node *n);
Node *node_operand(const Node *n, uint32_t k);
/* A data node that takes t, with the dtype and broadcast axes of `like`.
 * Returns NULL without memory; then the caller still owns t. */
Node *node_try_data(Graph *g, Tensor *t, const Node *like);
/* Returns false, with a fault, if the data of a node must not be stored. */
bool node_fits_memory(const Graph *g, const Node *n, Fault *fault);
/* Turns a node with data into a data node: releases its operands and its body.
 */
void node_drop_references(Node *n);
/* Gives n the body that the planner made for it, which contains its guard.
 * Takes ops, and takes extents unless they are NULL (then they stay). */
void node_replace_body(Node *n, BodyOp *ops, uint32_t count, PrimId reduce,
                       uint32_t reduce_count, int64_t *extents);
/* Gives n its own body again, if a tape still needs it. */
void node_restore_own_body(Node *n);

/* ---- gradient_tape.c ---- */

/* Called after a node ran, and has data unless `inlined`: releases its
 * operands, unless a tape still needs them. */
void node_settle(Node *n);

/* ---- guard.c ---- */

void guard_cache_clear(Graph *g);

/* ---- recurrence.c ---- */

/* If n is a row of a tensor x, one row per index `at`, returns x; else NULL. */
Node *node_row_source(const Node *n, const IndexVar *at);

/* ---- build_views.c ---- */

/* The axes that a node should have. */
typedef struct NodeShape {
  uint32_t free_count, rank, broadcast_mask;
  IndexVar *const *free_vars;
  const int64_t *own_extents;
} NodeShape;
bool node_has_shape(const Node *n, const NodeShape *s);
/* Repeats x along the indices and broadcast axes that it does not have. */
Node *node_broadcast_to_shape(Graph *g, Node *x, const NodeShape *s,
                              Fault *fault);

#endif
