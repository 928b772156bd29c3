/* Tests of what is known of sizes: verdicts against tables and against
 * enumeration, witnesses, effort. */
#include "dim_world.h"

/* ---- verdicts ---- */

static void fact(const char *left, const char *op, const char *right) {
  Dim *a = read_dim(left), *b = read_dim(right);
  if (*op == '=')
    dim_facts_add_eq(w->facts, dim_sub(&w->cx, a, b));
  else
    dim_facts_add_ge(w->facts, dim_sub(&w->cx, b, a)); /* left <= right */
}

/* "n <= m, k == 3" */
static void facts_of(const char *text) {
  char copy[256], *rest = copy;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *one; (one = strsep(&rest, ","));) {
    char *op = strpbrk(one, "<=");
    if (!op)
      continue;
    char kind[2] = {*op, 0};
    *op = 0;
    fact(one + strspn(one, " "), kind, op + 2 + strspn(op + 2, " "));
  }
}

/* The reader stops at the blank before an operator. */
static void test_verdicts(void **state) {
  (void)state;
  static const struct {
    const char *facts, *claim;
    bool eq;
    Verdict want;
  } table[] = {
      /* without facts */
      {"", "5", false, PROVED},
      {"", "0-1", false, REFUTED},
      {"", "0", true, PROVED},
      {"", "3", true, REFUTED},
      {"", "n", false, PROVED},
      {"", "n+m*k", false, PROVED},
      {"", "n-1", false, OPEN},
      {"", "0-n", false, REFUTED},
      {"", "1-n", false, OPEN},
      {"", "0-1-n", false, REFUTED},
      {"", "n-m", true, OPEN},
      {"", "n-m", false, OPEN},
      {"", "n+1", true, REFUTED},
      {"", "n", true, REFUTED},
      {"", "v", true, OPEN},
      {"", "v", false, OPEN},
      {"", "v*v", false, PROVED},
      {"", "2*n-3", true, REFUTED},
      {"", "2*n-4", true, OPEN},
      {"", "2*v-3", true, REFUTED},
      {"", "2*n+4*m-7", true, REFUTED},
      {"", "n*n-n", false, PROVED},
      {"", "n*m-n", false, OPEN},
      {"", "(n+1)/2+n/2-n", true, PROVED},
      {"", "n/2*2-n", true, OPEN},
      {"", "8*(n/8)-n", true, OPEN},
      {"", "8*(n/8)-n", false, OPEN},
      {"", "n-8*(n/8)", false, PROVED},
      {"", "7-n%8", false, PROVED},
      {"", "n/2-n/3", false, PROVED},
      {"", "n-n/2", false, PROVED},
      {"", "n/k", false, PROVED},
      {"", "n-n/k", false, PROVED},
      {"", "n%k", false, PROVED},
      {"", "k-1-n%k", false, PROVED},
      {"", "n/4*4/4-n/4", true, PROVED},
      {"", "n/3+(n+1)/3+(n+2)/3-n", true, PROVED},
      {"", "n-min(n,m)", false, PROVED},
      {"", "max(n,m)-n", false, PROVED},
      {"", "min(n,m)+max(n,m)-n-m", true, PROVED},
      {"", "max(n,m)-min(n,k)", false, PROVED},
      {"", "max(n-k,0)", false, PROVED},
      {"", "min(n-k,0)-1", false, REFUTED},
      {"", "(n+m)/2-min(n,m)", false, PROVED},
      {"", "prod(s)", false, PROVED},
      {"", "prod(s)*n", false, PROVED},
      {"", "v/2", false, OPEN},
      {"", "n-m-99999999999999999999", false, OPEN},
      {"", "n+99999999999999999999", false, PROVED},
      {"", "0-n-99999999999999999999", false, REFUTED},
      /* with facts */
      {"n%8 == 0", "8*(n/8)-n", true, PROVED},
      {"n%8 == 0", "4*(n/4)-n", true, PROVED},
      {"n%4 == 0", "8*(n/8)-n", true, OPEN},
      {"n%8 == 0", "m*8*(n/8)-m*n", true, PROVED},
      {"n == 8*k", "n%8", true, PROVED},
      {"n == 8*k", "n/4-2*k", true, PROVED},
      {"n == 8*k", "n-12", true, REFUTED},
      {"n == m", "n-m", true, PROVED},
      {"n == m, m == k", "n-k", true, PROVED},
      {"n == m+1", "n-1", false, PROVED},
      {"n == m+1", "n-m", true, REFUTED},
      {"n+m == 3*k", "n+m-3", false, OPEN},
      {"k <= n", "n-k", false, PROVED},
      {"k <= n", "n-k-1", false, OPEN},
      {"k <= n", "k-n-1", false, REFUTED},
      {"k <= n, n <= k", "n-k", true, PROVED},
      {"k <= n, m <= k", "n-m", false, PROVED},
      {"3 <= n", "n-2", false, PROVED},
      {"3 <= n", "2-n", false, REFUTED},
      {"3 <= n", "n-2", true, REFUTED},
      {"3 <= 2*n", "n-2", false, PROVED},
      {"2*n <= 5", "2-n", false, PROVED},
      {"1 <= n", "n*m-m", false, PROVED},
      {"1 <= n, 1 <= m", "n*m-1", false, PROVED},
      {"1 <= n, 1 <= m, 1 <= k", "n*m*k-m", false, PROVED},
      {"1 <= n, 1 <= m", "min(n,m)-1", false, PROVED},
      {"1 <= n", "min(n,m)-1", false, OPEN},
      {"1 <= n", "max(n,m)-1", false, PROVED},
      {"k <= h", "(h-k)/s", false, PROVED},
      {"k <= h", "(h-k)/s+1-1", false, PROVED},
      {"k <= h, 1 <= k", "h-(h-k)/s-1", false, PROVED},
      {"h <= k - 1", "(h-k)/2", false, REFUTED},
      {"n <= m - 1", "n/m", true, PROVED},
      {"n <= m - 1", "n%m-n", true, PROVED},
      {"n <= 3", "n/4", true, PROVED},
      {"n <= 3", "n%4-n", true, PROVED},
      {"n <= b - 1", "b-1-n", false, PROVED},
      /* n, m and k index b x h x s: flat positions are in bounds */
      {"n <= b - 1, m <= h - 1, k <= s - 1", "b*h*s-1-n*h*s-m*s-k", false,
       PROVED},
      {"n <= b - 1, m <= h - 1, k <= s - 1", "b*h*s-2-n*h*s-m*s-k", false,
       OPEN},
      /* m and n index a convolution of size (h - k)/s + 1 */
      {"k <= h, n <= (h - k)/s, m <= k - 1", "h-1-s*n-m", false, PROVED},
      {"k <= h, n <= (h - k)/s, m <= k - 1", "h-2-s*n-m", false, OPEN},
      {"k <= h, n <= (h - k)/2, m <= k - 1", "h-1-2*n-m", false, PROVED},
      {"n <= m - 1, m <= n - 1", "5", false, PROVED},
      /* upsampling, unflattening, splitting */
      {"n <= k*h - 1", "h-1-n/k", false, PROVED},
      {"n <= k*h - 1", "h-2-n/k", false, OPEN},
      {"n <= 2*h - 1", "h-1-n/2", false, PROVED},
      {"n <= (m - 1)/s", "m-1-n*s", false, PROVED},
      {"h%k == 0, 1 <= h", "h/k-1", false, PROVED},
      {"h%k == 0", "h/k*k*m-h*m", true, PROVED},
      {"h%k == 0, h == 2*k", "h/k-2", true, PROVED},
      {"h == 28", "(h-3+1)/2-13", true, PROVED},
      {"h == 28", "h-29", false, REFUTED},
      {"n == m", "n*k-m*k", true, PROVED},
      {"n*m == 6", "n*m-7", true, REFUTED},
      {"prod(s) == 6*n", "prod(s)/2-3*n", true, PROVED},
      {"prod(s) == 6*n", "prod(s)-n", false, PROVED},
      {"n == 2*m, n == 2*k + 1", "m", false, PROVED},
      {"v == n", "v", false, PROVED},
      {"n == v", "v", false, PROVED},
      {"v <= n", "v", false, OPEN},
  };
  for (size_t i = 0; i < ARRAY_LEN(table); i++) {
    dim_facts_reset(w->facts, 0);
    facts_of(table[i].facts);
    Dim *d = read_dim(table[i].claim);
    Verdict got = table[i].eq ? dim_eq0(w->facts, d, true)
                              : dim_ge0(w->facts, d, true);
    if (got != table[i].want)
      fail_msg("%s |- %s: %d, want %d", table[i].facts, table[i].claim, got,
               table[i].want);
  }
}

