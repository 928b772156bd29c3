/* Fusion: decides which nodes are materialized and which are inlined into their
 * consumers.
 *
 * Nodes are decided in reverse order: consumers before operands.  So when a
 * node is decided, all reads of it are known, as ops in the bodies of
 * materialized nodes.  A value that two inlined consumers share is one op of
 * one body.  If the node is materialized, these ops stay reads.  Otherwise its
 * body replaces them.
 *
 * A node is inlined if that costs no more than storing it.  It is never
 * evaluated much more often than it has elements, so work cannot multiply along
 * a chain of nodes.  Reductions are materialized.  But if the only consumer
 * merely moves the elements of a reduction, the consumer becomes the reduction.
 *
 * The main entry point is plan_fuse. */
#include "kernel/roofline.h"
#include "machine/limits/planner.h"
#include "plan/backend.h"
#include "plan/cached_plan.h"
#include "plan/fused_body.h"
#include "plan/schedule_file.h"
#include "support/arena.h"

/* ---- collecting nodes ---- */

static PlanNode *plan_node_of(const Plan *plan, const Node *n) {
  return plan->nodes.at[n->mark - 1];
}

static uint32_t capture_count(const Node *n) {
  return n->loop_body ? n->loop_body->capture_count : 0;
}

static uint32_t operand_count(const Node *n) {
  return n->body_op_count + n->input_count + capture_count(n) + 1;
}

static Node *operand(const Node *n, uint32_t k) {
  if (k < n->body_op_count)
    return n->body_ops[k].kind == BODY_READ ? n->body_ops[k].node : NULL;
  k -= n->body_op_count;
  if (k < n->input_count)
    return n->inputs[k];
  k -= n->input_count;
  return k < capture_count(n) ? n->loop_body->captures[k] : n->guard;
}

typedef struct DfsFrame {
  Node *node;
  uint32_t next_operand; /* next operand to visit */
} DfsFrame;

static void add_node(Plan *plan, Node *n) {
  PlanNode *p = NEW(plan->arena, PlanNode);
  VEC_PUSH(plan->arena, plan->nodes, p);
  p->node = node_retain(n);
  n->mark = plan->nodes.len;
}

/* Depth-first search with an explicit stack: operands before consumers.  A
 * marked node has been visited; graphs have no cycles. */
static void collect_pending(Plan *plan, Node *root) {
  if (node_is_materialized(root) || root->mark)
    return;
  VEC(DfsFrame) stack = {0};
  VEC_PUSH(plan->arena, stack, ((DfsFrame){root, 0}));
  while (stack.len) {
    DfsFrame *v = &stack.at[stack.len - 1];
    if (v->node->mark) { /* it was visited on another path meanwhile */
      stack.len--;
    } else if (v->next_operand == operand_count(v->node)) {
      add_node(plan, v->node);
      stack.len--;
    } else {
      Node *n = operand(v->node, v->next_operand++);
      if (n && !node_is_materialized(n) && !n->mark)
        VEC_PUSH(plan->arena, stack, ((DfsFrame){n, 0}));
    }
  }
}

/* ---- substitution ---- */

static uint32_t max_body_ops(const Plan *plan) {
  return plan->graph->fuse_mode == FUSE_ALL ? MAX_BODY_OPS_FUSE_ALL
                                            : MAX_BODY_OPS;
}

static bool is_scalar_index(const Node *n) {
  return n->dtype == DT_I64 && n->rank == 0;
}

/* Scalar indices are inlined immediately.  Then equal index expressions are
 * recognized in the ops that use them. */
static bool inlines_eagerly(const Plan *plan, const FusedBody *body,
                            const Node *n, uint32_t depth) {
  return plan->graph->fuse_mode != FUSE_NONE && n->kind == NODE_COMP &&
         n->reduce == PRIM_NONE && is_scalar_index(n) &&
         n->body_op_count <= MAX_EAGER_OPS && depth < MAX_EAGER_DEPTH &&
         body->ops.len < max_body_ops(plan);
}

static uint32_t expand(Plan *plan, FusedBody *body, const Node *n,
                       const uint32_t *axes, uint32_t depth);

static uint32_t expand_read(Plan *plan, FusedBody *body, const BodyOp *expr,
                            const uint32_t *args, uint32_t depth) {
  uint32_t before = body->ops.len;
  uint32_t read = fused_body_intern(body, expr, expr->arg_count, args);
  Node *x = expr->node;
  if (node_is_materialized(x) || read < before)
    return fused_body_resolve(body, read);
  if (inlines_eagerly(plan, body, x, depth)) {
    uint32_t value = expand(plan, body, x, args, depth + 1);
    body->ops.at[read].forward = value + 1;
    return value;
  }
  NodeUse instance = {body, read};
  PlanNode *p = plan_node_of(plan, x);
  VEC_PUSH(plan->arena, p->uses, instance);
  return read;
}

