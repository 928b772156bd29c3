#include "backend/cuda/tape.h"

#include <string.h>

enum {
  LAUNCHES = 64,   /* of a tape, at most */
  GRAPH_LEAST = 3, /* kernels: fewer are no slower one by one */
  BYTES = 4096,    /* of a kernel's arguments, at most */
  LINE = 64,       /* that they are aligned to */
  KEPT = 64,       /* graphs */
};

typedef struct Item {
  CuFunction function;
  unsigned grid[3], block[3], shared;
  size_t bytes;
} Item;

/* A list of kernels that was started before. */
typedef struct CachedGraph {
  uint64_t hash, used; /* used: when */
  uint32_t count;
  bool never;       /* the driver makes no graph of it */
  CuGraph graph;    /* which nodes are of; NULL: not yet */
  CuGraphExec exec; /* and what is started */
  Item *items;
  char *arguments; /* as they are in the graph */
  CuNode nodes[LAUNCHES];
} CachedGraph;

struct CudaTape {
  uint32_t count;
  uint64_t clock;
  Item items[LAUNCHES];
  char names[LAUNCHES][24]; /* for messages */
  char *arguments;          /* BYTES for each */
  CachedGraph *kept[KEPT];
  CudaTapeCounts counts;
};

CudaTape *cuda_tape_new(void) {
  CudaTape *t = mem_try_alloc(sizeof *t);
  if (t && (t->arguments = mem_try_aligned(LINE, LAUNCHES * BYTES)))
    return t;
  mem_free(t);
  return NULL;
}

CudaTapeCounts cuda_tape_counts(const CudaTape *t) {
  return t->counts;
}

static void end_graph(const CudaApi *api, CachedGraph *k) {
  if (k->exec)
    api->graph_end(k->exec);
  if (k->graph)
    api->graph_destroy(k->graph);
  k->exec = NULL;
  k->graph = NULL;
}

static void end_kept(const CudaApi *api, CachedGraph *k) {
  end_graph(api, k);
  mem_free(k->items);
  mem_free(k->arguments);
  mem_free(k);
}

void cuda_tape_free(CudaGpu *gpu) {
  CudaTape *t = gpu->tape;
  for (uint32_t k = 0; t && k < KEPT; k++)
    if (t->kept[k])
      end_kept(gpu->api, t->kept[k]);
  if (t)
    mem_free(t->arguments);
  mem_free(t);
  gpu->tape = NULL;
}

/* ---- lists that are known ---- */

static uint64_t hash_of(const CudaTape *t) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  const unsigned char *bytes = (const unsigned char *)t->items;
  for (size_t k = 0; k < t->count * sizeof *t->items; k++)
    hash = (hash ^ bytes[k]) * 1099511628211u;
  return hash;
}

static CachedGraph *find(CudaTape *t, uint64_t hash) {
  for (uint32_t k = 0; k < KEPT; k++) {
    CachedGraph *x = t->kept[k];
    if (x && x->hash == hash && x->count == t->count &&
        memcmp(x->items, t->items, t->count * sizeof *t->items) == 0)
      return x;
  }
  return NULL;
}

static void keep(CudaTape *t, const CudaApi *api, uint64_t hash) {
  uint32_t at = 0;
  for (uint32_t k = 1; k < KEPT && t->kept[at]; k++)
    if (!t->kept[k] || t->kept[k]->used < t->kept[at]->used)
      at = k;
  CachedGraph *x = mem_try_alloc(sizeof *x);
  size_t bytes = t->count * sizeof *t->items;
  if (x)
    *x = (CachedGraph){.hash = hash,
                .used = t->clock,
                .count = t->count,
                .items = mem_try_alloc(bytes),
                .arguments = mem_try_alloc((size_t)t->count * BYTES)};
  if (!x || !x->items || !x->arguments) {
    if (x)
      end_kept(api, x);
    return;
  }
  memcpy(x->items, t->items, bytes);
  if (t->kept[at])
    end_kept(api, t->kept[at]);
  t->kept[at] = x;
}

/* ---- starting ---- */

static bool start_one(CudaGpu *gpu, uint32_t at, Fault *fault) {
  CudaTape *t = gpu->tape;
  const Item *i = &t->items[at];
  void *pointers[] = {t->arguments + (size_t)at * BYTES};
  t->counts.alone++;
  return cuda_good(gpu->api,
                   gpu->api->launch(i->function, i->grid[0], i->grid[1],
                                    i->grid[2], i->block[0], i->block[1],
                                    i->block[2], i->shared, gpu->stream,
                                    pointers, NULL),
                   fault, "starting the kernel %s, %u blocks of %u threads",
                   t->names[at], i->grid[0], i->block[0]);
}

