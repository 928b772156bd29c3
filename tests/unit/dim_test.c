/* Tests sizes as polynomials: the normal form against tables and evaluation,
 * printing against a parser, substitution, limits. */
#include "dim_world.h"
#include "support/trap.h"

/* ---- tables ---- */

static void test_print(void **state) {
  (void)state;
  static const char *const table[][2] = {
      {"n - k + 1", "n - k + 1"},
      {"1 - k + n", "n - k + 1"},
      {"(h - k)/s + 1", "(h - k)/s + 1"},
      {"2*n", "2*n"},
      {"n*2", "2*n"},
      {"n + n", "2*n"},
      {"n/2", "n/2"},
      {"b*784", "784*b"},
      {"n*n*m", "n*n*m"},
      {"n % 4", "n % 4"},
      {"(n + 5) % 4 + 3", "(n + 1) % 4 + 3"},
      {"3*(n % m)", "3*(n % m)"},
      {"2*n % 4", "2*(n % 2)"},
      {"n % 4*m", "m*n - 4*(m*(n/4))"},
      {"(h - 3)/2", "(h - 3)/2"},
      {"(h - 3)/2 + 1", "(h - 1)/2"},
      {"(h + 2 - 3)/2 + 1", "(h + 1)/2"},
      {"h/2 - 2", "h/2 - 2"},
      {"3 - n", "3 - n"},
      {"0 - n", "-n"},
      {"0 - n - 1", "-n - 1"},
      {"0 - n*2 - k", "-2*n - k"},
      {"n - n", "0"},
      {"0 - 5", "-5"},
      {"min(m, n)", "min(n, m)"},
      {"min(n, m + 1) - 1", "min(n - 1, m)"},
      {"max(n - k, 0)", "max(n - k, 0)"},
      {"max(n, 0)", "n"},
      {"min(min(n, m), k)", "min(n, m, k)"},
      {"max(n, m)*2 + 1", "2*max(n, m) + 1"},
      {"n/(2*k)", "n/(2*k)"},
      {"n/(m/2)", "n/(m/2)"},
      {"n/m/s", "n/m/s"},
      {"n/m*2", "2*(n/m)"},
      {"(n - k)/(s + 1)", "(n - k)/(s + 1)"},
      {"(n % m)/2", "(n % m)/2"},
      {"n % (m + 1)", "n % (m + 1)"},
      {"(n + k) % 2", "(n + k) % 2"},
      {"(n - k)/2", "(n - k)/2"},
      {"8*(n/8)", "8*(n/8)"},
      {"prod(s)*n", "n*prod(s)"},
      {"prod(s)/2", "prod(s)/2"},
      {"(1 + n)*(1 - n)", "1 - n*n"},
      {"v - n", "v - n"},
      {"min(v, 0)", "min(v, 0)"},
      {"9223372036854775807 + 1", "9223372036854775808"},
      {"0 - 9223372036854775807 - 2", "-9223372036854775809"},
      {"99999999999999999999*n - 1", "99999999999999999999*n - 1"},
  };
  for (size_t i = 0; i < ARRAY_LEN(table); i++) {
    if (!strcmp(table[i][0], "n % 4*m")) /* checks only that it can be parsed */
      assert_true(dim_equal(read_dim(show_dim(read_dim(table[i][0]))),
                            read_dim(table[i][0])));
    else
      expect_print(table[i][0], table[i][1]);
  }
}

