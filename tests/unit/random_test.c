/* Tests random graphs, run in three ways, and random expressions with
 * conditions against a simple evaluator. */
#include "tests/unit/tensors.h"

/* ---- random graphs: three ways to run them agree to the bit ---- */

static uint64_t seed;

static uint32_t pick(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}

/* x at rows [2 * k % rows], as a range or a gather. */
static Node *random_rows(Node *x) {
  int64_t rows = x->rank ? x->extents[x->free_count] : 0;
  if (rows == 0)
    return NULL;
  if (pick(2)) {
    Subscript items[MAX_RANK];
    for (uint32_t k = 0; k < x->rank; k++)
      items[k] = item_range(0, x->extents[x->free_count + k]);
    items[0] = item_range(pick(2) % rows, rows);
    return node_subscript(&g, x, x->rank, items, &fault);
  }
  Node *k = node_iota(&g, DT_I64, rows + 1, &fault);
  Node *two = node_map(&g, PRIM_ADD, 2, (Node *[]){k, k}, DT_NONE, &fault);
  Node *size = node_scalar(&g, (Scalar){.dtype = DT_I64, .i = rows});
  Node *at_rows =
      node_map(&g, PRIM_MOD, 2, (Node *[]){two, size}, DT_NONE, &fault);
  Node *n = node_gather(&g, x, at_rows, &fault);
  node_release(k), node_release(two), node_release(size);
  node_release(at_rows);
  return n;
}

static Node *random_step(Node **pool, uint32_t count, IndexVar *i) {
  Node *x = pool[pick(count)], *y = pool[pick(count)];
  Node *n = NULL;
  uint32_t axis = x->rank ? pick(x->rank) : 0;
  static const PrimId ops[] = {PRIM_ADD, PRIM_SUB, PRIM_MUL, PRIM_MAXIMUM};
  switch (pick(20)) {
  case 0:
  case 1:
  case 2:
    n = node_map(&g, ops[pick(4)], 2, (Node *[]){x, y}, DT_NONE, &fault);
    break;
  case 3:
    n = node_map(&g, PRIM_TANH, 1, &x, DT_NONE, &fault);
    break;
  case 4:
    if (x->rank)
      n = node_reduce(&g, pick(2) ? PRIM_SUM : PRIM_MAX, x, axis, 1, pick(2),
                      &fault);
    break;
  case 5:
    n = x->rank == 2 ? node_permute(&g, x, (uint32_t[]){1, 0}, &fault) : NULL;
    break;
  case 6:
    n = node_roll(&g, x, axis, pick(5), &fault);
    break;
  case 7:
    n = node_reverse(&g, x, axis, &fault);
    break;
  case 8:
    n = node_reshape(&g, x, 1, (int64_t[]){-1}, 0, &fault);
    break;
  case 9:
    n = node_concat(&g, axis, 2, (Node *[]){x, y}, &fault);
    break;
  case 10:
    n = node_matmul(&g, x, y, &fault);
    break;
  case 11: {
    Node *at_i = node_index(&g, i);
    Node *f = node_map(&g, PRIM_CONVERT, 1, &at_i, DT_F32, &fault);
    n = node_map(&g, PRIM_ADD, 2, (Node *[]){x, f}, DT_NONE, &fault);
    node_release(f), node_release(at_i);
    break;
  }
  case 12:
    n = node_close(&g, x, 1, &i, &fault);
    break;
  case 13:
    n = node_pad(&g, x, axis, pick(3), pick(3), num(DT_F32, 0.5), &fault);
    break;
  case 14:
    n = node_tile(&g, x, axis, 2, pick(2), &fault);
    break;
  case 15:
    n = node_triangle(&g, x, pick(2), &fault);
    break;
  case 16:
    n = node_opaque(&g, pick(2) ? PRIM_CUMSUM : PRIM_SORT, 1, &x,
                    (int64_t[4]){axis}, (PrngKey){{0}}, 0, &fault);
    break;
  case 17:
    n = random_rows(x);
    break;
  case 18: {
    Node *c = node_map(&g, PRIM_LT, 2, (Node *[]){x, y}, DT_NONE, &fault);
    if (c)
      n = node_map(&g, PRIM_SELECT, 3, (Node *[]){c, y, x}, DT_NONE, &fault);
    node_release(c);
    break;
  }
  case 19: { /* to f16 and back */
    Node *h = node_map(&g, PRIM_CONVERT, 1, &x, DT_F16, &fault);
    Node *twice = node_map(&g, PRIM_ADD, 2, (Node *[]){h, h}, DT_NONE, &fault);
    n = node_map(&g, PRIM_CONVERT, 1, &twice, DT_F32, &fault);
    node_release(h), node_release(twice);
    break;
  }
  }
  if (n && node_element_count(n) > 4000) {
    node_release(n);
    n = NULL;
  }
  return n;
}

