/* Nodes and `for` indices: allocation, reference counts, release. */
#include "machine/limits/planner.h"
#include "support/mem.h"
#include "support/trap.h"
#include "tensor/internal.h"

#include <string.h>

/* ---- indices ---- */

IndexVar *index_var_new(int64_t extent, Node *row_length) {
  static uint32_t last; /* shared by all graphs: ids only have to ascend */
  IndexVar *v = mem_alloc(sizeof *v);
  v->id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  v->extent = extent;
  v->row_length = row_length ? node_retain(row_length) : NULL;
  v->refs = 1;
  return v;
}

IndexVar *index_var_retain(IndexVar *v) {
  v->refs++;
  return v;
}

void index_var_release(IndexVar *v) {
  if (!v || --v->refs)
    return;
  node_release(v->row_length);
  mem_free(v);
}

/* ---- node specs ---- */

NodeSpec node_spec_like(const Node *x) {
  NodeSpec spec = {
      .dtype = x->dtype, .rank = x->rank, .broadcast_mask = x->broadcast_mask};
  memcpy(spec.own_extents, node_own_extents(x),
         x->rank * sizeof spec.own_extents[0]);
  for (uint32_t k = 0; k < x->free_count; k++)
    node_spec_add_free(&spec, x->free_vars[k]);
  return spec;
}

void node_spec_add_free(NodeSpec *spec, IndexVar *v) {
  uint32_t at = 0;
  while (at < spec->free_count && spec->free_vars[at]->id < v->id)
    at++;
  if (at < spec->free_count && spec->free_vars[at] == v)
    return;
  for (uint32_t k = spec->free_count++; k > at; k--)
    spec->free_vars[k] = spec->free_vars[k - 1];
  spec->free_vars[at] = v;
}

bool node_spec_add_free_of(NodeSpec *spec, uint32_t count, Node *const *nodes,
                           Fault *fault) {
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t f = 0; f < nodes[k]->free_count; f++) {
      if (spec->free_count == MAX_RANK) {
        fault_set(fault, "more than %d nested indices", MAX_RANK);
        return false;
      }
      node_spec_add_free(spec, nodes[k]->free_vars[f]);
    }
  return true;
}

uint32_t node_spec_free_axis(const NodeSpec *spec, const IndexVar *v) {
  for (uint32_t k = 0; k < spec->free_count; k++)
    if (spec->free_vars[k] == v)
      return k;
  return UINT32_MAX;
}

bool node_has_free(const Node *x, const IndexVar *v) {
  for (uint32_t k = 0; k < x->free_count; k++)
    if (x->free_vars[k] == v)
      return true;
  return false;
}

/* ---- nodes ---- */

int64_t shape_element_count(uint32_t count, const int64_t *extents) {
  int64_t product = 1;
  bool overflow = false;
  for (uint32_t k = 0; k < count; k++) {
    if (extents[k] == 0)
      return 0;
    overflow |= __builtin_mul_overflow(product, extents[k], &product);
  }
  return overflow ? INT64_MAX : product;
}

int64_t node_element_count(const Node *n) {
  return shape_element_count(n->free_count + n->rank, n->extents);
}

static bool is_approximate(PrimId op, Dtype dtype) {
  return dtype_is_float(dtype) && (prim_info[op].flags & PRIM_APPROXIMATE);
}

bool node_is_exact(const Node *n) {
  if (is_approximate(n->reduce, n->dtype))
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if ((c->kind == BODY_OP || c->kind == BODY_RANDOM) &&
        is_approximate(c->op, c->dtype))
      return false;
  }
  return true;
}

int64_t *node_own_extents(const Node *n) {
  return n->extents + n->free_count;
}

bool node_is_broadcast_axis(const Node *n, uint32_t axis) {
  return n->broadcast_mask >> axis & 1;
}

static uint32_t loop_operand_count(const Node *n) {
  const LoopBody *l = n->loop_body;
  return l ? 2 + 2 * l->carry_count + l->stacked_count : 0;
}

uint32_t node_operand_count(const Node *n) {
  return n->body_op_count + n->input_count + 1 + loop_operand_count(n);
}

Node *node_operand(const Node *n, uint32_t k) {
  if (k < n->body_op_count)
    return n->body_ops[k].kind == BODY_READ ? n->body_ops[k].node : NULL;
  k -= n->body_op_count;
  if (k <= n->input_count)
    return k < n->input_count ? n->inputs[k] : n->guard;
  k -= n->input_count + 1;
  if (k-- == 0)
    return n->loop_body->condition;
  if (k <= n->loop_body->carry_count)
    return k ? n->loop_body->carry_in[k - 1] : n->loop_body->iteration;
  return n->loop_body->results[k - n->loop_body->carry_count - 1];
}

/* The extents follow the node in memory; the free indices follow the
 * extents. */
