/* Kernels to programs.  To choose a schedule and to write a kernel's text
 * takes as long as many a kernel runs, so what came of it is kept, under a
 * hash of the kernel with all its numbers. */
#include "backend/cpu/kernel_cache.h"

#include <pthread.h>
#include <string.h>

enum { HASH_BUCKETS = 1024, MAX_CACHED_KERNELS = 8192 };

typedef struct Entry {
  struct Entry *next;
  ArtifactKey key;
  CompiledKernel program;
} Entry;

static struct {
  pthread_mutex_t lock;
  Entry *buckets[HASH_BUCKETS];
  uint32_t count;
} cached_kernels = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- a kernel as bytes ---- */

static void hash_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void hash_affine(Buffer *b, const AffineExpr *q) {
  hash_number(b, q != NULL);
  if (!q)
    return;
  hash_number(b, q->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v]) {
      hash_number(b, v);
      hash_number(b, q->coef[v]);
    }
  hash_number(b, -1);
}

static void hash_op(Buffer *b, const KernelOp *s) {
  hash_number(b, (int64_t)s->kind << 32 | s->dtype);
  hash_number(b, (int64_t)s->op << 32 | s->arg_count);
  for (uint32_t k = 0; k < s->arg_count; k++)
    hash_number(b, s->args[k]);
  hash_number(b, s->low);
  hash_number(b, s->high);
  switch (s->kind) {
  case KOP_CONST:
    hash_number(b, s->value.i);
    break;
  case KOP_AFFINE:
    hash_affine(b, s->affine);
    break;
  case KOP_LOAD:
    hash_number(b, s->input);
    hash_affine(b, s->address);
    for (uint32_t k = 0; k < s->checked_index_count; k++) {
      hash_number(b, s->checked_indices[k].index_op);
      hash_number(b, s->checked_indices[k].stride);
      hash_number(b, s->checked_indices[k].extent);
    }
    hash_number(b, -1);
    break;
  case KOP_LOAD_LOCAL:
    hash_number(b, (int64_t)s->source_loop << 32 | s->source_output);
    hash_affine(b, s->address);
    break;
  case KOP_RANDOM:
    buffer_add(b, (const char *)&s->key, sizeof s->key);
    break;
  case KOP_OP:
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
    break;
  }
}

/* Where a result's node stands in the cluster. */
static uint32_t group_node_index(const FusionGroup *c, const Node *n) {
  uint32_t k = 0;
  while (c->nodes.at[k] != n)
    k++;
  return k;
}

static void hash_loop(Buffer *b, const FusionGroup *c, const LoopNest *loop) {
  hash_number(b, loop->parallel_axes);
  hash_number(b, (int64_t)loop->spatial_axes << 32 | loop->axis_count);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    hash_number(b, loop->extents[v]);
  hash_number(b, loop->floor_div_count);
  for (uint32_t k = 0; k < loop->floor_div_count; k++) {
    hash_affine(b, &loop->floor_divs[k].dividend);
    hash_number(b, loop->floor_divs[k].divisor);
  }
  hash_number(b, loop->ops.len);
  for (uint32_t k = 0; k < loop->ops.len; k++)
    hash_op(b, &loop->ops.at[k]);
  hash_number(b, loop->outputs.len);
  for (uint32_t k = 0; k < loop->outputs.len; k++) {
    const LoopOutput *r = &loop->outputs.at[k];
    hash_number(b, (int64_t)r->reduce << 32 | r->dtype);
    hash_number(b, (int64_t)group_node_index(c, r->node) << 32 | r->value_op);
    hash_affine(b, r->global_index);
    hash_affine(b, r->local_index);
  }
}

ArtifactKey kernel_key(const FusionGroup *c) {
  const Kernel *k = c->kernel;
  Buffer b = {.arena = k->arena};
  for (uint32_t j = 0; j < k->inputs.len; j++)
    hash_number(&b, k->inputs.at[j]->dtype);
  for (uint32_t j = 0; j < k->loops.len; j++)
    hash_loop(&b, c, k->loops.at[j]);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* ---- making one ---- */

/* ---- in place ---- */

static bool can_fail(const KernelOp *s) {
  return (s->kind == KOP_LOAD && s->checked_index_count > 0) ||
         (s->kind == KOP_OP && !dtype_is_float(s->dtype) &&
          map_info[s->op].fault != ARITH_OK);
}

static bool is_infallible_map(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  bool is_infallible =
      k->loops.len == 1 && loop->spatial_axes == loop->axis_count;
  for (uint32_t j = 0; is_infallible && j < loop->ops.len; j++)
    is_infallible = !can_fail(&loop->ops.at[j]);
  return is_infallible;
}

/* Is it read at the place of the result alone? */
static bool reads_only_own_element(const LoopNest *loop, uint32_t input,
                                   const AffineExpr *address) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD && s->input == input &&
        !affine_equal(s->address, address))
      return false;
  }
  return true;
}

