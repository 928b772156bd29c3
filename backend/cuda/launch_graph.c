#include "backend/cuda/launch_graph.h"
#include "machine/limits/cuda.h"

#include <string.h>

enum {
  MAX_ARGS_BYTES = 4096, /* recorded arguments per kernel, at most */
  ARGS_ALIGN_BYTES = 64,
};

typedef struct LaunchParams {
  CuFunction function;
  unsigned grid[3], block[3], shared_bytes;
  size_t args_bytes;
} LaunchParams;

/* A sequence of launches that was submitted before. */
typedef struct CachedGraph {
  uint64_t hash, last_use; /* last_use: value of the clock */
  uint32_t count;
  bool not_capturable; /* the driver rejected the graph */
  CuGraph graph;       /* owner of the nodes; NULL: not instantiated */
  CuGraphExec exec;    /* the executable graph */
  LaunchParams *launches;
  char *args; /* current arguments of the graph nodes */
  CuGraphNode nodes[GRAPH_MAX_LAUNCHES];
} CachedGraph;

struct LaunchGraph {
  uint32_t count;
  uint64_t clock;
  LaunchParams launches[GRAPH_MAX_LAUNCHES];
  char names[GRAPH_MAX_LAUNCHES][24]; /* for messages */
  char *args;                         /* MAX_ARGS_BYTES for each launch */
  CachedGraph *graphs[MAX_CACHED_GRAPHS];
  LaunchGraphStats stats;
};

LaunchGraph *launch_graph_new(void) {
  LaunchGraph *t = mem_try_alloc(sizeof *t);
  if (t && (t->args = mem_try_alloc_aligned(
                ARGS_ALIGN_BYTES, GRAPH_MAX_LAUNCHES * MAX_ARGS_BYTES)))
    return t;
  mem_free(t);
  return NULL;
}

LaunchGraphStats launch_graph_stats(const LaunchGraph *t) {
  return t->stats;
}

static void destroy_graph(const CudaApi *api, CachedGraph *k) {
  if (k->exec)
    api->graph_exec_destroy(k->exec);
  if (k->graph)
    api->graph_destroy(k->graph);
  k->exec = NULL;
  k->graph = NULL;
}

static void free_cached_graph(const CudaApi *api, CachedGraph *k) {
  destroy_graph(api, k);
  mem_free(k->launches);
  mem_free(k->args);
  mem_free(k);
}

void launch_graph_free(CudaContext *gpu) {
  LaunchGraph *t = gpu->launch_graph;
  for (uint32_t k = 0; t && k < MAX_CACHED_GRAPHS; k++)
    if (t->graphs[k])
      free_cached_graph(gpu->api, t->graphs[k]);
  if (t)
    mem_free(t->args);
  mem_free(t);
  gpu->launch_graph = NULL;
}

/* ---- graph cache ---- */

static uint64_t hash_of(const LaunchGraph *t) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  const unsigned char *bytes = (const unsigned char *)t->launches;
  for (size_t k = 0; k < t->count * sizeof *t->launches; k++)
    hash = (hash ^ bytes[k]) * 1099511628211u;
  return hash;
}

static CachedGraph *find_graph(LaunchGraph *t, uint64_t hash) {
  for (uint32_t k = 0; k < MAX_CACHED_GRAPHS; k++) {
    CachedGraph *x = t->graphs[k];
    if (x && x->hash == hash && x->count == t->count &&
        memcmp(x->launches, t->launches, t->count * sizeof *t->launches) == 0)
      return x;
  }
  return NULL;
}

static void cache_graph(LaunchGraph *t, const CudaApi *api, uint64_t hash) {
  uint32_t at = 0;
  for (uint32_t k = 1; k < MAX_CACHED_GRAPHS && t->graphs[at]; k++)
    if (!t->graphs[k] || t->graphs[k]->last_use < t->graphs[at]->last_use)
      at = k;
  CachedGraph *x = mem_try_alloc(sizeof *x);
  size_t bytes = t->count * sizeof *t->launches;
  if (x)
    *x =
        (CachedGraph){.hash = hash,
                      .last_use = t->clock,
                      .count = t->count,
                      .launches = mem_try_alloc(bytes),
                      .args = mem_try_alloc((size_t)t->count * MAX_ARGS_BYTES)};
  if (!x || !x->launches || !x->args) {
    if (x)
      free_cached_graph(api, x);
    return;
  }
  memcpy(x->launches, t->launches, bytes);
  if (t->graphs[at])
    free_cached_graph(api, t->graphs[at]);
  t->graphs[at] = x;
}

/* ---- submission ---- */

static bool launch_one(CudaContext *gpu, uint32_t at, Fault *fault) {
  LaunchGraph *t = gpu->launch_graph;
  const LaunchParams *i = &t->launches[at];
  void *pointers[] = {t->args + (size_t)at * MAX_ARGS_BYTES};
  t->stats.direct_launches++;
  return cuda_check(gpu->api,
                    gpu->api->launch(i->function, i->grid[0], i->grid[1],
                                     i->grid[2], i->block[0], i->block[1],
                                     i->block[2], i->shared_bytes, gpu->stream,
                                     pointers, NULL),
                    fault, "starting the kernel %s, %u blocks of %u threads",
                    t->names[at], i->grid[0], i->block[0]);
}