static int64_t *inline_extents(Node *n) {
  return (int64_t *)(n + 1);
}

Node *node_try_alloc(Graph *g, NodeKind kind, const NodeSpec *spec) {
  uint32_t axes = spec->free_count + spec->rank + spec->reduce_count;
  size_t size = sizeof(Node) + axes * sizeof(int64_t) +
                spec->free_count * sizeof(IndexVar *);
  Node *n = mem_try_alloc(size);
  if (!n)
    return NULL;
  n->kind = kind;
  n->refs = 1;
  n->id = g->next_node_id++;
  n->reverse_of = g->reverse_of;
  n->dtype = spec->dtype;
  n->free_count = spec->free_count;
  n->rank = spec->rank;
  n->broadcast_mask = spec->broadcast_mask;
  n->span = g->span;
  n->reduce = spec->reduce;
  n->reduce_count = spec->reduce_count;
  n->extents = inline_extents(n);
  n->free_vars = (IndexVar **)(n->extents + axes);
  int64_t *e = n->extents;
  for (uint32_t k = 0; k < spec->free_count; k++) {
    n->free_vars[k] = index_var_retain(spec->free_vars[k]);
    *e++ = spec->free_vars[k]->extent;
  }
  for (uint32_t k = 0; k < spec->rank; k++)
    *e++ = spec->own_extents[k];
  for (uint32_t k = 0; k < spec->reduce_count; k++)
    *e++ = spec->reduced_extents[k];
  for (uint32_t k = 0; g->extent_table && k < axes; k++)
    n->symbolic |= !extent_is_static(g, n->extents[k]);
  return n;
}

Node *node_alloc(Graph *g, NodeKind kind, const NodeSpec *spec) {
  Node *n = node_try_alloc(g, kind, spec);
  if (!n)
    trap_raise(FAIL_MEMORY);
  return n;
}

void node_add_pending(Graph *g, const Node *n) {
  int64_t count = node_element_count(n);
  if (count <= MAX_COUNTED_ELEMENTS &&
      __builtin_add_overflow(g->pending_elements, count, &g->pending_elements))
    g->pending_elements = INT64_MAX;
}

Node *node_retain(Node *n) {
  n->refs++;
  return n;
}

/* Puts a node without references into a list, linked through `backend_data`. */
static void release_to_list(Node *n, Node **dead) {
  if (n && --n->refs == 0) {
    n->backend_data = *dead;
    *dead = n;
  }
}

/* A body that the planner has replaced. */
typedef struct OwnBody {
  BodyOp *ops;
  uint32_t count, reduce_count;
  PrimId reduce;
  Node *guard;
} OwnBody;

static void release_ops(BodyOp *ops, uint32_t count, Node **dead) {
  for (uint32_t k = 0; k < count; k++)
    if (ops[k].kind == BODY_READ)
      release_to_list(ops[k].node, dead);
  mem_free(ops);
}

static void release_own_body(Node *n, Node **dead) {
  if (!n->own_body)
    return;
  release_ops(n->own_body->ops, n->own_body->count, dead);
  release_to_list(n->own_body->guard, dead);
  mem_free(n->own_body);
  n->own_body = NULL;
}

static void release_inputs(Node *n, Node **dead) {
  release_ops(n->body_ops, n->body_op_count, dead);
  release_own_body(n, dead);
  for (uint32_t k = 0; k < n->input_count; k++)
    release_to_list(n->inputs[k], dead);
  release_to_list(n->guard, dead);
  mem_free(n->inputs);
  n->body_ops = NULL;
  n->inputs = NULL;
  n->guard = NULL;
  n->body_op_count = n->input_count = 0;
}

static void release_rule(VjpRule *rule, Node **dead) {
  if (!rule || --rule->refs)
    return;
  for (uint32_t k = 0; k < rule->input_count; k++)
    release_to_list(rule->inputs[k], dead);
  for (uint32_t k = 0; k < rule->index_count; k++)
    index_var_release(rule->indices[k]);
  mem_free(rule->inputs);
  rule->release(rule);
}

static void free_dead_nodes(Node *dead) {
  while (dead) {
    Node *n = dead;
    dead = n->backend_data;
    release_inputs(n, &dead);
    release_rule(n->rule, &dead);
    for (uint32_t k = 0; n->row_lengths && k < n->rank; k++)
      release_to_list(n->row_lengths[k], &dead);
    mem_free(n->row_lengths);
    for (uint32_t k = 0; k < n->free_count; k++)
      index_var_release(n->free_vars[k]);
    tensor_release(n->data);
    tape_release(n->tape);
    loop_body_release(n->loop_body);
    if (n->extents != inline_extents(n))
      mem_free(n->extents);
    mem_free(n);
  }
}

void node_release(Node *n) {
  Node *dead = NULL;
  release_to_list(n, &dead);
  free_dead_nodes(dead);
}

