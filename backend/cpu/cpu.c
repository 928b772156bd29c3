/* The CPU backend: clusters as compiled kernels, on all cores.  What is small
 * is not worth a compiler, and what cannot be emitted is rare: the reference
 * backend does both, and tells what went wrong where a kernel found that
 * something did. */
#include "backend/cpu/cpu.h"

#include "runtime/pool.h"
#include "tensor/watch.h"

#include <stdlib.h>
#include <stdio.h>
#include <time.h>
#include <string.h>

enum {
  GRAIN_WORK = 1 << 15,   /* operations that a thread takes at a time */
  QUICKER_WORK = 4 << 20, /* interpreted in the time of one compilation */
  POINTERS = 96,
};

/* ---- before it runs ---- */

static double work_of(const Kernel *k) {
  double work = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    double each = loop->steps.len;
    for (uint32_t v = 0; v < loop->axes; v++)
      each *= (double)loop->extents[v];
    work += each;
  }
  return work;
}

static void prepare_one(const Graph *g, Cluster *c) {
  Kernel *k = c->kernel;
  if (!k)
    return;
  if (work_of(k) < (double)g->least_work) {
    c->interpreted = "too little work to compile";
    return;
  }
  Prepared *p = NEW(k->arena, Prepared);
  schedule_choose(k, &p->schedule);
  c->interpreted = "there is no C for something in it yet";
  if (!emit_kernel(k, &p->schedule, NULL, &p->emitted))
    return;
  c->interpreted = "it has too many inputs and results";
  if (k->inputs.len + p->emitted.call.outs.len > POINTERS)
    return;
  c->interpreted = NULL;
  p->work = work_of(k);
  if (!g->watch || !g->watch->dry)
    p->object = object_request(p->emitted.text.text, p->emitted.text.len);
  c->backend = p;
  if (getenv("AXON_PLAN")) { Buffer b = {0}; kernel_print(&b, k); fprintf(stderr, "shape %d block %ld height %ld units %ld room %zu work %.0f\n%s", p->schedule.shape, (long)p->schedule.block, (long)p->schedule.height, (long)p->emitted.call.units, p->emitted.call.room, p->work, b.text); buffer_free(&b); }
}

static void prepare(Graph *g, uint32_t count, Cluster *const *clusters) {
  for (uint32_t k = 0; k < count; k++)
    prepare_one(g, clusters[k]);
}

/* ---- running ---- */

typedef struct Job {
  KernelFunction *function;
  void *pointers[POINTERS];
  const int64_t *ints;
  const double *floats;
  size_t room;
} Job;

static int work_on(void *context, int64_t begin, int64_t end) {
  const Job *job = context;
  char *room = job->room ? pool_scratch(job->room) : NULL;
  if (job->room && !room)
    return 1;
  return job->function(job->pointers, job->ints, job->floats, begin, end, room);
}

static int64_t grain_of(const Prepared *p) {
  int64_t units = p->emitted.call.units;
  double each = p->work / (double)units;
  return each >= GRAIN_WORK ? 1 : (int64_t)(GRAIN_WORK / each) + 1;
}

static int run_job(Graph *g, const Prepared *p, Job *job) {
  return pool_run(p->emitted.call.units, grain_of(p), work_on, job,
                  g->interrupt);
}

/* The sums of chunks, then their sum. */
static int run_chunks(Graph *g, const Prepared *p, Job *job) {
  const Call *call = &p->emitted.call;
  Fault ignored = {0};
  int64_t count = node_count(call->outs.at[0]->node);
  int64_t partial = count * call->chunks;
  Tensor *parts = tensor_new(call->accumulator, 1, &partial, false, &ignored);
  if (!parts)
    return 1;
  void *out = job->pointers[0];
  job->pointers[0] = parts->data;
  int bad = run_job(g, p, job);
  Job adding = {.function =
                    (KernelFunction *)object_function(p->object, "fold"),
                .pointers = {out, parts->data},
                .ints = (int64_t[]){call->chunks, call->inner}};
  if (!bad)
    bad = pool_run(count, GRAIN_WORK, work_on, &adding, g->interrupt);
  tensor_release(parts);
  return bad;
}