static uint32_t expand_constant(const Plan *plan, FusedBody *body,
                                const BodyOp *expr) {
  BodyOp c = *expr;
  uint32_t k = UINT32_MAX;
  if (plan->params && dtype_is_float(c.dtype))
    k = plan_params_find(plan->params, c.value.f);
  if (k != UINT32_MAX)
    c.value.i = param_nan_box(k).i;
  return fused_body_intern(body, &c, 0, NULL);
}

static uint32_t expand_random(const Plan *plan, FusedBody *body,
                              const BodyOp *expr, const uint32_t *args) {
  BodyOp c = *expr;
  uint32_t k =
      plan->params ? plan_params_find_key(plan->params, c.key) : UINT32_MAX;
  if (k != UINT32_MAX)
    c.key = key_placeholder(k);
  return fused_body_intern(body, &c, c.arg_count, args);
}

/* Adds the body of n to a fused body.  `axes` are the ops of n's axes. */
static uint32_t expand(Plan *plan, FusedBody *body, const Node *n,
                       const uint32_t *axes, uint32_t depth) {
  uint32_t *made = NEW_ARRAY(plan->arena, uint32_t, n->body_op_count);
  bool proved_safe = n->speculatable && plan->graph->extent_table;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    BodyOp current = n->body_ops[k], *expr = &current;
    current.proved_safe |=
        proved_safe && (current.kind == BODY_READ || current.kind == BODY_OP);
    uint32_t inline_args[8], count = expr->arg_count;
    uint32_t *args = count <= ARRAY_LEN(inline_args)
                         ? inline_args
                         : NEW_ARRAY(plan->arena, uint32_t, count);
    for (uint32_t j = 0; j < count; j++)
      args[j] = fused_body_resolve(body, made[expr->args[j]]);
    if (expr->kind == BODY_AXIS)
      made[k] = axes[expr->axis];
    else if (expr->kind == BODY_READ)
      made[k] = expand_read(plan, body, expr, args, depth);
    else if (expr->kind == BODY_CONST)
      made[k] = expand_constant(plan, body, expr);
    else if (expr->kind == BODY_RANDOM)
      made[k] = expand_random(plan, body, expr, args);
    else
      made[k] = fused_body_intern(body, expr, count, args);
  }
  return fused_body_resolve(body, made[n->body_op_count - 1]);
}

/* ---- cost of inlining ---- */

/* Saturates sums of costs. */
enum { MAX_WORK = 1 << 30 };

/* Sums and products of indices are free: they become addresses. */
static double op_cost(const BodyOp *expr) {
  if (expr->dtype == DT_I64 &&
      (expr->op == PRIM_ADD || expr->op == PRIM_SUB || expr->op == PRIM_MUL))
    return 0;
  return map_info[expr->op].cost;
}

static double body_cost(const Node *n) {
  double cost = 0;
  uint32_t reads = 0;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *expr = &n->body_ops[k];
    switch (expr->kind) {
    case BODY_CONST:
    case BODY_EXTENT:
    case BODY_AXIS:
      break;
    case BODY_READ:
      cost += !is_scalar_index(expr->node) && reads++ > 0;
      break;
    case BODY_OP:
      cost += op_cost(expr);
      break;
    case BODY_SELECT:
    case BODY_CONVERT:
      cost += 1;
      break;
    case BODY_RANDOM:
      cost += RANDOM_COST;
      break;
    }
  }
  return cost;
}

/* True if n consists of cheap ops: conversions, comparisons and the like. */
static bool is_cheap_pointwise(const Node *n) {
  bool simple = n->kind == NODE_COMP && n->reduce == PRIM_NONE;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *expr = &n->body_ops[k];
    simple &= expr->kind != BODY_RANDOM &&
              (expr->kind != BODY_OP || op_cost(expr) <= 1);
  }
  return simple;
}

static void count_plan_refs(const Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    const Node *n = plan->nodes.at[k]->node;
    for (uint32_t j = 0; j < operand_count(n); j++) {
      const Node *x = operand(n, j);
      if (x && !node_is_materialized(x))
        plan_node_of(plan, x)->plan_refs++;
    }
  }
}

static double node_bytes_hint(const Graph *g, const Node *n) {
  return node_element_hint(g, n) * dtype_info[n->dtype].bytes;
}

static bool will_be_stored(const Plan *plan, const Node *n) {
  return node_is_materialized(n) || plan_node_of(plan, n)->required;
}

/* Bytes that n reads for operand x, if each of its iterations reads one element
 * of x. */
static double read_bytes(const Plan *plan, const Node *n, const Node *x) {
  double all = will_be_stored(plan, x) ? node_bytes_hint(plan->graph, x)
                                       : plan_node_of(plan, x)->input_bytes,
         some = node_element_hint(plan->graph, n) * dtype_info[x->dtype].bytes;
  return all < some ? all : some;
}

static bool is_externally_held(const PlanNode *p) {
  return p->node->refs > p->plan_refs + 1; /* 1 is the reference of the plan */
}

/* True if the program may read the node again, and recomputing it is
 * expensive. */
