/* Tests symbolic extents (tensor/extent.h). */
#include "tensor/extent.h"
#include "tests/unit/dim_world.h"

enum { N, M, K, H, S, B, V };

static Graph g;
static int64_t x[VARS];

static int setup_sizes(void **state) {
  setup(state);
  g = (Graph){.extent_table = extent_table_new(&w->cx, w->facts)};
  for (int i = 0; i < VARS; i++)
    x[i] = extent_of_dim(&g, w->v[i]);
  return 0;
}

static int teardown_sizes(void **state) {
  extent_table_free(g.extent_table);
  return teardown(state);
}

static int64_t plus(int64_t a, int64_t b) {
  int64_t out;
  assert_true(extent_add(&g, a, b, &out));
  return out;
}

static int64_t times(int64_t a, int64_t b) {
  int64_t out;
  assert_true(extent_mul(&g, a, b, &out));
  return out;
}

static int64_t over(int64_t a, int64_t b) {
  int64_t out;
  assert_true(extent_floor_div(&g, a, b, &out));
  return out;
}

static void test_numbers(void **state) {
  (void)state;
  int64_t out;
  Graph plain = {0};
  assert_int_equal(plus(2, 3), 5);
  assert_int_equal(over(-7, 2), -4);
  assert_false(extent_floor_div(&g, 1, 0, &out));
  assert_false(extent_mul(&g, INT64_MAX, 2, &out));
  assert_true(extent_add(&plain, FIRST_EXTENT_HANDLE, 1,
                         &out)); /* a graph without handles */
  assert_int_equal(out, FIRST_EXTENT_HANDLE + 1);
  assert_false(extent_mul(&g, FIRST_EXTENT_HANDLE / 2, 2,
                          &out)); /* the product would be a handle */
  assert_true(extent_proved(&plain, EXTENT_LE, 3, FIRST_EXTENT_HANDLE));
}

static void test_handles(void **state) {
  (void)state;
  assert_false(extent_is_static(&g, x[N]));
  assert_int_equal(plus(x[N], x[M]), plus(x[M], x[N]));
  assert_int_equal(extent_sub_saturating(&g, plus(x[N], 3), x[N]), 3);
  assert_int_equal(over(times(x[N], x[M]), x[M]), x[N]);
  assert_int_equal(times(x[N], 0), 0);
  int64_t out, two[] = {times(2, x[N]), x[M]};
  assert_true(extent_product(&g, 2, two, &out));
  assert_int_equal(out, times(times(x[M], x[N]), 2));
  assert_string_equal(extent_text(&g, plus(x[N], -1)).text, "n - 1");
  assert_string_equal(extent_text(&g, 12).text, "12");
}

static void test_verdicts(void **state) {
  (void)state;
  assert_int_equal(extent_decide(&g, EXTENT_LE, 0, x[N]), ENTAILED);
  assert_int_equal(extent_decide(&g, EXTENT_LE, 0, x[V]), UNDECIDED);
  assert_int_equal(extent_decide(&g, EXTENT_LE, plus(x[N], 1), x[N]),
                   CONTRADICTED);
  assert_int_equal(extent_decide(&g, EXTENT_EQ, x[N], x[M]), UNDECIDED);
  assert_int_equal(extent_decide(&g, EXTENT_NE, x[N], plus(x[N], 2)), ENTAILED);
  uint32_t mark = extent_table_mark(&g);
  extent_table_assume(&g, (ExtentConstraint){EXTENT_LE, x[M], x[N]});
  assert_int_equal(extent_decide(&g, EXTENT_LE, x[M], plus(x[N], 1)), ENTAILED);
  extent_table_assume(&g, (ExtentConstraint){EXTENT_NE, x[M], x[N]});
  assert_int_equal(extent_decide(&g, EXTENT_LE, plus(x[M], 1), x[N]), ENTAILED);
  extent_table_rollback(&g, mark);
  assert_int_equal(extent_decide(&g, EXTENT_LE, x[M], plus(x[N], 1)),
                   UNDECIDED);
}

static void test_requirements(void **state) {
  (void)state;
  Fault fault = {0};
  uint32_t count;
  fault_set(&fault, "they differ");
  assert_true(extent_require(&g, EXTENT_EQ, x[N], x[M], &fault));
  assert_string_equal(fault.message, "");
  fault_set(&fault, "they differ");
  assert_true(extent_require(&g, EXTENT_EQ, x[N], x[M],
                             &fault)); /* n == m is required already */
  const Requirement *r = extent_table_requirements(g.extent_table, &count);
  assert_int_equal(count, 1);
  assert_string_equal(r[0].message, "they differ");
  fault_set(&fault, "too many");
  assert_false(extent_require(&g, EXTENT_LE, plus(x[N], 1), x[M], &fault));
  assert_string_equal(fault.message, "too many"); /* since n == m */
}

static void test_rounded_up(void **state) {
  (void)state;
  int64_t out;
  assert_true(extent_ceil_div(&g, 7, 2, &out));
  assert_int_equal(out, 4);
  assert_true(extent_ceil_div(&g, x[N], x[S], &out)); /* a symbolic divisor */
  assert_int_equal(out,
                   over(extent_sub_saturating(&g, plus(x[N], x[S]), 1), x[S]));
}

static const char *c_name(void *arg, const DimVar *v) {
  (void)arg;
  return v->printed_name;
}

static int64_t c_value(void *arg, const DimVar *v) {
  (void)arg;
  return v->printed_name[0] == 'n' ? 7 : v->printed_name[0] == 's' ? 2 : 5;
}

static void check_emitted(int64_t size, const char *text, int64_t value) {
  Buffer out = {0};
  int64_t is;
  assert_true(extent_emit_c(&g, &out, size, c_name, NULL));
  buffer_putc(&out, 0);
  assert_string_equal(out.text, text);
  assert_true(extent_evaluate(&g, size, c_value, NULL, &is));
  assert_int_equal(is, value);
  buffer_free(&out);
}

static void test_emitted(void **state) {
  (void)state;
  check_emitted(3, "3", 3);
  check_emitted(x[N], "n", 7);
  check_emitted(plus(over(extent_sub_saturating(&g, x[N], x[K]), x[S]), 1),
                "(size_div((n - k), s) + 1)", 2);
  check_emitted(extent_max(&g, times(2, x[N]), x[M]), "size_max(2 * n, m)", 14);
  Buffer reach = {0};
  int64_t both = extent_sub_saturating(&g, times(2, x[N]), over(x[M], x[S]));
  assert_true(extent_emit_magnitude(&g, &reach, both, c_name, NULL));
  buffer_putc(&reach, 0);
  assert_string_equal(reach.text, "(2.0 * size_abs(n) + size_abs(m))");
  buffer_free(&reach);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_numbers, setup_sizes,
                                      teardown_sizes),
      cmocka_unit_test_setup_teardown(test_handles, setup_sizes,
                                      teardown_sizes),
      cmocka_unit_test_setup_teardown(test_verdicts, setup_sizes,
                                      teardown_sizes),
      cmocka_unit_test_setup_teardown(test_requirements, setup_sizes,
                                      teardown_sizes),
      cmocka_unit_test_setup_teardown(test_rounded_up, setup_sizes,
                                      teardown_sizes),
      cmocka_unit_test_setup_teardown(test_emitted, setup_sizes,
                                      teardown_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
