/* Tests the thread pool: each task runs once, for all callers.
 * tests/check_races.sh builds it with -fsanitize=thread. */
#include "runtime/cpu_quota.h"
#include "runtime/thread_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef int Run(int64_t units, int64_t grain, ParallelBody *work, void *context,
                Flag *stop);
static Run *const runs[] = {thread_pool_parallel_for,
                            thread_pool_parallel_for_static,
                            thread_pool_parallel_for_reverse};

enum { UNITS = 10007 };

typedef struct Marks {
  _Atomic int at[UNITS];
  int64_t units, grain;
  _Atomic int bad;
} Marks;

static int mark(void *context, int64_t begin, int64_t end) {
  Marks *m = context;
  if (begin < 0 || end > m->units || begin >= end || end - begin > m->grain)
    m->bad++;
  for (int64_t u = begin; u < end; u++)
    m->at[u]++;
  return 0;
}

static bool all_once(Marks *m) {
  for (int64_t u = 0; u < m->units; u++)
    if (m->at[u] != 1)
      return false;
  return m->bad == 0;
}

static bool covers(Run *run, int64_t units, int64_t grain) {
  Marks *m = calloc(1, sizeof *m);
  m->units = units;
  m->grain = grain;
  bool good = run(units, grain, mark, m, NULL) == 0 && all_once(m);
  free(m);
  return good;
}

static void test_units(void **state) {
  (void)state;
  static const int64_t grains[] = {1, 2, 3, 7, 64, 1000, UNITS, 3 * UNITS};
  for (size_t r = 0; r < ARRAY_LEN(runs); r++)
    for (size_t k = 0; k < ARRAY_LEN(grains); k++)
      for (int64_t units = 0; units <= UNITS; units = 3 * units + 1)
        assert_true(covers(runs[r], units, grains[k]));
}

static void test_often(void **state) {
  (void)state;
  for (int k = 0; k < 2000; k++) { /* threads that spin, and sometimes sleep */
    assert_true(covers(runs[k % 3], 1 + k % 100, 1));
    if (k % 500 == 0)
      usleep(2000);
  }
}

/* ---- loops that stop early ---- */

typedef struct Count {
  _Atomic int64_t done;
  int64_t fail_at, stop_at;
  Flag stop;
} Count;

static int count(void *context, int64_t begin, int64_t end) {
  Count *c = context;
  c->done += end - begin;
  if (c->stop_at && c->done >= c->stop_at)
    flag_set(&c->stop, true);
  return begin <= c->fail_at && c->fail_at < end ? 7 : 0;
}

static void test_result(void **state) {
  (void)state;
  for (size_t r = 0; r < ARRAY_LEN(runs); r++) {
    Count c = {.fail_at = 10};
    assert_int_equal(runs[r](1000000, 1, count, &c, &c.stop), 7);
    assert_true(c.done < 1000000);
    Count after = {.fail_at = -1};
    assert_int_equal(runs[r](1000, 1, count, &after, NULL), 0);
    assert_int_equal(after.done, 1000);
  }
}

static void test_stop(void **state) {
  (void)state;
  for (size_t r = 0; r < ARRAY_LEN(runs); r++) {
    Count c = {.fail_at = -1, .stop_at = 100};
    assert_int_equal(runs[r](1000000, 1, count, &c, &c.stop), 0);
    assert_true(c.done >= 100 && c.done < 1000000);
    Count none = {.fail_at = -1, .stop = true};
    runs[r](1000, 1, count, &none, &none.stop);
    assert_int_equal(none.done, 0);
  }
}

/* ---- calls from several threads, nested calls, calls after fork ---- */

static void *call_often(void *argument) {
  (void)argument;
  for (int k = 0; k < 200; k++)
    if (!covers(runs[k % 3], 1000 + k, 3))
      return "wrong";
  return NULL;
}

static void test_callers(void **state) {
  (void)state;
  pthread_t threads[6];
  for (size_t k = 0; k < ARRAY_LEN(threads); k++)
    assert_int_equal(pthread_create(&threads[k], NULL, call_often, NULL), 0);
  for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
    void *result;
    pthread_join(threads[k], &result);
    assert_null(result);
  }
}

static int nest(void *context, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  _Atomic int *good = context;
  *good += covers(thread_pool_parallel_for, 500, 7);
  return 0;
}

static void test_nested(void **state) {
  (void)state;
  _Atomic int good = 0;
  assert_int_equal(thread_pool_parallel_for(20, 1, nest, &good, NULL), 0);
  assert_int_equal(good, 20);
}

static void test_fork(void **state) {
  (void)state;
  assert_true(covers(thread_pool_parallel_for, 1000, 1));
  pid_t child = fork();
  if (child == 0)
    _exit(covers(thread_pool_parallel_for, 1000, 1) &&
                  covers(thread_pool_parallel_for_static, 77, 1)
              ? 0
              : 1);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(covers(thread_pool_parallel_for, 1000, 1));
}

/* ---- scratch ---- */

