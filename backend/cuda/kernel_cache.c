/* Kernels are cached by a hash that includes all sizes.  Loaded modules are
 * cached by the hash of their source, since one source serves many sizes.
 * Compiled code is also cached on disk (code_cache.c). */
#include "backend/cuda/kernel_cache.h"

#include "backend/cuda/code_cache.h"
#include "backend/cuda/library_kernels.h"
#include "backend/cuda/schedule_text.h"
#include "machine/limits/cuda.h"
#include "plan/kernel_key.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct CacheEntry {
  struct CacheEntry *next;
  ArtifactKey key;
  Arena *arena;
  CachedKernel kernel;
} CacheEntry;

typedef struct LoadedModule {
  struct LoadedModule *next;
  ArtifactKey key; /* of the source */
  CuModule module;
} LoadedModule;

static CacheEntry *entries[KERNEL_CACHE_BUCKETS];
static LoadedModule *loaded_modules[KERNEL_CACHE_BUCKETS];
static uint32_t entry_count;

/* ---- entries ---- */

#define COPY_VEC(arena, v)                                          \
  do {                                                              \
    void *copy_ = NEW_ARRAY(arena, char, (v).len * sizeof *(v).at); \
    if ((v).len)                                                    \
      memcpy(copy_, (v).at, (v).len * sizeof *(v).at);              \
    (v).at = copy_;                                                 \
  } while (0)

/* Copies what a launch needs. */
static void copy_kernel(Arena *arena, const CudaKernel *from, CudaKernel *to) {
  *to = *from;
  to->source = (Buffer){0};
  memset(&to->outputs, 0, sizeof to->outputs);
  COPY_VEC(arena, to->passes);
  for (uint32_t j = 0; j < to->passes.len; j++) {
    CudaPass *p = NEW(arena, CudaPass);
    *p = *from->passes.at[j];
    p->k = NULL;
    p->s.gemm = NULL;
    p->s.attention = NULL;
    p->emitted.source = (Buffer){0};
    Call *call = &p->emitted.call;
    COPY_VEC(arena, call->ints);
    COPY_VEC(arena, call->floats);
    COPY_VEC(arena, call->key_params);
    COPY_VEC(arena, p->divisors);
    COPY_VEC(arena, p->tensor_maps);
    memset(&call->outputs, 0, sizeof call->outputs);
    memset(&call->checks, 0, sizeof call->checks);
    to->passes.at[j] = p;
  }
}

static bool emit_source(const FusionGroup *c, const Device *d, Arena *arena,
                        CachedKernel *p, CudaKernel *out) {
  Kernel *k = c->kernel;
  p->output_count = 1;
  if (c->library_op)
    return library_kernel_emit(c->nodes.at[0], &d->target, arena, out);
  p->work = kernel_operation_count(k);
  if (!cuda_emit(k, &d->target, kernel_text_find(k->arena, c, d->target.arch),
                 NULL, out) ||
      k->inputs.len + out->outputs.len > MAX_KERNEL_POINTERS)
    return false;
  for (uint32_t j = 0; j < out->outputs.len; j++)
    p->output_nodes[j] = fusion_group_node_index(c, out->outputs.at[j]->node);
  p->output_count = out->outputs.len;
  return true;
}

static void build_entry(const FusionGroup *c, const Device *d, Arena *arena,
                        CachedKernel *p) {
  CudaKernel emitted;
  Buffer source = {.arena = arena};
  if (!emit_source(c, d, arena, p, &emitted) ||
      !cuda_full_source(&emitted.source, &source))
    return;
  copy_kernel(arena, &emitted, &p->kernel);
  p->functions = NEW_ARRAY(arena, CuFunction, emitted.passes.len);
  p->source = source.text;
  p->has_source = true;
}

static CacheEntry *find_entry(ArtifactKey key) {
  for (CacheEntry *e = entries[key.word[0] % KERNEL_CACHE_BUCKETS]; e;
       e = e->next)
    if (memcmp(&e->key, &key, sizeof key) == 0)
      return e;
  return NULL;
}

