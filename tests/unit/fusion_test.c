/* Tests how graphs run: `for`, guards, fusion against materializing every node,
 * opaque nodes, interrupts, lack of memory. */
#include "tests/unit/tensors.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/mem_inject.h"

/* ---- for ---- */

static void test_close(void **state) {
  (void)state;
  IndexVar *i = var(3), *j = var(4), *unused = var(2);
  Node *x = add(mul(index_of(i), integer(10)), index_of(j));
  CHECK_EACH(close2(x, i, j), SHAPE(3, 4), at_, at_[0] * 10 + at_[1]);
  CHECK_EACH(close2(x, j, i), SHAPE(4, 3), at_, at_[1] * 10 + at_[0]);
  CHECK_EACH(close1(close1(x, j), i), SHAPE(3, 4), at_, at_[0] * 10 + at_[1]);
  CHECK_EACH(close1(numbers(SHAPE(2)), unused), SHAPE(2, 2), at_, at_[1]);
  IndexVar *none = var(0);
  CHECK_EACH(close1(add(index_of(none), integer(1)), none), SHAPE(0), at_,
             at_[0]);
}

/* for i j => sum (for a < 3, b < 3 => w.[a, b] * x.[i + a, j + b]) */
static Node *convolution(Node *x, Node *w, int64_t n) {
  IndexVar *i = var(n - 2), *j = var(n - 2), *a = var(3), *b = var(3);
  Node *ia = add(index_of(i), index_of(a)), *jb = add(index_of(j), index_of(b));
  Node *product = mul(get2(w, index_of(a), index_of(b)), get2(x, ia, jb));
  Node *sum = reduce(PRIM_SUM, close2(product, a, b), 0, 2, false);
  return close2(sum, i, j);
}

static void test_convolution(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(7, 7)), *w = data(DT_I64, SHAPE(3, 3));
  node_retain(x), node_retain(w);
  Node *c = convolution(x, w, 7);
  release_all_but(c);
  keep(x), keep(w);
  must_force(c);
  assert_int_equal(g.executed_nodes, 1); /* products and sums run once */
  for (int64_t i = 0; i < 5; i++)
    for (int64_t j = 0; j < 5; j++) {
      double sum = 0;
      for (int64_t a = 0; a < 3; a++)
        for (int64_t b = 0; b < 3; b++)
          sum += element_at(w, a * 3 + b) * (double)((i + a) * 7 + j + b);
      assert_true(element_at(c, i * 5 + j) == sum);
    }
}

static double alive(int64_t i) {
  return i * i % 3 == 1 || i % 7 == 2;
}

static void test_life(void **state) {
  (void)state;
  enum { N = 6 };
  Node *x = data_with(DT_I64, SHAPE(N, N), alive);
  IndexVar *i = var(N), *j = var(N), *a = var(3), *b = var(3);
  Node *row = op2(PRIM_MOD, add(add(index_of(i), index_of(a)), integer(-1)),
                  integer(N));
  Node *column = op2(PRIM_MOD, add(add(index_of(j), index_of(b)), integer(-1)),
                     integer(N));
  Node *here = get2(x, index_of(i), index_of(j));
  Node *sum = reduce(PRIM_SUM, close2(get2(x, row, column), a, b), 0, 2, false);
  Node *n = op2(PRIM_SUB, sum, here);
  Node *two = keep(node_select_lazy(&g, op2(PRIM_EQ, n, integer(2)),
                                    op2(PRIM_EQ, here, integer(1)),
                                    constant(DT_BOOL, 0), &fault));
  Node *lives = keep(node_select_lazy(&g, op2(PRIM_EQ, n, integer(3)),
                                      constant(DT_BOOL, 1), two, &fault));
  Node *next = close2(
      keep(node_select_lazy(&g, lives, integer(1), integer(0), &fault)), i, j);
  must_force(next);
  for (int64_t r = 0; r < N; r++)
    for (int64_t c = 0; c < N; c++) {
      double around = -element_at(x, r * N + c);
      for (int64_t p = -1; p <= 1; p++)
        for (int64_t q = -1; q <= 1; q++)
          around += element_at(x, (r + p + N) % N * N + (c + q + N) % N);
      bool want = around == 3 || (around == 2 && element_at(x, r * N + c) == 1);
      assert_true(element_at(next, r * N + c) == want);
    }
}

