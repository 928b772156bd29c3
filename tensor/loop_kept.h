/* Values of a loop that its reverse pass should not compute again. */
#ifndef AXON_TENSOR_LOOP_KEPT_H
#define AXON_TENSOR_LOOP_KEPT_H

#include "tensor/node.h"

enum { MAX_KEPT_VALUES = 16 };

/* Finds such values among those that an iteration computes from the carry for
 * its results, in order of creation.  Returns their number.  An iteration that
 * runs again, on leaves of a tape, has the same values in the same order. */
uint32_t loop_kept_values(uint32_t carry_count, Node *const *carry,
                          uint32_t result_count, Node *const *results,
                          Node *out[MAX_KEPT_VALUES]);
/* True if n and x have one type and the same free indices. */
bool node_has_type_of(const Node *n, const Node *x);
/* Makes n read x, which has its value, instead of computing it. */
void node_read_instead(Graph *g, Node *n, Node *x);

#endif