static bool is_worth_keeping(const Plan *plan, const PlanNode *p) {
  const Graph *g = plan->graph;
  double limit = g->max_tensor_bytes > 0 ? (double)g->max_tensor_bytes
                                         : (double)memory_limit();
  double bytes = node_bytes_hint(g, p->node);
  return !g->extent_table && is_externally_held(p) &&
         p->recompute_cost > MAX_DISCARDED_WORK && bytes < limit / 8;
}

static bool is_much_smaller(const Plan *plan, const Node *x, const Node *n) {
  return MIN_SIZE_RATIO * node_element_hint(plan->graph, x) <=
         node_element_hint(plan->graph, n);
}

/* The nodes are in order: operands before consumers. */
static void estimate_recompute_costs(const Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    PlanNode *p = plan->nodes.at[k];
    const Node *n = p->node;
    const int64_t *reduced = n->extents + n->free_count + n->rank;
    p->recompute_cost = n->kind == NODE_COMP ? body_cost(n) : OPAQUE_COST;
    p->pointwise_cost = p->recompute_cost;
    p->recompute_cost += n->reduce != PRIM_NONE;
    p->recompute_cost *=
        extent_hint_product(plan->graph, n->reduce_count, reduced);
    p->only_indices = p->only_smaller_inputs = is_cheap_pointwise(n);
    p->only_materialized_inputs =
        n->kind == NODE_COMP && n->reduce == PRIM_NONE;
    for (uint32_t j = 0; j < operand_count(n); j++) {
      const Node *x = operand(n, j);
      p->only_indices &= !x || (!will_be_stored(plan, x) &&
                                plan_node_of(plan, x)->only_indices);
      p->only_materialized_inputs &=
          !x || will_be_stored(plan, x) ||
          plan_node_of(plan, x)->only_materialized_inputs;
      if (x && x != n->guard && p->input_bytes < MAX_WORK)
        p->input_bytes += read_bytes(plan, n, x);
      p->only_smaller_inputs &= !x || is_much_smaller(plan, x, n) ||
                                (!will_be_stored(plan, x) &&
                                 plan_node_of(plan, x)->only_smaller_inputs);
      if (x && !will_be_stored(plan, x) &&
          !is_worth_keeping(plan, plan_node_of(plan, x)))
        p->recompute_cost += plan_node_of(plan, x)->recompute_cost;
      if (x && !will_be_stored(plan, x) && x->kind == NODE_COMP &&
          x->reduce == PRIM_NONE && !is_much_smaller(plan, x, n))
        p->pointwise_cost += plan_node_of(plan, x)->pointwise_cost;
    }
    if (p->pointwise_cost > MAX_WORK)
      p->pointwise_cost = MAX_WORK;
    if (p->recompute_cost > MAX_WORK)
      /* Limits the sum, since shared operands count twice. */
      p->recompute_cost = MAX_WORK;
  }
}

/* True if the read is a factor of a summed product, or of a numerator.
 * Backends compute factors once, when they pack them. */
static bool is_contraction_factor(const FusedBody *body, uint32_t at,
                                  uint32_t read) {
  at = fused_body_resolve(body, at);
  const BodyOp *c = &body->ops.at[at].body_op;
  if (at == read)
    return true;
  if (c->kind == BODY_CONVERT)
    return is_contraction_factor(body, c->args[0], read);
  if (c->kind == BODY_SELECT)
    return is_contraction_factor(body, c->args[1], read) ||
           is_contraction_factor(body, c->args[2], read);
  if (c->kind != BODY_OP || (c->op != PRIM_MUL && c->op != PRIM_DIV))
    return false;
  return is_contraction_factor(body, c->args[0], read) ||
         (c->op == PRIM_MUL && is_contraction_factor(body, c->args[1], read));
}

/* The axes of the result on which an op depends, as a bit set.  The recursion
 * depth is bounded by the limit on ops of a body. */
static uint64_t op_axes(const FusedBody *body, uint32_t at, uint64_t *memo,
                        bool *seen) {
  at = fused_body_resolve(body, at);
  const BodyOp *c = &body->ops.at[at].body_op;
  if (seen[at])
    return memo[at];
  seen[at] = true;
  if (c->kind == BODY_AXIS && c->axis < body->axis_count)
    memo[at] = (uint64_t)1 << c->axis;
  for (uint32_t j = 0; j < c->arg_count; j++)
    memo[at] |= op_axes(body, c->args[j], memo, seen);
  return memo[at];
}

/* True if the op does not depend on every axis of the result.  Otherwise it is
 * useless to compute it separately. */
static bool lacks_output_axis(const Plan *plan, const FusedBody *body,
                              uint32_t at) {
  uint64_t *memo = NEW_ARRAY(plan->arena, uint64_t, body->ops.len);
  bool *seen = NEW_ARRAY(plan->arena, bool, body->ops.len);
  uint64_t varying_axes = op_axes(body, at, memo, seen);
  for (uint32_t k = 0; k < body->axis_count; k++)
    if (body->extents[k] != 1 && !(varying_axes >> k & 1))
      return true;
  return false;
}