static void test_equal(void **state) {
  (void)state;
  static const char *const same[][2] = {
      {"2*n/2", "n"},
      {"(n + 4)/2", "n/2 + 2"},
      {"(n - 4)/2", "n/2 - 2"},
      {"(2*n + 1)/2", "n"},
      {"(2*n - 1)/2", "n - 1"},
      {"(2*n + 2)/4", "(n + 1)/2"},
      {"(2*n + 3)/4", "(n + 1)/2"},
      {"n/2/2", "n/4"},
      {"n/3/5", "n/5/3"},
      {"(n/2 + 1)/2", "(n + 2)/4"},
      {"((n - 3)/2 + m)/4", "(n - 3 + 2*m)/8"},
      {"(h - 3 + 1)/1", "h - 2"},
      {"b*784/784", "b"},
      {"n*m/m", "n"},
      {"n*m/n", "m"},
      {"h*n*m/h", "m*n"},
      {"(n*m + m)/m", "n + 1"},
      {"(n*m + m)/(n + 1)", "m"},
      {"(n*n - 1)/(n + 1)", "n - 1"},
      {"(n + 1)*(n + 1)/(n + 1)", "n + 1"},
      {"(n*s + k)/s", "k/s + n"},
      {"(h - k + s)/s", "(h - k)/s + 1"},
      {"2*n*k/(2*m*k)", "n/m"},
      {"(2*n + 1)/(2*m)", "n/m"},
      {"3/(2*n)", "1/n"},
      {"0/n", "0"},
      {"7/2", "3"},
      {"(0 - 7)/2", "0 - 4"},
      {"(0 - 7) % 2", "1"},
      {"n % 1", "0"},
      {"2*n % 2", "0"},
      {"n*m % m", "0"},
      {"(n + m) % m", "n % m"},
      {"n % 4 % 4", "n % 4"},
      {"n % 4 % 2", "n % 2"},
      {"n % 4/4", "0"},
      {"min(n, n)", "n"},
      {"min(n, n + 1)", "n"},
      {"max(n, n + 1)", "n + 1"},
      {"min(n, n + m)", "n"},
      {"max(n, 0)", "n"},
      {"min(n, 0)", "0"},
      {"max(n/2, 0)", "n/2"},
      {"min(3, 5)", "3"},
      {"min(n + 1, m + 1)", "min(n, m) + 1"},
      {"min(n - 1, m - 1)", "min(n, m) - 1"},
      {"min(n + k, m + k)", "k + min(m, n)"},
      {"min(2*n, 2*m)", "2*min(n, m)"},
      {"min(min(n, m) + 1, k)", "min(n + 1, m + 1, k)"},
      {"min(2*min(n, m), k)", "min(2*n, 2*m, k)"},
      {"max(max(n, m), max(k, n))", "max(k, m, n)"},
      {"(n + m)*(n - m)", "n*n - m*m"},
      {"min(n, m)*0", "0"},
  };
  for (size_t i = 0; i < ARRAY_LEN(same); i++)
    expect_equal(same[i][0], same[i][1], true);
  static const char *const other[][2] = {
      {"n", "m"},         {"n/2", "n/3"},     {"n*n", "n"},
      {"max(n, m)", "n"}, {"max(v, 0)", "v"}, {"v*n/v", "n + 1"},
      {"8*(n/8)", "n"},   {"n/m", "m/n"},     {"min(n, m)", "max(n, m)"},
      {"n/2 + n/2", "n"}, {"n % 2", "n % 3"}, {"(n + 1)/2", "n/2"},
      {"prod(s)", "n"},
  };
  for (size_t i = 0; i < ARRAY_LEN(other); i++)
    expect_equal(other[i][0], other[i][1], false);
}

static void test_text(void **state) {
  (void)state;
  int64_t value;
  assert_true(dim_is_int(dim_parse(&w->cx, "-12"), &value) && value == -12);
  assert_true(dim_is_int(dim_parse(&w->cx, "0xff"), &value) && value == 255);
  assert_true(dim_is_int(dim_parse(&w->cx, "0b101"), &value) && value == 5);
  assert_true(dim_is_int(dim_parse(&w->cx, "0o17"), &value) && value == 15);
  assert_true(dim_is_int(dim_parse(&w->cx, "1_000"), &value) && value == 1000);
  assert_true(dim_is_int(dim_parse(&w->cx, "000"), &value) && value == 0);
  assert_true(dim_is_int(dim_parse(&w->cx, "-9223372036854775808"), &value) &&
              value == INT64_MIN);
  assert_false(dim_is_int(dim_parse(&w->cx, "9223372036854775808"), &value));
  assert_string_equal(show_dim(dim_parse(&w->cx, "0xffffffffffffffffffff")),
                      "1208925819614629174706175");
  assert_true(dim_is_const(dim_parse(&w->cx, "0")));
  assert_int_equal(dim_sign(dim_parse(&w->cx, "-99999999999999999999")), -1);
}

