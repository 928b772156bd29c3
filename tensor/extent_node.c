/* Conversions between scalar nodes of the graph and extents. */
#include "tensor/internal.h"

static bool op_extent(Graph *g, PrimId op, const int64_t *x, int64_t *out) {
  int64_t zero = 0;
  switch ((int)op) {
  case PRIM_ADD:
    return extent_add(g, x[0], x[1], out);
  case PRIM_SUB:
    return extent_sub(g, x[0], x[1], out);
  case PRIM_MUL:
    return extent_mul(g, x[0], x[1], out);
  case PRIM_NEG:
    return extent_sub(g, zero, x[0], out);
  case PRIM_MINIMUM:
    *out = extent_min(g, x[0], x[1]);
    return true;
  case PRIM_MAXIMUM:
    *out = extent_max(g, x[0], x[1]);
    return true;
  case PRIM_DIV:
    return extent_proved(g, EXTENT_LE, 1, x[1]) &&
           extent_floor_div(g, x[0], x[1], out);
  case PRIM_MOD:
    return extent_proved(g, EXTENT_LE, 1, x[1]) &&
           extent_floor_mod(g, x[0], x[1], out);
  }
  return false;
}

enum { MAX_DEPTH = 32, MAX_OPERANDS = 3 };

static bool is_closed_scalar(const Node *n) {
  return n->rank == 0 && n->free_count == 0;
}

static bool to_extent(Graph *g, const Node *n, uint32_t depth, int64_t *out);

static bool body_op_extent(Graph *g, const Node *n, uint32_t k, uint32_t depth,
                           int64_t *out) {
  const BodyOp *c = &n->body_ops[k];
  int64_t x[MAX_OPERANDS];
  if (depth > MAX_DEPTH)
    return false;
  switch (c->kind) {
  case BODY_CONST:
    *out = c->value.i;
    return dtype_is_int(c->dtype) && *out < FIRST_EXTENT_HANDLE;
  case BODY_EXTENT:
    *out = c->extent;
    return true;
  case BODY_READ:
    return is_closed_scalar(c->node) && to_extent(g, c->node, depth + 1, out);
  case BODY_CONVERT:
    return c->dtype == DT_I64 && dtype_is_int(n->body_ops[c->args[0]].dtype) &&
           body_op_extent(g, n, c->args[0], depth + 1, out);
  case BODY_OP:
    if (c->dtype != DT_I64 || c->arg_count > MAX_OPERANDS)
      return false;
    for (uint32_t j = 0; j < c->arg_count; j++)
      if (!body_op_extent(g, n, c->args[j], depth + 1, &x[j]))
        return false;
    return op_extent(g, c->op, x, out);
  case BODY_AXIS:
  case BODY_SELECT:
  case BODY_RANDOM:
    break;
  }
  return false;
}

static bool to_extent(Graph *g, const Node *n, uint32_t depth, int64_t *out) {
  Scalar known;
  if (node_known(n, &known)) {
    *out = known.i;
    return dtype_is_int(known.dtype) && *out < FIRST_EXTENT_HANDLE;
  }
  if (n->kind == NODE_ARG)
    return !n->rank && dtype_is_int(n->dtype) &&
           extent_of_arg(g, n->arg_index, n->span, out);
  return n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
         body_op_extent(g, n, n->body_op_count - 1, depth, out);
}

bool node_to_extent(Graph *g, const Node *n, int64_t *out) {
  return g->extent_table && is_closed_scalar(n) && to_extent(g, n, 0, out);
}

bool node_to_constraint(Graph *g, const Node *n, ExtentConstraint *out) {
  if (!g->extent_table || !is_closed_scalar(n) || n->kind != NODE_COMP ||
      n->reduce != PRIM_NONE)
    return false;
  const BodyOp *c = &n->body_ops[n->body_op_count - 1];
  if (c->kind == BODY_READ && is_closed_scalar(c->node))
    return node_to_constraint(g, c->node, out);
  int64_t x, y, more;
  if (c->kind != BODY_OP || c->arg_count != 2 ||
      !body_op_extent(g, n, c->args[0], 0, &x) ||
      !body_op_extent(g, n, c->args[1], 0, &y))
    return false;
  switch ((int)c->op) {
  case PRIM_EQ:
    *out = (ExtentConstraint){EXTENT_EQ, x, y};
    return true;
  case PRIM_NE:
    *out = (ExtentConstraint){EXTENT_NE, x, y};
    return true;
  case PRIM_LE:
    *out = (ExtentConstraint){EXTENT_LE, x, y};
    return true;
  case PRIM_GE:
    *out = (ExtentConstraint){EXTENT_LE, y, x};
    return true;
  case PRIM_LT:
    *out =
        (ExtentConstraint){EXTENT_LE, extent_add(g, x, 1, &more) ? more : x, y};
    return true;
  case PRIM_GT:
    *out =
        (ExtentConstraint){EXTENT_LE, extent_add(g, y, 1, &more) ? more : y, x};
    return true;
  }
  return false;
}

Node *node_extent_scalar(Graph *g, int64_t x) {
  NodeSpec spec = {.dtype = DT_I64};
  BodyBuilder b;
  body_init(&b, g, &spec);
  body_int(&b, x);
  return body_finish(&b, g, NULL);
}
