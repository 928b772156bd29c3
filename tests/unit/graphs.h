/* Random graphs, and how far from the reference's each of their values may be.
 *
 * A graph has a *structure*, made from one seed, and sizes, made from another:
 * the same structure comes in many sizes.  With each float value that is not
 * exact goes its *error*, a graph in f64 of the same shape: what operations
 * add to the errors of their arguments.  Of a sum, in a type with unit u, that
 * is SUM_UNITS * u times the sum of the absolute terms; of another operation,
 * a few units of its result.  Operations that would turn a small error into a
 * large one (comparisons, conversions to integers) are done on exact values
 * only. */
#ifndef AXON_TESTS_GRAPHS_H
#define AXON_TESTS_GRAPHS_H

#include "tests/unit/tensors.h"

enum {
  POOL = 24,          /* values of a graph */
  DIMS = 6,           /* sizes that its axes have */
  COUNT_MOST = 40000, /* elements of a value, in most graphs */
  COUNT_LARGE = 300000,
  WORK_MOST = 4000000,
  SUM_UNITS = 32,
};

typedef struct Value {
  Node *node;
  Node *error; /* f64; NULL: exact, or errors are not asked for */
  bool exact;
} Value;

typedef struct Maker {
  uint64_t structure, sizes; /* states of random numbers */
  bool errors;               /* are wanted */
  int64_t dims[DIMS];
  int64_t most;  /* elements of a value */
  bool products; /* many of them */
  IndexVar *i;
  Value pool[POOL];
  uint32_t count;
} Maker;

static inline uint32_t draw(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static inline uint32_t choose(Maker *m, uint32_t n) {
  return draw(&m->structure, n);
}

/* ---- errors ---- */

static inline double unit_of(Dtype t) {
  return t == DT_F16    ? 0x1p-10
         : t == DT_BF16 ? 0x1p-7
         : t == DT_F32  ? 0x1p-22
                        : 0x1p-50;
}
static inline double most_of(Dtype t) {
  return t == DT_F16 ? 0x1p15 : t == DT_F64 ? 0x1p1000 : 0x1p120;
}
/* what stays where a value is next to nothing */
static inline double least_of(Dtype t) {
  return t == DT_F16 ? 0x1p-23 : 0x1p-120;
}

static inline Node *real(double x) {
  return constant(DT_F64, x);
}
static inline Node *size_of_value(Node *x) {
  return op1(PRIM_ABS, convert(x, DT_F64));
}
static inline Node *both_errors(Node *x, Node *y) {
  return !x ? y : !y ? x : add(x, y);
}
static inline Node *times(Node *x, double by) {
  return x ? mul(x, real(by)) : NULL;
}
/* What rounding to the type of x makes. */
static inline Node *rounded(Node *x, double units) {
  Dtype t = x->dtype;
  return add(times(size_of_value(x), units * unit_of(t)), real(least_of(t)));
}

static inline Value exact(Node *n) {
  return (Value){.node = n, .exact = true};
}

/* error: of the arguments, brought to the result's shape by broadcasting. */
static inline Value inexact(Maker *m, Node *n, Node *error, double units) {
  Value v = {.node = n};
  if (!m->errors)
    return v;
  Node *e = both_errors(error, rounded(n, units));
  /* what may have overflowed may be anything */
  Node *most = add(size_of_value(n), e);
  Node *fits = op2(PRIM_LT, most, real(most_of(n->dtype)));
  v.error =
      keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){fits, e, real(INFINITY)},
                    DT_NONE, &fault));
  return v;
}

/* A function that moves elements, done to value and error. */
#define MOVED(m, v, x, ...)            \
  ({                                   \
    Node *x = (v).node;                \
    Value out_ = {.exact = (v).exact}; \
    out_.node = (__VA_ARGS__);         \
    if (out_.node && (v).error) {      \
      x = (v).error;                   \
      out_.error = (__VA_ARGS__);      \
    }                                  \
    out_;                              \
  })

static inline Node *held(Node *n) { /* NULL: it does not fit */
  return n ? keep(n) : NULL;
}

/* ---- data ---- */

static inline int64_t size(Maker *m) {
  static const int16_t sizes[] = {1,  2,  3,  5,  6,   7,    8,
                                  15, 16, 17, 31, 33,  48,   63,
                                  64, 65, 96, 97, 513, 1000, 4099};
  return draw(&m->sizes, 20) == 0 ? 0
                                  : sizes[draw(&m->sizes, ARRAY_LEN(sizes))];
}

static inline Dtype some_type(Maker *m) {
  static const Dtype types[] = {DT_F32, DT_F32, DT_F32,  DT_F32, DT_F32,
                                DT_F64, DT_F16, DT_BF16, DT_I64, DT_I32,
                                DT_U8,  DT_I8,  DT_BOOL};
  return types[choose(m, ARRAY_LEN(types))];
}

