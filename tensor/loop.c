/* Loops of a function that is being compiled, of which nobody knows yet how
 * often they turn: one turn as a graph, in terms of what it begins with. */
#include "tensor/internal.h"

#include <string.h>

Node *node_state(Graph *g, const Node *like, uint32_t free_count,
                 IndexVar *const *free) {
  Form form = {.dtype = like->dtype, .rank = like->rank, .stars = like->stars};
  for (uint32_t k = 0; k < free_count; k++)
    form_free_add(&form, free[k]);
  memcpy(form.own, node_own(like), like->rank * sizeof form.own[0]);
  Node *n = node_alloc(g, NODE_STATE, &form);
  n->open = n->safe = true;
  n->loops = g->loop_depth;
  return n;
}

/* Of what a turn reads, as far as it is the same in all of them: the depth of
 * the loop that it belongs to. */
typedef struct Outside {
  Map seen;
  uint32_t depth, most;
} Outside;

static void look(Outside *o, const Node *n) {
  if (!n || map_get(&o->seen, n))
    return;
  map_put(&o->seen, n, o);
  if (n->loops < o->depth) {
    o->most = n->loops > o->most ? n->loops : o->most;
    return;
  }
  for (uint32_t k = 0; k < node_child_count(n); k++)
    look(o, node_child(n, k));
}

static uint32_t depth_outside(const Turns *l) {
  Outside o = {.depth = l->turn->loops};
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  map_init(&o.seen, arena);
  look(&o, l->more);
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    look(&o, l->results[k]);
  trap_end(&trap);
  arena_free(arena);
  return o.most;
}

Turns *turns_new(int64_t count, Node *more, Node *turn, uint32_t state_count,
               Node *const *states, uint32_t out_count, Node *const *results) {
  uint32_t most = 2 * state_count + out_count;
  Turns *l = mem_alloc(sizeof *l + most * sizeof(Node *));
  *l = (Turns){.refs = 1, .count = count, .state_count = state_count,
              .out_count = out_count};
  l->states = (Node **)(l + 1);
  l->results = l->states + state_count;
  l->turn = node_retain(turn);
  l->more = more ? node_retain(more) : NULL;
  for (uint32_t k = 0; k < state_count; k++)
    l->states[k] = node_retain(states[k]);
  for (uint32_t k = 0; k < state_count + out_count; k++)
    l->results[k] = node_retain(results[k]);
  return l;
}

void turns_release(Turns *l) {
  if (!l || --l->refs)
    return;
  node_release(l->turn);
  node_release(l->more);
  for (uint32_t k = 0; k < l->state_count; k++)
    node_release(l->states[k]);
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    node_release(l->results[k]);
  mem_free(l);
}

Node *node_loop(Graph *g, Turns *l, Node *const *initial, uint32_t output,
                Fault *fault) {
  const Node *like = l->results[output];
  Form form = {.dtype = like->dtype};
  if (!form_free(&form, l->state_count, initial, fault) ||
      !form_free(&form, l->state_count, l->states, fault) ||
      !form_free(&form, l->state_count + l->out_count, l->results, fault))
    return NULL;
  uint32_t stacked = output >= l->state_count;
  form.rank = like->rank + stacked;
  form.stars = like->stars << stacked;
  form.own[0] = l->count;
  memcpy(form.own + stacked, node_own(like), like->rank * sizeof form.own[0]);
  Node *n = node_alloc(g, NODE_LOOP, &form);
  n->open = true;
  n->output = output;
  n->inputs = mem_try_alloc((l->state_count + 1) * sizeof *n->inputs);
  if (!n->inputs) {
    node_release(n);
    trap_raise(FAIL_MEMORY);
  }
  for (uint32_t k = 0; k < l->state_count; k++)
    n->inputs[n->input_count++] = node_retain(initial[k]);
  l->refs++;
  n->loop = l;
  n->loops = depth_outside(l);
  for (uint32_t k = 0; k < l->state_count; k++)
    n->loops = initial[k]->loops > n->loops ? initial[k]->loops : n->loops;
  node_set_guard(g, n, &form);
  return n;
}
