/* Guards: the condition that a node under an `if` on indices records.
 *
 * g->guard may depend on indices that the node does not have.  The node is
 * needed if the guard is true for some value of those.  So it records `any` of
 * the guard over these indices.
 *
 * A weaker condition would be wrong, since the node may run and be stored
 * wherever its guard is true.  Example: `if i > 0 && i + j > 2 then x.[j - 2]
 * else 0` must not read x at -1 because some i, not above 0, satisfies the
 * rest. */
#include "tensor/internal.h"
#include "support/trap.h"

/* Bit k is set if index k of the guard is an index of the node. */
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
  if (!closed) /* too many axes: no guard */
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

/* The nodes created here run unconditionally. */
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

/* Neighbouring nodes usually need the same projection. */
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
