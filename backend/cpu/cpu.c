/* The CPU backend: nodes as compiled kernels, on all cores.  What is small is
 * not worth a compiler, and what cannot be emitted is rare: the reference
 * backend does both, and tells what went wrong where a kernel found that
 * something did. */
#include "backend/cpu/contract.h"

#include "runtime/pool.h"

#include <stdlib.h>
#include <string.h>

enum { TINY_WORK = 20000, GRAIN_WORK = 1 << 15 };

typedef struct Job {
  KernelFunction *function;
  void *pointers[64];
  const int64_t *ints;
  const double *floats;
} Job;

typedef struct Compiled {
  KernelFunction *kernel;
  KernelFunction *fold;            /* of a split one */
  KernelFunction *pack_a, *pack_b; /* of a contraction */
} Compiled;

/* False: there is no compiler, or it does not take the text. */
static bool compile(const Emitted *e, Compiled *f) {
  Object *o = object_request(e->text.text, e->text.len);
  f->kernel = (KernelFunction *)object_function(o, "kernel");
  f->fold = (KernelFunction *)object_function(o, "fold");
  f->pack_a = (KernelFunction *)object_function(o, "pack_a");
  f->pack_b = (KernelFunction *)object_function(o, "pack_b");
  return f->kernel != NULL;
}

static int work_on(void *context, int64_t begin, int64_t end) {
  const Job *job = context;
  return job->function(job->pointers, job->ints, job->floats, begin, end);
}

static double work_of(const Node *n) {
  double work = n->cell_count;
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    work *= (double)n->extents[k];
  return work;
}

static bool is_worth_it(const Node *n) {
  if (n->kind != NODE_COMP || n->guard)
    return false;
  const char *least = getenv("AXON_TINY"); /* for tests: nothing is tiny */
  double work = work_of(n);
  return work > 0 && work >= (least ? atof(least) : TINY_WORK);
}

static int64_t grain_of(const Node *n, int64_t units) {
  double each = work_of(n) / (double)units;
  return each >= GRAIN_WORK ? 1 : (int64_t)(GRAIN_WORK / each) + 1;
}

static int run_job(Graph *g, const Node *n, Job *job, int64_t units) {
  return pool_run(units, grain_of(n, units), work_on, job, g->interrupt);
}

/* The sums of chunks, then their sum. */
static int run_split(Graph *g, const Node *n, const Emitted *e,
                     KernelFunction *fold, Job *job, Fault *fault) {
  int64_t count = node_count(n), partial = count * e->call.chunks;
  Tensor *parts = tensor_new(e->accumulator, 1, &partial, false, fault);
  if (!parts)
    return 1;
  void *out = job->pointers[0];
  job->pointers[0] = parts->data;
  int bad = run_job(g, n, job, e->call.units);
  Job adding = {.function = fold,
                .pointers = {out, parts->data},
                .ints = (int64_t[]){e->call.chunks, e->inner}};
  if (!bad)
    bad = pool_run(count, GRAIN_WORK, work_on, &adding, g->interrupt);
  tensor_release(parts);
  return bad;
}

static Job job_for(const Kernel *k, const Emitted *e, Tensor *out,
                   KernelFunction *function) {
  Job job = {.function = function,
             .ints = e->call.ints.at,
             .floats = e->call.floats.at};
  job.pointers[0] = out->data;
  for (uint32_t j = 0; j < k->inputs.len; j++)
    job.pointers[j + 1] = k->inputs.at[j]->data->data;
  return job;
}

/* Packs an operand, unless units do it: NULL with *bad set when that fails. */
static Tensor *pack(Graph *g, const Contraction *c, const Operand *o,
                    const Job *from, KernelFunction *function, uint32_t ints,
                    uint32_t floats, int *bad) {
  if (o->local || *bad)
    return NULL;
  Fault ignored = {0};
  int64_t count = o->units * o->panel;
  Tensor *t = tensor_new(o->pack->dtype, 1, &count, false, &ignored);
  *bad = !t;
  if (!t)
    return NULL;
  Job job = *from;
  job.function = function;
  job.pointers[0] = t->data;
  job.ints += ints;
  job.floats += floats;
  *bad = pool_run(o->units, GRAIN_WORK / o->panel + 1, work_on, &job,
                  g->interrupt);
  (void)c;
  return t;
}

static bool run_contraction(Graph *g, Arena *arena, const Contraction *c,
                            Tensor *out) {
  Emitted e;
  Compiled f;
  if (!contraction_emit(arena, c, &e) ||
      !compile(&e, &f))
    return false;
  Job job = job_for(c->k, &e, out, f.kernel);
  int bad = 0;
  Tensor *a = pack(g, c, &c->a, &job, f.pack_a, e.ints[0], e.floats[0], &bad);
  Tensor *b = pack(g, c, &c->b, &job, f.pack_b, e.ints[1], e.floats[1], &bad);
  job.pointers[c->k->inputs.len + 1] = a ? a->data : NULL;
  job.pointers[c->k->inputs.len + 2] = b ? b->data : NULL;
  int64_t each = c->block_m * c->block_n * c->depth;
  if (!bad)
    bad = pool_run(e.call.units, GRAIN_WORK / each + 1, work_on, &job,
                   g->interrupt);
  tensor_release(a);
  tensor_release(b);
  return bad == 0;
}

static bool run_kernel(Graph *g, Arena *arena, const Node *n, Tensor *out) {
  Kernel *k = kernel_new(arena, n);
  if (!k || k->inputs.len >= 60)
    return false;
  Contraction c;
  if (contraction_find(arena, k, &c))
    return run_contraction(g, arena, &c, out);
  Schedule s = schedule_choose(k);
  Emitted e;
  Compiled f;
  if (!emit_kernel(arena, k, &s, &e) ||
      !compile(&e, &f))
    return false;
  Job job = job_for(k, &e, out, f.kernel);
  Fault ignored = {0};
  int bad = s.split ? run_split(g, n, &e, f.fold, &job, &ignored)
                    : run_job(g, n, &job, e.call.units);
  return bad == 0;
}

typedef struct Run {
  Arena *arena;
  Tensor *out;
} Run;

static bool run_one(Graph *g, Node *n, Fault *fault) {
  Run run = {.arena = arena_new()};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(run.arena);
    tensor_release(run.out);
    trap_raise(trap.kind);
  }
  bool good = false;
  run.out =
      tensor_new(n->dtype, n->free_count + n->rank, n->extents, false, fault);
  if (run.out) {
    run.out->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
    good = run_kernel(g, run.arena, n, run.out);
    if (g->interrupt && *g->interrupt)
      trap_raise(FAIL_INTERRUPT);
  }
  trap_end(&trap);
  if (good)
    n->data = tensor_retain(run.out);
  arena_free(run.arena);
  tensor_release(run.out);
  return good;
}

static bool run(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                Fault *fault) {
  for (uint32_t k = 0; k < count; k++) {
    Node *n = nodes[k];
    Fault ignored = {0};
    *where = n->span;
    if (!n->data && is_worth_it(n) && run_one(g, n, &ignored))
      continue;
    if (!backend_reference.run(g, 1, &n, where, fault))
      return false;
  }
  return true;
}

const Backend backend_cpu = {"cpu", run};
