/* Tests random attention-like graphs: two matrix products with weights of rows
 * between them, with all layouts, masks, score functions and sizes.  Compares
 * the backend that AXON_TARGET names with the same graph in f64.
 *
 *   tests/unit/between_test [SEED [COUNT]]
 *
 * Prints how many graphs were one kernel, if the backend supports that. */
#include "tests/unit/tested.h"

#include <stdio.h>

/* ---- random choices ---- */

typedef enum Weight {
  SOFTMAX,
  SOFTMAX_WIDE, /* in f32, then rounded */
  EXPONENTS,    /* without subtracting the maximum */
  SIGMOID,
  SQUARES, /* of positive values */
  WEIGHTS,
} Weight;

typedef enum Mask {
  NO_MASK,
  CAUSAL,
  BAND,    /* shows the last few terms */
  STORED,  /* stored in a tensor */
  PADDING, /* shows the first few terms */
  BLOCKS,  /* shows blocks on the diagonal */
  MASKS,
} Mask;

typedef struct Case {
  uint64_t state;
  Dtype t;
  int64_t b, h, r, n, m, d, e; /* h heads of keys, each for r heads of rows */
  Weight weight;
  Mask mask;
  int64_t by;    /* width of the mask */
  double hidden; /* value of hidden scores */
  bool negated;  /* the mask selects hidden scores */
  bool cap, bias, distance, transposed, apart, gate, over;
  int odd; /* 1, 2: one element of v, of q is not finite; 0: none */
  double scale;
} Case;

static uint32_t draw(Case *c, uint32_t n) {
  c->state = c->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(c->state >> 33) % n;
}

/* Sometimes too small for tiles. */
static int64_t size(Case *c) {
  static const uint8_t small[] = {1, 2, 3, 5, 8, 15};
  static const uint8_t large[] = {16, 17, 31, 33, 40, 63, 64, 65, 100, 129};
  return draw(c, 5) == 0 ? small[draw(c, ARRAY_LEN(small))]
                         : large[draw(c, ARRAY_LEN(large))];
}

static Case drawn(uint64_t seed) {
  static const double hides[] = {-INFINITY, -INFINITY, -10000, -3};
  Case c = {.state = seed * 7919 + 17};
  draw(&c, 2);
  c.t = draw(&c, 2) ? DT_BF16 : DT_F16;
  c.b = 1 + draw(&c, 2);
  c.h = 1 + draw(&c, 2);
  c.r = 1 + draw(&c, 3) % 2 * draw(&c, 4);
  c.n = size(&c);
  c.m = size(&c);
  c.d = draw(&c, 3) ? 8 * (1 + draw(&c, 8)) : 8 + draw(&c, 90);
  c.e = draw(&c, 3) ? 8 * (1 + draw(&c, 8)) : 1 + draw(&c, 90);
  if (draw(&c, 20) == 0)
    c.m = 0;
  c.weight = draw(&c, 2) ? SOFTMAX : (Weight)draw(&c, WEIGHTS);
  c.mask = (Mask)draw(&c, MASKS);
  c.by = 1 + draw(&c, 40);
  c.hidden = c.weight <= EXPONENTS ? hides[draw(&c, ARRAY_LEN(hides))] : 0;
  c.negated = draw(&c, 3) == 0;
  c.cap = draw(&c, 4) == 0;
  c.bias = draw(&c, 4) == 0;
  c.distance = draw(&c, 4) == 0;
  c.transposed = draw(&c, 4) == 0;
  c.apart = draw(&c, 2);
  c.gate = draw(&c, 4) == 0;
  c.over = draw(&c, 2);
  c.odd = draw(&c, 4) ? 0 : 1 + (int)draw(&c, 2);
  c.scale = c.over ? 2 * sqrt((double)c.d) : 0.5 / sqrt((double)c.d);
  return c;
}

/* ---- as a graph ---- */