/* Floats that are sums of few powers of two; integers of all sizes. */
static inline Scalar element(Maker *m, Dtype t, uint32_t special) {
  uint32_t x = draw(&m->sizes, 1u << 30);
  if (t == DT_BOOL)
    return num(t, x & 1);
  if (!dtype_is_float(t)) {
    int64_t i = (int64_t)(x % 2001) - 1000;
    if (special && x % 7 == 0)
      i = x % 2 ? INT64_MAX - x % 3 : INT64_MIN + x % 3;
    return scalar_convert((Scalar){.dtype = DT_I64, .i = i}, t);
  }
  static const double specials[] = {NAN,    INFINITY, -INFINITY, -0.0,  1e38,
                                    -65504, 1e-40,    3e9,       -3e18, 0.5};
  if (special && x % 5 == 0)
    return num(t, specials[x / 8 % ARRAY_LEN(specials)]);
  double y = ((double)(x >> 8 & 0xff) - 128) / 64 + (double)(x & 1) / 1024;
  return num(t, other_numbers * y);
}

/* Data of a type and sizes; NULL: too many. */
static inline Node *fresh(Maker *m, Dtype t, uint32_t rank,
                          const int64_t *shape) {
  int64_t count = 1;
  for (uint32_t k = 0; k < rank; k++)
    count *= shape[k];
  uint32_t special = choose(m, 12) == 0;
  if (count > m->most)
    return NULL;
  Tensor *x = tensor_new(t, rank, shape, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++)
    scalar_store(element(m, t, special), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

static inline Node *random_numbers(Maker *m, uint32_t rank,
                                   const int64_t *shape) {
  static const Dtype types[] = {DT_F32, DT_F64, DT_F16, DT_BF16};
  Dtype t = types[choose(m, ARRAY_LEN(types))];
  int64_t count = 1;
  for (uint32_t k = 0; k < rank; k++)
    count *= shape[k];
  if (count > m->most)
    return NULL;
  int64_t seed = choose(m, 1000) + (other_numbers != 1 ? 1000 : 0);
  return keep(node_random(&g, PRIM_UNIFORM, key_from_seed(seed), t, rank, shape,
                          0, &fault));
}

static inline int64_t own(const Node *x, uint32_t axis) {
  return x->extents[x->free_count + axis];
}

/* ---- pointwise ---- */

static inline Value to_type(Maker *m, Value x, Dtype t) {
  Value out = {.node = convert(x.node, t), .exact = x.exact};
  if (!x.exact && !dtype_is_float(t))
    return (Value){0};
  if (x.exact)
    return out;
  return inexact(m, out.node, x.error, 1);
}

/* Without what is not finite or large. */
static inline Value tamed(Maker *m, Value x, double most) {
  Dtype t = x.node->dtype;
  (void)m;
  Node *n = op2(PRIM_MINIMUM, op2(PRIM_MAXIMUM, x.node, constant(t, -most)),
                constant(t, most));
  return (Value){n, x.error, x.exact};
}

static inline Value function_of(Maker *m, Value x) {
  /* with a bound of the slope for arguments in -4 .. 4 */
  static const struct {
    PrimId op;
    double slope;
  } fns[] = {{PRIM_EXP, 80},  {PRIM_TANH, 1},  {PRIM_SIN, 1},
             {PRIM_COS, 1},   {PRIM_ERF, 1.2}, {PRIM_EXPM1, 80},
             {PRIM_SINH, 80}, {PRIM_COSH, 80}};
  static const PrimId sharp[] = {PRIM_FLOOR, PRIM_CEIL, PRIM_ROUND, PRIM_TRUNC,
                                 PRIM_SIGN};
  static const PrimId positive[] = {PRIM_SQRT, PRIM_RSQRT, PRIM_LOG,
                                    PRIM_LOG1P};
  Dtype t = x.node->dtype;
  uint32_t which = choose(m, 8), k = choose(m, 840);
  if (which == 0 || which == 1)
    return (Value){op1(which ? PRIM_ABS : PRIM_NEG, x.node), x.error, x.exact};
  if (which == 2)
    return x.exact ? exact(op1(sharp[k % 5], x.node)) : x;
  if (which == 3) { /* of 1 and more */
    Node *y = add(op1(PRIM_ABS, x.node), constant(t, 1));
    Node *error =
        x.exact ? NULL : both_errors(x.error, m->errors ? rounded(y, 1) : NULL);
    return inexact(m, op1(positive[k % 4], y), error, 4);
  }
  x = tamed(m, x, 4);
  Node *y = op1(fns[k % 8].op, x.node);
  return inexact(m, y, times(x.error, fns[k % 8].slope), 4);
}

static inline Value arithmetic(Maker *m, Value x, Value y) {
  static const PrimId ops[] = {PRIM_ADD, PRIM_SUB, PRIM_MUL, PRIM_MAXIMUM,
                               PRIM_MINIMUM};
  PrimId op = ops[choose(m, 5)];
  Node *n =
      held(node_map(&g, op, 2, (Node *[]){x.node, y.node}, DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  Node *error = both_errors(x.error, y.error);
  if (op == PRIM_MUL && m->errors) {
    Node *a = add(size_of_value(x.node), x.error ? x.error : real(0));
    Node *b = add(size_of_value(y.node), y.error ? y.error : real(0));
    error = both_errors(x.error ? mul(x.error, b) : NULL,
                        y.error ? mul(a, y.error) : NULL);
  }
  return inexact(m, n, error, 1);
}

static inline Value quotient(Maker *m, Value x, Value y) {
  Dtype t = x.node->dtype;
  if (!dtype_is_float(t)) {
    static const PrimId ops[] = {PRIM_DIV, PRIM_MOD, PRIM_POW};
    PrimId op = ops[choose(m, 3)];
    Node *by = y.node;
    if (choose(m, 2)) /* of one sign, and of both */
      by = op2(PRIM_MOD, by, constant(t, 7));
    else
      by = op2(PRIM_MAXIMUM, constant(t, -100), by);
    Node *zero = op2(PRIM_EQ, by, constant(t, 0));
    by = keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){zero, constant(t, 3), by},
                       DT_NONE, &fault));
    if (op == PRIM_POW)
      by = op1(PRIM_ABS, op2(PRIM_MOD, by, constant(t, 5)));
    if (choose(m, 3) == 0)
      by = constant(t, (double)(1 + choose(m, 9)));
    return exact(
        held(node_map(&g, op, 2, (Node *[]){x.node, by}, DT_NONE, &fault)));
  }
  if (x.exact && choose(m, 4) == 0) {
    x = tamed(m, x, 1000);
    return exact(op2(PRIM_MOD, x.node, constant(t, choose(m, 2) ? 2.5 : -1.5)));
  }
  y = tamed(m, y, 1000);
  Node *by = add(op1(PRIM_ABS, y.node), constant(t, 1));
  Node *n =
      held(node_map(&g, PRIM_DIV, 2, (Node *[]){x.node, by}, DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  Node *error = x.error;
  if (m->errors) {
    Node *by_error = both_errors(y.error, rounded(by, 1));
    error = both_errors(error, mul(size_of_value(n), times(by_error, 2)));
  }
  return inexact(m, n, error, 1);
}

static inline Value choice(Maker *m, Value x, Value y, Value c) {
  static const PrimId tests[] = {PRIM_LT, PRIM_LE, PRIM_EQ,
                                 PRIM_NE, PRIM_GT, PRIM_GE};
  PrimId op = tests[choose(m, 6)];
  bool plain = choose(m, 4) == 0, negated = choose(m, 3) == 0;
  if (!c.exact)
    return (Value){0};
  Node *b = c.node;
  if (b->dtype != DT_BOOL)
    b = op2(op, b, constant(b->dtype, 1));
  if (negated)
    b = op1(PRIM_NOT, b);
  if (plain)
    return exact(b);
  Node *n = held(node_map(&g, PRIM_SELECT, 3, (Node *[]){b, x.node, y.node},
                          DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  return inexact(m, n, both_errors(x.error, y.error), 0);
}

/* ---- reductions ---- */

static inline double terms_of(const Node *x) {
  double work = (double)node_count(x);
  for (uint32_t k = 0; k < x->free_count; k++)
    work *= 1;
  return work;
}

static inline Value sum_of(Maker *m, Value x, uint32_t first, uint32_t count,
                           bool stays) {
  Node *n = reduce(PRIM_SUM, x.node, first, count, stays);
  Dtype t = x.node->dtype;
  if (!dtype_is_float(t))
    return exact(n);
  if (!m->errors)
    return inexact(m, n, NULL, 1);
  double u = unit_of(t == DT_F64 ? t : DT_F32);
  Node *terms = reduce(PRIM_SUM, size_of_value(x.node), first, count, stays);
  Node *error = times(terms, SUM_UNITS * u);
  if (x.error)
    error = add(error, reduce(PRIM_SUM, x.error, first, count, stays));
  return inexact(m, n, error, 1);
}

static inline Value reduced(Maker *m, Value x) {
  uint32_t rank = x.node->rank;
  uint32_t what = choose(m, 10), a = choose(m, 60), b = choose(m, 60);
  bool stays = choose(m, 2);
  if (rank == 0)
    return (Value){0};
  uint32_t first = a % rank, count = 1 + b % (rank - first);
  if (choose(m, 3) == 0)
    count = 1;
  Dtype t = x.node->dtype;
  if (t == DT_BOOL)
    return exact(
        reduce(what % 2 ? PRIM_ANY : PRIM_ALL, x.node, first, count, stays));
  if (what < 5)
    return sum_of(m, x, first, count, stays);
  if (what < 7) {
    PrimId op = what == 5 ? PRIM_MAX : PRIM_MIN;
    Value v = {.exact = x.exact};
    v.node = reduce(op, x.node, first, count, stays);
    if (x.error)
      v.error = op1(PRIM_ABS, reduce(PRIM_MAX, x.error, first, count, stays));
    return v;
  }
  if (what < 9) {
    PrimId op = what == 7 ? PRIM_ARGMAX : PRIM_ARGMIN;
    bool stretches = x.node->stars >> first & 1;
    if (!x.exact || stretches || own(x.node, first) == 0)
      return (Value){0};
    return exact(reduce(op, x.node, first, 1, stays));
  }
  if (!dtype_is_float(t))
    return exact(reduce(PRIM_PROD, x.node, first, count, stays));
  if (!x.exact)
    return (Value){0};
  x = tamed(m, x, 1.0 + (a & 1));
  Node *n = reduce(PRIM_PROD, x.node, first, count, stays), *error = NULL;
  if (!m->errors)
    return inexact(m, n, NULL, 1);
  error = times(reduce(PRIM_PROD, size_of_value(x.node), first, count, stays),
                4 * SUM_UNITS * unit_of(t == DT_F64 ? t : DT_F32));
  /* nothing is said where some order has an infinite product on its way */
  Node *large = op2(PRIM_MAXIMUM, size_of_value(x.node), real(1));
  large = reduce(PRIM_PROD, large, first, count, stays);
  error = add(error, times(times(large, t == DT_F64 ? 1 : 0x1p896), 0));
  return inexact(m, n, error, 1);
}

/* ---- sums of products ---- */

typedef Node *Contraction(Node *x, Node *y, void *how);

static inline Value contracted(Maker *m, Value x, Value y, Contraction *f,
                               void *how) {
  Node *n = f(x.node, y.node, how);
  Dtype t = x.node->dtype;
  if (!n || !dtype_is_float(t))
    return exact(n);
  if (!m->errors)
    return inexact(m, n, NULL, 1);
  Node *a = size_of_value(x.node), *b = size_of_value(y.node);
  Node *error =
      times(f(a, b, how), SUM_UNITS * unit_of(t == DT_F64 ? t : DT_F32));
  if (t == DT_BF16) { /* subnormals may count as zero */
    Node *tiny_a = add(times(a, 0), real(0x1p-126));
    Node *tiny_b = add(times(b, 0), real(0x1p-126));
    error = add(error, add(f(a, tiny_b, how), f(tiny_a, b, how)));
  }
  if (x.error)
    error = add(error, f(x.error, y.error ? add(b, y.error) : b, how));
  if (y.error)
    error = add(error, f(a, y.error, how));
  return inexact(m, n, error, 1);
}

static inline Node *matmul_of(Node *x, Node *y, void *how) {
  (void)how;
  return held(node_matmul(&g, x, y, &fault));
}

static inline Value product(Maker *m, Value x) {
  uint32_t rank = x.node->rank, d = choose(m, DIMS), batched = choose(m, 3);
  if (rank == 0 || rank > 3 || x.node->dtype == DT_BOOL)
    return (Value){0};
  int64_t shape[4], *to = shape;
  if (batched == 0 && rank == 3)
    *to++ = own(x.node, 0);
  *to++ = own(x.node, rank - 1);
  *to++ = m->dims[d];
  if (terms_of(x.node) * (double)m->dims[d] > WORK_MOST)
    return (Value){0};
  Node *y = fresh(m, x.node->dtype, (uint32_t)(to - shape), shape);
  if (!y)
    return (Value){0};
  return contracted(m, x, exact(y), matmul_of, NULL);
}

typedef struct Letters {
  uint8_t x[RANK_MAX], y[RANK_MAX], out[RANK_MAX];
  uint32_t out_count;
} Letters;

static inline Node *einsum_of(Node *x, Node *y, void *how) {
  const Letters *l = how;
  return held(node_einsum(&g, 2, (Node *[]){x, y},
                          (const uint8_t *[]){l->x, l->y}, l->out_count, l->out,
                          &fault));
}

/* Each letter of x may be y's too, and stay or be summed over. */
static inline Value einsum(Maker *m, Value x) {
  Letters l = {.out_count = 0};
  int64_t shape[RANK_MAX];
  uint32_t rank = x.node->rank, count = 0;
  double work = terms_of(x.node);
  if (rank > 4 || x.node->dtype == DT_BOOL)
    return (Value){0};
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t kind = choose(m, 5);
    l.x[k] = (uint8_t)k;
    if (kind < 3) { /* in y too */
      l.y[count] = (uint8_t)k;
      shape[count++] = own(x.node, k);
    }
    if (kind == 0 || kind == 3 || kind == 4)
      l.out[l.out_count++] = (uint8_t)k;
  }
  for (uint32_t more = choose(m, 3); more-- > 0; count++) {
    l.y[count] = (uint8_t)(20 + count);
    shape[count] = m->dims[choose(m, DIMS)];
    work *= (double)shape[count];
    l.out[l.out_count++] = l.y[count];
  }
  for (uint32_t k = 0; k + 1 < l.out_count; k++) { /* in any order */
    uint32_t at = k + choose(m, 60) % (l.out_count - k);
    uint8_t old = l.out[k];
    l.out[k] = l.out[at];
    l.out[at] = old;
  }
  if (work > WORK_MOST)
    return (Value){0};
  Node *y = fresh(m, x.node->dtype, count, shape);
  return y ? contracted(m, x, exact(y), einsum_of, &l) : (Value){0};
}

typedef struct Window {
  int64_t height, width, step, gap;
  bool back; /* as a convolution has it, not a correlation */
} Window;

/* step * at + gap * k, k from the last one on where it goes back */
static inline Node *window_index(const Window *w, IndexVar *at, IndexVar *k,
                                 int64_t count) {
  Node *from = index_of(k);
  if (w->back)
    from = op2(PRIM_SUB, integer(count - 1), from);
  return add(mul(index_of(at), integer(w->step)), mul(from, integer(w->gap)));
}

/* for i j => sum (for a b => x.[s * i + g * a, s * j + g * b] * w.[a, b]) */
static inline Node *window_of(Node *x, Node *w, void *how) {
  const Window *to = how;
  IndexVar *i = var(to->height), *j = var(to->width);
  IndexVar *a = var(own(w, 0)), *b = var(own(w, 1));
  Node *from = get2(x, window_index(to, i, a, own(w, 0)),
                    window_index(to, j, b, own(w, 1)));
  Node *terms = close2(mul(from, get2(w, index_of(a), index_of(b))), a, b);
  return close2(reduce(PRIM_SUM, terms, 0, 2, false), i, j);
}

/* v with zeros around it. */
static inline Value around(Value v, int64_t by) {
  Scalar zero = num(v.node->dtype, 0);
  for (uint32_t axis = 0; by && axis < 2 && v.node; axis++)
    v = MOVED(NULL, v, x,
              held(node_pad(&g, x, axis, by, by, scalar_convert(zero, x->dtype),
                            &fault)));
  return v;
}

static inline Value convolution(Maker *m, Value x) {
  if (x.node->rank != 2 || x.node->dtype == DT_BOOL || own(x.node, 0) < 3 ||
      own(x.node, 1) < 3 || var_count + 16 > ARRAY_LEN(vars))
    return (Value){0};
  int64_t shape[] = {1 + choose(m, 4), 1 + choose(m, 5)};
  Window to = {.step = 1 + choose(m, 5) / 2,
               .gap = 1 + choose(m, 5) / 3,
               .back = choose(m, 4) == 0};
  Value padded = around(x, choose(m, 3));
  if (!padded.node)
    return (Value){0};
  to.height = own(padded.node, 0) - to.gap * (shape[0] - 1) - 1;
  to.width = own(padded.node, 1) - to.gap * (shape[1] - 1) - 1;
  if (to.height < 0 || to.width < 0)
    return (Value){0};
  to.height = to.height / to.step + 1;
  to.width = to.width / to.step + 1;
  Node *w = fresh(m, x.node->dtype, 2, shape);
  return contracted(m, padded, exact(w), window_of, &to);
}

/* ---- chains ---- */

static inline Value scaled_by(Maker *m, Value x, double by) {
  Node *n = mul(x.node, constant(x.node->dtype, by));
  return inexact(m, n, times(x.error, fabs(by)), 1);
}

/* x / y, y of the last axis, at least 1 */
static inline Value over(Maker *m, Value x, Value y) {
  Node *n = op2(PRIM_DIV, x.node, y.node), *error = x.error;
  if (m->errors && y.error)
    error = both_errors(error, mul(size_of_value(n), times(y.error, 2)));
  return inexact(m, n, error, 1);
}

/* x where a i + b j <= c or not, elsewhere a number */
static inline Value hidden(Maker *m, Value x, double number) {
  if (x.node->rank != 2 || x.node->free_count)
    return x;
  int64_t a = (int64_t)choose(m, 5) - 2, b = (int64_t)choose(m, 5) - 2;
  bool negated = choose(m, 3) == 0;
  IndexVar *i = var(own(x.node, 0)), *j = var(own(x.node, 1));
  Node *at = add(mul(index_of(i), integer(a)), mul(index_of(j), integer(b)));
  Node *c = op2(PRIM_LE, at, integer((int64_t)draw(&m->sizes, 99) - 30));
  c = close2(negated ? op1(PRIM_NOT, c) : c, i, j);
  Node *rest = constant(x.node->dtype, number);
  Value out = {.exact = x.exact};
  out.node = keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){c, x.node, rest},
                           DT_NONE, &fault));
  if (x.error)
    out.error = keep(node_map(
        &g, PRIM_SELECT, 3, (Node *[]){c, x.error, real(0)}, DT_NONE, &fault));
  return out;
}

static inline Value softmax(Maker *m, Value x) {
  uint32_t rank = x.node->rank, axis = choose(m, 4);
  if (rank == 0 || !dtype_is_float(x.node->dtype))
    return (Value){0};
  axis = axis ? rank - 1 : 0;
  if (own(x.node, axis) == 0)
    return (Value){0};
  x = tamed(m, x, 8);
  if (choose(m, 2))
    x = hidden(m, x, choose(m, 2) ? -1e4 : -9);
  Node *most = reduce(PRIM_MAX, x.node, axis, 1, true);
  Node *e = op1(PRIM_EXP, op2(PRIM_SUB, x.node, most)), *error = NULL;
  if (m->errors && x.error)
    error = mul(add(x.error, reduce(PRIM_MAX, x.error, axis, 1, true)),
                times(size_of_value(e), 2));
  if (m->errors) /* of the difference, as the exponent's */
    error = both_errors(error,
                        times(size_of_value(e), 64 * unit_of(x.node->dtype)));
  Value v = inexact(m, e, error, 4);
  return over(m, v, sum_of(m, v, axis, 1, true));
}

/* (x - mean x) / (1 + mean (x - mean x)^2) */
static inline Value norm(Maker *m, Value x) {
  uint32_t rank = x.node->rank;
  if (rank == 0 || !dtype_is_float(x.node->dtype) || own(x.node, rank - 1) == 0)
    return (Value){0};
  double by = 1.0 / (double)own(x.node, rank - 1);
  x = tamed(m, x, 8);
  Value mean = scaled_by(m, sum_of(m, x, rank - 1, 1, true), by);
  Node *d = op2(PRIM_SUB, x.node, mean.node);
  Value v = inexact(m, d, both_errors(x.error, mean.error), 1);
  Node *error = NULL;
  if (m->errors)
    error = mul(times(v.error, 2), add(size_of_value(d), v.error));
  Value square = inexact(m, mul(d, d), error, 1);
  Value spread = scaled_by(m, sum_of(m, square, rank - 1, 1, true), by);
  spread = inexact(m, add(spread.node, constant(d->dtype, 1)), spread.error, 1);
  return over(m, v, spread);
}

/* softmax (x @ k) @ v */
static inline Value attention(Maker *m, Value x) {
  uint32_t rank = x.node->rank, d = choose(m, DIMS), e = choose(m, DIMS);
  if (rank != 2 || !dtype_is_float(x.node->dtype))
    return (Value){0};
  int64_t depth = own(x.node, 1), length = m->dims[d], out = m->dims[e];
  if (length == 0 || length * (depth + out) * own(x.node, 0) > WORK_MOST)
    return (Value){0};
  Node *k = fresh(m, x.node->dtype, 2, (int64_t[]){depth, length});
  Node *w = fresh(m, x.node->dtype, 2, (int64_t[]){length, out});
  if (!k || !w)
    return (Value){0};
  x = tamed(m, x, 2);
  Value keys = tamed(m, exact(k), 2), values = tamed(m, exact(w), 8);
  Value scores = contracted(m, x, keys, matmul_of, NULL);
  scores = softmax(m, scores);
  return scores.node ? contracted(m, scores, values, matmul_of, NULL)
                     : (Value){0};
}

/* ---- moves ---- */

static inline Value permuted(Maker *m, Value v) {
  uint32_t order[RANK_MAX], rank = v.node->rank;
  for (uint32_t k = 0; k < rank; k++)
    order[k] = k;
  for (uint32_t k = 0; k + 1 < rank; k++) {
    uint32_t with = k + choose(m, 60) % (rank - k), old = order[k];
    order[k] = order[with];
    order[with] = old;
  }
  return MOVED(m, v, x, held(node_permute(&g, x, order, &fault)));
}

/* Two axes put together, all of them, or one cut in two. */
static inline Value reshaped(Maker *m, Value v) {
  static const int64_t parts[] = {2, 3, 4, 7, 8, 16};
  int64_t shape[RANK_MAX], by = parts[choose(m, 6)];
  uint32_t rank = v.node->rank, how = choose(m, 3), at = choose(m, 60);
  uint32_t count = 0;
  for (uint32_t k = 0; k < rank; k++) {
    int64_t n = own(v.node, k);
    if (how == 0 && k == at % rank && n % by == 0) {
      shape[count++] = n / by;
      n = by;
    }
    if (how == 1 && k && k == at % rank)
      shape[count - 1] *= n;
    else
      shape[count++] = n;
  }
  if (how == 2) {
    shape[0] = node_count(v.node);
    for (uint32_t k = 0; k < v.node->free_count; k++)
      shape[0] /= v.node->extents[k] ? v.node->extents[k] : 1;
    count = 1;
  }
  if (count > 5)
    return (Value){0};
  return MOVED(m, v, x, held(node_reshape(&g, x, count, shape, 0, &fault)));
}

/* A range of an axis, with both bounds written, so that a * becomes a size. */
static inline Value part_of(Maker *m, Value v) {
  uint32_t rank = v.node->rank, axis = choose(m, 60), from = choose(m, 4);
  uint32_t less = choose(m, 3);
  if (rank == 0)
    return (Value){0};
  Item items[RANK_MAX];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, own(v.node, k));
  Item *item = &items[axis % rank];
  item->from = from < item->to ? from : item->to;
  item->to = item->to - less > item->from ? item->to - less : item->from;
  item->sized = true;
  return MOVED(m, v, x, held(node_index_items(&g, x, rank, items, &fault)));
}