static void test_at_least_one(void **state) {
  (void)state;
  assert_int_equal(dim_eq0(w->facts, w->v[0], false), OPEN);
  assert_int_equal(dim_eq0(w->facts, w->v[0], true), REFUTED);
  assert_int_equal(dim_ge0(w->facts, read_dim("0-n*m"), false), OPEN);
  assert_int_equal(dim_ge0(w->facts, read_dim("0-n*m"), true), REFUTED);
  fact("n", "=", "m+3");
  assert_int_equal(dim_ge0(w->facts, read_dim("3-n"), false), OPEN);
  assert_int_equal(dim_ge0(w->facts, read_dim("3-n"), true), REFUTED);
  assert_int_equal(dim_ge0(w->facts, read_dim("2-n"), false), REFUTED);
  w->vars[0]->kind = DV_INDEX; /* an index may be 0 */
  dim_facts_reset(w->facts, 0);
  assert_int_equal(dim_eq0(w->facts, w->v[0], true), OPEN);
}

static void test_marks(void **state) {
  (void)state;
  DimFacts *facts = w->facts;
  fact("k", "<", "n");
  uint32_t mark = dim_facts_mark(facts);
  assert_false(dim_facts_contradictory(facts));
  fact("n", "<", "k-1");
  assert_true(dim_facts_contradictory(facts));
  dim_facts_reset(facts, mark);
  assert_false(dim_facts_contradictory(facts));
  assert_int_equal(dim_ge0(facts, read_dim("n-k"), true), PROVED);
  dim_facts_reset(facts, 0);
  assert_int_equal(dim_ge0(facts, read_dim("n-k"), true), OPEN);
  fact("2*n", "=", "2*m+1");
  assert_true(dim_facts_contradictory(facts));
  dim_facts_reset(facts, 0);
  fact("1", "<", "0");
  assert_true(dim_facts_contradictory(facts));
}