static void test_free_matmul(void **state) {
  (void)state;
  IndexVar *i = var(5), *j = var(3);
  Node *a = numbers(SHAPE(5, 4)), *b = numbers(SHAPE(4, 3));
  Subscript row[2] = {item_at(index_of(i)), item_range(0, 4)};
  Subscript column[2] = {item_range(0, 4), item_at(index_of(j))};
  Node *d =
      keep(node_dot(&g, keep(node_subscript(&g, a, 2, row, &fault)),
                    keep(node_subscript(&g, b, 2, column, &fault)), &fault));
  Node *want = keep(node_matmul(&g, a, b, &fault));
  must_force(want);
  CHECK_EACH(close2(d, i, j), SHAPE(5, 3), at_,
             element_at(want, ravel(SHAPE(5, 3), at_)));
}

/* An index that a reduction hides: for i => sum (for j < 4 => x.[i] * j) + i,
 * and a value that does not mention i is made once. */
static void test_mixed_free(void **state) {
  (void)state;
  IndexVar *i = var(6), *j = var(4);
  Node *x = numbers(SHAPE(6)), *once = reduce(PRIM_SUM, x, 0, 1, false);
  Node *inner = mul(get1(x, index_of(i)), index_of(j));
  Node *sum = reduce(PRIM_SUM, close1(inner, j), 0, 1, false);
  assert_int_equal(once->free_count, 0);
  assert_int_equal(sum->free_count, 1);
  CHECK_EACH(close1(add(add(sum, index_of(i)), once), i), SHAPE(6), at_,
             6 * at_[0] + at_[0] + 15);
}

static void test_index_fault(void **state) {
  (void)state;
  IndexVar *i = var(4);
  g.span = (Span){1, 20, 30};
  Node *bad = get1(numbers(SHAPE(4)), add(index_of(i), integer(1)));
  g.span = (Span){1, 5, 40};
  Node *n = close1(bad, i);
  must_fault(n, "index 4 is out of bounds for axis 0 of size 4");
  assert_int_equal(where.start, 20);
  must_fault(n,
             "index 4 is out of bounds for axis 0 of size 4"); /* the error is
                                                                  stored */
}

/* ---- guards ---- */

/* for i => if i > 0 then f x.[i - 1] else -5, where f is more or less */
static Node *guarded(Node *x, IndexVar *i, bool stored) {
  Node *c = op2(PRIM_GT, index_of(i), integer(0));
  g.guard = c;
  Node *before = get1(x, op2(PRIM_SUB, index_of(i), integer(1)));
  if (stored) { /* a reduction: sum (for k < 3 => x.[i - 1] * k) */
    IndexVar *k = var(3);
    before = reduce(PRIM_SUM, close1(mul(before, index_of(k)), k), 0, 1, false);
  }
  g.guard = NULL;
  Node *n = keep(node_select_lazy(&g, c, before, integer(-5), &fault));
  return close1(n, i);
}

static void test_guards(void **state) {
  (void)state;
  for (FuseMode mode = FUSE_COST; mode <= FUSE_ALL; mode++) {
    g.fuse_mode = mode;
    Node *x = numbers(SHAPE(5));
    CHECK_EACH(guarded(x, var(5), false), SHAPE(5), i, i[0] ? i[0] - 1 : -5);
    CHECK_EACH(guarded(x, var(5), true), SHAPE(5), i,
               i[0] ? 3 * (i[0] - 1) : -5);
    release_kept();
  }
}

static void test_guarded_opaque(void **state) {
  (void)state;
  IndexVar *i = var(3);
  Node *x = numbers(SHAPE(3, 4));
  Node *c = op2(PRIM_GT, index_of(i), integer(0));
  g.guard = c;
  Subscript items[2] = {item_at(op2(PRIM_SUB, index_of(i), integer(1))),
                        item_range(0, 4)};
  Node *row = keep(node_subscript(&g, x, 2, items, &fault));
  Node *sums = keep(node_opaque(&g, PRIM_CUMSUM, 1, &row, (int64_t[4]){0},
                                (PrngKey){{0}}, 0, &fault));
  g.guard = NULL;
  Node *zeros = keep(
      node_full(&g, (Scalar){.dtype = DT_I64}, 1, (int64_t[]){4}, 0, &fault));
  Node *n = close1(keep(node_select_lazy(&g, c, sums, zeros, &fault)), i);
  static const int64_t want[3][4] = {
      {0, 0, 0, 0}, {0, 1, 3, 6}, {4, 9, 15, 22}};
  CHECK_EACH(n, SHAPE(3, 4), j, want[j[0]][j[1]]);
}