/* Rows at computed places: those of 0, 1, ... by a formula, or of data. */
static inline Value gathered(Maker *m, Value v) {
  uint32_t rank = v.node->rank, how = choose(m, 4);
  int64_t rows = rank ? own(v.node, 0) : 0, n = m->dims[choose(m, DIMS)];
  int64_t by = 1 + choose(m, 5), over_ = 1 + choose(m, 4);
  if (rows == 0 || (double)n * terms_of(v.node) > (double)(m->most * rows))
    return (Value){0};
  Node *at;
  if (how < 2) { /* k * by / over mod rows */
    at = keep(node_iota(&g, DT_I64, n, &fault));
    at = op2(PRIM_DIV, mul(at, integer(by)), integer(over_));
    at = op2(PRIM_MOD, at, integer(rows));
  } else {
    Node *k = fresh(m, how == 2 ? DT_I64 : DT_I32, 1, &n);
    at = k ? op2(PRIM_MOD, convert(k, DT_I64), integer(rows)) : NULL;
  }
  if (!at)
    return (Value){0};
  return MOVED(m, v, x, held(node_gather(&g, x, at, &fault)));
}

/* for i => x.[i, (by * i + from) % columns], and the rest */
static inline Value diagonal(Maker *m, Value v) {
  uint32_t rank = v.node->rank, by = choose(m, 4), from = choose(m, 9);
  if (rank < 2 || own(v.node, 1) == 0 || var_count + 2 > ARRAY_LEN(vars))
    return (Value){0};
  IndexVar *i = var(own(v.node, 0));
  Node *at = index_of(i);
  Item items[RANK_MAX];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, own(v.node, k));
  items[0] = item_at(at);
  if (by != 1 || own(v.node, 0) > own(v.node, 1))
    at = op2(PRIM_MOD, add(mul(at, integer(by)), integer(from)),
             integer(own(v.node, 1)));
  items[1] = item_at(at);
  return MOVED(m, v, x, ({
                 Node *row = held(node_index_items(&g, x, rank, items, &fault));
                 row ? held(node_close(&g, row, 1, &i, &fault)) : NULL;
               }));
}

