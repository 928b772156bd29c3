/* Immediate execution of traced loops.  One iteration was traced on a carry
 * without a value (eval/trace_loop.c).  It is planned once.  Its kernels then
 * run for all iterations, without the host in between.
 *
 * Loop-invariant code motion: nodes that do not depend on the carry are
 * computed before the loop, for all iterations together.  Each iteration then
 * reads one row of them.  Views and elementwise formulas stay in the iteration,
 * since kernels compute them on the fly.
 *
 * The main entry point is graph_execute_loop. */
#include "machine/limits/planner.h"
#include "machine/machine.h"
#include "plan/backend.h"
#include "plan/execute.h"
#include "plan/observer.h"
#include "plan/plan_execution.h"
#include "runtime/derived_cache.h"
#include "support/arena.h"
#include "support/map.h"
#include "support/trap.h"
#include "tensor/loop_sums.h"
#include "tensor/node.h"

#include <string.h>

/* A tensor of which each iteration reads one row. */
typedef struct ScannedInput {
  Node *leaf;
  /* The node with all rows; NULL: the leaf itself, before the loop. */
  Node *stacked_node;
  bool reversed;   /* the first iteration reads the last row */
  Tensor *stacked; /* counted reference */
} ScannedInput;

typedef struct StackedOutput { /* what the loop keeps of each iteration */
  Tensor *tensor;
  size_t iteration_bytes; /* bytes of one iteration */
  Tensor *row; /* where the iteration may store it; counted; or NULL */
} StackedOutput;

typedef VEC(Node *) DeadNodes; /* nodes after their last use */

typedef struct LoopExecution {
  Graph *graph;
  Arena *arena;
  const FoldIteration *iteration;
  int64_t trip_count;
  Map seen;
  /* body_nodes: the nodes that run in each iteration. */
  VEC(Node *) worklist, body_nodes;
  VEC(Node *) hoisted_nodes; /* nodes that run once, before the loop */
  VEC(Node *) roots;
  VEC(ScannedInput) scanned;
  int64_t hoisted_bytes;
  bool has_tensors; /* some value has axes */
  bool failed;
  bool derives;    /* it holds derived data */
  Node **carry_in; /* NULL: the iteration does not read it */
  /* Current and next values; counted references. */
  Tensor **carry, **next_carry;
  StackedOutput *stacked_outputs;
  VEC(Node *) held_nodes; /* counted references */
  TouchedNodes touched;
  DeadNodes *dead_after; /* indexed by group */
  PlanExecution run;
} LoopExecution;

/* ---- classification of nodes: hoisted or in the loop ---- */

static bool depends_on_carry(const Node *n) {
  return n->symbolic || (n->guard && n->guard->symbolic);
}

/* The axis of n that is the iteration; UINT32_MAX: it has none. */
static uint32_t iteration_axis(const LoopExecution *l, const Node *n) {
  uint32_t k = 0;
  while (k < n->free_count && n->free_vars[k] != l->iteration->index)
    k++;
  return k < n->free_count ? k : UINT32_MAX;
}

/* True if the node uses the iteration number only to index the iteration axis
 * of its operands. */
static bool is_per_iteration(const LoopExecution *l, const Node *n) {
  uint32_t axis = iteration_axis(l, n), last = n->body_op_count - 1;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_AXIS && c->axis == axis && k == last)
      return false;
    for (uint32_t j = 0; j < c->arg_count; j++) {
      const BodyOp *x = &n->body_ops[c->args[j]];
      bool iteration = c->kind == BODY_READ && j < c->node->free_count &&
                       c->node->free_vars[j] == l->iteration->index;
      if ((x->kind == BODY_AXIS && x->axis == axis) != iteration)
        return false;
    }
  }
  return true;
}

/* True if the node only moves elements, or constants. */
static bool is_view(const Node *n) {
  bool is_move = n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->guard;
  for (uint32_t k = 0; is_move && k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    is_move = c->kind == BODY_CONST || c->kind == BODY_AXIS ||
              c->kind == BODY_READ ||
              (c->kind == BODY_OP && c->dtype == DT_I64 &&
               (c->op == PRIM_ADD || c->op == PRIM_SUB || c->op == PRIM_MUL));
  }
  return is_move && n->body_ops[n->body_op_count - 1].kind != BODY_OP;
}

