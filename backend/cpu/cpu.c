/* The CPU backend: clusters as compiled kernels, on all cores.  What is small
 * is not worth a compiler, and what cannot be emitted is rare: the reference
 * backend does both, and tells what went wrong where a kernel found that
 * something did. */
#include "backend/cpu/program.h"
#include "backend/cpu/routines.h"

#include "runtime/kept.h"
#include "runtime/pool.h"
#include "tensor/watch.h"

#include <stdlib.h>
#include <string.h>

enum {
  GRAIN_WORK = 1 << 15,   /* operations that a thread takes at a time, */
  GRAIN_MOST = 1 << 20,   /* and up to that, where there are so many that */
  GRAIN_PIECES = 8,       /* each thread still has so many pieces */
  WAKING_WORK = 2 << 20,  /* done alone while a thread wakes */
  /* Operations that the reference backend executes in the time of one
   * compilation. */
  QUICKER_WORK = 4 << 20,
  /* Factor on the compilation threshold of a kernel that delays the program
   * until it is compiled: about QUICKER_WORK for the default threshold. */
  DELAY_FACTOR = 200,
};

/* ---- before it runs ---- */

/* The compilation threshold, in operations.  It is low for a kernel that the
 * reference backend may execute while the compiler runs, and high for one that
 * delays the program until it is compiled. */
static double compiled_work(const Graph *g, const Cluster *c) {
  return (double)g->least_work * (cluster_is_exact(c) ? 1 : DELAY_FACTOR);
}

static void prepare_one(const Graph *g, Cluster *c) {
  bool dry = g->watch && g->watch->dry;
  c->routine = routine_has(c->nodes.at[0]);
  if (c->routine)
    c->interpreted = NULL;
  if (!c->kernel)
    return;
  if (!g->often && kernel_work(c->kernel) < compiled_work(g, c))
    c->interpreted = "too little work to compile";
  else if (!dry && !(c->backend = (void *)(uintptr_t)program_of(c)))
    c->interpreted = "there is no C for something in it yet";
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
  bool backward;
  Flag *stop;
} Job;

static int work_on(void *context, int64_t begin, int64_t end) {
  const Job *job = context;
  char *room = job->room ? pool_scratch(job->room) : NULL;
  if (job->room && !room)
    return 1;
  return job->function(job->pointers, job->ints, job->floats, begin, end, room);
}

/* To take a piece costs as much as thousands of operations do where these are
 * of whole vectors.  Each thread begins with as many pieces as any other, and
 * so, where there are few, they are of a size that allows that. */
static int64_t grain_of(const Program *p) {
  double each = p->work / (double)p->units;
  each = each >= 1 ? each : 1;
  int64_t least = each >= GRAIN_WORK ? 1 : (int64_t)(GRAIN_WORK / each) + 1;
  int64_t most = (int64_t)(GRAIN_MOST / each);
  int64_t fair = p->units / ((int64_t)pool_threads() * GRAIN_PIECES);
  int64_t grain = fair < most ? fair : most;
  grain = grain > least ? grain : least;
  int64_t pieces = divide_up(p->units, grain);
  return pieces > 1 ? divide_up(p->units, round_up(pieces, pool_threads()))
                    : grain;
}

/* So little that one thread is done before others wake? */
static bool is_for_one(const Program *p, int64_t grain) {
  int64_t pieces = p->units / grain + (p->units % grain > 0);
  return p->work < WAKING_WORK && !pool_is_awake(pieces);
}

static int run_job(const Program *p, Job *job) {
  int64_t grain = grain_of(p);
  if (is_for_one(p, grain))
    grain = p->units;
  if (p->shared)
    return pool_run(p->units, grain, work_on, job, job->stop);
  return (job->backward ? pool_run_back : pool_run_apart)(
      p->units, grain, work_on, job, job->stop);
}

/* The sums of chunks, then their sum. */
static int run_chunks(const Program *p, const Node *n, Job *job) {
  Fault ignored = {0};
  int64_t count = node_count(n), partial[] = {p->chunks, count};
  int64_t shape[] = {p->chunks << p->places, count};
  Tensor *parts = tensor_new(p->accumulator, 2, shape, false, &ignored);
  if (!parts)
    return 1;
  void *out = job->pointers[0];
  job->pointers[0] = parts->data;
  int bad = run_job(p, job);
  Job adding = {.function =
                    (KernelFunction *)object_function(p->object, "fold"),
                .pointers = {out, parts->data},
                .ints = partial};
  if (!bad)
    bad = pool_run(count, GRAIN_WORK / p->chunks + 1, work_on, &adding,
                   job->stop);
  tensor_release(parts);
  return bad;
}

static void fill_params(const Cluster *c, const Program *p, double *floats) {
  for (uint32_t j = 0; j < p->float_count; j++) {
    Scalar x = {.dtype = DT_F64, .f = p->floats[j]};
    floats[j] = param_value(x, c->params).f;
  }
}

static void fill_keys(const Cluster *c, const Program *p, int64_t *ints) {
  memcpy(ints, p->ints, p->int_count * sizeof *ints);
  for (uint32_t j = 0; j < p->key_count; j++) {
    const KeyWord *w = &p->keys[j];
    ints[w->at] = (int64_t)key_value(key_mark(w->key), c->keys).word[w->word];
  }
}

/* ---- operands that are kept ---- */

typedef struct Making {
  const Program *program;
  const Job *job;
  uint32_t at, pointer;
} Making;

static bool make_kept(void *context, void *to) {
  const Making *m = context;
  const Keeping *k = &m->program->keepings[m->at];
  char name[16];
  snprintf(name, sizeof name, "keep%u", m->at);
  Job job = *m->job;
  job.function = (KernelFunction *)object_function(m->program->object, name);
  job.pointers[m->pointer] = to;
  job.room = 0;
  return job.function &&
         pool_run(k->panels, 1, work_on, &job, job.stop) == 0;
}