static inline Value moved(Maker *m, Value v) {
  uint32_t what = choose(m, 10), rank = v.node->rank, a = choose(m, 60);
  int64_t by = choose(m, 5);
  bool way = choose(m, 2);
  uint32_t axis = rank ? a % rank : 0;
  Scalar zero = num(v.node->dtype, 0.5);
  switch (what) {
  case 0:
    return permuted(m, v);
  case 1:
    return reshaped(m, v);
  case 2:
    return part_of(m, v);
  case 3:
    return gathered(m, v);
  case 9:
    return diagonal(m, v);
  default:
    break;
  }
  if (rank == 0)
    return (Value){0};
  switch (what) {
  case 4:
    return MOVED(m, v, x, held(node_roll(&g, x, axis, by * 7 - 9, &fault)));
  case 5:
    return MOVED(m, v, x, held(node_reverse(&g, x, axis, &fault)));
  case 6:
    return MOVED(m, v, x,
                 held(node_pad(&g, x, axis, by, 4 - by,
                               scalar_convert(zero, x->dtype), &fault)));
  case 7:
    return MOVED(m, v, x, held(node_tile(&g, x, axis, 1 + by, way, &fault)));
  default:
    return MOVED(m, v, x, held(node_triangle(&g, x, way, &fault)));
  }
}

