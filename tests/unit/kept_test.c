/* Tests the cache of derived data: when they are made and evicted, and that
 * results do not depend on them. */
#include "backend/cpu/cpu.h"
#include "runtime/derived_cache.h"
#include "session/axon.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the cache itself ---- */

enum { BYTES = 1000 };

static Tensor *tensor_of(int64_t count) {
  Fault fault;
  Tensor *t = tensor_new(DT_F32, 1, &count, true, &fault);
  assert_non_null(t);
  return t;
}

static ArtifactKey form_of(int64_t number) {
  return artifact_key(1, &(ArtifactPart){&number, sizeof number});
}

static bool fill(void *context, void *to) {
  memset(to, *(int *)context, BYTES);
  return true;
}

static bool fails(void *context, void *to) {
  (void)context, (void)to;
  return false;
}

static DerivedData *take(Tensor *t, int64_t form, int with) {
  ArtifactKey key = form_of(form);
  return derived_cache_acquire(t, &key, BYTES, fill, &with);
}

/* 0: the data are not in the cache. */
static int wanted(Tensor *t, int64_t form, int with) {
  DerivedData *k = take(t, form, with);
  int is = k ? *(const char *)derived_data(k) : 0;
  if (k)
    derived_cache_release(k);
  return is;
}

static void test_second_time(void **state) {
  (void)state;
  derived_cache_set_limit(UINT64_MAX);
  Tensor *t = tensor_of(10), *other = tensor_of(10);
  assert_int_equal(wanted(t, 1, 5), 0);
  assert_int_equal(wanted(other, 1, 5), 0);
  assert_int_equal(wanted(t, 2, 5), 0);
  assert_int_equal(wanted(t, 1, 6), 6);
  assert_int_equal(wanted(t, 1, 7), 6);
  assert_int_equal(wanted(other, 1, 8), 8);
  assert_int_equal(wanted(t, 2, 9), 9);
  assert_int_equal(derived_cache_stats().bytes, 3 * BYTES);
  derived_cache_invalidate(t);
  assert_int_equal(derived_cache_stats().bytes, BYTES);
  assert_int_equal(wanted(t, 1, 5), 0);
  assert_int_equal(wanted(t, 1, 5), 5);
  tensor_release(t);
  tensor_release(other);
  assert_int_equal(derived_cache_stats().bytes, 0);
}

static void test_failing(void **state) {
  (void)state;
  ArtifactKey key = form_of(1);
  Tensor *t = tensor_of(10);
  for (int k = 0; k < 3; k++)
    assert_null(derived_cache_acquire(t, &key, BYTES, fails, NULL));
  assert_int_equal(wanted(t, 1, 5), 5);
  tensor_release(t);
}

static void test_borrowed(void **state) {
  (void)state;
  float x[4] = {0};
  int64_t n = 4;
  Tensor *t = tensor_borrow(DT_F32, 1, &n, x);
  for (int k = 0; k < 3; k++)
    assert_int_equal(wanted(t, 1, 5), 0);
  assert_null(t->derived);
  tensor_release(t);
}

static void test_limit(void **state) {
  (void)state;
  enum { COUNT = 4 };
  Tensor *t[COUNT];
  derived_cache_set_limit(3 * BYTES);
  for (int k = 0; k < COUNT; k++)
    t[k] = tensor_of(10);
  /* More entries than fit: those in the cache stay. */
  for (int round = 0; round < 5; round++)
    for (int k = 0; k < COUNT; k++)
      assert_int_equal(wanted(t[k], 1, 5), round && k < COUNT - 1 ? 5 : 0);
  assert_int_equal(derived_cache_stats().bytes, 3 * BYTES);
  /* An unused entry is evicted; an entry in use is not. */
  DerivedData *used = take(t[0], 1, 5);
  wanted(t[2], 1, 5);
  assert_int_equal(wanted(t[3], 1, 7), 7);
  assert_int_equal(wanted(t[1], 1, 8), 0);
  assert_int_equal(wanted(t[0], 1, 8), 5);
  derived_cache_release(used);
  derived_cache_set_limit(0);
  assert_int_equal(derived_cache_stats().bytes, 0);
  for (int k = 0; k < COUNT; k++)
    tensor_release(t[k]);
  derived_cache_set_limit(UINT64_MAX);
}

/* Data that one use pays for exist from the first request on.  They are cached
 * if that is possible without evicting others. */
