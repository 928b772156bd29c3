/* Tests files that are truncated or written while they are mapped: with
 * readers, earlier signal handlers, threads and processes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/internal.h"
#include "runtime/thread_pool.h"
#include "session/axon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 17 << 20, HEAD = 128, SIZE = HEAD + 4 * COUNT, PAGE = 4096 };

static char dir[] = "/tmp/axon_mapped_XXXXXX";
static char path[100], safe[100];

static void sparse(const char *file, const void *head, size_t len) {
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, head, len), len);
  assert_int_equal(ftruncate(fd, SIZE), 0);
  close(fd);
}

/* The handler of libaxon.  Each run of a test has its own. */
static struct sigaction ours;

static void take_signal(void) {
  sigaction(SIGBUS, &ours, NULL);
}

/* All zero, and no blocks on the disk. */
static int make(void **state) {
  (void)state;
  char head[HEAD + 1];
  int len = snprintf(head, sizeof head,
                     "\x93NUMPY\x01%cv%c{'descr': '<f4', 'fortran_order': "
                     "False, 'shape': (%d,), }",
                     0, 0, COUNT);
  memset(head + len, ' ', (size_t)(HEAD - len));
  head[HEAD - 1] = '\n';
  sparse(path, head, HEAD);
  uint64_t size = HEAD - 8;
  memcpy(head, &size, 8);
  len = 8 + snprintf(head + 8, sizeof head - 8,
                     "{\"a\":{\"dtype\":\"F32\",\"shape\":[%d],"
                     "\"data_offsets\":[0,%d]}}",
                     COUNT, 4 * COUNT);
  memset(head + len, ' ', (size_t)(HEAD - len));
  sparse(safe, head, HEAD);
  return 0;
}

static Tensor *load(const char *file) {
  Fault fault = {0};
  Tensor *t = file_load(file, NULL, &fault);
  if (!t)
    fail_msg("%s", fault.message);
  assert_non_null(tensor_mapped(t));
  assert_true(tensor_check(t, &fault));
  return t;
}

static void says(const Tensor *t, const char *what) {
  Fault fault = {0};
  assert_false(tensor_check(t, &fault));
  assert_non_null(strstr(fault.message, what));
  assert_non_null(strstr(fault.message, dir));
  assert_int_equal(fault.kind, FAULT_FILE);
}

static void cut(const char *file, off_t size) {
  assert_int_equal(truncate(file, size), 0);
}

static float last_of(const Tensor *t) {
  return ((volatile float *)t->data)[COUNT - 1];
}

static void test_cut(void **state) {
  (void)state;
  take_signal();
  const char *const files[] = {path, safe};
  for (size_t k = 0; k < ARRAY_LEN(files); k++) {
    Tensor *t = load(files[k]), *other = load(files[1 - k]);
    cut(files[k], PAGE);
    assert_true(last_of(t) == 0);
    says(t, "the file was truncated");
    cut(files[k], SIZE); /* the data that were read remain invalid */
    says(t, "the file was changed");
    Fault fault;
    assert_true(tensor_check(other, &fault) && last_of(other) == 0);
    tensor_release(t);
    tensor_release(other);
    tensor_release(load(files[k]));
  }
}

/* Writes a .safetensors file with two tensors.  Its data begin at `start`. */
static void make_pair(const char *file, int start) {
  char head[2 * HEAD];
  int half = COUNT / 2;
  uint64_t size = (uint64_t)start - 8;
  memset(head, ' ', sizeof head);
  memcpy(head, &size, 8);
  int len = snprintf(head + 8, sizeof head - 8,
                     "{\"a\":{\"dtype\":\"F32\",\"shape\":[%d],"
                     "\"data_offsets\":[0,%d]},"
                     "\"b\":{\"dtype\":\"F32\",\"shape\":[%d],"
                     "\"data_offsets\":[%d,%d]}}",
                     half, 4 * half, COUNT - half, 4 * half, 4 * COUNT);
  head[8 + len] = ' ';
  sparse(file, head, (size_t)start);
  assert_int_equal(truncate(file, start + 4 * (off_t)COUNT), 0);
}