/* What contradicted nothing is not asked again, wherever facts are added. */
static void test_contradictions_with_new_facts(void **state) {
  (void)state;
  static const struct {
    const char *facts;
    bool want;
  } table[] = {
      {"k+1 <= n, m+1 <= k", false},
      {"h <= m, k+1 <= n, m+1 <= k", false}, /* a new one at the start */
      {"n <= m, k+1 <= n, m+1 <= k", true},
      {"k+1 <= n, m+1 <= k, n <= m", true},  /* at the end */
      {"k+1 <= n, n <= m, m+1 <= k", true},  /* between */
      {"k+1 <= n, m+1 <= k", false},         /* gone again */
      {"n <= m, m+1 <= k", false},           /* another in its place */
      {"k+1 <= n, m+1 <= k, 1 <= m", false},
      {"k+1 <= n, m+1 <= k, n <= 1", true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    dim_facts_reset(w->facts, 0);
    facts_of(table[i].facts);
    assert_int_equal(dim_facts_contradictory(w->facts), table[i].want);
  }
  /* The same polynomial, now an equation. */
  dim_facts_reset(w->facts, 0);
  fact("1", "<", "n");
  dim_facts_add_ge(w->facts, w->v[0]);
  assert_false(dim_facts_contradictory(w->facts));
  dim_facts_reset(w->facts, 0);
  fact("1", "<", "n");
  dim_facts_add_eq(w->facts, w->v[0]);
  assert_true(dim_facts_contradictory(w->facts));
}

/* Facts about a meta follow its solution. */
static void test_facts_of_metas(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  DimVar *a = meta();
  dim_facts_add_ge(w->facts,
                   dim_sub(cx, dim_of_var(cx, a), dim_int(cx, 3)));
  assert_int_equal(dim_ge0(w->facts, read_dim("n-3"), true), OPEN);
  a->bound = w->v[0];
  cx->solved++;
  assert_int_equal(dim_ge0(w->facts, read_dim("n-3"), true), PROVED);
}

static bool facts_hold(Dim *const *facts, const bool *eqs, int count,
                       const int64_t *env) {
  for (int i = 0; i < count; i++) {
    Big value;
    if (!dim_value(facts[i], env, &value) || (eqs[i] ? value != 0 : value < 0))
      return false;
  }
  return true;
}

typedef struct Claim {
  Dim *facts[6], *goal;
  bool eqs[6], eq;
  bool at_least_one;
  int count;
} Claim;

/* Whether a verdict agrees with every point of a box. */
static void check_box(const Claim *c, Verdict verdict, bool contradictory,
                      int vars) {
  int64_t env[VARS] = {0};
  for (int code = 0; code < (vars == 2 ? 144 : 343); code++) {
    int side = vars == 2 ? 12 : 7, rest = code;
    bool ones = true;
    for (int i = 0; i < vars; i++, rest /= side) {
      int slot = i == vars - 1 ? VARS - 1 : i; /* the last may be negative */
      env[slot] = rest % side - (slot == VARS - 1 ? side / 2 : 0);
      ones &= slot == VARS - 1 || env[slot] >= 1;
    }
    Big value;
    if (!dim_value(c->goal, env, &value) ||
        !facts_hold(c->facts, c->eqs, c->count, env))
      continue;
    bool holds = c->eq ? value == 0 : value >= 0;
    if (contradictory || (verdict == PROVED && !holds) ||
        (verdict == REFUTED && holds && (ones || !c->at_least_one))) {
      for (int i = 0; i < c->count; i++)
        print_message("fact %s %s 0\n", show_dim(c->facts[i]),
                      c->eqs[i] ? "==" : ">=");
      fail_msg("%s %s 0 is not %d at %ld %ld %ld", show_dim(c->goal),
               c->eq ? "==" : ">=", verdict, (long)env[0], (long)env[1],
               (long)env[VARS - 1]);
    }
  }
}


static Dim *to_few(void *arg, DimVar *var) {
  int vars = *(int *)arg, i = var_index(var) % vars;
  return i == vars - 1 ? w->v[VARS - 1] : w->v[i];
}

/* About a few variables, so that facts meet. */
static Dim *random_claim(int vars) {
  Dim *d = expr_dim(expr_random(1 + (int)pick(3), VARS));
  return dim_subst(&w->cx, d, to_few, NULL, &vars);
}

static void test_soundness(void **state) {
  (void)state;
  seed = 7;
  int counts[3] = {0};
  for (int round = 0; round < 5000; round++) {
    if (round % 100 == 99)
      fresh_world();
    int vars = 2 + (int)pick(2);
    Claim c = {.count = (int)pick(4), .eq = pick(2), .at_least_one = pick(4)};
    dim_facts_reset(w->facts, 0);
    for (int i = 0; i < c.count; i++) {
      c.eqs[i] = !pick(3);
      c.facts[i] = random_claim(vars);
      if (c.eqs[i])
        dim_facts_add_eq(w->facts, c.facts[i]);
      else
        dim_facts_add_ge(w->facts, c.facts[i]);
    }
    c.goal = random_claim(vars);
    Verdict verdict = c.eq ? dim_eq0(w->facts, c.goal, c.at_least_one)
                           : dim_ge0(w->facts, c.goal, c.at_least_one);
    counts[verdict]++;
    check_box(&c, verdict, dim_facts_contradictory(w->facts), vars);
  }
  /* The test means something only if all three occur. */
  assert_true(counts[OPEN] > 300 && counts[PROVED] > 300 &&
              counts[REFUTED] > 300);
}

/* Linear systems with few solutions, where elimination works hardest. */
static void test_soundness_linear(void **state) {
  (void)state;
  seed = 8;
  int decided = 0;
  for (int round = 0; round < 4000; round++) {
    if (round % 200 == 199)
      fresh_world();
    Claim c = {.count = 3 + (int)pick(4), .eq = !pick(4)};
    dim_facts_reset(w->facts, 0);
    for (int i = 0; i <= c.count; i++) {
      Dim *d = dim_int(&w->cx, (int64_t)pick(15) - 7);
      for (int j = 0; j < 3; j++)
        d = dim_add(&w->cx, d,
                    dim_mul(&w->cx, w->v[j == 2 ? VARS - 1 : j],
                            dim_int(&w->cx, (int64_t)pick(11) - 5)));
      if (i == c.count) {
        c.goal = d;
        break;
      }
      c.facts[i] = d;
      c.eqs[i] = !pick(5);
      if (c.eqs[i])
        dim_facts_add_eq(w->facts, d);
      else
        dim_facts_add_ge(w->facts, d);
    }
    Verdict verdict = c.eq ? dim_eq0(w->facts, c.goal, false)
                           : dim_ge0(w->facts, c.goal, false);
    decided += verdict != OPEN;
    check_box(&c, verdict, dim_facts_contradictory(w->facts), 3);
  }
  assert_true(decided > 400);
}

/* ---- witnesses ---- */

static void expect_witness(const char *facts, const char *claim, bool eq,
                           const char *want) {
  Buffer out = {0};
  dim_facts_reset(w->facts, 0);
  facts_of(facts);
  bool found = dim_witness(w->facts, read_dim(claim), eq, &out);
  if (found != (want != NULL) || (found && strcmp(out.text, want)))
    fail_msg("%s |- %s: %s", facts, claim, found ? out.text : "none");
  buffer_free(&out);
}

static void test_witness(void **state) {
  (void)state;
  expect_witness("", "n - m", true, "n = 2, m = 1");
  expect_witness("", "8*(n/8) - n", true, "n = 1");
  expect_witness("8 <= n", "8*(n/8) - n", true, "n = 9");
  expect_witness("n % 8 == 0", "n - 16", true, "n = 8");
  expect_witness("350 <= h", "h - 351", false, "h = 350");
  expect_witness("n == m", "n - m", true, NULL);
  expect_witness("n == 2*m, 5 <= n", "n - 6", true, "n = 8");
  expect_witness("n <= m - 1, m <= n - 1", "n", false, NULL);
  expect_witness("", "prod(s) - n", true, "n = 2, prod(s) = 1");
  expect_witness("", "v", false, "v = -1");
  expect_witness("", "3", true, NULL);
}

static void check_witness(const char *text, const Dim *d, bool eq) {
  int64_t env[VARS] = {0};
  char name;
  long value;
  int used;
  for (const char *p = text;
       sscanf(p, " %c = %ld%n", &name, &value, &used) == 2;
       p += used + (p[used] == ',')) {
    int i = 0;
    while (*names[i] != name)
      i++;
    env[i] = value;
  }
  Big got;
  assert_true(dim_value(d, env, &got));
  assert_true(eq ? got != 0 : got < 0);
}

/* A witness breaks the claim; what is proved has none. */
static void test_random_witness(void **state) {
  (void)state;
  seed = 9;
  int found = 0;
  for (int round = 0; round < 400; round++) {
    if (round % 50 == 49)
      fresh_world();
    Dim *d = expr_dim(expr_random(2, VARS));
    bool eq = pick(2);
    Buffer out = {0};
    if (dim_witness(w->facts, d, eq, &out)) {
      check_witness(out.text, d, eq);
      Verdict verdict =
          eq ? dim_eq0(w->facts, d, true) : dim_ge0(w->facts, d, true);
      assert_int_not_equal(verdict, PROVED);
      found++;
    }
    buffer_free(&out);
  }
  assert_true(found > 100);
}

/* Many facts about others do not matter, nor do they crowd out its own. */
static void test_many_facts(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  for (int i = 0; i < 3000; i++) {
    Dim *a = dim_of_var(cx, dim_new_var(cx, DV_RIGID, NULL, (Span){0}));
    Dim *b = dim_of_var(cx, dim_new_var(cx, DV_RIGID, NULL, (Span){0}));
    dim_facts_add_ge(w->facts, dim_sub(cx, a, b));
  }
  fact("k", "<", "h");
  for (int i = 0; i < 200; i++)
    assert_int_equal(dim_ge0(w->facts, read_dim("(h-k)/s"), true), PROVED);
}

/* A query whose substitution explodes is open, without a complaint. */
static void test_limit_in_query(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  w->cx.too_big = complain;
  complaints = 0;
  Dim *d = w->v[0];
  for (int i = 0; i < 5; i++)
    d = dim_mul(cx, d, d);
  Dim *fact = dim_sub(cx, w->v[0], read_dim("m*m + k*m + h*s + s*k + b*m + 7"));
  dim_facts_add_eq(w->facts, fact);
  assert_int_equal(dim_ge0(w->facts, dim_sub(cx, d, w->v[1]), true), OPEN);
  assert_int_equal(complaints, 0);
  assert_int_equal(dim_ge0(w->facts, read_dim("n - m*k - 7"), true), PROVED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_verdicts),
      TEST(test_at_least_one),
      TEST(test_marks),
      TEST(test_contradictions_with_new_facts),
      TEST(test_facts_of_metas),
      TEST(test_soundness),
      TEST(test_soundness_linear),
      TEST(test_witness),
      TEST(test_random_witness),
      TEST(test_many_facts),
      TEST(test_limit_in_query),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
