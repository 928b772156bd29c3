/* Common parts of the tests of tensors: nodes that live until a test ends,
 * input data, and checks of every element against an expression. */
#ifndef AXON_TESTS_TENSORS_H
#define AXON_TESTS_TENSORS_H

#include "backend/target.h"
#include "plan/execute.h"
#include "support/compiler.h"
#include "support/span.h"
#include "support/trap.h"
#include "tensor/scalar_ops.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static Graph g;
static Fault fault;
static Span where;

/* ---- nodes that live until the test ends ---- */

static Node *kept[4096];
static uint32_t kept_count;
/* More than a random graph has, with its errors: a graph must not depend on
 * whether errors are requested. */
enum { MAX_VARS = 1024 };
static IndexVar *vars[MAX_VARS];
static uint32_t var_count;

static inline Node *keep(Node *n) {
  if (!n)
    fail_msg("fault: %s", fault.message);
  assert_true(kept_count < ARRAY_LEN(kept));
  return kept[kept_count++] = n;
}

static inline IndexVar *var(int64_t extent) {
  assert_true(var_count < ARRAY_LEN(vars));
  return vars[var_count++] = index_var_new(extent, NULL);
}

static inline void release_kept(void) {
  while (kept_count)
    node_release(kept[--kept_count]);
}

static inline void release_all_but(Node *n) {
  node_retain(n);
  release_kept();
  keep(n);
}

static Trap trap;

static inline int setup(void **state) {
  (void)state;
  setenv("AXON_VERIFY", "1", 1);
  g = (Graph){.backend = &backend_reference};
  if (getenv("AXON_TARGET") && strcmp(getenv("AXON_TARGET"), "cpu") == 0)
    g.backend = &backend_cpu;
  fault = (Fault){0};
  if (TRAP_SET(trap) != FAIL_NONE)
    abort(); /* no test here may raise */
  return 0;
}

static inline int teardown(void **state) {
  (void)state;
  release_kept();
  graph_clear_caches(&g);
  while (var_count)
    index_var_release(vars[--var_count]);
  trap_end(&trap);
  return 0;
}

static inline void must_force(Node *n) {
  if (!graph_force(&g, 1, &n, &where, &fault))
    fail_msg("fault: %s", fault.message);
}

static inline void must_fault(Node *n, const char *message) {
  assert_false(graph_force(&g, 1, &n, &where, &fault));
  assert_string_equal(fault.message, message);
}

static inline void must_fail_to_build(Node *n, const char *message) {
  assert_null(n);
  assert_string_equal(fault.message, message);
}

/* ---- data ---- */

static inline Scalar num(Dtype t, double x) {
  return scalar_convert((Scalar){.dtype = DT_F64, .f = x}, t);
}

static inline double value_of(Scalar x) {
  return dtype_is_float(x.dtype) ? x.f : (double)x.i;
}

typedef struct Shape {
  uint32_t rank;
  int64_t at[6];
  uint32_t broadcast_mask;
} Shape;
#define SHAPE(...)                                                     \
  ((Shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
           .at = {__VA_ARGS__}})
static const Shape scalar_shape;

static inline int64_t element_count(Shape s) {
  int64_t n = 1;
  for (uint32_t k = 0; k < s.rank; k++)
    n *= s.at[k];
  return n;
}