/* True if the node is a cheap expression of indices and constants.  Kernels
 * compute it on the fly, and can then analyze which elements they read. */
static bool is_index_expression(const Node *n, uint32_t depth) {
  bool is_index = n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->data &&
                  n->body_op_count <= MAX_LOOP_INDEX_OPS &&
                  depth < MAX_LOOP_INDEX_DEPTH;
  for (uint32_t k = 0; is_index && k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    is_index =
        c->kind != BODY_RANDOM &&
        (c->kind != BODY_OP || map_info[c->op].cost <= MAX_LOOP_INDEX_COST) &&
        (c->kind != BODY_READ || is_index_expression(c->node, depth + 1));
  }
  return is_index;
}

static void push_operands(LoopExecution *l, const Node *n) {
  for (uint32_t k = 0; k < node_operand_count(n); k++)
    if (node_operand(n, k))
      VEC_PUSH(l->arena, l->worklist, node_operand(n, k));
}

/* Retains n during the loop, so that no kernel takes its memory. */
static void hold_node(LoopExecution *l, Node *n) {
  VEC_PUSH(l->arena, l->held_nodes, n);
  node_retain(n);
}

static void release_held(LoopExecution *l) {
  for (uint32_t k = 0; k < l->held_nodes.len; k++)
    node_release(l->held_nodes.at[k]);
  l->held_nodes.len = 0;
}

static void hoist_node(LoopExecution *l, Node *n) {
  hold_node(l, n);
  if (!n->data)
    VEC_PUSH(l->arena, l->hoisted_nodes, n);
}

static void keep_in_body(LoopExecution *l, Node *n) {
  l->failed |= l->body_nodes.len >= MAX_LOOP_BODY_NODES;
  l->has_tensors |= n->rank > 0 || n->reduce != PRIM_NONE;
  VEC_PUSH(l->arena, l->body_nodes, n);
  push_operands(l, n);
}

static void note_carry(LoopExecution *l, const Node *n) {
  uint32_t k = 0;
  while (k < l->iteration->carry_count && l->iteration->carry_in[k] != n)
    k++;
  if (k == l->iteration->carry_count)
    l->failed = true; /* the carry of another loop */
  else
    l->carry_in[k] = l->iteration->carry_in[k];
}

/* If n is a tensor with its rows in reverse order, returns that tensor; else
 * NULL. */
static Node *reversed_rows_of(const Node *n) {
  if (n->data || n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard ||
      n->free_count)
    return NULL;
  const BodyOp *ops = n->body_ops, *c = &ops[n->body_op_count - 1];
  if (c->kind != BODY_READ || c->arg_count != n->rank ||
      c->node->broadcast_mask != n->broadcast_mask)
    return NULL;
  for (uint32_t k = 0; k < n->rank; k++) {
    const BodyOp *index = &ops[c->args[k]];
    if (k == 0) { /* last - axis */
      if (index->kind != BODY_OP || index->op != PRIM_SUB ||
          ops[index->args[0]].kind != BODY_CONST ||
          ops[index->args[0]].value.i != n->extents[0] - 1)
        return NULL;
      index = &ops[index->args[1]];
    }
    if (index->kind != BODY_AXIS || index->axis != k ||
        c->node->extents[k] != n->extents[k])
      return NULL;
  }
  return c->node;
}

/* All rows of n are available before the loop. */
static void add_scanned_input(LoopExecution *l, Node *n, Node *all) {
  Node *source = all ? reversed_rows_of(all) : NULL;
  int64_t count = node_element_count(n), bytes = dtype_info[n->dtype].bytes;
  bool is_made = !all && !n->data;
  VEC_PUSH(l->arena, l->scanned,
           ((ScannedInput){.leaf = n,
                           .stacked_node = source ? source : all,
                           .reversed = source != NULL}));
  if (all)
    hoist_node(l, source ? source : all);
  else if (is_made)
    VEC_PUSH(l->arena, l->hoisted_nodes, n);
  l->failed |=
      is_made && count > (MAX_HOISTED_BYTES - l->hoisted_bytes) / bytes;
  if (is_made && !l->failed)
    l->hoisted_bytes += count * bytes;
}