static int run_kernel(Graph *g, const Kernel *k, const Prepared *p,
                      Tensor *const *outs) {
  const Call *call = &p->emitted.call;
  KernelFunction *f = (KernelFunction *)object_function(p->object, "kernel");
  if (!f)
    return 1;
  Job job = {.function = f,
             .ints = call->ints.at,
             .floats = call->floats.at,
             .room = call->room};
  for (uint32_t j = 0; j < call->outs.len; j++)
    job.pointers[j] = outs[j]->data;
  for (uint32_t j = 0; j < k->inputs.len; j++)
    job.pointers[call->outs.len + j] = k->inputs.at[j]->data->data;
  struct timespec t0, t1, w0, w1;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
  clock_gettime(CLOCK_MONOTONIC, &w0);
  int r = p->schedule.chunk ? run_chunks(g, p, &job) : run_job(g, p, &job);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
  clock_gettime(CLOCK_MONOTONIC, &w1);
  if (getenv("AXON_TIME")) fprintf(stderr, "  shape %d loops %u units %ld work %.0f: cpu %.3f wall %.3f ms\n", p->schedule.shape, k->loops.len, (long)call->units, p->work, (t1.tv_sec - t0.tv_sec) * 1e3 + (t1.tv_nsec - t0.tv_nsec) * 1e-6, (w1.tv_sec - w0.tv_sec) * 1e3 + (w1.tv_nsec - w0.tv_nsec) * 1e-6);
  return r;
}

typedef struct Run {
  uint32_t count;
  Tensor *outs[POINTERS];
} Run;

static void drop(Run *run) {
  for (uint32_t j = 0; j < run->count; j++)
    tensor_release(run->outs[j]);
  run->count = 0;
}

static bool make_outs(const Graph *g, const Call *call, Run *run) {
  Fault ignored = {0};
  for (uint32_t j = 0; j < call->outs.len; j++) {
    const Node *n = call->outs.at[j]->node;
    Tensor *t = node_fits_memory(g, n, &ignored)
                    ? tensor_new(n->dtype, n->free_count + n->rank, n->extents,
                                 false, &ignored)
                    : NULL;
    if (!t)
      return false;
    t->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
    run->outs[run->count++] = t;
  }
  return true;
}

static bool run_prepared(Graph *g, Cluster *c) {
  const Prepared *p = c->backend;
  const Call *call = &p->emitted.call;
  Run run = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    drop(&run);
    trap_raise(trap.kind);
  }
  bool good =
      make_outs(g, call, &run) && run_kernel(g, c->kernel, p, run.outs) == 0;
  if (g->interrupt && *g->interrupt)
    trap_raise(FAIL_INTERRUPT);
  trap_end(&trap);
  for (uint32_t j = 0; good && j < call->outs.len; j++)
    call->outs.at[j]->node->data = tensor_retain(run.outs[j]);
  drop(&run);
  return good;
}

/* Would the reference backend be done before the compiler? */
static bool is_quicker_interpreted(const Graph *g, const Prepared *p) {
  return p->work < QUICKER_WORK && g->least_work > 0 &&
         !object_ready(p->object);
}

static bool run(Graph *g, Cluster *c, Span *where, Fault *fault) {
  const Prepared *p = c->backend;
  if (p && !is_quicker_interpreted(g, p) && run_prepared(g, c))
    return true;
  if (p)
    c->interpreted = "it was not compiled, or an index or divisor is wrong";
  struct timespec w0, w1;
  clock_gettime(CLOCK_MONOTONIC, &w0);
  bool r_ = backend_reference.run(g, c, where, fault);
  clock_gettime(CLOCK_MONOTONIC, &w1);
  if (getenv("AXON_TIME")) fprintf(stderr, "  REFERENCE %d work %.0f wall %.3f ms\n", p != NULL, p ? p->work : 0, (w1.tv_sec - w0.tv_sec) * 1e3 + (w1.tv_nsec - w0.tv_nsec) * 1e-6);
  return r_;
}

const Backend backend_cpu = {
    .name = "cpu", .kernels = true, .prepare = prepare, .run = run,
    .describe = cpu_describe};
