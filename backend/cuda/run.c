/* The target `cuda`: clusters as kernels on the GPU, one after the other on its
 * stream, their results staying there (resident.h).  What has neither kernel
 * nor routine the host does, with what it reads copied there: by a routine of
 * the CPU, or by the reference backend, which also tells what is amiss where a
 * kernel found that something is. */
#include "backend/cpu/routines.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/program.h"
#include "backend/cuda/resident.h"
#include "tensor/watch.h"

#include <string.h>

/* What is not computed again of a row lies in scratch memory. */
enum { ROW_MOST = 512 << 10 };

/* ---- before it runs ---- */

static bool has_rows(const Kernel *k) {
  Fault ignored = {0}; /* running tells it */
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  const Device *d = device_get(&ignored);
  bool has = d && cuda_keeps_no_rows(k, &d->target);
  trap_end(&trap);
  device_unlock();
  return has;
}

static double routine_work(const Node *n) {
  double work = (double)node_count(n);
  for (uint32_t k = 0; k < n->input_count; k++)
    work += (double)node_count(n->inputs[k]);
  return work;
}

static void prepare_one(const Graph *g, Cluster *c, const Device *d) {
  c->routine = routine_has(c->nodes.at[0]);
  if (!c->kernel && !c->routine)
    return;
  double work =
      c->routine ? routine_work(c->nodes.at[0]) : kernel_work(c->kernel);
  c->interpreted = NULL;
  if (!g->often && work < (double)g->least_work)
    c->interpreted = c->routine ? NULL : "too little work to compile";
  else if (!(c->backend = cuda_program_of(c, d)) && !c->routine)
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
  CudaBlock *scratch, *far; /* far: arguments, of which are filled in: */
  size_t far_used;
  uint64_t pointers[POINTERS + 2];
} Run;

static void end_run(Device *d, Run *run) {
  for (uint32_t j = 0; j < run->count; j++)
    tensor_release(run->outs[j]);
  cuda_memory_give(d->memory, run->scratch);
  cuda_memory_give(d->memory, run->far);
}

static bool place_inputs(Device *d, const Cluster *c, uint32_t outs, Run *run,
                         Fault *fault) {
  const Node *n = c->nodes.at[0];
  uint32_t count = c->routine ? n->input_count : c->kernel->inputs.len;
  for (uint32_t j = 0; j < count; j++) {
    const Node *x = c->routine ? n->inputs[j] : c->kernel->inputs.at[j];
    if (!resident_in(d->memory, &d->gpu, x->data, &run->pointers[outs + j],
                     fault))
      return false;
  }
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

/* 0: the driver takes them. */
static size_t far_bytes(const CudaKernel *k, const CudaPass *p) {
  size_t bytes = cuda_argument_bytes(k, p);
  return cuda_is_far(k, p)
             ? (bytes + ARGUMENTS_LINE - 1) / ARGUMENTS_LINE * ARGUMENTS_LINE
             : 0;
}

static bool place_far(Device *d, const CudaProgram *p, Run *run, Fault *fault) {
  int64_t size = 0;
  for (uint32_t j = 0; j < p->kernel.passes.len; j++)
    size += (int64_t)far_bytes(&p->kernel, p->kernel.passes.at[j]);
  const CudaUse use = {.name = "the arguments of kernels",
                       .dtype = DT_U8,
                       .rank = 1,
                       .shape = &size};
  if (size)
    run->far = resident_take(d->memory, (size_t)size, &use, fault);
  return !size || run->far;
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
  return place_far(d, p, run, fault);
}

static void fill(const Cluster *c, const CudaProgram *p, const CudaPass *pass,
                 const Run *run, void *arguments) {
  const Call *call = &pass->emitted.call;
  double floats[call->floats.len + 1];
  for (uint32_t j = 0; j < call->floats.len; j++)
    floats[j] = param_value((Scalar){.dtype = DT_F64, .f = call->floats.at[j]},
                            c->params)
                    .f;
  cuda_arguments(&p->kernel, pass, run->pointers, floats, c->keys, arguments);
}

/* Arguments that are too many for the driver, in memory; `arguments` is where
 * they lie. */
static bool fill_far(Device *d, const Cluster *c, const CudaProgram *p,
                     const CudaPass *pass, Run *run, void *arguments,
                     Fault *fault) {
  size_t size = cuda_argument_bytes(&p->kernel, pass);
  CuAddress at = run->far->at + run->far_used;
  char *bytes = mem_try_aligned(ARGUMENTS_LINE, far_bytes(&p->kernel, pass));
  if (!bytes) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return false;
  }
  fill(c, p, pass, run, bytes);
  run->far_used += far_bytes(&p->kernel, pass);
  memcpy(arguments, &at, sizeof at);
  bool good = cuda_copy_in(&d->gpu, at, bytes, size, fault);
  mem_free(bytes);
  return good;
}

