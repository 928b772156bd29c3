/* Measures the rates of a core. */
#include "machine/internal.h"
#include "runtime/thread_pool.h"
#include "support/clock.h"
#include "support/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SLICES = 800,          /* of each rate */
  CLOCK_STEPS = 1 << 14, /* additions that wait for each other */
  MEASURED_TASKS = 1024,
  VECTOR_ROUNDS = 1 << 11, /* of multiply-adds before each slice */
  BUFFER_ALIGNMENT = 4096,
  PAGE_BYTES = 4096,
  LINE_BYTES = 64,
  MEASURED_PAGES = 1024,
  CHUNK_BYTES = 128 << 10, /* of L3 or memory, read in one slice */
  MEASURED_CACHES = 4,     /* bytes of memory, as last caches */
};
static const double slice_seconds = 5e-5;
/* Relative change of the clock in a slice that is counted. */
#define MAX_CLOCK_CHANGE 0.02

/* ---- slices ---- */

typedef enum CoreBenchmark { /* in the order of core_rates.def */
                             BENCH_CLOCK,
                             BENCH_FMA_F32,
                             BENCH_FMA_F64,
                             BENCH_FMA_BF16,
                             BENCH_LATENCY,
                             BENCH_LOADS,
                             BENCH_ELEMENTS,
                             BENCH_STORES,
                             BENCH_ISSUE,
                             BENCH_L2,
                             BENCH_L3,
                             BENCH_MEMORY,
                             BENCH_PAGE,
                             BENCH_TASK,
} CoreBenchmark;

typedef struct CoreBench {
  Microbenchmarks kernels;
  char *buffer;
  size_t bytes[CORE_BOUNDARIES + 1]; /* that fit in L1, L2, L3, and memory */
  size_t at[CORE_BOUNDARIES + 1];    /* the next chunk of each */
  int64_t rounds[CORE_RATE_COUNT];   /* of a slice */
  volatile double sink;
} CoreBench;

/* Additions that wait for each other take one cycle each. */
static void count_cycles(int64_t cycles) {
  uint64_t x = 1;
  for (int64_t i = 0; i < cycles; i += 8)
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) {
      x += 3;
      __asm__ volatile("" : "+r"(x));
    }
}

/* Instructions that no other resource delays, in cores that issue at most 8 in
 * a cycle: each of the 4 additions waits for the same one of the group before.
 * No nops: a core may join a nop with the instruction before it. */
static void issue(int64_t rounds) {
  for (int64_t i = 0; i < rounds; i++)
#if defined(__x86_64__)
    __asm__ volatile(".rept 8\n"
                     "add $1, %%eax\n movaps %%xmm0, %%xmm1\n"
                     "add $1, %%ecx\n movaps %%xmm0, %%xmm2\n"
                     "add $1, %%edx\n movaps %%xmm0, %%xmm3\n"
                     "add $1, %%esi\n movaps %%xmm0, %%xmm4\n"
                     ".endr"
                     :
                     :
                     : "eax", "ecx", "edx", "esi", "xmm1", "xmm2", "xmm3",
                       "xmm4", "cc");
#else
    __asm__ volatile(".rept 64\n nop\n .endr");
#endif
}

/* Reads one line of each page of data that L3 holds, one after another. */
static void read_pages(const CoreBench *b, int64_t round) {
  const char *at = b->buffer + round % (PAGE_BYTES / LINE_BYTES) * LINE_BYTES;
  for (int64_t k = 0; k < MEASURED_PAGES; k++) {
    uint64_t x = *(const uint64_t *)(at + k * PAGE_BYTES);
    __asm__ volatile("" : : "r"(x));
  }
}

static int nothing(void *context, int64_t begin, int64_t end) {
  (void)context, (void)begin, (void)end;
  return 0;
}

/* Reads the next chunk of the data that a level of memory holds. */
static void read_chunk(CoreBench *b, int level) {
  if (b->at[level] + CHUNK_BYTES > b->bytes[level])
    b->at[level] = 0;
  b->kernels.load(b->buffer + b->at[level], CHUNK_BYTES);
  b->at[level] += CHUNK_BYTES;
}