static void test_evaluation(void **state) {
  (void)state;
  seed = 1;
  for (int round = 0; round < 6000; round++) {
    if (round % 500 == 499)
      fresh_world();
    Expr *e = expr_random(1 + (int)random_below(4), VARS);
    Dim *d = expr_dim(e);
    for (int i = 0; i < 12; i++) {
      int64_t env[VARS];
      Big want, got;
      env_random(env, 0, i < 8 ? 10 : 100);
      if (!expr_value(e, env, &want))
        continue;
      /* Operands may have lost a factor, so fewer points fail. */
      assert_true(dim_value(d, env, &got));
      if (want != got)
        fail_msg("round %d: %s at n = %ld", round, show_dim(d), (long)env[0]);
    }
  }
}

static void test_print_is_read_back(void **state) {
  (void)state;
  seed = 2;
  for (int round = 0; round < 6000; round++) {
    if (round % 500 == 499)
      fresh_world();
    Dim *d = expr_dim(expr_random(1 + (int)random_below(4), VARS));
    if (random_below(5) == 0)
      d = dim_add(&w->cx, d, dim_of_prod(&w->cx, (ShapeVar *)&w->prod));
    const char *text = show_dim(d);
    Dim *back = read_dim(text);
    if (!dim_equal(back, d))
      fail_msg("round %d: %s is read as %s", round, text, show_dim(back));
  }
}

/* Laws whose sides must have one normal form. */
static void test_laws(void **state) {
  (void)state;
  seed = 3;
  for (int round = 0; round < 3000; round++) {
    if (round % 300 == 299)
      fresh_world();
    DimCtx *cx = &w->cx;
    Dim *a = expr_dim(expr_random(2, VARS));
    Dim *b = expr_dim(expr_random(2, VARS));
    Dim *c = expr_dim(expr_random(2, VARS));
    int64_t p = 1 + random_below(7), q = 1 + random_below(7);
    Dim *dp = dim_int(cx, p), *dq = dim_int(cx, q);
    assert_true(dim_equal(dim_add(cx, a, b), dim_add(cx, b, a)));
    assert_true(dim_equal(dim_mul(cx, a, b), dim_mul(cx, b, a)));
    assert_true(dim_equal(dim_mul(cx, a, dim_add(cx, b, c)),
                          dim_add(cx, dim_mul(cx, a, b), dim_mul(cx, a, c))));
    assert_true(dim_equal(dim_mul(cx, dim_mul(cx, a, b), c),
                          dim_mul(cx, a, dim_mul(cx, b, c))));
    assert_true(dim_equal(dim_sub(cx, dim_add(cx, a, b), b), a));
    assert_true(dim_is_const(dim_sub(cx, a, a)));
    assert_true(dim_equal(dim_div(cx, dim_mul(cx, a, dp), dp), a));
    assert_true(dim_equal(dim_div(cx, dim_add(cx, a, dim_mul(cx, b, dp)), dp),
                          dim_add(cx, dim_div(cx, a, dp), b)));
    if (!dim_is_const(b) && !dim_equal(b, dim_int(cx, 0)))
      assert_true(dim_equal(dim_div(cx, dim_mul(cx, a, b), b), a));
    Dim *n = w->v[random_below(VARS)];
    assert_true(dim_equal(dim_div(cx, dim_div(cx, n, dp), dq),
                          dim_div(cx, n, dim_mul(cx, dp, dq))));
    assert_true(dim_equal(dim_min(cx, a, b), dim_min(cx, b, a)));
    assert_true(dim_equal(dim_max(cx, a, a), a));
    assert_true(dim_equal(
        dim_add(cx, dim_mul(cx, b, dim_div(cx, a, b)), dim_mod(cx, a, b)), a));
  }
}

