/* Runs deferred nodes: plans what they need, and has the graph's backend run
 * it. */
#ifndef AXON_PLAN_EXECUTE_H
#define AXON_PLAN_EXECUTE_H

#include "tensor/tensor.h"

/* ---- execute.c ---- */

/* Makes sure that nodes[0..count) have their data, running everything they
 * need together.  False with a fault (index out of range, division by zero,
 * no memory) whose place is *where.  Raises FAIL_INTERRUPT on Ctrl-C. */
bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault);
/* Frees the plans and guards that the graph keeps for later runs. */
void graph_clear_caches(Graph *g);

/* ---- loop_execute.c: loops that are run at once ---- */

/* Runs all turns, on a backend that can, and gives what node_fold would: one
 * data node for each result.  False: it is not to be done so, or something was
 * wrong in some turn; nobody knows what then.  The states are let go of, and
 * what reads them is of no more use. */
bool graph_execute_loop(Graph *g, const FoldIteration *iteration, Node **out);

#endif