void vjp_rule_release(VjpRule *rule) {
  Node *dead = NULL;
  release_rule(rule, &dead);
  free_dead_nodes(dead);
}

void loop_body_release(LoopBody *l) {
  if (!l || --l->refs)
    return;
  node_release(l->iteration);
  node_release(l->condition);
  for (uint32_t k = 0; k < l->carry_count; k++)
    node_release(l->carry_in[k]);
  for (uint32_t k = 0; k < l->carry_count + l->stacked_count; k++)
    node_release(l->results[k]);
  mem_free(l);
}

void node_drop_references(Node *n) {
  Node *dead = NULL;
  n->kind = NODE_DATA;
  n->reduce = n->op = PRIM_NONE;
  n->reduce_count = 0;
  release_inputs(n, &dead);
  free_dead_nodes(dead);
}

/* ---- bodies that the planner makes ---- */

void node_replace_body(Node *n, BodyOp *ops, uint32_t count, PrimId reduce,
                       uint32_t reduce_count, int64_t *extents) {
  Node *dead = NULL;
  bool keeps = n->tape && n->tape->open && !n->rule && !n->own_body;
  OwnBody *own = keeps ? mem_alloc(sizeof *own) : NULL;
  if (keeps) {
    *own = (OwnBody){n->body_ops, n->body_op_count, n->reduce_count, n->reduce,
                     n->guard};
    n->own_body = own;
  } else {
    release_ops(n->body_ops, n->body_op_count, &dead);
    release_to_list(n->guard, &dead); /* the guard is now part of the body */
  }
  n->body_ops = ops;
  n->body_op_count = count;
  n->reduce = reduce;
  n->reduce_count = reduce_count;
  n->guard = NULL;
  if (extents) {
    if (n->extents != inline_extents(n))
      mem_free(n->extents);
    n->extents = extents; /* the first extents are in the node's own block */
  }
  free_dead_nodes(dead);
}

void node_restore_own_body(Node *n) {
  Node *dead = NULL;
  OwnBody *own = n->own_body;
  if (!own)
    return;
  release_ops(n->body_ops, n->body_op_count, &dead);
  n->body_ops = own->ops;
  n->body_op_count = own->count;
  n->reduce = own->reduce;
  n->reduce_count = own->reduce_count;
  n->guard = own->guard;
  if (n->extents != inline_extents(n)) {
    mem_free(n->extents);
    n->extents = inline_extents(n);
  }
  mem_free(own);
  n->own_body = NULL;
  free_dead_nodes(dead);
}

/* ---- the simplest nodes ---- */

Node *node_data(Graph *g, Tensor *t) {
  NodeSpec spec = {
      .dtype = t->dtype, .rank = t->rank, .broadcast_mask = t->broadcast_mask};
  memcpy(spec.own_extents, t->shape, t->rank * sizeof spec.own_extents[0]);
  Node *n = node_alloc(g, NODE_DATA, &spec);
  n->data = tensor_retain(t);
  n->speculatable = true;
  return n;
}

Node *node_try_data(Graph *g, Tensor *t, const Node *like) {
  NodeSpec spec = {.dtype = like->dtype,
                   .rank = like->rank,
                   .broadcast_mask = like->broadcast_mask};
  memcpy(spec.own_extents, t->shape, t->rank * sizeof spec.own_extents[0]);
  Node *n = node_try_alloc(g, NODE_DATA, &spec);
  if (n) {
    n->data = t;
    n->speculatable = true;
  }
  return n;
}

Node *node_arg(Graph *g, uint32_t number, Dtype dtype, uint32_t rank,
               const int64_t *shape, uint32_t broadcast_mask) {
  NodeSpec spec = {
      .dtype = dtype, .rank = rank, .broadcast_mask = broadcast_mask};
  memcpy(spec.own_extents, shape, rank * sizeof spec.own_extents[0]);
  Node *n = node_alloc(g, NODE_ARG, &spec);
  n->arg_index = number;
  n->symbolic = true;
  n->speculatable = true;
  return n;
}

bool node_known(const Node *n, Scalar *out) {
  if (n->rank || n->free_count || node_is_recorded(n))
    return false;
  if (n->data) {
    *out = scalar_load(n->dtype, n->data->data);
    return true;
  }
  bool known = n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
               n->body_op_count == 1 && n->body_ops[0].kind == BODY_CONST;
  if (known)
    *out = n->body_ops[0].value;
  return known;
}

bool node_is_extent(const Node *n, int64_t *out) {
  bool is = n->rank == 0 && n->free_count == 0 && n->kind == NODE_COMP &&
            n->body_op_count == 1 && n->body_ops[0].kind == BODY_EXTENT;
  if (is)
    *out = n->body_ops[0].extent;
  return is;
}