static void classify_node(LoopExecution *l, Node *n) {
  bool varies = iteration_axis(l, n) != UINT32_MAX;
  if (n->kind == NODE_LOOP_CARRIED) {
    note_carry(l, n);
  } else if (depends_on_carry(n)) {
    l->failed |=
        n->kind == NODE_COMP ? !is_per_iteration(l, n) : n->kind != NODE_OPAQUE;
    keep_in_body(l, n);
  } else if (varies) {
    Node *all = n->data ? NULL : node_row_source(n, l->iteration->index);
    bool formula = n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
                   (!n->guard || iteration_axis(l, n->guard) == UINT32_MAX);
    if (all || n->data || !formula || !is_per_iteration(l, n))
      add_scanned_input(l, n, all);
    else
      keep_in_body(l, n);
  } else if (!n->data && (is_view(n) || is_index_expression(n, 0))) {
    push_operands(l, n);
  } else {
    hoist_node(l, n);
  }
}

static void classify_nodes(LoopExecution *l) {
  const FoldIteration *t = l->iteration;
  map_init(&l->seen, l->arena);
  l->roots.len = l->scanned.len = l->body_nodes.len = l->hoisted_nodes.len = 0;
  for (uint32_t k = 0; k < t->carry_count + t->stacked_count; k++)
    VEC_PUSH(l->arena, l->roots, t->results[k]);
  if (t->condition)
    VEC_PUSH(l->arena, l->roots, t->condition);
  for (uint32_t k = 0; k < l->roots.len; k++)
    VEC_PUSH(l->arena, l->worklist, l->roots.at[k]);
  while (l->worklist.len && !l->failed) {
    Node *n = l->worklist.at[--l->worklist.len];
    if (map_get(&l->seen, n))
      continue;
    map_put(&l->seen, n, n);
    classify_node(l, n);
  }
  l->failed |= !l->has_tensors; /* the host runs scalar loops faster */
}

static bool has_same_shape(const Node *n, const Node *like) {
  return n->dtype == like->dtype && n->rank == like->rank &&
         n->broadcast_mask == like->broadcast_mask &&
         (!n->rank || memcmp(node_own_extents(n), node_own_extents(like),
                             n->rank * sizeof(int64_t)) == 0);
}

static bool carry_shapes_match(const FoldIteration *t) {
  for (uint32_t k = 0; k < t->carry_count; k++)
    if (!has_same_shape(t->results[k], t->initial[k]) ||
        !has_same_shape(t->carry_in[k], t->initial[k]))
      return false;
  return true;
}

/* ---- one iteration of nodes that were traced for all ---- */

/* Makes the reads of n read one iteration. */
static void drop_iteration_indices(LoopExecution *l, const Node *n) {
  uint32_t axis = iteration_axis(l, n);
  for (uint32_t k = 0; n->kind == NODE_COMP && k < n->body_op_count; k++) {
    BodyOp *c = &n->body_ops[k];
    uint32_t at =
        c->kind == BODY_READ ? iteration_axis(l, c->node) : UINT32_MAX;
    if (c->kind == BODY_AXIS && c->axis == axis)
      *c =
          (BodyOp){.kind = BODY_CONST, .dtype = DT_I64, .value = {DT_I64, {0}}};
    else if (c->kind == BODY_AXIS && axis != UINT32_MAX && c->axis > axis)
      c->axis--;
    if (at == UINT32_MAX)
      continue;
    c->arg_count--;
    memmove(c->args + at, c->args + at + 1,
            (c->arg_count - at) * sizeof *c->args);
  }
}

static void drop_iteration_axis(LoopExecution *l, Node *n) {
  uint32_t axis = iteration_axis(l, n);
  n->symbolic = false;
  if (axis == UINT32_MAX)
    return;
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  index_var_release(n->free_vars[axis]);
  n->free_count--;
  memmove(n->free_vars + axis, n->free_vars + axis + 1,
          (n->free_count - axis) * sizeof *n->free_vars);
  memmove(n->extents + axis, n->extents + axis + 1,
          (axes - axis - 1) * sizeof *n->extents);
}

static Tensor *alloc_checked(Tensor *t) {
  if (!t)
    trap_raise(FAIL_MEMORY);
  return t;
}

/* Turns n into a leaf whose data change in each iteration.  The loop holds its
 * operands no more, since planning may find that nothing reads n. */
