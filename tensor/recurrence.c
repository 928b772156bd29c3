/* Recurrences: folds and scans whose body is a formula.  One iteration, traced
 * on a carry without a value, becomes a list of pointwise ops.
 *
 * The part that does not depend on the carry is hoisted: it becomes a tensor
 * with one element per iteration, computed before the loop.  The other ops run
 * in order, iteration by iteration, but in parallel over the elements of the
 * carry.
 *
 * The main entry point is node_fold. */
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/map.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/vec.h"
#include "tensor/internal.h"

#include <string.h>

typedef struct RecurrenceBuilder {
  Graph *graph;
  Arena *arena;
  const FoldIteration *iteration;
  const Node *carry_shape; /* shape of all carry values */
  Map op_of_node;          /* from a node to 1 + its op */
  VEC(BodyOp) ops;
  VEC(Node *) inputs;      /* counted references */
  VEC(uint32_t) input_ops; /* ops of the inputs */
  uint32_t *carry_ops;     /* for each carry value: 1 + its op, or 0 */
  /* Bit set of inputs with one element per iteration. */
  uint64_t scanned_inputs;
  uint32_t depth;
  bool failed;
} RecurrenceBuilder;

/* ---- dependence on the carry ---- */

/* True if n, or its guard, depends on the carry.  Such a node is part of the
 * iteration.  The iteration ignores its guard, which matters only for nodes
 * that can fail. */
static bool depends_on_carry(const Node *n) {
  return n->symbolic || (n->guard && n->guard->symbolic);
}

static bool has_carry_shape(const RecurrenceBuilder *f, const Node *n) {
  const Node *like = f->carry_shape;
  if (n->rank != like->rank || n->broadcast_mask != like->broadcast_mask)
    return false;
  for (uint32_t k = 0; k < n->rank; k++)
    if (node_own_extents(n)[k] != node_own_extents(like)[k])
      return false;
  return true;
}

/* ---- body ops of the loop ---- */

static uint32_t add_op(RecurrenceBuilder *f, const BodyOp *like,
                       const uint32_t *args) {
  BodyOp c = *like;
  c.args = NEW_ARRAY(f->arena, uint32_t, c.arg_count);
  if (c.arg_count)
    memcpy(c.args, args, c.arg_count * sizeof *args);
  if (f->ops.len >= MAX_RECURRENCE_OPS)
    f->failed = true;
  else
    VEC_PUSH(f->arena, f->ops, c);
  return f->ops.len - 1;
}

static uint32_t add_input_op(RecurrenceBuilder *f, const Node *n) {
  BodyOp c = {.kind = BODY_AXIS, .dtype = n->dtype, .span = n->span};
  return add_op(f, &c, NULL);
}

static bool varies_with_iteration(const RecurrenceBuilder *f, const Node *n) {
  for (uint32_t k = 0; k < n->free_count; k++)
    if (n->free_vars[k] == f->iteration->index)
      return true;
  return false;
}

static bool is_own_axis(const Node *n, const BodyOp *index, uint32_t k) {
  return index->kind == BODY_AXIS && index->axis == n->free_count + k;
}

/* True for free index v, or a node that is just that index. */
static bool is_free_axis(const Node *n, const BodyOp *index,
                         const IndexVar *v) {
  const Node *x = index->kind == BODY_READ ? index->node : NULL;
  if (x && x->kind == NODE_COMP && x->free_count == 1 && x->rank == 0 &&
      x->body_op_count == 1 && x->body_ops[0].kind == BODY_AXIS)
    index = &n->body_ops[index->args[0]];
  return index->kind == BODY_AXIS && index->axis < n->free_count &&
         n->free_vars[index->axis] == v;
}

Node *node_row_source(const Node *n, const IndexVar *at) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return NULL;
  const BodyOp *c = &n->body_ops[n->body_op_count - 1];
  Node *x = c->kind == BODY_READ ? c->node : NULL;
  if (!x || x->rank != n->rank + 1 ||
      x->broadcast_mask != n->broadcast_mask << 1 ||
      node_own_extents(x)[0] != at->extent)
    return NULL;
  const uint32_t *own = c->args + x->free_count;
  bool whole = is_free_axis(n, &n->body_ops[own[0]], at);
  for (uint32_t k = 0; k < x->free_count; k++)
    whole &= x->free_vars[k] != at &&
             is_free_axis(n, &n->body_ops[c->args[k]], x->free_vars[k]);
  for (uint32_t k = 0; k < n->rank; k++)
    whole &= is_own_axis(n, &n->body_ops[own[k + 1]], k) &&
             node_own_extents(x)[k + 1] == node_own_extents(n)[k];
  return whole ? x : NULL;
}

