/* Ragged axes: axes whose size differs from row to row (tensor.h). */
#include "tensor/internal.h"
#include "support/mem.h"
#include "support/trap.h"

void node_set_row_length(Node *n, uint32_t axis, Node *row_length) {
  if (!row_length)
    return;
  if (!n->row_lengths)
    n->row_lengths = mem_try_alloc(n->rank * sizeof *n->row_lengths);
  if (!n->row_lengths) {
    node_release(n);
    trap_raise(FAIL_MEMORY);
  }
  node_release(n->row_lengths[axis]);
  n->row_lengths[axis] = node_retain(row_length);
}

Node *node_mask_padding(Graph *g, Node *x, uint32_t first, uint32_t count,
                        Scalar value, Fault *fault) {
  NodeSpec spec = node_spec_like(x);
  bool is_ragged = false;
  for (uint32_t k = first; k < first + count; k++) {
    Node *length = node_row_length(x, k);
    is_ragged |= length != NULL;
    if (length && !node_spec_add_free_of(&spec, 1, &length, fault))
      return NULL;
  }
  if (!is_ragged)
    return node_retain(x);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK], inside = 0, any = 0;
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  for (uint32_t k = first; k < first + count; k++) {
    Node *length = node_row_length(x, k);
    if (!length)
      continue;
    uint32_t test =
        body_op2(&b, PRIM_LT, DT_BOOL, own[k], body_read(&b, length, NULL));
    inside = any++ ? body_op2(&b, PRIM_AND, DT_BOOL, inside, test) : test;
  }
  uint32_t element = body_read(&b, x, own);
  body_select(&b, inside, element, body_const(&b, value));
  return body_finish(&b, g, fault);
}

/* What padding must be, so that the reduction ignores it. */
static Scalar neutral_element(PrimId op, Dtype of) {
  if (!prim_is_arg_reduction(op))
    return reduce_identity(op, of);
  return scalar_worst(reduce_info[op].order, of);
}

static void keep_row_lengths(Node *result, const Node *x, uint32_t first,
                             uint32_t count, bool keepdims) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (k < first || k >= first + count)
      node_set_row_length(result, k < first || keepdims ? k : k - count,
                          node_row_length(x, k));
}

Node *node_reduce_ragged(Graph *g, PrimId op, Node *x, uint32_t first,
                         uint32_t count, bool keepdims, Fault *fault) {
  if (!x->row_lengths)
    return node_reduce(g, op, x, first, count, keepdims, fault);
  Node *masked = node_mask_padding(g, x, first, count,
                                   neutral_element(op, x->dtype), fault);
  if (!masked)
    return NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(masked);
    trap_raise(trap.kind);
  }
  Node *result = node_reduce(g, op, masked, first, count, keepdims, fault);
  if (result)
    keep_row_lengths(result, x, first, count, keepdims);
  trap_end(&trap);
  node_release(masked);
  return result;
}