/* Guards over indices on which a node does not depend. */
static void test_foreign_guards(void **state) {
  (void)state;
  IndexVar *i = var(3), *j = var(4), *k = var(2);
  Node *x = numbers(SHAPE(4));
  Node *ci = op2(PRIM_GT, index_of(i), integer(1));
  Node *cj = op2(PRIM_GT, index_of(j), integer(0));
  Node *both = op2(PRIM_AND, ci, cj);
  g.guard = both;
  Node *e = get1(x, op2(PRIM_SUB, index_of(j), integer(1)));
  Node *sum = reduce(PRIM_SUM, close1(add(e, index_of(k)), k), 0, 1, false);
  assert_int_equal(sum->guard->free_count, 1);
  g.guard = NULL;
  Node *n = keep(node_select_lazy(&g, both, sum, integer(-1), &fault));
  CHECK_EACH(close2(n, i, j), SHAPE(3, 4), at_,
             at_[0] > 1 && at_[1] > 0 ? 2 * (at_[1] - 1) + 1 : -1);
  Node *mix = op2(PRIM_GT, add(index_of(i), index_of(j)), integer(4));
  g.guard = mix; /* true for j == 3 only, at i == 2 */
  e = get1(x, op2(PRIM_SUB, index_of(j), integer(3)));
  sum = reduce(PRIM_SUM, close1(add(e, index_of(k)), k), 0, 1, false);
  assert_non_null(sum->guard);
  g.guard = NULL;
  n = keep(node_select_lazy(&g, mix, sum, integer(-1), &fault));
  CHECK_EACH(close2(n, i, j), SHAPE(3, 4), at_, at_[0] + at_[1] > 4 ? 1 : -1);
}

/* A node without any index of the guard's: for i < 3 => if i > 5 then
 * sum y.[x] else 0, where x has nothing but bad indices. */
static void test_never_needed(void **state) {
  (void)state;
  for (FuseMode mode = FUSE_COST; mode <= FUSE_ALL; mode++) {
    g.fuse_mode = mode;
    IndexVar *i = var(3);
    Node *x = op1(PRIM_NEG, add(numbers(SHAPE(4)), integer(1)));
    Node *c = op2(PRIM_GT, index_of(i), integer(5));
    g.guard = c;
    Node *sum =
        reduce(PRIM_SUM, keep(node_gather(&g, numbers(SHAPE(5)), x, &fault)), 0,
               1, false);
    g.guard = NULL;
    CHECK_EACH(
        close1(keep(node_select_lazy(&g, c, sum, integer(8), &fault)), i),
        SHAPE(3), at_, 8);
    release_kept();
  }
}

static void test_lazy_division(void **state) {
  (void)state;
  IndexVar *i = var(4);
  Node *c = op2(PRIM_NE, index_of(i), integer(0));
  g.guard = c;
  Node *q = op2(PRIM_DIV, integer(12), index_of(i));
  Node *bad = op2(PRIM_DIV, integer(1), integer(0)); /* never needed */
  g.guard = NULL;
  Node *never = op2(PRIM_LT, index_of(i), integer(-1));
  Node *rest = keep(node_select_lazy(&g, never, bad, integer(-1), &fault));
  Node *n = keep(node_select_lazy(&g, c, q, rest, &fault));
  CHECK_EACH(close1(n, i), SHAPE(4), at_, at_[0] ? 12 / at_[0] : -1);
  must_fail_to_build(
      node_select_lazy(&g, c, numbers(SHAPE(2)), numbers(SHAPE(3)), &fault),
      "the branches of `if` have different shapes: i64[2] and i64[3]");
}

/* The same read in two exclusive branches, and after them. */
static void test_shared_lazy(void **state) {
  (void)state;
  IndexVar *i = var(6);
  Node *x = numbers(SHAPE(5));
  Node *before = get1(x, op2(PRIM_SUB, index_of(i), integer(1)));
  Node *one = op2(PRIM_EQ, index_of(i), integer(1));
  Node *many = op2(PRIM_GT, index_of(i), integer(1));
  Node *last = keep(
      node_select_lazy(&g, many, mul(before, integer(2)), integer(-7), &fault));
  Node *n = keep(node_select_lazy(&g, one, before, last, &fault));
  CHECK_EACH(close1(n, i), SHAPE(6), at_,
             at_[0] == 1  ? 0
             : at_[0] > 1 ? 2 * (at_[0] - 1)
                          : -7);
}