static inline Value joined(Maker *m, Value x, Value y) {
  uint32_t axis = choose(m, 60) % (x.node->rank ? x.node->rank : 1);
  bool stacked = choose(m, 3) == 0;
  Node *n = held(
      stacked ? node_stack(&g, 2, (Node *[]){x.node, y.node}, &fault)
              : node_concat(&g, axis, 2, (Node *[]){x.node, y.node}, &fault));
  Value v = {.node = n, .exact = x.exact && y.exact};
  if (!n || !m->errors || v.exact)
    return v;
  Node *e = x.error ? x.error : times(size_of_value(x.node), 0);
  Node *f = y.error ? y.error : times(size_of_value(y.node), 0);
  v.error = keep(stacked ? node_stack(&g, 2, (Node *[]){e, f}, &fault)
                         : node_concat(&g, axis, 2, (Node *[]){e, f}, &fault));
  return v;
}

/* ---- `for` ---- */

static inline Value with_index(Maker *m, Value x) {
  uint32_t what = choose(m, 4);
  Node *at = index_of(m->i);
  Dtype t = x.node->dtype;
  if (t == DT_BOOL)
    return (Value){0};
  if (what == 0) {
    Value v = {.node = add(x.node, convert(at, t)), .exact = x.exact};
    return x.exact ? v : inexact(m, v.node, x.error, 1);
  }
  if (x.node->rank == 0 || own(x.node, 0) == 0)
    return (Value){0};
  uint32_t rank = x.node->rank;
  Item items[RANK_MAX];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, own(x.node, k));
  if (what < 3) { /* a row */
    items[0] = item_at(op2(PRIM_MOD, at, integer(own(x.node, 0))));
    return MOVED(m, x, y, held(node_index_items(&g, y, rank, items, &fault)));
  }
  /* if i > 0 && i < rows then x.[i - 1] else x.[0], only one of them run */
  Node *in = op2(PRIM_AND, op2(PRIM_GT, at, integer(0)),
                 op2(PRIM_LT, at, integer(own(x.node, 0))));
  items[0] = item_at(op2(PRIM_SUB, at, integer(1)));
  Item first[RANK_MAX];
  memcpy(first, items, sizeof first);
  first[0] = item_at(integer(0));
  return MOVED(
      m, x, y, ({
        g.guard = in;
        Node *then_ = held(node_index_items(&g, y, rank, items, &fault));
        g.guard = NULL;
        Node *else_ = held(node_index_items(&g, y, rank, first, &fault));
        then_ &&else_ ? held(node_select_lazy(&g, in, then_, else_, &fault))
                      : NULL;
      }));
}

