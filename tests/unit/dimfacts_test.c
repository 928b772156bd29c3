/* Tests the solver for sizes: verdicts against tables and enumeration,
 * counterexamples, effort. */
#include "dim_world.h"

/* ---- verdicts ---- */

static void fact(const char *left, const char *op, const char *right) {
  Dim *a = read_dim(left), *b = read_dim(right);
  if (*op == '=')
    assumptions_add_eq(w->facts, dim_sub(&w->cx, a, b));
  else
    assumptions_add_ge(w->facts, dim_sub(&w->cx, b, a)); /* left <= right */
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
      {"", "5", false, ENTAILED},
      {"", "0-1", false, CONTRADICTED},
      {"", "0", true, ENTAILED},
      {"", "3", true, CONTRADICTED},
      {"", "n", false, ENTAILED},
      {"", "n+m*k", false, ENTAILED},
      {"", "n-1", false, UNDECIDED},
      {"", "0-n", false, CONTRADICTED},
      {"", "1-n", false, UNDECIDED},
      {"", "0-1-n", false, CONTRADICTED},
      {"", "n-m", true, UNDECIDED},
      {"", "n-m", false, UNDECIDED},
      {"", "n+1", true, CONTRADICTED},
      {"", "n", true, CONTRADICTED},
      {"", "v", true, UNDECIDED},
      {"", "v", false, UNDECIDED},
      {"", "v*v", false, ENTAILED},
      {"", "2*n-3", true, CONTRADICTED},
      {"", "2*n-4", true, UNDECIDED},
      {"", "2*v-3", true, CONTRADICTED},
      {"", "2*n+4*m-7", true, CONTRADICTED},
      {"", "n*n-n", false, ENTAILED},
      {"", "n*m-n", false, UNDECIDED},
      {"", "(n+1)/2+n/2-n", true, ENTAILED},
      {"", "n/2*2-n", true, UNDECIDED},
      {"", "8*(n/8)-n", true, UNDECIDED},
      {"", "8*(n/8)-n", false, UNDECIDED},
      {"", "n-8*(n/8)", false, ENTAILED},
      {"", "7-n%8", false, ENTAILED},
      {"", "n/2-n/3", false, ENTAILED},
      {"", "n-n/2", false, ENTAILED},
      {"", "n/k", false, ENTAILED},
      {"", "n-n/k", false, ENTAILED},
      {"", "n%k", false, ENTAILED},
      {"", "k-1-n%k", false, ENTAILED},
      {"", "n/4*4/4-n/4", true, ENTAILED},
      {"", "n/3+(n+1)/3+(n+2)/3-n", true, ENTAILED},
      {"", "n-min(n,m)", false, ENTAILED},
      {"", "max(n,m)-n", false, ENTAILED},
      {"", "min(n,m)+max(n,m)-n-m", true, ENTAILED},
      {"", "max(n,m)-min(n,k)", false, ENTAILED},
      {"", "max(n-k,0)", false, ENTAILED},
      {"", "min(n-k,0)-1", false, CONTRADICTED},
      {"", "(n+m)/2-min(n,m)", false, ENTAILED},
      {"", "prod(s)", false, ENTAILED},
      {"", "prod(s)*n", false, ENTAILED},
      {"", "v/2", false, UNDECIDED},
      {"", "n-m-99999999999999999999", false, UNDECIDED},
      {"", "n+99999999999999999999", false, ENTAILED},
      {"", "0-n-99999999999999999999", false, CONTRADICTED},
      /* with facts */
      {"n%8 == 0", "8*(n/8)-n", true, ENTAILED},
      {"n%8 == 0", "4*(n/4)-n", true, ENTAILED},
      {"n%4 == 0", "8*(n/8)-n", true, UNDECIDED},
      {"n%8 == 0", "m*8*(n/8)-m*n", true, ENTAILED},
      {"n == 8*k", "n%8", true, ENTAILED},
      {"n == 8*k", "n/4-2*k", true, ENTAILED},
      {"n == 8*k", "n-12", true, CONTRADICTED},
      {"n == m", "n-m", true, ENTAILED},
      {"n == m, m == k", "n-k", true, ENTAILED},
      {"n == m+1", "n-1", false, ENTAILED},
      {"n == m+1", "n-m", true, CONTRADICTED},
      {"n+m == 3*k", "n+m-3", false, UNDECIDED},
      {"k <= n", "n-k", false, ENTAILED},
      {"k <= n", "n-k-1", false, UNDECIDED},
      {"k <= n", "k-n-1", false, CONTRADICTED},
      {"k <= n, n <= k", "n-k", true, ENTAILED},
      {"k <= n, m <= k", "n-m", false, ENTAILED},
      {"3 <= n", "n-2", false, ENTAILED},
      {"3 <= n", "2-n", false, CONTRADICTED},
      {"3 <= n", "n-2", true, CONTRADICTED},
      {"3 <= 2*n", "n-2", false, ENTAILED},
      {"2*n <= 5", "2-n", false, ENTAILED},
      {"1 <= n", "n*m-m", false, ENTAILED},
      {"1 <= n, 1 <= m", "n*m-1", false, ENTAILED},
      {"1 <= n, 1 <= m, 1 <= k", "n*m*k-m", false, ENTAILED},
      {"1 <= n, 1 <= m", "min(n,m)-1", false, ENTAILED},
      {"1 <= n", "min(n,m)-1", false, UNDECIDED},
      {"1 <= n", "max(n,m)-1", false, ENTAILED},
      {"k <= h", "(h-k)/s", false, ENTAILED},
      {"k <= h", "(h-k)/s+1-1", false, ENTAILED},
      {"k <= h, 1 <= k", "h-(h-k)/s-1", false, ENTAILED},
      {"h <= k - 1", "(h-k)/2", false, CONTRADICTED},
      {"n <= m - 1", "n/m", true, ENTAILED},
      {"n <= m - 1", "n%m-n", true, ENTAILED},
      {"n <= 3", "n/4", true, ENTAILED},
      {"n <= 3", "n%4-n", true, ENTAILED},
      {"n <= b - 1", "b-1-n", false, ENTAILED},
      /* n, m and k index b x h x s: flat positions are in bounds */
      {"n <= b - 1, m <= h - 1, k <= s - 1", "b*h*s-1-n*h*s-m*s-k", false,
       ENTAILED},
      {"n <= b - 1, m <= h - 1, k <= s - 1", "b*h*s-2-n*h*s-m*s-k", false,
       UNDECIDED},
      /* m and n index a convolution of size (h - k)/s + 1 */
      {"k <= h, n <= (h - k)/s, m <= k - 1", "h-1-s*n-m", false, ENTAILED},
      {"k <= h, n <= (h - k)/s, m <= k - 1", "h-2-s*n-m", false, UNDECIDED},
      {"k <= h, n <= (h - k)/2, m <= k - 1", "h-1-2*n-m", false, ENTAILED},
      {"n <= m - 1, m <= n - 1", "5", false, ENTAILED},
      /* upsampling, unflattening, splitting */
      {"n <= k*h - 1", "h-1-n/k", false, ENTAILED},
      {"n <= k*h - 1", "h-2-n/k", false, UNDECIDED},
      {"n <= 2*h - 1", "h-1-n/2", false, ENTAILED},
      {"n <= (m - 1)/s", "m-1-n*s", false, ENTAILED},
      {"h%k == 0, 1 <= h", "h/k-1", false, ENTAILED},
      {"h%k == 0", "h/k*k*m-h*m", true, ENTAILED},
      {"h%k == 0, h == 2*k", "h/k-2", true, ENTAILED},
      {"h == 28", "(h-3+1)/2-13", true, ENTAILED},
      {"h == 28", "h-29", false, CONTRADICTED},
      {"n == m", "n*k-m*k", true, ENTAILED},
      {"n*m == 6", "n*m-7", true, CONTRADICTED},
      {"prod(s) == 6*n", "prod(s)/2-3*n", true, ENTAILED},
      {"prod(s) == 6*n", "prod(s)-n", false, ENTAILED},
      {"n == 2*m, n == 2*k + 1", "m", false, ENTAILED},
      {"v == n", "v", false, ENTAILED},
      {"n == v", "v", false, ENTAILED},
      {"v <= n", "v", false, UNDECIDED},
  };
  for (size_t i = 0; i < ARRAY_LEN(table); i++) {
    assumptions_backtrack(w->facts, 0);
    facts_of(table[i].facts);
    Dim *d = read_dim(table[i].claim);
    Verdict got = table[i].eq ? dim_check_eq0(w->facts, d, true)
                              : dim_check_ge0(w->facts, d, true);
    if (got != table[i].want)
      fail_msg("%s |- %s: %d, want %d", table[i].facts, table[i].claim, got,
               table[i].want);
  }
}

