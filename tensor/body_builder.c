/* Bodies under construction.  Ops are collected on the caller's stack, and
 * moved into the node in one allocation at the end. */
#include "tensor/internal.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

void body_init(BodyBuilder *b, Graph *g, const NodeSpec *spec) {
  b->graph = g;
  b->spec = spec;
  b->span = g->span;
  b->ops = b->inline_ops;
  b->args = b->inline_args;
  b->op_count = b->arg_count = 0;
  b->op_capacity = INLINE_BODY_OPS;
  b->arg_capacity = INLINE_BODY_ARGS;
  memset(b->axis_has_op, 0, sizeof b->axis_has_op);
}

void body_drop(BodyBuilder *b) {
  if (b->ops != b->inline_ops)
    mem_free(b->ops);
  if (b->args != b->inline_args)
    mem_free(b->args);
  b->ops = b->inline_ops;
  b->args = b->inline_args;
}

/* Returns a larger copy of an array.  Without memory it drops the body, then
 * raises. */
static void *grow_copy(BodyBuilder *b, const void *old, size_t size,
                       size_t new_size) {
  void *copy = mem_try_alloc(new_size);
  if (!copy) {
    body_drop(b);
    trap_raise(FAIL_MEMORY);
  }
  memcpy(copy, old, size);
  return copy;
}

static void rebase_args(BodyOp *ops, uint32_t count, const uint32_t *from,
                        uint32_t *to) {
  for (uint32_t k = 0; k < count; k++)
    if (ops[k].arg_count)
      ops[k].args = to + (ops[k].args - from);
}

static void reserve_op(BodyBuilder *b, uint32_t args) {
  if (b->op_count == b->op_capacity) {
    size_t size = b->op_capacity * sizeof(BodyOp);
    BodyOp *ops = grow_copy(b, b->ops, size, 2 * size);
    if (b->ops != b->inline_ops)
      mem_free(b->ops);
    b->ops = ops;
    b->op_capacity *= 2;
  }
  if (b->arg_capacity - b->arg_count < args) {
    uint32_t cap = 2 * b->arg_capacity + args;
    uint32_t *larger = grow_copy(b, b->args, b->arg_count * sizeof *larger,
                                 cap * sizeof *larger);
    rebase_args(b->ops, b->op_count, b->args, larger);
    if (b->args != b->inline_args)
      mem_free(b->args);
    b->args = larger;
    b->arg_capacity = cap;
  }
}

static BodyOp *append_op(BodyBuilder *b, BodyOpKind kind, Dtype dtype,
                         uint32_t count, const uint32_t *args) {
  reserve_op(b, count);
  BodyOp *expr = &b->ops[b->op_count++];
  *expr = (BodyOp){.kind = kind, .dtype = dtype, .arg_count = count};
  expr->args = b->args + b->arg_count;
  expr->span = b->span;
  for (uint32_t k = 0; k < count; k++) /* linear search, since count is small */
    expr->args[k] = args[k];
  b->arg_count += count;
  return expr;
}

static uint32_t last_op(const BodyBuilder *b) {
  return b->op_count - 1;
}

/* ---- body ops ---- */

uint32_t body_const(BodyBuilder *b, Scalar x) {
  append_op(b, BODY_CONST, x.dtype, 0, NULL)->value = x;
  return last_op(b);
}

uint32_t body_int(BodyBuilder *b, int64_t x) {
  if (!extent_is_static(b->graph, x)) {
    append_op(b, BODY_EXTENT, DT_I64, 0, NULL)->extent = x;
    return last_op(b);
  }
  return body_const(b, (Scalar){.dtype = DT_I64, .i = x});
}

static uint32_t axis_op(BodyBuilder *b, uint32_t k) {
  uint32_t *has_op = &b->axis_has_op[k / 32], bit = 1u << k % 32;
  if (!(*has_op & bit)) {
    *has_op |= bit;
    append_op(b, BODY_AXIS, DT_I64, 0, NULL)->axis = k;
    b->axis_ops[k] = last_op(b);
  }
  return b->axis_ops[k];
}