static bool start_each(CudaGpu *gpu, Fault *fault) {
  bool good = true;
  for (uint32_t k = 0; good && k < gpu->tape->count; k++)
    good = start_one(gpu, k, fault);
  return good;
}

static CuKernelNode node_of(const Item *i, void **arguments) {
  CuKernelNode n = {
      .function = i->function, .shared = i->shared, .arguments = arguments};
  memcpy(n.grid, i->grid, sizeof n.grid);
  memcpy(n.block, i->block, sizeof n.block);
  return n;
}

/* One after the other, as on a stream. */
static bool make(CudaGpu *gpu, CachedGraph *x) {
  const CudaApi *api = gpu->api;
  CudaTape *t = gpu->tape;
  bool good = api->graph_create(&x->graph, 0) == 0;
  for (uint32_t k = 0; good && k < x->count; k++) {
    void *pointers[] = {t->arguments + (size_t)k * BYTES};
    CuKernelNode params = node_of(&x->items[k], pointers);
    good = api->graph_kernel(&x->nodes[k], x->graph,
                             k ? &x->nodes[k - 1] : NULL, k != 0, &params) == 0;
  }
  good = good && api->graph_make(&x->exec, x->graph, 0) == 0;
  if (good)
    memcpy(x->arguments, t->arguments, (size_t)x->count * BYTES);
  else
    end_graph(api, x);
  t->counts.made += good;
  x->never = !good;
  return good;
}

static bool change(CudaGpu *gpu, CachedGraph *x) {
  CudaTape *t = gpu->tape;
  for (uint32_t k = 0; k < x->count; k++) {
    char *now = t->arguments + (size_t)k * BYTES;
    char *before = x->arguments + (size_t)k * BYTES;
    if (memcmp(now, before, x->items[k].bytes) == 0)
      continue;
    void *pointers[] = {now};
    CuKernelNode params = node_of(&x->items[k], pointers);
    if (gpu->api->graph_change(x->exec, x->nodes[k], &params) != 0)
      return false;
    memcpy(before, now, x->items[k].bytes);
    t->counts.changed++;
  }
  return true;
}

/* As a graph; what the driver will not have, or not start, goes one by one: an
 * error of what ran before comes up there again. */
static bool start_known(CudaGpu *gpu, CachedGraph *x, Fault *fault) {
  x->used = gpu->tape->clock;
  bool good = x->exec ? change(gpu, x) : !x->never && make(gpu, x);
  if (good && gpu->api->graph_start(x->exec, gpu->stream) == 0) {
    gpu->tape->counts.started++;
    return true;
  }
  end_graph(gpu->api, x);
  x->never = true;
  return start_each(gpu, fault);
}

bool cuda_tape_flush(CudaGpu *gpu, Fault *fault) {
  CudaTape *t = gpu->tape;
  if (!t || !t->count)
    return true;
  t->clock++;
  uint64_t hash = hash_of(t);
  CachedGraph *x = t->count >= GRAPH_LEAST ? find(t, hash) : NULL;
  bool good = cuda_good(gpu->api, gpu->api->context_set(gpu->context), fault,
                        "choosing it") &&
              (x ? start_known(gpu, x, fault) : start_each(gpu, fault));
  if (!x && t->count >= GRAPH_LEAST)
    keep(t, gpu->api, hash);
  t->count = 0;
  return good;
}

bool cuda_tape_add(CudaGpu *gpu, const CudaLaunch *l, Fault *fault,
                   bool *good) {
  CudaTape *t = gpu->tape;
  if (!t || !l->bytes || l->bytes > BYTES)
    return false;
  *good = t->count < LAUNCHES || cuda_tape_flush(gpu, fault);
  if (!*good)
    return true;
  Item *i = &t->items[t->count];
  memset(i, 0, sizeof *i); /* what is between its fields, too */
  i->function = l->function;
  i->shared = l->shared;
  i->bytes = l->bytes;
  memcpy(i->grid, l->grid, sizeof i->grid);
  memcpy(i->block, l->block, sizeof i->block);
  snprintf(t->names[t->count], sizeof t->names[0], "%s", l->name);
  memcpy(t->arguments + (size_t)t->count * BYTES, l->arguments[0], l->bytes);
  t->count++;
  return true;
}