static void test_at_least_one(void **state) {
  (void)state;
  assert_int_equal(dim_check_eq0(w->facts, w->v[0], false), UNDECIDED);
  assert_int_equal(dim_check_eq0(w->facts, w->v[0], true), CONTRADICTED);
  assert_int_equal(dim_check_ge0(w->facts, read_dim("0-n*m"), false),
                   UNDECIDED);
  assert_int_equal(dim_check_ge0(w->facts, read_dim("0-n*m"), true),
                   CONTRADICTED);
  fact("n", "=", "m+3");
  assert_int_equal(dim_check_ge0(w->facts, read_dim("3-n"), false), UNDECIDED);
  assert_int_equal(dim_check_ge0(w->facts, read_dim("3-n"), true),
                   CONTRADICTED);
  assert_int_equal(dim_check_ge0(w->facts, read_dim("2-n"), false),
                   CONTRADICTED);
  w->vars[0]->kind = DV_INDEX; /* an index may be 0 */
  assumptions_backtrack(w->facts, 0);
  assert_int_equal(dim_check_eq0(w->facts, w->v[0], true), UNDECIDED);
}

static void test_marks(void **state) {
  (void)state;
  Assumptions *facts = w->facts;
  fact("k", "<", "n");
  uint32_t mark = assumptions_mark(facts);
  assert_false(assumptions_inconsistent(facts));
  fact("n", "<", "k-1");
  assert_true(assumptions_inconsistent(facts));
  assumptions_backtrack(facts, mark);
  assert_false(assumptions_inconsistent(facts));
  assert_int_equal(dim_check_ge0(facts, read_dim("n-k"), true), ENTAILED);
  assumptions_backtrack(facts, 0);
  assert_int_equal(dim_check_ge0(facts, read_dim("n-k"), true), UNDECIDED);
  fact("2*n", "=", "2*m+1");
  assert_true(assumptions_inconsistent(facts));
  assumptions_backtrack(facts, 0);
  fact("1", "<", "0");
  assert_true(assumptions_inconsistent(facts));
}

