/* Bounds-check elimination: decides which reads of a body are in bounds.
 *
 * Either the interval of the index proves it, or all uses of the read are
 * selects whose condition checks the index.  Padding is such a case: `if i >= p
 * && i < n + p then x.[i - p] else 0`. */
#include "plan/fused_body.h"
#include "tensor/extent.h"

static const FusedOp *op_at(const FusedBody *body, uint32_t k) {
  return &body->ops.at[k];
}

/* A constant, or an extent (tensor/extent.h). */
static bool is_extent_constant(const FusedBody *body, uint32_t k) {
  const BodyOp *c = &op_at(body, k)->body_op;
  return (c->kind == BODY_CONST && c->dtype == DT_I64 &&
          extent_is_static(body->graph, c->value.i)) ||
         c->kind == BODY_EXTENT;
}

static int64_t constant_value(const FusedBody *body, uint32_t k) {
  const BodyOp *c = &op_at(body, k)->body_op;
  return c->kind == BODY_EXTENT ? c->extent : c->value.i;
}

typedef struct BaseOffset { /* an op plus a constant or extent */
  uint32_t base;
  int64_t offset;
} BaseOffset;

/* Splits op k into base + offset.  Returns false on overflow. */
static bool split_base_offset(const FusedBody *body, uint32_t k,
                              BaseOffset *base_offset) {
  *base_offset = (BaseOffset){fused_body_resolve(body, k), 0};
  for (;;) {
    const BodyOp *c = &op_at(body, base_offset->base)->body_op;
    if (c->kind != BODY_OP || c->dtype != DT_I64 ||
        (c->op != PRIM_ADD && c->op != PRIM_SUB))
      return true;
    uint32_t x = fused_body_resolve(body, c->args[0]);
    uint32_t y = fused_body_resolve(body, c->args[1]);
    if (c->op == PRIM_ADD && is_extent_constant(body, x)) {
      uint32_t number = x;
      x = y;
      y = number;
    }
    if (!is_extent_constant(body, y))
      return true;
    int64_t by = constant_value(body, y);
    if (!(c->op == PRIM_ADD ? extent_add : extent_sub)(
            body->graph, base_offset->offset, by, &base_offset->offset))
      return false;
    base_offset->base = x;
  }
}

typedef struct IndexRange {
  BaseOffset index; /* the index whose range is refined */
  int64_t low, high;
} IndexRange;

static PrimId swapped_comparison(PrimId op) {
  return op == PRIM_GE   ? PRIM_LE
         : op == PRIM_GT ? PRIM_LT
         : op == PRIM_LE ? PRIM_GE
         : op == PRIM_LT ? PRIM_GT
                         : op;
}

static PrimId inverse_comparison(PrimId op) {
  return op == PRIM_GE   ? PRIM_LT
         : op == PRIM_GT ? PRIM_LE
         : op == PRIM_LE ? PRIM_GT
         : op == PRIM_LT ? PRIM_GE
                         : PRIM_NONE;
}

static bool is_finite_bound(int64_t x) {
  return x != INT64_MIN && x != INT64_MAX;
}

/* Returns the bound that is provably tighter; y if neither is. */
static int64_t tighter_bound(const Graph *g, int64_t x, int64_t y, bool high) {
  if (!is_finite_bound(x) || !is_finite_bound(y))
    return is_finite_bound(x) ? x : y;
  return extent_proved(g, EXTENT_LE, high ? x : y, high ? y : x) ? x : y;
}

/* Applies the condition `x op number`, if x and the index differ only by a
 * constant. */
static void refine_by_comparison(const FusedBody *body, PrimId op, uint32_t x,
                                 int64_t number, IndexRange *r) {
  Graph *g = body->graph;
  BaseOffset s;
  int64_t at, next, before;
  if (!split_base_offset(body, x, &s) || s.base != r->index.base ||
      !extent_sub(g, number, s.offset, &at) ||
      !extent_add(g, at, r->index.offset, &at) ||
      !extent_add(g, at, 1, &next) || !extent_sub(g, at, 1, &before))
    return;
  int64_t low = op == PRIM_GE ? at : op == PRIM_GT ? next : INT64_MIN;
  int64_t high = op == PRIM_LE ? at : op == PRIM_LT ? before : INT64_MAX;
  r->low = tighter_bound(g, low, r->low, false);
  r->high = tighter_bound(g, high, r->high, true);
}