static int use_scratch(void *context, int64_t begin, int64_t end) {
  _Atomic int *bad = context;
  size_t size = (size_t)(end - begin) * 1000 + (size_t)begin;
  unsigned char *p = thread_pool_scratch(size);
  if (!p || (uintptr_t)p % 64)
    return 1;
  memset(p, (int)begin & 255, size);
  for (size_t k = 0; k < size; k++)
    *bad += p[k] != (begin & 255);
  return 0;
}

static void *scratch_alone(void *argument) {
  (void)argument;
  return thread_pool_scratch(100000) ? thread_pool_scratch(10) : NULL;
}

static void test_scratch(void **state) {
  (void)state;
  _Atomic int bad = 0;
  assert_int_equal(thread_pool_parallel_for(3000, 1, use_scratch, &bad, NULL),
                   0);
  assert_int_equal(bad, 0);
  void *mine = thread_pool_scratch(100);
  assert_ptr_equal(thread_pool_scratch(50), mine);
  assert_null(thread_pool_scratch(SIZE_MAX / 2 + 1));
  assert_non_null(
      thread_pool_scratch(50)); /* the old scratch memory is still valid */
  pthread_t thread;             /* frees its scratch memory (leak checker) */
  void *other;
  assert_int_equal(pthread_create(&thread, NULL, scratch_alone, NULL), 0);
  pthread_join(thread, &other);
  assert_non_null(other);
}

/* ---- settings ---- */

static void test_settings(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "0", "-1", "257", "x", "4x", "1e3", "999999999999999999999"};
  Fault fault = {0};
  for (size_t k = 0; k < ARRAY_LEN(wrong); k++) {
    setenv("AXON_THREADS", wrong[k], 1);
    assert_false(thread_pool_check_env(&fault));
    assert_non_null(strstr(fault.message, wrong[k]));
    assert_non_null(strstr(fault.help, "256"));
  }
  setenv("AXON_THREADS", "256", 1);
  assert_true(thread_pool_check_env(&fault));
  setenv("AXON_THREADS", "", 1);
  assert_true(thread_pool_check_env(&fault));
}

/* ---- CPU quota ---- */

static void put_file(const char *folder, const char *name, const char *text) {
  char path[300], *slash;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (slash = path + strlen(folder) + 1; (slash = strchr(slash, '/'));
       *slash++ = '/') {
    *slash = 0;
    mkdir(path, 0700);
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void test_granted(void **state) {
  (void)state;
  char folder[] = "/tmp/axon-pool-XXXXXX", groups[64], command[64];
  assert_non_null(mkdtemp(folder));
  snprintf(groups, sizeof groups, "%s/groups", folder);
  assert_int_equal(cpu_quota_cores(folder, groups), INT_MAX);
  put_file(folder, "groups", "0::/a/b\n");
  put_file(folder, "a/b/cpu.max", "max 100000\n");
  assert_int_equal(cpu_quota_cores(folder, groups), INT_MAX);
  put_file(folder, "a/cpu.max",
           "250000 100000\n"); /* quota of the parent group */
  assert_int_equal(cpu_quota_cores(folder, groups), 3);
  put_file(folder, "cpu.max", "200000 100000\n"); /* quota of a container */
  assert_int_equal(cpu_quota_cores(folder, groups), 2);
  put_file(folder, "cpu.max", "max 100000\n");
  put_file(folder, "groups", "4:cpuset:/c\n3:cpuacct,cpu:/c\n");
  put_file(folder, "cpu/cpu.cfs_period_us", "100000\n");
  put_file(folder, "cpu/cpu.cfs_quota_us", "-1\n");
  assert_int_equal(cpu_quota_cores(folder, groups), INT_MAX);
  put_file(folder, "cpu/c/cpu.cfs_period_us", "100000\n");
  put_file(folder, "cpu/c/cpu.cfs_quota_us", "1000\n");
  assert_int_equal(cpu_quota_cores(folder, groups), 1);
  put_file(folder, "groups", "4:cpuset:/c\n");
  assert_int_equal(cpu_quota_cores(folder, groups), INT_MAX);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static int take_a_while(void *context, int64_t begin, int64_t end) {
  (void)context, (void)begin, (void)end;
  usleep(400); /* longer than the pause after which a burst ends */
  return 0;
}

/* A job that follows a small one closely wakes the threads, however long the
 * small one takes.  A busy machine may make a pause longer. */
static void test_burst(void **state) {
  (void)state;
  bool follows = false;
  for (int k = 0; k < 50 && !follows; k++) {
    usleep(3000); /* the threads sleep */
    if (thread_pool_is_awake(4))
      continue;
    thread_pool_parallel_for(1, 1, take_a_while, NULL, NULL);
    follows = thread_pool_is_awake(4);
  }
  assert_true(follows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_units),    cmocka_unit_test(test_often),
      cmocka_unit_test(test_result),   cmocka_unit_test(test_stop),
      cmocka_unit_test(test_callers),  cmocka_unit_test(test_nested),
      cmocka_unit_test(test_fork),     cmocka_unit_test(test_scratch),
      cmocka_unit_test(test_settings), cmocka_unit_test(test_granted),
      cmocka_unit_test(test_burst)};
  setenv("AXON_THREADS", "4", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