/* Data need the alignment of their elements only.  All tensors of a file, and
 * all loads of it, share one mapping. */
static void test_shared(void **state) {
  (void)state;
  take_signal();
  Fault fault = {0};
  const LoadOptions second = {.name = "b"};
  const int starts[] = {192 + 24, 192 + 4, 192 + 1}; /* bytes */
  for (size_t k = 0; k < ARRAY_LEN(starts); k++) {
    NamedTensors both;
    bool is_aligned = starts[k] % 4 == 0;
    make_pair(safe, starts[k]);
    assert_true(file_load_all(safe, &both, &fault));
    Tensor *t = file_load(safe, &second, &fault), *b = both.all[1].tensor;
    Tensor *a = both.all[0].tensor;
    assert_true((tensor_mapped(a) != NULL) == is_aligned);
    assert_true(tensor_mapped(a) == tensor_mapped(b));
    assert_true(tensor_mapped(t) == tensor_mapped(b));
    assert_true((t->data == b->data) == is_aligned);
    named_tensors_free(&both);
    assert_true(((volatile float *)t->data)[t->count - 1] == 0);
    assert_true(tensor_check(t, &fault));
    tensor_release(t);
    assert_false(mapped_any());
  }
  make(NULL);
}

/* No signal comes of these. */
static void test_changed(void **state) {
  (void)state;
  take_signal();
  Tensor *t = load(path);
  cut(path, SIZE - 4);
  assert_true(last_of(t) == 0);
  says(t, "the file was truncated");
  tensor_release(t);
  make(NULL);
  t = load(path);
  int fd = open(path, O_WRONLY);
  usleep(20000);
  assert_int_equal(pwrite(fd, "abcd", 4, SIZE - 4), 4);
  close(fd);
  says(t, "the file was changed");
  tensor_release(t);
  make(NULL);
}

/* Another file in its place does not matter, until its own file changes. */
static void test_moved(void **state) {
  (void)state;
  take_signal();
  Tensor *t = load(path);
  int fd = open(path, O_WRONLY);
  unlink(path);
  make(NULL);
  Fault fault;
  cut(path, PAGE);
  assert_true(last_of(t) == 0 && tensor_check(t, &fault));
  assert_int_equal(ftruncate(fd, PAGE), 0);
  assert_true(last_of(t) == 0);
  says(t, "the file was truncated");
  close(fd);
  tensor_release(t);
  make(NULL);
}

static int read_some(void *context, int64_t begin, int64_t end) {
  const Tensor *t = context;
  for (int64_t i = begin; i < end; i++)
    if (((volatile float *)t->data)[i * 1024] != 0)
      return 1;
  return 0;
}

static void test_threads(void **state) {
  (void)state;
  take_signal();
  for (int turn = 0; turn < 4; turn++) {
    Tensor *t = load(path), *one = load(path);
    cut(path, turn * PAGE);
    assert_int_equal(
        thread_pool_parallel_for(COUNT / 1024, 64, read_some, t, NULL), 0);
    says(t, "the file was truncated");
    says(one, "the file was truncated");
    tensor_release(t);
    tensor_release(one);
    make(NULL);
  }
}

/* Entries of the list are reused. */
static void test_many(void **state) {
  (void)state;
  take_signal();
  Tensor *all[50];
  for (int turn = 0; turn < 3; turn++) {
    for (size_t k = 0; k < ARRAY_LEN(all); k++)
      all[k] = load(k % 2 ? path : safe);
    cut(path, PAGE);
    for (size_t k = 0; k < ARRAY_LEN(all); k++) {
      Fault fault;
      assert_true(last_of(all[k]) == 0);
      assert_int_equal(tensor_check(all[k], &fault), k % 2 == 0);
      tensor_release(all[k]);
    }
    make(NULL);
  }
  assert_false(mapped_any());
}

