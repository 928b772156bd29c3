/* The reference backend: runs nodes by their definition, one element after the
 * other.
 *
 * Sums of f32 are accumulated in double and rounded once.  Sums of 8-bit and
 * 16-bit floats are accumulated in float.  All other arithmetic uses the
 * element type; these floats are computed in float and rounded after every
 * operation. */
#include "backend/reference/reference.h"

#include "backend/target.h"
#include "support/arena.h"
#include "support/compiler.h"
#include "support/trap.h"
#include "tensor/node.h"

/* Bytes that the arena keeps for the next node. */
enum { KEPT_ARENA_BYTES = ADDRESS_SANITIZER ? 0 : 64 << 10 };

typedef struct NodeRun { /* what must be released after an interrupt */
  Arena *arena;
  Tensor *out;
} NodeRun;

static Tensor *alloc_output(const Node *n, Fault *fault) {
  bool zeroed = n->guard != NULL || n->kind == NODE_OPAQUE;
  Tensor *t =
      tensor_new(n->dtype, n->free_count + n->rank, n->extents, zeroed, fault);
  if (t)
    t->broadcast_mask =
        n->free_count < 32 ? n->broadcast_mask << n->free_count : 0;
  return t;
}

/* The arena of the previous node, if there is one: code of small nodes takes
 * less time than a new arena. */
static Arena *take_arena(Graph *g) {
  Arena *arena = g->interpreter_arena;
  g->interpreter_arena = NULL;
  return arena ? arena : arena_new();
}

static void put_arena(Graph *g, Arena *arena) {
  if (arena)
    arena_reset(arena, KEPT_ARENA_BYTES);
  g->interpreter_arena = arena;
}

static bool run_node(Graph *g, NodeRun *run, const FusionGroup *group,
                     uint32_t k, Span *where, Fault *fault) {
  Node *n = group->nodes.at[k];
  *where = n->span;
  run->arena = take_arena(g);
  run->out = alloc_output(n, fault);
  if (!run->out)
    return false;
  if (n->kind == NODE_OPAQUE)
    return opaque_run(g, run->arena, n, run->out, fault);
  if (run->out->count == 0)
    return true;
  poll_interrupt(g);
  if (bytecode_run_cached(g, run->arena, group, k, run->out->data))
    return true;
  fusion_group_restore_body(group, k);
  Bytecode *p = bytecode_compile(run->arena, n);
  bytecode_cache(group, k, p);
  g->compiled_bodies++;
  return bytecode_run(g, n, p, run->out->data, where, fault);
}

static void release_run(Graph *g, NodeRun *run) {
  put_arena(g, run->arena);
  tensor_release(run->out);
  *run = (NodeRun){0};
}

static bool run_node_trapped(Graph *g, const FusionGroup *group, uint32_t k,
                             Span *where, Fault *fault) {
  NodeRun run = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release_run(g, &run);
    trap_raise(trap.kind);
  }
  bool good = run_node(g, &run, group, k, where, fault);
  trap_end(&trap);
  if (good) {
    group->nodes.at[k]->data = run.out;
    run.out = NULL;
  }
  release_run(g, &run);
  return good;
}

static bool run_group(Graph *g, FusionGroup *group, Span *where, Fault *fault) {
  for (uint32_t k = 0; k < group->nodes.len; k++) {
    Node *n = group->nodes.at[k];
    *where = n->span;
    if (!n->data && (!node_fits_memory(g, n, fault) ||
                     !run_node_trapped(g, group, k, where, fault)))
      return false;
  }
  return true;
}

const Backend backend_reference = {
    .name = "reference", .supports_views = true, .run = run_group};
