/* Which nodes have library operations, and the lines that these go along. */
#include "backend/library_ops.h"

/* Then those of a slice are like another axis before all. */
static bool shares_free_indices(const Node *n) {
  for (uint32_t k = 0; k < n->input_count; k++) {
    const Node *x = n->inputs[k];
    if (x->free_count != n->free_count)
      return false;
    for (uint32_t j = 0; j < n->free_count; j++)
      if (x->free_vars[j] != n->free_vars[j])
        return false;
  }
  return true;
}

bool library_op_is_recurrence(const Node *n) {
  return n->op == PRIM_FOLD || n->op == PRIM_SCAN;
}

bool library_op_exists(const Node *n) {
  return n->kind == NODE_OPAQUE && !node_lapack_op(n->op, n->params) &&
         (library_op_is_recurrence(n) || shares_free_indices(n));
}

static uint32_t operand_axis(const Node *n) {
  const Node *x = n->inputs[0];
  return x->free_count + (n->op == PRIM_TOPK      ? x->rank - 1
                          : n->op == PRIM_SCATTER ? 0
                                                  : (uint32_t)n->params[0]);
}

AxisLines library_op_lines(const Node *n) {
  AxisLines l = {1, 1, 1};
  if (!n->input_count || library_op_is_recurrence(n))
    return l;
  const Node *x = n->inputs[0];
  uint32_t axis = operand_axis(n);
  l.length = x->extents[axis];
  for (uint32_t k = 0; k < axis; k++)
    l.outer *= x->extents[k];
  for (uint32_t k = axis + 1; k < x->free_count + x->rank; k++)
    l.inner *= x->extents[k];
  return l;
}