/* Runs a number of rounds.  Returns what they count: vectors, instructions,
 * bytes, or tasks. */
static double run_rounds(CoreBench *b, CoreBenchmark which, int64_t rounds) {
  const Microbenchmarks *k = &b->kernels;
  size_t l1 = b->bytes[0];
  double all = (double)rounds;
  switch (which) {
  case BENCH_CLOCK:
    count_cycles(rounds * CLOCK_STEPS);
    return all * CLOCK_STEPS;
  case BENCH_FMA_F32:
    b->sink = k->multiply_add(rounds);
    return all * k->flops_per_round / (2 * (k->vector_bytes / 4));
  case BENCH_FMA_F64:
    b->sink = k->multiply_add_f64(rounds);
    return all * MICRO_STEPS;
  case BENCH_FMA_BF16:
    b->sink = k->dot_bf16(rounds);
    return all * k->bf16_flops_per_round / (4 * (k->vector_bytes / 4));
  case BENCH_LATENCY:
    b->sink = k->dependent(rounds);
    return all * MICRO_STEPS;
  case BENCH_LOADS:
  case BENCH_ELEMENTS:
  case BENCH_STORES:
    for (int64_t i = 0; i < rounds; i++)
      which == BENCH_LOADS      ? k->load(b->buffer, l1)
      : which == BENCH_ELEMENTS ? k->load_elements(b->buffer, l1)
                                : k->store(b->buffer, l1);
    return all * (double)(l1 / k->vector_bytes);
  case BENCH_ISSUE:
    issue(rounds);
    return all * 64;
  case BENCH_L2:
  case BENCH_L3:
  case BENCH_MEMORY:
    for (int64_t i = 0; i < rounds; i++)
      read_chunk(b, which - BENCH_L2 + 1);
    return all * CHUNK_BYTES;
  case BENCH_PAGE:
    for (int64_t i = 0; i < rounds; i++)
      read_pages(b, i);
    return all * MEASURED_PAGES;
  case BENCH_TASK:
    for (int64_t i = 0; i < rounds; i++)
      thread_pool_parallel_for(MEASURED_TASKS, 1, nothing, NULL, NULL);
    return all * MEASURED_TASKS / thread_pool_size();
  }
  return 0;
}

static double probe_clock(void) {
  double start = clock_seconds();
  count_cycles(CLOCK_STEPS);
  return (clock_seconds() - start) / CLOCK_STEPS;
}

/* Cycles of one vector, instruction, byte or task; of the clock, seconds of one
 * cycle.  The clock is measured before and after, since it varies: wide vectors
 * lower it for some time.  Returns HUGE_VAL if it changed in the slice, or if
 * another program ran. */
static double time_slice(CoreBench *b, uint32_t which) {
  b->sink = b->kernels.multiply_add(VECTOR_ROUNDS);
  if (which == BENCH_L2 || which == BENCH_L3) /* other slices replaced it */
    for (size_t i = 0; i < b->bytes[which - BENCH_L2 + 1]; i += CHUNK_BYTES)
      read_chunk(b, which - BENCH_L2 + 1);
  double before = probe_clock(), start = clock_seconds();
  double count = run_rounds(b, (CoreBenchmark)which, b->rounds[which]);
  double seconds = clock_seconds() - start, after = probe_clock();
  if (fabs(before - after) > MAX_CLOCK_CHANGE * fmin(before, after))
    return HUGE_VAL;
  double cycle = (before + after) / 2;
  return which == BENCH_CLOCK ? cycle : seconds / count / cycle;
}

/* Finds the rounds that take as long as a slice. */
static void calibrate(CoreBench *b, uint32_t which) {
  double seconds = 0;
  for (b->rounds[which] = 1; seconds < slice_seconds / 2;
       b->rounds[which] *= 2) {
    double start = clock_seconds();
    run_rounds(b, (CoreBenchmark)which, b->rounds[which]);
    seconds = clock_seconds() - start;
  }
}

/* ---- measurement ---- */