/* A combination that was consistent is not tested again, wherever assumptions
 * are added. */
static void test_contradictions_with_new_facts(void **state) {
  (void)state;
  static const struct {
    const char *facts;
    bool want;
  } table[] = {
      {"k+1 <= n, m+1 <= k", false},
      {"h <= m, k+1 <= n, m+1 <= k", false}, /* a new fact at the start */
      {"n <= m, k+1 <= n, m+1 <= k", true},
      {"k+1 <= n, m+1 <= k, n <= m", true}, /* a fact at the end */
      {"k+1 <= n, n <= m, m+1 <= k", true}, /* a fact in the middle */
      {"k+1 <= n, m+1 <= k", false},        /* without that fact */
      {"n <= m, m+1 <= k", false},          /* another fact instead */
      {"k+1 <= n, m+1 <= k, 1 <= m", false},
      {"k+1 <= n, m+1 <= k, n <= 1", true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    assumptions_backtrack(w->facts, 0);
    facts_of(table[i].facts);
    assert_int_equal(assumptions_inconsistent(w->facts), table[i].want);
  }
  /* The same polynomial, now an equation. */
  assumptions_backtrack(w->facts, 0);
  fact("1", "<", "n");
  assumptions_add_ge(w->facts, w->v[0]);
  assert_false(assumptions_inconsistent(w->facts));
  assumptions_backtrack(w->facts, 0);
  fact("1", "<", "n");
  assumptions_add_eq(w->facts, w->v[0]);
  assert_true(assumptions_inconsistent(w->facts));
}

/* Assumptions about a unification variable apply to its solution. */
static void test_facts_of_metas(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  DimVar *a = meta();
  assumptions_add_ge(w->facts, dim_sub(cx, dim_of_var(cx, a), dim_int(cx, 3)));
  assert_int_equal(dim_check_ge0(w->facts, read_dim("n-3"), true), UNDECIDED);
  a->solution = w->v[0];
  cx->solution_count++;
  assert_int_equal(dim_check_ge0(w->facts, read_dim("n-3"), true), ENTAILED);
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

/* A verdict must agree with every point of a box. */
static void check_box(const Claim *c, Verdict verdict, bool contradictory,
                      int vars) {
  int64_t env[VARS] = {0};
  for (int code = 0; code < (vars == 2 ? 144 : 343); code++) {
    int side = vars == 2 ? 12 : 7, rest = code;
    bool ones = true;
    for (int i = 0; i < vars; i++, rest /= side) {
      int slot =
          i == vars - 1 ? VARS - 1 : i; /* the last size may be negative */
      env[slot] = rest % side - (slot == VARS - 1 ? side / 2 : 0);
      ones &= slot == VARS - 1 || env[slot] >= 1;
    }
    Big value;
    if (!dim_value(c->goal, env, &value) ||
        !facts_hold(c->facts, c->eqs, c->count, env))
      continue;
    bool holds = c->eq ? value == 0 : value >= 0;
    if (contradictory || (verdict == ENTAILED && !holds) ||
        (verdict == CONTRADICTED && holds && (ones || !c->at_least_one))) {
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

/* Claims about a few variables, so that assumptions interact. */
static Dim *random_claim(int vars) {
  Dim *d = expr_dim(expr_random(1 + (int)random_below(3), VARS));
  return dim_subst(&w->cx, d, to_few, NULL, &vars);
}

static void test_soundness(void **state) {
  (void)state;
  seed = 7;
  int counts[3] = {0};
  for (int round = 0; round < 5000; round++) {
    if (round % 100 == 99)
      fresh_world();
    int vars = 2 + (int)random_below(2);
    Claim c = {.count = (int)random_below(4),
               .eq = random_below(2),
               .at_least_one = random_below(4)};
    assumptions_backtrack(w->facts, 0);
    for (int i = 0; i < c.count; i++) {
      c.eqs[i] = !random_below(3);
      c.facts[i] = random_claim(vars);
      if (c.eqs[i])
        assumptions_add_eq(w->facts, c.facts[i]);
      else
        assumptions_add_ge(w->facts, c.facts[i]);
    }
    c.goal = random_claim(vars);
    Verdict verdict = c.eq ? dim_check_eq0(w->facts, c.goal, c.at_least_one)
                           : dim_check_ge0(w->facts, c.goal, c.at_least_one);
    counts[verdict]++;
    check_box(&c, verdict, assumptions_inconsistent(w->facts), vars);
  }
  /* The test means something only if all three occur. */
  assert_true(counts[UNDECIDED] > 300 && counts[ENTAILED] > 300 &&
              counts[CONTRADICTED] > 300);
}

/* Linear systems with few solutions, where elimination works hardest. */
static void test_soundness_linear(void **state) {
  (void)state;
  seed = 8;
  int decided = 0;
  for (int round = 0; round < 4000; round++) {
    if (round % 200 == 199)
      fresh_world();
    Claim c = {.count = 3 + (int)random_below(4), .eq = !random_below(4)};
    assumptions_backtrack(w->facts, 0);
    for (int i = 0; i <= c.count; i++) {
      Dim *d = dim_int(&w->cx, (int64_t)random_below(15) - 7);
      for (int j = 0; j < 3; j++)
        d = dim_add(&w->cx, d,
                    dim_mul(&w->cx, w->v[j == 2 ? VARS - 1 : j],
                            dim_int(&w->cx, (int64_t)random_below(11) - 5)));
      if (i == c.count) {
        c.goal = d;
        break;
      }
      c.facts[i] = d;
      c.eqs[i] = !random_below(5);
      if (c.eqs[i])
        assumptions_add_eq(w->facts, d);
      else
        assumptions_add_ge(w->facts, d);
    }
    Verdict verdict = c.eq ? dim_check_eq0(w->facts, c.goal, false)
                           : dim_check_ge0(w->facts, c.goal, false);
    decided += verdict != UNDECIDED;
    check_box(&c, verdict, assumptions_inconsistent(w->facts), 3);
  }
  assert_true(decided > 400);
}

/* Whether each of the facts follows from the others. */
static uint32_t implied_facts(const Claim *c) {
  uint32_t implied = 0;
  for (int i = 0; i < c->count; i++) {
    assumptions_set_disabled(w->facts, (uint32_t)i, true);
    implied |= (uint32_t)dim_entailed(w->facts, c->facts[i], c->eqs[i]) << i;
    assumptions_set_disabled(w->facts, (uint32_t)i, false);
  }
  return implied;
}

static void test_expected_queries(void **state) {
  (void)state;
  seed = 9;
  int implied = 0, independent = 0;
  for (int round = 0; round < 2000; round++) {
    if (round % 100 == 99)
      fresh_world();
    Claim c = {.count = 2 + (int)random_below(4)};
    assumptions_backtrack(w->facts, 0);
    for (int i = 0; i < c.count; i++) {
      c.facts[i] = random_claim(2 + (int)random_below(3));
      c.eqs[i] = !random_below(6);
      if (c.eqs[i])
        assumptions_add_eq(w->facts, c.facts[i]);
      else
        assumptions_add_ge(w->facts, c.facts[i]);
    }
    if (assumptions_inconsistent(w->facts))
      continue;
    uint32_t without = implied_facts(&c);
    assumptions_expect_queries(w->facts);
    assert_int_equal(implied_facts(&c), without);
    implied += __builtin_popcount(without);
    independent += c.count - __builtin_popcount(without);
  }
  assert_true(implied > 300 && independent > 300);
}

/* ---- counterexamples ---- */

static void expect_witness(const char *facts, const char *claim, bool eq,
                           const char *want) {
  Buffer out = {0};
  assumptions_backtrack(w->facts, 0);
  facts_of(facts);
  bool found = dim_counterexample(w->facts, read_dim(claim), eq, &out);
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

/* A counterexample violates the claim; a proved claim has none. */
static void test_random_witness(void **state) {
  (void)state;
  seed = 9;
  int found = 0;
  for (int round = 0; round < 400; round++) {
    if (round % 50 == 49)
      fresh_world();
    Dim *d = expr_dim(expr_random(2, VARS));
    bool eq = random_below(2);
    Buffer out = {0};
    if (dim_counterexample(w->facts, d, eq, &out)) {
      check_witness(out.text, d, eq);
      Verdict verdict = eq ? dim_check_eq0(w->facts, d, true)
                           : dim_check_ge0(w->facts, d, true);
      assert_int_not_equal(verdict, ENTAILED);
      found++;
    }
    buffer_free(&out);
  }
  assert_true(found > 100);
}

/* Many irrelevant assumptions do not displace the relevant ones. */
static void test_many_facts(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  for (int i = 0; i < 3000; i++) {
    Dim *a = dim_of_var(cx, dim_new_var(cx, DV_SKOLEM, NULL, (Span){0}));
    Dim *b = dim_of_var(cx, dim_new_var(cx, DV_SKOLEM, NULL, (Span){0}));
    assumptions_add_ge(w->facts, dim_sub(cx, a, b));
  }
  fact("k", "<", "h");
  for (int i = 0; i < 200; i++)
    assert_int_equal(dim_check_ge0(w->facts, read_dim("(h-k)/s"), true),
                     ENTAILED);
}

/* Queries that differ only in the names of variables have one verdict.  Others
   have their own: v may be negative. */
static void test_renamed_queries(void **state) {
  (void)state;
  static const struct {
    const char *facts, *claim;
    Verdict want;
  } table[] = {
      {"n <= m", "m*k - n*k", ENTAILED},
      {"h <= s", "s*b - h*b", ENTAILED},
      {"n <= m", "m*v - n*v", UNDECIDED},
      {"m <= n", "m*k - n*k", UNDECIDED},
      {"n <= m", "m*k - n*k - 1", UNDECIDED},
      {"n + 1 <= m", "m*k - n*k - 1", UNDECIDED},
      {"n + 1 <= m, 1 <= k", "m*k - n*k - 1", ENTAILED},
      {"h + 1 <= s", "s*b - h*b - 1", UNDECIDED},
      {"", "v/m", UNDECIDED},
      {"3 <= v", "v/m", ENTAILED},
      {"", "v/k", UNDECIDED},
  };
  for (int twice = 0; twice < 2; twice++)
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
      assumptions_backtrack(w->facts, 0);
      facts_of(table[i].facts);
      Verdict got = dim_check_ge0(w->facts, read_dim(table[i].claim), false);
      if (got != table[i].want)
        fail_msg("%s: %s is %d", table[i].facts, table[i].claim, (int)got);
    }
}

/* A query whose substitution grows too large is undecided, without an error. */
static void test_limit_in_query(void **state) {
  (void)state;
  DimCtx *cx = &w->cx;
  w->cx.limit_exceeded = report_complaint;
  complaints = 0;
  Dim *d = w->v[0];
  for (int i = 0; i < 5; i++)
    d = dim_mul(cx, d, d);
  Dim *fact = dim_sub(cx, w->v[0], read_dim("m*m + k*m + h*s + s*k + b*m + 7"));
  assumptions_add_eq(w->facts, fact);
  assert_int_equal(dim_check_ge0(w->facts, dim_sub(cx, d, w->v[1]), true),
                   UNDECIDED);
  assert_int_equal(complaints, 0);
  assert_int_equal(dim_check_ge0(w->facts, read_dim("n - m*k - 7"), true),
                   ENTAILED);
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
      TEST(test_expected_queries),
      TEST(test_witness),
      TEST(test_random_witness),
      TEST(test_many_facts),
      TEST(test_renamed_queries),
      TEST(test_limit_in_query),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
