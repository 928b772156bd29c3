/* The target `cuda`: runs fusion groups as kernels on one stream of the GPU.
 * Results stay on the device (device_tensor.h).
 *
 * The host runs everything else after it downloads the inputs: library
 * operations of the CPU backend, or the reference backend.  The reference
 * backend also reports the error after a kernel detects an invalid index or
 * divisor. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/device_tensor.h"
#include "backend/cuda/kernel_cache.h"
#include "backend/library_ops.h"
#include "backend/target.h"
#include "machine/limits/cuda.h"
#include "plan/observer.h"
#include "plan/schedule_file.h"
#include "support/trap.h"
#include "tensor/node.h"

#include <string.h>

/* ---- preparation ---- */

static bool fuses_rows(const Kernel *k) {
  Fault ignored = {0}; /* reported when the program runs */
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  const Device *d = device_get(&ignored);
  bool has = d && cuda_fuses_product_rows(k, &d->target);
  trap_end(&trap);
  device_unlock();
  return has;
}

static double library_work(const Node *n) {
  double work = (double)node_element_count(n);
  for (uint32_t k = 0; k < n->input_count; k++)
    work += (double)node_element_count(n->inputs[k]);
  return work;
}

static void prepare_one(const Graph *g, FusionGroup *c, const Device *d) {
  c->library_op = library_op_exists(c->nodes.at[0]);
  if (!c->kernel && !c->library_op)
    return;
  double work = c->library_op ? library_work(c->nodes.at[0])
                              : kernel_operation_count(c->kernel);
  c->fallback_reason = NULL;
  if (!g->hot && work < (double)g->jit_threshold)
    c->fallback_reason =
        c->library_op ? NULL : "below the compilation threshold";
  else if (!(c->backend_data = cuda_kernel_cache_get(c, d)) && !c->library_op)
    c->fallback_reason = "no CUDA code generation for one of its operations";
}

static void prepare(Graph *g, uint32_t count, FusionGroup *const *clusters) {
  Fault ignored = {0}; /* reported when the program runs */
  Trap trap;
  device_lock();
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  const Device *d = device_get(&ignored);
  for (uint32_t k = 0; d && k < count; k++)
    prepare_one(g, clusters[k], d);
  trap_end(&trap);
  device_unlock();
}

/* ---- kernels ---- */

typedef struct KernelRun {
  uint32_t output_count;
  Tensor *outputs[MAX_KERNEL_POINTERS];
  /* Arguments that exceed the launch limit. */
  DeviceBuffer *scratch, *indirect_args;
  size_t indirect_args_used;
  uint64_t pointers[MAX_KERNEL_POINTERS + 2];
} KernelRun;

static void run_free(Device *d, KernelRun *run) {
  for (uint32_t j = 0; j < run->output_count; j++)
    tensor_release(run->outputs[j]);
  device_allocator_release(d->allocator, run->scratch);
  device_allocator_release(d->allocator, run->indirect_args);
}

static bool bind_inputs(Device *d, const FusionGroup *c, uint32_t outs,
                        KernelRun *run, Fault *fault) {
  const Node *n = c->nodes.at[0];
  uint32_t count = c->library_op ? n->input_count : c->kernel->inputs.len;
  for (uint32_t j = 0; j < count; j++) {
    const Node *x = c->library_op ? n->inputs[j] : c->kernel->inputs.at[j];
    if (!device_tensor_upload(d->allocator, &d->context, x->data,
                              &run->pointers[outs + j], fault))
      return false;
  }
  return true;
}

static bool bind_outputs(const Graph *g, Device *d, const FusionGroup *c,
                         const CachedKernel *p, KernelRun *run, Fault *fault) {
  for (uint32_t j = 0; j < p->output_count; j++) {
    const Node *n = c->nodes.at[p->output_nodes[j]];
    Tensor *t = node_fits_memory(g, n, fault)
                    ? tensor_new(n->dtype, n->free_count + n->rank, n->extents,
                                 false, fault)
                    : NULL;
    if (!t)
      return false;
    t->broadcast_mask =
        n->free_count < 32 ? n->broadcast_mask << n->free_count : 0;
    run->outputs[run->output_count++] = t;
    if (!device_tensor_new(d->allocator, &d->context, t, &run->pointers[j],
                           fault))
      return false;
  }
  return true;
}

/* 0 if the arguments fit into the launch. */
static size_t indirect_args_bytes(const CudaKernel *k, const CudaPass *p) {
  size_t bytes = cuda_args_bytes(k, p);
  return cuda_has_indirect_args(k, p)
             ? (bytes + KERNEL_ARGS_ALIGN - 1) / KERNEL_ARGS_ALIGN *
                   KERNEL_ARGS_ALIGN
             : 0;
}