/* True if the backend computes the node once per element, however often the
 * matmul reads it. */
static bool is_computed_once(const Plan *plan, const PlanNode *p,
                             const NodeUse *i) {
  const FusedBody *body = i->body;
  const BodyOp *value =
      &body->ops.at[fused_body_resolve(body, body->value_op)].body_op;
  return plan->graph->backend->compiles_kernels && body->reduce == PRIM_SUM &&
         value->kind == BODY_OP && value->op == PRIM_MUL &&
         dtype_is_float(p->node->dtype) &&
         is_contraction_factor(body, body->value_op, i->read_op) &&
         lacks_output_axis(plan, body, i->read_op);
}

/* ---- factors of narrow data ---- */

/* True if the value of op `at` depends on the read. */
static bool contains_read(const FusedBody *body, uint32_t at, uint32_t read,
                          bool *seen) {
  at = fused_body_resolve(body, at);
  if (at == read || seen[at])
    return at == read;
  seen[at] = true;
  const BodyOp *c = &body->ops.at[at].body_op;
  for (uint32_t j = 0; j < c->arg_count; j++)
    if (contains_read(body, c->args[j], read, seen))
      return true;
  return false;
}

static bool op_contains_read(const Plan *plan, const NodeUse *i, uint32_t at) {
  bool *seen = NEW_ARRAY(plan->arena, bool, i->body->ops.len);
  return contains_read(i->body, at, i->read_op, seen);
}

/* True if the value is a product of which one factor depends on the read, or a
 * sum of such products and of others.  *once: each such factor lacks an axis of
 * the result. */
static bool is_in_factors(const Plan *plan, const NodeUse *i, uint32_t at,
                          bool *once) {
  const BodyOp *c = &i->body->ops.at[fused_body_resolve(i->body, at)].body_op;
  bool is_sum = c->op == PRIM_ADD || c->op == PRIM_SUB;
  if (c->kind != BODY_OP || (!is_sum && c->op != PRIM_MUL))
    return false;
  bool has[2];
  for (uint32_t j = 0; j < 2; j++)
    has[j] = op_contains_read(plan, i, c->args[j]);
  for (uint32_t j = 0; j < 2; j++) {
    if (is_sum && has[j] && !is_in_factors(plan, i, c->args[j], once))
      return false;
    if (!is_sum && has[j])
      *once &= lacks_output_axis(plan, i->body, c->args[j]);
  }
  return is_sum || has[0] != has[1];
}

/* True if the body sums such values. */
static bool is_in_one_factor(const Plan *plan, const NodeUse *i, bool *once) {
  *once = true;
  return i->body->reduce == PRIM_SUM &&
         is_in_factors(plan, i, i->body->value_op, once);
}

/* True if p is computed from tensors of at most half of its bytes, such as
 * weights of few bits, as a factor of a product, or a part of it.  Reading
 * these takes less time than reading a stored factor. */
static bool is_narrow_factor(const Plan *plan, const PlanNode *p) {
  double bytes = node_bytes_hint(plan->graph, p->node);
  bool is_narrow = p->input_bytes > 0 && 2 * p->input_bytes <= bytes;
  if (!plan->graph->backend->compiles_kernels || !p->only_materialized_inputs ||
      p->pointwise_cost > MAX_NARROW_FACTOR_COST ||
      (!is_narrow && !p->in_narrow_factor))
    return false;
  for (uint32_t k = 0; k < p->uses.len; k++) {
    bool once;
    if (!is_in_one_factor(plan, &p->uses.at[k], &once) ||
        (!once && p->pointwise_cost > MAX_WIDENING_COST))
      return false;
  }
  return true;
}

static void note_narrow_factor(const Plan *plan, const PlanNode *p) {
  for (uint32_t j = 0; j < operand_count(p->node); j++) {
    const Node *x = operand(p->node, j);
    if (x && !node_is_materialized(x))
      plan_node_of(plan, x)->in_narrow_factor = true;
  }
}

/* Evaluations per element if the node is inlined.  *only_factor: all uses are
 * matmul factors. */
static double recomputation_ratio(const Plan *plan, const PlanNode *p,
                                  bool *only_factor) {
  double ratio = 0, count = node_element_hint(plan->graph, p->node);
  bool cheap = body_cost(p->node) <= MAX_FACTOR_COST;
  *only_factor = cheap;
  for (uint32_t k = 0; k < p->uses.len; k++) {
    bool factor = cheap && is_computed_once(plan, p, &p->uses.at[k]);
    ratio += factor ? count : p->uses.at[k].body->iterations;
    *only_factor &= factor;
  }
  return count > 0 ? ratio / count : 0;
}

static bool fits_reader_bodies(const Plan *plan, const PlanNode *p) {
  for (uint32_t k = 0; k < p->uses.len; k++)
    if (p->uses.at[k].body->ops.len + p->node->body_op_count >
        max_body_ops(plan))
      return false;
  return true;
}

/* A node with reads that may be out of bounds is materialized: the backend
 * checks indices of loads, but not of ops that were inlined. */
