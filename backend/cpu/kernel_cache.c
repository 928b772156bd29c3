/* Cache of compiled kernels.  Choosing a schedule and emitting the source takes
 * as long as many kernels run.  So the result is cached, keyed by a hash of the
 * kernel with all its constants. */
#include "backend/cpu/kernel_cache.h"
#include "backend/cpu/schedule_make.h"
#include "plan/kernel_key.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"
#include "support/mem.h"

#include <pthread.h>
#include <string.h>

enum { HASH_BUCKETS = 1024 };

typedef struct Entry {
  struct Entry *next;
  ArtifactKey key;
  CompiledKernel kernel;
} Entry;

static struct {
  pthread_mutex_t lock;
  Entry *buckets[HASH_BUCKETS];
  uint32_t count;
} cached_kernels = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- compilation ---- */

/* Returns true if several row tasks of one matmul pack the same operand. */
static bool shares_packed_operand(const Kernel *k, const Schedule *s) {
  return s->task_kind == TASK_TILE && s->gemm_tilings &&
         k->loops.at[0]->extents[k->parallel_axes - 2] > s->task_height;
}

static void compile_kernel(const FusionGroup *c, CompiledKernel *p) {
  Kernel *k = kernel_copy(c->kernel);
  Schedule s;
  CpuKernel e;
  p->operations = kernel_operation_count(k);
  p->exact = fusion_group_is_exact(c);
  if (!schedule_make(c, k, cpu_vector_bytes(), true, &s))
    return;
  if (!emit_kernel(k, &s, NULL, "", &e) ||
      k->inputs.len + e.code.call.outputs.len + e.prepacked.len >
          MAX_KERNEL_POINTERS) {
    schedule_has_no_code(c);
    return;
  }
  p->ints = e.code.call.ints.at;
  p->floats = e.code.call.floats.at;
  p->key_params = e.code.call.key_params.at;
  p->key_param_count = e.code.call.key_params.len;
  p->prepacked = e.prepacked.at;
  p->prepacked_count = e.prepacked.len;
  p->int_count = e.code.call.ints.len;
  p->float_count = e.code.call.floats.len;
  p->output_count = e.code.call.outputs.len;
  for (uint32_t j = 0; j < p->output_count; j++) {
    const LoopOutput *output = e.code.call.outputs.at[j];
    p->output_nodes[j] = fusion_group_node_index(c, output->node);
    p->inplace_inputs[j] = e.code.call.scratch_bytes == 0
                               ? kernel_inplace_inputs(k, &s, output)
                               : 0;
  }
  p->checks = e.code.call.checks.len > 0;
  p->splits_reduction = s.reduction_chunk > 0;
  p->shares_packing = shares_packed_operand(k, &s);
  p->tasks = e.tasks;
  p->reduction_chunks = e.reduction_chunks;
  p->accumulator_dtype = e.accumulator_dtype;
  p->is_arg_reduction = e.is_arg_reduction;
  p->scratch_bytes = e.code.call.scratch_bytes;
  p->object = jit_request(e.code.source.text, e.code.source.len, p->operations);
}

/* ---- hash table ---- */

const CompiledKernel *kernel_cache_find(ArtifactKey key) {
  const CompiledKernel *found = NULL;
  pthread_mutex_lock(&cached_kernels.lock);
  for (const Entry *e = cached_kernels.buckets[key.word[0] % HASH_BUCKETS]; e;
       e = e->next)
    if (memcmp(&e->key, &key, sizeof key) == 0)
      found = &e->kernel;
  pthread_mutex_unlock(&cached_kernels.lock);
  return found;
}

static Entry *entry_new(ArtifactKey key, const CompiledKernel *p) {
  uint32_t ints = p->int_count, floats = p->float_count,
           keys = p->key_param_count;
  uint32_t prepacked = p->prepacked_count;
  Entry *e = mem_try_alloc(sizeof *e + ints * sizeof(int64_t) +
                           floats * sizeof(double) + keys * sizeof(KeyParam) +
                           prepacked * sizeof(PrepackedOperand));
  if (!e)
    return NULL;
  PrepackedOperand *to_prepacked = (PrepackedOperand *)(e + 1);
  int64_t *to_ints = (int64_t *)(to_prepacked + prepacked);
  double *to_floats = (double *)(to_ints + ints);
  KeyParam *to_keys = (KeyParam *)(to_floats + floats);
  e->key = key;
  e->kernel = *p;
  if (ints)
    memcpy(to_ints, p->ints, ints * sizeof *to_ints);
  if (floats)
    memcpy(to_floats, p->floats, floats * sizeof *to_floats);
  if (keys)
    memcpy(to_keys, p->key_params, keys * sizeof *to_keys);
  if (prepacked)
    memcpy(to_prepacked, p->prepacked, prepacked * sizeof *to_prepacked);
  e->kernel.prepacked = to_prepacked;
  e->kernel.ints = to_ints;
  e->kernel.floats = to_floats;
  e->kernel.key_params = to_keys;
  return e;
}

static bool insert_entry(Entry *e) {
  Entry **bucket = &cached_kernels.buckets[e->key.word[0] % HASH_BUCKETS];
  pthread_mutex_lock(&cached_kernels.lock);
  bool fits = cached_kernels.count < MAX_CACHED_KERNELS;
  if (fits) {
    e->next = *bucket;
    *bucket = e;
    cached_kernels.count++;
  }
  pthread_mutex_unlock(&cached_kernels.lock);
  if (!fits)
    mem_free(e);
  return fits;
}

const CompiledKernel *kernel_cache_insert(ArtifactKey key,
                                          const CompiledKernel *p) {
  Entry *e = entry_new(key, p);
  return e && insert_entry(e) ? &e->kernel : NULL;
}

const CompiledKernel *kernel_cache_get(FusionGroup *c) {
  ArtifactKey key = kernel_key(c);
  const CompiledKernel *found = kernel_cache_find(key);
  if (found)
    return found->object ? found : NULL;
  CompiledKernel *p = NEW(c->kernel->arena, CompiledKernel);
  compile_kernel(c, p);
  if (!p->object && schedule_is_given(c, cpu_vector_bytes()))
    return NULL; /* refused: again if it runs again */
  const CompiledKernel *cached = kernel_cache_insert(key, p);
  c->transient = !cached;
  return p->object ? (cached ? cached : p) : NULL;
}

bool compiled_kernel_is_interpreted(const Graph *g, const CompiledKernel *p) {
  return p->exact && p->operations < COMPILE_TIME_OPS && g->jit_threshold > 0 &&
         !jit_is_ready(p->object);
}
