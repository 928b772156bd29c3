/* The target `cuda`: clusters as kernels on the GPU, one after the other on its
 * stream, their results staying there (resident.h).  What has no kernel the
 * reference backend does, with what it reads copied to the host; so it does
 * where a kernel found that something is wrong, and tells what. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/program.h"
#include "backend/cuda/resident.h"
#include "tensor/watch.h"

#include <string.h>

/* ---- before it runs ---- */

static void prepare_one(const Graph *g, Cluster *c, const Device *d) {
  if (!c->kernel)
    return;
  if (!g->often && kernel_work(c->kernel) < (double)g->least_work)
    c->interpreted = "too little work to compile";
  else if (!(c->backend = cuda_program_of(c, d)))
    c->interpreted = "there is no kernel for something in it yet";
}

static void prepare(Graph *g, uint32_t count, Cluster *const *clusters) {
  Fault ignored = {0}; /* running tells it */
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

/* ---- a kernel ---- */

typedef struct Run {
  uint32_t count;
  Tensor *outs[POINTERS];
  CudaBlock *scratch;
  uint64_t pointers[POINTERS + 2];
} Run;

static void end_run(Device *d, Run *run) {
  for (uint32_t j = 0; j < run->count; j++)
    tensor_release(run->outs[j]);
  cuda_memory_give(d->memory, run->scratch);
}

static bool place_inputs(Device *d, const Cluster *c, uint32_t outs, Run *run,
                         Fault *fault) {
  const Kernel *k = c->kernel;
  for (uint32_t j = 0; j < k->inputs.len; j++)
    if (!resident_in(d->memory, &d->gpu, k->inputs.at[j]->data,
                     &run->pointers[outs + j], fault))
      return false;
  return true;
}

static bool place_outs(const Graph *g, Device *d, const Cluster *c,
                       const CudaProgram *p, Run *run, Fault *fault) {
  for (uint32_t j = 0; j < p->out_count; j++) {
    const Node *n = c->nodes.at[p->outs[j]];
    Tensor *t = node_fits_memory(g, n, fault)
                    ? tensor_new(n->dtype, n->free_count + n->rank, n->extents,
                                 false, fault)
                    : NULL;
    if (!t)
      return false;
    t->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
    run->outs[run->count++] = t;
    if (!resident_new(d->memory, &d->gpu, t, &run->pointers[j], fault))
      return false;
  }
  return true;
}

static bool place_rest(Device *d, const CudaProgram *p, Run *run,
                       Fault *fault) {
  const int64_t size = p->kernel.scratch;
  const CudaUse use = {.name = "what a kernel leaves for itself",
                       .dtype = DT_U8,
                       .rank = 1,
                       .shape = &size};
  uint64_t *rest = run->pointers + p->kernel.pointers - 2;
  if (size) {
    run->scratch = resident_take(d->memory, (size_t)size, &use, fault);
    if (!run->scratch)
      return false;
    rest[0] = run->scratch->at;
  }
  rest[1] = d->bad->at;
  return true;
}

static bool launch(Device *d, const Cluster *c, const CudaProgram *p,
                   uint32_t at, const Run *run, Fault *fault) {
  const CudaPass *pass = p->kernel.passes.at[at];
  const Call *call = &pass->emitted.call;
  double floats[call->floats.len + 1];
  _Alignas(ARGUMENTS_LINE) char arguments[ARGUMENTS_MOST];
  for (uint32_t j = 0; j < call->floats.len; j++)
    floats[j] = param_value((Scalar){.dtype = DT_F64, .f = call->floats.at[j]},
                            c->params)
                    .f;
  cuda_arguments(&p->kernel, pass, run->pointers, floats, c->keys, arguments);
  int64_t blocks = pass->blocks;
  if (pass->grid_most && blocks > pass->grid_most)
    blocks = pass->grid_most;
  if (blocks > INT32_MAX) {
    fault_set_kind(fault, FAULT_MEMORY, "more blocks than a GPU starts");
    return false;
  }
  void *pointers[] = {arguments};
  const CudaLaunch how = {.function = p->functions[at],
                          .name = pass->name,
                          .grid = {(unsigned)blocks, 1, 1},
                          .block = {pass->s.threads, 1, 1},
                          .shared = (unsigned)pass->shared,
                          .arguments = pointers,
                          .bytes = cuda_argument_bytes(&p->kernel, pass)};
  return blocks == 0 || (device_clock(d, true, fault) &&
                         cuda_put_maps(&p->kernel, pass, &d->gpu, run->pointers,
                                       arguments, fault) &&
                         cuda_launch(&d->gpu, &how, fault));
}

/* Did kernels find an index or a divisor that is wrong? */
static bool look(Device *d, bool *wrong, Fault *fault) {
  uint32_t bits = 0;
  if (!cuda_copy_out(&d->gpu, &bits, d->bad->at, sizeof bits, fault) ||
      !cuda_wait(&d->gpu, fault))
    return false;
  *wrong = bits != 0;
  return !bits || cuda_fill(&d->gpu, d->bad->at, 0, sizeof bits, fault);
}

static bool run_passes(const Graph *g, Device *d, const Cluster *c,
                       CudaProgram *p, Run *run, bool *wrong, Fault *fault) {
  if (!cuda_program_ready(p, d, fault) ||
      !place_inputs(d, c, p->out_count, run, fault) ||
      !place_outs(g, d, c, p, run, fault) || !place_rest(d, p, run, fault))
    return false;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++)
    if (!launch(d, c, p, j, run, fault))
      return false;
  if (p->kernel.checks && !look(d, wrong, fault))
    return false;
  return !g->watch || cuda_wait(&d->gpu, fault);
}

static bool run_kernel(const Graph *g, Device *d, Cluster *c, bool *wrong,
                       Fault *fault) {
  CudaProgram *p = c->backend;
  Run run = {0};
  resident_begin();
  bool good = run_passes(g, d, c, p, &run, wrong, fault);
  for (uint32_t j = 0; good && !*wrong && j < p->out_count; j++)
    c->nodes.at[p->outs[j]]->data = tensor_retain(run.outs[j]);
  end_run(d, &run);
  return good;
}

/* ---- all else ---- */

/* Copies to the host are not timed. */
static bool all_out(Device *d, Fault *fault) {
  return device_clock(d, false, fault) && resident_all_out(&d->gpu, fault);
}

static bool run_locked(Graph *g, Cluster *c, bool *host, Fault *fault) {
  Device *d = device_get(fault);
  bool wrong = false;
  *host = false;
  if (!d)
    return false;
  if (c->backend) {
    if (!run_kernel(g, d, c, &wrong, fault))
      return false;
    if (!wrong)
      return true;
    c->interpreted = "an index or divisor is wrong";
  }
  *host = true;
  return all_out(d, fault);
}

static bool run(Graph *g, Cluster *c, Span *where, Fault *fault) {
  bool host;
  if (g->interrupt && *g->interrupt)
    trap_raise(FAIL_INTERRUPT);
  device_lock();
  bool good = run_locked(g, c, &host, fault);
  device_unlock();
  return good && (!host || backend_reference.run(g, c, where, fault));
}

static bool settle(Graph *g, Fault *fault) {
  (void)g;
  device_lock();
  Device *d = device_get(fault);
  bool good = d && all_out(d, fault);
  device_unlock();
  return good;
}

const Backend backend_cuda = {.name = "cuda",
                              .kernels = true,
                              .prepare = prepare,
                              .run = run,
                              .settle = settle,
                              .describe = cuda_describe};
