/* Tests the GPU simulator: correct kernels run and give the right results;
 * errors are detected, whatever the order of events.  The kernels are in
 * tests/cuda. */
#include "tests/unit/products.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEEDS = 6 };

static Sim *compile_text(const char *text, const char *name) {
  Buffer error = {0};
  Sim *s = sim_compile(text, name, &error);
  if (!s)
    fail_msg("%s", error.text);
  buffer_free(&error);
  return s;
}

/* ---- faults ---- */

typedef struct FaultArgs {
  const float *in;
  float *out;
  int n;
} FaultArgs;

enum { N = 128 };

typedef struct FaultCase {
  const char *kernel;
  const char *says;            /* NULL: the kernel is correct; a|b: a or b */
  float (*wanted)(uint32_t i); /* NULL: no output */
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
static float scaled(uint32_t i) {
  return (float)(64 << (i / 32 * 32 + i % 32 / 4) % 3);
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
/* Row g of the first matrix: sums of 16 elements, twice. */
static float product(uint32_t i) {
  uint32_t row = i / 32 * 16 + i % 32 / 4, sum = 0;
  for (uint32_t k = 0; k < 16; k++)
    sum += (row % 8 * 8 + row / 8 * 64 + k % 8 + k / 8 * 512) % 7;
  return 2 * (float)sum;
}

/* Sums of row + 0 to row + 15, twice. */
static float product_of_pairs(uint32_t i) {
  uint32_t row = i / 32 * 32 + i % 32 / 4;
  return 2 * (float)(16 * row + 120);
}

static const FaultCase faults[] = {
    {"copies", NULL, one_more, 1, 1},
    {"reads_beyond", "reads 4 bytes 512 after the beginning of `in`", 0, 1, 1},
    {"reads_before", "reads 4 bytes 4 before the beginning of `in`", 0, 1, 1},
    {"reads_nothing", "where nothing is", 0, 1, 1},
    {"writes_input", "writes to `in`, which is only read", 0, 1, 1},
    {"writes_beyond", "after the beginning of `out`", 0, 1, 1},
    {"misaligned", "not aligned", 0, 1, 1},
    {"misaligned_struct", "not aligned", 0, 1, 1},
    {"misaligned_load", "not aligned to 16", 0, 1, 1},
    {"load_beyond", "reads 16 bytes", 0, 1, 1},
    {"table", NULL, tabled, 1, 1},
    {"rotates", NULL, rotated, 1, 1},
    {"rotates_race", "nothing orders|nobody wrote", 0, 1, 1},
    {"rotates_early", "nothing orders", 0, 1, 1},
    {"writes_twice", "wrote: nothing orders", 0, 1, 1},
    {"uninitialised", "at 0x600 that nobody wrote", 0, 1, 1},
    {"unset", NULL, one, 1, 1},
    {"unset_one", NULL, one, 1, 1},
    {"structs_race", "nothing orders|nobody wrote", 0, 1, 1},
    {"structs_beyond", "where shared memory ends|where nothing", 0, 1, 1},
    {"shared_beyond",
     "writes 4 bytes at 0x2400, where shared memory ends|where "
     "nothing is",
     0, 1, 1},
    {"warp_rotates", NULL, paired, 1, 1},
    {"warp_rotates_far", "nothing orders|nobody wrote", 0, 1, 1},
    {"shuffle_orders_not", "nothing orders|nobody wrote", 0, 1, 1},
    {"bytes", NULL, backwards, 1, 1},
    {"bytes_unset", "nobody wrote", 0, 1, 1},
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
    {"neighbours_handed", "nothing orders|nobody wrote", 0, 2, 2},
    {"neighbours_told", NULL, 0, 2, 2},
    {"neighbours_gone", "that may have ended|of a block that has", 0, 2, 2},
    {"neighbours_begun", NULL, 0, 2, 2},
    {"neighbours_unfenced", "nothing orders that after its beginning", 0, 2, 2},
    {"neighbours_relaxed", "nothing orders|nobody wrote", 0, 2, 2},
    {"neighbours_block", "nothing orders|nobody wrote", 0, 2, 2},
    {"cluster_alone", NULL, 0, 2, 2},
    {"product", NULL, product, 1, 1},
    {"product_no_hold", "ax_hold is missing|registers", 0, 1, 1},
    {"product_no_wait", "reads registers that the product", 0, 1, 1},
    {"product_one_too_few", "reads registers that the product", 0, 1, 1},
    {"product_no_commit", "reads registers that the product", 0, 1, 1},
    {"product_no_fence", "ax_wgmma_fence is missing", 0, 1, 1},
    {"product_no_second_fence", "ax_wgmma_fence is missing|registers", 0, 1, 1},
    {"product_unfenced_memory", "ax_fence_async is missing", 0, 1, 1},
    {"product_unsynced_memory", "nothing orders", 0, 1, 1},
    {"product_memory_reused", "wgmma of warpgroup 0", 0, 1, 1},
    {"product_registers_reused", "writes registers that the product", 0, 1, 1},
    {"product_half", "deadlock|has ended", 0, 1, 1},
    {"tensor", NULL, product, 1, 1},
    {"tensor_no_wait", "tcgen05.mma of thread 0|nothing wrote", 0, 1, 1},
    {"tensor_no_commit", "deadlock", 0, 1, 1},
    {"tensor_no_fence_after", "tcgen05.mma of thread 0", 0, 1, 1},
    {"tensor_no_first_fence", "after its allocation|nothing orders", 0, 1, 1},
    {"tensor_no_load_wait", "reads registers that the load", 0, 1, 1},
    {"tensor_no_hold", "ax_hold is missing|registers", 0, 1, 1},
    {"tensor_unfenced_memory", "ax_fence_async is missing", 0, 1, 1},
    {"tensor_memory_reused", "tcgen05.mma of thread 0", 0, 1, 1},
    {"tensor_unfreed", "that the block does not free", 0, 1, 1},
    {"tensor_freed_early", "which is not allocated|tcgen05.ld of warp", 0, 1,
     1},
    {"tensor_freed_in_part", "which were not allocated so", 0, 1, 1},
    {"tensor_twice", NULL, product, 1, 1},
    {"tensor_no_fence_before", "tcgen05.ld of warp", 0, 1, 1},
    {"tensor_beyond", "which is not allocated|of which there are", 0, 1, 1},
    {"tensor_odd", "a power of two from 32", 0, 1, 1},
    {"tensor_too_many", "32 columns of tensor memory, which are not free", 0, 1,
     1},
    {"tensor_no_permit", "after ax_tmem_permit", 0, 1, 1},
    {"tensor_permit_first", "after ax_tmem_permit", 0, 1, 1},
    {"three_tensor_readers", "tcgen05.ld of warp 4", 0, 1, 1},
    {"tensor_unwritten", "which nothing wrote", 0, 1, 1},
    {"tensor_adds_to_nothing", "adds to tensor memory, lane 0", 0, 1, 1},
    {"tensor_other_lanes", "it can load those from", 0, 1, 1},
    {"tensor_instruction", "other bits than f32 sums", 0, 1, 1},
    {"tensor_types", "with other types", 0, 1, 1},
    {"tensor_size", "a product of 128 rows and 8 columns", 0, 1, 1},
    {"tensor_descriptor", "version 1", 0, 1, 1},
    {"tensor_stored", NULL, product_of_pairs, 1, 1},
    {"tensor_stored_no_wait", "tcgen05.st of warp", 0, 1, 1},
    {"tensor_stored_no_fence", "tcgen05.st of warp", 0, 1, 1},
    {"tensor_stored_unloaded", "registers that the load", 0, 1, 1},
    {"tensor_loaded_unstored", "tcgen05.st of warp", 0, 1, 1},
    {"tensor_stored_early", "tcgen05.mma of thread 0", 0, 1, 1},
    {"tensor_pairs_unwritten", "which nothing wrote", 0, 1, 1},
    {"tensor_pairs_rows", "of 128 rows", 0, 1, 1},
    {"tensor_pairs_lanes", "operand A in lanes from 16 on", 0, 1, 1},
    {"tensor_stored_other_lanes", "it can store to those from", 0, 1, 1},
    {"tensor_cast", NULL, 0, 2, 2},
    {"tensor_cast_unseen", "of a block that", 0, 2, 2},
    {"tensor_commit_unseen", "of a block that", 0, 1, 1},
    {"pair_second", "issued by its second block", 0, 2, 2},
    {"pair_rows", "a product of 64 rows", 0, 2, 2},
    {"pair_mixed", "another one was for 2", 0, 2, 2},
    {"pair_alone", "there is no second block", 0, 1, 1},
    {"pair_half_allocated", "that the block does not free", 0, 2, 2},
    {"scaled", NULL, scaled, 1, 1},
    {"scaled_second", NULL, scaled, 1, 1},
    {"scaled_nv", NULL, scaled, 1, 1},
    {"scaled_twice", NULL, scaled, 1, 1},
    {"scaled_no_copy", "which nothing wrote", 0, 1, 1},
    {"scaled_half_copied", "which nothing wrote", 0, 1, 1},
    {"scaled_overwritten", "which tcgen05.mma of thread 0", 0, 1, 1},
    {"scaled_type", "with scales of another type", 0, 1, 1},
    {"scaled_type_nv", "with scales of another type", 0, 1, 1},
    {"scaled_negative", "which is negative", 0, 1, 1},
    {"scaled_byte", "is a multiple of 2", 0, 1, 1},
    {"scaled_byte_nv", "is a multiple of 4", 0, 1, 1},
    {"scaled_instruction", "than two E2M1 types", 0, 1, 1},
    {"scaled_size", "a product of 256 rows", 0, 1, 1},
    {"scaled_swizzled", "a copy of swizzled scales", 0, 1, 1},
    {"scaled_lanes", "scales in lanes from 32 on", 0, 1, 1},
    {"scaled_beyond", "which is not allocated|of which there are", 0, 1, 1},
    {"scaled_unfenced", "ax_fence_async is missing", 0, 1, 1},
    {"scaled_reused", "tcgen05.mma of thread 0", 0, 1, 1},
    {"scaled_other_thread", "tcgen05.mma of thread 32", 0, 1, 1},
    {"registers", NULL, 0, 1, 1},
    {"three_registers", NULL, 0, 1, 1},
    {"three_registers_more", "deadlock", 0, 1, 1},
    {"registers_fewer", "256 registers are more than", 0, 1, 1},
    {"descriptor", "of what is no multiple of 16", 0, 1, 1},
    {"parity", "a parity of 3", 0, 1, 1},
    {"array", "not within its array", 0, 1, 1},
    {"array_of_matrix", "not within its array", 0, 1, 1},
    {"array_of_product", "not within its array", 0, 1, 1},
    {"shifts", "a shift by more", 0, 1, 1},
    {"divides", "a quotient by 0", 0, 1, 1},
    {"registers_odd", "24 to 256 by 8", 0, 1, 1},
    {"spins", NULL, 0, 3, 1},
    {"last_sums", NULL, 0, 3, 1},
    {"last_sums_one", NULL, 0, 3, 1},
    {"last_cached", "no __threadfence here follows", 0, 3, 1},
    {"last_unfenced", "no __threadfence there", 0, 3, 1},
    {"blocks_write_one", "no __threadfence there", 0, 2, 1},
    {"threads_write_one", "nothing orders", 0, 1, 1},
    {"once_written", "by ax_load_4_once", 0, 2, 1},
    {"endless", "has not ended after 20000 switches", 0, 1, 1},
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
  static float room[8 * N]; /* in and out with unmapped memory around them */
  float *in = room + N, *out = room + 3 * N;
  for (uint32_t i = 0; i < 4 * N; i++) {
    in[i % N] = (float)(i % N);
    out[i] = f->wanted ? NAN : 0;
  }
  FaultArgs args = {in, out, N};
  bool three = strncmp(f->kernel, "three", 5) == 0; /* warpgroups */
  const SimMemory memory[] = {{out, f->blocks * N * 4, true, "out"},
                              {in, N * 4, false, "in"}};
  const SimLaunch l = {.kernel = f->kernel,
                       .grid = {f->blocks, 1, 1},
                       .block = {three ? 3 * N : N, 1, 1},
                       .cluster_blocks = f->cluster,
                       .shared_bytes = 8192,
                       .args = &args,
                       .args_bytes = sizeof args,
                       .memory = memory,
                       .memory_count = 2,
                       .max_steps = strcmp(f->kernel, "endless") ? 0 : 20000,
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
      !strstr(error.text, "faults_tcgen05.cu:") &&
      !strstr(error.text, " switches of threads"))
    fail_msg("no line: %s", error.text);
  for (uint32_t i = 0; good && f->wanted && i < f->blocks * N; i++) {
    float wanted = f->wanted(i);
    if (wanted != out[i] && (wanted == wanted || out[i] == out[i]))
      fail_msg("%s, seed %llu: element %u is %g, not %g", f->kernel,
               (unsigned long long)seed, i, (double)out[i], (double)wanted);
  }
  buffer_free(&error);
}

/* Errors that other compilers do not report to the simulator. */
static bool wants_gcc(const FaultCase *f) {
  return (f->says && strstr(f->says, "registers")) ||
         strcmp(f->kernel, "misaligned_struct") == 0;
}

/* Both files, as one source. */
static char *read_faults(void) {
  char *first = read_kernel("faults"), *second = read_kernel("faults_tcgen05");
  Buffer all = {0};
  buffer_printf(&all, "%s#line 1 \"faults_tcgen05.cu\"\n%s", first, second);
  free(first);
  free(second);
  return all.text;
}

static void test_faults(void **state) {
  (void)state;
  bool sees = sim_sees_registers();
  char *text = with_kernel_signatures("fault_args", read_faults());
  Sim *s = compile_text(text, "faults.cu");
  const char *only = getenv("ONLY");
  for (size_t j = 0; j < ARRAY_LEN(faults); j++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
      if ((!only || strcmp(only, faults[j].kernel) == 0) &&
          (sees || !wants_gcc(&faults[j])))
        run_fault(s, &faults[j], seed);
  free(text);
  sim_free(s);
}

/* ---- results of intrinsics ---- */

enum { IN = 512, OUT = 8192 };

typedef struct WrappedArgs {
  const float *in;
  float *out;
  int n;
  _Alignas(64) unsigned char map[128];
} WrappedArgs;

static _Alignas(64) float in[IN], out[OUT];

static bool same(float a, float b) {
  return a == b || (a != a && b != b);
}

static bool accesses(void) {
  bool good = true;
  for (uint32_t i = 0; i < 1792; i++)
    good &= out[i] == in[i < 1024 ? i % 512 : i < 1536 ? i % 256 : i % 128];
  return good;
}

static bool copied(void) {
  static const uint32_t sizes[] = {16, 8, 4}, from[] = {0, 2048, 3072};
  const unsigned char *bytes = (const unsigned char *)in;
  bool good = true;
  for (int j = 0; j < 3; j++)
    for (uint32_t i = 0; i < N * sizes[j]; i++)
      good &= out[from[j] + i] ==
              (i % sizes[j] < i / sizes[j] % (sizes[j] + 1) ? bytes[i] : 0);
  return good;
}

static bool converted(void) {
  bool good = true;
  for (uint32_t i = 0; i < N; i++) {
    float f16 = (float)f16_to_double(f16_from_double(in[i]));
    float bf16 = (float)bf16_to_double(bf16_from_double(in[i])), tf32;
    float x = (float)(i % 20);
    uint32_t bits;
    memcpy(&bits, &in[i], 4);
    bits = isfinite(in[i]) ? bits + 0x1000 : bits; /* rounds away from 0 */
    bits &= 0xffffe000;
    memcpy(&tf32, &bits, 4);
    good &= same(out[i], f16) && same(out[N + i], bf16) &&
            same(out[2 * N + i], f16) && same(out[3 * N + i], bf16) &&
            same(out[4 * N + i], tf32) && out[5 * N + i] == exp2f(x - 10) &&
            out[6 * N + i] == x && out[7 * N + i] == exp2f(-(float)(i % 9)) &&
            out[8 * N + i] == exp2f(-(float)(i % 5)) && out[9 * N + i] == 0;
    uint8_t e4m3 = f8_e4m3_from_double(in[i]),
            e5m2 = f8_e5m2_from_double(in[i]);
    good &= same(out[10 * N + i], (float)f8_e4m3_to_double(e4m3)) &&
            same(out[11 * N + i], (float)f8_e5m2_to_double(e5m2)) &&
            out[12 * N + i] == e4m3 && out[13 * N + i] == e5m2;
    uint8_t e2m1 = f4_e2m1_from_double(in[i]),
            e8m0 = f8_e8m0_from_double(in[i]);
    good &= same(out[14 * N + i], (float)f4_e2m1_to_double(e2m1)) &&
            same(out[15 * N + i], (float)f8_e8m0_to_double(e8m0)) &&
            out[16 * N + i] == e2m1 && out[17 * N + i] == e8m0 &&
            out[18 * N + i] == (float)(i % 16 + (15 << 12) + (i / 16 << 20));
  }
  return good;
}

static bool ones(void) {
  for (uint32_t i = 0; i < N; i++)
    if (out[i] != 1)
      return false;
  return true;
}

/* As AT of the text. */
static int element(uint32_t row, uint32_t column) {
  return (int)(row * 7 % 5 + column * 3 % 4) - 2;
}

/* b: element (column, k), or (k, column). */
static bool sums(const float *from, uint32_t rows, uint32_t columns, uint32_t k,
                 bool transposed, int more) {
  for (uint32_t i = 0; i < rows; i++)
    for (uint32_t j = 0; j < columns; j++) {
      int sum = more;
      for (uint32_t l = 0; l < k; l++)
        sum += element(i, l) * (transposed ? element(l, j) : element(j, l));
      if (from[i * columns + j] != (float)sum)
        return false;
    }
  return true;
}

static bool multiplied(void) {
  return sums(out, 16, 8, 16, true, 1) && sums(out + 128, 16, 8, 16, true, 1) &&
         sums(out + 256, 16, 8, 8, true, 1) &&
         sums(out + 384, 16, 8, 8, true, 1);
}
static bool multiplied_octets(void) {
  bool good = true;
  for (int warp = 0; warp < 4; warp++)
    good &= sums(out + 128 * warp, 16, 8, 32, true, 1);
  return good;
}
static bool rows_16(void) {
  return sums(out, 64, 24, 16, false, 0);
}
static bool rows_32(void) {
  return sums(out, 64, 24, 32, false, 0);
}
static bool rows_64(void) {
  return sums(out, 64, 24, 64, false, 0);
}
static bool rows_128(void) {
  return sums(out, 64, 24, 128, false, 0);
}
static bool columns(void) {
  return sums(out, 64, 128, 16, false, 0);
}

/* Element i of a box at these coordinates of `in`; -1: out of bounds. */
static int64_t box_element(const SimTensorMap *m, const int *at, uint32_t i) {
  int64_t index = 0;
  for (uint32_t j = 0; j < m->rank; j++) {
    int64_t c = at[j] + (int64_t)(i % m->box[j]);
    if (c < 0 || c >= (int64_t)m->extent[j])
      return -1;
    i /= m->box[j];
    index += c * (int64_t)m->stride[j] / 4;
  }
  return index;
}

static const SimTensorMap map1 = {
    .rank = 1, .extent = {100}, .stride = {4}, .box = {32}};
static const SimTensorMap map2 = {.rank = 2,
                                  .extent = {20, 10},
                                  .stride = {4, 80},
                                  .box = {32, 8},
                                  .swizzle = 128};
static const SimTensorMap map3 = {
    .rank = 3, .extent = {12, 5, 4}, .stride = {4, 48, 240}, .box = {8, 4, 3}};
static const SimTensorMap map5 = {.rank = 5,
                                  .extent = {8, 3, 2, 3, 2},
                                  .stride = {4, 32, 96, 192, 576},
                                  .box = {8, 2, 2, 2, 4}};
static const SimTensorMap cast_map = {
    .rank = 2, .extent = {32, 8}, .stride = {4, 128}, .box = {32, 4}};

static bool box_is(const SimTensorMap *m, const int *at, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    int64_t e = box_element(m, at, i);
    uint32_t place =
        m->swizzle ? i ^ (i / 32 % 8 * 4) : i; /* swizzles chunks of 16 bytes */
    if (out[place] != (e < 0 ? 0 : in[e]))
      return false;
  }
  return true;
}

static bool box_1d(void) {
  return box_is(&map1, (int[]){-5}, 32);
}
static bool box_2d(void) {
  return box_is(&map2, (int[]){8, 6}, 256);
}
static bool box_3d(void) {
  return box_is(&map3, (int[]){4, -1, 2}, 96);
}
static bool box_5d(void) {
  return box_is(&map5, (int[]){0, 1, 0, -1, 1}, 256);
}

static bool box_stored(void) {
  uint32_t stored = 0;
  bool good = true;
  for (uint32_t i = 0; i < OUT; i++)
    stored += out[i] == out[i];
  for (uint32_t i = 0; i < 96; i++) {
    int64_t e = box_element(&map3, (int[]){4, -1, 2}, i);
    good &= e < 0 || out[e] == (float)i;
    stored -= e >= 0;
  }
  return good && stored == 0;
}

static bool box_cast(void) {
  return memcmp(out, in, 1024) == 0 && memcmp(out + 256, in, 1024) == 0;
}

typedef struct WrappedCase {
  const char *kernel;
  bool (*good)(void);
  const SimTensorMap *map; /* of the input or of the output */
  bool stores;
  uint32_t blocks;
} WrappedCase;

static const WrappedCase wrapped[] = {
    {"accesses", accesses, NULL, false, 1},
    {"copied", copied, NULL, false, 1},
    {"converted", converted, NULL, false, 1},
    {"stored", ones, NULL, false, 1},
    {"multiplied", multiplied, NULL, false, 1},
    {"multiplied_octets", multiplied_octets, NULL, false, 1},
    {"rows_32", rows_16, NULL, false, 1},
    {"rows_64", rows_32, NULL, false, 1},
    {"rows_128", rows_64, NULL, false, 1},
    {"rows_tf32", rows_32, NULL, false, 1},
    {"rows_e4m3", rows_128, NULL, false, 1},
    {"rows_e5m2", rows_128, NULL, false, 1},
    {"columns", columns, NULL, false, 1},
    {"from_registers", rows_16, NULL, false, 1},
    {"box_1d", box_1d, &map1, false, 1},
    {"box_2d", box_2d, &map2, false, 1},
    {"box_3d", box_3d, &map3, false, 1},
    {"box_5d", box_5d, &map5, false, 1},
    {"box_stored", box_stored, &map3, true, 1},
    {"box_cast", box_cast, &cast_map, false, 2},
};

static void run_wrapped(Sim *s, const WrappedCase *w, uint64_t seed) {
  static const float special[] = {0,     -0.0f,  INFINITY, -INFINITY, NAN,
                                  1e6f,  65519,  65520,    6e-8f,     1e-7f,
                                  1e38f, 1e-40f, 2049,     -257};
  Buffer error = {0};
  for (uint32_t i = 0; i < IN; i++)
    in[i] = i < ARRAY_LEN(special) && strcmp(w->kernel, "converted") == 0
                ? special[i]
                : (float)i * 0.37f - 20;
  for (uint32_t i = 0; i < OUT; i++)
    out[i] = NAN;
  WrappedArgs args = {in, out, N, {0}};
  if (w->map) {
    SimTensorMap map = *w->map;
    map.element_bytes = 4;
    map.address = w->stores ? out : in;
    if (!sim_tensor_map_encode(args.map, &map, &error))
      fail_msg("%s", error.text);
  }
  const SimMemory memory[] = {{in, sizeof in, false, "in"},
                              {out, sizeof out, true, "out"}};
  const SimLaunch l = {.kernel = w->kernel,
                       .grid = {w->blocks, 1, 1},
                       .block = {N, 1, 1},
                       .cluster_blocks = w->blocks,
                       .shared_bytes = 16384,
                       .args = &args,
                       .args_bytes = sizeof args,
                       .memory = memory,
                       .memory_count = 2,
                       .seed = seed};
  if (!sim_launch(s, &l, &error))
    fail_msg("%s", error.text);
  if (!w->good())
    fail_msg("%s gives other numbers (seed %llu)", w->kernel,
             (unsigned long long)seed);
}

static void test_wrapped(void **state) {
  (void)state;
  char *text = with_kernel_signatures("wrapped_args", read_kernel("wrapped"));
  Sim *s = compile_text(text, "wrapped.cu");
  const char *only = getenv("ONLY");
  for (size_t j = 0; j < ARRAY_LEN(wrapped); j++)
    for (uint64_t seed = 1; seed < 3; seed++)
      if (!only || strcmp(only, wrapped[j].kernel) == 0)
        run_wrapped(s, &wrapped[j], seed);
  free(text);
  sim_free(s);
}

/* A tensor map that the driver would reject. */
static void test_maps(void **state) {
  (void)state;
  static _Alignas(64) unsigned char map[128];
  static const SimTensorMap good = {.rank = 2,
                                    .element_bytes = 4,
                                    .address = in,
                                    .extent = {20, 10},
                                    .stride = {4, 80},
                                    .box = {32, 8},
                                    .swizzle = 128};
  SimTensorMap m[8] = {good, good, good, good, good, good, good, good};
  m[0].rank = 6;
  m[1].address = in + 1;
  m[2].stride[1] = 40;
  m[3].box[0] = 33;
  m[4].box[0] = 64;
  m[5].swizzle = 16;
  m[6].box[1] = 257;
  m[7].extent[1] = 0;
  Buffer error = {0};
  assert_true(sim_tensor_map_encode(map, &good, &error));
  for (size_t j = 0; j < ARRAY_LEN(m); j++) {
    error.len = 0;
    assert_false(sim_tensor_map_encode(map, &m[j], &error));
    assert_non_null(strstr(error.text, "a tensor map: "));
  }
  buffer_free(&error);
}

/* ---- whole products ---- */

static void test_gemm80(void **state) {
  (void)state;
  static const uint32_t sizes[][3] = {
      {1, 8, 8}, {64, 64, 32}, {65, 72, 104}, {130, 136, 200}};
  char *text = read_kernel("gemm80");
  Sim *s = compile_text(text, "gemm80.cu");
  Buffer error = {0};
  for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
    for (uint64_t seed = 1; seed < 3; seed++)
      if (!gemm80(s, sizes[j][0], sizes[j][1], sizes[j][2], seed, &error))
        fail_msg("%s", error.text);
  sim_free(s);
  free(text);
}

static void test_gemm90(void **state) {
  (void)state;
  static const uint32_t sizes[][4] = {
      {1, 8, 8, 1}, {128, 128, 64, 1}, {200, 136, 264, 2}, {264, 392, 72, 3}};
  char *text = read_kernel("gemm90");
  Sim *s = compile_text(text, "gemm90.cu");
  Buffer error = {0};
  for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
    for (uint64_t seed = 1; seed < 3; seed++)
      if (!gemm90(s, sizes[j][0], sizes[j][1], sizes[j][2], sizes[j][3], seed,
                  &error))
        fail_msg("%s", error.text);
  sim_free(s);
  free(text);
}

static int set_up(void **state) {
  (void)state;
  if (sim_is_available())
    return 0;
  fprintf(stderr, "skipped: no C++ compiler\n");
  exit(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults), cmocka_unit_test(test_wrapped),
      cmocka_unit_test(test_maps),   cmocka_unit_test(test_gemm80),
      cmocka_unit_test(test_gemm90),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
