/* Tests mutants of generated kernels with a producer: of wgmma, with clusters
 * whose blocks share operands, TMA stores and split sums; with a computed
 * operand; and of tcgen05, with sums in tensor memory, also by pairs of blocks.
 * The simulator detects the error in each mutant.  Exceptions are listed in
 * tests/cuda/gemmgroup.survivors, with the reason why they are correct.
 *
 * By default, one in eight of the mutants runs that drop or loosen a call or a
 * condition.  MUTANTS=calls runs all of these, MUTANTS=all runs all mutants,
 * MUTANTS=9 runs one in nine of all. */
#include "backend/cuda/sim/mutate.h"
#include "support/arena.h"
#include "tests/unit/gemm_run.h"
#include "tests/unit/products.h"

static const GemmRun kinds[] = {
    {"sm_90a",
     {DT_BF16, DT_F32, DT_F32, .b_transposed = 1, .bias = true, .shift = true,
      .align = 16},
     "m=128 n=64 k=64 warps_m=2 stages=3 pingpong=0 store=engine waiting=2 "
     "cluster_m=2 cluster_n=1 stream=1 flight=2 raster=2",
     0},
    {"sm_90a",
     {DT_BF16, DT_F32, DT_BF16, .computed = 1, .bias = true, .shift = true,
      .align = 16},
     "m=128 n=96 k=64 warps_m=2 stages=3 pingpong=0 store=engine waiting=2 "
     "cluster_m=2 cluster_n=1 stream=0 flight=2 raster=2",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_F32, .b_transposed = 1, .bias = true, .shift = true,
      .align = 16},
     "m=128 n=64 k=64 warps_m=1 stages=3 store=engine waiting=2 cluster_m=2 "
     "cluster_n=1 accumulators=2 raster=2",
     0},
    {"sm_100a",
     {DT_BF16, DT_F32, DT_F32, .b_transposed = 1, .bias = true, .shift = true,
      .align = 16},
     "m=128 n=64 k=64 warps_m=1 stages=3 store=engine waiting=2 cluster_m=2 "
     "cluster_n=1 accumulators=2 raster=2 pair=1",
     0},
};

static const GemmRun *kind;
static ChosenGemm made_one;

/* Shapes: one tile, which detects most; a sum without terms; split sums with
 * tiles left over; batches; and many tiles of one step in several bands, so
 * that each stage is filled again. */
static bool run(void *owner, Sim *s, uint64_t seed) {
  static const Sizes sizes[] = {{129, 31, 65, 1},
                                {5, 3, 0, 1},
                                {300, 225, 193, 1},
                                {140, 70, 136, 3},
                                {513, 481, 40, 1}};
  Buffer *why = owner;
  for (size_t j = 0; j < ARRAY_LEN(sizes); j++)
    if (!run_gemm(s, "gemm", kind, &made_one, sizes[j], seed + 10 * j, why))
      return false;
  return true;
}

/* Is it a line of the list? */
static bool listed(const char *list, const char *name) {
  size_t len = strlen(name);
  for (const char *at = list; at && (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == '\n') && at[len] == '\n')
      return true;
  return false;
}

static uint32_t survivors(Arena *arena, const char *text, const char *list) {
  const char *some = getenv("MUTANTS");
  bool all = some && strcmp(some, "calls") != 0;
  uint32_t each = some ? (uint32_t)strtoul(some, NULL, 10) : 8;
  uint32_t wrong = 0, seen = 0;
  Buffer why = {.arena = arena};
  Mutants m;
  mutants_find(arena, text, &m);
  assert_true(m.all.len > 150);
  each = each ? each : 1; /* a word, such as `all` */
  for (uint32_t j = 0; j < m.all.len; j++) {
    const char *name = mutant_name(arena, &m, j);
    if ((!all && !mutant_loosens_sync(&m, j)) || seen++ % each != each / 2)
      continue;
    MutantOutcome fate =
        mutant_run(mutant_text(arena, &m, j), 3, 15, run, &why);
    if (fate != MUTANT_SURVIVED || listed(list, name))
      continue;
    fprintf(stderr, "%u survives: %s\n", m.all.at[j].line, name);
    wrong++;
  }
  return wrong;
}

static Buffer text_of(Arena *arena, const GemmRun *of) {
  Buffer text = {.arena = arena};
  kind = of;
  choose(kind, &made_one);
  buffer_puts(&text, gemm_arguments);
  gemm_case_text(&kind->c, &made_one.shape, &made_one.s, "gemm", &text);
  return text;
}

static uint32_t survivors_of(const GemmRun *of) {
  char *list = read_file("gemmgroup.survivors");
  Arena *arena = arena_new();
  uint32_t wrong = survivors(arena, text_of(arena, of).text, list);
  arena_free(arena);
  free(list);
  return wrong;
}

static void test_mutants(void **state) {
  (void)state;
  uint32_t wrong = 0;
  for (size_t j = 0; j < ARRAY_LEN(kinds); j++)
    wrong += survivors_of(&kinds[j]);
  assert_int_equal(wrong, 0);
}

/* A block that does not wait for the commits of its cluster is an error. */
static void test_commits_unseen(void **state) {
  (void)state;
  Arena *arena = arena_new();
  Buffer why = {.arena = arena};
  char *text = text_of(arena, &kinds[2]).text;
  char *wait = strstr(text, "for (unsigned end = round + ");
  assert_non_null(wait);
  assert_int_equal(mutant_run(text, 3, 15, run, &why), MUTANT_SURVIVED);
  memcpy(wait, "while (false)", strlen("while (false)"));
  memset(wait + strlen("while (false)"), ' ',
         strcspn(wait, "\n") - strlen("while (false)"));
  assert_int_equal(mutant_run(text, 1, 15, run, &why), MUTANT_KILLED);
  arena_free(arena);
}

/* A block that shares a tile needs a fence between its partial sums and their
 * count, and another one between the count and the loads of the sums of other
 * blocks. */
static void test_fences(void **state) {
  (void)state;
  Arena *arena = arena_new();
  Buffer why = {.arena = arena};
  char *text = text_of(arena, &kinds[0]).text;
  char *fence = strstr(text, "__threadfence();");
  for (uint32_t j = 0; j < 2; j++) {
    assert_non_null(fence);
    memcpy(fence, "//", 2);
    assert_int_equal(mutant_run(text, 3, 15, run, &why), MUTANT_KILLED);
    memcpy(fence, "__", 2);
    fence = strstr(fence + 1, "__threadfence();");
  }
  arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants),
                                     cmocka_unit_test(test_commits_unseen),
                                     cmocka_unit_test(test_fences)};
  if (!sim_is_available()) {
    fprintf(stderr, "skipped: no C++ compiler\n");
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
