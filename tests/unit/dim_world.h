/* Common parts of the tests of size/: a set of variables, a parser of printed
 * sizes, and random expressions with their values. */
#ifndef AXON_TESTS_UNIT_DIM_WORLD_H
#define AXON_TESTS_UNIT_DIM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "size/dim.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/span.h"

enum { VARS = 7 }; /* the last one may be negative */

typedef struct World {
  DimCtx cx;
  Assumptions *facts;
  DimVar *vars[VARS];
  Dim *v[VARS];
  int prod; /* address of the one shape variable */
  Dim *prod_solution;
} World;

static World *w; /* state of the running test */
static const char *const names[VARS] = {"n", "m", "k", "h", "s", "b", "v"};

static inline Dim *shape_prod(void *owner, ShapeVar *var) {
  World *world = owner;
  return (void *)var == (void *)&world->prod ? world->prod_solution : NULL;
}

static const char *shape_name(void *owner, ShapeVar *var) {
  (void)owner;
  (void)var;
  return "s";
}

static inline uint32_t shape_id(void *owner, ShapeVar *var) {
  (void)owner;
  (void)var;
  return 0;
}

static inline void world_fill(World *world) {
  world->facts = assumptions_new(&world->cx);
  for (int i = 0; i < VARS; i++) {
    DimVar *var = dim_new_var(&world->cx, DV_SKOLEM, NULL, (Span){0});
    var->printed_name = names[i];
    var->is_integer = i == VARS - 1;
    world->vars[i] = var;
    world->v[i] = dim_of_var(&world->cx, var);
  }
}

static inline int setup(void **state) {
  w = calloc(1, sizeof *w);
  w->cx.arena = arena_new();
  w->cx.owner = w;
  w->cx.shape_product = shape_prod;
  w->cx.shape_name = shape_name;
  w->cx.shape_id = shape_id;
  world_fill(w);
  *state = w;
  return 0;
}

static inline int teardown(void **state) {
  arena_free(w->cx.arena);
  free(w);
  w = *state = NULL;
  return 0;
}

/* ---- parser of printed sizes ---- */

static const char *at; /* the rest of the input */

static inline Dim *parse_sum(void);

static inline void skip_blanks(void) {
  while (*at == ' ')
    at++;
}

static inline bool accept_char(char c) {
  skip_blanks();
  if (*at != c)
    return false;
  at++;
  return true;
}

static inline void require_char(char c) {
  if (!accept_char(c))
    fail_msg("expected '%c' at \"%s\"", c, at);
}

static inline Dim *parse_call(bool min) {
  at += 4;
  Dim *d = parse_sum();
  while (accept_char(','))
    d = min ? dim_min(&w->cx, d, parse_sum()) : dim_max(&w->cx, d, parse_sum());
  require_char(')');
  return d;
}

static inline Dim *parse_factor(void) {
  if (accept_char('(')) {
    Dim *d = parse_sum();
    require_char(')');
    return d;
  }
  if (!strncmp(at, "min(", 4) || !strncmp(at, "max(", 4))
    return parse_call(at[1] == 'i');
  if (!strncmp(at, "prod(s)", 7)) {
    at += 7;
    return dim_of_prod(&w->cx, (ShapeVar *)&w->prod);
  }
  size_t digits = strspn(at, "0123456789");
  if (digits) {
    Dim *d = dim_parse(&w->cx, arena_strndup(w->cx.arena, at, digits));
    at += digits;
    return d;
  }
  for (int i = 0; i < VARS; i++)
    if (*at == *names[i]) {
      at++;
      return w->v[i];
    }
  fail_msg("cannot read \"%s\"", at);
  return NULL;
}

static inline Dim *parse_product(void) {
  Dim *d = parse_factor();
  for (;;) {
    if (accept_char('*'))
      skip_blanks(), d = dim_mul(&w->cx, d, parse_factor());
    else if (accept_char('/'))
      skip_blanks(), d = dim_div(&w->cx, d, parse_factor());
    else if (accept_char('%'))
      skip_blanks(), d = dim_mod(&w->cx, d, parse_factor());
    else
      return d;
  }
}

static inline Dim *parse_sum(void) {
  bool minus = accept_char('-');
  skip_blanks();
  Dim *d = parse_product();
  if (minus)
    d = dim_neg(&w->cx, d);
  for (;;) {
    if (accept_char('+'))
      skip_blanks(), d = dim_add(&w->cx, d, parse_product());
    else if (accept_char('-'))
      skip_blanks(), d = dim_sub(&w->cx, d, parse_product());
    else
      return d;
  }
}

static inline Dim *read_dim(const char *text) {
  at = text;
  Dim *d = parse_sum();
  assert_int_equal(*at, 0);
  return d;
}

static const char *show_dim(const Dim *d) {
  Buffer out = {0};
  dim_print(&w->cx, &out, d);
  const char *text = arena_strndup(w->cx.arena, out.text, out.len);
  buffer_free(&out);
  return text;
}

static inline void expect_print(const char *text, const char *printed) {
  Dim *d = read_dim(text);
  assert_string_equal(show_dim(d), printed);
  assert_true(dim_equal(read_dim(printed), d));
}