/* ---- opaque nodes ---- */

static Node *opaque1(PrimId op, Node *x, int64_t param, uint32_t output) {
  return keep(node_opaque(&g, op, 1, &x, (int64_t[4]){param}, (PrngKey){{0}},
                          output, &fault));
}

static double repeating(int64_t i) {
  return i == 4 ? NAN : (double)(i * 5 % 4) - 1.5;
}

static void test_sort(void **state) {
  (void)state;
  Node *x = data_with(DT_F32, SHAPE(3, 7), repeating);
  for (uint32_t axis = 0; axis < 2; axis++) {
    Node *s = opaque1(PRIM_SORT, x, axis, 0);
    Node *o = opaque1(PRIM_ARGSORT, x, axis, 0);
    must_force(s), must_force(o);
    int64_t lines = axis ? 3 : 7, n = axis ? 7 : 3, step = axis ? 1 : 7;
    for (int64_t line = 0; line < lines; line++) {
      int64_t first = axis ? line * 7 : line;
      for (int64_t k = 0; k < n; k++) {
        int64_t from = (int64_t)element_at(o, first + k * step);
        double v = element_at(s, first + k * step);
        assert_true(same_value(v, element_at(x, first + from * step)));
        if (k == 0)
          continue;
        double before = element_at(s, first + (k - 1) * step);
        assert_true(before <= v || isnan(v));
        if (before == v) /* stable */
          assert_true(element_at(o, first + (k - 1) * step) < (double)from);
      }
    }
  }
  must_force(opaque1(PRIM_SORT, numbers(SHAPE(0, 3)), 0, 0));
  must_fail_to_build(node_opaque(&g, PRIM_SORT, 1, &x, (int64_t[4]){2},
                                 (PrngKey){{0}}, 0, &fault),
                     "sort along axis 2, but f32[3, 7] has 2");
}

static void test_topk(void **state) {
  (void)state;
  Node *x = data(DT_I32, SHAPE(2, 6)); /* -4 3 -1 6 2 -2, 5 1 -3 4 0 -4 */
  static const int64_t best[] = {6, 3, 5, 4}, from[] = {3, 1, 0, 3};
  CHECK_EACH(opaque1(PRIM_TOPK, x, 2, 0), SHAPE(2, 2), i, best[i_]);
  CHECK_EACH(opaque1(PRIM_TOPK, x, 2, 1), SHAPE(2, 2), i, from[i_]);
  assert_null(node_opaque(&g, PRIM_TOPK, 1, &x, (int64_t[4]){7}, (PrngKey){{0}},
                          0, &fault));
}

static void test_cumsum_scatter(void **state) {
  (void)state;
  Node *x = numbers(SHAPE(3, 4));
  CHECK_EACH(opaque1(PRIM_CUMSUM, x, 0, 0), SHAPE(3, 4), i,
             i[1] * (i[0] + 1) + 2 * i[0] * (i[0] + 1));
  CHECK_EACH(opaque1(PRIM_CUMSUM, x, 1, 0), SHAPE(3, 4), i,
             4 * i[0] * (i[1] + 1) + i[1] * (i[1] + 1) / 2);
  Node *index = op2(PRIM_MOD, numbers(SHAPE(5)), integer(3));
  Node *rows = numbers(SHAPE(5, 4));
  Node *in[3] = {x, index, rows};
  int64_t no[4] = {0};
  CHECK_EACH(
      keep(node_opaque(&g, PRIM_SCATTER, 3, in, no, (PrngKey){{0}}, 0, &fault)),
      SHAPE(3, 4), i,
      i_ + (i[0] * 4 + i[1]) + (i[0] < 2 ? (i[0] + 3) * 4 + i[1] : 0));
  in[1] = add(index, integer(1));
  must_fault(
      keep(node_opaque(&g, PRIM_SCATTER, 3, in, no, (PrngKey){{0}}, 0, &fault)),
      "index 3 is out of bounds for axis 0 of size 3");
}

