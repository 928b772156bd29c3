/* Contributions to divisors.
 *
 * For n = u / x, the contribution of n to x is the sum of -g * n / x, where g
 * is the cotangent of n.  If y = sum of n * w is all that reads n, then
 *
 *     sum of g * n = sum of h * y,
 *
 * where h is the cotangent of y, since y is linear in n (Euler's theorem on
 * homogeneous functions).  So the contribution is also that of y / x, for the
 * cotangent h.  In attention, n is a matrix of weights, x has the sums of its
 * rows, and y is much smaller than n.  Each row of y then has the contribution
 * of the row, and a kernel can compute the derivatives of the weights in parts
 * of rows. */
#include "tensor/adjoint.h"
#include "support/arena.h"

static bool is_widening(const BodyOp *c) {
  return c->kind == BODY_CONVERT && dtype_is_float(c->dtype);
}

/* True if y is a sum of products, one factor of which is the read, or a
 * conversion of it to a wider float. */
static bool is_linear_in(ReversePass *p, const Node *y, uint32_t read) {
  bool *on_path = NEW_ARRAY(p->arena, bool, y->body_op_count);
  if (y->kind != NODE_COMP || y->reduce != PRIM_SUM || y->guard)
    return false;
  for (uint32_t k = 0; k < y->body_op_count; k++) {
    const BodyOp *c = &y->body_ops[k];
    uint32_t count = 0;
    for (uint32_t j = 0; c->kind != BODY_READ && j < c->arg_count; j++)
      count += on_path[c->args[j]];
    on_path[k] = k == read || count > 0;
    bool scales = c->kind == BODY_OP && c->op == PRIM_MUL;
    if (count && (count > 1 || (!scales && !is_widening(c))))
      return false;
    if (c->kind == BODY_READ && k != read && c->node == y->body_ops[read].node)
      return false;
  }
  return on_path[y->body_op_count - 1];
}

/* Finds the index of y that indexes x, for an index of x in the body of n; k is
 * an axis of n.  Returns false if it is summed. */
static bool axis_of_reader(const Node *y, uint32_t read, uint32_t k,
                           uint32_t *axis) {
  const BodyOp *index = &y->body_ops[y->body_ops[read].args[k]];
  *axis = index->axis;
  return index->kind == BODY_AXIS && index->axis < y->free_count + y->rank;
}

/* Reads x in the body of y / x.  Returns NULL if its elements are not
 * determined by those of y. */
static Node *quotient(ReversePass *p, const Node *n, uint32_t divisor, Node *y,
                      uint32_t read, uint32_t *divisor_read) {
  const BodyOp *c = &n->body_ops[divisor];
  NodeSpec spec = node_spec_like(y);
  BodyBuilder b;
  uint32_t args[2 * MAX_RANK], own[MAX_RANK];
  IndexBinding bindings[MAX_RANK];
  Node *x = c->node;
  body_init(&b, p->graph, &spec);
  for (uint32_t k = 0; k < y->rank; k++)
    own[k] = body_own_axis(&b, k);
  for (uint32_t k = 0; k < c->arg_count; k++) {
    const BodyOp *index = &n->body_ops[c->args[k]];
    uint32_t axis;
    if (index->kind == BODY_CONST) {
      args[k] = body_int(&b, index->value.i);
    } else if (index->kind == BODY_AXIS &&
               axis_of_reader(y, read, index->axis, &axis)) {
      args[k] = axis < y->free_count ? body_free_axis(&b, axis)
                                     : own[axis - y->free_count];
    } else {
      body_drop(&b);
      return NULL;
    }
  }
  for (uint32_t k = 0; k < x->free_count; k++)
    bindings[k] = (IndexBinding){x->free_vars[k], args[k]};
  uint32_t result = body_read(&b, y, own);
  *divisor_read = body_read_with_bindings(&b, x, args + x->free_count,
                                          x->free_count, bindings);
  body_op2(&b, PRIM_DIV, n->dtype, result, *divisor_read);
  if (b.ops[*divisor_read].kind != BODY_READ) { /* a known scalar */
    body_drop(&b);
    return NULL;
  }
  return reverse_own(p, body_finish(&b, p->graph, p->fault));
}

/* True if the index of the read uses each axis of n, except for those that
 * exist once. */
static bool uses_all_axes(const Node *n, const BodyOp *read) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++) {
    bool used = n->extents[k] == 1;
    for (uint32_t j = 0; j < read->arg_count; j++)
      used |= n->body_ops[read->args[j]].kind == BODY_AXIS &&
              n->body_ops[read->args[j]].axis == k;
    if (!used)
      return false;
  }
  return true;
}

Node *adjoint_quotient(ReversePass *p, const Node *n, uint32_t divisor,
                       uint32_t *read) {
  const Dependent *d = map_get(&p->dependents, n);
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  Node *y = d->only_reader;
  if (!y || n->reduce != PRIM_NONE || n->guard || value->kind != BODY_OP ||
      value->op != PRIM_DIV || value->args[1] != divisor ||
      value->args[0] == divisor || !dtype_is_float(n->dtype) ||
      y->dtype != n->dtype || n->body_ops[divisor].node->dtype != n->dtype ||
      uses_all_axes(n, &n->body_ops[divisor]) ||
      !is_linear_in(p, y, d->only_read))
    return NULL;
  return quotient(p, n, divisor, y, d->only_read, read);
}
