/* Tests peak rates: estimated, saved, read by another process, and rejected if
 * the file is damaged. */
#define _GNU_SOURCE
#include "machine/machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/axon-machine-XXXXXX";

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(folder))
    return -1;
  return setenv("XDG_CACHE_HOME", folder, 1);
}

static int tear_down(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* Runs f in a new process, with empty caches. */
static bool elsewhere(bool (*f)(void)) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(f() ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool positive(const PeakRates *l) {
  bool good = l->threads >= 1 && l->fork_join_seconds > 0;
  for (int all = 0; all < 2; all++) {
    good &= l->f32_flops[all] > 0 && l->nontemporal_bandwidth[all] > 0;
    for (int k = 0; k < LEVEL_COUNT; k++)
      good &= l->read_bandwidth[k][all] > 0 && l->copy_bandwidth[k][all] > 0;
  }
  return good;
}

static bool are_guesses(void) {
  return !machine_peak_rates()->measured && positive(machine_peak_rates());
}

static PeakRates some(void) {
  PeakRates l = *machine_peak_rates();
  l.measured = true;
  l.f32_flops[0] = 123e9;
  l.read_bandwidth[LEVEL_L3][1] = 45e9;
  l.fork_join_seconds = 2.5e-6;
  return l;
}

static bool are_some(void) {
  PeakRates want = some();
  const PeakRates *l = machine_peak_rates();
  return l->measured && l->f32_flops[0] == want.f32_flops[0] &&
         l->fork_join_seconds == want.fork_join_seconds &&
         l->read_bandwidth[LEVEL_L3][1] == want.read_bandwidth[LEVEL_L3][1];
}

static bool keep_some(void) {
  PeakRates l = some();
  return machine_save_peak_rates(&l);
}

/* For operation rates the best counts, for bandwidths the last. */
static bool keep_worse(void) {
  PeakRates l = some();
  l.f32_flops[0] = 1e9;
  l.read_bandwidth[LEVEL_L3][1] = 1e9;
  return machine_save_peak_rates(&l) && l.f32_flops[0] == 123e9 &&
         l.read_bandwidth[LEVEL_L3][1] == 1e9;
}

static void test_limits(void **state) {
  (void)state;
  assert_true(elsewhere(are_guesses));
  assert_true(elsewhere(keep_some));
  assert_true(elsewhere(are_some));
  assert_true(elsewhere(keep_worse));
  assert_false(elsewhere(are_some));
}

/* A file is truncated, or has a rate that no machine has. */
static void test_broken_file(void **state) {
  (void)state;
  static const char *const edits[] = {"2,$d", "1s/.*/0/",
                                      "1s/.*/9000000000000000000/",
                                      "$s/.*/9000000000000000000/"};
  for (size_t k = 0; k < sizeof edits / sizeof *edits; k++) {
    char command[128];
    assert_true(elsewhere(keep_some));
    snprintf(command, sizeof command, "sed -i '%s' %s/axon/machine-*", edits[k],
             folder);
    assert_int_equal(system(command), 0);
    assert_true(elsewhere(are_guesses));
    assert_true(elsewhere(keep_some));
    assert_true(elsewhere(are_some));
  }
}

static void test_machine(void **state) {
  (void)state;
  const Machine *m = machine();
  assert_true(m->cores >= 1 && m->memory_bytes > 0 &&
              m->cache_line_bytes >= 16);
  assert_true(m->vector_bytes == 16 || m->vector_bytes == 32 ||
              m->vector_bytes == 64);
  assert_true(m->cache_bytes[0] <= m->cache_bytes[1] || !m->cache_bytes[1]);
}

/* Why a measured rate does not count. */
static void test_rate_problems(void **state) {
  (void)state;
  static const struct {
    double spread;
    const char *text;
  } rows[] = {
      {0, ""},
      {MAX_RATE_SPREAD, ""},
      {0.5, "two measurements differed by 50 %"},
      {HUGE_VAL, "other programs disturbed this measurement"},
      {IMPOSSIBLE_RATE, "this measurement gave a rate that no core has"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    char text[RATE_PROBLEM_TEXT];
    core_rate_problem(rows[k].spread, text);
    assert_string_equal(text, rows[k].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_broken_file),
      cmocka_unit_test(test_machine),
      cmocka_unit_test(test_rate_problems),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