/* Minimum and maximum of variables: one form for each set, however built. */
static void test_min_sets(void **state) {
  (void)state;
  seed = 4;
  for (int round = 0; round < 500; round++) {
    Dim *items[5];
    int n = 2 + (int)random_below(4);
    for (int i = 0; i < n; i++)
      items[i] = dim_add(&w->cx, w->v[random_below(VARS)],
                         dim_int(&w->cx, (int64_t)random_below(4)));
    Dim *left = items[0], *right = items[n - 1];
    for (int i = 1; i < n; i++)
      left = dim_min(&w->cx, left, items[i]);
    for (int i = n - 1; i-- > 0;)
      right = dim_min(&w->cx, items[i], right);
    assert_true(dim_equal(left, right));
  }
}

/* ---- numbers ---- */

static Dim *big_dim(Big n) {
  char text[64], *p = text + sizeof text - 1;
  bool minus = n < 0;
  unsigned __int128 u = minus ? -(unsigned __int128)n : (unsigned __int128)n;
  *p = 0;
  do
    *--p = (char)('0' + (int)(u % 10));
  while (u /= 10);
  if (minus)
    *--p = '-';
  return dim_parse(&w->cx, p);
}

static Big random_big(void) {
  Big n = 0;
  for (uint32_t i = random_below(4); i-- > 0;)
    n = n << 15 | random_below(1 << 15);
  n += random_below(3);
  if (!random_below(6))
    n = (Big)INT64_MAX + random_below(3) - 1;
  return random_below(2) ? -n : n;
}

static void test_big_numbers(void **state) {
  (void)state;
  seed = 5;
  DimCtx *cx = &w->cx;
  for (int round = 0; round < 4000; round++) {
    Big a = random_big(), b = random_big();
    Dim *x = big_dim(a), *y = big_dim(b);
    assert_true(dim_equal(dim_add(cx, x, y), big_dim(a + b)));
    assert_true(dim_equal(dim_sub(cx, x, y), big_dim(a - b)));
    assert_true(dim_equal(dim_mul(cx, x, y), big_dim(a * b)));
    assert_true(dim_equal(dim_sub(cx, dim_mul(cx, x, y), dim_mul(cx, y, x)),
                          dim_int(cx, 0)));
    Big product = a * b;
    if (b > 0) {
      assert_true(dim_equal(dim_div(cx, x, y), big_dim(big_div(a, b))));
      assert_true(dim_equal(dim_mod(cx, big_dim(product), y), dim_int(cx, 0)));
      assert_true(
          dim_equal(dim_div(cx, big_dim(product + b - 1), y), big_dim(a)));
    }
    int64_t value;
    bool fits = a >= INT64_MIN && a <= INT64_MAX;
    assert_int_equal(dim_is_int(x, &value), fits);
    if (fits)
      assert_true(value == (int64_t)a);
    assert_int_equal(dim_sign(x), (a > 0) - (a < 0));
    assert_true(dim_equal(read_dim(show_dim(x)), x));
  }
}

/* (2^64 + 1)^k and back down. */
static void test_powers(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  Dim *base = dim_parse(cx, "18446744073709551617"), *d = dim_int(cx, 1);
  Dim *n = w->v[0], *poly = dim_int(cx, 1);
  for (int i = 0; i < 40; i++) {
    d = dim_mul(cx, d, base);
    poly = dim_mul(cx, poly, dim_add(cx, n, base));
  }
  assert_true(dim_equal(read_dim(show_dim(d)), d));
  for (int i = 0; i < 40; i++) {
    poly = dim_div(cx, poly, dim_add(cx, n, base));
    d = dim_div(cx, d, base);
  }
  assert_true(dim_equal(d, dim_int(cx, 1)));
  assert_true(dim_equal(poly, dim_int(cx, 1)));
}

static void test_postfix_overflow(void **state) {
  (void)state;
  uint32_t count;
  assert_null(dim_postfix(&w->cx, read_dim("9223372036854775808*n"), &count));
  assert_null(
      dim_postfix(&w->cx, read_dim("(n + 99999999999999999999)/m"), &count));
  Dim *least = dim_mul(&w->cx, dim_int(&w->cx, INT64_MIN), w->v[0]);
  DimOp *ops = dim_postfix(&w->cx, dim_add(&w->cx, least, w->v[1]), &count);
  int64_t env[VARS] = {3, 4};
  Big value = 0;
  assert_non_null(ops);
  assert_true(ops_value(ops, count, env, &value));
  assert_true(value == (Big)INT64_MIN * 3 + 4);
}