static void test_permutation(void **state) {
  (void)state;
  bool seen[50] = {false};
  Node *p = keep(node_opaque(&g, PRIM_PERMUTATION, 0, NULL, (int64_t[4]){50},
                             prng_key_from_seed(3), 0, &fault));
  must_force(p);
  for (int64_t i = 0; i < 50; i++)
    seen[(int64_t)element_at(p, i)] = true;
  for (int64_t i = 0; i < 50; i++)
    assert_true(seen[i]);
}

static void test_data_sizes(void **state) {
  (void)state;
  Node *x = data(DT_I32, SHAPE(14)), *none = numbers(SHAPE(0));
  Node *sorted = keep(node_opaque(&g, PRIM_SORT, 1, &x, (int64_t[4]){0},
                                  (PrngKey){{0}}, 0, &fault));
  must_force(sorted);
  Tensor *starts = tensor_run_starts(sorted->data, &fault), *z;
  Tensor *u = tensor_take_rows(sorted->data, starts, &fault);
  tensor_release(starts);
  assert_int_equal(u->count, 11);
  for (int64_t i = 0; i < 11; i++)
    assert_true(value_of(scalar_load(DT_I32, tensor_at(u, i))) ==
                (double)(i - 4));
  Node *rows = data_with(DT_BOOL, SHAPE(4),
                         mixed_values); /* `all` of no elements is true */
  z = tensor_nonzero(rows->data, &fault);
  assert_int_equal(z->count, 4);
  Node *table = numbers(SHAPE(5, 2));
  Tensor *taken = tensor_take_rows(table->data, z, &fault);
  assert_int_equal(taken->count, 8);
  assert_int_equal(((int64_t *)taken->data)[7], 7);
  tensor_release(taken), tensor_release(u), tensor_release(z);
  u = tensor_run_starts(none->data, &fault);
  assert_int_equal(u->count, 0);
  tensor_release(u);
}

static void test_free_sort(void **state) {
  (void)state;
  IndexVar *i = var(3);
  Node *x = numbers(SHAPE(4));
  Node *transposed = op2(PRIM_MOD, add(x, index_of(i)), integer(4));
  Node *sorted = opaque1(PRIM_SORT, transposed, 0, 0);
  Node *order = opaque1(PRIM_ARGSORT, transposed, 0, 0);
  CHECK_EACH(close1(sorted, i), SHAPE(3, 4), j, j[1]);
  CHECK_EACH(close1(order, i), SHAPE(3, 4), j, int_floor_mod(j[1] - j[0], 4));
}

/* ---- running ---- */

static void test_deep_chain(void **state) {
  (void)state;
  Node *one = constant(DT_F32, 1), *x = node_retain(numbers(SHAPE(3)));
  Node *y = node_map(&g, PRIM_CONVERT, 1, &x, DT_F32, &fault);
  node_release(x);
  for (uint32_t k = 0; k < 100000; k++) {
    Node *z = node_map(&g, PRIM_ADD, 2, (Node *[]){y, one}, DT_NONE, &fault);
    node_release(y);
    y = z;
  }
  must_force(keep(y));
  assert_true(element_at(y, 2) == 100002);
  assert_true(g.executed_nodes < 2000);
  x = node_retain(numbers(SHAPE(3))); /* dropped without being run */
  for (uint32_t k = 0; k < 100000; k++) {
    Node *z = node_map(&g, PRIM_NEG, 1, &x, DT_NONE, &fault);
    node_release(x);
    x = z;
  }
  node_release(x);
}

/* z = z * z + c, with every value used several times: 2^50 if recomputed. */
static void test_shared_chain(void **state) {
  (void)state;
  for (FuseMode mode = FUSE_COST; mode <= FUSE_ALL; mode++) {
    g.fuse_mode = mode;
    Node *c = mul(convert(numbers(SHAPE(64)), DT_F32), constant(DT_F32, 0.01));
    Node *re = c, *im = op1(PRIM_NEG, c);
    for (uint32_t k = 0; k < 50; k++) {
      Node *r2 = mul(re, re), *i2 = mul(im, im), *both = mul(re, im);
      re = op2(PRIM_MAXIMUM, constant(DT_F32, -2),
               op2(PRIM_MINIMUM, constant(DT_F32, 2),
                   add(op2(PRIM_SUB, r2, i2), c)));
      im = op2(PRIM_MINIMUM, constant(DT_F32, 2), add(add(both, both), c));
    }
    clock_t start = clock();
    must_force(re);
    assert_true(clock() - start < CLOCKS_PER_SEC);
    for (int64_t n = 0; n < 64; n++) {
      float v = (float)n * 0.01f, x = v, y = -v;
      for (uint32_t k = 0; k < 50; k++) {
        float p = x * y, q = x * x - y * y + v;
        y = p + p + v > 2 ? 2 : p + p + v;
        x = q > 2 ? 2 : q < -2 ? -2 : q;
      }
      assert_true((float)element_at(re, n) == x);
    }
    release_kept();
  }
}

