/* Loop nodes: loops of a function that is compiled ahead of time, with a
 * symbolic trip count.  The loop body is one iteration, as a graph over its
 * carry. */
#include "tensor/internal.h"
#include "support/arena.h"
#include "support/map.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

Node *node_loop_carried(Graph *g, const Node *like, uint32_t free_count,
                        IndexVar *const *free_vars) {
  NodeSpec spec = {.dtype = like->dtype,
                   .rank = like->rank,
                   .broadcast_mask = like->broadcast_mask};
  for (uint32_t k = 0; k < free_count; k++)
    node_spec_add_free(&spec, free_vars[k]);
  memcpy(spec.own_extents, node_own_extents(like),
         like->rank * sizeof spec.own_extents[0]);
  Node *n = node_alloc(g, NODE_LOOP_CARRIED, &spec);
  n->symbolic = n->speculatable = true;
  n->loop_depth = g->loop_depth;
  return n;
}

/* Finds the depth of the enclosing loop on which the invariant part of the body
 * depends. */
typedef struct OuterDepthSearch {
  Map seen;
  uint32_t depth, max_outer_depth;
} OuterDepthSearch;

static void visit(OuterDepthSearch *o, const Node *n) {
  if (!n || map_get(&o->seen, n))
    return;
  map_put(&o->seen, n, o);
  if (n->loop_depth < o->depth) {
    o->max_outer_depth =
        n->loop_depth > o->max_outer_depth ? n->loop_depth : o->max_outer_depth;
    return;
  }
  for (uint32_t k = 0; k < node_operand_count(n); k++)
    visit(o, node_operand(n, k));
}

static uint32_t enclosing_loop_depth(const LoopBody *l) {
  OuterDepthSearch o = {.depth = l->iteration->loop_depth};
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  map_init(&o.seen, arena);
  visit(&o, l->condition);
  for (uint32_t k = 0; k < l->carry_count + l->stacked_count; k++)
    visit(&o, l->results[k]);
  trap_end(&trap);
  arena_free(arena);
  return o.max_outer_depth;
}

LoopBody *loop_body_new(int64_t count, Node *condition, Node *iteration,
                        uint32_t carry_count, Node *const *carry_in,
                        uint32_t stacked_count, Node *const *results) {
  uint32_t capacity = 2 * carry_count + stacked_count;
  LoopBody *l = mem_alloc(sizeof *l + capacity * sizeof(Node *));
  *l = (LoopBody){.refs = 1,
                  .trip_count = count,
                  .carry_count = carry_count,
                  .stacked_count = stacked_count};
  l->carry_in = (Node **)(l + 1);
  l->results = l->carry_in + carry_count;
  l->iteration = node_retain(iteration);
  l->condition = condition ? node_retain(condition) : NULL;
  for (uint32_t k = 0; k < carry_count; k++)
    l->carry_in[k] = node_retain(carry_in[k]);
  for (uint32_t k = 0; k < carry_count + stacked_count; k++)
    l->results[k] = node_retain(results[k]);
  return l;
}

Node *node_loop(Graph *g, LoopBody *l, Node *const *initial,
                uint32_t output_index, Fault *fault) {
  const Node *like = l->results[output_index];
  NodeSpec spec = {.dtype = like->dtype};
  if (!node_spec_add_free_of(&spec, l->carry_count, initial, fault) ||
      !node_spec_add_free_of(&spec, l->carry_count, l->carry_in, fault) ||
      !node_spec_add_free_of(&spec, l->carry_count + l->stacked_count,
                             l->results, fault))
    return NULL;
  uint32_t is_stacked = output_index >= l->carry_count;
  spec.rank = like->rank + is_stacked;
  spec.broadcast_mask = like->broadcast_mask << is_stacked;
  spec.own_extents[0] = l->trip_count;
  memcpy(spec.own_extents + is_stacked, node_own_extents(like),
         like->rank * sizeof spec.own_extents[0]);
  Node *n = node_alloc(g, NODE_LOOP, &spec);
  n->symbolic = true;
  n->output_index = output_index;
  n->inputs = mem_try_alloc((l->carry_count + 1) * sizeof *n->inputs);
  if (!n->inputs) {
    node_release(n);
    trap_raise(FAIL_MEMORY);
  }
  for (uint32_t k = 0; k < l->carry_count; k++)
    n->inputs[n->input_count++] = node_retain(initial[k]);
  l->refs++;
  n->loop_body = l;
  n->loop_depth = enclosing_loop_depth(l);
  for (uint32_t k = 0; k < l->carry_count; k++)
    n->loop_depth = initial[k]->loop_depth > n->loop_depth
                        ? initial[k]->loop_depth
                        : n->loop_depth;
  node_set_guard(g, n, &spec);
  return n;
}