static Node *fresh(Case *c, bool wide, uint32_t rank, const int64_t *shape,
                   bool odd) {
  static const double none[] = {NAN, INFINITY, -INFINITY};
  Tensor *x = tensor_new(c->t, rank, shape, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(num(c->t, ((double)draw(c, 256) - 128) / 64), tensor_at(x, i));
  uint32_t which = draw(c, 1 << 20), what = draw(c, 3);
  if (odd && x->count)
    scalar_store(num(c->t, none[what]), tensor_at(x, which % x->count));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return wide ? convert(n, DT_F64) : n;
}

static Node *einsum2(const char *x, const char *y, const char *to, Node *a,
                     Node *b) {
  uint8_t letters[3][8];
  const char *const words[] = {x, y, to};
  for (uint32_t k = 0; k < 3; k++)
    for (uint32_t j = 0; words[k][j]; j++)
      letters[k][j] = (uint8_t)(words[k][j] - 'a');
  return keep(node_einsum(&g, 2, (Node *[]){a, b},
                          (const uint8_t *[]){letters[0], letters[1]},
                          (uint32_t)strlen(to), letters[2], &fault));
}

static Node *exp_of(Node *x) {
  return op1(PRIM_EXP, x);
}

/* Which scores are kept (negated: hidden), by row and term. */
static Node *shown(Case *c) {
  if (c->mask == STORED) {
    Tensor *x = tensor_new(DT_BOOL, 2, (int64_t[]){c->n, c->m}, false, &fault);
    assert_non_null(x);
    for (int64_t i = 0; i < x->count; i++)
      scalar_store(num(DT_BOOL, draw(c, 3) != 0), tensor_at(x, i));
    Node *n = keep(node_data(&g, x));
    tensor_release(x);
    return n;
  }
  IndexVar *i = var(c->n), *j = var(c->m);
  Node *x = index_of(i), *y = index_of(j), *is;
  if (c->mask == PADDING)
    is = op2(PRIM_LT, y, integer(c->by));
  else if (c->mask == BLOCKS)
    is = op2(PRIM_EQ, op2(PRIM_DIV, x, integer(c->by)),
             op2(PRIM_DIV, y, integer(c->by)));
  else
    is = op2(PRIM_LE, y, x);
  if (c->mask == BAND)
    is = op2(PRIM_AND, is, op2(PRIM_LT, op2(PRIM_SUB, x, y), integer(c->by)));
  if (c->negated)
    is = op1(PRIM_NOT, is);
  return close2(is, i, j);
}

static Node *distances(Case *c, Dtype t) {
  IndexVar *i = var(c->n), *j = var(c->m);
  Node *x = op2(PRIM_SUB, index_of(i), index_of(j));
  x = mul(convert(op1(PRIM_ABS, x), t), constant(t, -0.0625));
  return close2(x, i, j);
}

static Node *scores_of(Case *c, Node *s) {
  Dtype t = s->dtype;
  s = op2(c->over ? PRIM_DIV : PRIM_MUL, s,
          keep(node_scalar(&g, num(t, value_of(num(c->t, c->scale))))));
  if (c->cap)
    s = mul(op1(PRIM_TANH, s), constant(t, 2));
  if (c->bias)
    s = add(s, convert(fresh(c, false, 2, (int64_t[]){c->n, c->m}, false), t));
  if (c->distance)
    s = add(s, distances(c, t));
  if (c->mask == NO_MASK)
    return s;
  Node *is = shown(c), *rest = keep(node_scalar(&g, num(t, c->hidden)));
  Node *args[] = {is, c->negated ? rest : s, c->negated ? s : rest};
  return keep(node_map(&g, PRIM_SELECT, 3, args, DT_NONE, &fault));
}

static Node *weights_of(Case *c, Node *s) {
  Dtype t = s->dtype;
  uint32_t last = s->rank - 1;
  Node *one = constant(t, 1), *e;
  switch (c->weight) {
  case SOFTMAX_WIDE:
    if (t != DT_F64)
      s = convert(s, DT_F32);
    /* fallthrough */
  case SOFTMAX:
    e = exp_of(op2(PRIM_SUB, s, reduce(PRIM_MAX, s, last, 1, true)));
    break;
  case EXPONENTS:
    e = exp_of(s);
    break;
  case SIGMOID:
    return op2(PRIM_DIV, one, add(one, exp_of(op1(PRIM_NEG, s))));
  case SQUARES:
    s = op2(PRIM_MAXIMUM, s, constant(t, 0));
    return mul(s, s);
  case WEIGHTS:
  default:
    return s;
  }
  e = op2(PRIM_DIV, e, reduce(PRIM_SUM, e, last, 1, true));
  return t == DT_F64 ? e : convert(e, t);
}

/* size: the sum of the absolute terms, in f64. */
static Node *made(Case c, bool wide, bool sizes) {
  int64_t q[] = {c.b, c.h, c.r, c.n, c.d}, far[] = {c.b, c.n, c.h, c.r, c.d};
  int64_t k[] = {c.b, c.h, c.m, c.d}, k_transposed[] = {c.b, c.h, c.d, c.m};
  int64_t k_far[] = {c.b, c.m, c.h, c.d};
  int64_t v[] = {c.b, c.h, c.m, c.e}, v_far[] = {c.b, c.m, c.h, c.e};
  Node *a = fresh(&c, wide, 5, c.apart ? far : q, c.odd == 2);
  Node *b = fresh(&c, wide, 4,
                  c.transposed ? k_transposed
                  : c.apart    ? k_far
                               : k,
                  false);
  Node *w = fresh(&c, wide, 4, c.apart ? v_far : v, c.odd == 1);
  Node *s = einsum2(c.apart ? "bnhrd" : "bhrnd",
                    c.transposed ? "bhdm"
                    : c.apart    ? "bmhd"
                                 : "bhmd",
                    "bhrnm", a, b);
  Node *p = weights_of(&c, scores_of(&c, s));
  if (sizes) {
    p = op1(PRIM_ABS, p);
    if (c.weight == SQUARES) /* of a difference */
      p = add(p, constant(DT_F64, 1));
    w = op1(PRIM_ABS, w);
  }
  Node *out = einsum2("bhrnm", c.apart ? "bmhe" : "bhme",
                      c.apart ? "bnhre" : "bhrne", p, w);
  if (c.gate) {
    Node *by = fresh(&c, wide, 1, &c.e, false);
    out = mul(out, sizes ? op1(PRIM_ABS, by) : by);
  }
  return out;
}

/* The share of a sum that rounding errors may reach. */
static double part_of(const Case *c) {
  double unit = c->t == DT_BF16 ? 0x1p-8 : 0x1p-11;
  double most = (c->bias ? 2 : 0) + (c->distance ? 8 : 0) + 4;
  if (c->weight == SQUARES)
    most *= 2;
  return unit * (12 + 6 * most);
}

static void show(const Case *c, uint64_t seed) {
  print_error(
      "seed %d: %s b %d h %d r %d n %d m %d d %d e %d weight %d mask "
      "%d by %d hidden %g negated %d cap %d bias %d distance %d transposed "
      "%d apart %d gate %d over %d odd %d\n",
      (int)seed, dtype_info[c->t].name, (int)c->b, (int)c->h, (int)c->r,
      (int)c->n, (int)c->m, (int)c->d, (int)c->e, (int)c->weight, (int)c->mask,
      (int)c->by, c->hidden, c->negated, c->cap, c->bias, c->distance,
      c->transposed, c->apart, c->gate, c->over, c->odd);
}

static bool check(uint64_t seed) {
  Case c = drawn(seed);
  const Backend counting = counting_backend();
  uint32_t before = fused_attention_count;
  g.backend = &counting;
  Node *got = made(c, false, false);
  must_force(got);
  if (getenv("AXON_SHOW") && fused_attention_count == before)
    show(&c, seed);
  g.backend = &backend_reference;
  Node *want = made(c, true, false), *terms = made(c, true, true);
  must_force(want);
  must_force(terms);
  bool good = true;
  for (int64_t i = 0; good && i < got->data->count; i++) {
    double x = element_at(got, i), y = element_at(want, i),
           z = element_at(terms, i);
    if (same_value(x, y) || fabs(x - y) <= part_of(&c) * z + 1e-6)
      continue;
    show(&c, seed);
    print_error("element %d of %d: %g, not %g +- %g\n", (int)i,
                (int)got->data->count, x, y, part_of(&c) * z);
    good = false;
  }
  release_kept();
  graph_clear_caches(&g);
  while (var_count)
    index_var_release(vars[--var_count]);
  return good;
}

static void test_rows(void **state) {
  (void)state;
  check_seeds(check, "are one kernel");
}

int main(int argc, char **argv) {
  parse_seeds(argc, argv, 12);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