static Node *random_graph(uint64_t start, IndexVar *i, bool hold) {
  Node *pool[48];
  uint32_t count = 0, first;
  seed = start;
  pool[count++] = node_retain(data(DT_F32, SHAPE(3, 4)));
  pool[count++] = node_retain(data(DT_F32, SHAPE(4, 3)));
  pool[count++] = node_retain(data(DT_F32, SHAPE(4)));
  pool[count++] = node_retain(data(DT_F32, scalar_shape));
  first = count;
  for (uint32_t k = 0; k < 120 && count < ARRAY_LEN(pool); k++) {
    Node *n = random_step(pool, count, i);
    if (n)
      pool[count++] = n;
  }
  Node *result = node_close(&g, pool[count - 1], 1, &i, &fault);
  for (uint32_t k = 0; k < count; k++)
    if (hold && k >= first && k % 3 == 0)
      keep(pool[k]);
    else
      node_release(pool[k]);
  return result ? keep(result) : NULL;
}

static void test_random_graphs(void **state) {
  (void)state;
  uint32_t compared = 0;
  uint64_t stored[3] = {0};
  for (uint64_t start = 1; start <= 400; start++) {
    IndexVar *i = index_var_new(3, NULL);
    Node *n[3];
    for (uint32_t mode = 0; mode < 3; mode++) {
      g.fuse_mode = (FuseMode)mode;
      g.executed_nodes = 0;
      n[mode] = random_graph(start, i, mode == 0 && start % 2);
      if (!n[mode])
        break;
      must_force(n[mode]);
      stored[mode] += g.executed_nodes;
      const Tensor *t = n[mode]->data;
      if (mode && memcmp(t->data, n[0]->data->data, (size_t)t->count * 4))
        fail_msg("graph %d differs in mode %u", (int)start, mode);
      compared += mode;
    }
    release_kept();
    index_var_release(i);
  }
  assert_true(compared > 600);
  assert_true(stored[FUSE_COST] < stored[FUSE_NONE]);
}

/* ---- random expressions with conditions, against a plain evaluator ---- */

/* An expression of i < 3, j < 4 and the innermost bound k < 2: a node, and its
 * 24 values.  Values at inactive points are undefined. */
enum { POINTS = 24 };
typedef struct Expr {
  Node *node;
  int64_t at[POINTS];
} Expr;

typedef struct Scope {
  IndexVar *i, *j, *k;
  Node *outer; /* the guard, or NULL */
  bool active[POINTS];
  Node *table; /* 7 elements */
} Scope;

static int64_t table_value(int64_t i) {
  return i * 5 % 13 - 3;
}
static double table_double(int64_t i) {
  return (double)table_value(i);
}

static Expr expression(const Scope *s, uint32_t depth);

static Expr leaf(const Scope *s) {
  Expr e;
  uint32_t what = pick(4);
  int64_t c = (int64_t)pick(9) - 3;
  IndexVar *v = what == 0 ? s->i : what == 1 ? s->j : what == 2 ? s->k : NULL;
  e.node = v ? index_of(v) : integer(c);
  for (int64_t p = 0; p < POINTS; p++)
    e.at[p] = what == 0 ? p / 8 : what == 1 ? p / 2 % 4 : what == 2 ? p % 2 : c;
  return e;
}

static Expr binary(const Scope *s, PrimId op, Expr x, Expr y) {
  Expr e = {.node = op2(op, x.node, y.node)};
  for (uint32_t p = 0; p < POINTS; p++)
    if (s->active[p]) {
      Scalar args[2] = {{.dtype = DT_I64, .i = x.at[p]},
                        {.dtype = DT_I64, .i = y.at[p]}},
             out;
      assert_int_equal(scalar_apply(op, 2, args, e.node->dtype, &out),
                       ARITH_OK);
      e.at[p] = out.i;
    }
  return e;
}

static Expr literal(int64_t x) {
  Expr e = {.node = integer(x)};
  for (uint32_t p = 0; p < POINTS; p++)
    e.at[p] = x;
  return e;
}

/* Like the evaluator: outer && cond, or outer && not cond. */
static Node *side_guard(const Scope *s, Node *cond, bool side) {
  g.guard = s->outer;
  Node *is = side ? cond : op1(PRIM_NOT, cond);
  if (s->outer)
    is = keep(node_select_lazy(&g, s->outer, is, constant(DT_BOOL, 0), &fault));
  return is;
}

typedef Expr Side(const Scope *s, uint32_t depth, Expr given);

static Expr any_side(const Scope *s, uint32_t depth, Expr given) {
  (void)given;
  return expression(s, depth);
}