static void test_at_once(void **state) {
  (void)state;
  float x[4] = {0};
  int64_t n = 4;
  int with = 5;
  ArtifactKey key = form_of(1);
  Tensor *t = tensor_of(10), *other = tensor_of(10),
         *borrowed = tensor_borrow(DT_F32, 1, &n, x);
  Tensor *const all[] = {t, other, borrowed};
  derived_cache_set_limit(BYTES);
  for (size_t k = 0; k < ARRAY_LEN(all); k++) {
    DerivedData *d =
        derived_cache_acquire_or_build(all[k], &key, BYTES, fill, &with);
    assert_non_null(d);
    assert_int_equal(*(const char *)derived_data(d), 5);
    derived_cache_release(d);
    assert_int_equal(derived_cache_stats().bytes, BYTES);
  }
  assert_int_equal(wanted(t, 1, 6), 5);
  assert_null(
      derived_cache_acquire_or_build(borrowed, &key, BYTES, fails, NULL));
  for (size_t k = 0; k < ARRAY_LEN(all); k++)
    tensor_release(all[k]);
  assert_int_equal(derived_cache_stats().bytes, 0);
  derived_cache_set_limit(UINT64_MAX);
}

/* A running loop has its data whatever the limit is, until it ends. */
static void test_loop(void **state) {
  (void)state;
  Tensor *t = tensor_of(10);
  derived_cache_set_limit(0);
  derived_cache_begin_loop();
  assert_int_equal(wanted(t, 1, 5), 0);
  assert_int_equal(wanted(t, 1, 5), 5);
  derived_cache_begin_loop();
  assert_int_equal(wanted(t, 1, 6), 5);
  derived_cache_end_loop();
  assert_int_equal(wanted(t, 1, 6), 5);
  derived_cache_end_loop();
  assert_int_equal(derived_cache_stats().bytes, 0);
  for (int k = 0; k < 3; k++)
    assert_int_equal(wanted(t, 1, 7), 0);
  tensor_release(t);
  derived_cache_set_limit(UINT64_MAX);
}

/* A tensor with requests at ever new positions does not get an ever longer
 * list. */
static void test_many_forms(void **state) {
  (void)state;
  enum { FORMS = 5000 };
  Tensor *t = tensor_of(10);
  for (int k = 0; k < FORMS; k++)
    assert_int_equal(wanted(t, k, 5), 0);
  assert_int_equal(wanted(t, 0, 5), 0);
  assert_int_equal(wanted(t, FORMS - 1, 5), 5);
  tensor_release(t);
}

/* A tensor may be overwritten while another thread uses its derived data. */
static void test_gone_in_use(void **state) {
  (void)state;
  Tensor *t = tensor_of(10);
  take(t, 1, 5);
  DerivedData *k = take(t, 1, 5);
  assert_non_null(k);
  derived_cache_invalidate(t);
  derived_cache_trim(0);
  assert_int_equal(*(const char *)derived_data(k), 5);
  derived_cache_release(k);
  assert_int_equal(derived_cache_stats().bytes, 0);
  tensor_release(t);
}

enum { TENSORS = 8, ROUNDS = 3000 };

static void *use_many(void *tensors) {
  Tensor **t = tensors;
  for (int n = 0; n < ROUNDS; n++) {
    int at = n % TENSORS, is = wanted(t[at], n % 3, at + 1);
    if (is != 0 && is != at + 1)
      return t;
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  Tensor *t[TENSORS];
  pthread_t threads[4];
  derived_cache_set_limit(10 * BYTES);
  for (int k = 0; k < TENSORS; k++)
    t[k] = tensor_of(10);
  for (int k = 0; k < 4; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, use_many, t), 0);
  for (int k = 0; k < 4; k++) {
    void *wrong;
    pthread_join(threads[k], &wrong);
    assert_null(wrong);
  }
  assert_true(derived_cache_stats().bytes <= 10 * BYTES);
  for (int k = 0; k < TENSORS; k++)
    tensor_release(t[k]);
  assert_int_equal(derived_cache_stats().bytes, 0);
  derived_cache_set_limit(UINT64_MAX);
}

/* ---- in programs ---- */