uint64_t kernel_inplace_inputs(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  uint64_t inplace = 0;
  if (!is_infallible_map(k) || loop->outputs.len != 1 ||
      !loop->outputs.at[0].global_index)
    return 0;
  const LoopOutput *r = &loop->outputs.at[0];
  for (uint32_t j = 0; j < k->inputs.len && j < 64; j++) {
    const Node *x = k->inputs.at[j];
    if (dtype_info[x->dtype].bytes == dtype_info[r->dtype].bytes &&
        node_element_count(x) == node_element_count(r->node) &&
        reads_only_own_element(loop, j, r->global_index))
      inplace |= UINT64_C(1) << j;
  }
  return inplace;
}

/* Several bands of one product, which copy the same. */
static bool shares_packed_operand(const Kernel *k, const Schedule *s) {
  return s->shape == TASK_TILE && s->gemm_tilings &&
         k->loops.at[0]->extents[k->parallel_axes - 2] > s->task_height;
}

static void compile_kernel(const FusionGroup *c, CompiledKernel *p) {
  Kernel *k = c->kernel;
  Schedule s;
  EmittedKernel e;
  p->operations = kernel_operation_count(k);
  p->exact = fusion_group_is_exact(c);
  schedule_choose(k, cpu_vector_bytes(), &s);
  if (!emit_kernel(k, &s, NULL, "", &e) ||
      k->inputs.len + e.call.outputs.len + e.call.prepacked.len >
          MAX_KERNEL_POINTERS)
    return;
  p->ints = e.call.ints.at;
  p->floats = e.call.floats.at;
  p->key_params = e.call.key_params.at;
  p->key_param_count = e.call.key_params.len;
  p->prepacked = e.call.prepacked.at;
  p->prepacked_count = e.call.prepacked.len;
  p->int_count = e.call.ints.len;
  p->float_count = e.call.floats.len;
  p->output_count = e.call.outputs.len;
  for (uint32_t j = 0; j < p->output_count; j++)
    p->output_nodes[j] = group_node_index(c, e.call.outputs.at[j]->node);
  p->inplace_inputs = e.call.scratch_bytes == 0 ? kernel_inplace_inputs(k) : 0;
  p->splits_reduction = s.reduction_chunk > 0;
  p->shares_packing = shares_packed_operand(k, &s);
  p->tasks = e.call.tasks;
  p->reduction_chunks = e.call.reduction_chunks;
  p->accumulator_dtype = e.call.accumulator_dtype;
  p->is_arg_reduction = e.call.is_arg_reduction;
  p->scratch_bytes = e.call.scratch_bytes;
  p->object = jit_request(e.source.text, e.source.len);
}

/* ---- keeping it ---- */

const CompiledKernel *kernel_cache_find(ArtifactKey key) {
  const CompiledKernel *found = NULL;
  pthread_mutex_lock(&cached_kernels.lock);
  for (const Entry *e = cached_kernels.buckets[key.word[0] % HASH_BUCKETS]; e;
       e = e->next)
    if (memcmp(&e->key, &key, sizeof key) == 0)
      found = &e->program;
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
  e->program = *p;
  if (ints)
    memcpy(to_ints, p->ints, ints * sizeof *to_ints);
  if (floats)
    memcpy(to_floats, p->floats, floats * sizeof *to_floats);
  if (keys)
    memcpy(to_keys, p->key_params, keys * sizeof *to_keys);
  if (prepacked)
    memcpy(to_prepacked, p->prepacked, prepacked * sizeof *to_prepacked);
  e->program.prepacked = to_prepacked;
  e->program.ints = to_ints;
  e->program.floats = to_floats;
  e->program.key_params = to_keys;
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
  return e && insert_entry(e) ? &e->program : NULL;
}

const CompiledKernel *kernel_cache_get(FusionGroup *c) {
  ArtifactKey key = kernel_key(c);
  const CompiledKernel *found = kernel_cache_find(key);
  if (found)
    return found->object ? found : NULL;
  CompiledKernel *p = NEW(c->kernel->arena, CompiledKernel);
  compile_kernel(c, p);
  const CompiledKernel *kept = kernel_cache_insert(key, p);
  c->transient = !kept;
  return p->object ? (kept ? kept : p) : NULL;
}