/* x' = x + shift x; each level reads the one below twice, at different indices.
 * It must not be recomputed 2^k times. */
static void test_stencil_chain(void **state) {
  (void)state;
  Node *x = data_with(DT_I64, SHAPE(101), ones);
  for (uint32_t k = 0; k < 60; k++)
    x = add(x, keep(node_roll(&g, x, 0, (int64_t)k * k + 1, &fault)));
  clock_t start = clock();
  must_force(x);
  assert_true(clock() - start < CLOCKS_PER_SEC);
  CHECK_EACH(x, SHAPE(101), i, (double)((int64_t)1 << 60));
}

/* A value of a variable is computed once, even if it is read again later.  A
 * view of it is not stored. */
static void test_held_values(void **state) {
  (void)state;
  Node *x = data(DT_F32, SHAPE(8, 8));
  Node *y = op1(PRIM_EXP, x);
  Node *z = keep(node_permute(&g, y, (uint32_t[]){1, 0}, &fault));
  must_force(reduce(PRIM_SUM, z, 0, 2, false));
  assert_int_equal(g.executed_nodes, 2);
  assert_non_null(y->data);
  assert_null(z->data);
  must_force(reduce(PRIM_MAX, z, 0, 2, false));
  assert_int_equal(g.executed_nodes, 3);
  Node *product = node_matmul(&g, x, x, &fault);
  Node *shifted = add(product, constant(DT_F32, 1));
  node_release(product);
  must_force(get2(shifted, integer(1), integer(2)));
  assert_non_null(shifted->data);
}

static void test_flat_memory(void **state) {
  (void)state;
  Node *x = node_retain(data(DT_F32, SHAPE(100)));
  size_t first = 0;
  for (uint32_t k = 0; k < 3000; k++) {
    Node *s = node_reduce(&g, PRIM_SUM, x, 0, 1, true, &fault);
    Node *p = node_map(&g, PRIM_DIV, 2, (Node *[]){x, s}, DT_NONE, &fault);
    node_release(s);
    node_release(x);
    x = p;
    must_force(x);
    if (k == 100)
      first = mallinfo2().uordblks;
  }
  assert_true(ADDRESS_SANITIZER || mallinfo2().uordblks < first + 4096);
  assert_int_equal(x->body_op_count, 0);
  node_release(x);
}

static void test_memory_limit(void **state) {
  (void)state;
  g.max_tensor_bytes = 1 << 20;
  Node *x = keep(
      node_full(&g, num(DT_F32, 0), 2, (int64_t[]){100000, 100000}, 0, &fault));
  must_fault(x, "f32[100000, 100000] needs 37.3 GiB of memory");
  CHECK_EACH(reduce(PRIM_SUM,
                    keep(node_full(&g, num(DT_I64, 1), 2,
                                   (int64_t[]){3000, 1000}, 0, &fault)),
                    0, 2, false),
             scalar_shape, i, 3000000); /* never stored */
}

static void test_interrupt(void **state) {
  (void)state;
  Flag stop = true;
  g.interrupt = &stop;
  Node *x = keep(
      node_full(&g, num(DT_F32, 1), 2, (int64_t[]){3000, 1000}, 0, &fault));
  Node *n = reduce(PRIM_SUM, op1(PRIM_EXP, x), 0, 2, false);
  Trap inner;
  FailKind kind = TRAP_SET(inner);
  if (kind == FAIL_NONE) {
    must_force(n);
    fail_msg("not interrupted");
  }
  assert_int_equal(inner.kind, FAIL_INTERRUPT);
  stop = false;
  g.interrupt = NULL;
  must_force(n); /* it can be run afterwards */
}

static double oom_result;