CachedKernel *cuda_kernel_cache_get(FusionGroup *c, const Device *d) {
  ArtifactKey key =
      c->library_op ? library_kernel_key(c->nodes.at[0]) : kernel_key(c);
  CacheEntry *e = find_entry(key);
  if (!e) {
    bool cached = entry_count < MAX_CACHED_KERNELS;
    if (!cached && c->library_op)
      return NULL;
    Arena *arena = cached ? arena_new() : c->kernel->arena;
    e = NEW(arena, CacheEntry);
    e->key = key;
    e->arena = arena;
    build_entry(c, d, arena, &e->kernel);
    if (!c->library_op && schedule_has_failed(c->kernel->graph)) {
      if (cached)
        arena_free(arena);
      return NULL; /* refused: again if it runs again */
    }
    if (cached) {
      e->next = entries[key.word[0] % KERNEL_CACHE_BUCKETS];
      entries[key.word[0] % KERNEL_CACHE_BUCKETS] = e;
      entry_count++;
    } else {
      c->transient = true;
    }
  }
  return e->kernel.has_source ? &e->kernel : NULL;
}

/* ---- modules ---- */

static LoadedModule *find_module(ArtifactKey key) {
  for (LoadedModule *l = loaded_modules[key.word[0] % KERNEL_CACHE_BUCKETS]; l;
       l = l->next)
    if (memcmp(&l->key, &key, sizeof key) == 0)
      return l;
  return NULL;
}

void cached_kernel_dump_source(const CachedKernel *p) {
  const char *folder = getenv("AXON_CC_DEBUG");
  char path[ARTIFACT_PATH_BYTES];
  if (!folder || *folder != '/')
    return;
  ArtifactKey key =
      artifact_key(1, &(ArtifactPart){p->source, strlen(p->source)});
  snprintf(path, sizeof path, "%s/%016llx.cu", folder,
           (unsigned long long)key.word[0]);
  FILE *f = fopen(path, "we");
  if (!f)
    return;
  fputs(p->source, f);
  fclose(f);
}

bool cached_kernel_compile(CachedKernel *p, Device *d, CompiledCode *out,
                           Fault *fault) {
  const KernelSource source = {
      .source = p->source, .name = "kernel.cu", .arch = d->context.info.arch};
  bool found;
  double start = clock_seconds();
  bool good = code_cache_compile(d->nvrtc, &source, out, &found, fault);
  if (good && !found)
    p->compile_seconds = clock_seconds() - start;
  return good;
}

static bool compile_and_load(CachedKernel *p, Device *d, CuModule *module,
                             Fault *fault) {
  CompiledCode code;
  bool good = cached_kernel_compile(p, d, &code, fault) &&
              cuda_load_module(&d->context, code.bytes, module, fault);
  compiled_code_free(&code);
  return good;
}

static bool load_module(CachedKernel *p, Device *d, Fault *fault) {
  ArtifactKey key =
      artifact_key(1, &(ArtifactPart){p->source, strlen(p->source)});
  LoadedModule *l = find_module(key);
  if (!l) {
    CuModule module;
    cached_kernel_dump_source(p);
    if (!compile_and_load(p, d, &module, fault))
      return false;
    l = mem_try_alloc(sizeof *l);
    if (!l) {
      cuda_unload_module(&d->context, module);
      fault_set_kind(fault, FAULT_MEMORY, "out of memory");
      return false;
    }
    *l = (LoadedModule){loaded_modules[key.word[0] % KERNEL_CACHE_BUCKETS], key,
                        module};
    loaded_modules[key.word[0] % KERNEL_CACHE_BUCKETS] = l;
  }
  p->module = l->module;
  return true;
}

bool cached_kernel_load(CachedKernel *p, Device *d, Fault *fault) {
  if (p->module)
    return true;
  if (!load_module(p, d, fault))
    return false;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++) {
    const CudaPass *pass = p->kernel.passes.at[j];
    if (!cuda_get_function(&d->context, p->module, pass->name,
                           (unsigned)pass->shared_bytes, &p->functions[j],
                           fault)) {
      p->module = NULL;
      return false;
    }
  }
  return true;
}