/* ---- unification variables, substitution ---- */

static void test_resolve(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  DimVar *a = meta(), *b = meta(), *c = meta();
  Dim *da = dim_of_var(cx, a), *db = dim_of_var(cx, b), *dc = dim_of_var(cx, c);
  Dim *d = dim_div(cx, dim_add(cx, da, dim_int(cx, 1)), dim_int(cx, 2));
  assert_true(dim_resolve(cx, d) == d);
  a->solution = db;
  b->solution = dim_add(cx, dc, dim_int(cx, 1));
  c->solution = dim_mul(cx, dim_int(cx, 2), w->v[0]);
  cx->solution_count += 3;
  assert_true(dim_equal(dim_resolve(cx, da), read_dim("2*n + 1")));
  assert_true(dim_equal(dim_resolve(cx, d), read_dim("n + 1")));
  assert_true(dim_mentions(cx, d, w->vars[0]));
  assert_true(dim_mentions(cx, da, a));
  assert_false(dim_mentions(cx, d, w->vars[1]));
  assert_false(dim_has_unknown(d));
  dim_set_unknown(cx, w->vars[0]);
  assert_true(dim_has_unknown(d));
  assert_false(dim_has_unknown(w->v[1]));
  w->vars[0]->unknown = false;
  dim_set_unknown(cx, b); /* ignores the solution, so b is unchanged */
  assert_true(dim_equal(dim_resolve(cx, da), db));
  Dim *half = dim_div(cx, dim_add(cx, db, dim_int(cx, 1)), dim_int(cx, 2));
  assert_true(dim_equal(dim_resolve(cx, d), half));
  assert_true(dim_has_unknown(da));
  assert_false(dim_mentions(cx, da, w->vars[0]));
}

static void test_resolve_products(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  Dim *prod = dim_of_prod(cx, (ShapeVar *)&w->prod);
  assert_true(dim_of_prod(cx, (ShapeVar *)&w->prod) == prod);
  Dim *d = dim_div(cx, dim_mul(cx, prod, w->v[0]), dim_int(cx, 6));
  assert_string_equal(show_dim(d), "n*prod(s)/6");
  DimVar *a = meta();
  w->prod_solution = dim_mul(cx, dim_of_var(cx, a), dim_int(cx, 3));
  a->solution = dim_mul(cx, dim_int(cx, 2), w->v[1]);
  cx->solution_count += 2;
  assert_true(dim_equal(dim_resolve(cx, d), read_dim("n*m")));
}

static bool is_stopped(Dim *(*grow)(int), int i) {
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    grow(i);
    trap_end(&trap);
    return false;
  }
  return trap.kind == FAIL_LIMIT;
}

/* As deep as the recursion limit, and deeper. */
static Dim *deep_chain(int n) {
  DimCtx *cx = &w->cx;
  DimVar *first = meta(), *last = first;
  for (int i = 0; i < n; i++) {
    DimVar *next = meta();
    Dim *d = dim_of_var(cx, next);
    last->solution =
        dim_min(cx, dim_mul(cx, d, w->v[0]), dim_add(cx, d, dim_int(cx, 1)));
    last = next;
  }
  last->solution = dim_int(cx, 0);
  assert_true(dim_mentions(cx, dim_of_var(cx, first), last));
  return dim_resolve(cx, dim_of_var(cx, first));
}

static void test_deep_chain(void **state) {
  (void)state;
  assert_true(dim_equal(deep_chain(2000), dim_int(&w->cx, 0)));
  assert_true(is_stopped(deep_chain, 10000));
}

