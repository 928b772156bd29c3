/* Limits of the machine, measured. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "machine/internal.h"
#include "runtime/pool.h"
#include "support/support.h"

enum {
  TRIALS = 4, /* of which the best counts: others may be at work too */
  FORKS = 2000,
  PIECE = 256, /* bytes that kernels go by */
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

static void multiply(Job *j, MachineLimits *out) {
  j->what = MULTIPLY;
  both(j, j->kernels.operations, out->fma);
  if (j->kernels.multiply_bf16) {
    j->what = MULTIPLY_BF16;
    both(j, j->kernels.operations_bf16, out->bf16);
  }
}

/* What of a level all threads have room for, halves of it: other data are
 * there too.  Of memory: more than caches hold. */
static size_t room(int level, size_t most) {
  const Machine *m = machine();
  size_t threads = (size_t)pool_threads(), bytes;
  if (level == LEVEL_MEMORY)
    bytes = most / threads;
  else if (level == LEVEL_3)
    bytes = m->cache[2] / 2 / threads;
  else
    bytes = m->cache[level] / 2;
  return bytes / (2 * PIECE) * (2 * PIECE);
}

static void move(Job *j, size_t most, MachineLimits *out) {
  for (int level = 0; level < LEVEL_COUNT; level++) {
    j->bytes = room(level, most);
    if (!j->bytes)
      continue;
    j->what = READ;
    both(j, (double)j->bytes, out->read[level]);
    j->what = COPY;
    both(j, (double)j->bytes, out->copy[level]);
  }
  j->what = STREAM; /* of the last one, memory */
  both(j, (double)j->bytes, out->stream);
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
  const Machine *m = machine();
  size_t least = (size_t)64 << 20, most = (size_t)256 << 20;
  size_t bytes = 3 * m->cache[2] < least ? least : 3 * m->cache[2];
  bytes = bytes > most ? most : bytes;
  char *memory = mem_try_alloc(bytes + 64);
  if (!memory)
    return false;
  *out = (MachineLimits){.measured = true, .threads = pool_threads()};
  Job j = {.kernels = machine_kernels(m->vector), .what = TOUCH};
  j.memory = memory + (-(uintptr_t)memory & 63);
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