static void make_leaf(LoopExecution *l, Node *n) {
  node_drop_references(n);
  tensor_release(n->data);
  n->data = NULL;
  n->materialized = true;
  drop_iteration_axis(l, n);
}

static int64_t row_of_iteration(const ScannedInput *r, int64_t iteration) {
  return r->reversed ? r->stacked->shape[0] - 1 - iteration : iteration;
}

/* A view of one row, without the axis of rows. */
static Tensor *one_row_view(Tensor *rows, int64_t row) {
  Tensor *t = alloc_checked(tensor_row_view(rows, row, 1));
  t->rank--;
  memmove(t->shape, t->shape + 1, t->rank * sizeof *t->shape);
  return t;
}

static Tensor *row_view(const ScannedInput *r, int64_t iteration) {
  return one_row_view(r->stacked, row_of_iteration(r, iteration));
}

static void make_body(LoopExecution *l) {
  const FoldIteration *t = l->iteration;
  for (uint32_t k = 0; k < l->scanned.len; k++) {
    ScannedInput *r = &l->scanned.at[k];
    r->stacked =
        tensor_retain(r->stacked_node ? r->stacked_node->data : r->leaf->data);
    hold_node(l, r->leaf);
  }
  for (uint32_t k = 0; k < l->body_nodes.len; k++)
    drop_iteration_indices(l, l->body_nodes.at[k]);
  for (uint32_t k = 0; k < l->body_nodes.len; k++)
    drop_iteration_axis(l, l->body_nodes.at[k]);
  for (uint32_t k = 0; k < l->scanned.len; k++) {
    make_leaf(l, l->scanned.at[k].leaf);
    l->scanned.at[k].leaf->data = row_view(&l->scanned.at[k], 0);
  }
  for (uint32_t k = 0; k < t->carry_count; k++) {
    l->carry[k] = tensor_retain(t->initial[k]->data);
    if (!l->carry_in[k])
      continue;
    make_leaf(l, l->carry_in[k]);
    l->carry_in[k]->data = tensor_retain(l->carry[k]);
  }
}

/* Moves the view of a leaf to the row of the next iteration.  Reuses the view
 * if nothing else references it. */
static void advance_row(ScannedInput *r, int64_t iteration) {
  Tensor *t = r->leaf->data;
  if (t && t->refs == 1 && !t->derived) {
    t->data = tensor_at(r->stacked, row_of_iteration(r, iteration) * t->count);
    return;
  }
  tensor_release(t);
  r->leaf->data = NULL;
  r->leaf->data = row_view(r, iteration);
}

/* ---- the plan ---- */

/* Plans for the observer.  Such a plan is not cached. */
static bool plan_observed(LoopExecution *l, Fault *fault) {
  if (!plan_execution_prepare_observed(&l->run, l->roots.len, l->roots.at,
                                       fault))
    return false;
  for (uint32_t k = 0; k < l->run.group_count; k++) {
    const FusionGroup *c = l->run.groups[k];
    for (uint32_t j = 0; j < c->nodes.len; j++) {
      VEC_PUSH(l->arena, l->touched.nodes, c->nodes.at[j]);
      VEC_PUSH(l->arena, l->held_nodes, node_retain(c->nodes.at[j]));
    }
  }
  l->touched.computed_count = l->touched.nodes.len;
  return true;
}

static bool plan_body(LoopExecution *l, Fault *fault) {
  l->run.expected_runs = (double)l->trip_count;
  if (l->graph->observer)
    return plan_observed(l, fault);
  if (!plan_execution_prepare(&l->run, l->roots.len, l->roots.at, fault))
    return false;
  cached_plan_touched_nodes(l->arena, l->run.cached_plan, &l->run.key,
                            &l->touched);
  for (uint32_t k = 0; k < l->touched.nodes.len; k++)
    hold_node(l, l->touched.nodes.at[k]);
  return true;
}

