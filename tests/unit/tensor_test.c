/* Tests tensor/ and the reference backend: every constructor against simple
 * loops, on small and awkward shapes. */
#include "tests/unit/tensors.h"

/* ---- scalars and pointwise operations ---- */

static int64_t fold_int(PrimId op, int64_t x, int64_t y, Dtype t) {
  Scalar args[2] = {{.dtype = t, .i = x}, {.dtype = t, .i = y}}, out;
  assert_int_equal(scalar_apply(op, 2, args, t, &out), ARITH_OK);
  return out.i;
}

static double fold_float(PrimId op, double x, double y, Dtype t) {
  Scalar args[2] = {{.dtype = t, .f = x}, {.dtype = t, .f = y}}, out;
  assert_int_equal(scalar_apply(op, 2, args, t, &out), ARITH_OK);
  return out.f;
}

static void test_integer_arithmetic(void **state) {
  (void)state;
  for (int64_t x = -7; x <= 7; x++)
    for (int64_t y = -3; y <= 3; y++)
      if (y) {
        double q = floor((double)x / (double)y);
        assert_int_equal(fold_int(PRIM_DIV, x, y, DT_I64), (int64_t)q);
        assert_int_equal(fold_int(PRIM_MOD, x, y, DT_I64), x - y * (int64_t)q);
      }
  assert_int_equal(fold_int(PRIM_DIV, INT64_MIN, -1, DT_I64), INT64_MIN);
  assert_int_equal(fold_int(PRIM_MOD, INT64_MIN, -1, DT_I64), 0);
  assert_int_equal(fold_int(PRIM_DIV, INT32_MIN, -1, DT_I32), INT32_MIN);
  assert_int_equal(fold_int(PRIM_ADD, INT64_MAX, 1, DT_I64), INT64_MIN);
  assert_int_equal(fold_int(PRIM_ADD, 200, 100, DT_U8), 44);
  assert_int_equal(fold_int(PRIM_MUL, 16, 8, DT_I8), -128);
  assert_int_equal(fold_int(PRIM_POW, 2, 10, DT_I64), 1024);
  assert_int_equal(fold_int(PRIM_POW, -3, 3, DT_I64), -27);
  Scalar args[2] = {{.dtype = DT_I64, .i = 1}, {.dtype = DT_I64}}, out;
  assert_int_equal(scalar_apply(PRIM_DIV, 2, args, DT_I64, &out),
                   ARITH_DIVIDE_BY_ZERO);
  assert_int_equal(scalar_apply(PRIM_MOD, 2, args, DT_I64, &out),
                   ARITH_DIVIDE_BY_ZERO);
  args[1].i = -1;
  assert_int_equal(scalar_apply(PRIM_POW, 2, args, DT_I64, &out),
                   ARITH_NEGATIVE_POWER);
}

static void test_float_arithmetic(void **state) {
  (void)state;
  assert_true(fold_float(PRIM_MOD, -1, 5, DT_F64) == 4);
  assert_true(fold_float(PRIM_MOD, 1, -5, DT_F32) == -4);
  assert_true(fold_float(PRIM_MOD, 7.5, 2, DT_F16) == 1.5);
  assert_true(isnan(fold_float(PRIM_MOD, 1, 0, DT_F64)));
  assert_true(fold_float(PRIM_DIV, 1, 0, DT_F32) == INFINITY);
  assert_true(isnan(fold_float(PRIM_MAXIMUM, NAN, 1, DT_F32)));
  assert_true(isnan(fold_float(PRIM_MAXIMUM, 1, NAN, DT_F32)));
  assert_true(isnan(fold_float(PRIM_MINIMUM, 1, NAN, DT_F64)));
  assert_true(fold_float(PRIM_ROUND, 2.5, 0, DT_F32) == 2);
  assert_true(fold_float(PRIM_ROUND, -1.5, 0, DT_F64) == -2);
  assert_true(fold_float(PRIM_ADD, 2048, 1, DT_F16) == 2048);
  assert_true(fold_float(PRIM_ADD, 256, 1, DT_BF16) == 256);
  assert_true(fold_float(PRIM_ADD, 16, 1, DT_F8_E4M3) == 16);
  assert_true(fold_float(PRIM_MUL, 16, -32, DT_F8_E4M3) == -448);
  assert_true(fold_float(PRIM_MUL, 256, 256, DT_F8_E5M2) == INFINITY);
  assert_true(fold_float(PRIM_MUL, 3, -4, DT_F4_E2M1) == -6);
  assert_true(fold_float(PRIM_ADD, 2, 1, DT_F8_E8M0) == 4);
  assert_true(fold_float(PRIM_ADD, 1 << 24, 1, DT_F32) == 1 << 24);
  assert_true(fold_float(PRIM_SIGN, -0.5, 0, DT_F32) == -1);
}

