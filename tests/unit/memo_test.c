/* Tests the plan cache (plan/plan_cache.c): a repeated graph is not planned
 * again, and results do not depend on that. */
#include "plan/fusion_group.h"
#include "tests/unit/tensors.h"

/* (x.[k] + c) * d, and its sum */
static Node *planned_sum(double c, double d, int64_t k, bool hold) {
  Node *x = data(DT_F64, SHAPE(6));
  IndexVar *i = var(5);
  Node *at_ = get1(x, add(index_of(i), integer(k)));
  Node *y = close1(mul(add(at_, constant(DT_F64, c)), constant(DT_F64, d)), i);
  Node *sum = reduce(PRIM_SUM, y, 0, 1, false);
  node_retain(sum), node_retain(y);
  release_kept();
  if (hold)
    keep(y);
  else
    node_release(y);
  return keep(sum);
}

static double expected_sum(double c, double d, int64_t k) {
  double sum = 0;
  for (int64_t i = k; i < 5 + k; i++)
    sum += (mixed_values(i) + c) * d;
  return sum;
}

static void check_planned(double c, double d, int64_t k, bool hold,
                          uint64_t again) {
  g.span = (Span){0};
  Node *n = planned_sum(c, d, k, hold);
  must_force(n);
  assert_true(fabs(element_at(n, 0) - expected_sum(c, d, k)) < 1e-12);
  assert_int_equal(g.plan_cache_hits, again);
}

static void test_kept_plans(void **state) {
  (void)state;
  check_planned(0.3, 1.7, 0, false, 0);
  check_planned(0.3, 1.7, 0, false, 1);
  check_planned(-0.9, 123.4, 0, false, 2); /* other constants: the same plan */
  check_planned(0.7, 0.7, 0, false, 2);    /* equal ones: another plan */
  check_planned(0.9, 0.9, 0, false, 3);
  /* The plan depends on 0, 2 and on an index. */
  check_planned(0, 1.7, 0, false, 3);
  check_planned(0.3, 2, 0, false, 3);
  check_planned(0.3, 1.7, 1, false, 3);
  /* It also depends on whether a node is held elsewhere. */
  check_planned(0.3, 1.7, 0, true, 3);
  check_planned(0.1, 1.1, 0, true, 4);
}

/* Rows from .. from + 2 of x, minus row `row`. */
static Node *rows_less_row(Node *x, int64_t from, int64_t row) {
  Subscript rows[] = {
      {.kind = SUBSCRIPT_SLICE, .start = from, .stop = from + 3},
      {.kind = SUBSCRIPT_SLICE, .stop = 4}};
  Subscript one[] = {{.kind = SUBSCRIPT_INDEX, .index = integer(row)},
                     {.kind = SUBSCRIPT_SLICE, .stop = 4}};
  return op2(PRIM_SUB, keep(node_subscript(&g, x, 2, rows, &fault)),
             keep(node_subscript(&g, x, 2, one, &fault)));
}

static void check_rows(Node *x, int64_t from, int64_t row, bool whole,
                       uint64_t again) {
  g.span = (Span){0};
  Node *n = rows_less_row(x, from, row);
  if (whole)
    n = add(n, reduce(PRIM_SUM, x, 0, 1, false));
  release_all_but(n);
  must_force(n);
  assert_int_equal(g.plan_cache_hits, again);
  for (int64_t k = 0; k < 12; k++) {
    double rest = 0;
    for (int64_t i = 0; whole && i < 9; i++)
      rest += element_at(x, i * 4 + k % 4);
    double is =
        element_at(x, from * 4 + k) - element_at(x, row * 4 + k % 4) + rest;
    assert_true(fabs(element_at(n, k) - is) < 1e-12);
  }
  release_kept();
}

/* The position of rows in a tensor is no part of the plan key, so a loop over
 * rows has one plan. */
static void test_kept_rows(void **state) {
  (void)state;
  Node *x = node_retain(data(DT_F64, SHAPE(9, 4)));
  release_kept();
  check_rows(x, 1, 2, false, 0);
  check_rows(x, 4, 5, false, 1);
  check_rows(x, 6, 7, false, 2);
  check_rows(x, 5, 5, false, 2); /* the row is at another offset in the range */
  check_rows(x, 2, 2, false, 3);
  check_rows(x, 3, 8, false, 3); /* the rows span a larger range */
  check_rows(x, 1, 6, false, 4);
  /* All rows are read: then it depends on the position. */
  check_rows(x, 1, 2, true, 4);
  check_rows(x, 4, 5, true, 4);
  check_rows(x, 4, 5, true, 5);
  node_release(x);
}

static Node *random_of(int64_t seed) {
  Node *n = node_random(&g, PRIM_UNIFORM, prng_key_from_seed(seed), DT_F64, 1,
                        (int64_t[]){6}, 0, &fault);
  assert_non_null(n);
  return keep(n);
}

static void run_random(int64_t a, int64_t b) {
  g.span = (Span){0};
  Node *n = add(random_of(a), mul(random_of(b), constant(DT_F64, -1)));
  node_retain(n);
  release_kept();
  keep(n);
  must_force(n);
  for (int64_t i = 0; i < 6; i++) {
    double x = prng_uniform(prng_key_from_seed(a), (uint64_t)i, DT_F64);
    double y = prng_uniform(prng_key_from_seed(b), (uint64_t)i, DT_F64);
    assert_true(element_at(n, i) == x - y);
  }
  release_kept();
}

static void check_random(int64_t a, int64_t b, bool again) {
  uint64_t before = g.plan_cache_hits;
  run_random(a, b);
  assert_int_equal(g.plan_cache_hits - before, again);
}

static void test_kept_keys(void **state) {
  (void)state;
  check_random(1, 2, false);
  check_random(3, 4, true); /* other keys: the same plan */
  check_random(2, 1, true);
  check_random(5, 5, false); /* equal ones: another plan */
  check_random(6, 6, true);
}

static void test_kept_fault(void **state) {
  (void)state;
  for (int k = 0; k < 3; k++) {
    Node *n = planned_sum(0.3 + k, 1.7, 2, false);
    uint64_t before = g.plan_cache_hits;
    must_fault(n, "index 6 is out of bounds for axis 0 of size 6");
    assert_int_equal(g.plan_cache_hits - before, k > 0);
    must_fault(n, "index 6 is out of bounds for axis 0 of size 6");
  }
}

/* A backend whose cache of kernels is full: plans of hot graphs have kernels
 * that live only as long as the plan. */
static uint32_t prepared, prepared_hot;

static void prepare_without_cache(Graph *graph, uint32_t count,
                                  FusionGroup *const *groups) {
  prepared++;
  prepared_hot += graph->hot;
  for (uint32_t k = 0; k < count; k++)
    groups[k]->transient = graph->hot;
}

static void test_hot_plan_is_not_kept(void **state) {
  (void)state;
  Backend full = backend_reference;
  full.compiles_kernels = true;
  full.prepare = prepare_without_cache;
  g.backend = &full;
  g.jit_threshold = 1;
  for (int k = 0; k < 100; k++)
    run_random(2 * k, 2 * k + 1);
  assert_int_equal(prepared_hot, 1);
  assert_int_equal(prepared, 2);
  assert_int_equal(g.plan_cache_hits, 98);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_kept_plans),
      TEST(test_kept_rows),
      TEST(test_kept_keys),
      TEST(test_kept_fault),
      TEST(test_hot_plan_is_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