/* Finds the nodes that are dead after each group. */
static void find_dead_after(LoopExecution *l) {
  Map inner;
  map_init(&inner, l->arena);
  for (uint32_t k = 0; k < l->touched.computed_count; k++)
    map_put(&inner, l->touched.nodes.at[k], l->touched.nodes.at[k]);
  for (uint32_t k = 0; k < l->run.group_count; k++) {
    const FusionGroup *c = l->run.groups[k];
    for (uint32_t j = 0; c->donated && c->kernel && j < c->kernel->inputs.len;
         j++) {
      Node *x = (Node *)(uintptr_t)c->kernel->inputs.at[j];
      if (c->donated[j] && map_get(&inner, x))
        VEC_PUSH(l->arena, l->dead_after[k], x);
    }
  }
}

/* ---- iterations ---- */

static void release_data(Node *n) {
  tensor_release(n->data);
  n->data = NULL;
}

static bool execute_iteration(LoopExecution *l, Fault *fault) {
  Span fault_span = {0};
  for (uint32_t k = 0; k < l->run.group_count; k++) {
    if (!plan_execution_run_group(l->graph, l->run.groups[k], k, &fault_span,
                                  fault))
      return false;
    for (uint32_t j = 0; j < l->dead_after[k].len; j++)
      release_data(l->dead_after[k].at[j]);
  }
  return true;
}

static void *stacked_row(const StackedOutput *s, int64_t iteration) {
  return (char *)s->tensor->data + (size_t)iteration * s->iteration_bytes;
}

/* Moves the row of a stacked output.  The old one may have become a value of
 * the carry. */
static void move_row(StackedOutput *s, int64_t iteration) {
  if (s->row->refs == 1) {
    s->row->data = stacked_row(s, iteration);
    return;
  }
  tensor_release(s->row);
  s->row = NULL;
  s->row = one_row_view(s->tensor, iteration);
}

/* Lets kernels store results in the rows of stacked outputs. */
static void place_stacked_outputs(LoopExecution *l, int64_t iteration) {
  Node *const *results = l->iteration->results + l->iteration->carry_count;
  for (uint32_t k = 0; k < l->iteration->stacked_count; k++) {
    StackedOutput *s = &l->stacked_outputs[k];
    if (!s->row)
      continue;
    move_row(s, iteration);
    results[k]->place = s->row;
  }
}

static void store_stacked_outputs(LoopExecution *l, int64_t iteration) {
  const FoldIteration *t = l->iteration;
  for (uint32_t k = 0; k < t->stacked_count; k++) {
    Node *n = t->results[t->carry_count + k];
    const StackedOutput *s = &l->stacked_outputs[k];
    void *row = stacked_row(s, iteration);
    n->place = NULL;
    if (s->iteration_bytes && n->data->data != row)
      memcpy(row, n->data->data, s->iteration_bytes);
  }
}

/* True if another iteration follows. */
static bool should_continue(const LoopExecution *l, int64_t iteration) {
  const Node *condition = l->iteration->condition;
  return condition ? *(const bool *)condition->data->data
                   : iteration + 1 < l->trip_count;
}

static void end_iteration(LoopExecution *l, int64_t iteration) {
  const FoldIteration *t = l->iteration;
  store_stacked_outputs(l, iteration);
  for (uint32_t k = 0; k < t->carry_count; k++)
    l->next_carry[k] = tensor_retain(l->iteration->results[k]->data);
  for (uint32_t k = 0; k < l->touched.computed_count; k++)
    release_data(l->touched.nodes.at[k]);
  for (uint32_t k = 0; k < t->carry_count; k++) {
    tensor_release(l->carry[k]);
    l->carry[k] = l->next_carry[k];
    l->next_carry[k] = NULL;
  }
}

/* Makes the node the only holder of the carry.  Then a kernel may reuse its
 * memory for the next value. */
static void begin_iteration(LoopExecution *l, int64_t iteration) {
  for (uint32_t k = 0; k < l->scanned.len; k++)
    advance_row(&l->scanned.at[k], iteration);
  for (uint32_t k = 0; k < l->iteration->carry_count; k++) {
    Node *n = l->carry_in[k];
    if (!n)
      continue;
    tensor_release(n->data);
    n->data = NULL;
    n->data = l->carry[k];
    l->carry[k] = NULL;
  }
}

