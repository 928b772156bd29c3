/* The condition that a node made under an `if` on indices has to record.
 *
 * g->guard may mention indices that the node does not.  The node is needed
 * wherever some value of those makes the guard true: what it records is `any`
 * of the guard over them.  Nothing weaker would do, for where it holds the
 * node may be run and stored: `if i > 0 && i + j > 2 then x.[j - 2] else 0`
 * must not read x at -1 because some i, not above 0, satisfies the rest. */
#include "tensor/internal.h"

/* Bit k: index k of the guard is the node's too. */
static uint32_t shared_index_mask(const Node *guard, const NodeSpec *spec) {
  uint32_t shared_mask = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    if (node_spec_free_axis(spec, guard->free_vars[k]) != UINT32_MAX)
      shared_mask |= (uint32_t)1 << k;
  return shared_mask;
}

static Node *project_guard(Graph *g, Node *guard, uint32_t shared_mask) {
  IndexVar *others[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    if (!(shared_mask >> k & 1))
      others[count++] = guard->free_vars[k];
  Fault fault = {0};
  Node *closed = node_close(g, guard, count, others, &fault);
  if (!closed) /* too many axes: the guard is left out */
    return NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(closed);
    trap_raise(trap.kind);
  }
  Node *any = node_reduce(g, PRIM_ANY, closed, 0, count, false, &fault);
  trap_end(&trap);
  node_release(closed);
  return any;
}

/* The nodes made here are run everywhere. */
static Node *unguarded_projection(Graph *g, Node *guard, uint32_t shared_mask) {
  g->guard = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = guard;
    trap_raise(trap.kind);
  }
  Node *projection = project_guard(g, guard, shared_mask);
  trap_end(&trap);
  g->guard = guard;
  return projection;
}

/* Neighbours in a program want the same parts. */
static Node *cached_projection(Graph *g, Node *guard, uint32_t shared_mask) {
  for (uint32_t k = 0; k < MAX_CACHED_GUARDS; k++)
    if (g->guard_projections[k].guard == guard &&
        g->guard_projections[k].shared_mask == shared_mask)
      return g->guard_projections[k].projection;
  Node *projection = unguarded_projection(g, guard, shared_mask);
  if (!projection)
    return NULL;
  struct GuardProjection *slot =
      &g->guard_projections[g->next_projection++ % MAX_CACHED_GUARDS];
  node_release(slot->guard);
  node_release(slot->projection);
  *slot = (struct GuardProjection){node_retain(guard), projection, shared_mask};
  return projection;
}

void guard_cache_clear(Graph *g) {
  for (uint32_t k = 0; k < MAX_CACHED_GUARDS; k++) {
    node_release(g->guard_projections[k].guard);
    node_release(g->guard_projections[k].projection);
    g->guard_projections[k] = (struct GuardProjection){NULL, NULL, 0};
  }
  g->next_projection = 0;
}

Node *guard_for(Graph *g, const NodeSpec *spec, bool speculatable) {
  if (!g->guard) {
    if (g->next_projection)
      guard_cache_clear(g);
    return NULL;
  }
  uint32_t shared_mask = shared_index_mask(g->guard, spec);
  uint32_t all = (uint32_t)(((uint64_t)1 << g->guard->free_count) - 1);
  if (shared_mask == all)
    return node_retain(g->guard);
  if (speculatable)
    return NULL;
  Node *projection = cached_projection(g, g->guard, shared_mask);
  return projection ? node_retain(projection) : NULL;
}

void node_set_guard(Graph *g, Node *n, const NodeSpec *spec) {
  if (!g->guard && !g->next_projection)
    return;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(n);
    trap_raise(trap.kind);
  }
  n->guard = guard_for(g, spec, n->speculatable);
  trap_end(&trap);
}