/* Refines the range of the index, given that the condition holds or not.  The
 * recursion depth is bounded by the limit on ops of a body. */
static void refine_range(const FusedBody *body, uint32_t condition, bool holds,
                         IndexRange *r) {
  const BodyOp *c = &op_at(body, fused_body_resolve(body, condition))->body_op;
  if (c->kind != BODY_OP)
    return;
  if (c->op == PRIM_NOT) {
    refine_range(body, c->args[0], !holds, r);
    return;
  }
  if (c->arg_count != 2)
    return;
  uint32_t x = fused_body_resolve(body, c->args[0]);
  uint32_t y = fused_body_resolve(body, c->args[1]);
  PrimId op = holds ? c->op : inverse_comparison(c->op);
  if (c->op == (holds ? PRIM_AND : PRIM_OR)) {
    refine_range(body, x, holds, r);
    refine_range(body, y, holds, r);
  } else if (is_extent_constant(body, y)) {
    refine_by_comparison(body, op, x, constant_value(body, y), r);
  } else if (is_extent_constant(body, x)) {
    refine_by_comparison(body, swapped_comparison(op), y,
                         constant_value(body, x), r);
  }
}

static bool op_uses(const FusedBody *body, uint32_t k, uint32_t op_index) {
  const FusedOp *c = op_at(body, k);
  for (uint32_t j = 0; j < c->body_op.arg_count && !c->forward; j++)
    if (fused_body_resolve(body, c->body_op.args[j]) == op_index)
      return true;
  return false;
}

static bool range_in_bounds(const Graph *g, int64_t low, int64_t high,
                            int64_t extent) {
  return low != INT64_MIN && high != INT64_MAX &&
         extent_proved(g, EXTENT_LE, 0, low) &&
         extent_proved_less(g, high, extent);
}

/* True if op k is a select that uses the read only if the index is in
 * bounds. */
static bool select_checks_index(const FusedBody *body, uint32_t k,
                                uint32_t read, uint32_t index, int64_t extent) {
  const FusedOp *i = op_at(body, index);
  const BodyOp *c = &op_at(body, k)->body_op;
  IndexRange r = {.low = i->low, .high = i->high};
  if (c->kind != BODY_SELECT || !split_base_offset(body, index, &r.index) ||
      fused_body_resolve(body, c->args[0]) == read)
    return false;
  bool first = fused_body_resolve(body, c->args[1]) == read;
  if (first == (fused_body_resolve(body, c->args[2]) == read))
    return false;
  refine_range(body, c->args[0], first, &r);
  return range_in_bounds(body->graph, r.low, r.high, extent);
}

static bool all_uses_check_index(const FusedBody *body, uint32_t read,
                                 uint32_t index, int64_t extent) {
  if (fused_body_resolve(body, body->value_op) == read)
    return false;
  for (uint32_t k = 0; k < body->ops.len; k++)
    if (op_uses(body, k, read) &&
        !select_checks_index(body, k, read, index, extent))
      return false;
  return true;
}

bool fused_body_read_in_bounds(const FusedBody *body, uint32_t read,
                               const int64_t *extents) {
  const BodyOp *op_index = &op_at(body, read)->body_op;
  for (uint32_t j = 0; j < op_index->arg_count; j++) {
    uint32_t index = fused_body_resolve(body, op_index->args[j]);
    const FusedOp *i = op_at(body, index);
    if (!range_in_bounds(body->graph, i->low, i->high, extents[j]) &&
        !all_uses_check_index(body, read, index, extents[j]))
      return false;
  }
  return true;
}