static inline void expect_equal(const char *a, const char *b, bool equal) {
  Dim *x = read_dim(a), *y = read_dim(b);
  if (dim_equal(x, y) != equal)
    fail_msg("%s and %s: %s and %s", a, b, show_dim(x), show_dim(y));
}

static inline DimVar *meta(void) {
  return dim_new_var(&w->cx, DV_META, NULL, (Span){0});
}

static int complaints;

static inline void report_complaint(void *owner) {
  (void)owner;
  complaints++;
}

/* ---- random expressions, with evaluation ---- */

typedef __int128 Big;

static uint64_t seed;

static inline uint32_t random_below(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % n;
}

typedef struct Expr {
  char op; /* '#' constant, 'x' variable, + - * / % < > */
  int64_t num;
  struct Expr *a, *b;
} Expr;

static inline Expr *expr_random(int depth, int vars) {
  Expr *e = NEW(w->cx.arena, Expr);
  uint32_t what = depth ? random_below(12) : random_below(3);
  if (what < 1) {
    *e = (Expr){.op = '#', .num = (int64_t)random_below(9) - 2};
  } else if (what < 4) {
    *e = (Expr){.op = 'x', .num = random_below((uint32_t)vars)};
  } else {
    e->op = "++--**//%<>+"[random_below(12)];
    e->a = expr_random(depth - 1, vars);
    e->b = expr_random(depth - 1, vars);
    if ((e->op == '/' || e->op == '%') && random_below(3))
      *e->b = (Expr){.op = '#', .num = 1 + random_below(6)};
  }
  return e;
}

static inline Dim *expr_dim(const Expr *e) {
  DimCtx *cx = &w->cx;
  if (e->op == '#')
    return dim_int(cx, e->num);
  if (e->op == 'x')
    return w->v[e->num];
  Dim *a = expr_dim(e->a), *b = expr_dim(e->b);
  switch (e->op) {
  case '+':
    return dim_add(cx, a, b);
  case '-':
    return dim_sub(cx, a, b);
  case '*':
    return dim_mul(cx, a, b);
  case '/':
    return dim_div(cx, a, b);
  case '%':
    return dim_mod(cx, a, b);
  case '<':
    return dim_min(cx, a, b);
  default:
    return dim_max(cx, a, b);
  }
}

static inline Big big_div(Big a, Big b) {
  return a / b - (a % b < 0);
}

/* Returns false if a divisor is less than 1. */
static inline bool expr_value(const Expr *e, const int64_t *env, Big *out) {
  Big a, b;
  if (e->op == '#' || e->op == 'x') {
    *out = e->op == '#' ? e->num : env[e->num];
    return true;
  }
  if (!expr_value(e->a, env, &a) || !expr_value(e->b, env, &b))
    return false;
  if ((e->op == '/' || e->op == '%') && b < 1)
    return false;
  switch (e->op) {
  case '+':
    *out = a + b;
    return true;
  case '-':
    *out = a - b;
    return true;
  case '*':
    *out = a * b;
    return true;
  case '/':
    *out = big_div(a, b);
    return true;
  case '%':
    *out = a - b * big_div(a, b);
    return true;
  case '<':
    *out = a < b ? a : b;
    return true;
  default:
    *out = a > b ? a : b;
    return true;
  }
}

static inline int var_index(const DimVar *var) {
  for (int i = 0; i < VARS; i++)
    if (w->vars[i] == var)
      return i;
  fail_msg("a variable from nowhere");
  return 0;
}

/* Evaluates the postfix form. */
static inline bool ops_value(const DimOp *ops, uint32_t count,
                             const int64_t *env, Big *out) {
  Big stack[256];
  uint32_t n = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (ops[i].kind == DOP_INT || ops[i].kind == DOP_VAR) {
      assert_true(n < 256);
      stack[n++] =
          ops[i].kind == DOP_INT ? ops[i].num : env[var_index(ops[i].var)];
      continue;
    }
    assert_true(n >= 2);
    Big b = stack[--n], *a = &stack[n - 1];
    switch (ops[i].kind) {
    case DOP_ADD:
      *a += b;
      break;
    case DOP_SUB:
      *a -= b;
      break;
    case DOP_MUL:
      *a *= b;
      break;
    case DOP_DIV:
      if (b < 1)
        return false;
      *a = big_div(*a, b);
      break;
    case DOP_MIN:
      *a = *a < b ? *a : b;
      break;
    default:
      *a = *a > b ? *a : b;
    }
  }
  assert_int_equal(n, 1);
  *out = stack[0];
  return true;
}

static inline bool dim_value(const Dim *d, const int64_t *env, Big *out) {
  uint32_t count;
  DimOp *ops = dim_postfix(&w->cx, d, &count);
  assert_non_null(ops);
  return ops_value(ops, count, env, out);
}

static inline void env_random(int64_t *env, int from, int span) {
  for (int i = 0; i < VARS; i++)
    env[i] =
        from + (int64_t)random_below((uint32_t)span) - (i == VARS - 1 ? 5 : 0);
}

/* Frees what a round used, cached variables included. */
static inline void fresh_world(void) {
  void *state;
  if (w)
    teardown((void **)&state);
  setup(&state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
