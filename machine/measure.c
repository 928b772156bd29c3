/* Limits of the machine, measured. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "machine/internal.h"
#include "runtime/pool.h"
#include "support/support.h"

enum {
  TRIALS = 4, /* of which the best counts: others may be at work too */
  FORKS = 2000,
  PIECE = 256, /* bytes that kernels go by */
  PAGE = 2 << 20, /* of the large ones */
};
static const double trial = 2e-3; /* seconds */

typedef struct Job {
  MachineKernels kernels;
  enum { READ, COPY, STREAM, MULTIPLY, MULTIPLY_BF16, NOTHING, TOUCH } what;
  char *memory;
  size_t bytes;   /* of it, for each thread */
  int64_t rounds; /* over all of that; or of multiply */
  volatile float sink;
} Job;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The part of one thread. */
static void work(Job *j, int64_t thread) {
  const MachineKernels *k = &j->kernels;
  char *at = j->memory + (size_t)thread * j->bytes;
  size_t half = j->bytes / 2;
  switch (j->what) {
  case READ:
    for (int64_t i = 0; i < j->rounds; i++)
      j->sink = k->read(at, j->bytes);
    break;
  case COPY:
    for (int64_t i = 0; i < j->rounds; i++)
      k->copy(at + half, at, half);
    break;
  case STREAM:
    for (int64_t i = 0; i < j->rounds; i++)
      k->stream(at + half, at, half);
    break;
  case MULTIPLY:
    j->sink = k->multiply(j->rounds);
    break;
  case MULTIPLY_BF16:
    j->sink = k->multiply_bf16(j->rounds);
    break;
  case TOUCH:
    memset(at, 0, j->bytes);
    break;
  case NOTHING:
    break;
  }
}

static int work_on(void *context, int64_t begin, int64_t end) {
  for (int64_t thread = begin; thread < end; thread++)
    work(context, thread);
  return 0;
}

static double seconds(Job *j, int threads) {
  double start = now();
  pool_run(threads, 1, work_on, j, NULL);
  return now() - start;
}

/* As many rounds as one thread does in a trial. */
static void choose_rounds(Job *j) {
  double took = 0;
  for (j->rounds = 1; took < trial / 8; j->rounds *= 8) /* warms up, too */
    took = seconds(j, 1);
  j->rounds = (int64_t)((double)(j->rounds / 8) * trial / took) + 1;
}

/* Rounds a second, of each of the threads. */
static double rate(Job *j, int threads) {
  double least = seconds(j, threads);
  for (int i = 1; i < TRIALS; i++) {
    double took = seconds(j, threads);
    least = took < least ? took : least;
  }
  return (double)j->rounds / least;
}

/* `each`: what a round of one thread comes to. */
static void both(Job *j, double each, double out[2]) {
  int threads = pool_threads();
  choose_rounds(j);
  out[0] = each * rate(j, 1);
  out[1] = threads > 1 ? each * threads * rate(j, threads) : out[0];
}

/* The same, of memory moved; one thread alone has all of what is shared. */
static void both_moves(Job *j, size_t bytes, bool shared, double out[2]) {
  int threads = pool_threads();
  if (!shared) {
    j->bytes = bytes;
    both(j, (double)bytes, out);
    return;
  }
  j->bytes = bytes;
  choose_rounds(j);
  out[0] = (double)bytes * rate(j, 1);
  j->bytes = bytes / (size_t)threads / (2 * PIECE) * (2 * PIECE);
  out[1] = (double)j->bytes * threads * rate(j, threads);
}

static void multiply(Job *j, MachineLimits *out) {
  j->what = MULTIPLY;
  both(j, j->kernels.operations, out->fma);
  if (j->kernels.multiply_bf16) {
    j->what = MULTIPLY_BF16;
    both(j, j->kernels.operations_bf16, out->bf16);
  }
}

static void move(Job *j, size_t most, MachineLimits *out) {
  for (int level = 0; level < LEVEL_COUNT; level++) {
    bool memory = level == LEVEL_MEMORY, shared = level >= LEVEL_3;
    /* half of a cache: other data are there too */
    size_t bytes = memory ? most : machine()->cache[level] / 2;
    bytes = bytes / (2 * PIECE) * (2 * PIECE);
    if (!bytes)
      continue;
    j->what = READ;
    both_moves(j, bytes, shared, out->read[level]);
    j->what = COPY;
    both_moves(j, bytes, shared, out->copy[level]);
    if (!memory)
      continue;
    j->what = STREAM;
    both_moves(j, bytes, shared, out->stream);
  }
}

/* Much more than caches hold: two cores may have one each. */
static size_t enough_memory(void) {
  const Machine *m = machine();
  size_t least = (size_t)64 << 20, most = (size_t)512 << 20;
  size_t bytes = 8 * m->cache[2];
  bytes = bytes < least ? least : bytes > most ? most : bytes;
  return bytes < m->memory / 8 ? bytes : (size_t)(m->memory / 8);
}

static double fork_time(Job *j) {
  int threads = pool_threads();
  j->what = NOTHING;
  double best = 1, start = now(), last = start;
  for (int k = 0; k < FORKS && last - start < 4 * trial; k++) {
    pool_run(threads, 1, work_on, j, NULL);
    double end = now();
    best = end - last < best ? end - last : best;
    last = end;
  }
  return best;
}

bool machine_measure(MachineLimits *out) {
#ifdef __OPTIMIZE__
  size_t bytes = enough_memory() / PAGE * PAGE;
  char *memory = mem_try_alloc(bytes + PAGE);
  if (!memory)
    return false;
  *out = (MachineLimits){.measured = true, .threads = pool_threads()};
  Job j = {.kernels = machine_kernels(machine()->vector), .what = TOUCH};
  j.memory = memory + (-(uintptr_t)memory & (PAGE - 1));
  madvise(j.memory, bytes, MADV_HUGEPAGE); /* where there is such a thing */
  j.bytes = bytes / (size_t)out->threads;
  seconds(&j, out->threads);
  multiply(&j, out);
  move(&j, bytes, out);
  out->fork = fork_time(&j);
  mem_free(memory);
  return true;
#else
  (void)out;
  return false;
#endif
}
