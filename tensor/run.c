/* Running: a plan, its nodes one after the other, data freed as soon as its
 * last reader is done. */
#include "tensor/internal.h"
#include "tensor/watch.h"

#include <stdlib.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__ /* lets it find what is used too late */
enum { ARENA_KEPT = 0 };
#else
enum { ARENA_KEPT = 4 << 20 };
#endif

bool node_fits_memory(const Graph *g, const Node *n, Fault *fault) {
  uint64_t limit =
      g->bytes_limit > 0 ? (uint64_t)g->bytes_limit : memory_physical();
  double bytes = dtype_info[n->dtype].bytes;
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    bytes *= (double)n->extents[k];
  if (bytes <= (double)limit)
    return true;
  TypeText t = form_text(g, n->dtype, n->free_count + n->rank, n->extents, 0);
  fault_set(fault, "%s needs %.1f GiB of memory", t.text, bytes / 0x1p30);
  fault->kind = FAULT_MEMORY;
  fault_help(fault,
             "at most %.1f GiB may be used: work on it in parts, or reduce it "
             "before it is stored",
             (double)limit / 0x1p30);
  return false;
}

static bool verified(uint32_t count, Node *const *roots, Fault *fault) {
  const char *wanted = getenv("AXON_VERIFY");
  if (!wanted || !*wanted)
    return true;
  Buffer message = {0};
  bool good = graph_verify(count, roots, &message);
  if (!good)
    fault_set(fault, "compiler bug in fusion: %s", message.text);
  buffer_free(&message);
  return good;
}

/* A node that is another one, element for element in the same order, shares
 * its data: what the end of a `for` over a stored node is. */
static bool share_data(Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return false;
  const Cell *value = &n->cells[n->cell_count - 1];
  if (value->kind != CELL_READ)
    return false;
  const Node *x = value->node;
  uint32_t axes = n->free_count + n->rank;
  bool same = value->arg_count == axes &&
              x->stars << x->free_count == n->stars << n->free_count;
  for (uint32_t k = 0; same && k < axes; k++) {
    const Cell *index = &n->cells[value->args[k]];
    bool only =
        n->extents[k] == 1 && index->kind == CELL_CONST && index->value.i == 0;
    same = x->extents[k] == n->extents[k] &&
           (only || (index->kind == CELL_AXIS && index->axis == k));
  }
  if (same)
    n->data = tensor_retain(x->data);
  return same;
}

static PlanNode *plan_node(const Plan *plan, const Node *n) {
  return plan->nodes.at[n->mark - 1];
}

/* ---- somebody watches ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void drop_data(const Cluster *cluster) {
  for (uint32_t k = 0; k < cluster->nodes.len; k++) {
    tensor_release(cluster->nodes.at[k]->data);
    cluster->nodes.at[k]->data = NULL;
  }
}

/* Zeros in the place of what a cluster computes. */
static bool run_dry(const Graph *g, const Cluster *cluster, Fault *fault) {
  for (uint32_t k = 0; k < cluster->nodes.len; k++) {
    Node *n = cluster->nodes.at[k];
    uint32_t rank = n->free_count + n->rank;
    if (!node_fits_memory(g, n, fault) ||
        !(n->data = tensor_new(n->dtype, rank, n->extents, true, fault)))
      return false;
    n->data->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
  }
  return true;
}

/* As often as whoever watches likes: a first run is of cold caches, and of
 * memory that was never used. */
static bool run_watched(Graph *g, const Backend *backend, Cluster *cluster,
                        uint32_t at, Span *where, Fault *fault) {
  if (g->watch->dry)
    return run_dry(g, cluster, fault);
  for (;;) {
    double start = now();
    if (!backend->run(g, cluster, where, fault))
      return false;
    if (!g->watch->ran(g->watch->owner, at, now() - start))
      return true;
    drop_data(cluster);
  }
}

static bool run_cluster(Graph *g, Plan *plan, uint32_t at, Span *where,
                        Fault *fault) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  Cluster *cluster = plan->clusters.at[at];
  Node *n = cluster->nodes.at[0];
  *where = n->span;
  if (cluster->nodes.len > 1 || !share_data(n)) {
    bool good = g->watch
                    ? run_watched(g, backend, cluster, at, where, fault)
                    : backend->run(g, cluster, where, fault);
    if (!good)
      return false;
    g->stored += cluster->nodes.len;
  } else if (g->watch) {
    g->watch->ran(g->watch->owner, at, -1);
  }
  for (uint32_t k = 0; k < cluster->nodes.len; k++)
    plan_ran(plan_node(plan, cluster->nodes.at[k]));
  return true;
}

/* Is it so much that compiling a kernel may pay? */
static bool is_much(const Graph *g, const Plan *plan) {
  double work = 0;
  for (uint32_t k = 0; k < plan->stored.len; k++) {
    const Node *n = plan->stored.at[k]->node;
    uint32_t axes = n->free_count + n->rank + n->reduce_count;
    work += (double)n->cell_count * (double)extents_product(axes, n->extents);
  }
  return work >= (double)g->least_work;
}

static bool run_plan(Graph *g, Plan *plan, Span *where, Fault *fault) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  plan_cluster(plan, backend->kernels && is_much(g, plan));
  if (backend->prepare)
    backend->prepare(g, plan->clusters.len, plan->clusters.at);
  if (g->watch)
    watch_planned(g, plan);
  for (uint32_t k = 0; k < plan->clusters.len; k++)
    if (!run_cluster(g, plan, k, where, fault))
      return false;
  return true;
}

static bool all_data(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (!nodes[k]->data)
      return false;
  return true;
}

/* A plan's memory is used again by the next one. */
static Arena *take_arena(Graph *g) {
  Arena *arena = g->arena ? g->arena : arena_new();
  g->arena = NULL;
  return arena;
}

static void end_plan(Graph *g, Plan *plan) {
  Arena *arena = plan->arena;
  plan_end(plan);
  arena_reset(arena, ARENA_KEPT);
  g->arena = arena;
}

bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault) {
  if (all_data(count, nodes))
    return true;
  Plan plan = {.graph = g};
  plan.arena = take_arena(g);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    end_plan(g, &plan);
    trap_raise(trap.kind);
  }
  plan_make(&plan, count, nodes);
  bool good = verified(count, nodes, fault) && run_plan(g, &plan, where, fault);
  trap_end(&trap);
  end_plan(g, &plan);
  g->pending = 0;
  return good;
}
