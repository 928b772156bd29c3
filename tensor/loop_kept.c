/* Values of a loop that its reverse pass should not compute again.
 *
 * The reverse pass runs each iteration again, from the state before it.  This
 * is cheap, except for sums of products.  If a sum of products, such as that of
 * an LSTM, is only added to something, the sum of both is such a value:
 *
 *     z = x @ wx + h @ wh + b
 *
 * No derivative needs the terms. */
#include "tensor/loop_kept.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/map.h"
#include "support/trap.h"
#include "support/vec.h"
#include "tensor/internal.h"

#include <stdlib.h>

typedef struct IterationNode {
  Node *node;
  Node *reader; /* the last one that was found */
  uint32_t read_count;
  bool is_carry, depends_on_carry;
} IterationNode;

typedef struct KeptSearch {
  Arena *arena;
  Map entries;
  VEC(IterationNode *) order;
  uint32_t first_id; /* older nodes do not depend on the carry */
} KeptSearch;

static IterationNode *entry_of(KeptSearch *s, Node *n) {
  IterationNode *e = map_get(&s->entries, n);
  if (e)
    return e;
  e = NEW(s->arena, IterationNode);
  e->node = n;
  map_put(&s->entries, n, e);
  VEC_PUSH(s->arena, s->order, e);
  return e;
}

static int compare_ids(const void *a, const void *b) {
  const IterationNode *x = *(IterationNode *const *)a,
                      *y = *(IterationNode *const *)b;
  return (x->node->id > y->node->id) - (x->node->id < y->node->id);
}

/* True if the iteration does not compute it. */
static bool is_outside(const KeptSearch *s, const IterationNode *e) {
  return e->is_carry || e->node->id < s->first_id;
}

/* Collects the nodes of the iteration, in order of creation. */
static void collect_nodes(KeptSearch *s, uint32_t count, Node *const *results) {
  for (uint32_t k = 0; k < count; k++)
    entry_of(s, results[k])->read_count++;
  for (uint32_t at = 0; at < s->order.len; at++) {
    Node *n = s->order.at[at]->node;
    if (is_outside(s, s->order.at[at]))
      continue;
    for (uint32_t k = 0; k < node_operand_count(n); k++) {
      if (!node_operand(n, k))
        continue;
      IterationNode *x = entry_of(s, node_operand(n, k));
      x->reader = n;
      x->read_count++;
    }
  }
  qsort(s->order.at, s->order.len, sizeof *s->order.at, compare_ids);
}

static void mark_dependents(KeptSearch *s) {
  for (uint32_t at = 0; at < s->order.len; at++) {
    IterationNode *e = s->order.at[at];
    e->depends_on_carry = e->is_carry;
    if (is_outside(s, e))
      continue;
    for (uint32_t k = 0; k < node_operand_count(e->node); k++) {
      const Node *x = node_operand(e->node, k);
      e->depends_on_carry |=
          x && ((IterationNode *)map_get(&s->entries, x))->depends_on_carry;
    }
  }
}

static bool is_long_sum_of_products(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_SUM || n->guard ||
      !dtype_is_float(n->dtype) || n->own_body)
    return false;
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  return value->kind == BODY_OP && value->op == PRIM_MUL &&
         shape_element_count(n->reduce_count, node_own_extents(n) + n->rank) >=
             MIN_KEPT_TERMS;
}

/* True if op k of n reads x, each element at its own index. */
static bool reads_elementwise(const Node *n, uint32_t k, const Node *x) {
  const BodyOp *c = &n->body_ops[k];
  if (c->kind != BODY_READ || c->node != x || x->rank != n->rank)
    return false;
  for (uint32_t i = 0; i < n->rank; i++) {
    const BodyOp *index = &n->body_ops[c->args[x->free_count + i]];
    if (index->kind != BODY_AXIS || index->axis != n->free_count + i ||
        node_own_extents(n)[i] != node_own_extents(x)[i])
      return false;
  }
  return true;
}

/* True if n is x plus something, or minus it, element by element. */
static bool adds_to(const Node *n, const Node *x) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard ||
      n->dtype != x->dtype || n->own_body)
    return false;
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  return value->kind == BODY_OP &&
         (value->op == PRIM_ADD || value->op == PRIM_SUB) &&
         (reads_elementwise(n, value->args[0], x) ||
          reads_elementwise(n, value->args[1], x));
}

/* The sum of which e is a term, or e itself. */
static Node *whole_sum(const KeptSearch *s, const IterationNode *e) {
  while (e->read_count == 1 && e->reader && adds_to(e->reader, e->node))
    e = map_get(&s->entries, e->reader);
  return e->node;
}

static uint32_t find_values(KeptSearch *s, Node *out[MAX_KEPT_VALUES]) {
  uint32_t count = 0;
  for (uint32_t at = 0; at < s->order.len && count < MAX_KEPT_VALUES; at++) {
    const IterationNode *e = s->order.at[at];
    if (!e->depends_on_carry || e->is_carry ||
        !is_long_sum_of_products(e->node))
      continue;
    Node *sum = whole_sum(s, e);
    bool is_known = false;
    for (uint32_t k = 0; k < count; k++)
      is_known |= out[k] == sum;
    if (!is_known)
      out[count++] = sum;
  }
  return count;
}

uint32_t loop_kept_values(uint32_t carry_count, Node *const *carry,
                          uint32_t result_count, Node *const *results,
                          Node *out[MAX_KEPT_VALUES]) {
  KeptSearch s = {.arena = arena_new(), .first_id = UINT32_MAX};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(s.arena);
    trap_raise(trap.kind);
  }
  map_init(&s.entries, s.arena);
  for (uint32_t k = 0; k < carry_count; k++) {
    entry_of(&s, carry[k])->is_carry = true;
    if (carry[k]->id < s.first_id)
      s.first_id = carry[k]->id;
  }
  collect_nodes(&s, result_count, results);
  mark_dependents(&s);
  uint32_t count = find_values(&s, out);
  trap_end(&trap);
  arena_free(s.arena);
  return count;
}

bool node_has_type_of(const Node *n, const Node *x) {
  bool same = n->dtype == x->dtype && n->rank == x->rank &&
              n->free_count == x->free_count &&
              n->broadcast_mask == x->broadcast_mask;
  for (uint32_t k = 0; same && k < n->free_count; k++)
    same = n->free_vars[k] == x->free_vars[k];
  for (uint32_t k = 0; same && k < n->free_count + n->rank; k++)
    same = n->extents[k] == x->extents[k];
  return same;
}

void node_read_instead(Graph *g, Node *n, Node *x) {
  NodeSpec spec = node_spec_like(x);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  Node *read = body_finish_read(&b, g, x, own, NULL);
  BodyOp *ops = n->body_ops;
  uint32_t count = n->body_op_count;
  n->body_ops = read->body_ops;
  n->body_op_count = read->body_op_count;
  n->reduce = PRIM_NONE;
  n->reduce_count = 0;
  read->body_ops = ops;
  read->body_op_count = count;
  node_release(read);
}
