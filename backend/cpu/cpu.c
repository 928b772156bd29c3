/* The CPU backend: fusion groups as compiled kernels, on all cores.  The
 * reference backend executes groups that are too small to compile or have no
 * code generation.  It also reports errors that a kernel detects. */
#include "backend/cpu/kernel_cache.h"
#include "backend/cpu/library_ops.h"
#include "backend/target.h"
#include "support/trap.h"

#include "plan/observer.h"
#include "plan/schedule_file.h"
#include "runtime/derived_cache.h"
#include "runtime/thread_pool.h"
#include "tensor/node.h"
#include "machine/limits/cpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- preparation ---- */

/* The compilation threshold, in operations.  It is low for a kernel that the
 * reference backend may execute while the compiler runs, and high for one that
 * delays the program until it is compiled. */
static double compiled_work(const Graph *g, const FusionGroup *c) {
  return (double)g->jit_threshold *
         (fusion_group_is_exact(c) ? 1 : DELAY_FACTOR);
}

static void prepare_group(const Graph *g, FusionGroup *c) {
  bool dry = g->observer && g->observer->dry_run;
  c->library_op = library_op_exists(c->nodes.at[0]);
  if (c->library_op)
    c->fallback_reason = NULL;
  if (!c->kernel)
    return;
  if (!g->hot && kernel_operation_count(c->kernel) < compiled_work(g, c))
    c->fallback_reason = "below the compilation threshold";
  else if (!dry && !(c->backend_data = (void *)(uintptr_t)kernel_cache_get(c)))
    c->fallback_reason = "no C code generation for one of its operations";
}

static void prepare(Graph *g, uint32_t count, FusionGroup *const *groups) {
  for (uint32_t k = 0; k < count; k++)
    prepare_group(g, groups[k]);
}

/* ---- execution ---- */

typedef struct KernelLaunch {
  KernelFunction *function;
  void *pointers[MAX_KERNEL_POINTERS];
  const int64_t *ints;
  const double *floats;
  size_t scratch_bytes;
  bool reverse_order;
  Flag *stop;
} KernelLaunch;

static int run_tasks(void *context, int64_t begin, int64_t end) {
  const KernelLaunch *launch = context;
  char *scratch =
      launch->scratch_bytes ? thread_pool_scratch(launch->scratch_bytes) : NULL;
  if (launch->scratch_bytes && !scratch)
    return 1;
  return launch->function(launch->pointers, launch->ints, launch->floats, begin,
                          end, scratch);
}

/* Tasks that a thread takes at a time.  Taking a grain costs as much as
 * thousands of operations.  Threads begin with equal numbers of grains, so that
 * the number of grains is a multiple of the number of threads. */
static int64_t grain_size(const CompiledKernel *p) {
  double operations_per_task = p->operations / (double)p->tasks;
  operations_per_task = operations_per_task >= 1 ? operations_per_task : 1;
  int64_t min = operations_per_task >= MIN_GRAIN_OPS
                    ? 1
                    : (int64_t)(MIN_GRAIN_OPS / operations_per_task) + 1;
  int64_t max = (int64_t)(MAX_GRAIN_OPS / operations_per_task);
  int64_t fair_share =
      p->tasks / ((int64_t)thread_pool_size() * MIN_GRAINS_PER_THREAD);
  int64_t grain = fair_share < max ? fair_share : max;
  grain = grain > min ? grain : min;
  int64_t grains = ceil_div(p->tasks, grain);
  return grains > 1 ? ceil_div(p->tasks, round_up(grains, thread_pool_size()))
                    : grain;
}

/* Returns true if one thread finishes before others wake up. */
static bool fits_one_thread(const CompiledKernel *p, int64_t grain) {
  int64_t grains = p->tasks / grain + (p->tasks % grain > 0);
  return p->operations < THREAD_WAKE_OPS && !thread_pool_is_awake(grains);
}

static int launch_kernel(const CompiledKernel *p, KernelLaunch *launch) {
  int64_t grain = grain_size(p);
  if (fits_one_thread(p, grain))
    grain = p->tasks;
  if (p->shares_packing)
    return thread_pool_parallel_for(p->tasks, grain, run_tasks, launch,
                                    launch->stop);
  return (launch->reverse_order ? thread_pool_parallel_for_reverse
                                : thread_pool_parallel_for_static)(
      p->tasks, grain, run_tasks, launch, launch->stop);
}

/* Computes the partial results of all chunks, then combines them. */
static int launch_partial_reductions(const CompiledKernel *p, const Node *n,
                                     KernelLaunch *launch) {
  Fault ignored = {0};
  int64_t count = node_element_count(n),
          partial[] = {p->reduction_chunks, count};
  int64_t shape[] = {p->reduction_chunks << p->is_arg_reduction, count};
  Tensor *parts = tensor_new(p->accumulator_dtype, 2, shape, false, &ignored);
  if (!parts)
    return 1;
  void *out = launch->pointers[0];
  launch->pointers[0] = parts->data;
  int failed = launch_kernel(p, launch);
  KernelLaunch combine_launch = {
      .function = (KernelFunction *)jit_symbol(p->object, "fold"),
      .pointers = {out, parts->data},
      .ints = partial};
  if (!failed)
    failed =
        thread_pool_parallel_for(count, MIN_GRAIN_OPS / p->reduction_chunks + 1,
                                 run_tasks, &combine_launch, launch->stop);
  tensor_release(parts);
  return failed;
}