/* A long chain of solutions, and one that doubles at each step. */
static void test_resolve_chain(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  enum { N = 2000 };
  DimVar *chain[N];
  for (int i = 0; i < N; i++)
    chain[i] = meta();
  for (int i = 0; i + 1 < N; i++)
    chain[i]->solution =
        i % 2 ? dim_of_var(cx, chain[i + 1])
              : dim_add(cx, dim_of_var(cx, chain[i + 1]), dim_int(cx, 1));
  Dim *d = dim_resolve(cx, dim_of_var(cx, chain[0]));
  Dim *want = dim_add(cx, dim_of_var(cx, chain[N - 1]), dim_int(cx, N / 2));
  assert_true(dim_equal(d, want));
  assert_true(dim_mentions(cx, dim_of_var(cx, chain[0]), chain[N - 1]));
  for (int i = 0; i <= 60; i++)
    chain[i]->resolved = NULL; /* solutions that the type checker never finds */
  for (int i = 0; i < 60; i++) {
    chain[i]->solution =
        dim_add(cx, dim_of_var(cx, chain[i + 1]), dim_of_var(cx, chain[i + 1]));
    chain[i + 1]->solution = NULL;
  }
  cx->solution_count++;
  d = dim_resolve(cx, dim_of_var(cx, chain[0]));
  assert_true(dim_equal(d, dim_mul(cx, dim_int(cx, (int64_t)1 << 60),
                                   dim_of_var(cx, chain[60]))));
}

static Dim *swap_vars(void *arg, DimVar *var) {
  Dim **to = arg;
  for (int i = 0; i < VARS; i++)
    if (w->vars[i] == var)
      return to[i];
  return NULL;
}

static void test_subst(void **state) {
  (void)state;
  seed = 6;
  for (int round = 0; round < 2000; round++) {
    if (round % 200 == 199)
      fresh_world();
    Dim *d = expr_dim(expr_random(3, VARS)), *to[VARS];
    for (int i = 0; i < VARS; i++) {
      to[i] = NULL;
      if (random_below(2)) /* divides sizes by sizes */
        to[i] = dim_add(&w->cx, w->v[random_below(VARS - 1)],
                        dim_int(&w->cx, (int64_t)random_below(3)));
    }
    Dim *moved = dim_subst(&w->cx, d, swap_vars, NULL, to);
    int64_t env[VARS], there[VARS];
    env_random(env, 0, 9);
    for (int i = 0; i < VARS; i++) {
      Big value = env[i];
      if (to[i])
        assert_true(dim_value(to[i], env, &value));
      there[i] = (int64_t)value;
    }
    Big want, got;
    if (dim_value(d, there, &want)) {
      assert_true(dim_value(moved, env, &got));
      assert_true(want == got);
    }
  }
}

static void count_var(void *arg, DimVar *var) {
  (void)var;
  ++*(int *)arg;
}

static void count_prod(void *arg, ShapeVar *var) {
  (void)var;
  *(int *)arg += 100;
}

static void test_each_var(void **state) {
  (void)state;
  int count = 0;
  dim_each_var(read_dim("n/m + min(n, k*prod(s)) + 3"), count_var, count_prod,
               &count);
  assert_int_equal(count, 103);
  dim_each_var(read_dim("3"), count_var, count_prod, &count);
  assert_int_equal(count, 103);
}

static bool never(void *arg, DimVar *var) {
  return var != arg;
}

static void test_solve(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  DimVar *a = meta(), *b = meta(), *var;
  Dim *da = dim_of_var(cx, a), *db = dim_of_var(cx, b), *value;
  Dim *d = dim_sub(cx, dim_add(cx, da, db), w->v[0]);
  assert_true(dim_solve_for_meta(cx, d, NULL, NULL, &var, &value));
  assert_ptr_equal(var, b);
  assert_true(dim_equal(value, dim_sub(cx, w->v[0], da)));
  assert_true(dim_solve_for_meta(cx, d, never, b, &var, &value));
  assert_ptr_equal(var, a);
  d = dim_sub(cx, dim_mul(cx, dim_int(cx, 2), da), w->v[0]);
  assert_false(dim_solve_for_meta(cx, d, NULL, NULL, &var, &value));
  d = dim_add(cx, da, dim_div(cx, da, dim_int(cx, 2)));
  assert_false(dim_solve_for_meta(cx, d, NULL, NULL, &var, &value));
  d = dim_sub(cx, w->v[0], da);
  assert_true(dim_solve_for_meta(cx, d, NULL, NULL, &var, &value));
  assert_true(dim_equal(value, w->v[0]));
  assert_false(dim_solve_for_meta(cx, w->v[0], NULL, NULL, &var, &value));
  dim_set_unknown(cx, a);
  assert_false(dim_solve_for_meta(cx, d, NULL, NULL, &var, &value));
}