static void test_saved(void **state) {
  (void)state;
  take_signal();
  static const char *const endings[] = {"npy", "npz", "safetensors", "csv"};
  for (size_t k = 0; k < ARRAY_LEN(endings); k++) {
    Tensor *t = load(path);
    char to[200];
    Fault fault = {0};
    snprintf(to, sizeof to, "%s/to.%s", dir, endings[k]);
    t->rank = 2; /* a table has rank 2 */
    t->shape[0] = COUNT / 1024, t->shape[1] = 1024;
    cut(path, PAGE);
    if (k == 3)
      t->shape[0] = 100, t->count = 100 * 1024;
    assert_false(file_save(to, 1, NULL, &t, &fault));
    assert_non_null(strstr(fault.message, path));
    assert_int_not_equal(access(to, F_OK), 0);
    tensor_release(t);
    make(NULL);
  }
}

/* ---- others' ---- */

static sigjmp_buf away;
static volatile sig_atomic_t host_seen;

static void host_handler(int number) {
  (void)number;
  host_seen++;
  siglongjmp(away, 1);
}

/* Runs a test as a program of its own, in which nothing is loaded yet. */
static int exit_of(const char *name) {
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "mapped_test", name, dir, (char *)NULL);
    _exit(100);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static volatile char *foreign(void) {
  int fd = open(path, O_RDWR);
  char *at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return at == MAP_FAILED ? NULL : at;
}

static int host_has_one(void) {
  struct sigaction host = {.sa_handler = host_handler};
  sigaction(SIGBUS, &host, NULL);
  Tensor *t = load(path);
  volatile char *volatile at = foreign();
  cut(path, PAGE);
  if (sigsetjmp(away, 1) == 0) {
    (void)at[SIZE - 1];
    return 2;
  }
  if (last_of(t) != 0 || host_seen != 1)
    return 3;
  if (sigsetjmp(away, 1) == 0) {
    raise(SIGBUS);
    return 4;
  }
  return host_seen == 2 ? 0 : 5;
}

static int host_has_none(void) {
  Tensor *t = load(path);
  volatile char *at = foreign();
  cut(path, PAGE);
  (void)last_of(t);
  return at[SIZE - 1];
}

static int sent(void) {
  load(path);
  raise(SIGBUS);
  return 0;
}

static int ignored(void) {
  signal(SIGBUS, SIG_IGN);
  load(path);
  raise(SIGBUS);
  return 7;
}