static void oom_program(void) {
  Tensor *t = tensor_new(DT_F32, 1, (int64_t[]){50}, true, &fault);
  if (!t)
    return;
  Node *nodes[8] = {NULL};
  Trap inner;
  if (TRAP_SET(inner) == FAIL_NONE) {
    nodes[0] = node_data(&g, t);
    nodes[1] = node_map(&g, PRIM_EXP, 1, nodes, DT_NONE, &fault);
    nodes[2] = node_reduce(&g, PRIM_SUM, nodes[1], 0, 1, true, &fault);
    nodes[3] = node_map(&g, PRIM_DIV, 2, nodes + 1, DT_NONE, &fault);
    nodes[4] = node_stack(&g, 3, nodes + 1 - 1 + 0, &fault);
    nodes[5] = node_concat(&g, 0, 2, (Node *[]){nodes[1], nodes[3]}, &fault);
    nodes[6] = node_opaque(&g, PRIM_SORT, 1, nodes + 5, (int64_t[4]){0},
                           (PrngKey){{0}}, 0, &fault);
    if (graph_force(&g, 1, nodes + 6, &where, &fault))
      oom_result = element_at(nodes[6], 99);
    trap_end(&inner);
  }
  for (uint32_t k = 0; k < 8; k++)
    node_release(nodes[k]);
  tensor_release(t);
}

static void test_out_of_memory(void **state) {
  (void)state;
  oom_result = 0;
  for (uint64_t n = 1; n < 3000 && oom_result == 0; n++) {
    mem_inject_failure_at(n);
    oom_program();
  }
  mem_inject_failure_at(0);
  assert_true(oom_result == 1);
}

static void test_print(void **state) {
  (void)state;
  Node *x = data(DT_F32, SHAPE(4, 5)), *y = data(DT_F32, SHAPE(5, 3));
  Node *n = keep(node_matmul(&g, x, y, &fault));
  Buffer out = {0};
  graph_print(&g, &out, 1, &n);
  assert_string_equal(out.text,
                      "%0 f32[4, 5] = data\n%1 f32[5, 3] = data\n"
                      "%2 f32[4, 3] = sum[r0 < 5] %0[i0, r0] * %1[r0, i1]\n");
  buffer_free(&out);
  assert_true(graph_verify(1, &n, &out));
  n->body_ops[n->body_op_count - 1].args[0] =
      n->body_op_count; /* an op that reads itself */
  assert_false(graph_verify(1, &n, &out));
  assert_string_equal(out.text, "node %2: a cell needs a later one");
  n->body_ops[n->body_op_count - 1].args[0] = 0;
  buffer_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_close),          TEST(test_convolution),
      TEST(test_life),           TEST(test_free_matmul),
      TEST(test_mixed_free),     TEST(test_index_fault),
      TEST(test_guards),         TEST(test_guarded_opaque),
      TEST(test_foreign_guards), TEST(test_never_needed),
      TEST(test_lazy_division),  TEST(test_shared_lazy),
      TEST(test_sort),           TEST(test_topk),
      TEST(test_cumsum_scatter), TEST(test_permutation),
      TEST(test_data_sizes),     TEST(test_free_sort),
      TEST(test_deep_chain),     TEST(test_shared_chain),
      TEST(test_stencil_chain),  TEST(test_held_values),
      TEST(test_flat_memory),    TEST(test_memory_limit),
      TEST(test_interrupt),      TEST(test_out_of_memory),
      TEST(test_print),
  };
  /* of another backend: tests/check_cpu.sh; there, fusion may change what is
   * added up first */
  const struct CMUnitTest compiled[] = {
      TEST(test_out_of_memory),  TEST(test_close),
      TEST(test_convolution),    TEST(test_life),
      TEST(test_free_matmul),    TEST(test_mixed_free),
      TEST(test_index_fault),    TEST(test_guards),
      TEST(test_guarded_opaque), TEST(test_foreign_guards),
      TEST(test_never_needed),   TEST(test_lazy_division),
      TEST(test_shared_lazy),    TEST(test_interrupt),
      TEST(test_shared_chain),   TEST(test_stencil_chain),
      TEST(test_deep_chain),
  };
  return getenv("AXON_TARGET") ? cmocka_run_group_tests(compiled, NULL, NULL)
                               : cmocka_run_group_tests(tests, NULL, NULL);
}