static inline Value closed(Maker *m, Value v) {
  return MOVED(m, v, x, held(node_close(&g, x, 1, &m->i, &fault)));
}

static inline Value opaque(Maker *m, Value v) {
  uint32_t rank = v.node->rank, what = choose(m, 2), axis = choose(m, 60);
  if (rank == 0 || v.node->dtype == DT_BOOL)
    return (Value){0};
  int64_t params[4] = {axis % rank};
  PrimId op = what ? PRIM_CUMSUM : PRIM_SORT;
  bool stretches = rank && v.node->stars >> axis % rank & 1;
  if (stretches || (!v.exact && !what))
    return (Value){0};
  Node *n =
      keep(node_opaque(&g, op, 1, &v.node, params, (Key){{0}}, 0, &fault));
  if (!what || !dtype_is_float(v.node->dtype) || v.exact)
    return exact(n); /* not compiled: the same */
  Node *error = NULL;
  if (m->errors) {
    Node *terms = size_of_value(v.node);
    error = times(
        keep(node_opaque(&g, op, 1, &terms, params, (Key){{0}}, 0, &fault)),
        SUM_UNITS * unit_of(v.node->dtype));
    if (v.error)
      error = add(error, keep(node_opaque(&g, op, 1, &v.error, params,
                                          (Key){{0}}, 0, &fault)));
  }
  return inexact(m, n, error, 1);
}