/* Zero where the guard of n is false: n could fail there. */
static Node *mask_by_guard(RecurrenceBuilder *f, Node *n) {
  if (!n->guard)
    return node_retain(n);
  NodeSpec spec = {
      .dtype = n->dtype, .rank = n->rank, .broadcast_mask = n->broadcast_mask};
  Fault fault = {0};
  BodyBuilder b;
  for (uint32_t k = 0; k < n->free_count; k++)
    node_spec_add_free(&spec, n->free_vars[k]);
  memcpy(spec.own_extents, node_own_extents(n),
         n->rank * sizeof spec.own_extents[0]);
  body_init(&b, f->graph, &spec);
  uint32_t needed = body_read(&b, n->guard, NULL);
  uint32_t x = body_read_broadcast(&b, n, 0);
  body_select(&b, needed, x, body_const(&b, (Scalar){.dtype = n->dtype}));
  return body_finish(&b, f->graph, &fault);
}

/* Stacks the values of n for all iterations. */
static Node *stack_iterations(RecurrenceBuilder *f, Node *n) {
  IndexVar *at = f->iteration->index;
  Fault fault = {0};
  Node *whole = node_row_source(n, f->iteration->index);
  if (whole)
    return node_retain(whole);
  Node *each = mask_by_guard(f, n);
  Node *all = each ? node_close(f->graph, each, 1, &at, &fault) : NULL;
  node_release(each);
  /* run one by one, each iteration could free its value */
  f->failed |= all && node_element_count(all) > MAX_RECURRENCE_INPUT_BYTES /
                                                    dtype_info[n->dtype].bytes;
  return all;
}

/* Adds a value that exists before the loop.  Takes n. */
static uint32_t add_loop_input(RecurrenceBuilder *f, Node *n) {
  bool is_scanned = varies_with_iteration(f, n);
  Node *all = is_scanned ? stack_iterations(f, n) : node_retain(n);
  uint32_t op_index = add_input_op(f, n);
  node_release(n);
  if (!all || f->failed || f->inputs.len >= MAX_RECURRENCE_INPUTS) {
    f->failed = true;
    if (all)
      node_release(all);
    return 0;
  }
  f->scanned_inputs |= (uint64_t)is_scanned << f->inputs.len;
  VEC_PUSH(f->arena, f->inputs, all);
  VEC_PUSH(f->arena, f->input_ops, op_index);
  return op_index;
}

static uint32_t find_or_add_input(RecurrenceBuilder *f, Node *n) {
  uintptr_t known = (uintptr_t)map_get(&f->op_of_node, n);
  if (!known && !f->failed) {
    known = add_loop_input(f, node_retain(n)) + (uintptr_t)1;
    map_put(&f->op_of_node, n, (void *)known);
  }
  return known ? (uint32_t)known - 1 : 0;
}

/* ---- subexpressions that do not depend on the carry ---- */

static void mark_needed_ops(const Node *n, uint32_t at, bool *needed) {
  needed[at] = true;
  for (uint32_t k = at + 1; k-- > 0;)
    for (uint32_t a = 0; needed[k] && a < n->body_ops[k].arg_count; a++)
      needed[n->body_ops[k].args[a]] = true;
}

static uint32_t copy_read(BodyBuilder *b, const BodyOp *c,
                          const uint32_t *mapping) {
  Node *x = c->node;
  IndexBinding bindings[MAX_RANK];
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->free_count; k++)
    bindings[k] = (IndexBinding){x->free_vars[k], mapping[c->args[k]]};
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = mapping[c->args[x->free_count + k]];
  return body_read_with_bindings(b, x, own, x->free_count, bindings);
}

static uint32_t copy_op(BodyBuilder *b, const Node *n, const BodyOp *c,
                        const uint32_t *mapping) {
  uint32_t args[3] = {0};
  for (uint32_t k = 0; c->kind != BODY_READ && k < c->arg_count && k < 3; k++)
    args[k] = mapping[c->args[k]];
  switch (c->kind) {
  case BODY_CONST:
    return body_const(b, c->value);
  case BODY_EXTENT:
    return body_int(b, c->extent);
  case BODY_AXIS:
    return c->axis < n->free_count ? body_free_axis(b, c->axis)
                                   : body_own_axis(b, c->axis - n->free_count);
  case BODY_READ:
    return copy_read(b, c, mapping);
  case BODY_OP:
    return body_op(b, c->op, c->dtype, c->arg_count, args);
  case BODY_SELECT:
    return body_select(b, args[0], args[1], args[2]);
  case BODY_CONVERT:
    return body_convert(b, args[0], c->dtype);
  case BODY_RANDOM:
    return body_random(b, c->op, c->key, c->dtype, args[0]);
  }
  return 0;
}