static const Dtype all_types[] = {
    DT_BOOL, DT_U8,  DT_I8,      DT_I32,     DT_I64,     DT_F16,    DT_BF16,
    DT_F32,  DT_F64, DT_F8_E4M3, DT_F8_E5M2, DT_F4_E2M1, DT_F8_E8M0};

static uint32_t arity(PrimId op) {
  if (op == PRIM_SELECT)
    return 3;
  uint32_t arrows = 0;
  for (const char *s = prim_info[op].scheme; (s = strstr(s, "->")); s += 2)
    arrows++;
  return arrows;
}

/* Every pointwise row, in every type that it admits, on a tensor: equals its
 * scalar function, element by element. */
static void test_map_rows(void **state) {
  (void)state;
  uint32_t done = 0;
  for (PrimId op = 1; op < PRIM_COUNT; op++)
    for (uint32_t t = 0; t < ARRAY_LEN(all_types); t++) {
      if (prim_info[op].class != PC_MAP || op == PRIM_CONVERT)
        continue;
      Dtype type = all_types[t];
      Node *args[3];
      for (uint32_t k = 0; k < arity(op); k++)
        args[k] = data_with(op == PRIM_SELECT && k == 0 ? DT_BOOL : type,
                            SHAPE(13), k ? positive_values : mixed_values);
      Node *n = node_map(&g, op, arity(op), args, DT_NONE, &fault);
      if (!n)
        continue; /* the op does not take this type */
      must_force(keep(n));
      for (int64_t i = 0; i < 13; i++) {
        Scalar x[3], want;
        for (uint32_t k = 0; k < arity(op); k++)
          x[k] = scalar_load(args[k]->dtype, tensor_at(args[k]->data, i));
        assert_int_equal(scalar_apply(op, arity(op), x, n->dtype, &want), 0);
        assert_true(same_value(element_at(n, i), value_of(want)));
      }
      done++;
      release_kept();
    }
  assert_true(done > 200);
}

static void test_convert(void **state) {
  (void)state;
  for (uint32_t t = 0; t < ARRAY_LEN(all_types); t++)
    for (uint32_t u = 0; u < ARRAY_LEN(all_types); u++) {
      Node *x = data(all_types[t], SHAPE(11));
      Node *n = convert(x, all_types[u]);
      must_force(n);
      for (int64_t i = 0; i < 11; i++) {
        Scalar from = scalar_load(x->dtype, tensor_at(x->data, i));
        assert_true(element_at(n, i) ==
                    value_of(scalar_convert(from, n->dtype)));
      }
    }
}

static void test_fold(void **state) {
  (void)state;
  Scalar x;
  Node *n = mul(add(integer(3), integer(4)), integer(5));
  assert_true(node_known(n, &x));
  assert_int_equal(x.i, 35);
  assert_true(node_known(op2(PRIM_LT, integer(3), integer(4)), &x));
  assert_int_equal(x.i, 1);
  must_fail_to_build(node_map(&g, PRIM_DIV, 2,
                              (Node *[]){integer(1), integer(0)}, DT_NONE,
                              &fault),
                     "integer division by zero");
  Node *zeros = mul(data(DT_I64, SHAPE(3)), integer(0));
  must_fault(op2(PRIM_DIV, integer(7), zeros), "integer division by zero");
  must_fault(op2(PRIM_MOD, integer(7), zeros), "integer division by zero");
}

/* ---- broadcasting ---- */

static const Shape some_shapes[] = {
    {0},
    {1, {1}, 1},
    {1, {1}, 0},
    {1, {3}, 0},
    {1, {0}, 0},
    {2, {2, 3}, 0},
    {2, {2, 1}, 2},
    {2, {1, 3}, 1},
    {2, {1, 1}, 3},
    {2, {1, 3}, 0},
    {3, {5, 1, 3}, 2},
    {3, {5, 2, 1}, 4},
    {3, {1, 2, 3}, 1},
    {2, {0, 3}, 0},
};

/* The broadcasting rule of the language, implemented again: absent < * < a
 * size, two sizes must be equal. */