static int child_reads(void) {
  Tensor *t = load(path);
  cut(path, PAGE);
  pid_t child = fork();
  if (child == 0) {
    Fault fault;
    _exit(last_of(t) == 0 && !tensor_check(t, &fault) ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  return status;
}

static void test_handlers(void **state) {
  (void)state;
  take_signal();
  assert_int_equal(exit_of("one"), 0);
  assert_int_equal(exit_of("none"), -SIGBUS);
  assert_int_equal(exit_of("sent"), -SIGBUS);
  assert_int_equal(exit_of("ignored"), 7);
  assert_int_equal(exit_of("child"), 0);
  make(NULL);
}

/* ---- a host's ---- */

static AxnStatus run(AxnSession *s, const char *format, ...) {
  char text[500];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return axn_session_run(s, "test", text, strlen(text));
}

static void names_it(AxnSession *s) {
  assert_non_null(strstr(axn_diag_text(s, 0), path));
  assert_non_null(strstr(axn_diag_text(s, 0), "E0508"));
}

/* Each path to lost data gives an error, and no number. */
static void test_session(void **state) {
  (void)state;
  take_signal();
  static const char *const ways[] = {
      "do print (sum x)",
      "do print (sum (x * 2.0 + 1.0))",
      "do print (sum (sort x))",
      "do print (sum (cumsum x))",
      "do print x",
      "do print x.[17000000]",
      "do print (fold (fn s y => tanh (s + y)) 0.0 x)",
      "do print (maximum 0.0 (sum (for i => x.[i] * 2.0)))",
      "do print (sum (reshape [1024, _] x @ ones [1024 * 17]))",
      "do print (argmax x)",
      "do print (sum (filter (fn v => v == 0.0) x))",
      "do print (sum (unique x))",
      "do print (sum (nonzero (x == 0.0)))",
      "do print (snd (topk 3 x))",
      "do print (x == y)",
      "do print (stack (list [x, x]))",
      "do print y.[17000000]",
      "val (s, r) = scan (fn s v => (s + v, s)) 0.0 x do print s",
      "do print (sum (for i < 16 => sum (y.[i * 1000000 + 999999])))",
      "do print (fold (fn s r => s + r) (zeros [1024]) rows)",
      "do print (fold (fn s r => if sum r > s then s else 0.0) 1.0 rows)",
  };
  char save[300];
  snprintf(save, sizeof save, "do save \"%s/s.npy\" x", dir);
  for (size_t k = 0; k <= ARRAY_LEN(ways); k++) {
    AxnSession *s = axn_session_new();
    assert_int_equal(run(s,
                         "val x = (load \"%s\" : f32[%d])\nval y = x + 1.0\n"
                         "val rows = reshape [_, 1024] x",
                         path, COUNT),
                     AXN_OK);
    const char *way = k < ARRAY_LEN(ways) ? ways[k] : save;
    cut(path, PAGE);
    AxnStatus status = run(s, "%s", way);
    if (status == AXN_OK)
      fail_msg("%s: no error", way);
    const char *text = axn_diag_text(s, 0);
    if (!strstr(text, path))
      fail_msg("%s: %s", way, text);
    assert_int_equal(run(s, "do print (1 + 1)"), AXN_OK);
    assert_int_equal(run(s, "%s", way), AXN_ERROR);
    make(NULL);
    axn_session_free(s);
  }
}

/* Results that were computed before the loss stay; later ones are errors. */
static void test_before(void **state) {
  (void)state;
  take_signal();
  AxnSession *s = axn_session_new();
  AxnValue *y;
  AxnTensor t;
  assert_int_equal(
      run(s,
          "val x = (load \"%s\" : f32[%d])\nfun f () = x\n"
          "fun g () = x + 1.0\nval early = sum (x + 2.0)\ndo print early",
          path, COUNT),
      AXN_OK);
  AxnFunction *f = axn_function(s, "f"), *g = axn_function(s, "g");
  assert_int_equal(axn_call(s, f, NULL, 0, &y), AXN_OK);
  cut(path, PAGE);
  assert_true(axn_value_get(y, &t));
  assert_true(((const float *)t.data)[COUNT - 1] == 0); /* a copy */
  axn_value_free(y);
  assert_int_equal(run(s, "do print early"), AXN_OK);
  assert_int_equal(axn_call(s, g, NULL, 0, &y), AXN_ERROR);
  names_it(s);
  assert_int_equal(axn_call(s, f, NULL, 0, &y), AXN_ERROR);
  names_it(s);
  axn_session_free(s);
  make(NULL);
}

static int group_teardown(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

static void begin(void) {
  setenv("AXON_THREADS", "2", 1);
  setenv("XDG_CACHE_HOME", dir, 1);
  snprintf(path, sizeof path, "%s/large.npy", dir);
  snprintf(safe, sizeof safe, "%s/large.safetensors", dir);
  make(NULL);
}

static int run_part(const char *name) {
  static const struct {
    const char *name;
    int (*run)(void);
  } parts[] = {{"one", host_has_one},
               {"none", host_has_none},
               {"sent", sent},
               {"ignored", ignored},
               {"child", child_reads}};
  for (size_t k = 0; k < ARRAY_LEN(parts); k++)
    if (strcmp(parts[k].name, name) == 0)
      return parts[k].run();
  return 101;
}

int main(int argc, char **argv) {
  if (argc == 3) {
    memcpy(dir, argv[2], sizeof dir - 1);
    begin();
    return run_part(argv[1]);
  }
  if (!mkdtemp(dir))
    return 1;
  begin();
  tensor_release(load(path));
  sigaction(SIGBUS, NULL, &ours);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_handlers), cmocka_unit_test(test_cut),
      cmocka_unit_test(test_shared),   cmocka_unit_test(test_changed),
      cmocka_unit_test(test_moved),    cmocka_unit_test(test_threads),
      cmocka_unit_test(test_many),     cmocka_unit_test(test_saved),
      cmocka_unit_test(test_session),  cmocka_unit_test(test_before)};
  return cmocka_run_group_tests(tests, NULL, group_teardown);
}
