/* Measures the peak rates of the machine. */
#include <string.h>

#include "machine/internal.h"
#include "runtime/thread_pool.h"
#include "support/clock.h"
#include "support/mem.h"

enum {
  TRIALS = 4, /* measurements; the best counts, since other programs may run */
  FORK_TRIALS = 2000,
  KERNEL_STEP_BYTES = 256, /* bytes per step of a kernel */
  /* bytes of memory, as last caches: two cores may have one cache each */
  MEASURED_CACHES = 8,
};
static const double trial_seconds = 2e-3; /* seconds of one measurement */

typedef struct Benchmark {
  Microbenchmarks kernels;
  enum {
    BENCH_READ,
    BENCH_COPY,
    BENCH_NONTEMPORAL_COPY,
    BENCH_FMA,
    BENCH_DOT_BF16,
    BENCH_FORK_JOIN,
    BENCH_FIRST_TOUCH
  } kind;
  char *buffer;
  size_t bytes_per_thread; /* bytes of the buffer of each thread */
  int64_t rounds;          /* passes over the buffer, or rounds of multiply */
  volatile float sink;
} Benchmark;

/* Runs the part of one thread. */
static void run_one_thread(Benchmark *j, int64_t thread) {
  const Microbenchmarks *k = &j->kernels;
  char *at = j->buffer + (size_t)thread * j->bytes_per_thread;
  size_t half = j->bytes_per_thread / 2;
  switch (j->kind) {
  case BENCH_READ:
    for (int64_t i = 0; i < j->rounds; i++)
      j->sink = k->read(at, j->bytes_per_thread);
    break;
  case BENCH_COPY:
    for (int64_t i = 0; i < j->rounds; i++)
      k->copy(at + half, at, half);
    break;
  case BENCH_NONTEMPORAL_COPY:
    for (int64_t i = 0; i < j->rounds; i++)
      k->nontemporal_copy(at + half, at, half);
    break;
  case BENCH_FMA:
    j->sink = k->multiply_add(j->rounds);
    break;
  case BENCH_DOT_BF16:
    j->sink = k->dot_bf16(j->rounds);
    break;
  case BENCH_FIRST_TOUCH:
    memset(at, 0, j->bytes_per_thread);
    break;
  case BENCH_FORK_JOIN:
    break;
  }
}

static int run_threads(void *context, int64_t begin, int64_t end) {
  for (int64_t thread = begin; thread < end; thread++)
    run_one_thread(context, thread);
  return 0;
}

static double time_run(Benchmark *j, int threads) {
  double start = clock_seconds();
  thread_pool_parallel_for(threads, 1, run_threads, j, NULL);
  return clock_seconds() - start;
}

/* Finds the number of rounds that one thread completes in one measurement. */
static void calibrate_rounds(Benchmark *j) {
  double elapsed = 0;
  for (j->rounds = 1; elapsed < trial_seconds / 8;
       j->rounds *= 8) /* also warms up */
    elapsed = time_run(j, 1);
  j->rounds = (int64_t)((double)(j->rounds / 8) * trial_seconds / elapsed) + 1;
}

/* Rounds per second of each thread; the best of all measurements. */
static double best_rounds_per_second(Benchmark *j, int threads) {
  double min = time_run(j, threads);
  for (int i = 1; i < TRIALS; i++) {
    double elapsed = time_run(j, threads);
    min = elapsed < min ? elapsed : min;
  }
  return (double)j->rounds / min;
}

/* Measures one thread and all threads. per_round: the amount of one thread's
 * round. */
static void measure_one_and_all(Benchmark *j, double per_round, double out[2]) {
  int threads = thread_pool_size();
  calibrate_rounds(j);
  out[0] = per_round * best_rounds_per_second(j, 1);
  out[1] = threads > 1
               ? per_round * threads * best_rounds_per_second(j, threads)
               : out[0];
}

/* Measures memory traffic.  A single thread has all of a shared cache. */
static void measure_traffic(Benchmark *j, size_t bytes, bool shared,
                            double out[2]) {
  int threads = thread_pool_size();
  if (!shared) {
    j->bytes_per_thread = bytes;
    measure_one_and_all(j, (double)bytes, out);
    return;
  }
  j->bytes_per_thread = bytes;
  calibrate_rounds(j);
  out[0] = (double)bytes * best_rounds_per_second(j, 1);
  j->bytes_per_thread = bytes / (size_t)threads / (2 * KERNEL_STEP_BYTES) *
                        (2 * KERNEL_STEP_BYTES);
  out[1] = (double)j->bytes_per_thread * threads *
           best_rounds_per_second(j, threads);
}

static void measure_flops(Benchmark *j, PeakRates *out) {
  j->kind = BENCH_FMA;
  measure_one_and_all(j, j->kernels.flops_per_round, out->f32_flops);
  if (j->kernels.dot_bf16) {
    j->kind = BENCH_DOT_BF16;
    measure_one_and_all(j, j->kernels.bf16_flops_per_round, out->bf16_flops);
  }
}

static void measure_bandwidth(Benchmark *j, size_t max_bytes, PeakRates *out) {
  for (int level = 0; level < LEVEL_COUNT; level++) {
    bool memory = level == LEVEL_DRAM, shared = level >= LEVEL_L3;
    /* half of the cache: it also holds other data */
    size_t bytes = memory ? max_bytes : machine()->cache_bytes[level] / 2;
    bytes = bytes / (2 * KERNEL_STEP_BYTES) * (2 * KERNEL_STEP_BYTES);
    if (!bytes)
      continue;
    j->kind = BENCH_READ;
    measure_traffic(j, bytes, shared, out->read_bandwidth[level]);
    j->kind = BENCH_COPY;
    measure_traffic(j, bytes, shared, out->copy_bandwidth[level]);
    if (!memory)
      continue;
    j->kind = BENCH_NONTEMPORAL_COPY;
    measure_traffic(j, bytes, shared, out->nontemporal_bandwidth);
  }
}

static double measure_fork_join(Benchmark *j) {
  int threads = thread_pool_size();
  j->kind = BENCH_FORK_JOIN;
  double best = 1, start = clock_seconds(), last = start;
  for (int k = 0; k < FORK_TRIALS && last - start < 4 * trial_seconds; k++) {
    thread_pool_parallel_for(threads, 1, run_threads, j, NULL);
    double end = clock_seconds();
    best = end - last < best ? end - last : best;
    last = end;
  }
  return best;
}

bool machine_measure_peak_rates(PeakRates *out) {
  BenchmarkBuffer buffer;
  if (!benchmark_buffer_new(&buffer, MEASURED_CACHES))
    return false;
  *out = (PeakRates){.measured = true, .threads = thread_pool_size()};
  Benchmark j = {.kernels = machine_microbenchmarks(machine()->vector_bytes),
                 .kind = BENCH_FIRST_TOUCH,
                 .buffer = buffer.at,
                 .bytes_per_thread = buffer.bytes / (size_t)out->threads};
  time_run(&j, out->threads);
  measure_flops(&j, out);
  measure_bandwidth(&j, buffer.bytes, out);
  out->fork_join_seconds = measure_fork_join(&j);
  mem_free(buffer.memory);
  return true;
}