static bool alloc_indirect_args(Device *d, const CachedKernel *p,
                                KernelRun *run, Fault *fault) {
  int64_t size = 0;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++)
    size += (int64_t)indirect_args_bytes(&p->kernel, p->kernel.passes.at[j]);
  const AllocationLabel label = {.name = "the arguments of kernels",
                                 .dtype = DT_U8,
                                 .rank = 1,
                                 .shape = &size};
  if (size)
    run->indirect_args =
        device_alloc_evicting(d->allocator, (size_t)size, &label, fault);
  return !size || run->indirect_args;
}

static bool bind_scratch(Device *d, const CachedKernel *p, KernelRun *run,
                         Fault *fault) {
  const int64_t size = p->kernel.scratch_bytes;
  const AllocationLabel label = {.name = "what a kernel leaves for itself",
                                 .dtype = DT_U8,
                                 .rank = 1,
                                 .shape = &size};
  uint64_t *last_pointers = run->pointers + p->kernel.pointer_count - 2;
  if (size) {
    run->scratch =
        device_alloc_evicting(d->allocator, (size_t)size, &label, fault);
    if (!run->scratch)
      return false;
    last_pointers[0] = run->scratch->address;
  }
  last_pointers[1] = d->status->address;
  return alloc_indirect_args(d, p, run, fault);
}

static void fill_args(const FusionGroup *c, const CachedKernel *p,
                      const CudaPass *pass, const KernelRun *run, void *args) {
  const Call *call = &pass->emitted.call;
  double floats[call->floats.len + 1];
  for (uint32_t j = 0; j < call->floats.len; j++)
    floats[j] =
        param_resolve((Scalar){.dtype = DT_F64, .f = call->floats.at[j]},
                      c->params)
            .f;
  cuda_fill_args(&p->kernel, pass, run->pointers, floats, c->random_keys, args);
}

/* Copies arguments that exceed the launch limit to device memory.  *args
 * receives their address. */
static bool fill_indirect_args(Device *d, const FusionGroup *c,
                               const CachedKernel *p, const CudaPass *pass,
                               KernelRun *run, void *args, Fault *fault) {
  size_t size = cuda_args_bytes(&p->kernel, pass);
  CuDevicePtr at = run->indirect_args->address + run->indirect_args_used;
  char *bytes = mem_try_alloc_aligned(KERNEL_ARGS_ALIGN,
                                      indirect_args_bytes(&p->kernel, pass));
  if (!bytes) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return false;
  }
  fill_args(c, p, pass, run, bytes);
  run->indirect_args_used += indirect_args_bytes(&p->kernel, pass);
  memcpy(args, &at, sizeof at);
  bool good = cuda_memcpy_h2d(&d->context, at, bytes, size, fault);
  mem_free(bytes);
  return good;
}

static bool launch_pass(Device *d, const FusionGroup *c, CachedKernel *p,
                        uint32_t at, KernelRun *run, Fault *fault) {
  CudaPass *pass = p->kernel.passes.at[at];
  Call *call = &pass->emitted.call;
  for (uint32_t j = 0; pass->rng_key_index && j < 2; j++)
    call->ints.at[pass->rng_key_index - 1 + j] =
        (int64_t)c->nodes.at[0]->key.word[j];
  bool indirect = cuda_has_indirect_args(&p->kernel, pass);
  _Alignas(KERNEL_ARGS_ALIGN) char args[MAX_KERNEL_ARGS_BYTES];
  int64_t blocks = pass->grid_blocks;
  if (pass->max_grid_blocks && blocks > pass->max_grid_blocks)
    blocks = pass->max_grid_blocks;
  if (blocks > INT32_MAX) {
    fault_set_kind(fault, FAULT_MEMORY, "too many thread blocks for a GPU");
    return false;
  }
  if (indirect && !fill_indirect_args(d, c, p, pass, run, args, fault))
    return false;
  if (!indirect)
    fill_args(c, p, pass, run, args);
  void *pointers[] = {args};
  const CudaLaunch launch = {.function = p->functions[at],
                             .name = pass->name,
                             .grid = {(unsigned)blocks, 1, 1},
                             .block = {pass->s.block_threads, 1, 1},
                             .shared_bytes = (unsigned)pass->shared_bytes,
                             .args = pointers,
                             .args_bytes =
                                 indirect ? sizeof(CuDevicePtr)
                                          : cuda_args_bytes(&p->kernel, pass)};
  return blocks == 0 || (device_record_timer(d, true, fault) &&
                         cuda_encode_tensor_maps(&p->kernel, pass, &d->context,
                                                 run->pointers, args, fault) &&
                         cuda_launch(&d->context, &launch, fault));
}