static bool is_read_in_bounds(const PlanNode *p) {
  for (uint32_t k = 0; k < p->uses.len; k++)
    if (!fused_body_read_in_bounds(p->uses.at[k].body, p->uses.at[k].read_op,
                                   p->node->extents))
      return false;
  return true;
}

/* True if p is the epilogue of an operand that would be stored for p alone,
 * such as bias and activation after a matmul.  Then p is stored instead of the
 * operand, which takes no more memory, and the kernel of the operand computes
 * p. */
static bool is_epilogue_of_stored_operand(const Plan *plan, const PlanNode *p) {
  const Node *n = p->node;
  if (p->recompute_cost <= MAX_FACTOR_COST || body_cost(n) == 0)
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const Node *x =
        n->body_ops[k].kind == BODY_READ ? n->body_ops[k].node : NULL;
    if (!x || node_is_materialized(x) || x->kind != NODE_COMP ||
        (x->reduce == PRIM_NONE && body_cost(x) == 0) ||
        dtype_info[n->dtype].bytes > dtype_info[x->dtype].bytes ||
        node_element_hint(plan->graph, x) != node_element_hint(plan->graph, n))
      continue;
    uint32_t reads = 0;
    for (uint32_t j = 0; j < n->body_op_count; j++)
      reads += n->body_ops[j].kind == BODY_READ && n->body_ops[j].node == x;
    const PlanNode *of = plan_node_of(plan, x);
    if (!of->root && !is_externally_held(of) && of->plan_refs == reads)
      return true;
  }
  return false;
}

/* The increment of an op per step along an axis; INT64_MIN: unknown.  The
 * recursion depth is bounded by the limit on ops of a body. */
static int64_t index_stride(const FusedBody *body, uint32_t at, uint32_t axis) {
  const BodyOp *c = &body->ops.at[fused_body_resolve(body, at)].body_op;
  if (c->kind != BODY_OP)
    return c->kind == BODY_AXIS                              ? c->axis == axis
           : c->kind == BODY_CONST || c->kind == BODY_EXTENT ? 0
                                                             : INT64_MIN;
  if (c->op != PRIM_ADD && c->op != PRIM_SUB && c->op != PRIM_MUL)
    return INT64_MIN;
  int64_t x = index_stride(body, c->args[0], axis);
  int64_t y = index_stride(body, c->args[1], axis);
  if (x == INT64_MIN || y == INT64_MIN)
    return INT64_MIN;
  if (c->op == PRIM_MUL)
    return x || y ? INT64_MIN : 0;
  return c->op == PRIM_ADD ? x + y : x - y;
}

/* True if n is an element where the indices are in bounds, and a constant
 * elsewhere. */
static bool is_padding(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->body_op_count == 0)
    return false;
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  if (value->kind != BODY_SELECT ||
      n->body_ops[value->args[1]].kind != BODY_READ ||
      n->body_ops[value->args[2]].kind != BODY_CONST)
    return false;
  for (uint32_t k = 0; k + 1 < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    bool made = c->kind == BODY_OP && c->dtype != DT_I64 && c->dtype != DT_BOOL;
    if (made || (c->kind == BODY_READ && k != value->args[1]) ||
        c->kind == BODY_SELECT || c->kind == BODY_CONVERT ||
        c->kind == BODY_RANDOM)
      return false;
  }
  return true;
}

/* True if a small window reads the node, contiguously along its rows.  Then
 * masked vector loads read the input directly.  They cost no more than loads of
 * a stored padded copy, and rarely read an element twice. */
static bool is_window_read(const Plan *plan, const NodeUse *i) {
  const FusedBody *body = i->body;
  const BodyOp *read = &body->ops.at[i->read_op].body_op;
  const int64_t *reduced = body->extents + body->axis_count;
  int64_t terms;
  if (body->reduce == PRIM_NONE || body->reduce_count == 0 ||
      body->axis_count == 0 || read->arg_count == 0 ||
      extent_hint(plan->graph, body->extents[body->axis_count - 1]) <
          MIN_WINDOW_ROW ||
      !extent_product(plan->graph, body->reduce_count, reduced, &terms) ||
      !extent_is_static(plan->graph, terms) || terms > MAX_INLINED_WINDOW_TERMS)
    return false;
  for (uint32_t j = 0; j < read->arg_count; j++)
    if (index_stride(body, read->args[j], body->axis_count - 1) !=
        (j + 1 == read->arg_count))
      return false;
  return true;
}

static bool is_window_padding(const Plan *plan, const PlanNode *p) {
  if (!plan->graph->backend->compiles_kernels || !is_padding(p->node))
    return false;
  for (uint32_t k = 0; k < p->uses.len; k++)
    if (!is_window_read(plan, &p->uses.at[k]))
      return false;
  return true;
}

/* True if the node is cheap to compute and so large that reads of it would be
 * bound by memory bandwidth.  False for a factor of a matmul, since caches hold
 * parts of it. */