static void test_cancel(void **state) {
  (void)state;
  static const char *const table[][2] = {
      {"b*784 - b*m", "784 - m"},
      {"2*n - 2*m", "n - m"},
      {"n*m", "n*m"},
      {"2*n*m", "n*m"},
      {"0", "0"},
      {"6", "6"},
      {"n*m - n*k", "m - k"},
      {"n*(h/2)*3 - n*6*k", "h/2 - 2*k"},
      {"v*n - v*m", "v*n - v*m"},
      {"n - 1", "n - 1"},
      {"n*n*m - n*n", "m - 1"},
  };
  for (size_t i = 0; i < ARRAY_LEN(table); i++)
    assert_true(
        dim_equal(dim_cancel_common_factor(&w->cx, read_dim(table[i][0])),
                  read_dim(table[i][1])));
}

/* ---- limits ---- */

static Dim *grow_powers(int i) {
  Dim *d = dim_add(&w->cx, w->v[i % 3], dim_int(&w->cx, 3));
  for (int n = 0; n < 60; n++)
    d = dim_mul(&w->cx, d, d);
  return d;
}

static Dim *grow_terms(int i) {
  Dim *d = dim_int(&w->cx, 1 + i);
  for (int n = 0; n < 60; n++)
    d = dim_mul(&w->cx, d, read_dim("n + m + k + h + s + b + 1"));
  return d;
}

static Dim *grow_depth(int i) {
  Dim *d = w->v[i % 2];
  for (int n = 0; n < 100000; n++)
    d = dim_div(&w->cx, dim_add(&w->cx, d, w->v[2]), w->v[4]);
  return d;
}

static Dim *grow_sharing(int i) {
  Dim *d = w->v[i % 2];
  for (int n = 0; n < 64; n++)
    d = dim_add(&w->cx, dim_div(&w->cx, d, w->v[3]),
                dim_div(&w->cx, d, w->v[4]));
  return d;
}

static Dim *grow_number(int i) {
  Dim *d = dim_int(&w->cx, 10 + i);
  for (int n = 0; n < 60; n++)
    d = dim_mul(&w->cx, d, d);
  return d;
}

static Dim *grow_min(int i) {
  Dim *d = w->v[i % 2];
  for (int n = 0; n < 100; n++)
    d = dim_min(
        &w->cx, d,
        dim_of_var(&w->cx, dim_new_var(&w->cx, DV_SKOLEM, NULL, (Span){0})));
  return d;
}

static void test_limits(void **state) {
  (void)state;
  Dim *(*const grow[])(int) = {grow_powers,  grow_terms,  grow_depth,
                               grow_sharing, grow_number, grow_min};
  w->cx.limit_exceeded = report_complaint;
  complaints = 0;
  for (size_t i = 0; i < ARRAY_LEN(grow); i++)
    if (!is_stopped(grow[i], (int)i))
      fail_msg("grower %zu is not stopped", i);
  assert_int_equal(complaints, ARRAY_LEN(grow));
  assert_true(dim_equal(read_dim("n + 1"), read_dim("1 + n")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_print),
      TEST(test_equal),
      TEST(test_text),
      TEST(test_evaluation),
      TEST(test_print_is_read_back),
      TEST(test_laws),
      TEST(test_min_sets),
      TEST(test_big_numbers),
      TEST(test_powers),
      TEST(test_postfix_overflow),
      TEST(test_resolve),
      TEST(test_resolve_products),
      TEST(test_deep_chain),
      TEST(test_resolve_chain),
      TEST(test_subst),
      TEST(test_each_var),
      TEST(test_solve),
      TEST(test_cancel),
      TEST(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
