/* The simulator of GPUs: what is right runs, and gives what it should; what is
 * wrong is found, whatever the order of things.  The kernels are in
 * tests/cuda. */
#include "backend/cuda/sim/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 6 };

/* The file of tests/cuda; the caller frees. */
static char *read_text(const char *name) {
  const char *source = getenv("AXON_SOURCE");
  char path[1024];
  snprintf(path, sizeof path, "%s/tests/cuda/%s.cu",
           source ? source : SIM_SOURCE, name);
  FILE *f = fopen(path, "r");
  Buffer b = {0};
  char chunk[4096];
  assert_non_null(f);
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
    buffer_add(&b, chunk, n);
  fclose(f);
  return b.text;
}

static Sim *compile_text(const char *text, const char *name) {
  Buffer error = {0};
  Sim *s = sim_compile(text, name, &error);
  if (!s)
    fail_msg("%s", error.text);
  buffer_free(&error);
  return s;
}

/* ---- faults ---- */

/* The text with the heads of its kernels, on the lines where they were. */
static char *with_heads(char *text) {
  Buffer b = {0};
  const char *at = text;
  for (const char *next; (next = strstr(at, "\nKERNEL("));) {
    const char *name = next + strlen("\nKERNEL("), *end = strchr(name, ')');
    buffer_add(&b, at, (size_t)(next - at));
    buffer_printf(&b,
                  "\nextern \"C\" __global__ void __launch_bounds__(256) "
                  "%.*s(const __grid_constant__ fault_args a)",
                  (int)(end - name), name);
    at = end + 1;
  }
  buffer_puts(&b, at);
  free(text);
  return b.text;
}

typedef struct FaultArgs {
  const float *in;
  float *out;
  int n;
} FaultArgs;

enum { N = 128 };

typedef struct FaultCase {
  const char *kernel;
  const char *says;            /* NULL: it is right; a|b: a or b */
  float (*wanted)(uint32_t i); /* NULL: nothing */
  uint32_t blocks, cluster;
} FaultCase;

static float one_more(uint32_t i) {
  return (float)i + 1;
}
static float rotated(uint32_t i) {
  return (float)((i + 1) % N);
}
static float paired(uint32_t i) {
  return (float)(i ^ 1);
}
static float backwards(uint32_t i) {
  return (float)(N - 1 - i);
}
static float summed(uint32_t i) {
  return (void)i, N * (N - 1) / 2;
}
static float half(uint32_t i) {
  return i < 64 ? 0 : (float)(i - 64);
}
static float three(uint32_t i) {
  return i < 64 ? 3 : NAN;
}
static float one(uint32_t i) {
  return (void)i, 1;
}
static float doubled(uint32_t i) {
  return 2 * (float)i;
}
static float tabled(uint32_t i) {
  return (float)(i % 4) + 1;
}
static float masked(uint32_t i) {
  return (N - 1 - i) % 4 == 3 ? 0 : (float)(N - 1 - i);
}
static float phases(uint32_t i) {
  return i < 64 ? 0 : 10 * (float)(N - 1 - i);
}
static float neighbours(uint32_t i) {
  return (float)(i % N + (i < N));
}
/* Row g of the first matrix, of sums of 16 of its elements, twice. */
static float product(uint32_t i) {
  uint32_t row = i / 32 * 16 + i % 32 / 4, sum = 0;
  for (uint32_t k = 0; k < 16; k++)
    sum += (row % 8 * 8 + row / 8 * 64 + k % 8 + k / 8 * 512) % 7;
  return 2 * (float)sum;
}

