/* Fourier transforms of the CPU backend, compared with the reference backend:
 * awkward lengths, each axis, both element types, free indices. */
#include "tests/unit/tensors.h"

#include "backend/cpu/library_ops.h"

#include <math.h>

static Node *noise(Dtype t, uint32_t rank, const int64_t *shape, int seed) {
  Tensor *x = tensor_new(t, rank, shape, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(num(t, dtype_round(t, sin((double)(i * 7 + seed)))),
                 tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

/* Row i of x. */
static Node *row_of(Node *x, IndexVar *i) {
  Subscript items[4] = {item_at(index_of(i))};
  for (uint32_t k = 1; k < x->rank; k++)
    items[k] = item_range(0, x->extents[k]);
  return keep(node_subscript(&g, x, x->rank, items, &fault));
}

typedef struct Case {
  PrimId op;
  Dtype dtype;
  uint32_t axis, axes;
  int64_t shape[3], points; /* points: of INVERSE_REAL_DFT */
  bool free;                /* the first axis is a free index, of re only */
} Case;

static Tensor *transformed(const Case *c, const Backend *backend) {
  g.backend = backend;
  Node *re = noise(c->dtype, 3, c->shape, 1);
  Node *im = noise(c->dtype, 3 - c->free, c->shape + c->free, 2);
  IndexVar *i = c->free ? var(c->shape[0]) : NULL;
  if (c->free)
    re = row_of(re, i);
  bool has_params = c->op != PRIM_REAL_DFT;
  int64_t params[4] = {c->axis, c->op == PRIM_DFT ? c->axes : c->points,
                       c->op == PRIM_DFT && c->axes > 1};
  Node *n = keep(node_fourier(&g, c->op, 1 + has_params, (Node *[]){re, im},
                              params, &fault));
  assert_non_null(n);
  if (c->free)
    n = close1(n, i);
  must_force(n);
  Tensor *result = tensor_retain(n->data);
  release_kept();
  while (var_count)
    index_var_release(vars[--var_count]);
  return result;
}

static void check(const Case *c) {
  Tensor *want = transformed(c, &backend_reference);
  Tensor *got = transformed(c, &backend_cpu);
  assert_int_equal(want->count, got->count);
  double largest = 1, worst = 0;
  for (int64_t k = 0; k < want->count; k++) {
    double x = scalar_load(c->dtype, tensor_at(want, k)).f;
    double y = scalar_load(c->dtype, tensor_at(got, k)).f;
    largest = fmax(largest, fabs(x));
    worst = fmax(worst, fabs(x - y));
    assert_false(isnan(y));
  }
  double bound = (c->dtype == DT_F32 ? 2e-6 : 2e-14) * largest;
  if (worst > bound)
    fail_msg("%s of %lld points along axis %u: differs by %g of %g",
             prim_info[c->op].name, (long long)c->points, c->axis, worst,
             largest);
  tensor_release(want);
  tensor_release(got);
}

static const int64_t lengths[] = {0,  1,  2,  3,   4,    7,    12,
                                  31, 64, 97, 127, 1000, 1009, 4096};

static void check_length(PrimId op, Dtype dtype, int64_t n) {
  for (uint32_t axis = 0; axis < 3; axis++) {
    Case c = {.op = op, .dtype = dtype, .axis = axis, .axes = 1, .points = n};
    for (uint32_t k = 0; k < 3; k++)
      c.shape[k] = k + 1;
    c.shape[axis] = op == PRIM_INVERSE_REAL_DFT ? n / 2 + 1 : n;
    check(&c);
  }
}

static void test_lengths(void **state) {
  (void)state;
  static const PrimId ops[] = {PRIM_DFT, PRIM_REAL_DFT, PRIM_INVERSE_REAL_DFT};
  for (uint32_t k = 0; k < ARRAY_LEN(lengths); k++)
    for (uint32_t j = 0; j < ARRAY_LEN(ops); j++) {
      check_length(ops[j], DT_F32, lengths[k]);
      check_length(ops[j], DT_F64, lengths[k]);
    }
}

static void test_several_axes(void **state) {
  (void)state;
  check(&(Case){PRIM_DFT, DT_F64, 0, 3, {6, 5, 21}, 0, false});
  check(&(Case){PRIM_DFT, DT_F32, 0, 2, {17, 8, 40}, 0, false});
  check(&(Case){PRIM_DFT, DT_F64, 1, 2, {3, 1, 33}, 0, false});
  check(&(Case){PRIM_DFT, DT_F64, 1, 0, {3, 2, 2}, 0, false});
}

static void test_free_indices(void **state) {
  (void)state;
  check(&(Case){PRIM_DFT, DT_F64, 0, 2, {5, 6, 7}, 0, true});
  check(&(Case){PRIM_DFT, DT_F32, 1, 1, {5, 6, 7}, 0, true});
  check(&(Case){PRIM_REAL_DFT, DT_F64, 0, 1, {5, 6, 40}, 0, true});
  check(&(Case){PRIM_INVERSE_REAL_DFT, DT_F64, 1, 1, {5, 6, 7}, 13, true});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_lengths, setup, teardown),
      cmocka_unit_test_setup_teardown(test_several_axes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_free_indices, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