static bool launch_each(CudaContext *gpu, Fault *fault) {
  bool good = true;
  for (uint32_t k = 0; good && k < gpu->launch_graph->count; k++)
    good = launch_one(gpu, k, fault);
  return good;
}

static CuKernelNode kernel_node_params(const LaunchParams *i,
                                       void **arguments) {
  CuKernelNode n = {.function = i->function,
                    .shared_bytes = i->shared_bytes,
                    .args = arguments};
  memcpy(n.grid, i->grid, sizeof n.grid);
  memcpy(n.block, i->block, sizeof n.block);
  return n;
}

/* The nodes form a chain, as on a stream. */
static bool instantiate_graph(CudaContext *gpu, CachedGraph *x) {
  const CudaApi *api = gpu->api;
  LaunchGraph *t = gpu->launch_graph;
  bool good = api->graph_create(&x->graph, 0) == 0;
  for (uint32_t k = 0; good && k < x->count; k++) {
    void *pointers[] = {t->args + (size_t)k * MAX_ARGS_BYTES};
    CuKernelNode params = kernel_node_params(&x->launches[k], pointers);
    good = api->graph_add_kernel_node(&x->nodes[k], x->graph,
                                      k ? &x->nodes[k - 1] : NULL, k != 0,
                                      &params) == 0;
  }
  good = good && api->graph_instantiate(&x->exec, x->graph, 0) == 0;
  if (good)
    memcpy(x->args, t->args, (size_t)x->count * MAX_ARGS_BYTES);
  else
    destroy_graph(api, x);
  t->stats.graphs_instantiated += good;
  x->not_capturable = !good;
  return good;
}

static bool update_graph(CudaContext *gpu, CachedGraph *x) {
  LaunchGraph *t = gpu->launch_graph;
  for (uint32_t k = 0; k < x->count; k++) {
    char *new_args = t->args + (size_t)k * MAX_ARGS_BYTES;
    char *old_args = x->args + (size_t)k * MAX_ARGS_BYTES;
    if (memcmp(new_args, old_args, x->launches[k].args_bytes) == 0)
      continue;
    void *pointers[] = {new_args};
    CuKernelNode params = kernel_node_params(&x->launches[k], pointers);
    if (gpu->api->graph_exec_set_params(x->exec, x->nodes[k], &params) != 0)
      return false;
    memcpy(old_args, new_args, x->launches[k].args_bytes);
    t->stats.nodes_updated++;
  }
  return true;
}

/* Launches the sequence as a graph.  If the driver rejects the graph or its
 * launch, launches the kernels directly.  These then report errors of earlier
 * work, too. */
static bool launch_cached(CudaContext *gpu, CachedGraph *x, Fault *fault) {
  x->last_use = gpu->launch_graph->clock;
  bool good = x->exec ? update_graph(gpu, x)
                      : !x->not_capturable && instantiate_graph(gpu, x);
  if (good && gpu->api->graph_launch(x->exec, gpu->stream) == 0) {
    gpu->launch_graph->stats.graph_launches++;
    return true;
  }
  destroy_graph(gpu->api, x);
  x->not_capturable = true;
  return launch_each(gpu, fault);
}

bool launch_graph_flush(CudaContext *gpu, Fault *fault) {
  LaunchGraph *t = gpu->launch_graph;
  if (!t || !t->count)
    return true;
  t->clock++;
  uint64_t hash = hash_of(t);
  CachedGraph *x = t->count >= GRAPH_MIN_LAUNCHES ? find_graph(t, hash) : NULL;
  bool good = cuda_check(gpu->api, gpu->api->context_set(gpu->context), fault,
                         "selecting it") &&
              (x ? launch_cached(gpu, x, fault) : launch_each(gpu, fault));
  if (!x && t->count >= GRAPH_MIN_LAUNCHES)
    cache_graph(t, gpu->api, hash);
  t->count = 0;
  return good;
}

bool launch_graph_add(CudaContext *gpu, const CudaLaunch *l, Fault *fault,
                      bool *good) {
  LaunchGraph *t = gpu->launch_graph;
  if (!t || !l->args_bytes || l->args_bytes > MAX_ARGS_BYTES)
    return false;
  *good = t->count < GRAPH_MAX_LAUNCHES || launch_graph_flush(gpu, fault);
  if (!*good)
    return true;
  LaunchParams *i = &t->launches[t->count];
  memset(i, 0, sizeof *i); /* also clears the padding, which is hashed */
  i->function = l->function;
  i->shared_bytes = l->shared_bytes;
  i->args_bytes = l->args_bytes;
  memcpy(i->grid, l->grid, sizeof i->grid);
  memcpy(i->block, l->block, sizeof i->block);
  snprintf(t->names[t->count], sizeof t->names[0], "%s", l->name);
  memcpy(t->args + (size_t)t->count * MAX_ARGS_BYTES, l->args[0],
         l->args_bytes);
  t->count++;
  return true;
}