static bool join_of(Shape x, Shape y, Shape *out) {
  *out = (Shape){.rank = x.rank > y.rank ? x.rank : y.rank};
  for (uint32_t k = 1; k <= out->rank; k++) {
    bool in_x = k <= x.rank, in_y = k <= y.rank;
    bool star_x = in_x && (x.broadcast_mask >> (x.rank - k) & 1);
    bool star_y = in_y && (y.broadcast_mask >> (y.rank - k) & 1);
    bool size_x = in_x && !star_x, size_y = in_y && !star_y;
    uint32_t to = out->rank - k;
    if (size_x && size_y && x.at[x.rank - k] != y.at[y.rank - k])
      return false;
    out->at[to] = size_x ? x.at[x.rank - k] : size_y ? y.at[y.rank - k] : 1;
    if (!size_x && !size_y)
      out->broadcast_mask |= 1u << to;
  }
  return true;
}

/* The element of x at an index of the result.  The elements of x are
 * numbered. */
static int64_t joined(Shape x, Shape out, const int64_t *index) {
  int64_t own[6];
  for (uint32_t k = 0; k < x.rank; k++)
    own[k] = x.broadcast_mask >> k & 1 ? 0 : index[out.rank - x.rank + k];
  return ravel(x, own);
}

static void test_broadcast_matrix(void **state) {
  (void)state;
  uint32_t good = 0, bad = 0;
  for (uint32_t a = 0; a < ARRAY_LEN(some_shapes); a++)
    for (uint32_t b = 0; b < ARRAY_LEN(some_shapes); b++) {
      Shape x = some_shapes[a], y = some_shapes[b], out;
      Node *nx = numbers(x), *ny = mul(numbers(y), integer(1000));
      if (!join_of(x, y, &out)) {
        assert_null(
            node_map(&g, PRIM_ADD, 2, (Node *[]){nx, ny}, DT_NONE, &fault));
        bad++;
        continue;
      }
      CHECK_EACH(add(nx, ny), out, i,
                 joined(x, out, i) + 1000 * joined(y, out, i));
      good++;
      release_kept();
    }
  assert_true(good > 60 && bad > 30);
}

static void test_map_messages(void **state) {
  (void)state;
  Node *x = data(DT_F32, SHAPE(3, 4)), *y = data(DT_F32, SHAPE(5));
  must_fail_to_build(
      node_map(&g, PRIM_ADD, 2, (Node *[]){x, y}, DT_NONE, &fault),
      "shapes f32[3, 4] and f32[5] do not broadcast: 4 and 5 differ");
  y = data(DT_F32, SHAPE(1));
  must_fail_to_build(
      node_map(&g, PRIM_ADD, 2, (Node *[]){x, y}, DT_NONE, &fault),
      "shapes f32[3, 4] and f32[1] do not broadcast: 4 and 1 differ");
  assert_non_null(strstr(fault.help, "an axis of size 1 does not broadcast"));
  y = data(DT_F64, SHAPE(4));
  must_fail_to_build(
      node_map(&g, PRIM_ADD, 2, (Node *[]){x, y}, DT_NONE, &fault),
      "element types differ: f32 and f64");
  y = data(DT_I32, SHAPE(4));
  must_fail_to_build(node_map(&g, PRIM_EXP, 1, &y, DT_NONE, &fault),
                     "exp does not take elements of type i32");
}

/* ---- reductions ---- */

static double reduce_loop(PrimId op, const Node *x, Shape s, uint32_t first,
                          uint32_t count, const int64_t *outer) {
  Shape inner = {.rank = count};
  for (uint32_t k = 0; k < count; k++)
    inner.at[k] = s.at[first + k];
  double acc = op == PRIM_PROD || op == PRIM_ALL ? 1 : 0;
  int64_t best = 0;
  for (int64_t i = 0; i < element_count(inner); i++) {
    int64_t r[6], index[6];
    unravel(inner, i, r);
    for (uint32_t k = 0; k < s.rank; k++)
      index[k] = k < first           ? outer[k]
                 : k < first + count ? r[k - first]
                                     : outer[k - count];
    double v = element_at(x, ravel(s, index));
    if (op == PRIM_SUM)
      acc += v;
    else if (op == PRIM_PROD)
      acc *= v;
    else if (op == PRIM_ANY)
      acc = acc || v;
    else if (op == PRIM_ALL)
      acc = acc && v;
    else if (i == 0 ||
             (op == PRIM_MAX || op == PRIM_ARGMAX ? v > acc : v < acc))
      acc = v, best = i;
  }
  if ((op == PRIM_MAX || op == PRIM_MIN) && element_count(inner) == 0)
    return value_of(scalar_convert(
        dtype_is_float(x->dtype)
            ? (Scalar){.dtype = DT_F64,
                       .f = op == PRIM_MAX ? -INFINITY : INFINITY}
            : (Scalar){.dtype = DT_F64, .f = op == PRIM_MAX ? -1e30 : 1e30},
        x->dtype));
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN ? (double)best : acc;
}

