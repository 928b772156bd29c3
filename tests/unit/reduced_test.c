/* Tests random matrix products whose rows are reduced, with all types, layouts
 * and sizes, and elementwise operations before the reduction.  Compares the
 * backend that AXON_TARGET names with the same graph in f64.
 *
 *   tests/unit/reduced_test [SEED [COUNT]]
 *
 * Prints how many graphs had a fused kernel, if the backend supports that.  The
 * sums of products are exact, so that tolerances are small. */
#include "tests/unit/tested.h"

#include <stdio.h>

/* ---- random choices ---- */

typedef enum Link { /* an op before the reduction */
                    SCALE,
                    BIAS_COLUMNS,
                    BIAS_ROWS,
                    BIAS_ALL,
                    RELU,
                    TANH,
                    GELU,
                    MASK_INDEX,
                    MASK_STORED,
                    GATHER,
                    LINKS,
} Link;

typedef enum RowReductionKind { /* the reduction of a row */
                                SUM,
                                MAX,
                                MIN,
                                PROD, /* of values near 1 */
                                ARGMAX,
                                ARGMIN,
                                ANY,
                                ALL,
                                COUNT,
                                SQUARES,
                                MEAN,
                                LOGSUMEXP,
                                /* Relative to the row maximum, which may be
                                   infinite. */
                                EXPONENTS,
                                EXPONENTS_WEIGHTED,
                                EXPONENTS_DATA, /* relative to a stored value */
                                LOSS, /* logarithms of row sums, over all rows
                                       */
                                VARIANCE,
                                SOFTMAX,
                                ELEMENTS,
                                KINDS,
} RowReductionKind;

enum { MOST = 4, AXES = 2 };

typedef struct Case {
  uint64_t state;
  Dtype t, e; /* element types of the matmul and of its epilogue */
  uint32_t batches, ms, ns;
  int64_t b, m[AXES], n[AXES], k;
  bool middle, turned_a, turned_b, post;
  Link chain[MOST];
  RowReductionKind kinds[MOST];
  uint32_t links, count;
  double hidden;
  int odd; /* 1, 2: one element of a, of a bias is not finite; 0: none */
} Case;

static uint32_t draw(Case *c, uint32_t n) {
  c->state = c->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(c->state >> 33) % n;
}

static int64_t size(Case *c, bool small) {
  static const uint8_t few[] = {1, 2, 3, 5, 7};
  static const uint16_t many[] = {16, 17, 31, 32,  33,  37, 63,
                                  64, 65, 97, 127, 129, 257};
  return small || draw(c, 9) == 0 ? few[draw(c, ARRAY_LEN(few))]
                                  : many[draw(c, ARRAY_LEN(many))];
}

static Case drawn(uint64_t seed) {
  static const Dtype types[] = {DT_F32, DT_BF16, DT_F16, DT_BF16, DT_F64};
  static const double hides[] = {-INFINITY, -INFINITY, -10000, 0};
  Case c = {.state = seed * 7919 + 29};
  draw(&c, 2);
  c.t = types[draw(&c, ARRAY_LEN(types))];
  c.e = dtype_info[c.t].bytes == 2 && draw(&c, 4) ? DT_F32 : c.t;
  c.batches = draw(&c, 3) == 0;
  c.ms = 1 + (draw(&c, 4) == 0);
  c.ns = 1 + (draw(&c, 4) == 0);
  c.b = c.batches ? 1 + draw(&c, 3) : 1;
  for (uint32_t j = 0; j < AXES; j++) {
    c.m[j] = j < c.ms ? size(&c, j + 1 < c.ms) : 1;
    c.n[j] = j < c.ns ? size(&c, j + 1 < c.ns) : 1;
  }
  c.k = draw(&c, 3) ? 8 * (2 + draw(&c, 8)) : 9 + draw(&c, 70);
  if (draw(&c, 25) == 0)
    c.n[c.ns - 1] = 0;
  if (draw(&c, 40) == 0)
    c.m[0] = 0;
  if (draw(&c, 40) == 0)
    c.k = 0;
  c.middle = draw(&c, 4) == 0;
  c.turned_a = draw(&c, 3) == 0;
  c.turned_b = draw(&c, 3) != 0;
  c.post = draw(&c, 3) == 0;
  c.links = draw(&c, MOST);
  for (uint32_t j = 0; j < c.links; j++)
    c.chain[j] = (Link)draw(&c, LINKS);
  c.count = 1 + draw(&c, MOST);
  /* Reductions that read elements twice prevent a fused kernel: they are rare.
   */
  for (uint32_t j = 0; j < c.count; j++)
    c.kinds[j] = (RowReductionKind)draw(&c, draw(&c, 6) ? VARIANCE : KINDS);
  c.hidden = hides[draw(&c, ARRAY_LEN(hides))];
  c.odd = draw(&c, 4) ? 0 : 1 + (int)draw(&c, 2);
  return c;
}

