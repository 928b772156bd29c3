/* Tests systems of equations: tables, and random systems against Heger's
 * theorem.  A*x == b has an integer solution if and only if A and A|b have the
 * same rank r and the same greatest common divisor of r*r minors. */
#include "dim_world.h"

#include <stdio.h>

/* Adds "2*n + 3*m == 16, n == k".  Returns false if they are inconsistent. */
static bool add_all(DimSystem *s, const char *text) {
  char copy[256], *rest = copy;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *one; (one = strsep(&rest, ";"));) {
    char *op = strstr(one, " == ");
    assert_non_null(op);
    *op = 0;
    Dim *left = read_dim(one + strspn(one, " "));
    if (!dim_system_add(s, dim_sub(&w->cx, left, read_dim(op + 4))))
      return false;
  }
  return true;
}

static void open_all(void) {
  for (int i = 0; i < VARS; i++)
    w->vars[i]->kind = DV_META;
}

/* "n = 2, m = 4", by the order of names. */
static const char *solutions(const DimSystem *s) {
  Buffer out = {0};
  for (int i = 0; i < VARS; i++) {
    DimSolution found;
    for (uint32_t n = 0; dim_system_next(s, &n, &found);)
      if (found.var == w->vars[i])
        buffer_printf(&out, "%s%s = %s", out.len ? ", " : "", names[i],
                      show_dim(found.value));
  }
  const char *text =
      arena_strndup(w->cx.arena, out.len ? out.text : "", out.len);
  buffer_free(&out);
  return text;
}

static void test_table(void **state) {
  (void)state;
  static const char *const table[][2] = {
      /* one solution */
      {"2*n + 3*m == 16; 3*n + 2*m == 14", "n = 2, m = 4"},
      {"n + m == 10; n + k == 11; m + k == 13", "n = 4, m = 6, k = 7"},
      {"3*n == 6", "n = 2"},
      /* parametric */
      {"n + m == 10", "m = 10 - n"},
      {"n + m == k; n + m + k == 6", "m = 3 - n, k = 3"},
      {"2*n == 3*m", ""},
      {"6*n + 10*m + 15*k == 1", ""},
      {"2*n == 3*m; n == 3*k", "n = 3*k, m = 2*k"},
      /* quotients, products and minima are unknowns */
      {"n/2 + 2 == 4; n == n/2 + 2", "n = 4"},
      {"n/2 + m == 5; n/2 + k == 7", "m = 5 - n/2, k = 7 - n/2"},
      {"n*m == 12; n*m + k == 20", "k = 8"},
      {"max(n, 4) == 4; max(n, 4) == n", "n = 4"},
      {"n == n/2 + 2", ""}, /* the solution would depend on n */
      {"prod(s) == 6; 2*prod(s) == n", "n = 12"},
      /* inconsistent over the rationals, and over the integers alone */
      {"n + m == 10; n + m == 11", NULL},
      {"2*n == 2*m + 1", NULL},
      {"2*n + k == 0; 2*m + k == 1", NULL},
      {"n + m == 2*k; n - m == 2*h + 1", NULL},
      {"6*n + 10*m == 2*k; 3*n + 5*m == k + 1", NULL},
      {"6*n + 10*m + 15*k == 30*h + 1; n == 5*b; m == 3*v", NULL},
      {"2*(n/3) == 4*m + 1", NULL},
      {"0 == 1", NULL},
  };
  open_all();
  for (size_t i = 0; i < ARRAY_LEN(table); i++) {
    DimSystem *s = dim_system_new(&w->cx);
    bool holds = add_all(s, table[i][0]);
    if (holds != (table[i][1] != NULL))
      fail_msg("%s: %s", table[i][0], holds ? "solved" : "refuted");
    if (holds && strcmp(solutions(s), table[i][1]) != 0)
      fail_msg("%s: %s, wanted %s", table[i][0], solutions(s), table[i][1]);
  }
}

