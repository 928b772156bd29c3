/* Tests mutants of the hand-written matrix products: the simulator detects the
 * error in each.  Exceptions are in tests/cuda/NAME.survivors, with the reason
 * why they are correct.
 *
 * One in twenty runs; MUTANTS=all runs all. */
#include "backend/cuda/sim/mutate.h"
#include "support/arena.h"
#include "tests/unit/products.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool run80(void *owner, Sim *s, uint64_t seed) {
  Buffer *why = owner;
  return gemm80(s, 136, 72, 104, seed, why) &&
         gemm80(s, 65, 8, 264, seed + 50, why);
}

static bool run90(void *owner, Sim *s, uint64_t seed) {
  Buffer *why = owner;
  return gemm90(s, 200, 136, 264, 2, seed, why) &&
         gemm90(s, 65, 8, 8, 1, seed + 50, why) &&
         gemm90(s, 1032, 264, 8, 2, seed, why) &&
         gemm90(s, 8, 1032, 8, 2, seed, why) &&
         gemm90(s, 129, 8, 8, 1, seed, why);
}

/* Is it a line of the list? */
static bool listed(const char *list, const char *name) {
  size_t len = strlen(name);
  for (const char *at = list; at && (at = strstr(at, name)); at++)
    if ((at == list || at[-1] == '\n') && at[len] == '\n')
      return true;
  return false;
}

static void check(const char *kernel,
                  bool (*run)(void *owner, Sim *s, uint64_t seed)) {
  const char *some = getenv("MUTANTS");
  uint32_t each = some && strcmp(some, "all") == 0 ? 1 : 20, wrong = 0;
  char file[80];
  char *text = read_kernel(kernel);
  snprintf(file, sizeof file, "%s.survivors", kernel);
  char *list = read_file(file);
  Arena *arena = arena_new();
  Buffer why = {0};
  Mutants m;
  mutants_find(arena, text, &m);
  assert_true(m.all.len > 150);
  for (uint32_t j = each / 2; j < m.all.len; j += each) {
    const char *name = mutant_name(arena, &m, j);
    MutantOutcome fate =
        mutant_run(mutant_text(arena, &m, j), 3, 15, run, &why);
    if (fate != MUTANT_SURVIVED || listed(list, name))
      continue;
    fprintf(stderr, "%s.cu:%u survives: %s\n", kernel, m.all.at[j].line, name);
    wrong++;
  }
  arena_free(arena);
  free(text);
  free(list);
  assert_int_equal(wrong, 0);
}

static void test_gemm80(void **state) {
  (void)state;
  check("gemm80", run80);
}

static void test_gemm90(void **state) {
  (void)state;
  check("gemm90", run90);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm80),
      cmocka_unit_test(test_gemm90),
  };
  if (!sim_is_available()) {
    fprintf(stderr, "skipped: no C++ compiler\n");
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