/* ---- as a graph ---- */

/* Eighths: sums of products of these are exact. */
static Node *fresh(Case *c, bool wide, Shape s, bool odd) {
  static const double none[] = {NAN, INFINITY, -INFINITY};
  Tensor *x = tensor_new(c->t, s.rank, s.at, false, &fault);
  assert_non_null(x);
  x->broadcast_mask = s.broadcast_mask;
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(num(c->t, ((double)draw(c, 25) - 12) / 8), tensor_at(x, i));
  uint32_t which = draw(c, 1 << 20), what = draw(c, 3);
  if (odd && x->count)
    scalar_store(num(c->t, none[what]), tensor_at(x, which % x->count));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return convert(n, wide ? DT_F64 : c->e);
}

static Node *whole(Case *c, Dtype t, Shape s, uint32_t below) {
  Tensor *x = tensor_new(t, s.rank, s.at, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(num(t, draw(c, below)), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

typedef enum Axis { BATCH, ROW, COLUMN } Axis;

typedef struct Layout {
  uint32_t rank, first; /* the first column axis */
  Axis is[6];
  int64_t at[6];
  char letters[7];
} Layout;

static void put_axes(Layout *l, Axis is, uint32_t count, const int64_t *at,
                     const char *letters) {
  for (uint32_t j = 0; j < count; j++) {
    l->is[l->rank] = is;
    l->at[l->rank] = at[j];
    l->letters[l->rank++] = letters[j];
  }
}

static Layout layout(const Case *c) {
  Layout l = {0};
  put_axes(&l, BATCH, c->batches, &c->b, "b");
  if (!c->middle)
    put_axes(&l, ROW, c->ms, c->m, "ij");
  l.first = l.rank;
  put_axes(&l, COLUMN, c->ns, c->n, "uv");
  if (c->middle)
    put_axes(&l, ROW, c->ms, c->m, "ij");
  return l;
}

/* Along rows, or columns; missing axes broadcast. */
static Shape shape_along(const Layout *l, bool rows, bool columns) {
  Shape s = {.rank = l->rank};
  for (uint32_t j = 0; j < l->rank; j++) {
    bool has = l->is[j] == COLUMN ? columns : rows;
    s.at[j] = has ? l->at[j] : 1;
    s.broadcast_mask |= has ? 0 : 1u << j;
  }
  return s;
}

static Shape last_two(const Layout *l) {
  return SHAPE(l->at[l->rank - 2], l->at[l->rank - 1]);
}

static Node *operand(Case *c, bool b, bool transposed, char *letters) {
  Layout l = {0};
  put_axes(&l, BATCH, c->batches, &c->b, "b");
  if (transposed)
    put_axes(&l, ROW, 1, &c->k, "k");
  put_axes(&l, ROW, b ? c->ns : c->ms, b ? c->n : c->m, b ? "uv" : "ij");
  if (!transposed)
    put_axes(&l, ROW, 1, &c->k, "k");
  memcpy(letters, l.letters, sizeof l.letters);
  Dtype e = c->e;
  c->e = c->t;
  Node *n = fresh(c, false, shape_along(&l, true, true), !b && c->odd == 1);
  c->e = e;
  return n;
}

static Node *product(Case *c, const Layout *l, bool wide) {
  char words[3][7];
  uint8_t labels[3][7];
  Node *args[] = {operand(c, false, c->turned_a, words[0]),
                  operand(c, true, c->turned_b, words[1])};
  memcpy(words[2], l->letters, sizeof l->letters);
  for (uint32_t k = 0; k < 3; k++)
    for (uint32_t j = 0; words[k][j]; j++)
      labels[k][j] = (uint8_t)(words[k][j] - 'a');
  for (uint32_t k = 0; wide && k < 2; k++)
    args[k] = convert(args[k], DT_F64);
  Node *n =
      keep(node_einsum(&g, 2, args, (const uint8_t *[]){labels[0], labels[1]},
                       l->rank, labels[2], &fault));
  return convert(wide ? convert(n, c->t) : n, wide ? DT_F64 : c->e);
}

static Node *rounded(const Case *c, Dtype t, double x) {
  return keep(node_scalar(&g, num(t, value_of(num(c->e, x)))));
}

static Node *select3(Node *is, Node *x, Node *y) {
  return keep(
      node_map(&g, PRIM_SELECT, 3, (Node *[]){is, x, y}, DT_NONE, &fault));
}

static Node *linked(Case *c, const Layout *l, bool wide, Link link, Node *x) {
  Dtype t = x->dtype;
  switch (link) {
  case SCALE:
    return mul(x, rounded(c, t, 0.3));
  case BIAS_COLUMNS:
    return add(x, fresh(c, wide, shape_along(l, false, true), c->odd == 2));
  case BIAS_ROWS:
    return add(x, fresh(c, wide, shape_along(l, true, false), c->odd == 2));
  case BIAS_ALL:
    return add(x, fresh(c, wide, shape_along(l, true, true), false));
  case RELU:
    return op2(PRIM_MAXIMUM, x, rounded(c, t, 0));
  case TANH:
    return mul(op1(PRIM_TANH, x), rounded(c, t, 2));
  case GELU:
    return mul(
        mul(x, rounded(c, t, 0.5)),
        add(op1(PRIM_TANH, mul(x, rounded(c, t, 0.75))), rounded(c, t, 1)));
  case MASK_INDEX: {
    Shape s = last_two(l);
    IndexVar *i = var(s.at[0]), *j = var(s.at[1]);
    Node *is = op2(PRIM_LE, index_of(j),
                   add(index_of(i), integer((int64_t)draw(c, 40) - 8)));
    return select3(close2(is, i, j), x, rounded(c, t, c->hidden));
  }
  case MASK_STORED:
    return select3(op2(PRIM_NE, whole(c, DT_I64, last_two(l), 4), integer(0)),
                   x, rounded(c, t, c->hidden));
  case GATHER: {
    Node *table = fresh(c, wide, SHAPE(7), false);
    Node *at = whole(c, DT_I64, SHAPE(l->at[l->rank - 1]), 7);
    return add(x, keep(node_gather(&g, table, at, &fault)));
  }
  case LINKS:
    break;
  }
  return x;
}

static Node *over(const Case *c, const Layout *l, PrimId op, Node *x,
                  bool stays) {
  return reduce(op, x, l->first, c->ns, stays);
}

static Node *exp_less(Node *x, Node *by) {
  return op1(PRIM_EXP, op2(PRIM_SUB, x, by));
}

/* The maximum, or 0 if it is infinite. */
static Node *top(const Case *c, const Layout *l, Node *x, bool stays) {
  Node *m = over(c, l, PRIM_MAX, x, stays);
  return select3(op2(PRIM_EQ, op1(PRIM_ABS, m), rounded(c, x->dtype, INFINITY)),
                 rounded(c, x->dtype, 0), m);
}

static Node *logsumexp(const Case *c, const Layout *l, Node *x) {
  Node *sum = over(c, l, PRIM_SUM, exp_less(x, top(c, l, x, true)), false);
  return add(op1(PRIM_LOG, sum), top(c, l, x, false));
}

static const double limit = 2.7109375;

static Node *reduced(Case *c, const Layout *l, bool wide, RowReductionKind kind,
                     Node *x) {
  Dtype t = x->dtype;
  Node *d;
  switch (kind) {
  case SUM:
    return over(c, l, PRIM_SUM, x, false);
  case MAX:
    return over(c, l, PRIM_MAX, x, false);
  case MIN:
    return over(c, l, PRIM_MIN, x, false);
  case PROD:
    d = op2(PRIM_MAXIMUM, op2(PRIM_MINIMUM, x, rounded(c, t, 4)),
            rounded(c, t, -4));
    d = add(mul(d, rounded(c, t, 0x1p-9)), rounded(c, t, 1));
    return over(c, l, PRIM_PROD, d, false);
  case ARGMAX:
  case ARGMIN:
    if (c->ns > 1 ||
        c->n[0] == 0) /* no argmax over several axes or of no elements */
      return over(c, l, PRIM_MAX, x, false);
    return over(c, l, kind == ARGMAX ? PRIM_ARGMAX : PRIM_ARGMIN, x, false);
  case ANY:
    return over(c, l, PRIM_ANY, op2(PRIM_GT, x, rounded(c, t, limit)), false);
  case ALL:
    return over(c, l, PRIM_ALL, op2(PRIM_LT, x, rounded(c, t, limit)), false);
  case COUNT:
    return over(c, l, PRIM_SUM,
                convert(op2(PRIM_GT, x, rounded(c, t, limit)), DT_I64), false);
  case SQUARES:
    return over(c, l, PRIM_SUM, mul(x, x), false);
  case MEAN:
    return op2(PRIM_DIV, over(c, l, PRIM_SUM, x, false),
               rounded(c, t, (double)(c->n[0] * c->n[1])));
  case LOGSUMEXP:
    return logsumexp(c, l, x);
  case LOSS:
    d = logsumexp(c, l, x);
    return reduce(PRIM_SUM, d, 0, d->rank, false);
  case EXPONENTS:
    return over(c, l, PRIM_SUM, exp_less(x, over(c, l, PRIM_MAX, x, true)),
                false);
  case EXPONENTS_WEIGHTED:
    d = exp_less(x, top(c, l, x, true));
    return over(c, l, PRIM_SUM,
                mul(d, fresh(c, wide, shape_along(l, false, true), false)),
                false);
  case EXPONENTS_DATA:
    d = exp_less(x, fresh(c, wide, shape_along(l, true, false), false));
    return op2(PRIM_DIV, over(c, l, PRIM_SUM, d, false),
               op1(PRIM_EXP, top(c, l, x, false)));
  case VARIANCE:
    d = op2(PRIM_DIV, over(c, l, PRIM_SUM, x, true),
            rounded(c, t, (double)(c->n[0] * c->n[1])));
    d = op2(PRIM_SUB, x, d);
    return over(c, l, PRIM_SUM, mul(d, d), false);
  case SOFTMAX:
    d = exp_less(x, over(c, l, PRIM_MAX, x, true));
    return op2(PRIM_DIV, d, over(c, l, PRIM_SUM, d, true));
  case ELEMENTS:
  case KINDS:
    break;
  }
  return x;
}

static bool is_number(RowReductionKind kind) {
  return kind == SUM || kind == MAX || kind == MIN || kind == SQUARES ||
         kind == MEAN || kind == LOGSUMEXP;
}

/* The expected results; then the intermediate x, before and after the chain. */
static void made(Case c, bool wide, Node **to) {
  Layout l = layout(&c);
  Node *x = product(&c, &l, wide);
  to[c.count] = x;
  for (uint32_t j = 0; j < c.links; j++)
    x = linked(&c, &l, wide, c.chain[j], x);
  to[c.count + 1] = x;
  for (uint32_t j = 0; j < c.count; j++) {
    to[j] = reduced(&c, &l, wide, c.kinds[j], x);
    if (!c.post || !is_number(c.kinds[j]))
      continue;
    Shape s = {0};
    for (uint32_t k = 0; k < l.rank; k++)
      if (l.is[k] != COLUMN)
        s.at[s.rank++] = l.at[k];
    to[j] =
        add(mul(to[j], rounded(&c, x->dtype, 0.5)), fresh(&c, wide, s, false));
  }
}

/* ---- tolerances ---- */

static double unit_of(Dtype t) {
  return t == DT_BF16  ? 0x1p-8
         : t == DT_F16 ? 0x1p-11
         : t == DT_F64 ? 0x1p-50
                       : 0x1p-23;
}

/* For a row: magnitude of its elements, and how many are close to the limit. */
typedef struct Row {
  double most, greatest, least;
  int64_t close;
} Row;

/* The row of an element, and its position in the row. */
static int64_t row_of(const Layout *l, int64_t i, int64_t *place) {
  int64_t row = 0, rows = 1, columns = 1;
  *place = 0;
  for (uint32_t j = l->rank; j-- > 0; i /= l->at[j]) {
    int64_t *to = l->is[j] == COLUMN ? place : &row;
    int64_t *by = l->is[j] == COLUMN ? &columns : &rows;
    *to += i % l->at[j] * *by;
    *by *= l->at[j];
  }
  return row;
}

static double size_of(double x) {
  return isfinite(x) ? fabs(x) : 0;
}

/* Returns the tolerance of an element, and the rows. */
static double find_rows(const Case *c, const Layout *l, const Node *x0,
                        const Node *x, Row *rows) {
  double most = 8, off;
  int64_t place;
  for (int64_t i = 0; i < x->data->count; i++)
    most = fmax(most,
                size_of(element_at(x0, i)) +
                    (element_at(x, i) < -5000 ? 0 : size_of(element_at(x, i))));
  off = c->links ? 8 * unit_of(c->e) * most : 0;
  for (int64_t i = 0; i < x->data->count; i++) {
    Row *r = &rows[row_of(l, i, &place)];
    double e = element_at(x, i);
    r->most = fmax(r->most, size_of(e));
    r->greatest = fmax(r->greatest, e);
    r->least = fmin(r->least, e);
    r->close += fabs(e - limit) <= off;
  }
  return off;
}

static double value_at(const Layout *l, const Node *x, int64_t row,
                       int64_t where_) {
  int64_t place;
  for (int64_t i = 0; i < x->data->count; i++)
    if (row_of(l, i, &place) == row && place == where_)
      return element_at(x, i);
  return NAN;
}

/* Tolerance of a result; off: that of the elements. */
static double far(const Case *c, RowReductionKind kind, double off,
                  const Row *r, double want) {
  double n = (double)(c->n[0] * c->n[1]), unit = unit_of(c->e);
  double sum = fmin(unit, 0x1p-23) * n, last = unit * (fabs(want) + 4) * 4;
  switch (kind) {
  case SUM:
    return last + n * off + sum * n * r->most;
  case MEAN:
    return last + off + sum * r->most + unit * r->most;
  case MAX:
  case MIN:
  case ARGMAX:
  case ARGMIN:
    return c->post ? last + off : off;
  case PROD:
    return last + (n * (2 * unit + off * 0x1p-9)) * fabs(want) * 2;
  case ANY:
  case ALL:
  case COUNT:
    return (double)r->close;
  case SQUARES:
  case VARIANCE:
    return last + 4 * n * (r->most + off) * (off + unit * r->most) +
           sum * n * r->most * r->most;
  case LOGSUMEXP:
  case EXPONENTS:
  case EXPONENTS_DATA:
  case SOFTMAX:
    off += unit * 2 * (size_of(r->greatest) + 4) + 4 * unit + sum;
    return kind == LOGSUMEXP ? last + 2 * off
                             : last + fabs(want) * expm1(4 * off);
  case EXPONENTS_WEIGHTED:
    off += unit * 2 * (size_of(r->greatest) + 4) + 4 * unit + sum;
    return last + n * 2 * expm1(4 * off);
  case ELEMENTS:
    return off;
  case LOSS:
  case KINDS:
    break;
  }
  return 0;
}

static void show(const Case *c, uint64_t seed) {
  print_error(
      "seed %d: %s %s b %d m %d %d n %d %d k %d middle %d transposed %d "
      "%d post %d hidden %g odd %d chain",
      (int)seed, dtype_info[c->t].name, dtype_info[c->e].name, (int)c->b,
      (int)c->m[0], (int)c->m[1], (int)c->n[0], (int)c->n[1], (int)c->k,
      c->middle, c->turned_a, c->turned_b, c->post, c->hidden, c->odd);
  for (uint32_t j = 0; j < c->links; j++)
    print_error(" %d", (int)c->chain[j]);
  print_error(" kinds");
  for (uint32_t j = 0; j < c->count; j++)
    print_error(" %d", (int)c->kinds[j]);
  print_error("\n");
}

typedef struct Checked {
  const Case *c;
  const Layout *l;
  const Node *x; /* the elements before the reduction */
  const Row *rows;
  int64_t row_count;
  double off;
} Checked;

static double off_of(const Checked *k, uint32_t j, int64_t i, double want) {
  RowReductionKind kind = k->c->kinds[j];
  int64_t place;
  double all = 0;
  if (kind == SOFTMAX || kind == ELEMENTS)
    i = row_of(k->l, i, &place);
  if (kind != LOSS)
    return far(k->c, kind, k->off, &k->rows[i], want);
  for (int64_t r = 0; r < k->row_count; r++)
    all += far(k->c, LOGSUMEXP, k->off, &k->rows[r],
               size_of(k->rows[r].greatest) + 8);
  return all + unit_of(k->c->e) * (double)k->row_count * (fabs(want) + 1);
}

/* The position of the maximum may differ if the values are equally large. */
static bool is_right(const Checked *k, uint32_t j, int64_t i, double got,
                     double want) {
  double off = off_of(k, j, i, want);
  bool place = k->c->kinds[j] == ARGMAX || k->c->kinds[j] == ARGMIN;
  if (same_value(got, want) || fabs(got - want) <= off)
    return true;
  if (k->c->e == DT_F16 &&
      (fabs(want) > 30000 || k->c->kinds[j] == EXPONENTS_DATA))
    return true; /* the result or an intermediate overflows f16 */
  if (!place || k->c->ns > 1 || !(got >= 0 && got < (double)k->c->n[0]))
    return false;
  double x = value_at(k->l, k->x, i, (int64_t)got);
  return k->off > 0 &&
         fabs(x - value_at(k->l, k->x, i, (int64_t)want)) <= 2 * off;
}

static bool check(uint64_t seed) {
  Case c = drawn(seed);
  Layout l = layout(&c);
  const Backend counting = counting_backend();
  uint32_t before = fused_attention_count;
  Node *got[MOST + 2], *want[MOST + 2];
  g.backend = &counting;
  made(c, false, got);
  if (!graph_force(&g, c.count, got, &where, &fault)) {
    show(&c, seed);
    fail_msg("fault: %s", fault.message);
  }
  if (getenv("AXON_SHOW") && fused_attention_count == before)
    show(&c, seed);
  fused_attention_count = before + (fused_attention_count > before);
  g.backend = &backend_reference;
  made(c, true, want);
  for (uint32_t j = 0; j < c.count + 2; j++)
    must_force(want[j]);
  Checked k = {.c = &c, .l = &l, .x = want[c.count + 1]};
  k.row_count = c.b * c.m[0] * c.m[1];
  Row *rows = malloc((size_t)(k.row_count + 1) * sizeof *rows);
  assert_non_null(rows);
  for (int64_t i = 0; i < k.row_count; i++)
    rows[i] = (Row){.greatest = -INFINITY, .least = INFINITY};
  k.off = find_rows(&c, &l, want[c.count], k.x, rows);
  k.rows = rows;
  bool good = true;
  for (uint32_t j = 0; good && j < c.count; j++)
    for (int64_t i = 0; good && i < got[j]->data->count; i++) {
      double x = element_at(got[j], i), y = element_at(want[j], i);
      if (is_right(&k, j, i, x, y))
        continue;
      show(&c, seed);
      print_error("kind %d, element %d of %d: %g, not %g +- %g\n",
                  (int)c.kinds[j], (int)i, (int)got[j]->data->count, x, y,
                  off_of(&k, j, i, y));
      good = false;
    }
  free(rows);
  release_kept();
  graph_clear_caches(&g);
  while (var_count)
    index_var_release(vars[--var_count]);
  return good;
}

static void test_rows(void **state) {
  (void)state;
  check_seeds(check, "have such a kernel");
}

int main(int argc, char **argv) {
  parse_seeds(argc, argv, 12);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