/* Gives the node the guard of n, since it may fail elsewhere. */
static Node *finish_under_guard(RecurrenceBuilder *f, BodyBuilder *b,
                                const Node *n) {
  Graph *g = f->graph;
  Node *outer = g->guard, *made;
  Fault fault = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = outer;
    trap_raise(trap.kind);
  }
  if (n->guard && !n->guard->symbolic)
    g->guard = n->guard;
  made = body_finish(b, g, &fault);
  trap_end(&trap);
  g->guard = outer;
  return made;
}

/* Extracts op `at` of the node, as a node with the same axes. */
static Node *extract_subexpression(RecurrenceBuilder *f, const Node *n,
                                   uint32_t at) {
  NodeSpec spec = {.dtype = n->body_ops[at].dtype,
                   .rank = n->rank,
                   .broadcast_mask = n->broadcast_mask};
  for (uint32_t k = 0; k < n->free_count; k++)
    node_spec_add_free(&spec, n->free_vars[k]);
  memcpy(spec.own_extents, node_own_extents(n),
         n->rank * sizeof spec.own_extents[0]);
  bool *needed = NEW_ARRAY(f->arena, bool, at + 1);
  uint32_t *mapping = NEW_ARRAY(f->arena, uint32_t, at + 1);
  mark_needed_ops(n, at, needed);
  BodyBuilder b;
  body_init(&b, f->graph, &spec);
  for (uint32_t k = 0; k <= at; k++)
    if (needed[k])
      mapping[k] = copy_op(&b, n, &n->body_ops[k], mapping);
  /* the value must be the last op; an op that already existed is not */
  if (mapping[at] + 1 != b.op_count) {
    body_drop(&b);
    return NULL;
  }
  return finish_under_guard(f, &b, n);
}

/* ---- flattening of an iteration ---- */

static uint32_t flatten(RecurrenceBuilder *f, Node *n);

/* True if the op reads x at the indices of n. */
static bool is_pointwise_read(const Node *n, const BodyOp *c) {
  const Node *x = c->node;
  bool pointwise = true;
  for (uint32_t k = 0; k < c->arg_count; k++) {
    const BodyOp *index = &n->body_ops[c->args[k]];
    pointwise &= k < x->free_count ? is_free_axis(n, index, x->free_vars[k])
                                   : is_own_axis(n, index, k - x->free_count);
  }
  return pointwise;
}

static uint32_t hoist_operand(RecurrenceBuilder *f, const Node *n,
                              uint32_t at) {
  const BodyOp *c = &n->body_ops[at];
  if (c->kind == BODY_CONST)
    return add_op(f, c, NULL);
  if (c->kind == BODY_READ && is_pointwise_read(n, c) &&
      (has_carry_shape(f, c->node) || c->node->rank == 0))
    return find_or_add_input(f, c->node);
  Node *part = extract_subexpression(f, n, at);
  f->failed |= !part;
  return part ? add_loop_input(f, part) : 0;
}

static bool can_fail(const Node *n, const BodyOp *c) {
  if (c->kind != BODY_OP || dtype_is_float(c->dtype) ||
      map_info[c->op].fault == ARITH_OK)
    return false;
  const BodyOp *y = &n->body_ops[c->args[1]];
  return y->kind != BODY_CONST || y->value.i <= 0;
}

static uint32_t flatten_op(RecurrenceBuilder *f, const Node *n, uint32_t at,
                           const uint32_t *mapping) {
  const BodyOp *c = &n->body_ops[at];
  uint32_t args[3];
  if (c->kind == BODY_READ)
    return is_pointwise_read(n, c) ? flatten(f, c->node)
                                   : (f->failed = true, 0);
  f->failed |= can_fail(n, c) || c->kind == BODY_RANDOM || c->arg_count > 3;
  for (uint32_t k = 0; !f->failed && k < c->arg_count; k++)
    args[k] = mapping[c->args[k]] ? mapping[c->args[k]] - 1
                                  : hoist_operand(f, n, c->args[k]);
  return f->failed ? 0 : add_op(f, c, args);
}

static bool op_depends_on_carry(RecurrenceBuilder *f, const Node *n,
                                uint32_t at, const uint32_t *mapping) {
  const BodyOp *c = &n->body_ops[at];
  bool on_carry = c->kind == BODY_READ && depends_on_carry(c->node);
  for (uint32_t k = 0; k < c->arg_count; k++) {
    f->failed |= c->kind == BODY_READ && mapping[c->args[k]];
    on_carry |= mapping[c->args[k]] != 0;
  }
  return on_carry;
}