static void check_reduce(PrimId op, Dtype t, Shape s, uint32_t first,
                         uint32_t count) {
  Node *x = data(t, s);
  Shape out = {0};
  int64_t reduced = 1;
  for (uint32_t k = 0; k < s.rank; k++)
    if (k < first || k >= first + count)
      out.at[out.rank++] = s.at[k];
    else
      reduced *= s.at[k];
  bool arg = op == PRIM_ARGMAX || op == PRIM_ARGMIN;
  if (arg && reduced == 0) {
    assert_null(node_reduce(&g, op, x, first, count, false, &fault));
    return;
  }
  CHECK_EACH(reduce(op, x, first, count, false), out, i,
             value_of(scalar_convert(
                 num(DT_F64, reduce_loop(op, x, s, first, count, i)),
                 arg ? DT_I64 : t)));
}

static void test_reductions(void **state) {
  (void)state;
  static const Shape shapes[] = {
      {1, {5}, 0},       {1, {0}, 0},       {1, {1}, 0},      {2, {3, 4}, 0},
      {3, {2, 3, 5}, 0}, {3, {2, 0, 3}, 0}, {3, {7, 1, 2}, 0}};
  static const PrimId ops[] = {PRIM_SUM, PRIM_PROD, PRIM_MAX,    PRIM_MIN,
                               PRIM_ANY, PRIM_ALL,  PRIM_ARGMAX, PRIM_ARGMIN};
  static const Dtype types[] = {DT_I64, DT_F32, DT_F64};
  for (uint32_t o = 0; o < ARRAY_LEN(ops); o++)
    for (uint32_t t = 0; t < ARRAY_LEN(types); t++)
      for (uint32_t k = 0; k < ARRAY_LEN(shapes); k++)
        for (uint32_t first = 0; first < shapes[k].rank; first++)
          for (uint32_t n = 1; first + n <= shapes[k].rank; n++) {
            bool logic = ops[o] == PRIM_ANY || ops[o] == PRIM_ALL;
            check_reduce(ops[o], logic ? DT_BOOL : types[t], shapes[k], first,
                         n);
            release_kept();
          }
  check_reduce(PRIM_MAX, DT_U8, SHAPE(0), 0, 1);
  check_reduce(PRIM_MIN, DT_I8, SHAPE(0), 0, 1);
  check_reduce(PRIM_MAX, DT_F16, SHAPE(0), 0, 1);
}

static double one_nan(int64_t i) {
  return i == 3 ? NAN : (double)i;
}

static void test_reduction_details(void **state) {
  (void)state;
  Node *x = data_with(DT_F32, SHAPE(6), one_nan);
  CHECK_EACH(reduce(PRIM_MAX, x, 0, 1, false), scalar_shape, i, NAN);
  CHECK_EACH(reduce(PRIM_MIN, x, 0, 1, false), scalar_shape, i, NAN);
  CHECK_EACH(reduce(PRIM_ARGMAX, x, 0, 1, false), scalar_shape, i, 3);
  Shape kept_shape = {2, {4, 1}, 2};
  x = data(DT_F32, SHAPE(4, 3));
  CHECK_EACH(reduce(PRIM_SUM, x, 1, 1, true), kept_shape, i,
             element_at(x, 3 * i[0]) + element_at(x, 3 * i[0] + 1) +
                 element_at(x, 3 * i[0] + 2));
  x = data_with(DT_F16, SHAPE(4096), ones); /* would stop at 2048 in f16 */
  CHECK_EACH(reduce(PRIM_SUM, x, 0, 1, false), scalar_shape, i, 4096);
  x = data_with(DT_U8, SHAPE(300), ones);
  CHECK_EACH(reduce(PRIM_SUM, x, 0, 1, false), scalar_shape, i, 300 % 256);
  must_fail_to_build(node_reduce(&g, PRIM_ARGMAX, data(DT_F32, SHAPE(2, 0)), 1,
                                 1, false, &fault),
                     "argmax of an empty axis of f32[2, 0]");
}

/* ---- products ---- */

static void check_matmul(int64_t n, int64_t k, int64_t m, Dtype t) {
  Node *a = data(t, SHAPE(n, k)),
       *b = data_with(t, SHAPE(k, m), positive_values);
  Node *c = keep(node_matmul(&g, a, b, &fault));
  check_shape(c, SHAPE(n, m));
  must_force(c);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum += element_at(a, i * k + l) * element_at(b, l * m + j);
      assert_true(element_at(c, i * m + j) == dtype_round(t, sum));
    }
}