/* ---- the whole ---- */

static inline Value another(Maker *m) {
  Value x = m->pool[choose(m, m->count)], y = m->pool[choose(m, m->count)];
  Value c = m->pool[choose(m, m->count)];
  uint32_t what = choose(m, 25);
  if (m->products && what > 17)
    what = 13 + what % 5;
  Dtype t = x.node->dtype, wanted = some_type(m);
  if (what < 10 && y.node->dtype != t) {
    y = to_type(m, y, t);
    if (!y.node)
      return y;
  }
  switch (what) {
  case 0:
  case 1:
  case 2:
    return t == DT_BOOL ? choice(m, x, y, c) : arithmetic(m, x, y);
  case 3:
  case 4:
    return t == DT_BOOL ? choice(m, x, y, c) : quotient(m, x, y);
  case 5:
    return choice(m, x, y, c);
  case 6:
  case 7:
    return dtype_is_float(t) ? function_of(m, x) : to_type(m, x, wanted);
  case 8:
    return joined(m, x, y);
  case 9:
  case 10:
  case 11:
  case 12:
    return reduced(m, x);
  case 13:
    return product(m, x);
  case 14:
    return einsum(m, x);
  case 15:
    return convolution(m, x);
  case 16:
    return softmax(m, x);
  case 17:
    return choose(m, 2) ? norm(m, x) : attention(m, x);
  case 18:
    return with_index(m, x);
  case 19:
    return closed(m, x);
  case 20:
    return choose(m, 3) ? to_type(m, x, wanted) : opaque(m, x);
  case 21:
    return t == DT_BOOL ? (Value){0} : hidden(m, x, choose(m, 3) ? 0 : 3);
  default:
    return moved(m, x);
  }
}