static Expr read_side(const Scope *s, uint32_t depth, Expr given) {
  (void)depth;
  Expr e = {.node = get1(s->table, given.node)};
  for (uint32_t p = 0; p < POINTS; p++)
    if (s->active[p])
      e.at[p] = table_value(given.at[p]);
  return e;
}

static Expr divide_side(const Scope *s, uint32_t depth, Expr given) {
  (void)depth;
  return binary(s, pick(2) ? PRIM_DIV : PRIM_MOD, literal(60), given);
}

static Expr conditional(const Scope *s, Expr cond, Side *yes, Expr given,
                        uint32_t depth) {
  Expr side[2], e;
  if (cond.node->free_count == 0) { /* the host chooses the branch */
    must_force(cond.node);
    return cond.at[0] ? yes(s, depth, given) : expression(s, depth);
  }
  for (uint32_t k = 0; k < 2; k++) {
    Scope inner = *s;
    inner.outer = g.guard = side_guard(s, cond.node, k == 0);
    for (uint32_t p = 0; p < POINTS; p++)
      inner.active[p] = s->active[p] && (cond.at[p] != 0) == (k == 0);
    side[k] = k == 0 ? yes(&inner, depth, given) : expression(&inner, depth);
  }
  g.guard = s->outer;
  e.node =
      keep(node_select_lazy(&g, cond.node, side[0].node, side[1].node, &fault));
  for (uint32_t p = 0; p < POINTS; p++)
    e.at[p] = side[cond.at[p] == 0].at[p];
  return e;
}

static Expr sum_over_k(const Scope *s, uint32_t depth) {
  Scope inner = *s;
  inner.k = var(2);
  for (uint32_t p = 0; p < POINTS; p++)
    inner.active[p] = s->active[p & ~1u] || s->active[p | 1u];
  Expr x = expression(&inner, depth), e;
  e.node = reduce(PRIM_SUM, close1(x.node, inner.k), 0, 1, false);
  for (uint32_t p = 0; p < POINTS; p++)
    e.at[p] = x.at[p & ~1u] + x.at[p | 1u];
  return e;
}

static Expr expression(const Scope *s, uint32_t depth) {
  if (depth == 0)
    return leaf(s);
  Expr x = expression(s, depth - 1);
  switch (pick(8)) {
  case 0:
    return binary(s, PRIM_ADD, x, expression(s, depth - 1));
  case 1:
    return binary(s, PRIM_SUB, x, expression(s, depth - 1));
  case 2:
    return binary(s, PRIM_MOD, binary(s, PRIM_MUL, x, x), literal(11));
  case 3:
    return sum_over_k(s, depth - 1);
  case 4: {
    Expr low = binary(s, PRIM_GE, x, literal(0));
    Expr high = binary(s, PRIM_LT, x, literal(7));
    Expr in = binary(s, PRIM_AND, low, high);
    return conditional(s, in, read_side, x, depth - 1);
  }
  case 5:
    return conditional(s, binary(s, PRIM_NE, x, literal(0)), divide_side, x,
                       depth - 1);
  default:
    return conditional(s, binary(s, PRIM_LT, x, leaf(s)), any_side, x,
                       depth - 1);
  }
}

static void test_random_conditions(void **state) {
  (void)state;
  /* Compilation takes time. */
  uint64_t count = g.backend->compiles_kernels ? 12 : 600;
  for (uint64_t start = 1; start <= count; start++)
    for (uint32_t mode = FUSE_COST; mode <= FUSE_ALL; mode++) {
      g.fuse_mode = (FuseMode)mode;
      seed = start;
      Scope s = {.i = var(3), .j = var(4), .k = var(2)};
      s.table = data_with(DT_I64, SHAPE(7), table_double);
      memset(s.active, 1, sizeof s.active);
      Expr e = expression(&s, 3 + start % 3);
      Node *n = keep(
          node_close(&g, e.node, 3, (IndexVar *[]){s.i, s.j, s.k}, &fault));
      if (start % 2) /* only the result is held */
        release_all_but(n);
      must_force(n);
      for (int64_t p = 0; p < POINTS; p++)
        if (((int64_t *)n->data->data)[p] != e.at[p])
          fail_msg("expression %d, mode %u, point %d", (int)start, mode,
                   (int)p);
      release_kept();
      while (var_count)
        index_var_release(vars[--var_count]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_random_graphs),
      TEST(test_random_conditions),
  };
  /* Tests of another backend, as in fusion_test.c. */
  const struct CMUnitTest compiled[] = {
      TEST(test_random_conditions),
  };
  return getenv("AXON_TARGET") ? cmocka_run_group_tests(compiled, NULL, NULL)
                               : cmocka_run_group_tests(tests, NULL, NULL);
}
