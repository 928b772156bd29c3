/* Running: a plan, its nodes one after the other, data freed as soon as its
 * last reader is done. */
#include "tensor/recipe.h"
#include "tensor/watch.h"

#include <stdlib.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__ /* lets it find what is used too late */
enum { ARENA_KEPT = 0 };
#else
enum { ARENA_KEPT = 4 << 20 };
#endif

/* Operations in the time that it takes to interpret a node at all. */
enum { NODE_WORK = 2000 };

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

/* Whose data a node has that is another one, element for element in the same
 * order: what the end of a `for` over a stored node is.  NULL: it is none. */
static const Node *same_data(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return NULL;
  const Cell *value = &n->cells[n->cell_count - 1];
  if (value->kind != CELL_READ)
    return NULL;
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
  return same ? x : NULL;
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

/* Zeros in the place of what a cluster leaves in memory. */
static bool run_dry(const Graph *g, const Cluster *cluster, Fault *fault) {
  for (uint32_t k = 0; k < cluster->nodes.len; k++) {
    Node *n = cluster->nodes.at[k];
    if (!cluster_stores(cluster, n))
      continue;
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

/* What has run lets go of what it has read. */
static void settle(const Cluster *cluster) {
  for (uint32_t k = 0; k < cluster->nodes.len; k++)
    if (cluster->nodes.at[k]->data)
      node_settle(cluster->nodes.at[k]);
    else /* only its cluster has seen it */
      cluster->nodes.at[k]->inlined = true;
}

bool run_cluster(Graph *g, Cluster *cluster, uint32_t at, Span *where,
                 Fault *fault) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  Node *n = cluster->nodes.at[0];
  *where = n->span;
  if (cluster->same) {
    n->data = tensor_settled(cluster->same->data, fault);
    if (!n->data)
      return false;
    if (g->watch)
      g->watch->ran(g->watch->owner, at, -1);
  } else {
    bool good = g->watch ? run_watched(g, backend, cluster, at, where, fault)
                         : backend->run(g, cluster, where, fault);
    if (!good)
      return false;
    g->stored += cluster->nodes.len;
  }
  return true;
}

/* One of each file: to ask costs a call of the system. */
static void find_mapped(Run *run) {
  const Outline *o = &run->outline;
  for (uint32_t k = 0; k < o->leaves.len && mapped_any(); k++) {
    Tensor *t = o->leaves.at[k]->data;
    Mapped *m = t ? tensor_mapped(t) : NULL;
    bool there = !m;
    for (uint32_t j = 0; !there && j < run->mapped.len; j++)
      there = mapped_same(tensor_mapped(run->mapped.at[j]), m);
    if (!there)
      VEC_PUSH(run->arena, run->mapped, t);
  }
}

/* A part that is gone is known of the one through which it was read. */
static bool none_lost(const Run *run, Fault *fault) {
  const Outline *o = &run->outline;
  for (uint32_t k = 0; k < o->leaves.len; k++) {
    const Tensor *t = o->leaves.at[k]->data;
    Mapped *m = t ? tensor_mapped(t) : NULL;
    if (m && mapped_is_lost(m))
      return tensor_check(t, fault);
  }
  return true;
}

bool run_is_whole(const Run *run, Fault *fault) {
  if (run->graph->watch) /* then there is no outline */
    return run->graph->watch->dry || files_check(fault);
  for (uint32_t k = 0; k < run->mapped.len; k++)
    if (!tensor_check(run->mapped.at[k], fault))
      return false;
  return !run->mapped.len || none_lost(run, fault);
}

static bool run_clusters(const Run *run, Span *where, Fault *fault) {
  for (uint32_t k = 0; k < run->count; k++) {
    if (!run_cluster(run->graph, run->clusters[k], k, where, fault))
      return false;
    if (!run_is_whole(run, fault)) {
      drop_data(run->clusters[k]);
      return false;
    }
    settle(run->clusters[k]);
  }
  return true;
}

/* Is it so much that compiling a kernel may pay? */
static bool is_much(Graph *g, const Plan *plan, double times) {
  double work = 0;
  for (uint32_t k = 0; k < plan->stored.len; k++) {
    const Node *n = plan->stored.at[k]->node;
    uint32_t axes = n->free_count + n->rank + n->reduce_count;
    work += (double)n->cell_count * (double)extents_product(axes, n->extents);
  }
  work += times > 1 ? NODE_WORK * plan->stored.len : 0;
  g->often |= recipe_is_often(g, work, times);
  return g->often || work >= (double)g->least_work;
}

/* What runs, in order, and what each of it wants of the backend. */
static void find_clusters(Graph *g, Plan *plan, double times) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  plan_cluster(plan, backend->kernels && is_much(g, plan, times));
  if (backend->prepare)
    backend->prepare(g, plan->clusters.len, plan->clusters.at);
  for (uint32_t k = 0; k < plan->clusters.len; k++) {
    Cluster *c = plan->clusters.at[k];
    c->same = c->nodes.len == 1 ? same_data(c->nodes.at[0]) : NULL;
  }
}

static bool all_data(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (!nodes[k]->data)
      return false;
  return true;
}

/* ---- one that runs ---- */

void run_begin(Graph *g, Run *run) {
  run->graph = g;
  run->arena = g->arena ? g->arena : arena_new();
  g->arena = NULL;
  run->plan.graph = g;
  run->plan.arena = run->outline.arena = run->arena;
}

void run_end(Run *run) {
  plan_end(&run->plan);
  if (run->recipe)
    recipe_let_go(run->recipe, &run->outline);
  arena_reset(run->arena, ARENA_KEPT);
  run->graph->arena = run->arena;
  run->graph->often = run->graph->keeps_inputs = false;
}

static bool make_plan(Run *run, uint32_t count, Node *const *roots,
                      Fault *fault) {
  plan_make(&run->plan, count, roots);
  if (!verified(count, roots, fault))
    return false;
  find_clusters(run->graph, &run->plan, run->times);
  return true;
}

static bool has_passing(const Plan *plan) {
  bool has = false;
  for (uint32_t k = 0; k < plan->clusters.len; k++)
    has |= plan->clusters.at[k]->passing;
  return has;
}

static bool make_recipe(Run *run, uint32_t count, Node *const *roots,
                        Recipe **recipe, Fault *fault) {
  Graph *g = run->graph;
  const Outline *o = &run->outline;
  outline_more(&run->outline, count, roots);
  run->plan.params = &o->params;
  if (!make_plan(run, count, roots, fault))
    return false;
  bool kept = memo_takes(o) && !has_passing(&run->plan);
  *recipe = recipe_new(kept ? memo_arena(g, o) : run->arena, &run->plan, o);
  if (kept)
    memo_keep(g, o, *recipe);
  plan_end(&run->plan);
  return true;
}

bool run_find(Run *run, uint32_t count, Node *const *roots, Fault *fault) {
  Graph *g = run->graph;
  outline_take(&run->outline, g, count, roots);
  Recipe *recipe = memo_find(g, &run->outline);
  g->often = recipe && recipe_ran(recipe, run->times);
  bool again = recipe && !g->often;
  if (!again && !make_recipe(run, count, roots, &recipe, fault))
    return false;
  g->again += again;
  run->clusters = recipe_bind(run->arena, recipe, &run->outline, &run->count);
  recipe_hold(recipe, &run->outline);
  run->recipe = recipe;
  find_mapped(run);
  g->keeps_inputs = run->mapped.len > 0;
  return true;
}

/* Who watches wants to be told, and so it is planned anew. */
bool run_find_watched(Run *run, uint32_t count, Node *const *roots,
                      Fault *fault) {
  if (!make_plan(run, count, roots, fault))
    return false;
  watch_planned(run->graph, &run->plan);
  run->clusters = run->plan.clusters.at;
  run->count = run->plan.clusters.len;
  plan_end(&run->plan);
  return true;
}

static bool settled(Graph *g, Fault *fault) {
  return !g->backend || !g->backend->settle || g->backend->settle(g, fault);
}

bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault) {
  if (all_data(count, nodes))
    return settled(g, fault);
  Run run = {.times = 1};
  Fault unheard = {0}; /* what has failed already is told */
  run_begin(g, &run);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    settled(g, &unheard);
    run_end(&run);
    trap_raise(trap.kind);
  }
  bool good = (g->watch ? run_find_watched(&run, count, nodes, fault)
                        : run_find(&run, count, nodes, fault)) &&
              run_clusters(&run, where, fault);
  good = settled(g, good ? fault : &unheard) && good;
  trap_end(&trap);
  run_end(&run);
  g->pending = 0;
  return good;
}