static bool launch(Device *d, const Cluster *c, CudaProgram *p, uint32_t at,
                   Run *run, Fault *fault) {
  CudaPass *pass = p->kernel.passes.at[at];
  Call *call = &pass->emitted.call;
  for (uint32_t j = 0; pass->key && j < 2; j++)
    call->ints.at[pass->key - 1 + j] = (int64_t)c->nodes.at[0]->key.word[j];
  bool far = cuda_is_far(&p->kernel, pass);
  _Alignas(ARGUMENTS_LINE) char arguments[ARGUMENTS_MOST];
  int64_t blocks = pass->blocks;
  if (pass->grid_most && blocks > pass->grid_most)
    blocks = pass->grid_most;
  if (blocks > INT32_MAX) {
    fault_set_kind(fault, FAULT_MEMORY, "more blocks than a GPU starts");
    return false;
  }
  if (far && !fill_far(d, c, p, pass, run, arguments, fault))
    return false;
  if (!far)
    fill(c, p, pass, run, arguments);
  void *pointers[] = {arguments};
  const CudaLaunch how = {.function = p->functions[at],
                          .name = pass->name,
                          .grid = {(unsigned)blocks, 1, 1},
                          .block = {pass->s.threads, 1, 1},
                          .shared = (unsigned)pass->shared,
                          .arguments = pointers,
                          .bytes = far ? sizeof(CuAddress)
                                       : cuda_argument_bytes(&p->kernel, pass)};
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

static bool node_out(Device *d, const Node *n, Fault *fault) {
  return !n || !n->data || resident_out(&d->gpu, n->data, fault);
}

/* What the host reads to do it. */
static bool bring_out(Device *d, const Cluster *c, Fault *fault) {
  bool good = true;
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const Node *n = c->nodes.at[k];
    good = good && node_out(d, n->guard, fault);
    for (uint32_t j = 0; good && j < n->input_count; j++)
      good = node_out(d, n->inputs[j], fault);
    for (uint32_t j = 0; good && j < n->cell_count; j++)
      if (n->cells[j].kind == CELL_READ)
        good = node_out(d, n->cells[j].node, fault);
  }
  return good;
}

static bool run_there(Graph *g, Cluster *c, bool *done, Fault *fault) {
  Device *d = device_get(fault);
  bool wrong = false;
  *done = false;
  if (!d || !c->backend)
    return d != NULL;
  if (!run_kernel(g, d, c, &wrong, fault))
    return false;
  if (wrong)
    c->interpreted = "an index or divisor is wrong";
  *done = !wrong;
  return true;
}

static bool locked(Graph *g, Cluster *c, bool *done, Fault *fault) {
  device_lock();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    device_unlock();
    trap_raise(trap.kind);
  }
  bool good = run_there(g, c, done, fault);
  if (good && !*done) {
    cluster_bodies(c);
    Device *d = device_get(fault);
    good = d && device_clock(d, false, fault) && bring_out(d, c, fault);
  }
  trap_end(&trap);
  device_unlock();
  return good;
}

static bool run(Graph *g, Cluster *c, Span *where, Fault *fault) {
  bool done;
  if (g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
  if (!locked(g, c, &done, fault))
    return false;
  return done || (c->routine && routine_run(g, c->nodes.at[0])) ||
         backend_reference.run(g, c, where, fault);
}

static bool settle(Graph *g, Fault *fault) {
  (void)g;
  device_lock();
  Device *d = device_get(fault);
  bool good = d && device_clock(d, false, fault) && /* copies are not timed */
              resident_all_out(&d->gpu, fault);
  device_unlock();
  return good;
}

const Backend backend_cuda = {.name = "cuda",
                              .kernels = true,
                              .has_rows = has_rows,
                              .row_most = ROW_MOST,
                              .prepare = prepare,
                              .run = run,
                              .settle = settle,
                              .describe = cuda_describe};