static bool is_streamed(const Plan *plan, const PlanNode *p) {
  double bytes = node_bytes_hint(plan->graph, p->node);
  for (uint32_t k = 0; k < p->uses.len; k++) {
    const FusedBody *body = p->uses.at[k].body;
    if (body->reduce == PRIM_SUM &&
        is_contraction_factor(body, body->value_op, p->uses.at[k].read_op))
      return false;
  }
  return p->only_smaller_inputs && p->pointwise_cost <= MAX_INDEX_COST &&
         bytes >= MIN_STREAMED_BYTES;
}

/* Number of consecutive elements of a row of the body for which the op has the
 * same value. */
static double invariant_row_length(const Plan *plan, const FusedBody *body,
                                   uint32_t at) {
  uint64_t *memo = NEW_ARRAY(plan->arena, uint64_t, body->ops.len);
  bool *seen = NEW_ARRAY(plan->arena, bool, body->ops.len);
  uint64_t varying_axes = op_axes(body, at, memo, seen);
  double row = 1;
  for (uint32_t k = body->axis_count; k-- > 0 && !(varying_axes >> k & 1);)
    row *= (double)extent_hint(plan->graph, body->extents[k]);
  return row;
}

/* True if the node reads only data, and computing it once per row of each
 * consumer is cheap relative to the row.  That costs less than a kernel launch.
 * Example: the factor of a channel in batch normalization. */
static bool is_cheap_per_row(const Plan *plan, const PlanNode *p) {
  bool rows = plan->graph->backend->compiles_kernels;
  rows = rows && p->only_materialized_inputs;
  for (uint32_t k = 0; k < p->uses.len && rows; k++) {
    const NodeUse *i = &p->uses.at[k];
    rows = i->body->reduce == PRIM_NONE &&
           MIN_ROW_ELEMENTS_PER_OP * p->recompute_cost <=
               invariant_row_length(plan, i->body, i->read_op);
  }
  return rows;
}

/* True if the node converts f16 or bf16 to f32 and no consumer is a reduction.
 * The consumers then read fewer bytes, and the conversion is almost free. */
static bool is_widening_conversion(const PlanNode *p) {
  const Node *n = p->node;
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  if (value->kind != BODY_CONVERT || n->dtype != DT_F32)
    return false;
  const BodyOp *of = &n->body_ops[value->args[0]];
  if (of->kind != BODY_READ || !dtype_is_narrow_float(of->dtype))
    return false;
  for (uint32_t k = 0; k < p->uses.len; k++)
    if (p->uses.at[k].body->reduce != PRIM_NONE)
      return false;
  return true;
}

/* True if computing the node in its consumers is no more work. */
static bool is_cheap_to_recompute(const Plan *plan, const PlanNode *p) {
  bool only_factor;
  if (is_narrow_factor(plan, p)) {
    note_narrow_factor(plan, p);
    return true;
  }
  double cost = body_cost(p->node),
         ratio = recomputation_ratio(plan, p, &only_factor);
  if (only_factor)
    return !is_epilogue_of_stored_operand(plan, p);
  if ((p->only_indices && p->pointwise_cost <= MAX_INDEX_COST) ||
      is_window_padding(plan, p) || is_streamed(plan, p) ||
      is_cheap_per_row(plan, p) || is_widening_conversion(p))
    return true;
  return cost == 0 || ratio < MAX_FREE_RECOMPUTATION ||
         (ratio <= 2 && p->pointwise_cost <= 8) ||
         (ratio <= 4 && p->pointwise_cost <= 2);
}

/* Returns why the node is materialized; NULL: it is inlined. */
static const char *materialize_reason(const Plan *plan, const PlanNode *p) {
  const Node *n = p->node;
  if (p->root)
    return "the program needs its value";
  if (p->is_scheduled)
    return p->cuts ? "the schedule cuts after it" : "the schedule stores it";
  if (p->required)
    return p->node->is_forced
               ? "the program forces it"
               : "it is a condition, or an operation needs all of it";
  if (n->kind != NODE_COMP)
    return "not an elementwise operation";
  if (n->reduce != PRIM_NONE)
    return "a reduction, computed once";
  if (plan->graph->fuse_mode == FUSE_NONE)
    return "fusion is disabled";
  if (!is_read_in_bounds(p))
    return "it is read by a gather";
  if (!fits_reader_bodies(plan, p))
    return "its consumer is already too long";
  if (plan->graph->fuse_mode == FUSE_ALL)
    return NULL;
  if (is_worth_keeping(plan, p))
    return "still referenced, and expensive to recompute";
  return is_cheap_to_recompute(plan, p)
             ? NULL
             : "read often, and expensive to recompute";
}

/* ---- decisions ---- */

static void note_inlined(const Plan *plan, FusedBody *body, const Node *n,
                         bool is_view) {
  if (!plan->graph->observer)
    return;
  FusedValue v = {n->span, n->dtype, node_element_count(n), is_view,
                  n->reverse_of};
  VEC_PUSH(plan->arena, body->inlined_values, v);
}