static bool execute_iterations(LoopExecution *l, Fault *fault) {
  bool condition = true;
  for (int64_t iteration = 0; condition; iteration++) {
    if (iteration)
      begin_iteration(l, iteration);
    if (l->graph->interrupt && flag_is_set(l->graph->interrupt))
      trap_raise(FAIL_INTERRUPT);
    if (iteration && l->graph->observer)
      l->graph->observer->replayed(l->graph->observer->owner);
    place_stacked_outputs(l, iteration);
    if (!execute_iteration(l, fault))
      return false;
    condition = should_continue(l, iteration);
    end_iteration(l, iteration);
  }
  return true;
}

/* Checks whether mapped files have changed.  The host will then report it,
 * too. */
static bool is_whole(const LoopExecution *l, Fault *fault) {
  for (uint32_t k = 0; k < l->scanned.len; k++)
    if (!tensor_check(l->scanned.at[k].stacked, fault))
      return false;
  return run_is_whole(&l->run, fault);
}

/* ---- the whole loop ---- */

static bool alloc_stacked_outputs(LoopExecution *l, Fault *fault) {
  const FoldIteration *t = l->iteration;
  for (uint32_t k = 0; k < t->stacked_count; k++) {
    const Node *n = t->results[t->carry_count + k];
    StackedOutput *stacked_output = &l->stacked_outputs[k];
    int64_t shape[MAX_RANK];
    if (n->rank == MAX_RANK)
      return false;
    shape[0] = l->trip_count;
    memcpy(shape + 1, node_own_extents(n), n->rank * sizeof *shape);
    stacked_output->tensor =
        tensor_new(n->dtype, n->rank + 1, shape, false, fault);
    if (!stacked_output->tensor)
      return false;
    stacked_output->tensor->broadcast_mask = n->broadcast_mask << 1;
    stacked_output->iteration_bytes =
        (size_t)shape_element_count(n->rank, node_own_extents(n)) *
        dtype_info[n->dtype].bytes;
  }
  return true;
}

/* True if the iteration computes result k, and no result before it is the
 * same node. */
static bool is_own_result(const LoopExecution *l, uint32_t k) {
  Node *const *results = l->iteration->results + l->iteration->carry_count;
  for (uint32_t j = 0; j < k; j++)
    if (results[j] == results[k])
      return false;
  return !results[k]->data;
}

/* Makes rows in which kernels store the results of an iteration.  Kernels may
 * assume that results are aligned. */
static void make_stacked_rows(LoopExecution *l) {
  for (uint32_t k = 0; k < l->iteration->stacked_count; k++) {
    StackedOutput *s = &l->stacked_outputs[k];
    if (s->iteration_bytes && s->iteration_bytes % TENSOR_ALIGNMENT == 0 &&
        is_own_result(l, k))
      s->row = one_row_view(s->tensor, 0);
  }
}

static Node *data_node(LoopExecution *l, Tensor *t) {
  VEC_PUSH(l->arena, l->held_nodes, node_data(l->graph, t));
  return l->held_nodes.at[l->held_nodes.len - 1];
}

static bool make_results(LoopExecution *l, Node **out, Fault *fault) {
  const FoldIteration *t = l->iteration;
  for (uint32_t k = 0; k < t->carry_count; k++) {
    const Node *n = t->initial[k];
    Tensor *own = tensor_detach(l->carry[k], fault);
    if (!own)
      return false;
    tensor_release(l->carry[k]);
    l->carry[k] = own;
    own->broadcast_mask = n->broadcast_mask;
    out[k] = data_node(l, own);
  }
  for (uint32_t k = 0; k < t->stacked_count; k++)
    out[t->carry_count + k] = data_node(l, l->stacked_outputs[k].tensor);
  for (uint32_t k = 0; k < t->carry_count + t->stacked_count; k++)
    node_retain(out[k]);
  return true;
}

/* Computes the hoisted nodes.  This may also compute nodes of the iteration, or
 * release their operands.  So all nodes are classified again. */
static bool execute_hoisted(LoopExecution *l, Fault *fault) {
  const FoldIteration *t = l->iteration;
  Span fault_span = {0};
  classify_nodes(l);
  for (uint32_t k = 0; k < t->carry_count; k++)
    hoist_node(l, t->initial[k]);
  for (uint32_t k = 0; k < l->hoisted_nodes.len; k++)
    hold_node(l, l->hoisted_nodes.at[k]);
  if (l->failed || !graph_force(l->graph, l->hoisted_nodes.len,
                                l->hoisted_nodes.at, &fault_span, fault))
    return false;
  release_held(l);
  classify_nodes(l);
  return !l->failed && !l->hoisted_nodes.len;
}

