/* Row views: replaces a leaf of which only some rows are read.
 *
 * If a graph reads only a few rows of a tensor, at constant indices, it reads a
 * view of these rows instead.  Their indices then count from the first row of
 * the view.  An iteration of a loop over rows or batches is such a graph.  So
 * all iterations have the same plan key, wherever the rows are, and share one
 * plan. */
#include "plan/backend.h"
#include "plan/cached_plan.h"
#include "tensor/node.h"

static bool is_int_constant(const BodyOp *c) {
  return c->kind == BODY_CONST && c->dtype == DT_I64;
}

/* Returns the op with the constant at which the index starts.  The index covers
 * *count rows from there.  UINT32_MAX: it has another form. */
static uint32_t find_start_op(const Node *n, uint32_t index, int64_t *count) {
  const BodyOp *c = &n->body_ops[index];
  *count = 1;
  if (is_int_constant(c))
    return index;
  if (c->kind != BODY_OP || c->op != PRIM_ADD || c->arg_count != 2)
    return UINT32_MAX;
  for (uint32_t k = 0; k < 2; k++) {
    const BodyOp *x = &n->body_ops[c->args[k]],
                 *y = &n->body_ops[c->args[1 - k]];
    if (x->kind != BODY_AXIS || !is_int_constant(y))
      continue;
    *count = n->extents[x->axis];
    return c->args[1 - k];
  }
  return UINT32_MAX;
}

/* True if the op has exactly one use. */
static bool is_used_once(const Node *n, uint32_t op_index) {
  uint32_t uses = op_index == n->body_op_count - 1;
  for (uint32_t k = 0; k < n->body_op_count; k++)
    for (uint32_t j = 0; j < n->body_ops[k].arg_count; j++)
      uses += n->body_ops[k].args[j] == op_index;
  return uses == 1;
}

/* A gradient goes through the reads of a leaf on a tape: they stay. */
static bool can_view_rows(const Graph *g, const Node *leaf) {
  bool is_on_tape = leaf->tape && leaf->tape->open;
  return g->backend->supports_views && leaf->data && !leaf->data->device_copy &&
         !leaf->materialized && !leaf->free_count && leaf->rank &&
         leaf->extents[0] > 1 && !is_on_tape;
}

bool row_view_match(const Graph *g, Node *n, uint32_t read_op,
                    RowSliceRead *out) {
  const BodyOp *c = &n->body_ops[read_op];
  const Node *leaf = c->node;
  if (!can_view_rows(g, leaf) || n->body_ops[c->args[0]].kind == BODY_AXIS)
    return false;
  uint32_t index = c->args[0];
  *out = (RowSliceRead){.node = n, .read_op = read_op};
  out->start_op = find_start_op(n, index, &out->row_count);
  if (out->start_op == UINT32_MAX)
    return false;
  out->first_row = n->body_ops[out->start_op].value.i;
  return out->first_row >= 0 && out->row_count > 0 &&
         out->first_row < leaf->extents[0] &&
         out->row_count <= leaf->extents[0] - out->first_row &&
         is_used_once(n, out->start_op) && is_used_once(n, index);
}

/* Returns NULL if there is no memory. */
static Node *row_view_node(Graph *g, const Node *leaf, int64_t from,
                           int64_t count) {
  Tensor *t = tensor_row_view(leaf->data, from, count);
  if (!t)
    return NULL;
  Node *part = node_try_data(g, t, leaf);
  if (part)
    part->span = leaf->span;
  else
    tensor_release(t);
  return part;
}

Node *row_view_substitute(Graph *g, Node *leaf, uint32_t count,
                          const RowSliceRead *reads) {
  int64_t low = INT64_MAX, high = 0;
  for (uint32_t k = 0; k < count; k++) {
    int64_t end = reads[k].first_row + reads[k].row_count;
    low = reads[k].first_row < low ? reads[k].first_row : low;
    high = end > high ? end : high;
  }
  bool whole = low == 0 && high == leaf->extents[0];
  Node *part = whole ? NULL : row_view_node(g, leaf, low, high - low);
  if (!part)
    return NULL;
  for (uint32_t k = 0; k < count; k++) {
    BodyOp *ops = reads[k].node->body_ops;
    ops[reads[k].start_op].value.i -= low;
    ops[reads[k].read_op].node = node_retain(part);
    node_release(leaf);
  }
  node_release(part); /* its consumers hold it */
  return part;
}