/* Reads and clears the status word.  *check_failed: a kernel found an invalid
 * index or divisor. */
static bool read_status(Device *d, bool *check_failed, Fault *fault) {
  uint32_t bits = 0;
  if (!cuda_memcpy_d2h(&d->context, &bits, d->status->address, sizeof bits,
                       fault) ||
      !cuda_synchronize(&d->context, fault))
    return false;
  *check_failed = bits != 0;
  return !bits ||
         cuda_memset(&d->context, d->status->address, 0, sizeof bits, fault);
}

static bool run_passes(const Graph *g, Device *d, const FusionGroup *c,
                       CachedKernel *p, KernelRun *run, bool *check_failed,
                       Fault *fault) {
  if (!cached_kernel_load(p, d, fault) ||
      !bind_inputs(d, c, p->output_count, run, fault) ||
      !bind_outputs(g, d, c, p, run, fault) || !bind_scratch(d, p, run, fault))
    return false;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++)
    if (!launch_pass(d, c, p, j, run, fault))
      return false;
  if (p->kernel.check_count && !read_status(d, check_failed, fault))
    return false;
  return !g->observer || cuda_synchronize(&d->context, fault);
}

static bool run_kernel(const Graph *g, Device *d, FusionGroup *c,
                       bool *check_failed, Fault *fault) {
  CachedKernel *p = c->backend_data;
  KernelRun run = {0};
  device_tensor_begin_use();
  bool good = run_passes(g, d, c, p, &run, check_failed, fault);
  for (uint32_t j = 0; good && !*check_failed && j < p->output_count; j++)
    c->nodes.at[p->output_nodes[j]]->data = tensor_retain(run.outputs[j]);
  run_free(d, &run);
  return good;
}

/* ---- fallback on the host ---- */

static bool download_node(Device *d, const Node *n, Fault *fault) {
  return !n || !n->data || device_tensor_download(&d->context, n->data, fault);
}

/* Downloads the tensors that the host reads. */
static bool download_inputs(Device *d, const FusionGroup *c, Fault *fault) {
  bool good = true;
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const Node *n = c->nodes.at[k];
    good = good && download_node(d, n->guard, fault);
    for (uint32_t j = 0; good && j < n->input_count; j++)
      good = download_node(d, n->inputs[j], fault);
    for (uint32_t j = 0; good && j < n->body_op_count; j++)
      if (n->body_ops[j].kind == BODY_READ)
        good = download_node(d, n->body_ops[j].node, fault);
  }
  return good;
}

static bool run_on_device(Graph *g, FusionGroup *c, bool *done, Fault *fault) {
  Device *d = device_get(fault);
  bool check_failed = false;
  *done = false;
  const CachedKernel *p = c->backend_data;
  if (!d || !p ||
      (c->kernel && p->kernel.check_count && kernel_has_empty_input(c->kernel)))
    return d != NULL;
  if (!run_kernel(g, d, c, &check_failed, fault))
    return false;
  if (check_failed)
    c->fallback_reason = "an index or divisor is invalid";
  *done = !check_failed;
  return true;
}

static bool run_locked(Graph *g, FusionGroup *c, bool *done, Fault *fault) {
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  bool good = run_on_device(g, c, done, fault);
  if (good && !*done) {
    for (uint32_t k = 0; k < c->nodes.len; k++)
      fusion_group_restore_body(c, k);
    Device *d = device_get(fault);
    good = d && device_record_timer(d, false, fault) &&
           download_inputs(d, c, fault);
  }
  trap_end(&trap);
  device_unlock();
  return good;
}

static bool run(Graph *g, FusionGroup *c, Span *where, Fault *fault) {
  bool done;
  if (g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
  if (!schedule_check(g, where, fault))
    return false;
  if (!run_locked(g, c, &done, fault))
    return false;
  return done || (c->library_op && library_op_run(g, c->nodes.at[0], NULL)) ||
         backend_reference.run(g, c, where, fault);
}

static bool synchronize(Graph *g, Fault *fault) {
  (void)g;
  device_lock();
  Device *d = device_get(fault);
  /* The timer excludes copies. */
  bool good = d && device_record_timer(d, false, fault) &&
              device_tensor_download_all(&d->context, fault);
  device_unlock();
  return good;
}

const Backend backend_cuda = {.name = "cuda",
                              .compiles_kernels = true,
                              .has_fused_attention = fuses_rows,
                              .max_row_bytes = MAX_FUSED_ROW_BYTES,
                              .prepare = prepare,
                              .run = run,
                              .synchronize = synchronize,
                              .describe = cuda_describe};