/* Makes the graph; gives up to `most` of its values, without free indices. */
static inline uint32_t make_graph(Maker *m, uint32_t most, Value *roots) {
  uint32_t steps = 3 + choose(m, 9);
  m->products = choose(m, 3) == 0;
  m->most = draw(&m->sizes, 8) ? COUNT_MOST : COUNT_LARGE;
  for (uint32_t k = 0; k < DIMS; k++)
    m->dims[k] = size(m);
  m->i = var(1 + draw(&m->sizes, 9));
  m->count = 0;
  for (uint32_t k = 0; k < 4; k++) {
    int64_t shape[3];
    uint32_t rank = k == 0 ? 2 : choose(m, 4);
    for (uint32_t a = 0; a < rank; a++)
      shape[a] = m->dims[choose(m, DIMS)];
    Node *n = k == 3 && choose(m, 4) == 0
                  ? random_numbers(m, rank, shape)
                  : fresh(m, k == 0 ? DT_F32 : some_type(m), rank, shape);
    if (n)
      m->pool[m->count++] = exact(n);
  }
  if (!m->count)
    return 0;
  for (uint32_t k = 0; k < 4 * steps && m->count < steps + 4; k++) {
    Value v = another(m);
    if (v.node && node_count(v.node) <= m->most && v.node->rank <= 5)
      m->pool[m->count++] = v;
  }
  uint32_t count = 0;
  for (uint32_t k = m->count; k-- > 0 && count < most;) {
    Value v = m->pool[k];
    if (v.node->free_count)
      v = closed(m, v);
    if (v.node && (count == 0 || choose(m, 3) == 0))
      roots[count++] = v;
  }
  return count;
}

#endif