static void inline_node(Plan *plan, PlanNode *p) {
  bool is_view = plan->graph->observer && body_cost(p->node) == 0;
  for (uint32_t k = 0; k < p->uses.len; k++) {
    FusedBody *body = p->uses.at[k].body;
    if (k == 0 || body != p->uses.at[k - 1].body)
      note_inlined(plan, body, p->node, is_view);
    uint32_t read = p->uses.at[k].read_op, value, axes[2 * MAX_RANK];
    const BodyOp *expr = &body->ops.at[read].body_op;
    for (uint32_t j = 0; j < expr->arg_count; j++)
      axes[j] = fused_body_resolve(body, expr->args[j]);
    value = expand(plan, body, p->node, axes, 0);
    body->ops.at[read].forward = value + 1;
  }
}

/* True if p is a reduction whose only consumer moves its elements, each at most
 * once. */
static bool can_absorb_reduction(const Plan *plan, const PlanNode *p) {
  if (!is_read_in_bounds(p) || p->root || p->required ||
      p->node->kind != NODE_COMP || p->node->reduce == PRIM_NONE ||
      p->uses.len != 1 || is_externally_held(p) ||
      plan->graph->fuse_mode == FUSE_NONE)
    return false;
  const FusedBody *body = p->uses.at[0].body;
  return body->reduce == PRIM_NONE &&
         body->axis_count + p->node->reduce_count <= MAX_RANK &&
         fused_body_resolve(body, body->value_op) == p->uses.at[0].read_op &&
         body->iterations <= node_element_hint(plan->graph, p->node);
}

static void absorb_reduction(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  FusedBody *body = p->uses.at[0].body;
  note_inlined(plan, body, n, true);
  uint32_t outer = n->free_count + n->rank, axes[2 * MAX_RANK];
  const BodyOp *expr = &body->ops.at[p->uses.at[0].read_op].body_op;
  for (uint32_t j = 0; j < outer; j++)
    axes[j] = fused_body_resolve(body, expr->args[j]);
  body->reduce = n->reduce;
  body->reduce_count = n->reduce_count;
  for (uint32_t j = 0; j < n->reduce_count; j++) {
    body->extents[body->axis_count + j] = n->extents[outer + j];
    body->iterations *= (double)extent_hint(plan->graph, n->extents[outer + j]);
    axes[outer + j] = fused_body_axis(body, body->axis_count + j);
  }
  body->value_op = expand(plan, body, n, axes, 0);
}

static void require_materialized(const Plan *plan, const Node *n) {
  if (n && !node_is_materialized(n))
    plan_node_of(plan, n)->required = true;
}

/* The value under a guard.  If the guard is false, it is zero, and nothing is
 * read. */
static uint32_t guarded_value(Plan *plan, FusedBody *body, const Node *n,
                              const uint32_t *axes) {
  uint32_t args[MAX_RANK], parts[3] = {0, body->value_op};
  const BodyOp *value =
      &body->ops.at[fused_body_resolve(body, parts[1])].body_op;
  BodyOp read = {.kind = BODY_READ, .dtype = DT_BOOL, .node = n->guard};
  BodyOp zero = {.kind = BODY_CONST, .dtype = value->dtype};
  BodyOp choice = {.kind = BODY_SELECT, .dtype = value->dtype, .span = n->span};
  zero.value.dtype = value->dtype;
  for (uint32_t k = 0; k < n->guard->free_count; k++) {
    uint32_t at = 0;
    while (n->free_vars[at] != n->guard->free_vars[k])
      at++;
    args[k] = axes[at];
  }
  read.arg_count = n->guard->free_count;
  read.span = n->guard->span;
  parts[0] = expand_read(plan, body, &read, args, 0);
  parts[2] = fused_body_intern(body, &zero, 0, NULL);
  return fused_body_intern(body, &choice, 3, parts);
}