static bool execute_loop(LoopExecution *l, Node **out) {
  Fault ignored_fault = {0};
  if (!carry_shapes_match(l->iteration) ||
      !execute_hoisted(l, &ignored_fault) ||
      !alloc_stacked_outputs(l, &ignored_fault))
    return false;
  make_body(l);
  plan_execution_begin(l->graph, &l->run);
  if (!plan_body(l, &ignored_fault))
    return false;
  l->derives = true;
  derived_cache_begin_loop();
  l->dead_after = NEW_ARRAY(l->arena, DeadNodes, l->run.group_count);
  find_dead_after(l);
  make_stacked_rows(l);
  return execute_iterations(l, &ignored_fault) && is_whole(l, &ignored_fault) &&
         make_results(l, out, &ignored_fault);
}

static void release(LoopExecution *l) {
  const FoldIteration *t = l->iteration;
  if (l->derives)
    derived_cache_end_loop();
  for (uint32_t k = 0; k < t->carry_count; k++)
    node_release(t->carry_in[k]);
  if (l->run.graph)
    plan_execution_end(&l->run);
  release_held(l);
  for (uint32_t k = 0; k < l->scanned.len; k++)
    tensor_release(l->scanned.at[k].stacked);
  for (uint32_t k = 0; l->carry && k < t->carry_count; k++) {
    tensor_release(l->carry[k]);
    tensor_release(l->next_carry[k]);
  }
  for (uint32_t k = 0; l->stacked_outputs && k < t->stacked_count; k++) {
    t->results[t->carry_count + k]->place = NULL;
    tensor_release(l->stacked_outputs[k].row);
    tensor_release(l->stacked_outputs[k].tensor);
  }
  arena_free(l->arena);
}

static bool can_run(const Graph *g) {
  return g->backend->compiles_kernels && g->backend->supports_views &&
         !g->guard && !g->extent_table;
}

static bool run_loop(Graph *g, const FoldIteration *iteration, Node **out) {
  LoopExecution l = {.graph = g,
                     .iteration = iteration,
                     .trip_count = iteration->index->extent};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release(&l);
    trap_raise(trap.kind);
  }
  l.arena = arena_new();
  l.carry_in = NEW_ARRAY(l.arena, Node *, iteration->carry_count + 1);
  l.carry = NEW_ARRAY(l.arena, Tensor *, 2 * iteration->carry_count + 1);
  l.next_carry = l.carry + iteration->carry_count;
  l.stacked_outputs =
      NEW_ARRAY(l.arena, StackedOutput, iteration->stacked_count + 1);
  bool ok = can_run(g) && execute_loop(&l, out);
  trap_end(&trap);
  release(&l);
  return ok;
}

/* Runs the loop without its sums over iterations, which follow it. */
static bool run_split(LoopSums *s, Node **out) {
  const FoldIteration *whole = s->whole;
  uint32_t count = s->rest.carry_count + s->rest.stacked_count;
  Node **rest = NEW_ARRAY(s->arena, Node *, count + 1);
  for (uint32_t k = 0; k < whole->carry_count; k++)
    if (s->sums[k])
      node_release(whole->carry_in[k]);
  if (!run_loop(s->graph, &s->rest, rest))
    return false;
  bool ok = loop_sums_join(s, rest, out);
  for (uint32_t k = 0; k < count; k++)
    node_release(rest[k]);
  return ok;
}

bool graph_execute_loop(Graph *g, const FoldIteration *iteration, Node **out) {
  Fault ignored_fault = {0};
  LoopSums s = {.graph = g,
                .arena = arena_new(),
                .whole = iteration,
                .fault = &ignored_fault};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    loop_sums_release(&s);
    arena_free(s.arena);
    trap_raise(trap.kind);
  }
  double max_bytes = (double)machine()->memory_bytes / KEPT_STATES_MEMORY_PART;
  bool ok = can_run(g) && loop_sums_split(&s, max_bytes)
                ? run_split(&s, out)
                : run_loop(g, iteration, out);
  trap_end(&trap);
  loop_sums_release(&s);
  arena_free(s.arena);
  return ok;
}