static inline Node *data_with(Dtype t, Shape s, double (*f)(int64_t)) {
  Tensor *x = tensor_new(t, s.rank, s.at, false, &fault);
  assert_non_null(x);
  x->broadcast_mask = s.broadcast_mask;
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(num(t, f(i)), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

static inline double count_up(int64_t i) {
  return (double)i;
}
static inline double mixed_values(int64_t i) {
  return (double)(i * 7 % 11) - 4;
}
static inline double ones(int64_t i) {
  return (void)i, 1;
}
static inline double positive_values(int64_t i) {
  return (double)(i * 5 % 7) + 1;
}

static inline Node *data(Dtype t, Shape s) {
  return data_with(t, s, mixed_values);
}
static inline Node *numbers(Shape s) {
  return data_with(DT_I64, s, count_up);
}
/* A factor for floats that are neither small integers nor powers of two.  With
 * another factor, the same graph has other constants. */
static double number_scale = 1;
static inline double scaled_number(double x) {
  int exponent;
  return x == floor(x) || fabs(frexp(x, &exponent)) == 0.5 ? x
                                                           : x * number_scale;
}
static inline Node *constant(Dtype t, double x) {
  return keep(
      node_scalar(&g, num(t, dtype_is_float(t) ? scaled_number(x) : x)));
}
static inline Node *integer(int64_t x) {
  return keep(node_scalar(&g, (Scalar){.dtype = DT_I64, .i = x}));
}

static inline double element_at(const Node *n, int64_t i) {
  return value_of(scalar_load(n->dtype, tensor_at(n->data, i)));
}

static inline void check_shape(const Node *n, Shape s) {
  assert_int_equal(n->rank, s.rank);
  assert_int_equal(n->broadcast_mask, s.broadcast_mask);
  for (uint32_t k = 0; k < s.rank; k++)
    assert_int_equal(n->extents[n->free_count + k], s.at[k]);
}

static inline void unravel(Shape s, int64_t i, int64_t *index) {
  for (uint32_t k = s.rank; k-- > 0; i /= s.at[k])
    index[k] = i % s.at[k];
}

static inline int64_t ravel(Shape s, const int64_t *index) {
  int64_t i = 0;
  for (uint32_t k = 0; k < s.rank; k++)
    i = i * s.at[k] + index[k];
  return i;
}

static inline bool same_value(double x, double y) {
  return x == y || (x != x && y != y);
}

#define CHECK_EACH(n, shape, index, want)                                    \
  do {                                                                       \
    Node *n_ = (n);                                                          \
    Shape s_ = (shape);                                                      \
    check_shape(n_, s_);                                                     \
    must_force(n_);                                                          \
    for (int64_t i_ = 0; i_ < element_count(s_); i_++) {                     \
      int64_t index[6] = {0};                                                \
      (void)index;                                                           \
      unravel(s_, i_, index);                                                \
      double want_ = (double)(want), got_ = element_at(n_, i_);              \
      if (!same_value(want_, got_))                                          \
        fail_msg("line %d, element %d: %g, not %g", __LINE__, (int)i_, got_, \
                 want_);                                                     \
    }                                                                        \
  } while (0)

static inline Node *op1(PrimId op, Node *x) {
  return keep(node_map(&g, op, 1, &x, DT_NONE, &fault));
}
static inline Node *op2(PrimId op, Node *x, Node *y) {
  return keep(node_map(&g, op, 2, (Node *[]){x, y}, DT_NONE, &fault));
}
static inline Node *add(Node *x, Node *y) {
  return op2(PRIM_ADD, x, y);
}
static inline Node *mul(Node *x, Node *y) {
  return op2(PRIM_MUL, x, y);
}
static inline Node *convert(Node *x, Dtype t) {
  return keep(node_map(&g, PRIM_CONVERT, 1, &x, t, &fault));
}
static inline Node *reduce(PrimId op, Node *x, uint32_t first, uint32_t count,
                           bool keep_axes) {
  return keep(node_reduce(&g, op, x, first, count, keep_axes, &fault));
}
static inline Node *index_of(IndexVar *v) {
  return keep(node_index(&g, v));
}
static inline Node *close1(Node *x, IndexVar *v) {
  return keep(node_close(&g, x, 1, &v, &fault));
}
static inline Node *close2(Node *x, IndexVar *v, IndexVar *w) {
  return keep(node_close(&g, x, 2, (IndexVar *[]){v, w}, &fault));
}

static inline Subscript item_at(Node *n) {
  return (Subscript){.kind = SUBSCRIPT_INDEX, .index = n};
}
static inline Subscript item_range(int64_t from, int64_t to) {
  return (Subscript){.kind = SUBSCRIPT_SLICE, .start = from, .stop = to};
}
static inline Node *get1(Node *x, Node *i) {
  return keep(node_subscript(&g, x, 1, (Subscript[]){item_at(i)}, &fault));
}
static inline Node *get2(Node *x, Node *i, Node *j) {
  return keep(
      node_subscript(&g, x, 2, (Subscript[]){item_at(i), item_at(j)}, &fault));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