uint32_t body_free_axis(BodyBuilder *b, uint32_t k) {
  return axis_op(b, k);
}
uint32_t body_own_axis(BodyBuilder *b, uint32_t k) {
  return axis_op(b, b->spec->free_count + k);
}
uint32_t body_reduced_axis(BodyBuilder *b, uint32_t k) {
  return axis_op(b, b->spec->free_count + b->spec->rank + k);
}

uint32_t body_op(BodyBuilder *b, PrimId op, Dtype result, uint32_t count,
                 const uint32_t *args) {
  append_op(b, BODY_OP, result, count, args)->op = op;
  return last_op(b);
}

uint32_t body_op2(BodyBuilder *b, PrimId op, Dtype result, uint32_t x,
                  uint32_t y) {
  return body_op(b, op, result, 2, (uint32_t[]){x, y});
}

static uint32_t op_with_int(BodyBuilder *b, PrimId op, uint32_t x, int64_t k) {
  uint32_t y = body_int(b, k);
  return body_op2(b, op, DT_I64, x, y);
}

uint32_t body_add_int(BodyBuilder *b, uint32_t x, int64_t k) {
  return k == 0 ? x : op_with_int(b, PRIM_ADD, x, k);
}
uint32_t body_mul_int(BodyBuilder *b, uint32_t x, int64_t k) {
  return k == 1 ? x : op_with_int(b, PRIM_MUL, x, k);
}
uint32_t body_floor_div_int(BodyBuilder *b, uint32_t x, int64_t k) {
  return k == 1 ? x : op_with_int(b, PRIM_DIV, x, k);
}
uint32_t body_floor_mod_int(BodyBuilder *b, uint32_t x, int64_t k) {
  return op_with_int(b, PRIM_MOD, x, k);
}

uint32_t body_select(BodyBuilder *b, uint32_t c, uint32_t x, uint32_t y) {
  Dtype dtype = b->ops[x].dtype;
  append_op(b, BODY_SELECT, dtype, 3, (uint32_t[]){c, x, y});
  return last_op(b);
}

uint32_t body_convert(BodyBuilder *b, uint32_t x, Dtype to) {
  if (b->ops[x].dtype == to)
    return x;
  append_op(b, BODY_CONVERT, to, 1, &x);
  return last_op(b);
}

uint32_t body_random(BodyBuilder *b, PrimId op, PrngKey key, Dtype dtype,
                     uint32_t n) {
  BodyOp *expr = append_op(b, BODY_RANDOM, dtype, 1, &n);
  expr->op = op;
  expr->key = key;
  return last_op(b);
}

void body_set_result(BodyBuilder *b, uint32_t op) {
  b->op_count = op + 1;
  for (uint32_t k = 0; k < ARRAY_LEN(b->axis_ops); k++)
    if (b->axis_has_op[k / 32] >> k % 32 & 1 && b->axis_ops[k] > op)
      b->axis_has_op[k / 32] &= ~(1u << k % 32);
}

/* ---- reads ---- */

uint32_t body_read_with_bindings(BodyBuilder *b, Node *x, const uint32_t *own,
                                 uint32_t binding_count,
                                 const IndexBinding *bindings) {
  Scalar known;
  int64_t size;
  if (node_known(x, &known))
    return body_const(b, known);
  if (node_is_extent(x, &size))
    return body_int(b, size);
  uint32_t args[2 * MAX_RANK];
  for (uint32_t k = 0; k < x->free_count; k++) {
    uint32_t expr = UINT32_MAX;
    for (uint32_t j = 0; j < binding_count; j++)
      if (bindings[j].var == x->free_vars[k])
        expr = bindings[j].value;
    if (expr == UINT32_MAX)
      expr = body_free_axis(b, node_spec_free_axis(b->spec, x->free_vars[k]));
    args[k] = expr;
  }
  for (uint32_t k = 0; k < x->rank; k++)
    args[x->free_count + k] = own[k];
  append_op(b, BODY_READ, x->dtype, x->free_count + x->rank, args)->node = x;
  return last_op(b);
}

