/* Tests every row of map.def and reduce.def, for each element type that its
 * scheme admits, on the reference backend and on the backend that AXON_TARGET
 * names (default: cpu).  Inputs are vectors with a tail, columns of a matrix,
 * one element, and none; with NaN, infinities and -0.
 *
 * Results of a row that is not marked approximate (flag X) equal ref_<ID> bit
 * for bit, except for the sign of zero.  Others are close to the result in f64.
 * A row that is tested with no element type fails. */
#define _GNU_SOURCE
#include "tests/unit/tensors.h"
#include "tests/unit/tested.h"

#include <float.h>
#include <string.h>

enum {
  VECTOR_LENGTH = 259, /* 16 vectors of 16 elements, and a tail */
  ROWS = 7,
  COLUMNS = 37, /* fewer than VECTOR_LENGTH in total */
  MAX_ULPS = 4, /* of approximate functions */
};

typedef enum Layout {
  LAYOUT_VECTOR,
  LAYOUT_STRIDED, /* the columns of a matrix instead of its rows */
  LAYOUT_SCALAR,
  LAYOUT_EMPTY,
  LAYOUT_COUNT
} Layout;

/* ---- elements ---- */

static double float_value(int64_t i) {
  static const double values[] = {NAN,  INFINITY, -INFINITY, -0.0, 0,    1,
                                  -1,   0.5,      -2.5,      3,    0.25, 7.25,
                                  -.75, 60,       0.001,     2};
  return values[i % (int64_t)ARRAY_LEN(values)];
}

static double int_value(int64_t i) {
  static const double values[] = {0,   1, -1, 2,    3,    7,   -5, 100,
                                  127, 5, 11, -100, -128, 255, 40, 6};
  return values[i % (int64_t)ARRAY_LEN(values)];
}

static double finite_value(int64_t i) {
  return 1 + (double)(i * 7 % 11 - 5) / 64;
}

static Scalar element_of(PrimId op, Dtype t, uint32_t arg, int64_t i) {
  if (arg == 1) /* all pairs */
    i /= 16;
  if (arg == 2)
    i = i * 3 + 1;
  if (op == PRIM_SELECT && arg == 0)
    return (Scalar){.dtype = DT_BOOL, .i = i % 3 == 0};
  if (t == DT_BOOL)
    return (Scalar){.dtype = DT_BOOL, .i = i % 16 % 3 == 0};
  if (dtype_is_float(t))
    return num(t, float_value(i));
  double x = int_value(i);
  if (arg == 1 && map_info[op].fault == ARITH_DIVIDE_BY_ZERO && x == 0)
    x = 4;
  if (arg == 1 && map_info[op].fault >= ARITH_NEGATIVE_POWER)
    x = (double)(i % 6);
  if (t == DT_U8)
    x = fabs(x);
  return num(t, x);
}

/* ---- rows of class MAP ---- */

static Shape shape_of(Layout layout) {
  switch (layout) {
  case LAYOUT_VECTOR:
    return SHAPE(VECTOR_LENGTH);
  case LAYOUT_STRIDED:
    return SHAPE(COLUMNS, ROWS);
  case LAYOUT_EMPTY:
    return SHAPE(0);
  case LAYOUT_SCALAR:
  case LAYOUT_COUNT:
    break;
  }
  return scalar_shape;
}

/* The element of an argument that belongs to element i of the result. */
static int64_t argument_index(Layout layout, int64_t i) {
  return layout == LAYOUT_STRIDED  ? i % ROWS * COLUMNS + i / ROWS
         : layout == LAYOUT_SCALAR ? 7
                                   : i;
}

