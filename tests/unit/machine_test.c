/* Limits of the machine: guessed, kept, read by another process, refused when
 * they are not whole. */
#define _GNU_SOURCE
#include "machine/machine.h"

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

/* What f says in a process of its own, where nothing was found out before. */
static bool elsewhere(bool (*f)(void)) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(f() ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool positive(const MachineLimits *l) {
  bool good = l->threads >= 1 && l->fork > 0;
  for (int all = 0; all < 2; all++) {
    good &= l->fma[all] > 0 && l->stream[all] > 0;
    for (int k = 0; k < LEVEL_COUNT; k++)
      good &= l->read[k][all] > 0 && l->copy[k][all] > 0;
  }
  return good;
}

static bool are_guesses(void) {
  return !machine_limits()->measured && positive(machine_limits());
}

static MachineLimits some(void) {
  MachineLimits l = *machine_limits();
  l.measured = true;
  l.fma[0] = 123e9;
  l.read[LEVEL_3][1] = 45e9;
  l.fork = 2.5e-6;
  return l;
}

static bool are_some(void) {
  MachineLimits want = some();
  const MachineLimits *l = machine_limits();
  return l->measured && l->fma[0] == want.fma[0] && l->fork == want.fork &&
         l->read[LEVEL_3][1] == want.read[LEVEL_3][1];
}

static bool keep_some(void) {
  MachineLimits l = some();
  return machine_keep(&l);
}

/* Of operations the best counts, of bytes the last. */
static bool keep_worse(void) {
  MachineLimits l = some();
  l.fma[0] = 1e9;
  l.read[LEVEL_3][1] = 1e9;
  return machine_keep(&l) && l.fma[0] == 123e9 && l.read[LEVEL_3][1] == 1e9;
}

static void test_limits(void **state) {
  (void)state;
  assert_true(elsewhere(are_guesses));
  assert_true(elsewhere(keep_some));
  assert_true(elsewhere(are_some));
  assert_true(elsewhere(keep_worse));
  assert_false(elsewhere(are_some));
}

static void test_broken_file(void **state) {
  (void)state;
  char command[128];
  assert_true(elsewhere(keep_some));
  snprintf(command, sizeof command,
           "for f in %s/axon/machine-*; do echo 1 >$f; done", folder);
  assert_int_equal(system(command), 0);
  assert_true(elsewhere(are_guesses));
  assert_true(elsewhere(keep_some));
  assert_true(elsewhere(are_some));
}

static void test_machine(void **state) {
  (void)state;
  const Machine *m = machine();
  assert_true(m->cores >= 1 && m->memory > 0 && m->line >= 16);
  assert_true(m->vector == 16 || m->vector == 32 || m->vector == 64);
  assert_true(m->cache[0] <= m->cache[1] || !m->cache[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_broken_file),
      cmocka_unit_test(test_machine),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