static void test_matmul(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 7, 13};
  for (uint32_t n = 0; n < ARRAY_LEN(sizes); n++)
    for (uint32_t k = 0; k < ARRAY_LEN(sizes); k++)
      for (uint32_t m = 0; m < ARRAY_LEN(sizes); m++)
        check_matmul(sizes[n], sizes[k], sizes[m], n % 2 ? DT_F32 : DT_F16);
  must_fail_to_build(node_matmul(&g, data(DT_F32, SHAPE(3, 784)),
                                 data(DT_F32, SHAPE(728, 10)), &fault),
                     "inner dimensions of a matrix product differ: 784 and 728 "
                     "(f32[3, 784] @ f32[728, 10])");
  assert_null(node_matmul(&g, data(DT_F32, SHAPE(3)), data(DT_F32, SHAPE(3, 3)),
                          &fault));
}

static void test_batched_matmul(void **state) {
  (void)state;
  Node *a = numbers((Shape){4, {2, 1, 3, 4}, 2});
  Node *b = numbers(SHAPE(5, 4, 2));
  Node *c = keep(node_matmul(&g, a, b, &fault));
  check_shape(c, SHAPE(2, 5, 3, 2));
  must_force(c);
  for (int64_t i = 0; i < 2 * 5 * 3 * 2; i++) {
    int64_t x[4], sum = 0;
    unravel(SHAPE(2, 5, 3, 2), i, x);
    for (int64_t l = 0; l < 4; l++)
      sum += ((x[0] * 3 + x[2]) * 4 + l) * ((x[1] * 4 + l) * 2 + x[3]);
    assert_true(element_at(c, i) == (double)sum);
  }
  must_fail_to_build(
      node_matmul(&g, numbers(SHAPE(2, 3, 4)), numbers(SHAPE(5, 4, 2)), &fault),
      "batch axes of a matrix product do not broadcast: 2 and 5 differ "
      "(i64[2, 3, 4] @ i64[5, 4, 2])");
}

static void test_einsum(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(3, 3)), *y = numbers(SHAPE(3, 2));
  const uint8_t ii[] = {0, 0}, ij[] = {0, 1}, jk[] = {1, 2}, k[] = {2};
  CHECK_EACH(
      keep(node_einsum(&g, 1, &x, (const uint8_t *[]){ii}, 1, ii, &fault)),
      SHAPE(3), i, 4 * i[0]);
  CHECK_EACH(
      keep(node_einsum(&g, 1, &x, (const uint8_t *[]){ii}, 0, ii, &fault)),
      scalar_shape, i, 12);
  int64_t want[2] = {0, 0};
  for (int64_t a = 0; a < 3; a++)
    for (int64_t b = 0; b < 3; b++)
      for (int64_t c = 0; c < 2; c++)
        want[c] += (a * 3 + b) * (b * 2 + c);
  CHECK_EACH(keep(node_einsum(&g, 2, (Node *[]){x, y},
                              (const uint8_t *[]){ij, jk}, 1, k, &fault)),
             SHAPE(2), i, want[i[0]]);
  must_fail_to_build(
      node_einsum(&g, 2, (Node *[]){x, numbers(SHAPE(4, 2))},
                  (const uint8_t *[]){ij, jk}, 1, k, &fault),
      "sizes of one axis of a contraction differ: 3 in i64[3, 3] and 4 in "
      "i64[4, 2]");
  Node *v = numbers(SHAPE(3));
  CHECK_EACH(keep(node_dot(&g, x, v, &fault)), SHAPE(3), i, 5 + 9 * i[0]);
  CHECK_EACH(keep(node_outer(&g, v, numbers(SHAPE(2)), &fault)), SHAPE(3, 2), i,
             i[0] * i[1]);
  assert_null(node_dot(&g, x, numbers(SHAPE(4)), &fault));
}

/* ---- moving elements ---- */

static Node *reshape(Node *x, Shape s) {
  return keep(node_reshape(&g, x, s.rank, s.at, s.broadcast_mask, &fault));
}