/* Those that are there, or are to be from now on. */
static void take_kept(const Cluster *c, const Program *p, Job *job,
                      Kept **kept) {
  for (uint32_t j = 0; j < p->keeping_count; j++) {
    const Keeping *k = &p->keepings[j];
    Making making = {p, job, j, p->out_count + c->kernel->inputs.len + j};
    const Node *x = c->kernel->inputs.at[k->input];
    ArtifactKey form =
        kept_form_at(k->form, k->from * dtype_info[x->dtype].bytes);
    kept[j] = NULL;
    if (k->pays || kept_is_at_once())
      kept[j] =
          kept_take(x->data, &form, (size_t)k->bytes, make_kept, &making);
    job->pointers[making.pointer] =
        kept[j] ? (void *)(uintptr_t)kept_data(kept[j]) : NULL;
  }
}

static void end_kept(const Program *p, Kept *const *kept) {
  for (uint32_t j = 0; j < p->keeping_count; j++)
    if (kept[j])
      kept_done(kept[j]);
}

static int run_kernel(const Cluster *c, const Program *p, Tensor *const *outs,
                      Flag *stop) {
  const Kernel *k = c->kernel;
  double floats[p->float_count + 1];
  int64_t ints[p->key_count ? p->int_count : 1];
  KernelFunction *f = object_kernel(p->object);
  if (!f)
    return 1;
  fill_params(c, p, floats);
  Job job; /* not cleared: it has room for the most pointers */
  job.function = f;
  job.ints = p->ints;
  job.floats = floats;
  job.room = p->room;
  job.stop = stop;
  job.backward = c->backward;
  if (p->key_count) {
    fill_keys(c, p, ints);
    job.ints = ints;
  }
  for (uint32_t j = 0; j < p->out_count; j++)
    job.pointers[j] = outs[j]->data;
  for (uint32_t j = 0; j < k->inputs.len; j++)
    job.pointers[p->out_count + j] = k->inputs.at[j]->data->data;
  Kept *kept[POINTERS];
  take_kept(c, p, &job, kept);
  int bad = p->chunked ? run_chunks(p, c->nodes.at[p->outs[0]], &job)
                       : run_job(p, &job);
  end_kept(p, kept);
  return bad;
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

/* Its memory may be another tensor's from now on. */
static bool is_to_take(const Tensor *t) {
  return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1 && !t->borrowed &&
         !t->mapped && !t->device && t->data == t->block;
}

/* An input that dies with this kernel, and may become its result.  A program
 * is of all kernels with its text, so that inputs may have more elements than
 * it reads. */
static Node *input_to_take(const Cluster *c, const Program *p) {
  int64_t count = p->over ? node_count(c->nodes.at[p->outs[0]]) : 0;
  for (uint32_t j = 0; c->dying && p->over >> j; j++)
    if (p->over >> j & 1 && c->dying[j] &&
        c->kernel->inputs.at[j]->data->count == count &&
        is_to_take(c->kernel->inputs.at[j]->data))
      return (Node *)c->kernel->inputs.at[j];
  return NULL;
}

/* A kernel that writes over what it reads is not stopped, so that there is
 * either all of that or all of the result. */
static bool run_over(const Cluster *c, const Program *p, Node *x) {
  Node *n = c->nodes.at[p->outs[0]];
  if (x->data->kept)
    kept_drop(x->data);
  if (run_kernel(c, p, &x->data, NULL) != 0)
    return false;
  n->data = x->data;
  x->data = NULL; /* and it goes, when n has let go of it */
  n->data->dtype = n->dtype;
  n->data->rank = n->free_count + n->rank;
  memcpy(n->data->shape, n->extents, n->data->rank * sizeof *n->extents);
  n->data->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
  return true;
}

static bool make_outs(const Graph *g, const Cluster *c, const Program *p,
                      Run *run) {
  Fault ignored = {0};
  for (uint32_t j = 0; j < p->out_count; j++) {
    const Node *n = c->nodes.at[p->outs[j]];
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
  const Program *p = c->backend;
  Run run;
  run.count = 0;
  Node *x = g->keeps_inputs ? NULL : input_to_take(c, p);
  if (x)
    return run_over(c, p, x);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    drop(&run);
    trap_raise(trap.kind);
  }
  bool good =
      make_outs(g, c, p, &run) && run_kernel(c, p, run.outs, g->interrupt) == 0;
  if (g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
  trap_end(&trap);
  for (uint32_t j = 0; good && j < p->out_count; j++)
    c->nodes.at[p->outs[j]]->data = tensor_retain(run.outs[j]);
  drop(&run);
  return good;
}

bool program_is_interpreted(const Graph *g, const Program *p) {
  return p->exact && p->work < QUICKER_WORK && g->least_work > 0 &&
         !object_ready(p->object);
}

static bool run(Graph *g, Cluster *c, Span *where, Fault *fault) {
  const Program *p = c->backend;
  if (c->routine && routine_run(g, c->nodes.at[0]))
    return true;
  if (c->routine)
    c->interpreted = "an index is wrong, or there is no memory";
  if (p && !program_is_interpreted(g, p) && run_prepared(g, c))
    return true;
  if (p)
    c->interpreted = "it was not compiled, or an index or divisor is wrong";
  return backend_reference.run(g, c, where, fault);
}

const Backend backend_cpu = {.name = "cpu",
                             .kernels = true,
                             .parts = true,
                             .prepare = prepare,
                             .run = run,
                             .describe = cpu_describe};