static void bind_float_params(const FusionGroup *c, const CompiledKernel *p,
                              double *floats) {
  for (uint32_t j = 0; j < p->float_count; j++) {
    Scalar x = {.dtype = DT_F64, .f = p->floats[j]};
    floats[j] = param_resolve(x, c->params).f;
  }
}

static void bind_key_params(const FusionGroup *c, const CompiledKernel *p,
                            int64_t *ints) {
  memcpy(ints, p->ints, p->int_count * sizeof *ints);
  for (uint32_t j = 0; j < p->key_param_count; j++) {
    const KeyParam *w = &p->key_params[j];
    ints[w->int_index] =
        (int64_t)key_resolve(key_placeholder(w->key_index), c->random_keys)
            .word[w->word_index];
  }
}

/* ---- prepacked operands ---- */

typedef struct PackRequest {
  const CompiledKernel *kernel;
  const KernelLaunch *launch;
  uint32_t index, pointer_index;
} PackRequest;

static bool pack_operand(void *context, void *to) {
  const PackRequest *request = context;
  const PrepackedOperand *k = &request->kernel->prepacked[request->index];
  char name[16];
  snprintf(name, sizeof name, "keep%u", request->index);
  KernelLaunch launch = *request->launch;
  launch.function = (KernelFunction *)jit_symbol(request->kernel->object, name);
  launch.pointers[request->pointer_index] = to;
  launch.scratch_bytes = 0;
  return launch.function &&
         thread_pool_parallel_for(k->panel_count, 1, run_tasks, &launch,
                                  launch.stop) == 0;
}

/* Acquires operands that are cached.  Others are packed now if this run alone
 * uses them often enough, or if they are cached for later runs. */
static void acquire_prepacked(const FusionGroup *c, const CompiledKernel *p,
                              KernelLaunch *launch, DerivedData **prepacked) {
  for (uint32_t j = 0; j < p->prepacked_count; j++) {
    const PrepackedOperand *k = &p->prepacked[j];
    PackRequest request = {p, launch, j,
                           p->output_count + c->kernel->inputs.len + j};
    const Node *x = c->kernel->inputs.at[k->input];
    ArtifactKey form = derived_cache_key_at(
        k->layout_key, k->offset * dtype_info[x->dtype].bytes);
    prepacked[j] = NULL;
    if (k->prepack_pays || derived_cache_is_eager())
      prepacked[j] = (k->packs_once ? derived_cache_acquire_or_build
                                    : derived_cache_acquire)(
          x->data, &form, (size_t)k->bytes, pack_operand, &request);
    launch->pointers[request.pointer_index] =
        prepacked[j] ? (void *)(uintptr_t)derived_data(prepacked[j]) : NULL;
  }
}

static void release_prepacked(const CompiledKernel *p,
                              DerivedData *const *prepacked) {
  for (uint32_t j = 0; j < p->prepacked_count; j++)
    if (prepacked[j])
      derived_cache_release(prepacked[j]);
}

static int run_kernel(const FusionGroup *c, const CompiledKernel *p,
                      Tensor *const *outputs, Flag *stop) {
  const Kernel *k = c->kernel;
  double floats[p->float_count + 1];
  int64_t ints[p->key_param_count ? p->int_count : 1];
  KernelFunction *f = jit_kernel(p->object);
  if (!f)
    return 1;
  jit_count_run(p->object, p->operations);
  bind_float_params(c, p, floats);
  KernelLaunch launch; /* not cleared, since it has space for the maximal number
                          of pointers */
  launch.function = f;
  launch.ints = p->ints;
  launch.floats = floats;
  launch.scratch_bytes = p->scratch_bytes;
  launch.stop = stop;
  launch.reverse_order = c->reverse_order;
  if (p->key_param_count) {
    bind_key_params(c, p, ints);
    launch.ints = ints;
  }
  for (uint32_t j = 0; j < p->output_count; j++)
    launch.pointers[j] = outputs[j]->data;
  for (uint32_t j = 0; j < k->inputs.len; j++)
    launch.pointers[p->output_count + j] = k->inputs.at[j]->data->data;
  DerivedData *prepacked[MAX_KERNEL_POINTERS];
  acquire_prepacked(c, p, &launch, prepacked);
  int failed = p->splits_reduction
                   ? launch_partial_reductions(
                         p, c->nodes.at[p->output_nodes[0]], &launch)
                   : launch_kernel(p, &launch);
  release_prepacked(p, prepacked);
  return failed;
}

/* The results of a kernel: new tensors, or those of inputs that are freed after
 * the kernel (donors). */