static void test_reshape(void **state) {
  (void)state;
  static const Shape shapes[] = {{1, {24}, 0},           {2, {4, 6}, 0},
                                 {2, {6, 4}, 0},         {3, {2, 3, 4}, 0},
                                 {4, {2, 1, 3, 4}, 0},   {3, {8, 3, 1}, 0},
                                 {5, {1, 4, 1, 3, 2}, 0}};
  for (uint32_t a = 0; a < ARRAY_LEN(shapes); a++)
    for (uint32_t b = 0; b < ARRAY_LEN(shapes); b++)
      for (uint32_t c = 0; c < ARRAY_LEN(shapes); c++) {
        Node *x = reshape(reshape(numbers(shapes[a]), shapes[b]), shapes[c]);
        CHECK_EACH(x, shapes[c], i, i_);
        release_kept();
      }
  Node *x = numbers(SHAPE(2, 6));
  CHECK_EACH(keep(node_reshape(&g, x, 2, (int64_t[]){-1, 4}, 0, &fault)),
             SHAPE(3, 4), i, i_);
  must_fail_to_build(
      node_reshape(&g, x, 2, (int64_t[]){-1, 5}, 0, &fault),
      "reshape: 12 elements of i64[2, 6] are not a multiple of 5");
  must_fail_to_build(node_reshape(&g, x, 1, (int64_t[]){5}, 0, &fault),
                     "reshape from i64[2, 6] to i64[5]: 12 elements are not 5");
  x = numbers(SHAPE(0, 3));
  CHECK_EACH(reshape(x, SHAPE(5, 0)), SHAPE(5, 0), i, i[0]);
  CHECK_EACH(reshape(numbers(scalar_shape), SHAPE(1, 1)), SHAPE(1, 1), i, i[0]);
}

static void test_permute(void **state) {
  (void)state;
  Node *x = numbers((Shape){3, {2, 3, 1}, 4});
  Node *y = keep(node_permute(&g, x, (uint32_t[]){2, 0, 1}, &fault));
  CHECK_EACH(y, ((Shape){3, {1, 2, 3}, 1}), i, i[1] * 3 + i[2]);
  must_fail_to_build(
      node_permute(&g, x, (uint32_t[]){0, 0, 1}, &fault),
      "permute needs each of the 3 axes of i64[2, 3, *] exactly once");
}

static void test_broadcast_to(void **state) {
  (void)state;
  Node *x = numbers((Shape){2, {1, 3}, 1});
  CHECK_EACH(keep(node_broadcast(&g, x, 3, (int64_t[]){2, 4, 3}, 0, &fault)),
             SHAPE(2, 4, 3), i, i[2]);
  must_fail_to_build(node_broadcast(&g, x, 2, (int64_t[]){2, 4}, 0, &fault),
                     "i64[*, 3] does not broadcast to i64[2, 4]");
  assert_null(node_broadcast(&g, numbers(SHAPE(1, 3)), 2, (int64_t[]){2, 3}, 0,
                             &fault));
}

static void test_concat(void **state) {
  (void)state;
  Node *a = numbers(SHAPE(2, 3)), *b = numbers(SHAPE(2, 0)),
       *c = numbers(SHAPE(2, 1)), *d = numbers(SHAPE(2, 4));
  Node *x = keep(node_concat(&g, 1, 4, (Node *[]){a, b, c, d}, &fault));
  CHECK_EACH(x, SHAPE(2, 8), i,
             i[1] < 3   ? i[0] * 3 + i[1]
             : i[1] < 4 ? i[0]
                        : i[0] * 4 + i[1] - 4);
  must_fail_to_build(node_concat(&g, 0, 2, (Node *[]){a, c}, &fault),
                     "concat of different shapes: i64[2, 3] and i64[2, 1]");
  Node *many[100];
  for (uint32_t k = 0; k < 100; k++)
    many[k] = add(numbers(SHAPE(k % 3)), integer(k * 10));
  x = keep(node_concat(&g, 0, 100, many, &fault));
  must_force(x);
  int64_t to = 0;
  for (int64_t k = 0; k < 100; k++)
    for (int64_t j = 0; j < k % 3; j++)
      assert_true(element_at(x, to++) == (double)(k * 10 + j));
  assert_int_equal(to, x->data->count);
}

static void test_stack(void **state) {
  (void)state;
  Node *xs[7];
  for (int64_t k = 0; k < 7; k++)
    xs[k] = add(numbers(SHAPE(3)), integer(k * 3));
  CHECK_EACH(keep(node_stack(&g, 7, xs, &fault)), SHAPE(7, 3), i, i_);
  for (int64_t k = 0; k < 7; k++)
    xs[k] = integer(k * k);
  Node *x = keep(node_stack(&g, 7, xs, &fault));
  assert_non_null(x->data); /* all values are known: the node has data */
  CHECK_EACH(x, SHAPE(7), i, i[0] * i[0]);
  xs[1] = numbers(SHAPE(2));
  must_fail_to_build(node_stack(&g, 2, xs, &fault),
                     "stack of different shapes: i64 and i64[2]");
}

