/* Runs deferred nodes: plans the nodes that they depend on, and runs them on
 * the backend of the graph. */
#ifndef AXON_PLAN_EXECUTE_H
#define AXON_PLAN_EXECUTE_H

#include "tensor/tensor.h"

/* ---- execute.c ---- */

/* Computes the data of nodes[0..count), together with everything that they
 * depend on.  On failure (index out of range, division by zero, no memory) it
 * returns false, sets the fault, and stores its source span in *where.  Raises
 * FAIL_INTERRUPT on Ctrl-C. */
bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault);
/* Frees the cached plans and guards of the graph. */
void graph_clear_caches(Graph *g);

/* ---- loop_execute.c: immediate execution of loops ---- */

/* Runs all iterations, on a backend that supports it.  Returns one data node
 * for each result, like node_fold.  Returns false if that is not possible or if
 * an iteration failed; the reason is unknown then.  In any case it releases the
 * carry, so nodes that read the carry are invalid. */
bool graph_execute_loop(Graph *g, const FoldIteration *iteration, Node **out);

#endif