static void test_cause(void **state) {
  (void)state;
  open_all();
  DimSystem *s = dim_system_new(&w->cx);
  assert_false(add_all(s, "n + m == 10; k == 7; n - m == 2*h + 1"));
  assert_int_equal(dim_system_unsat_core(s), 5);
}

/* ---- random systems ---- */

enum { SIDE = 3 };

static int64_t det(const int64_t m[SIDE][SIDE + 1], uint32_t r,
                   const uint32_t *row, const uint32_t *col) {
  if (r == 1)
    return m[row[0]][col[0]];
  int64_t sum = 0;
  for (uint32_t i = 0; i < r; i++) {
    uint32_t rest[SIDE];
    for (uint32_t j = 0, n = 0; j < r; j++)
      if (j != i)
        rest[n++] = col[j];
    int64_t term = m[row[0]][col[i]] * det(m, r - 1, row + 1, rest);
    sum += i % 2 ? -term : term;
  }
  return sum;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a < 0 ? -a : a;
}

static uint32_t choose(uint32_t bits, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; bits >> i; i++)
    if (bits >> i & 1)
      out[n++] = i;
  return n;
}

/* The gcd of all minors with r rows among the given columns. */
static int64_t minors(const int64_t m[SIDE][SIDE + 1], uint32_t r,
                      uint32_t columns) {
  int64_t g = 0;
  for (uint32_t i = 0; i < 1u << SIDE; i++)
    for (uint32_t j = 0; j < 1u << columns; j++) {
      uint32_t row[SIDE + 1], col[SIDE + 1];
      if (choose(i, row) == r && choose(j, col) == r)
        g = gcd(g, det(m, r, row, col));
    }
  return g;
}

static bool solvable(const int64_t m[SIDE][SIDE + 1]) {
  for (uint32_t r = SIDE; r; r--) {
    int64_t whole = minors(m, r, SIDE + 1);
    if (whole)
      return minors(m, r, SIDE) == whole;
  }
  return true;
}

static void test_random(void **state) {
  (void)state;
  open_all();
  seed = 20;
  uint32_t holds = 0;
  for (int round = 0; round < 3000; round++) {
    int64_t m[SIDE][SIDE + 1];
    DimSystem *s = dim_system_new(&w->cx);
    bool added = true;
    for (uint32_t i = 0; i < SIDE; i++) {
      Dim *d = dim_int(&w->cx, 0);
      for (uint32_t j = 0; j <= SIDE; j++) {
        m[i][j] = (int64_t)random_below(7) - 3;
        Dim *by = dim_int(&w->cx, m[i][j]);
        d = dim_add(&w->cx, d, j < SIDE ? dim_mul(&w->cx, by, w->v[j]) : by);
      }
      added = added && dim_system_add(s, d);
    }
    assert_int_equal(added, solvable(m));
    holds += added;
  }
  assert_in_range(holds, 300, 2700); /* both kinds occurred */
}

/* A system that exceeds the limits is left out, and refutes nothing. */
static void test_limits(void **state) {
  (void)state;
  open_all();
  DimSystem *s = dim_system_new(&w->cx);
  assert_true(add_all(s, "9999999999*n + m == 1; 9999999999*n + m == 2"));
  assert_true(add_all(s, "99999999999999999999*n == 1"));
  for (int i = 0; i < 300; i++) {
    Dim *d = dim_sub(&w->cx, dim_of_var(&w->cx, meta()),
                     dim_mul(&w->cx, dim_int(&w->cx, i + 2), w->v[i % 3]));
    assert_true(dim_system_add(s, d));
  }
  s = dim_system_new(&w->cx);
  const char *grow = "70001*n == 70003*m; 70001*m == 70003*k; "
                     "70001*k == 70003*h; 70001*h == 70003*s";
  assert_true(add_all(s, grow));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_table, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cause, setup, teardown),
      cmocka_unit_test_setup_teardown(test_random, setup, teardown),
      cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