/* The same three times, each separately. */
static const char program[] =
    "val x : f32[37, 150] = for i < 37, j < 150 => "
    "sin (float (3 * i + j))\n"
    "val w : f32[150, 140] = for i < 150, j < 140 => "
    "cos (float (i + 5 * j))\n"
    "val v : f32[3, 140, 151] = for i < 3, j < 140, k < 151 => "
    "cos (float (i + j + 7 * k))\n"
    "val h = bf16 w\n"
    "val y : f64[20, 150] = for i < 20, j < 150 => "
    "sin (f64 (i + j))\n"
    "val f : f32[64, 60, 3, 3] = for o < 64, c < 60, "
    "i < 3, j < 3 => sin (float (o + c * i + j))\n"
    "val z : f32[1, 60, 7, 7] = for n < 1, c < 60, "
    "i < 7, j < 7 => cos (float (c + i + j))\n"
    "fun once () = %s\n"
    "val a = once ()\n"
    "do print (sum a)\n"
    "val b = once ()\n"
    "do print (sum b)\n"
    "val c = once ()\n"
    "do print (sum c)\n"
    "val same = all (a == b) && all (a == c)\n";

/* Number of derived data that it made. */
static uint64_t made_by(const char *once) {
  char text[2048];
  snprintf(text, sizeof text, program, once);
  AxnSession *s = axn_session_new();
  DerivedCacheStats before = derived_cache_stats();
  if (axn_session_run(s, "kept.axn", text, strlen(text)) != AXN_OK)
    fail_msg("%s: %s", once, axn_diag_text(s, 0));
  assert_string_equal(axn_session_print(s, "same"), "true");
  DerivedCacheStats after = derived_cache_stats();
  axn_session_free(s);
  assert_int_equal(derived_cache_stats().bytes, 0);
  assert_int_equal(after.hits - before.hits, after.builds - before.builds);
  return after.builds - before.builds;
}

static const struct {
  const char *once;
  uint64_t made;
} programs[] = {
    {"x @ w", 1},
    {"tanh (x @ w + 1.0)", 1},
    {"x @ (w * 2.0)", 1}, /* the copy includes the product */
    {"x.[:, 3:142] @ transpose w.[:, 1:]", 1},
    {"x @ transpose v.[1, :, 1:]", 1},
    {"(x @ transpose v.[0, :, 1:]) + (x @ transpose v.[2, :, 1:])", 2},
    /* one for each of two slices */
    {"(x @ transpose v.[1, :, 1:]) * (x @ transpose v.[2, :, 1:])", 2},
    {"bf16 x @ h", 1},
    {"y @ f64 w", 1},
    /* none, since an operand is computed from two tensors */
    {"x @ (for i < 150, j < 140 => w.[i, j] * x.[j % 37, i])", 0},
    {"x @ (w + normal (key 1) [150, 140])", 0},
};

static void test_programs(void **state) {
  (void)state;
  for (size_t k = 0; k < ARRAY_LEN(programs); k++) {
    uint64_t made = made_by(programs[k].once);
    if (made != programs[k].made)
      fail_msg("%s: %llu forms", programs[k].once, (unsigned long long)made);
  }
  if (cpu_vector_bytes() ==
      64) /* with other vectors, lanes may lie along positions */
    assert_int_equal(made_by("nn.conv2d ~padding:1 {w = f, b = zeros [64]} z"),
                     1);
  setenv("AXON_KEEP", "0", 1);
  assert_int_equal(made_by("x @ w"), 0);
  unsetenv("AXON_KEEP");
}

/* A kernel whose blocks of rows all use one operand packs it in its first run,
 * whether it is cached or not. */
static void test_row_blocks(void **state) {
  (void)state;
  static const char text[] =
      "val x : f32[600, 64] = for i, j => sin (float (3 * i + j))\n"
      "val w : f32[64, 4096] = for i, j => cos (float (i + 5 * j))\n"
      "do print (sum (nn.softmax (x @ w)))\n";
  static const char *const limits[] = {"0", "1000000000"};
  for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
    setenv("AXON_KEEP", limits[k], 1);
    AxnSession *s = axn_session_new();
    uint64_t before = derived_cache_stats().builds;
    assert_int_equal(axn_session_run(s, "once.axn", text, strlen(text)),
                     AXN_OK);
    assert_int_equal(derived_cache_stats().builds - before, 1);
    axn_session_free(s);
    assert_int_equal(derived_cache_stats().bytes, 0);
  }
  unsetenv("AXON_KEEP");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_second_time), cmocka_unit_test(test_failing),
      cmocka_unit_test(test_borrowed),    cmocka_unit_test(test_limit),
      cmocka_unit_test(test_many_forms),  cmocka_unit_test(test_gone_in_use),
      cmocka_unit_test(test_threads),     cmocka_unit_test(test_programs),
      cmocka_unit_test(test_loop),        cmocka_unit_test(test_at_once),
      cmocka_unit_test(test_row_blocks),
  };
  setenv("AXON_TINY", "0", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