static const FaultCase faults[] = {
    {"copies", NULL, one_more, 1, 1},
    {"reads_beyond", "reads 4 bytes 512 after the beginning of `in`", 0, 1, 1},
    {"reads_before", "reads 4 bytes 4 before the beginning of `in`", 0, 1, 1},
    {"reads_nothing", "where nothing is", 0, 1, 1},
    {"writes_input", "writes to `in`, which is only read", 0, 1, 1},
    {"writes_beyond", "after the beginning of `out`", 0, 1, 1},
    {"misaligned", "not aligned", 0, 1, 1},
    {"misaligned_load", "not aligned to 16", 0, 1, 1},
    {"load_beyond", "reads 16 bytes", 0, 1, 1},
    {"table", NULL, tabled, 1, 1},
    {"rotates", NULL, rotated, 1, 1},
    {"rotates_race", "nothing orders|nobody wrote", 0, 1, 1},
    {"rotates_early", "nothing orders", 0, 1, 1},
    {"writes_twice", "wrote: nothing orders", 0, 1, 1},
    {"uninitialised", "at 0x600 that nobody wrote", 0, 1, 1},
    {"shared_beyond",
     "writes 4 bytes at 0x2400, where shared memory ends|where "
     "nothing is",
     0, 1, 1},
    {"warp_rotates", NULL, paired, 1, 1},
    {"warp_rotates_far", "nothing orders|nobody wrote", 0, 1, 1},
    {"shuffle_orders_not", "nothing orders|nobody wrote", 0, 1, 1},
    {"bytes", NULL, backwards, 1, 1},
    {"counts", NULL, summed, 1, 1},
    {"counts_race", "nothing orders", 0, 1, 1},
    {"named", NULL, half, 1, 1},
    {"named_other", "nothing orders|nobody wrote", 0, 1, 1},
    {"named_count", "others come to", 0, 1, 1},
    {"named_alone", "barrier 3: 64 of 96 threads", 0, 1, 1},
    {"sync_missed", "deadlock", 0, 1, 1},
    {"sync_left", NULL, three, 1, 1},
    {"sync_diverges", "of its warp is in that of line", 0, 1, 1},
    {"values", NULL, one, 1, 1},
    {"shuffle_diverges", "which must do the same, does ax_shuffle", 0, 1, 1},
    {"shuffle_left", "has ended|deadlock", 0, 1, 1},
    {"shuffle_mixed", "which must do the same, does", 0, 1, 1},
    {"async_copies", NULL, masked, 1, 1},
    {"async_no_wait", "cp.async of thread", 0, 1, 1},
    {"async_no_commit", "cp.async of thread", 0, 1, 1},
    {"async_no_sync", "cp.async of thread|nobody wrote", 0, 1, 1},
    {"async_too_few", "cp.async of thread", 0, 1, 1},
    {"async_early_reuse", "reads: nothing orders|wrote: nothing", 0, 1, 1},
    {"async_beyond", "are not within shared memory|aligned to 16", 0, 1, 1},
    {"async_misaligned", "is not aligned to 16", 0, 1, 1},
    {"matrix_race", "nothing orders|nobody wrote", 0, 1, 1},
    {"matrix_misaligned", "is not aligned to 16", 0, 1, 1},
    {"matrix_beyond", "not within shared memory", 0, 1, 1},
    {"phases", NULL, phases, 1, 1},
    {"phase_wrong", "nothing orders|and did|nobody wrote", 0, 1, 1},
    {"phase_never", "for the end of a phase of parity 1", 0, 1, 1},
    {"barrier_unordered", "nothing orders that|no mbarrier", 0, 1, 1},
    {"barrier_none", "there is no mbarrier at 0x1408", 0, 1, 1},
    {"barrier_overwritten", "which is an mbarrier", 0, 1, 1},
    {"arrivals_too_many", "at which 64 arrive and did", 0, 1, 1},
    {"tries", NULL, one, 1, 1},
    {"bulk", NULL, doubled, 1, 1},
    {"bulk_no_wait", "arrives at the mbarrier at 0x1400|nobody", 0, 1, 1},
    {"bulk_one_waits", "arrives at the mbarrier at 0x1400|nobody", 0, 1, 1},
    {"bulk_expects_less", "too few bytes|arrives at the mbarrier", 0, 1, 1},
    {"bulk_expects_more", "256 bytes are missing", 0, 1, 1},
    {"bulk_unfenced_barrier", "ax_fence_mbarrier_init is missing", 0, 1, 1},
    {"bulk_store_unfenced", "ax_fence_async is missing", 0, 1, 1},
    {"bulk_store_unsynced", "nothing orders|nobody wrote", 0, 1, 1},
    {"bulk_store_late", "the thread ends without ax_tma_wait", 0, 1, 1},
    {"bulk_never_waited", "that no thread waits for", 0, 1, 1},
    {"bulk_store_reused", "the bulk store of thread 0", 0, 1, 1},
    {"bulk_odd", "both are multiples of 16", 0, 1, 1},
    {"neighbours", NULL, neighbours, 2, 2},
    {"neighbours_race", "nothing orders|nobody wrote", 0, 2, 2},
    {"neighbours_left", "which is not there|nothing", 0, 2, 2},
    {"neighbours_arrive", NULL, neighbours, 2, 2},
    {"cluster_alone", NULL, 0, 2, 2},
    {"product", NULL, product, 1, 1},
    {"product_no_wait", "reads registers that the product", 0, 1, 1},
    {"product_one_too_few", "reads registers that the product", 0, 1, 1},
    {"product_no_commit", "reads registers that the product", 0, 1, 1},
    {"product_no_fence", "ax_wgmma_fence is missing", 0, 1, 1},
    {"product_no_second_fence", "ax_wgmma_fence is missing", 0, 1, 1},
    {"product_unfenced_memory", "ax_fence_async is missing", 0, 1, 1},
    {"product_unsynced_memory", "nothing orders", 0, 1, 1},
    {"product_memory_reused", "wgmma of warpgroup 0", 0, 1, 1},
    {"product_registers_reused", "writes registers that the product", 0, 1, 1},
    {"product_half", "deadlock|has ended", 0, 1, 1},
    {"registers", NULL, 0, 1, 1},
    {"registers_odd", "24 to 256 by 8", 0, 1, 1},
    {"spins", NULL, 0, 3, 1},
    {"endless", "has not ended after 20000 turns", 0, 1, 1},
    {"traps", "thread 7: faults.cu:", 0, 1, 1},
};

