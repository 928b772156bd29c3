/* The reference backend: nodes are run by their definition, one element after
 * the other.  Sums of f32 are accumulated in double and rounded once, those of
 * f16 and bf16 in float; all other arithmetic is done in the element's type
 * (16-bit floats: in float, rounded after every operation). */
#include "backend/reference/reference.h"

#include "tensor/kernel.h"

typedef struct Run { /* what an interrupt must give back */
  Arena *arena;
  Tensor *out;
} Run;

static Tensor *output_of(const Node *n, Fault *fault) {
  bool clear = n->guard != NULL || n->kind == NODE_OPAQUE;
  Tensor *t =
      tensor_new(n->dtype, n->free_count + n->rank, n->extents, clear, fault);
  if (t)
    t->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
  return t;
}

static bool run_node(Graph *g, Run *run, Node *n, Span *where, Fault *fault) {
  *where = n->span;
  run->arena = arena_new();
  run->out = output_of(n, fault);
  if (!run->out)
    return false;
  if (n->kind == NODE_OPAQUE)
    return opaque_run(g, run->arena, n, run->out, fault);
  if (run->out->count == 0)
    return true;
  poll_interrupt(g);
  Program *p = program_new(run->arena, n);
  return program_run(g, n, p, run->out->data, where, fault);
}

static void drop(Run *run) {
  arena_free(run->arena);
  tensor_release(run->out);
  *run = (Run){0};
}

static bool run_one(Graph *g, Node *n, Span *where, Fault *fault) {
  Run run = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    drop(&run);
    trap_raise(trap.kind);
  }
  bool good = run_node(g, &run, n, where, fault);
  trap_end(&trap);
  if (good) {
    n->data = run.out;
    run.out = NULL;
  }
  drop(&run);
  return good;
}

static bool run(Graph *g, Cluster *cluster, Span *where, Fault *fault) {
  cluster_bodies(cluster);
  for (uint32_t k = 0; k < cluster->nodes.len; k++) {
    Node *n = cluster->nodes.at[k];
    *where = n->span;
    if (!n->data && (!node_fits_memory(g, n, fault) ||
                     !run_one(g, n, where, fault)))
      return false;
  }
  return true;
}

const Backend backend_reference = {.name = "reference", .parts = true,
                                   .run = run};