static Node *argument(PrimId op, Dtype t, uint32_t arg, Layout layout) {
  Shape s = shape_of(layout);
  if (layout == LAYOUT_STRIDED)
    s = SHAPE(ROWS, COLUMNS);
  Dtype of = element_of(op, t, arg, 0).dtype;
  Tensor *x = tensor_new(of, s.rank, s.at, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(element_of(op, t, arg, s.rank ? i : 7), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return layout == LAYOUT_STRIDED
             ? keep(node_permute(&g, n, (uint32_t[]){1, 0}, &fault))
             : n;
}

static double unit_of(Dtype t) {
  return t == DT_F16       ? 0x1p-10
         : t == DT_BF16    ? 0x1p-7
         : t == DT_F32     ? FLT_EPSILON
         : t == DT_F64     ? DBL_EPSILON
         : t == DT_F8_E4M3 ? 0x1p-3
         : t == DT_F8_E5M2 ? 0x1p-2
         : t == DT_F4_E2M1 ? 0x1p-1
                           : 1;
}

static bool is_near(Dtype t, double got, double want, double error) {
  double rounded = dtype_is_float(t) ? dtype_round(t, want) : want;
  return same_value(got, rounded) || fabs(got - want) <= error;
}

typedef struct MapCase {
  PrimId op;
  Dtype from, to;
} MapCase;

static void check_map_element(const MapCase *c, Layout layout, int64_t i,
                              double got) {
  Scalar x[3], want = {0};
  int64_t at = argument_index(layout, i);
  bool is_near_enough =
      dtype_is_float(c->to) && (prim_info[c->op].flags & PRIM_APPROXIMATE);
  for (uint32_t k = 0; k < map_info[c->op].arity; k++)
    x[k] = element_of(c->op, c->from, k, at);
  for (uint32_t k = 0; is_near_enough && k < map_info[c->op].arity; k++)
    x[k].dtype = DT_F64;
  Dtype wide = is_near_enough ? DT_F64 : c->to;
  assert_int_equal(scalar_apply(c->op, map_info[c->op].arity, x, wide, &want),
                   ARITH_OK);
  double y = value_of(want);
  double error = is_near_enough ? MAX_ULPS * unit_of(c->to) * fabs(y) +
                                      0x1p-24 * (c->to == DT_F16)
                                : 0;
  if (!is_near(c->to, got, y, error))
    fail_msg("%s of %s, layout %d, element %d (%g, %g): %.17g, not %.17g",
             prim_info[c->op].name, dtype_info[c->from].name, (int)layout,
             (int)i, value_of(x[0]),
             map_info[c->op].arity > 1 ? value_of(x[1]) : 0, got, y);
}

/* Compiled code has a text for each element type that the scheme accepts. */
static void check_text(PrimId op, Dtype t) {
  const MapInfo *m = &map_info[op];
  const PrimText *text = dtype_is_float(t) ? &m->f32 : &m->integer;
  if (op != PRIM_CONVERT && !text->scalar)
    fail_msg("%s has no C text for %s", prim_info[op].name, dtype_info[t].name);
}

/* All rows for one element type and one layout, in one call of the backend. */
static uint32_t collect_maps(Dtype t, Layout layout, MapCase *cases,
                             Node **nodes) {
  uint32_t count = 0;
  for (PrimId op = 1; op < PRIM_COUNT; op++) {
    uint32_t arity = map_info[op].arity;
    if (prim_info[op].class != PC_MAP)
      continue;
    assert_true(arity >= 1 && arity <= 3 && map_info[op].cost >= 1);
    for (Dtype to = DT_BOOL; to < (op == PRIM_CONVERT ? DT_COUNT : DT_U8);
         to++) {
      Node *args[3] = {NULL};
      for (uint32_t k = 0; k < arity; k++)
        args[k] = argument(op, t, k, layout);
      Node *n = node_map(&g, op, arity, args, to, &fault);
      if (!n) /* the scheme does not take the type */
        continue;
      check_text(op, t);
      nodes[count] = keep(n);
      cases[count++] = (MapCase){op, t, n->dtype};
    }
  }
  return count;
}

static uint32_t map_counts[PRIM_COUNT];

static void check_maps(Dtype t, Layout layout) {
  MapCase cases[128];
  Node *nodes[128];
  uint32_t count = collect_maps(t, layout, cases, nodes);
  if (!graph_force(&g, count, nodes, &where, &fault))
    fail_msg("%s, layout %d: %s", dtype_info[t].name, (int)layout,
             fault.message);
  for (uint32_t k = 0; k < count; k++) {
    assert_int_equal(nodes[k]->data->count, element_count(shape_of(layout)));
    for (int64_t i = 0; i < nodes[k]->data->count; i++)
      check_map_element(&cases[k], layout, i, element_at(nodes[k], i));
    map_counts[cases[k].op]++;
  }
  release_kept();
}

static void check_faults(Dtype t) {
  for (PrimId op = 1; op < PRIM_COUNT; op++) {
    ArithStatus status = map_info[op].fault;
    if (status == ARITH_OK || (t == DT_U8 && status != ARITH_DIVIDE_BY_ZERO))
      continue;
    Node *x = data_with(t, SHAPE(VECTOR_LENGTH), positive_values);
    double bad = status == ARITH_DIVIDE_BY_ZERO ? 0 : -1;
    Tensor *y = tensor_new(t, 1, (int64_t[]){VECTOR_LENGTH}, false, &fault);
    assert_non_null(y);
    for (int64_t i = 0; i < y->count; i++)
      scalar_store(num(t, i == VECTOR_LENGTH - 1 ? bad : 1), tensor_at(y, i));
    Node *n = keep(node_data(&g, y));
    tensor_release(y);
    must_fault(op2(op, x, n), arith_message(status));
    release_kept();
  }
}

static void test_maps(void **state) {
  (void)state;
  memset(map_counts, 0, sizeof map_counts);
  for (uint32_t reference = 0; reference < 2; reference++) {
    g.backend = reference ? &backend_reference : tested_backend();
    for (Dtype t = DT_BOOL; t < DT_COUNT; t++) {
      for (Layout layout = 0; layout < LAYOUT_COUNT; layout++)
        check_maps(t, layout);
      if (dtype_is_int(t))
        check_faults(t);
    }
  }
  for (PrimId op = 1; op < PRIM_COUNT; op++)
    if (prim_info[op].class == PC_MAP && !map_counts[op])
      fail_msg("%s has no cases", prim_info[op].name);
}

/* ---- rows of class REDUCE ---- */

typedef struct ReduceCase {
  PrimId op;
  bool special; /* NaN and infinities among the elements */
  uint32_t axis;
  Node *x;
} ReduceCase;

static Scalar reduced_element(Dtype t, bool special, int64_t i) {
  if (t == DT_BOOL)
    return (Scalar){.dtype = t, .i = i % 5 == 2};
  if (!dtype_is_float(t))
    return num(t, special ? int_value(i) : (double)(i * 7 % 13) + 1);
  return num(t, special ? float_value(i * 5 + 1) : finite_value(i));
}

/* Reduces `count` elements from `first` on, with stride `step`, in order. */
static Scalar reduce_by_row(const ReduceCase *c, int64_t first, int64_t step,
                            int64_t count, double *magnitude) {
  const ReduceInfo *row = &reduce_info[c->op];
  Dtype t = c->x->dtype, wide = t;
  if (row->state == REDUCE_VALUE && row->accumulator != ACCUMULATOR_OWN)
    wide = dtype_is_float(t) ? DT_F64 : DT_I64;
  Scalar acc = {0}, better;
  int64_t best = 0;
  *magnitude = 0;
  for (int64_t i = 0; i < count; i++) {
    Scalar x = scalar_load(t, tensor_at(c->x->data, first + i * step));
    x = scalar_convert(x, wide);
    *magnitude += fabs(value_of(x));
    Scalar args[] = {acc, x};
    if (i == 0) {
      acc = x;
    } else if (row->state == REDUCE_VALUE) {
      scalar_apply(row->combine, 2, args, wide, &acc);
    } else {
      scalar_apply(row->combine, 2, (Scalar[]){x, acc}, DT_BOOL, &better);
      bool is_nan = value_of(x) != value_of(x);
      if (better.i || (is_nan && value_of(acc) == value_of(acc)))
        acc = x, best = i;
    }
  }
  return row->state == REDUCE_PLACE ? (Scalar){.dtype = DT_I64, .i = best}
                                    : scalar_convert(acc, t);
}

static void check_reduced(const ReduceCase *c, const Node *n) {
  Dtype t = c->x->dtype;
  bool is_matrix = c->x->rank == 2;
  int64_t step = is_matrix && c->axis == 0 ? COLUMNS : 1;
  int64_t count = c->x->extents[c->axis];
  for (int64_t i = 0; i < n->data->count; i++) {
    double magnitude, got = element_at(n, i);
    double want = value_of(reduce_by_row(c, c->axis == 0 ? i : i * COLUMNS,
                                         step, count, &magnitude));
    bool is_near_enough =
        dtype_is_float(n->dtype) && (prim_info[c->op].flags & PRIM_APPROXIMATE);
    double error =
        is_near_enough ? unit_of(t) * (16 * fabs(want) + magnitude) : 0;
    if (!is_near(n->dtype, got, want, error))
      fail_msg("%s of %s, axis %u of %u, %s, element %d: %.17g, not %.17g",
               prim_info[c->op].name, dtype_info[t].name, c->axis, c->x->rank,
               c->special ? "special" : "finite", (int)i, got, want);
  }
}

static Node *reduced_argument(Dtype t, bool special, Shape s) {
  Tensor *x = tensor_new(t, s.rank, s.at, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(reduced_element(t, special, i), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

/* True if the scheme of the reduction admits the type. */
static bool takes_type(PrimId op, Dtype t) {
  const ReduceInfo *row = &reduce_info[op];
  if (row->state == REDUCE_NONE)
    return false;
  bool of_bool = strstr(prim_info[op].scheme, "-> bool[...s, ...r, ...t] ->");
  if (of_bool != (t == DT_BOOL))
    return false;
  ReduceIdentity identity = t == DT_BOOL        ? row->of_bool
                            : dtype_is_float(t) ? row->of_float
                                                : row->of_int;
  if (row->state == REDUCE_VALUE && identity == IDENTITY_NONE)
    fail_msg("%s of %s has no identity", prim_info[op].name,
             dtype_info[t].name);
  return true;
}

/* An empty reduction gives the identity, or an error. */
static void check_identity(PrimId op, Dtype t) {
  const ReduceInfo *row = &reduce_info[op];
  Node *none = reduced_argument(t, false, SHAPE(0));
  Node *n = node_reduce(&g, op, none, 0, 1, false, &fault);
  if (row->state == REDUCE_PLACE) {
    assert_null(n);
    return;
  }
  must_force(keep(n));
  Scalar identity = scalar_load(t, n->data->data), same;
  for (int64_t i = 0; i < 32; i++) {
    Scalar x = reduced_element(t, false, i);
    assert_int_equal(
        scalar_apply(row->combine, 2, (Scalar[]){identity, x}, t, &same),
        ARITH_OK);
    if (!same_value(value_of(same), value_of(x)))
      fail_msg("%s of no %s is %g, which changes %g", prim_info[op].name,
               dtype_info[t].name, value_of(identity), value_of(x));
  }
}

static Scalar combined(PrimId op, Scalar x, Scalar y) {
  Scalar out;
  assert_int_equal(scalar_apply(op, 2, (Scalar[]){x, y}, x.dtype, &out),
                   ARITH_OK);
  return out;
}

static void check_laws(PrimId op, Dtype t) {
  const ReduceInfo *row = &reduce_info[op];
  if (row->state != REDUCE_VALUE || dtype_is_float(t))
    return;
  for (int64_t i = 0; i < 4096; i++) {
    Scalar x = reduced_element(t, true, i),
           y = reduced_element(t, true, i / 16),
           z = reduced_element(t, true, i / 256);
    PrimId by = row->combine;
    if (row->flags & REDUCE_ASSOCIATIVE)
      assert_int_equal(combined(by, combined(by, x, y), z).i,
                       combined(by, x, combined(by, y, z)).i);
    if (row->flags & REDUCE_COMMUTATIVE)
      assert_int_equal(combined(by, x, y).i, combined(by, y, x).i);
    if (row->flags & REDUCE_IDEMPOTENT)
      assert_int_equal(combined(by, x, x).i, x.i);
  }
}

static uint32_t reduce_counts[PRIM_COUNT];

static void check_reductions(Dtype t, bool special) {
  ReduceCase cases[128];
  Node *nodes[128];
  uint32_t count = 0;
  Node *vector = reduced_argument(t, special, SHAPE(VECTOR_LENGTH));
  Node *matrix = reduced_argument(t, special, SHAPE(ROWS, COLUMNS));
  for (PrimId op = 1; op < PRIM_COUNT; op++)
    for (uint32_t k = 0; takes_type(op, t) && k < 3; k++) {
      Node *x = k ? matrix : vector;
      Node *n = node_reduce(&g, op, x, k == 2, 1, false, &fault);
      if (!n) /* the scheme does not take the type */
        continue;
      cases[count] = (ReduceCase){op, special, k == 2, x};
      nodes[count++] = keep(n);
      if (k == 0) {
        check_identity(op, t);
        check_laws(op, t);
      }
    }
  if (!graph_force(&g, count, nodes, &where, &fault))
    fail_msg("%s: %s", dtype_info[t].name, fault.message);
  for (uint32_t k = 0; k < count; k++) {
    check_reduced(&cases[k], nodes[k]);
    reduce_counts[cases[k].op]++;
  }
  release_kept();
}

static void test_reductions(void **state) {
  (void)state;
  memset(reduce_counts, 0, sizeof reduce_counts);
  for (uint32_t reference = 0; reference < 2; reference++) {
    g.backend = reference ? &backend_reference : tested_backend();
    for (Dtype t = DT_BOOL; t < DT_COUNT; t++)
      for (uint32_t special = 0; special < 2; special++)
        check_reductions(t, special);
  }
  for (PrimId op = 1; op < PRIM_COUNT; op++)
    if (prim_info[op].class == PC_REDUCE && !reduce_counts[op])
      fail_msg("%s has no cases", prim_info[op].name);
}

/* Each has an example, which tests/check_primitives.sh runs. */
static void test_examples(void **state) {
  (void)state;
  for (PrimId op = 1; op < PRIM_COUNT; op++)
    if (prim_info[op].class == PC_MAP || prim_info[op].class == PC_REDUCE)
      assert_true(prim_info[op].example[0]);
}

int main(void) {
  setenv("AXON_TINY", "0", 0);
  const struct CMUnitTest tests[] = {TEST(test_maps), TEST(test_reductions),
                                     TEST(test_examples)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