static uint32_t flatten_body(RecurrenceBuilder *f, const Node *n) {
  uint32_t *mapping = NEW_ARRAY(f->arena, uint32_t, n->body_op_count);
  for (uint32_t k = 0; k < n->body_op_count && !f->failed; k++)
    if (op_depends_on_carry(f, n, k, mapping))
      mapping[k] = flatten_op(f, n, k, mapping) + 1;
  uint32_t last = n->body_op_count - 1;
  return mapping[last] || f->failed ? mapping[last] - 1
                                    : hoist_operand(f, n, last);
}

static uint32_t carry_op(RecurrenceBuilder *f, const Node *n) {
  for (uint32_t k = 0; k < f->iteration->carry_count; k++)
    if (f->iteration->carry_in[k] == n) {
      if (!f->carry_ops[k])
        f->carry_ops[k] = add_input_op(f, n) + 1;
      return f->carry_ops[k] - 1;
    }
  f->failed = true; /* the carry of another loop */
  return 0;
}

static uint32_t flatten(RecurrenceBuilder *f, Node *n) {
  uintptr_t known = (uintptr_t)map_get(&f->op_of_node, n);
  uint32_t op_index = 0;
  if (known || f->failed)
    return known ? (uint32_t)known - 1 : 0;
  if (!has_carry_shape(f, n) || ++f->depth > MAX_RECURRENCE_DEPTH) {
    f->failed = true;
    return 0;
  }
  if (n->kind == NODE_LOOP_CARRIED)
    op_index = carry_op(f, n);
  else if (!depends_on_carry(n))
    op_index = find_or_add_input(f, n);
  else if (n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
           (n->speculatable || !n->guard || !n->guard->symbolic))
    op_index = flatten_body(f, n);
  else
    f->failed = true;
  f->depth--;
  if (!f->failed)
    map_put(&f->op_of_node, n, (void *)(uintptr_t)(op_index + 1));
  return op_index;
}

/* ---- the final node ---- */

typedef struct IterationValues { /* ops of the results of an iteration */
  uint32_t *next_carry;          /* for each carry value that is needed */
  uint32_t stacked;
} IterationValues;

/* Flattens one output, and all carry values on which it depends, directly or
 * not. */
static void flatten_iteration(RecurrenceBuilder *f, uint32_t output_index,
                              IterationValues *v) {
  uint32_t carry_count = f->iteration->carry_count;
  bool *done = NEW_ARRAY(f->arena, bool, carry_count), more = true;
  v->next_carry = NEW_ARRAY(f->arena, uint32_t, carry_count);
  if (output_index < carry_count)
    carry_op(f, f->iteration->carry_in[output_index]);
  else
    v->stacked = flatten(f, f->iteration->results[output_index]);
  while (more && !f->failed) {
    more = false;
    for (uint32_t k = 0; k < carry_count && !f->failed; k++) {
      if (done[k] || !f->carry_ops[k])
        continue;
      done[k] = more = true;
      f->failed |=
          !has_carry_shape(f, f->iteration->initial[k]) ||
          f->iteration->initial[k]->dtype != f->iteration->carry_in[k]->dtype;
      v->next_carry[k] = flatten(f, f->iteration->results[k]);
    }
  }
}

/* The reduction primitive that equals the iteration; PRIM_NONE: there is
 * none. */
static PrimId match_reduction(const RecurrenceBuilder *f,
                              const IterationValues *v) {
  const BodyOp *c = &f->ops.at[v->next_carry[0]];
  if (f->ops.len != 3 || f->inputs.len != 1 || !(f->scanned_inputs & 1) ||
      f->inputs.at[0]->rank != f->carry_shape->rank + 1 || c->kind != BODY_OP ||
      c->arg_count != 2 || c->args[0] == c->args[1])
    return PRIM_NONE;
  return prim_reduction_by(c->op);
}

/* A reduce with a primitive: combines the initial value with the reduction of
 * all elements. */
static Node *reduction_node(const RecurrenceBuilder *f,
                            const IterationValues *v, PrimId op, Fault *fault) {
  const BodyOp *c = &f->ops.at[v->next_carry[0]];
  Node *all = node_reduce(f->graph, op, f->inputs.at[0], 0, 1, false, fault);
  if (!all)
    return NULL;
  Node *both[2] = {f->iteration->initial[0], all};
  Node *made = node_map(f->graph, c->op, 2, both, DT_NONE, fault);
  node_release(all);
  return made;
}