static void materialize(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  p->materialized = true;
  if (n->kind != NODE_COMP)
    require_materialized(plan, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    require_materialized(plan, n->inputs[k]);
  for (uint32_t k = 0; k < capture_count(n); k++)
    require_materialized(plan, n->loop_body->captures[k]);
  if (n->kind != NODE_COMP)
    return;
  p->body = fused_body_new(plan->arena, plan->graph, n);
  uint32_t axes[2 * MAX_RANK];
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    axes[k] = fused_body_axis(p->body, k);
  p->body->value_op = expand(plan, p->body, n, axes, 0);
  if (n->guard)
    p->body->value_op = guarded_value(plan, p->body, n, axes);
}

static void decide_fusion(Plan *plan, PlanNode *p) {
  if (!p->root && !p->required && p->uses.len == 0)
    return; /* only indices that were inlined eagerly read it */
  p->reason = materialize_reason(plan, p);
  if (!p->reason)
    inline_node(plan, p);
  else if (can_absorb_reduction(plan, p))
    absorb_reduction(plan, p);
  else
    materialize(plan, p);
}

/* ---- final bodies ---- */

static void add_plan_input(Plan *plan, PlanNode *p, const Node *x) {
  if (!x || node_is_materialized(x))
    return;
  PlanNode *input = plan_node_of(plan, x);
  input->live = true;
  if (input->last_reader == p)
    return;
  input->last_reader = p;
  input->pending_readers++;
  VEC_PUSH(plan->arena, p->inputs, input);
}

static void finish_body(Plan *plan, PlanNode *p) {
  const Node *n = p->node;
  if (n->kind != NODE_COMP)
    add_plan_input(plan, p, n->guard);
  for (uint32_t k = 0; k < capture_count(n); k++)
    add_plan_input(plan, p, n->loop_body->captures[k]);
  for (uint32_t k = 0; k < n->input_count; k++)
    add_plan_input(plan, p, n->inputs[k]);
  if (!p->body)
    return;
  p->body = fused_body_simplify(plan->arena, p->body);
  for (uint32_t k = 0; k < p->body->ops.len; k++)
    if (p->body->ops.at[k].body_op.kind == BODY_READ)
      add_plan_input(plan, p, p->body->ops.at[k].body_op.node);
}

static void release_plan_node(PlanNode *p) {
  Node *n = p->node;
  p->node = NULL;
  if (!n)
    return;
  n->mark = 0;
  node_release(n);
}

static void install_bodies(Plan *plan) {
  for (uint32_t k = 0; k < plan->materialized.len; k++)
    if (plan->materialized.at[k]->body)
      fused_body_install(plan->materialized.at[k]->body,
                         plan->materialized.at[k]->node);
  for (uint32_t k = 0; k < plan->nodes.len; k++) {
    PlanNode *p = plan->nodes.at[k];
    if (!p->materialized)
      p->node->inlined = true;
    if (!p->materialized || !p->live)
      release_plan_node(p);
  }
}

/* Values that a schedule of the program stores.  Several nodes may have the
 * place of an expression: its value is the one that none of the others reads.
 */
static void require_scheduled(Plan *plan) {
  uint32_t count = plan->nodes.len;
  ScheduleEntry **entries = NEW_ARRAY(plan->arena, ScheduleEntry *, count);
  for (uint32_t k = 0; k < count; k++)
    entries[k] = schedule_find_storage(plan->graph, plan->nodes.at[k]->node);
  for (uint32_t k = count; k-- > 0;) {
    PlanNode *p = plan->nodes.at[k];
    bool is_part = false;
    for (uint32_t i = k + 1; entries[k] && i < count && !is_part; i++)
      for (uint32_t j = 0; entries[i] == entries[k] &&
                           j < operand_count(plan->nodes.at[i]->node);
           j++)
        is_part |= operand(plan->nodes.at[i]->node, j) == p->node;
    if (!entries[k] || is_part)
      continue;
    p->required = p->is_scheduled = true;
    p->cuts = entries[k]->kind == SCHEDULE_CUT;
    schedule_entry_report(entries[k], NULL);
  }
}

void plan_fuse(Plan *plan, uint32_t count, Node *const *roots) {
  for (uint32_t k = 0; k < count; k++)
    collect_pending(plan, roots[k]);
  count_plan_refs(plan);
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    plan->nodes.at[k]->required = plan->nodes.at[k]->node->is_forced;
  if (plan->graph->schedules)
    require_scheduled(plan);
  estimate_recompute_costs(plan);
  for (uint32_t k = 0; k < count; k++)
    if (!node_is_materialized(roots[k])) {
      plan_node_of(plan, roots[k])->root = true;
      plan_node_of(plan, roots[k])->live = true;
    }
  for (uint32_t k = plan->nodes.len; k-- > 0;)
    decide_fusion(plan, plan->nodes.at[k]);
  uint32_t needed = 0;
  for (uint32_t k = plan->nodes.len; k-- > 0;) {
    PlanNode *p = plan->nodes.at[k];
    if (p->materialized && p->live) {
      finish_body(plan, p);
      needed++;
    }
  }
  for (uint32_t k = 0; k < plan->nodes.len && needed; k++) {
    PlanNode *p = plan->nodes.at[k];
    if (p->materialized && p->live)
      VEC_PUSH(plan->arena, plan->materialized, p);
  }
  install_bodies(plan);
}

/* Puts the constants and random keys back in place of parameters.  A backend is
 * about to run the node, or the node is left over after a failure. */
static void restore_params(const Plan *plan, const PlanNode *p) {
  if (!p->node || !p->body || !plan->params)
    return;
  for (uint32_t k = 0; k < p->node->body_op_count; k++) {
    BodyOp *c = &p->node->body_ops[k];
    if (c->kind == BODY_CONST)
      c->value = param_resolve(c->value, plan->params->values.at);
    if (c->kind == BODY_RANDOM)
      c->key = key_resolve(c->key, plan->params->random_keys.at);
  }
}

void plan_release(Plan *plan) {
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    restore_params(plan, plan->nodes.at[k]);
  for (uint32_t k = 0; k < plan->nodes.len; k++)
    release_plan_node(plan->nodes.at[k]);
  plan->nodes.len = 0;
}