static void test_along_axis(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(3, 5)), *none = numbers(SHAPE(0, 2));
  Scalar nine = {.dtype = DT_I64, .i = 9};
  CHECK_EACH(keep(node_pad(&g, x, 1, 2, 1, nine, &fault)), SHAPE(3, 8), i,
             i[1] < 2 || i[1] >= 7 ? 9 : i[0] * 5 + i[1] - 2);
  CHECK_EACH(keep(node_pad(&g, none, 0, 1, 2, nine, &fault)), SHAPE(3, 2), i,
             9);
  assert_null(node_pad(&g, x, 1, -1, 0, nine, &fault));
  CHECK_EACH(keep(node_reverse(&g, x, 1, &fault)), SHAPE(3, 5), i,
             i[0] * 5 + 4 - i[1]);
  CHECK_EACH(keep(node_reverse(&g, none, 0, &fault)), SHAPE(0, 2), i, i[0]);
  static const int64_t turns[] = {0, 1, 4, 5, 7, -1, -12};
  for (uint32_t k = 0; k < ARRAY_LEN(turns); k++)
    CHECK_EACH(keep(node_roll(&g, x, 1, turns[k], &fault)), SHAPE(3, 5), i,
               i[0] * 5 + int_floor_mod(i[1] - turns[k], 5));
  CHECK_EACH(keep(node_roll(&g, none, 0, 3, &fault)), SHAPE(0, 2), i, i[0]);
  CHECK_EACH(keep(node_tile(&g, x, 1, 2, false, &fault)), SHAPE(3, 10), i,
             i[0] * 5 + i[1] % 5);
  CHECK_EACH(keep(node_tile(&g, x, 0, 3, true, &fault)), SHAPE(9, 5), i,
             i[0] / 3 * 5 + i[1]);
  CHECK_EACH(keep(node_tile(&g, x, 0, 0, false, &fault)), SHAPE(0, 5), i, i[0]);
  CHECK_EACH(keep(node_triangle(&g, x, true, &fault)), SHAPE(3, 5), i,
             i[1] <= i[0] ? i[0] * 5 + i[1] : 0);
  CHECK_EACH(keep(node_triangle(&g, x, false, &fault)), SHAPE(3, 5), i,
             i[1] >= i[0] ? i[0] * 5 + i[1] : 0);
  must_fail_to_build(node_reverse(&g, x, 2, &fault),
                     "reverse along axis 2, but i64[3, 5] has 2");
}

static void test_squeeze(void **state) {
  (void)state;
  Node *x = numbers((Shape){4, {2, 1, 1, 3}, 2});
  CHECK_EACH(keep(node_squeeze(&g, x, 1, 2, &fault)), SHAPE(2, 3), i, i_);
  must_fail_to_build(
      node_squeeze(&g, x, 0, 1, &fault),
      "squeeze removes axes of size 1, but axis 0 of i64[2, *, 1, 3] "
      "has 2");
}

/* ---- indexing ---- */

static void test_items(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(4, 5, 6));
  Subscript items[6] = {item_at(integer(2)),
                        {.kind = SUBSCRIPT_NEW_BROADCAST_AXIS},
                        item_range(1, 4),
                        {.kind = SUBSCRIPT_NEW_AXIS},
                        item_range(0, 6)};
  Node *n = keep(node_subscript(&g, x, 5, items, &fault));
  CHECK_EACH(n, ((Shape){4, {1, 3, 1, 6}, 1}), i, 60 + (i[1] + 1) * 6 + i[3]);
  Node *rows = data_with(DT_I32, SHAPE(2, 2), positive_values); /* 1 6 4 2 */
  Subscript gather[3] = {item_at(integer(3)), item_range(0, 5), item_at(rows)};
  n = keep(node_subscript(&g, x, 3, gather, &fault));
  must_fault(n, "index 6 is out of bounds for axis 2 of size 6");
  gather[2] = item_at(keep(node_subscript(
      &g, rows, 2, (Subscript[]){item_range(1, 2), item_range(0, 2)}, &fault)));
  n = keep(node_subscript(&g, x, 3, gather, &fault));
  CHECK_EACH(n, SHAPE(5, 1, 2), i, 90 + i[0] * 6 + (i[2] ? 2 : 4));
  must_fail_to_build(node_subscript(&g, x, 1, items, &fault),
                     "1 indices for the 3 axes of i64[4, 5, 6]");
  items[0] = item_at(integer(-1));
  must_fail_to_build(node_subscript(&g, x, 5, items, &fault),
                     "index -1 is out of bounds for axis 0 of size 4");
  items[0] = item_range(2, 5);
  must_fail_to_build(node_subscript(&g, x, 5, items, &fault),
                     "slice 2:5 is out of bounds for axis 0 of size 4");
  items[0] = item_range(2, 2);
  CHECK_EACH(keep(node_subscript(&g, x, 5, items, &fault)),
             ((Shape){5, {0, 1, 3, 1, 6}, 2}), i, i[0]);
}

