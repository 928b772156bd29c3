/* Tests the JIT compiler: sources are compiled once, in parallel, and cached.
 * Without a compiler, or if it fails, the program runs without it. */
#include "backend/cpu/jit.h"

#include "backend/cpu/compile_batch.h"
#include "runtime/artifact.h"
#include "runtime/warn_once.h"
#include "support/flag.h"
#include "support/interrupt.h"
#include "support/trap.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64]; /* folder of all files that a test writes */

static int set_up(void **state) {
  (void)state;
  strcpy(base, "/tmp/axon-compiler-XXXXXX");
  char tmp[80];
  if (!mkdtemp(base))
    return 1;
  setenv("XDG_CACHE_HOME", base, 1);
  snprintf(tmp, sizeof tmp, "%s", base);
  setenv("TMPDIR", tmp, 1);
  unsetenv("AXON_CC_DEBUG");
  unsetenv("AXON_CC");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", base);
  return system(command);
}

/* 0 if the shell command succeeds in `base`. */
static int shell(const char *format) {
  char command[500];
  snprintf(command, sizeof command, format, base);
  return system(command);
}

/* The result of the search for a compiler is cached per process, so each test
 * has its own process. */
static int in_child(int f(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    exit(f()); /* not _exit: running compilers must be ended */
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static JitObject *request(int n) {
  char text[200];
  int len = snprintf(text, sizeof text,
                     "#define W 16\nint answer(void) { return %d; }\n", n);
  return jit_request(text, (size_t)len, INFINITY);
}

static int answer(JitObject *o) {
  int (*f)(void) = (int (*)(void))jit_symbol(o, "answer");
  return f ? f() : -1;
}

static uint64_t made(void) {
  ArtifactStats t;
  artifact_stats(&t);
  return t.entries;
}

static int compiles(void) {
  JitObject *o[6];
  for (int k = 0; k < 6; k++)
    o[k] = request(k);
  for (int k = 5; k >= 0; k--)
    if (answer(o[k]) != k || !jit_is_ready(o[k]))
      return 1;
  if (request(3) != o[3] || jit_symbol(o[3], "other"))
    return 2;
  OnceWarning n;
  return warn_once_take(&n) ? 3 : made() == 6 ? 0 : 4;
}

static void test_compiles(void **state) {
  (void)state;
  assert_int_equal(in_child(compiles), 0);
  assert_int_equal(shell("! ls -d %s/axon-* 2>/dev/null"), 0);
  setenv("AXON_CC", "cc -DOTHER", 1); /* other arguments: another object */
  assert_int_equal(in_child(compiles), 4);
  assert_int_equal(made(), 12);
}

/* A division of __int128 is a function of libgcc. */
static int needs_library(void) {
  static const char text[] =
      "int answer(int a, int b) { return (int)((__int128)a / b); }\n";
  JitObject *o = jit_request(text, sizeof text - 1, INFINITY);
  int (*f)(int, int) = (int (*)(int, int))jit_symbol(o, "answer");
  OnceWarning n;
  return !f || f(84, 2) != 42 || warn_once_take(&n) ? 1 : made() == 1 ? 0 : 2;
}

static void test_library(void **state) {
  (void)state;
  assert_int_equal(in_child(needs_library), 0);
}

static int loads(void) {
  return answer(request(41)) == 41 ? 0 : 1;
}

static void test_found(void **state) {
  (void)state;
  assert_int_equal(in_child(loads), 0);
  ArtifactStats before, after;
  artifact_stats(&before);
  assert_int_equal(in_child(loads), 0);
  artifact_stats(&after);
  assert_int_equal(after.misses, before.misses);
  assert_int_equal(after.hits, before.hits + 1);
  /* truncated files are made again */
  assert_int_equal(shell("for f in %s/axon/cpu/*.so; do truncate -s 5000 $f; "
                         "done"),
                   0);
  assert_int_equal(in_child(loads), 0);
  artifact_stats(&after);
  assert_int_equal(after.misses, before.misses + 1);
}

/* ---- no compiler, and one that fails ---- */

static int tells(uint16_t code) {
  OnceWarning n, more;
  if (answer(request(1)) != -1 || answer(request(2)) != -1)
    return 1;
  if (!warn_once_take(&n) || n.code != code)
    return 2;
  /* The warning appears once. */
  return warn_once_take(&more) ? 3 : made() == 0 ? 0 : 4;
}

static int tells_missing(void) {
  return tells(512);
}

static int tells_failed(void) {
  return tells(513);
}

static void test_missing(void **state) {
  (void)state;
  setenv("AXON_CC", "/no/such/compiler", 1);
  assert_int_equal(in_child(tells_missing), 0);
  unsetenv("AXON_CC");
  const char *path = getenv("PATH");
  char *kept = strdup(path ? path : "");
  setenv("PATH", base, 1);
  assert_int_equal(in_child(tells_missing), 0);
  setenv("PATH", kept, 1);
  free(kept);
}

static int wrong_text(void) {
  static const char text[] = "#define W 16\nint answer(void) { return; x }\n";
  OnceWarning n;
  JitObject *o = jit_request(text, sizeof text - 1, INFINITY);
  if (jit_symbol(o, "answer") || !warn_once_take(&n) || n.code != 513)
    return 1;
  if (!strstr(n.note, "error"))
    return 2;
  bool kept = strstr(n.note, "kept in") != NULL;
  if (kept != (getenv("AXON_CC_DEBUG") != NULL))
    return 3;
  return answer(request(5)) == 5 ? 0 : 4; /* other kernels are still compiled */
}

static void test_failing(void **state) {
  (void)state;
  setenv("AXON_CC", "false", 1);
  assert_int_equal(in_child(tells_failed), 0);
  /* The compiler reports success, but writes nothing. */
  setenv("AXON_CC", "true", 1);
  assert_int_equal(in_child(tells_failed), 0);
  unsetenv("AXON_CC");
  assert_int_equal(in_child(wrong_text), 0);
  assert_int_equal(shell("! ls -d %s/axon-* 2>/dev/null"), 0);
  setenv("AXON_CC_DEBUG", "1", 1);
  assert_int_equal(in_child(wrong_text), 0);
  assert_int_equal(shell("grep -q 'return; x' %s/axon-*/kernel.c"), 0);
}

static int nowhere(void) {
  return answer(request(1)) == 1 && made() == 0 ? 0 : 1;
}

static void test_no_home(void **state) {
  (void)state;
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  assert_int_equal(in_child(nowhere), 0);
  unsetenv("XDG_CACHE_HOME");
  char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
  unsetenv("HOME");
  assert_int_equal(in_child(nowhere), 0);
  setenv("HOME", home, 1);
  free(home);
  setenv("XDG_CACHE_HOME", base, 1);
  setenv("TMPDIR", "/no/such/folder", 1); /* other folders are tried */
  assert_int_equal(in_child(loads), 0);
}

/* ---- waiting, and not ---- */

/* Sets the compiler to a program in `base`. */
static void use_compiler(const char *name) {
  char path[100];
  snprintf(path, sizeof path, "%s/%s", base, name);
  setenv("AXON_CC", path, 1);
}

/* A compiler that records its start and then waits for the file `go`. */
static void patient_compiler(void) {
  assert_int_equal(
      shell("printf '%%s\\n' '#!/bin/sh' 'echo start >>%1$s/log' "
            "'while [ ! -e %1$s/go ]; do sleep 0.01; done' 'exec cc \"$@\"' "
            ">%1$s/patient; chmod +x %1$s/patient"),
      0);
  use_compiler("patient");
}

static int started(void) { /* number of compilers that were started */
  return shell("exit $(cat %s/log 2>/dev/null | wc -l)") >> 8;
}

static int side_by_side(void) {
  JitObject *a = request(1), *b = request(2), *c = request(3);
  while (started() < 2)
    usleep(10000);
  usleep(50000); /* time for a third one, which must not start */
  if (jit_is_ready(a) || jit_is_ready(b) || jit_is_ready(c) || started() != 2)
    return 1;
  shell("touch %s/go");
  return answer(c) == 3 && answer(a) == 1 && answer(b) == 2 ? 0 : 2;
}

static Flag interrupted;

static void *interrupt_soon(void *argument) {
  usleep(50000);
  flag_set(&interrupted, true);
  return argument;
}

static int interrupts(void) {
  static pthread_t thread;
  JitObject *volatile o = NULL;
  Trap trap;
  FailKind kind = TRAP_SET(trap);
  if (kind == FAIL_NONE) {
    o = request(1);
    interrupt_set_flag(&interrupted);
    pthread_create(&thread, NULL, interrupt_soon, NULL);
    answer(o);
    return 1;
  }
  if (kind != FAIL_INTERRUPT || jit_is_ready(o))
    return 2;
  interrupt_set_flag(NULL);
  pthread_join(thread, NULL);
  shell("touch %s/go");
  return answer(o) == 1 ? 0 : 3; /* the process continued */
}

static int leaves(void) { /* ends while a compiler runs */
  request(1);
  return jit_is_ready(request(2));
}

static int forks(void) {
  JitObject *o = request(7);
  pid_t child = fork();
  int mine = answer(o) == 7 ? 0 : 1, status = 0;
  if (child == 0)
    _exit(mine);
  waitpid(child, &status, 0);
  return mine || status;
}

/* A host program may handle SIGCHLD in several ways. */
static int ignores_children(void) {
  signal(SIGCHLD, SIG_IGN);
  return answer(request(9)) == 9 ? 0 : 1;
}

static void start_anew(void) {
  assert_int_equal(shell("rm -rf %1$s/axon %1$s/go %1$s/log"), 0);
}

static void test_waiting(void **state) {
  (void)state;
  patient_compiler();
  setenv("AXON_THREADS", "2", 1);
  assert_int_equal(in_child(side_by_side), 0);
  start_anew();
  assert_int_equal(in_child(interrupts), 0);
  start_anew();
  assert_int_equal(in_child(leaves), 0); /* otherwise it would wait forever */
  assert_int_equal(shell("! ls -d %s/axon-* 2>/dev/null"), 0);
  assert_int_equal(made(), 0);
  assert_int_equal(shell("touch %s/go"), 0);
  assert_int_equal(in_child(forks), 0);
  assert_int_equal(shell("rm -r %s/axon"), 0);
  assert_int_equal(in_child(ignores_children), 0);
}

/* A process is killed during a compilation.  The next process finds no partial
 * file. */
static void test_killed(void **state) {
  (void)state;
  for (int ms = 0; ms < 90; ms += 6) {
    pid_t child = fork();
    if (child == 0)
      _exit(loads());
    usleep((useconds_t)ms * 1000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  }
  assert_int_equal(in_child(loads), 0);
  ArtifactStats t;
  artifact_verify(&t);
  assert_int_equal(t.corrupt, 0);
  assert_int_equal(t.entries, 1);
}

/* ---- many ---- */

static void *ask(void *argument) {
  int first = (int)(intptr_t)argument;
  for (int k = 0; k < 4; k++)
    if (answer(request((first + k) % 4)) != (first + k) % 4)
      return "wrong";
  return NULL;
}

static int threads(void) {
  pthread_t thread[6];
  int bad = 0;
  for (intptr_t k = 0; k < 6; k++)
    pthread_create(&thread[k], NULL, ask, (void *)k);
  for (int k = 0; k < 6; k++) {
    void *result;
    pthread_join(thread[k], &result);
    bad |= result != NULL;
  }
  return bad || made() != 4;
}

static int four(void) {
  JitObject *o[4];
  for (int k = 0; k < 4; k++)
    o[k] = request(k);
  for (int k = 0; k < 4; k++)
    if (answer(o[k]) != k)
      return 1;
  return 0;
}

static void test_many(void **state) {
  (void)state;
  assert_int_equal(in_child(threads), 0);
  shell("rm -r %s/axon");
  for (int k = 0; k < 20; k++)
    if (fork() == 0)
      exit(four());
  for (int k = 0; k < 20; k++) {
    int status;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  ArtifactStats t;
  artifact_verify(&t);
  assert_int_equal(t.entries, 4);
  assert_int_equal(t.corrupt, 0);
  assert_int_equal(t.hits + t.misses, 80);
}

/* ---- two levels ---- */

/* A compiler that defines LEVEL: 1 with optimization, 2 with little. */
static void level_compiler(void) {
  assert_int_equal(
      shell("printf '%%s\n' '#!/bin/sh' "
            "'case $* in *-O2*) level=1 ;; *) level=2 ;; esac' "
            "'exec cc -DLEVEL=$level \"$@\"' >%1$s/level; chmod +x %1$s/level"),
      0);
  use_compiler("level");
}

static JitObject *request_small(void) {
  static const char text[] = "int kernel(void) { return LEVEL; }\n";
  return jit_request(text, sizeof text - 1, 1000);
}

static int level_of(JitObject *o) {
  KernelFunction *f = jit_kernel(o);
  return f ? f(NULL, NULL, NULL, 0, 0, NULL) : -1;
}

static bool becomes_optimized(JitObject *o) {
  for (int k = 0; k < 3000; k++, usleep(10000))
    if (level_of(o) == 1)
      return true;
  return false;
}

static int rarely(void) {
  JitObject *o = request_small();
  for (int k = 0; k < 100; k++) {
    jit_count_run(o, 1000);
    if (level_of(o) != 2)
      return 1;
  }
  return made() == 1 ? 0 : 2;
}

static int often(void) {
  JitObject *o = request_small();
  if (level_of(o) != 2)
    return 1;
  for (int k = 0; k < 100; k++)
    jit_count_run(o, 1e9);
  return becomes_optimized(o) && made() == 2 ? 0 : 2;
}

static int again(void) {
  JitObject *o = request_small();
  return level_of(o) != 2 ? 1 : becomes_optimized(o) ? 0 : 2;
}

static int optimized(void) {
  return level_of(request_small()) == 1 && made() == 1 ? 0 : 1;
}

static int measured(void) {
  jit_optimize_always();
  return optimized();
}

/* The same source, first for few operations, then for many. */
static int larger(void) {
  JitObject *o = request_small();
  static const char text[] = "int kernel(void) { return 3; }\n";
  JitObject *small = jit_request(text, sizeof text - 1, 10);
  if (level_of(o) != 2 || level_of(small) != 3 || made() != 2)
    return 1;
  jit_request(text, sizeof text - 1, 1e12);
  for (int k = 0; k < 3000 && made() < 3; k++, usleep(10000))
    jit_is_ready(small);
  return made() == 3 ? 0 : 2;
}

static void test_levels(void **state) {
  (void)state;
  level_compiler();
  assert_int_equal(in_child(rarely), 0);
  assert_int_equal(in_child(again), 0); /* an earlier process used it */
  shell("rm -r %s/axon");
  assert_int_equal(in_child(often), 0);
  shell("rm -r %s/axon");
  assert_int_equal(in_child(larger), 0);
  shell("rm -r %s/axon");
  assert_int_equal(in_child(measured), 0);
  shell("rm -r %s/axon");
  setenv("AXON_OPTIMIZE", "always", 1);
  assert_int_equal(in_child(optimized), 0);
  unsetenv("AXON_OPTIMIZE");
}

/* If the quick compilation fails, the optimized one reports why. */
static int fails(void) {
  static const char text[] = "int kernel(void) { return 1 }\n";
  OnceWarning n;
  JitObject *o = jit_request(text, sizeof text - 1, 10);
  if (jit_kernel(o) || !jit_is_ready(o) || !warn_once_take(&n))
    return 1;
  jit_count_run(o, 1e12);
  return jit_kernel(o) || started() != 2 ? 2 : warn_once_take(&n) ? 3 : 0;
}

static int fails_at_quick_level(void) {
  static const char text[] = "#if LEVEL != 1\n#error no\n#endif\n"
                             "int kernel(void) { return LEVEL; }\n";
  OnceWarning n;
  JitObject *o = jit_request(text, sizeof text - 1, 10);
  return level_of(o) != 1 ? 1 : warn_once_take(&n) ? 2 : 0;
}

static int hangs(void) {
  OnceWarning n;
  JitObject *o = request_small();
  return jit_kernel(o) || !warn_once_take(&n) ? 1 : started() != 1;
}

static void test_failing_level(void **state) {
  (void)state;
  level_compiler();
  assert_int_equal(in_child(fails_at_quick_level), 0);
  patient_compiler();
  setenv("AXON_CC_SECONDS", "1", 1);
  assert_int_equal(in_child(hangs), 0);
  unsetenv("AXON_CC_SECONDS");
  shell("rm %1$s/log; touch %1$s/go");
  assert_int_equal(in_child(fails), 0);
}

/* ---- sources that may be a part of a batch ---- */

static bool joins(const char *text) {
  char source[500];
  int len = snprintf(source, sizeof source, "#define W 16\n%s", text);
  return compile_batch_accepts(source, (size_t)len);
}

static void test_batch_accepts(void **state) {
  (void)state;
  assert_true(joins("int kernel(int x) {\nreturn x;\n}\n"));
  assert_true(joins("#define A 1\nint f(void) { return A; }\n"
                    "int kernel(void) { return f(); }\n"));
  assert_true(joins("int kernel(void) {\n#ifdef A\nif (1) {\n#else\n"
                    "for (;;) {\n#endif\n}\n}\n"));
  assert_true(joins("#ifdef A\nint kernel(void) {\n#else\n"
                    "int kernel(int x) {\n#endif\n}\n"));
  assert_false(joins("int other(void) { return 1; }\n"));
  assert_false(joins("int kernel(void) {\n"));
  assert_false(joins("int kernel(void) {}\n#ifdef A\n"));
  assert_false(joins("int kernel(void) {}\n#endif\n"));
  assert_false(joins("int kernel(void) {}\nint f(void"));
  assert_false(joins("int kernel(void) __attribute__((cold)) x {}\n"));
  assert_false(joins("int kernel\n(void) {}\n"));
  assert_false(joins("#ifdef A\nint kernel(void) {\n#else\n#endif\n}\n"));
  assert_false(joins("int kernel(void) {\n#ifdef A\n}\n#endif\n"));
  assert_false(joins("#ifdef A\nint kernel(int x,\n#else\n"
                     "int kernel(\n#endif\nint y) {}\n}\n"));
  assert_false(joins("static const int t[] = {1};\nint kernel(void) {}\n"));
  assert_false(joins("/* the machine's */\nint kernel(void) {}\n"));
  assert_false(compile_batch_accepts("int kernel(void) {}\n", 20));
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
      T(test_compiles), T(test_library),       T(test_found),
      T(test_missing),  T(test_failing),       T(test_no_home),
      T(test_waiting),  T(test_killed),        T(test_many),
      T(test_levels),   T(test_failing_level), T(test_batch_accepts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
