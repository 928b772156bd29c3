/* Tests the memory of tensors: alignment, reuse, zeroing, release. */
#include "runtime/internal.h"
#include "support/mem_inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const size_t sizes[] = {0,       1,       100,     4095,    4096,
                               4097,    70000,   1 << 20, 2097151, 2097152,
                               2097153, 5000000, 33554432};

static void test_blocks(void **state) {
  (void)state;
  for (int round = 0; round < 2; round++)
    for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
      size_t size, n = sizes[k];
      char *p = caching_alloc(n, round == 1, &size);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p % 64, 0);
      assert_true(size == 0 || (size >= n && size <= n + n / 8 + 4096));
      for (size_t i = 0; round == 1 && i < n; i++)
        if (p[i])
          fail_msg("byte %zu of %zu is not clear", i, n);
      memset(p, 0xaa, n);
      caching_free(p, size);
    }
}

static Tensor *tensor_of(int64_t count) {
  Fault fault;
  Tensor *t = tensor_new(DT_F32, 1, &count, false, &fault);
  assert_non_null(t);
  memset(t->data, 1, (size_t)count * 4);
  return t;
}

/* A step computes a new state from the old one, with an intermediate tensor. */
static Tensor *step(Tensor *old, int64_t count) {
  Tensor *between = tensor_of(count / 3), *next = tensor_of(count);
  tensor_release(between);
  tensor_release(old);
  return next;
}

static void test_loop(void **state) {
  (void)state;
  static const int64_t counts[] = {3000, 100000, 3000000};
  for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
    Tensor *t = step(step(tensor_of(counts[k]), counts[k]), counts[k]);
    AllocatorStats before = allocator_stats();
    for (int n = 0; n < 50; n++)
      t = step(t, counts[k]);
    AllocatorStats after = allocator_stats();
    if (after.is_caching)
      assert_int_equal(after.system_allocs, before.system_allocs);
    assert_int_equal(after.live_bytes, before.live_bytes);
    tensor_release(t);
  }
}

static void test_bound(void **state) {
  (void)state;
  allocator_trim(0);
  assert_int_equal(allocator_stats().cached_bytes, 0);
  uint64_t live = allocator_stats().live_bytes;
  Tensor *all[40];
  for (size_t k = 0; k < ARRAY_LEN(all); k++)
    all[k] = tensor_of(1 << 20); /* 160 MiB in all */
  for (size_t k = 0; k < ARRAY_LEN(all); k++)
    tensor_release(all[k]);
  AllocatorStats after = allocator_stats();
  assert_int_equal(after.live_bytes, live);
  assert_true(after.cached_bytes <= (uint64_t)168 << 20);
  for (int k = 0; k < 1000; k++) /* many sizes: the oldest blocks are freed */
    tensor_release(tensor_of(1000 + k * 997));
  assert_true(allocator_stats().cached_bytes <= (uint64_t)168 << 20);
  allocator_trim((uint64_t)10 << 20);
  assert_true(allocator_stats().cached_bytes <= (uint64_t)10 << 20);
  allocator_trim(0);
  assert_int_equal(allocator_stats().cached_bytes, 0);
}

/* If an allocation fails, free blocks are released and it is tried again. */
static void test_pressure(void **state) {
  (void)state;
  tensor_release(tensor_of(1 << 20));
  size_t size;
  mem_inject_failure_at(1);
  void *p = caching_alloc(50 << 20, false, &size);
  assert_true(mem_failure_injected());
  mem_inject_failure_at(0);
  assert_non_null(p);
  assert_int_equal(allocator_stats().cached_bytes, 0);
  caching_free(p, size);
  mem_inject_failures_from(1);
  assert_null(caching_alloc(300 << 20, false, &size));
  assert_null(caching_alloc(70, true, &size));
  mem_inject_failures_from(0);
  assert_null(caching_alloc(SIZE_MAX / 4, false, &size));
}

static void *churn(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  for (int k = 0; k < 3000; k++) {
    size_t size, n = (size_t)(rand_r(&seed) % 100000);
    unsigned char *p = caching_alloc(n, false, &size);
    memset(p, (int)seed & 255, n);
    for (size_t i = 0; i < n; i += 977)
      if (p[i] != (seed & 255))
        return "shared";
    caching_free(p, size);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[4];
  for (size_t k = 0; k < ARRAY_LEN(threads); k++)
    pthread_create(&threads[k], NULL, churn, (void *)(k + 1));
  for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
    void *result;
    pthread_join(threads[k], &result);
    assert_null(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_blocks), cmocka_unit_test(test_loop),
      cmocka_unit_test(test_bound), cmocka_unit_test(test_pressure),
      cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