static void test_gather(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(7, 3)),
       *index = data_with(DT_I64, SHAPE(6), mixed_values);
  must_fault(keep(node_gather(&g, x, index, &fault)),
             "index -4 is out of bounds for axis 0 of size 7");
  index = op2(PRIM_MOD, index, integer(7));
  CHECK_EACH(keep(node_gather(&g, x, index, &fault)), SHAPE(6, 3), i,
             int_floor_mod((int64_t)mixed_values(i[0]), 7) * 3 + i[1]);
  Node *none = numbers(SHAPE(0, 3));
  must_fault(keep(node_gather(&g, none, index, &fault)),
             "index 3 is out of bounds for axis 0 of size 0");
  CHECK_EACH(keep(node_one_hot(&g, 4, data(DT_I32, SHAPE(5)), DT_F32, &fault)),
             SHAPE(5, 4), i, mixed_values(i[0]) == (double)i[1]);
}

/* ---- from sizes ---- */

static void test_make(void **state) {
  (void)state;
  CHECK_EACH(
      keep(node_full(&g, num(DT_F32, 7), 2, (int64_t[]){2, 3}, 0, &fault)),
      SHAPE(2, 3), i, 7);
  CHECK_EACH(keep(node_iota(&g, DT_F16, 5, &fault)), SHAPE(5), i, i[0]);
  CHECK_EACH(keep(node_iota(&g, DT_U8, 300, &fault)), SHAPE(300), i,
             i[0] % 256);
  CHECK_EACH(keep(node_iota(&g, DT_I64, 0, &fault)), SHAPE(0), i, i[0]);
  CHECK_EACH(keep(node_eye(&g, DT_F32, 3, &fault)), SHAPE(3, 3), i,
             i[0] == i[1]);
  must_fail_to_build(node_iota(&g, DT_I64, -1, &fault),
                     "a size cannot be negative; found -1");
}

static void test_random(void **state) {
  (void)state;
  PrngKey key = prng_key_from_seed(42);
  static const Dtype types[] = {DT_F16,     DT_BF16,    DT_F32,     DT_F64,
                                DT_F8_E4M3, DT_F8_E5M2, DT_F4_E2M1, DT_F8_E8M0};
  for (uint32_t t = 0; t < ARRAY_LEN(types); t++) {
    Node *u = keep(node_random(&g, PRIM_UNIFORM, key, types[t], 2,
                               (int64_t[]){3, 5}, 0, &fault));
    CHECK_EACH(u, SHAPE(3, 5), i,
               prng_uniform(key, (uint64_t)(i[0] * 5 + i[1]), types[t]));
    Node *n = keep(node_random(&g, PRIM_NORMAL, key, types[t], 1,
                               (int64_t[]){7}, 0, &fault));
    CHECK_EACH(n, SHAPE(7), i, prng_normal(key, (uint64_t)i[0], types[t]));
  }
  IndexVar *v = var(2); /* equal random numbers for each value of an index */
  Node *u = keep(
      node_random(&g, PRIM_UNIFORM, key, DT_F32, 1, (int64_t[]){4}, 0, &fault));
  Node *x = close1(add(u, convert(index_of(v), DT_F32)), v);
  CHECK_EACH(x, SHAPE(2, 4), i,
             (float)(prng_uniform(key, (uint64_t)i[1], DT_F32) + (double)i[0]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_integer_arithmetic),
      TEST(test_float_arithmetic),
      TEST(test_map_rows),
      TEST(test_convert),
      TEST(test_fold),
      TEST(test_broadcast_matrix),
      TEST(test_map_messages),
      TEST(test_reductions),
      TEST(test_reduction_details),
      TEST(test_matmul),
      TEST(test_batched_matmul),
      TEST(test_einsum),
      TEST(test_reshape),
      TEST(test_permute),
      TEST(test_broadcast_to),
      TEST(test_concat),
      TEST(test_stack),
      TEST(test_along_axis),
      TEST(test_squeeze),
      TEST(test_items),
      TEST(test_gather),
      TEST(test_make),
      TEST(test_random),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