static size_t whole_chunks(size_t bytes) {
  return bytes / CHUNK_BYTES * CHUNK_BYTES;
}

/* One thread starts no task. */
static bool can_measure(const CoreBench *b, uint32_t which) {
  if (which == BENCH_FMA_BF16)
    return b->kernels.dot_bf16 != NULL;
  if (which == BENCH_TASK)
    return thread_pool_size() > 1;
  if (which == BENCH_PAGE)
    return b->bytes[2] >= (size_t)MEASURED_PAGES * PAGE_BYTES;
  return which < BENCH_L2 || which > BENCH_MEMORY ||
         b->bytes[which - BENCH_L2 + 1] > 0;
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* A low quantile of slices. */
static double low_quantile(double *of) {
  qsort(of, SLICES / 2, sizeof *of, by_size);
  return of[SLICES / 2 / 16];
}

typedef double SliceTimes[CORE_RATE_COUNT][2][SLICES / 2];

/* Times two sets of slices.  The rates are interleaved, and so are the sets, so
 * that all see the same disturbances.  Reading memory replaces what the caches
 * hold, so that it comes last. */
static void time_all(CoreBench *b, SliceTimes times) {
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (can_measure(b, k))
      calibrate(b, k);
  for (int memory = 0; memory < 2; memory++)
    for (int slice = 0; slice < SLICES; slice++)
      for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
        if ((k == BENCH_MEMORY) == memory && can_measure(b, k))
          times[k][slice & 1][slice / 2] = time_slice(b, k);
}

/* The rate of a time in cycles: a number per cycle, or cycles. */
static double rate_of(uint32_t which, double time) {
  return which == BENCH_LATENCY || which == BENCH_PAGE || which == BENCH_TASK
             ? time
             : 1 / time;
}

/* Measures all rates but those of `out` that this process cannot measure. */
static void take_rates(const CoreBench *b, SliceTimes times, CoreRates *out,
                       double spread[CORE_RATE_COUNT]) {
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++) {
    spread[k] = 0;
    if (!can_measure(b, k))
      continue;
    double x = low_quantile(times[k][0]), y = low_quantile(times[k][1]);
    double rate = rate_of(k, fmin(x, y));
    bool is_disturbed = isinf(x) || isinf(y);
    spread[k] = is_disturbed                     ? HUGE_VAL
                : core_rate_is_possible(k, rate) ? fabs(x - y) / fmin(x, y)
                                                 : IMPOSSIBLE_RATE;
    if (spread[k] >= IMPOSSIBLE_RATE)
      continue;
    *core_rate(out, k) = rate;
    out->measured |= (uint32_t)1 << k;
  }
}

bool machine_measure_core(CoreRates *out, double spread[CORE_RATE_COUNT]) {
  const Machine *m = machine();
  BenchmarkBuffer buffer;
  SliceTimes *times = mem_try_alloc(sizeof *times);
  if (!times || !benchmark_buffer_new(&buffer, MEASURED_CACHES)) {
    mem_free(times);
    return false;
  }
  CoreBench b = {.kernels = machine_microbenchmarks(m->vector_bytes),
                 .buffer = buffer.at};
  size_t l1 = m->cache_bytes[0] ? m->cache_bytes[0] : (size_t)32 << 10;
  b.bytes[0] = l1 / 2 / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
  b.bytes[1] = m->cache_bytes[1] >= 2 * CHUNK_BYTES ? CHUNK_BYTES : 0;
  /* Far more than L2 holds, and little enough to stay in a shared L3. */
  size_t l3 = whole_chunks(m->cache_bytes[2] / 2);
  b.bytes[2] = l3 < 4 * m->cache_bytes[1] ? l3 : 4 * m->cache_bytes[1];
  b.bytes[CORE_BOUNDARIES] = buffer.bytes;
  memset(b.buffer, 0, buffer.bytes);
  time_all(&b, *times);
  mem_free(buffer.memory);
  *out = *machine_reference_rates();
  take_rates(&b, *times, out, spread);
  mem_free(times);
  return true;
}