/* Numbers the inputs: carry values first, then the others.  Appends the
 * results: next values of the carry, then the stacked output. */
static void finish_ops(RecurrenceBuilder *f, uint32_t output_index,
                       const IterationValues *v) {
  uint32_t carry_count = 0, count = f->iteration->carry_count;
  for (uint32_t k = 0; k < count; k++)
    if (f->carry_ops[k])
      f->ops.at[f->carry_ops[k] - 1].axis = carry_count++;
  for (uint32_t k = 0; k < f->input_ops.len; k++)
    f->ops.at[f->input_ops.at[k]].axis = carry_count + k;
  for (uint32_t k = 0; k <= count; k++) {
    bool is_used = k < count ? f->carry_ops[k] != 0 : output_index >= count;
    uint32_t value = k < count ? v->next_carry[k] : v->stacked;
    BodyOp copy = {.kind = BODY_CONVERT, .arg_count = 1};
    copy.dtype = f->ops.at[value].dtype;
    copy.span = f->ops.at[value].span;
    if (is_used)
      add_op(f, &copy, &value);
  }
}

static BodyOp *copy_ops(const RecurrenceBuilder *f) {
  size_t args = 0, size = f->ops.len * sizeof(BodyOp);
  for (uint32_t k = 0; k < f->ops.len; k++)
    args += f->ops.at[k].arg_count;
  BodyOp *ops = mem_try_alloc(size + args * sizeof(uint32_t));
  if (!ops)
    trap_raise(FAIL_MEMORY);
  uint32_t *at = (uint32_t *)(ops + f->ops.len);
  for (uint32_t k = 0; k < f->ops.len; k++) {
    ops[k] = f->ops.at[k];
    if (ops[k].arg_count)
      memcpy(at, ops[k].args, ops[k].arg_count * sizeof *at);
    ops[k].args = at;
    at += ops[k].arg_count;
  }
  return ops;
}

static Node *recurrence_node(RecurrenceBuilder *f, uint32_t output_index,
                             Fault *fault) {
  const FoldIteration *t = f->iteration;
  bool all = output_index >= t->carry_count;
  uint32_t count = 0, mapping = 0;
  Node **inputs =
      NEW_ARRAY(f->arena, Node *, t->carry_count + f->inputs.len + 1);
  for (uint32_t k = 0; k < t->carry_count; k++) {
    mapping += f->carry_ops[k] && k < output_index;
    if (f->carry_ops[k])
      inputs[count++] = t->initial[k];
  }
  FoldLoop fold_loop = {.trip_count = t->index->extent,
                        .carry_count = count,
                        .scanned_inputs = f->scanned_inputs << count,
                        .output_index = all ? 0 : mapping};
  for (uint32_t k = 0; k < f->inputs.len; k++)
    inputs[count++] = f->inputs.at[k];
  fold_loop.body_op_count = f->ops.len;
  fold_loop.body_ops = copy_ops(f);
  return node_recurrence(f->graph, &fold_loop, all, f->carry_shape, count,
                         inputs, t->results[output_index]->dtype, fault);
}

static Node *fold_output(RecurrenceBuilder *f, uint32_t output_index,
                         Fault *fault) {
  IterationValues v = {.stacked = 0};
  f->carry_ops = NEW_ARRAY(f->arena, uint32_t, f->iteration->carry_count);
  f->carry_shape = f->iteration->results[output_index];
  flatten_iteration(f, output_index, &v);
  if (f->failed)
    return NULL;
  PrimId op = f->iteration->associative && f->iteration->carry_count == 1
                  ? match_reduction(f, &v)
                  : PRIM_NONE;
  if (op != PRIM_NONE)
    return reduction_node(f, &v, op, fault);
  finish_ops(f, output_index, &v);
  f->failed |=
      f->iteration->carry_count + f->inputs.len > MAX_RECURRENCE_INPUTS;
  return f->failed ? NULL : recurrence_node(f, output_index, fault);
}

static void release(RecurrenceBuilder *f) {
  for (uint32_t k = 0; k < f->inputs.len; k++)
    node_release(f->inputs.at[k]);
  arena_free(f->arena);
}

Node *node_fold(Graph *g, const FoldIteration *iteration, uint32_t output_index,
                Fault *fault) {
  RecurrenceBuilder f = {
      .graph = g, .arena = arena_new(), .iteration = iteration};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release(&f);
    trap_raise(trap.kind);
  }
  map_init(&f.op_of_node, f.arena);
  Node *made = fold_output(&f, output_index, fault);
  trap_end(&trap);
  release(&f);
  return made;
}