typedef struct OutputTensors {
  uint32_t count;
  bool in_place; /* some output has a donor */
  Tensor *tensors[MAX_KERNEL_POINTERS];
  Node *donors[MAX_KERNEL_POINTERS]; /* NULL: a new tensor */
} OutputTensors;

static void release_outputs(OutputTensors *run) {
  for (uint32_t j = 0; j < run->count; j++)
    if (!run->donors[j])
      tensor_release(run->tensors[j]);
  run->count = 0;
}

static bool is_donor(const OutputTensors *run, const Node *x) {
  for (uint32_t j = 0; j < run->count; j++)
    if (run->donors[j] && run->donors[j]->data == x->data)
      return true;
  return false;
}

/* An input that is freed after this kernel and may become its next output.
 * Equal kernels share one source, so that an input may have more elements than
 * the kernel reads. */
static Node *find_donor(const FusionGroup *c, const CompiledKernel *p,
                        const OutputTensors *run, const Node *output) {
  uint64_t inplace = p->inplace_inputs[run->count];
  int64_t count = inplace ? node_element_count(output) : 0;
  for (uint32_t j = 0; c->donated && inplace >> j; j++) {
    Node *x = (Node *)c->kernel->inputs.at[j];
    if (inplace >> j & 1 && c->donated[j] && x->data->count == count &&
        tensor_is_donatable(x->data) && !is_donor(run, x))
      return x;
  }
  return NULL;
}

static bool allocate_outputs(const Graph *g, const FusionGroup *c,
                             const CompiledKernel *p, OutputTensors *run) {
  Fault ignored = {0};
  for (uint32_t j = 0; j < p->output_count; j++) {
    const Node *n = c->nodes.at[p->output_nodes[j]];
    Node *donor = g->keeps_inputs || n->place ? NULL : find_donor(c, p, run, n);
    Tensor *t = donor      ? donor->data
                : n->place ? tensor_retain(n->place)
                : node_fits_memory(g, n, &ignored)
                    ? tensor_new(n->dtype, n->free_count + n->rank, n->extents,
                                 false, &ignored)
                    : NULL;
    if (!t)
      return false;
    run->in_place |= donor != NULL;
    run->donors[run->count] = donor;
    run->tensors[run->count++] = t;
  }
  return true;
}

static void invalidate_donors(const OutputTensors *run) {
  for (uint32_t j = 0; j < run->count; j++)
    if (run->donors[j] && run->tensors[j]->derived)
      derived_cache_invalidate(run->tensors[j]);
}

/* Gives the results to the nodes. */
static void store_outputs(const FusionGroup *c, const CompiledKernel *p,
                          OutputTensors *run) {
  for (uint32_t j = 0; j < run->count; j++) {
    Node *n = c->nodes.at[p->output_nodes[j]];
    Tensor *t = n->data = run->tensors[j];
    if (run->donors[j]) {
      run->donors[j]->data = NULL; /* freed when n is released */
      t->dtype = n->dtype;
      t->rank = n->free_count + n->rank;
      memcpy(t->shape, n->extents, t->rank * sizeof *n->extents);
    }
    t->broadcast_mask =
        n->free_count < 32 ? n->broadcast_mask << n->free_count : 0;
  }
  run->count = 0;
}

/* A kernel that overwrites its inputs is not interrupted: either the inputs or
 * the outputs are complete. */
static bool run_compiled(Graph *g, FusionGroup *c) {
  const CompiledKernel *p = c->backend_data;
  OutputTensors run;
  run.count = 0, run.in_place = false;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release_outputs(&run);
    trap_raise(trap.kind);
  }
  bool succeeded = allocate_outputs(g, c, p, &run);
  if (succeeded && run.in_place)
    invalidate_donors(&run);
  succeeded = succeeded && run_kernel(c, p, run.tensors,
                                      run.in_place ? NULL : g->interrupt) == 0;
  if (!run.in_place && g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
  trap_end(&trap);
  if (succeeded)
    store_outputs(c, p, &run);
  release_outputs(&run);
  return succeeded;
}

static bool run(Graph *g, FusionGroup *c, Span *where, Fault *fault) {
  const CompiledKernel *p = c->backend_data;
  if (!schedule_check(g, where, fault))
    return false;
  if (c->library_op && library_op_run(g, c->nodes.at[0], c->donated))
    return true;
  if (c->library_op)
    c->fallback_reason = "an index is invalid, or out of memory";
  if (p && !compiled_kernel_is_interpreted(g, p) &&
      !(p->checks && kernel_has_empty_input(c->kernel)) && run_compiled(g, c))
    return true;
  if (p)
    c->fallback_reason =
        "it was not compiled, or an index or divisor is invalid";
  return backend_reference.run(g, c, where, fault);
}

const Backend backend_cpu = {.name = "cpu",
                             .compiles_kernels = true,
                             .supports_views = true,
                             .can_accumulate = schedule_can_accumulate,
                             .prepare = prepare,
                             .run = run,
                             .describe = cpu_describe};