static bool says_one(const char *text, const char *wanted) {
  char one[200];
  while (*wanted) {
    size_t len = strcspn(wanted, "|");
    snprintf(one, sizeof one, "%.*s", (int)len, wanted);
    if (strstr(text, one))
      return true;
    wanted += len + (wanted[len] != 0);
  }
  return false;
}

static void run_fault(Sim *s, const FaultCase *f, uint64_t seed) {
  static float in[N], out[4 * N];
  for (uint32_t i = 0; i < 4 * N; i++) {
    in[i % N] = (float)(i % N);
    out[i] = f->wanted ? NAN : 0;
  }
  FaultArgs args = {in, out, N};
  const SimMemory memory[] = {{out, f->blocks * N * 4, true, "out"},
                              {in, N * 4, false, "in"}};
  const SimLaunch l = {.kernel = f->kernel,
                       .grid = {f->blocks, 1, 1},
                       .block = {N, 1, 1},
                       .cluster = f->cluster,
                       .shared = 8192,
                       .args = &args,
                       .args_bytes = sizeof args,
                       .memory = memory,
                       .memory_count = 2,
                       .steps = strcmp(f->kernel, "endless") ? 0 : 20000,
                       .seed = seed};
  Buffer error = {0};
  bool good = sim_launch(s, &l, &error);
  if (getenv("SHOW") && !good)
    fprintf(stderr, "%s\n", error.text);
  if (good != !f->says)
    fail_msg("%s, seed %llu: %s", f->kernel, (unsigned long long)seed,
             good ? "nothing is found" : error.text);
  if (!good && !says_one(error.text, f->says))
    fail_msg("not `%s`: %s", f->says, error.text);
  if (!good && !strstr(error.text, "faults.cu:") &&
      !strstr(error.text, " turns of threads"))
    fail_msg("no line: %s", error.text);
  for (uint32_t i = 0; good && f->wanted && i < f->blocks * N; i++) {
    float wanted = f->wanted(i);
    if (wanted != out[i] && (wanted == wanted || out[i] == out[i]))
      fail_msg("%s, seed %llu: element %u is %g, not %g", f->kernel,
               (unsigned long long)seed, i, (double)out[i], (double)wanted);
  }
  buffer_free(&error);
}

static void test_faults(void **state) {
  (void)state;
  char *text = with_heads(read_text("faults"));
  Sim *s = compile_text(text, "faults.cu");
  const char *only = getenv("ONLY");
  for (size_t j = 0; j < ARRAY_LEN(faults); j++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
      if (!only || strcmp(only, faults[j].kernel) == 0)
        run_fault(s, &faults[j], seed);
  free(text);
  sim_free(s);
}

static int set_up(void **state) {
  (void)state;
  if (sim_can())
    return 0;
  fprintf(stderr, "skipped: no C++ compiler\n");
  exit(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
