/* The condition that a node made under an `if` on indices has to record.
 *
 * g->guard may mention indices that the node does not.  The node is needed
 * wherever some value of those makes the guard true: what it records is `any`
 * of the guard over them.  Nothing weaker would do, for where it holds the
 * node may be run and stored: `if i > 0 && i + j > 2 then x.[j - 2] else 0`
 * must not read x at -1 because some i, not above 0, satisfies the rest. */
#include "tensor/recipe.h"

/* Bit k: index k of the guard is the node's too. */
static uint32_t shared_indices(const Node *guard, const Form *form) {
  uint32_t shared = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    if (form_axis_of(form, guard->free[k]) != UINT32_MAX)
      shared |= (uint32_t)1 << k;
  return shared;
}

static Node *any_over_others(Graph *g, Node *guard, uint32_t shared) {
  IndexVar *others[RANK_MAX];
  uint32_t count = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    if (!(shared >> k & 1))
      others[count++] = guard->free[k];
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
static Node *part_of(Graph *g, Node *guard, uint32_t shared) {
  g->guard = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = guard;
    trap_raise(trap.kind);
  }
  Node *part = any_over_others(g, guard, shared);
  trap_end(&trap);
  g->guard = guard;
  return part;
}

/* Neighbours in a program want the same parts. */
static Node *cached_part(Graph *g, Node *guard, uint32_t shared) {
  for (uint32_t k = 0; k < GUARD_PARTS; k++)
    if (g->parts[k].guard == guard && g->parts[k].shared == shared)
      return g->parts[k].part;
  Node *part = part_of(g, guard, shared);
  if (!part)
    return NULL;
  struct GuardPart *slot = &g->parts[g->part_next++ % GUARD_PARTS];
  node_release(slot->guard);
  node_release(slot->part);
  *slot = (struct GuardPart){node_retain(guard), part, shared};
  return part;
}

static void forget_parts(Graph *g) {
  for (uint32_t k = 0; k < GUARD_PARTS; k++) {
    node_release(g->parts[k].guard);
    node_release(g->parts[k].part);
    g->parts[k] = (struct GuardPart){NULL, NULL, 0};
  }
  g->part_next = 0;
}

void graph_end(Graph *g) {
  forget_parts(g);
  memo_end(g);
  arena_free(g->arena);
  g->arena = NULL;
}

Node *guard_for(Graph *g, const Form *form, bool safe) {
  if (!g->guard) {
    if (g->part_next)
      forget_parts(g);
    return NULL;
  }
  uint32_t shared = shared_indices(g->guard, form);
  uint32_t all = (uint32_t)(((uint64_t)1 << g->guard->free_count) - 1);
  if (shared == all)
    return node_retain(g->guard);
  if (safe)
    return NULL;
  Node *part = cached_part(g, g->guard, shared);
  return part ? node_retain(part) : NULL;
}