uint32_t body_read(BodyBuilder *b, Node *x, const uint32_t *own) {
  return body_read_with_bindings(b, x, own, 0, NULL);
}

uint32_t body_read_broadcast(BodyBuilder *b, Node *x, uint32_t first_axis) {
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++) {
    bool broadcasts = node_is_broadcast_axis(x, k) &&
                      !(b->spec->broadcast_mask >> (first_axis + k) & 1);
    own[k] = broadcasts ? body_int(b, 0) : body_own_axis(b, first_axis + k);
  }
  return body_read(b, x, own);
}

/* ---- the node ---- */

static bool index_in_bounds(const Graph *g, const Node *n, const BodyOp *index,
                            int64_t extent) {
  if (index->kind == BODY_CONST)
    return index->value.i >= 0 && index->value.i < FIRST_EXTENT_HANDLE &&
           (extent_is_static(g, extent)
                ? index->value.i < extent
                : extent_proved(g, EXTENT_LE, index->value.i + 1, extent));
  return index->kind == BODY_AXIS &&
         extent_proved(g, EXTENT_LE, n->extents[index->axis], extent);
}

static bool op_cannot_fail(const Graph *g, const Node *n, const BodyOp *expr) {
  if (expr->kind == BODY_READ) {
    bool cannot_fail = expr->node->speculatable || expr->node->data;
    for (uint32_t k = 0; k < expr->arg_count; k++)
      cannot_fail &= index_in_bounds(g, n, &n->body_ops[expr->args[k]],
                                     expr->node->extents[k]);
    return cannot_fail;
  }
  if (expr->kind != BODY_OP || dtype_is_float(expr->dtype) ||
      map_info[expr->op].fault == ARITH_OK)
    return true;
  const BodyOp *y = &n->body_ops[expr->args[1]];
  return (y->kind == BODY_CONST && y->value.i > 0) ||
         (y->kind == BODY_EXTENT && extent_proved(g, EXTENT_LE, 1, y->extent));
}

static bool body_cannot_fail(const Graph *g, const Node *n) {
  bool cannot_fail = true;
  for (uint32_t k = 0; k < n->body_op_count; k++)
    cannot_fail &= op_cannot_fail(g, n, &n->body_ops[k]);
  return cannot_fail;
}

Node *body_finish(BodyBuilder *b, Graph *g, Fault *fault) {
  const NodeSpec *spec = b->spec;
  if (spec->free_count + spec->rank + spec->reduce_count > MAX_RANK) {
    body_drop(b);
    fault_set(fault, "more than %d axes and indices together", MAX_RANK);
    return NULL;
  }
  size_t ops_bytes = b->op_count * sizeof(BodyOp);
  BodyOp *ops = mem_try_alloc(ops_bytes + b->arg_count * sizeof(uint32_t));
  Node *n = ops ? node_try_alloc(g, NODE_COMP, spec) : NULL;
  if (!n) {
    mem_free(ops);
    body_drop(b);
    trap_raise(FAIL_MEMORY);
  }
  memcpy(ops, b->ops, ops_bytes);
  uint32_t *args = (uint32_t *)(ops + b->op_count);
  memcpy(args, b->args, b->arg_count * sizeof *args);
  rebase_args(ops, b->op_count, b->args, args);
  body_drop(b);
  n->body_ops = ops;
  n->body_op_count = b->op_count;
  for (uint32_t k = 0; k < n->body_op_count; k++)
    if (ops[k].kind == BODY_READ)
      node_propagate_flags(n, node_retain(ops[k].node));
    else
      n->symbolic |= ops[k].kind == BODY_EXTENT;
  n->speculatable = body_cannot_fail(g, n);
  node_set_guard(g, n, spec);
  node_add_pending(g, n);
  return n;
}

Node *body_finish_read(BodyBuilder *b, Graph *g, Node *x, const uint32_t *own,
                       Fault *fault) {
  body_read(b, x, own);
  return body_finish(b, g, fault);
}
