/* Random graphs, with a bound on the error of each value relative to the
 * reference backend.
 *
 * A graph has a *structure*, made from one seed, and sizes, made from another.
 * So the same structure occurs with many sizes.
 *
 * Each float value that is not exact has an *error*: a graph in f64 of the same
 * shape.  The error of a result is the errors of the arguments, propagated,
 * plus the error of the operation.  For a sum in a type with unit u, that is
 * SUM_ULPS * u times the sum of the absolute terms.  For other operations, it
 * is a few units of the result.
 *
 * Operations that can turn a small error into a large one (comparisons,
 * conversions to integers) have only exact arguments. */
#ifndef AXON_TESTS_GRAPHS_H
#define AXON_TESTS_GRAPHS_H

#include "support/compiler.h"
#include "tests/unit/tensors.h"

enum {
  MAX_POOL_VALUES = 24, /* values of a graph */
  EXTENT_CHOICES = 6,   /* sizes from which the axes choose */
  MAX_ELEMENTS = 40000, /* elements of a value, in most graphs */
  MAX_ELEMENTS_LARGE = 300000,
  MAX_WORK = 4000000,
  SUM_ULPS = 32,
};

typedef struct BoundedValue {
  Node *node;
  Node *error; /* f64; NULL: exact, or errors are not requested */
  bool exact;
} BoundedValue;

typedef struct GraphGen {
  /* States of the random number generators. */
  uint64_t structure_state, size_state;
  bool with_errors; /* errors are requested */
  bool is_smooth;   /* floats are finite f64; axes are short */
  int64_t dims[EXTENT_CHOICES];
  int64_t max_elements;     /* elements of a value */
  bool prefer_contractions; /* generate many of them */
  IndexVar *i;
  BoundedValue pool[MAX_POOL_VALUES];
  uint32_t count;
} GraphGen;

static inline uint32_t random_below(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static inline uint32_t choose(GraphGen *gen, uint32_t n) {
  return random_below(&gen->structure_state, n);
}

/* ---- errors ---- */

static inline double ulp_of(Dtype t) {
  return t == DT_F16       ? 0x1p-10
         : t == DT_BF16    ? 0x1p-7
         : t == DT_F32     ? 0x1p-22
         : t == DT_F64     ? 0x1p-50
         : t == DT_F8_E4M3 ? 0x1p-3
         : t == DT_F4_E2M1 ? 0x1p-1
                           : 0x1p-2;
}
static inline double max_finite_of(Dtype t) {
  return t == DT_F16 || t == DT_F8_E5M2 ? 0x1p15
         : t == DT_F8_E4M3              ? 0x1p8
         : t == DT_F4_E2M1              ? 0x1p2
         : t == DT_F64                  ? 0x1p1000
                                        : 0x1p120;
}
/* the error of values close to zero */
static inline double error_floor_of(Dtype t) {
  return t == DT_F16       ? 0x1p-23
         : t == DT_F8_E4M3 ? 0x1p-9
         : t == DT_F8_E5M2 ? 0x1p-16
         : t == DT_F4_E2M1 ? 0x1p-1
                           : 0x1p-120;
}

static inline Node *real(double x) {
  return constant(DT_F64, x);
}
static inline Node *abs_in_f64(Node *x) {
  return op1(PRIM_ABS, convert(x, DT_F64));
}
static inline Node *add_errors(Node *x, Node *y) {
  return !x ? y : !y ? x : add(x, y);
}
static inline Node *scale_error(Node *x, double by) {
  return x ? mul(x, real(by)) : NULL;
}
/* The error of rounding to the type of x. */
static inline Node *rounding_error(Node *x, double units) {
  Dtype t = x->dtype;
  return add(scale_error(abs_in_f64(x), units * ulp_of(t)),
             real(error_floor_of(t)));
}

static inline BoundedValue exact(Node *n) {
  return (BoundedValue){.node = n, .exact = true};
}

/* error: of the arguments, broadcast to the shape of the result. */
static inline BoundedValue inexact(GraphGen *gen, Node *n, Node *error,
                                   double units) {
  BoundedValue v = {.node = n};
  if (!gen->with_errors)
    return v;
  Node *e = add_errors(error, rounding_error(n, units));
  /* a value that may have overflowed has no bound */
  Node *max = add(abs_in_f64(n), e);
  Node *fits = op2(PRIM_LT, max, real(max_finite_of(n->dtype)));
  v.error =
      keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){fits, e, real(INFINITY)},
                    DT_NONE, &fault));
  return v;
}

/* Applies a function that moves elements to value and error. */
#define MOVED(m, v, x, ...)                   \
  ({                                          \
    Node *x = (v).node;                       \
    BoundedValue out_ = {.exact = (v).exact}; \
    out_.node = (__VA_ARGS__);                \
    if (out_.node && (v).error) {             \
      x = (v).error;                          \
      out_.error = (__VA_ARGS__);             \
    }                                         \
    out_;                                     \
  })

static inline Node *keep_or_null(Node *n) { /* NULL: the node is too large */
  return n ? keep(n) : NULL;
}

/* ---- data ---- */

static inline int64_t random_extent(GraphGen *gen) {
  static const int16_t sizes[] = {1,  2,  3,  5,  6,   7,    8,
                                  15, 16, 17, 31, 33,  48,   63,
                                  64, 65, 96, 97, 513, 1000, 4099};
  static const uint8_t short_sizes[] = {1, 1, 2, 2, 3, 3, 4, 5, 6, 7};
  if (gen->is_smooth)
    return random_below(&gen->size_state, 30) == 0
               ? 0
               : short_sizes[random_below(&gen->size_state,
                                          ARRAY_LEN(short_sizes))];
  return random_below(&gen->size_state, 20) == 0
             ? 0
             : sizes[random_below(&gen->size_state, ARRAY_LEN(sizes))];
}

/* Every other f16 becomes f8_e4m3, and every other bf16 f8_e5m2 or f4_e2m1.  No
 * number is drawn for it, so that the other graphs stay as they are. */
static inline Dtype perhaps_f8(const GraphGen *gen, Dtype t) {
  bool is_f8 = gen->structure_state >> 20 & 1;
  bool is_f4 = gen->structure_state >> 21 & 1;
  return !is_f8         ? t
         : t == DT_F16  ? DT_F8_E4M3
         : t != DT_BF16 ? t
         : is_f4        ? DT_F4_E2M1
                        : DT_F8_E5M2;
}

static inline Dtype random_dtype(GraphGen *gen) {
  static const Dtype types[] = {DT_F32, DT_F32, DT_F32,  DT_F32, DT_F32,
                                DT_F64, DT_F16, DT_BF16, DT_I64, DT_I32,
                                DT_U8,  DT_I8,  DT_BOOL};
  Dtype t = types[choose(gen, ARRAY_LEN(types))];
  return gen->is_smooth && dtype_is_float(t) ? DT_F64 : perhaps_f8(gen, t);
}

/* Floats are sums of few powers of two; integers have all magnitudes. */
static inline Scalar random_element(GraphGen *gen, Dtype t, uint32_t special) {
  uint32_t x = random_below(&gen->size_state, 1u << 30);
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
  return num(t, number_scale * y);
}

/* Data of a type and shape; NULL: too many elements. */
static inline Node *random_data(GraphGen *gen, Dtype t, uint32_t rank,
                                const int64_t *shape) {
  int64_t count = 1;
  for (uint32_t k = 0; k < rank; k++)
    count *= shape[k];
  uint32_t special = choose(gen, 12) == 0 && !gen->is_smooth;
  if (count > gen->max_elements)
    return NULL;
  Tensor *x = tensor_new(t, rank, shape, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++)
    scalar_store(random_element(gen, t, special), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

static inline Node *random_numbers(GraphGen *gen, uint32_t rank,
                                   const int64_t *shape) {
  static const Dtype types[] = {DT_F32, DT_F64, DT_F16, DT_BF16};
  Dtype t = perhaps_f8(gen, types[choose(gen, ARRAY_LEN(types))]);
  int64_t count = 1;
  for (uint32_t k = 0; k < rank; k++)
    count *= shape[k];
  if (count > gen->max_elements)
    return NULL;
  int64_t seed = choose(gen, 1000) + (number_scale != 1 ? 1000 : 0);
  return keep(node_random(&g, PRIM_UNIFORM, prng_key_from_seed(seed), t, rank,
                          shape, 0, &fault));
}

static inline int64_t axis_extent(const Node *x, uint32_t axis) {
  return x->extents[x->free_count + axis];
}

/* ---- pointwise ---- */

static inline BoundedValue to_type(GraphGen *gen, BoundedValue x, Dtype t) {
  BoundedValue out = {.node = convert(x.node, t), .exact = x.exact};
  if (!x.exact && !dtype_is_float(t))
    return (BoundedValue){0};
  if (x.exact)
    return out;
  return inexact(gen, out.node, x.error, 1);
}

/* Clamps x, and replaces non-finite elements. */
static inline BoundedValue clamped(GraphGen *gen, BoundedValue x, double max) {
  Dtype t = x.node->dtype;
  (void)gen;
  Node *n = op2(PRIM_MINIMUM, op2(PRIM_MAXIMUM, x.node, constant(t, -max)),
                constant(t, max));
  return (BoundedValue){n, x.error, x.exact};
}

static inline BoundedValue random_unary(GraphGen *gen, BoundedValue x) {
  /* `slope` is a bound for arguments in -4 .. 4. */
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
  uint32_t which = choose(gen, 8), k = choose(gen, 840);
  if (which == 0 || which == 1)
    return (BoundedValue){op1(which ? PRIM_ABS : PRIM_NEG, x.node), x.error,
                          x.exact};
  if (which == 2)
    return x.exact ? exact(op1(sharp[k % 5], x.node)) : x;
  if (which == 3) { /* at least 1 */
    Node *y = add(op1(PRIM_ABS, x.node), constant(t, 1));
    Node *error =
        x.exact ? NULL
                : add_errors(x.error,
                             gen->with_errors ? rounding_error(y, 1) : NULL);
    return inexact(gen, op1(positive[k % 4], y), error, 4);
  }
  x = clamped(gen, x, 4);
  Node *y = op1(fns[k % 8].op, x.node);
  return inexact(gen, y, scale_error(x.error, fns[k % 8].slope), 4);
}

static inline BoundedValue random_binary(GraphGen *gen, BoundedValue x,
                                         BoundedValue y) {
  static const PrimId ops[] = {PRIM_ADD, PRIM_SUB, PRIM_MUL, PRIM_MAXIMUM,
                               PRIM_MINIMUM};
  PrimId op = ops[choose(gen, 5)];
  Node *n = keep_or_null(
      node_map(&g, op, 2, (Node *[]){x.node, y.node}, DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  Node *error = add_errors(x.error, y.error);
  if (op == PRIM_MUL && gen->with_errors) {
    Node *a = add(abs_in_f64(x.node), x.error ? x.error : real(0));
    Node *b = add(abs_in_f64(y.node), y.error ? y.error : real(0));
    error = add_errors(x.error ? mul(x.error, b) : NULL,
                       y.error ? mul(a, y.error) : NULL);
  }
  return inexact(gen, n, error, 1);
}

static inline BoundedValue random_division(GraphGen *gen, BoundedValue x,
                                           BoundedValue y) {
  Dtype t = x.node->dtype;
  if (!dtype_is_float(t)) {
    static const PrimId ops[] = {PRIM_DIV, PRIM_MOD, PRIM_POW};
    PrimId op = ops[choose(gen, 3)];
    Node *by = y.node;
    if (choose(gen, 2)) /* operands of one sign, or of both */
      by = op2(PRIM_MOD, by, constant(t, 7));
    else
      by = op2(PRIM_MAXIMUM, constant(t, -100), by);
    Node *zero = op2(PRIM_EQ, by, constant(t, 0));
    by = keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){zero, constant(t, 3), by},
                       DT_NONE, &fault));
    if (op == PRIM_POW)
      by = op1(PRIM_ABS, op2(PRIM_MOD, by, constant(t, 5)));
    if (choose(gen, 3) == 0)
      by = constant(t, (double)(1 + choose(gen, 9)));
    return exact(keep_or_null(
        node_map(&g, op, 2, (Node *[]){x.node, by}, DT_NONE, &fault)));
  }
  if (x.exact && choose(gen, 4) == 0) {
    x = clamped(gen, x, 1000);
    return exact(
        op2(PRIM_MOD, x.node, constant(t, choose(gen, 2) ? 2.5 : -1.5)));
  }
  y = clamped(gen, y, 1000);
  Node *by = add(op1(PRIM_ABS, y.node), constant(t, 1));
  Node *n = keep_or_null(
      node_map(&g, PRIM_DIV, 2, (Node *[]){x.node, by}, DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  Node *error = x.error;
  if (gen->with_errors) {
    Node *by_error = add_errors(y.error, rounding_error(by, 1));
    error = add_errors(error, mul(abs_in_f64(n), scale_error(by_error, 2)));
  }
  return inexact(gen, n, error, 1);
}

static inline BoundedValue random_select(GraphGen *gen, BoundedValue x,
                                         BoundedValue y, BoundedValue c) {
  static const PrimId tests[] = {PRIM_LT, PRIM_LE, PRIM_EQ,
                                 PRIM_NE, PRIM_GT, PRIM_GE};
  PrimId op = tests[choose(gen, 6)];
  bool plain = choose(gen, 4) == 0, negated = choose(gen, 3) == 0;
  if (!c.exact)
    return (BoundedValue){0};
  Node *b = c.node;
  if (b->dtype != DT_BOOL)
    b = op2(op, b, constant(b->dtype, 1));
  if (negated)
    b = op1(PRIM_NOT, b);
  if (plain)
    return exact(b);
  Node *n = keep_or_null(node_map(
      &g, PRIM_SELECT, 3, (Node *[]){b, x.node, y.node}, DT_NONE, &fault));
  if (!n || (x.exact && y.exact))
    return exact(n);
  return inexact(gen, n, add_errors(x.error, y.error), 0);
}

/* ---- reductions ---- */

static inline double term_count(const Node *x) {
  double work = (double)node_element_count(x);
  for (uint32_t k = 0; k < x->free_count; k++)
    work *= 1;
  return work;
}

static inline BoundedValue sum_of(GraphGen *gen, BoundedValue x, uint32_t first,
                                  uint32_t count, bool keep_axes) {
  Node *n = reduce(PRIM_SUM, x.node, first, count, keep_axes);
  Dtype t = x.node->dtype;
  if (!dtype_is_float(t))
    return exact(n);
  if (!gen->with_errors)
    return inexact(gen, n, NULL, 1);
  double u = ulp_of(t == DT_F64 ? t : DT_F32);
  Node *terms = reduce(PRIM_SUM, abs_in_f64(x.node), first, count, keep_axes);
  Node *error = scale_error(terms, SUM_ULPS * u);
  if (x.error)
    error = add(error, reduce(PRIM_SUM, x.error, first, count, keep_axes));
  return inexact(gen, n, error, 1);
}

static inline BoundedValue random_reduction(GraphGen *gen, BoundedValue x) {
  uint32_t rank = x.node->rank;
  uint32_t what = choose(gen, 10), a = choose(gen, 60), b = choose(gen, 60);
  bool keep_axes = choose(gen, 2);
  if (rank == 0)
    return (BoundedValue){0};
  uint32_t first = a % rank, count = 1 + b % (rank - first);
  if (choose(gen, 3) == 0)
    count = 1;
  Dtype t = x.node->dtype;
  if (t == DT_BOOL)
    return exact(reduce(what % 2 ? PRIM_ANY : PRIM_ALL, x.node, first, count,
                        keep_axes));
  if (what < 5)
    return sum_of(gen, x, first, count, keep_axes);
  if (what < 7) {
    PrimId op = what == 5 ? PRIM_MAX : PRIM_MIN;
    BoundedValue v = {.exact = x.exact};
    v.node = reduce(op, x.node, first, count, keep_axes);
    if (x.error)
      v.error =
          op1(PRIM_ABS, reduce(PRIM_MAX, x.error, first, count, keep_axes));
    return v;
  }
  if (what < 9) {
    PrimId op = what == 7 ? PRIM_ARGMAX : PRIM_ARGMIN;
    bool broadcasts = x.node->broadcast_mask >> first & 1;
    if (!x.exact || broadcasts || axis_extent(x.node, first) == 0)
      return (BoundedValue){0};
    return exact(reduce(op, x.node, first, 1, keep_axes));
  }
  if (!dtype_is_float(t))
    return exact(reduce(PRIM_PROD, x.node, first, count, keep_axes));
  if (!x.exact)
    return (BoundedValue){0};
  x = clamped(gen, x, 1.0 + (a & 1));
  Node *n = reduce(PRIM_PROD, x.node, first, count, keep_axes), *error = NULL;
  if (!gen->with_errors)
    return inexact(gen, n, NULL, 1);
  error = scale_error(
      reduce(PRIM_PROD, abs_in_f64(x.node), first, count, keep_axes),
      4 * SUM_ULPS * ulp_of(t == DT_F64 ? t : DT_F32));
  /* no bound if some order has an infinite intermediate product */
  Node *large = op2(PRIM_MAXIMUM, abs_in_f64(x.node), real(1));
  large = reduce(PRIM_PROD, large, first, count, keep_axes);
  error =
      add(error, scale_error(scale_error(large, t == DT_F64 ? 1 : 0x1p896), 0));
  return inexact(gen, n, error, 1);
}

/* ---- sums of products ---- */

typedef Node *Contraction(Node *x, Node *y, void *how);

static inline BoundedValue contraction_value(GraphGen *gen, BoundedValue x,
                                             BoundedValue y, Contraction *f,
                                             void *how) {
  Node *n = f(x.node, y.node, how);
  Dtype t = x.node->dtype;
  if (!n || !dtype_is_float(t))
    return exact(n);
  if (!gen->with_errors)
    return inexact(gen, n, NULL, 1);
  Node *a = abs_in_f64(x.node), *b = abs_in_f64(y.node);
  Node *error =
      scale_error(f(a, b, how), SUM_ULPS * ulp_of(t == DT_F64 ? t : DT_F32));
  if (t == DT_BF16) { /* subnormal numbers may count as zero */
    Node *tiny_a = add(scale_error(a, 0), real(0x1p-126));
    Node *tiny_b = add(scale_error(b, 0), real(0x1p-126));
    error = add(error, add(f(a, tiny_b, how), f(tiny_a, b, how)));
  }
  if (x.error)
    error = add(error, f(x.error, y.error ? add(b, y.error) : b, how));
  if (y.error)
    error = add(error, f(a, y.error, how));
  return inexact(gen, n, error, 1);
}

static inline Node *matmul_of(Node *x, Node *y, void *how) {
  (void)how;
  return keep_or_null(node_matmul(&g, x, y, &fault));
}

static inline BoundedValue random_matmul(GraphGen *gen, BoundedValue x) {
  uint32_t rank = x.node->rank, d = choose(gen, EXTENT_CHOICES),
           batched = choose(gen, 3);
  if (rank == 0 || rank > 3 || x.node->dtype == DT_BOOL)
    return (BoundedValue){0};
  int64_t shape[4], *to = shape;
  if (batched == 0 && rank == 3)
    *to++ = axis_extent(x.node, 0);
  *to++ = axis_extent(x.node, rank - 1);
  *to++ = gen->dims[d];
  if (term_count(x.node) * (double)gen->dims[d] > MAX_WORK)
    return (BoundedValue){0};
  Node *y = random_data(gen, x.node->dtype, (uint32_t)(to - shape), shape);
  if (!y)
    return (BoundedValue){0};
  return contraction_value(gen, x, exact(y), matmul_of, NULL);
}

typedef struct EinsumLetters {
  uint8_t x[MAX_RANK], y[MAX_RANK], out[MAX_RANK];
  uint32_t out_count;
} EinsumLetters;

static inline Node *einsum_of(Node *x, Node *y, void *how) {
  const EinsumLetters *l = how;
  return keep_or_null(node_einsum(&g, 2, (Node *[]){x, y},
                                  (const uint8_t *[]){l->x, l->y}, l->out_count,
                                  l->out, &fault));
}

/* Each letter of x may also occur in y, and is kept or summed. */
static inline BoundedValue random_einsum(GraphGen *gen, BoundedValue x) {
  EinsumLetters l = {.out_count = 0};
  int64_t shape[MAX_RANK];
  uint32_t rank = x.node->rank, count = 0;
  double work = term_count(x.node);
  if (rank > 4 || x.node->dtype == DT_BOOL)
    return (BoundedValue){0};
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t kind = choose(gen, 5);
    l.x[k] = (uint8_t)k;
    if (kind < 3) { /* the axis occurs in y, too */
      l.y[count] = (uint8_t)k;
      shape[count++] = axis_extent(x.node, k);
    }
    if (kind == 0 || kind == 3 || kind == 4)
      l.out[l.out_count++] = (uint8_t)k;
  }
  for (uint32_t more = choose(gen, 3); more-- > 0; count++) {
    l.y[count] = (uint8_t)(20 + count);
    shape[count] = gen->dims[choose(gen, EXTENT_CHOICES)];
    work *= (double)shape[count];
    l.out[l.out_count++] = l.y[count];
  }
  for (uint32_t k = 0; k + 1 < l.out_count;
       k++) { /* result axes in random order */
    uint32_t at = k + choose(gen, 60) % (l.out_count - k);
    uint8_t old = l.out[k];
    l.out[k] = l.out[at];
    l.out[at] = old;
  }
  if (work > MAX_WORK)
    return (BoundedValue){0};
  Node *y = random_data(gen, x.node->dtype, count, shape);
  return y ? contraction_value(gen, x, exact(y), einsum_of, &l)
           : (BoundedValue){0};
}

typedef struct ConvWindow {
  int64_t height, width, stride, dilation;
  bool flipped; /* a convolution, not a correlation */
} ConvWindow;

/* step * at + gap * k; k counts backwards if flipped */
static inline Node *window_index(const ConvWindow *w, IndexVar *at, IndexVar *k,
                                 int64_t count) {
  Node *from = index_of(k);
  if (w->flipped)
    from = op2(PRIM_SUB, integer(count - 1), from);
  return add(mul(index_of(at), integer(w->stride)),
             mul(from, integer(w->dilation)));
}

/* for i j => sum (for a b => x.[s * i + g * a, s * j + g * b] * w.[a, b]) */
static inline Node *window_of(Node *x, Node *w, void *how) {
  const ConvWindow *to = how;
  IndexVar *i = var(to->height), *j = var(to->width);
  IndexVar *a = var(axis_extent(w, 0)), *b = var(axis_extent(w, 1));
  Node *from = get2(x, window_index(to, i, a, axis_extent(w, 0)),
                    window_index(to, j, b, axis_extent(w, 1)));
  Node *terms = close2(mul(from, get2(w, index_of(a), index_of(b))), a, b);
  return close2(reduce(PRIM_SUM, terms, 0, 2, false), i, j);
}

/* v padded with zeros. */
static inline BoundedValue zero_padded(BoundedValue v, int64_t by) {
  Scalar zero = num(v.node->dtype, 0);
  for (uint32_t axis = 0; by && axis < 2 && v.node; axis++)
    v = MOVED(NULL, v, x,
              keep_or_null(node_pad(&g, x, axis, by, by,
                                    scalar_convert(zero, x->dtype), &fault)));
  return v;
}

static inline BoundedValue random_convolution(GraphGen *gen, BoundedValue x) {
  if (x.node->rank != 2 || x.node->dtype == DT_BOOL ||
      axis_extent(x.node, 0) < 3 || axis_extent(x.node, 1) < 3 ||
      var_count + 16 > ARRAY_LEN(vars))
    return (BoundedValue){0};
  int64_t shape[] = {1 + choose(gen, 4), 1 + choose(gen, 5)};
  ConvWindow to = {.stride = 1 + choose(gen, 5) / 2,
                   .dilation = 1 + choose(gen, 5) / 3,
                   .flipped = choose(gen, 4) == 0};
  BoundedValue padded = zero_padded(x, choose(gen, 3));
  if (!padded.node)
    return (BoundedValue){0};
  to.height = axis_extent(padded.node, 0) - to.dilation * (shape[0] - 1) - 1;
  to.width = axis_extent(padded.node, 1) - to.dilation * (shape[1] - 1) - 1;
  if (to.height < 0 || to.width < 0)
    return (BoundedValue){0};
  to.height = to.height / to.stride + 1;
  to.width = to.width / to.stride + 1;
  Node *w = random_data(gen, x.node->dtype, 2, shape);
  return contraction_value(gen, padded, exact(w), window_of, &to);
}

/* ---- chains ---- */

static inline BoundedValue scaled_by(GraphGen *gen, BoundedValue x, double by) {
  Node *n = mul(x.node, constant(x.node->dtype, by));
  return inexact(gen, n, scale_error(x.error, fabs(by)), 1);
}

/* x / y, with y constant along the last axis and at least 1 */
static inline BoundedValue row_quotient(GraphGen *gen, BoundedValue x,
                                        BoundedValue y) {
  Node *n = op2(PRIM_DIV, x.node, y.node), *error = x.error;
  if (gen->with_errors && y.error)
    error = add_errors(error, mul(abs_in_f64(n), scale_error(y.error, 2)));
  return inexact(gen, n, error, 1);
}

/* x if a i + b j <= c, or the opposite; otherwise a number */
static inline BoundedValue masked(GraphGen *gen, BoundedValue x,
                                  double number) {
  if (x.node->rank != 2 || x.node->free_count)
    return x;
  int64_t a = (int64_t)choose(gen, 5) - 2, b = (int64_t)choose(gen, 5) - 2;
  bool negated = choose(gen, 3) == 0;
  IndexVar *i = var(axis_extent(x.node, 0)), *j = var(axis_extent(x.node, 1));
  Node *at = add(mul(index_of(i), integer(a)), mul(index_of(j), integer(b)));
  Node *c = op2(PRIM_LE, at,
                integer((int64_t)random_below(&gen->size_state, 99) - 30));
  c = close2(negated ? op1(PRIM_NOT, c) : c, i, j);
  Node *rest = constant(x.node->dtype, number);
  BoundedValue out = {.exact = x.exact};
  out.node = keep(node_map(&g, PRIM_SELECT, 3, (Node *[]){c, x.node, rest},
                           DT_NONE, &fault));
  if (x.error)
    out.error = keep(node_map(
        &g, PRIM_SELECT, 3, (Node *[]){c, x.error, real(0)}, DT_NONE, &fault));
  return out;
}

static inline BoundedValue softmax(GraphGen *gen, BoundedValue x) {
  uint32_t rank = x.node->rank, axis = choose(gen, 4);
  if (rank == 0 || !dtype_is_float(x.node->dtype))
    return (BoundedValue){0};
  axis = axis ? rank - 1 : 0;
  if (axis_extent(x.node, axis) == 0)
    return (BoundedValue){0};
  x = clamped(gen, x, 8);
  if (choose(gen, 2))
    x = masked(gen, x, choose(gen, 2) ? -1e4 : -9);
  Node *max = reduce(PRIM_MAX, x.node, axis, 1, true);
  Node *e = op1(PRIM_EXP, op2(PRIM_SUB, x.node, max)), *error = NULL;
  if (gen->with_errors && x.error)
    error = mul(add(x.error, reduce(PRIM_MAX, x.error, axis, 1, true)),
                scale_error(abs_in_f64(e), 2));
  /* The error of the difference, since it is an exponent. */
  if (gen->with_errors)
    error = add_errors(error,
                       scale_error(abs_in_f64(e), 64 * ulp_of(x.node->dtype)));
  BoundedValue v = inexact(gen, e, error, 4);
  return row_quotient(gen, v, sum_of(gen, v, axis, 1, true));
}

/* (x - mean x) / (1 + mean (x - mean x)^2) */
static inline BoundedValue random_norm(GraphGen *gen, BoundedValue x) {
  uint32_t rank = x.node->rank;
  if (rank == 0 || !dtype_is_float(x.node->dtype) ||
      axis_extent(x.node, rank - 1) == 0)
    return (BoundedValue){0};
  double by = 1.0 / (double)axis_extent(x.node, rank - 1);
  x = clamped(gen, x, 8);
  BoundedValue mean = scaled_by(gen, sum_of(gen, x, rank - 1, 1, true), by);
  Node *d = op2(PRIM_SUB, x.node, mean.node);
  BoundedValue v = inexact(gen, d, add_errors(x.error, mean.error), 1);
  Node *error = NULL;
  if (gen->with_errors)
    error = mul(scale_error(v.error, 2), add(abs_in_f64(d), v.error));
  BoundedValue square = inexact(gen, mul(d, d), error, 1);
  BoundedValue spread =
      scaled_by(gen, sum_of(gen, square, rank - 1, 1, true), by);
  spread =
      inexact(gen, add(spread.node, constant(d->dtype, 1)), spread.error, 1);
  return row_quotient(gen, v, spread);
}

/* softmax (x @ k) @ v */
static inline BoundedValue attention(GraphGen *gen, BoundedValue x) {
  uint32_t rank = x.node->rank, d = choose(gen, EXTENT_CHOICES),
           e = choose(gen, EXTENT_CHOICES);
  if (rank != 2 || !dtype_is_float(x.node->dtype))
    return (BoundedValue){0};
  int64_t depth = axis_extent(x.node, 1), length = gen->dims[d],
          out = gen->dims[e];
  if (length == 0 || length * (depth + out) * axis_extent(x.node, 0) > MAX_WORK)
    return (BoundedValue){0};
  Node *k = random_data(gen, x.node->dtype, 2, (int64_t[]){depth, length});
  Node *w = random_data(gen, x.node->dtype, 2, (int64_t[]){length, out});
  if (!k || !w)
    return (BoundedValue){0};
  x = clamped(gen, x, 2);
  BoundedValue keys = clamped(gen, exact(k), 2),
               values = clamped(gen, exact(w), 8);
  BoundedValue scores = contraction_value(gen, x, keys, matmul_of, NULL);
  scores = softmax(gen, scores);
  return scores.node ? contraction_value(gen, scores, values, matmul_of, NULL)
                     : (BoundedValue){0};
}

/* ---- movement of elements ---- */

static inline BoundedValue random_permute(GraphGen *gen, BoundedValue v) {
  uint32_t order[MAX_RANK], rank = v.node->rank;
  for (uint32_t k = 0; k < rank; k++)
    order[k] = k;
  for (uint32_t k = 0; k + 1 < rank; k++) {
    uint32_t with = k + choose(gen, 60) % (rank - k), old = order[k];
    order[k] = order[with];
    order[with] = old;
  }
  return MOVED(gen, v, x, keep_or_null(node_permute(&g, x, order, &fault)));
}

/* Merges two axes or all, or splits one into two. */
static inline BoundedValue random_reshape(GraphGen *gen, BoundedValue v) {
  static const int64_t parts[] = {2, 3, 4, 7, 8, 16};
  int64_t shape[MAX_RANK], by = parts[choose(gen, 6)];
  uint32_t rank = v.node->rank, how = choose(gen, 3), at = choose(gen, 60);
  uint32_t count = 0;
  for (uint32_t k = 0; k < rank; k++) {
    int64_t n = axis_extent(v.node, k);
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
    shape[0] = node_element_count(v.node);
    for (uint32_t k = 0; k < v.node->free_count; k++)
      shape[0] /= v.node->extents[k] ? v.node->extents[k] : 1;
    count = 1;
  }
  if (count > 5)
    return (BoundedValue){0};
  return MOVED(gen, v, x,
               keep_or_null(node_reshape(&g, x, count, shape, 0, &fault)));
}

/* A slice of one axis.  Both bounds are written, so that a * axis becomes a
 * size. */
static inline BoundedValue random_slice(GraphGen *gen, BoundedValue v) {
  uint32_t rank = v.node->rank, axis = choose(gen, 60), from = choose(gen, 4);
  uint32_t less = choose(gen, 3);
  if (rank == 0)
    return (BoundedValue){0};
  Subscript items[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, axis_extent(v.node, k));
  Subscript *item = &items[axis % rank];
  item->start = from < item->stop ? from : item->stop;
  item->stop =
      item->stop - less > item->start ? item->stop - less : item->start;
  item->sized = true;
  return MOVED(gen, v, x,
               keep_or_null(node_subscript(&g, x, rank, items, &fault)));
}

/* Rows at computed indices: a formula of 0, 1, ..., or data. */
static inline BoundedValue random_gather(GraphGen *gen, BoundedValue v) {
  uint32_t rank = v.node->rank, how = choose(gen, 4);
  int64_t rows = rank ? axis_extent(v.node, 0) : 0,
          n = gen->dims[choose(gen, EXTENT_CHOICES)];
  int64_t by = 1 + choose(gen, 5), over_ = 1 + choose(gen, 4);
  if (rows == 0 ||
      (double)n * term_count(v.node) > (double)(gen->max_elements * rows))
    return (BoundedValue){0};
  Node *at;
  if (how < 2) { /* k * by / over mod rows */
    at = keep(node_iota(&g, DT_I64, n, &fault));
    at = op2(PRIM_DIV, mul(at, integer(by)), integer(over_));
    at = op2(PRIM_MOD, at, integer(rows));
  } else {
    Node *k = random_data(gen, how == 2 ? DT_I64 : DT_I32, 1, &n);
    at = k ? op2(PRIM_MOD, convert(k, DT_I64), integer(rows)) : NULL;
  }
  if (!at)
    return (BoundedValue){0};
  return MOVED(gen, v, x, keep_or_null(node_gather(&g, x, at, &fault)));
}

/* for i => x.[i, (by * i + from) % columns], and other diagonals */
static inline BoundedValue random_diagonal(GraphGen *gen, BoundedValue v) {
  uint32_t rank = v.node->rank, by = choose(gen, 4), from = choose(gen, 9);
  if (rank < 2 || axis_extent(v.node, 1) == 0 ||
      var_count + 2 > ARRAY_LEN(vars))
    return (BoundedValue){0};
  IndexVar *i = var(axis_extent(v.node, 0));
  Node *at = index_of(i);
  Subscript items[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, axis_extent(v.node, k));
  items[0] = item_at(at);
  if (by != 1 || axis_extent(v.node, 0) > axis_extent(v.node, 1))
    at = op2(PRIM_MOD, add(mul(at, integer(by)), integer(from)),
             integer(axis_extent(v.node, 1)));
  items[1] = item_at(at);
  return MOVED(gen, v, x, ({
                 Node *row =
                     keep_or_null(node_subscript(&g, x, rank, items, &fault));
                 row ? keep_or_null(node_close(&g, row, 1, &i, &fault)) : NULL;
               }));
}

static inline BoundedValue random_index_map(GraphGen *gen, BoundedValue v) {
  uint32_t what = choose(gen, 10), rank = v.node->rank, a = choose(gen, 60);
  int64_t by = choose(gen, 5);
  bool way = choose(gen, 2);
  uint32_t axis = rank ? a % rank : 0;
  Scalar zero = num(v.node->dtype, 0.5);
  switch (what) {
  case 0:
    return random_permute(gen, v);
  case 1:
    return random_reshape(gen, v);
  case 2:
    return random_slice(gen, v);
  case 3:
    return random_gather(gen, v);
  case 9:
    return random_diagonal(gen, v);
  default:
    break;
  }
  if (rank == 0)
    return (BoundedValue){0};
  switch (what) {
  case 4:
    return MOVED(gen, v, x,
                 keep_or_null(node_roll(&g, x, axis, by * 7 - 9, &fault)));
  case 5:
    return MOVED(gen, v, x, keep_or_null(node_reverse(&g, x, axis, &fault)));
  case 6:
    return MOVED(
        gen, v, x,
        keep_or_null(node_pad(&g, x, axis, by, 4 - by,
                              scalar_convert(zero, x->dtype), &fault)));
  case 7:
    return MOVED(gen, v, x,
                 keep_or_null(node_tile(&g, x, axis, 1 + by, way, &fault)));
  default:
    return MOVED(gen, v, x, keep_or_null(node_triangle(&g, x, way, &fault)));
  }
}

static inline BoundedValue random_concat(GraphGen *gen, BoundedValue x,
                                         BoundedValue y) {
  uint32_t axis = choose(gen, 60) % (x.node->rank ? x.node->rank : 1);
  bool stacked = choose(gen, 3) == 0;
  Node *n = keep_or_null(
      stacked ? node_stack(&g, 2, (Node *[]){x.node, y.node}, &fault)
              : node_concat(&g, axis, 2, (Node *[]){x.node, y.node}, &fault));
  BoundedValue v = {.node = n, .exact = x.exact && y.exact};
  if (!n || !gen->with_errors || v.exact)
    return v;
  Node *e = x.error ? x.error : scale_error(abs_in_f64(x.node), 0);
  Node *f = y.error ? y.error : scale_error(abs_in_f64(y.node), 0);
  v.error = keep(stacked ? node_stack(&g, 2, (Node *[]){e, f}, &fault)
                         : node_concat(&g, axis, 2, (Node *[]){e, f}, &fault));
  return v;
}

/* ---- `for` ---- */

static inline BoundedValue random_for_body(GraphGen *gen, BoundedValue x) {
  uint32_t what = choose(gen, 4);
  Node *at = index_of(gen->i);
  Dtype t = x.node->dtype;
  if (t == DT_BOOL)
    return (BoundedValue){0};
  if (what == 0) {
    BoundedValue v = {.node = add(x.node, convert(at, t)), .exact = x.exact};
    return x.exact ? v : inexact(gen, v.node, x.error, 1);
  }
  if (x.node->rank == 0 || axis_extent(x.node, 0) == 0)
    return (BoundedValue){0};
  uint32_t rank = x.node->rank;
  Subscript items[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++)
    items[k] = item_range(0, axis_extent(x.node, k));
  if (what < 3) { /* one row */
    items[0] = item_at(op2(PRIM_MOD, at, integer(axis_extent(x.node, 0))));
    return MOVED(gen, x, y,
                 keep_or_null(node_subscript(&g, y, rank, items, &fault)));
  }
  /* if i > 0 && i < rows then x.[i - 1] else x.[0]; only one branch runs */
  Node *in = op2(PRIM_AND, op2(PRIM_GT, at, integer(0)),
                 op2(PRIM_LT, at, integer(axis_extent(x.node, 0))));
  items[0] = item_at(op2(PRIM_SUB, at, integer(1)));
  Subscript first[MAX_RANK];
  memcpy(first, items, sizeof first);
  first[0] = item_at(integer(0));
  return MOVED(
      gen, x, y, ({
        g.guard = in;
        Node *then_ = keep_or_null(node_subscript(&g, y, rank, items, &fault));
        g.guard = NULL;
        Node *else_ = keep_or_null(node_subscript(&g, y, rank, first, &fault));
        then_ &&else_
            ? keep_or_null(node_select_lazy(&g, in, then_, else_, &fault))
            : NULL;
      }));
}

static inline BoundedValue close_over_index(GraphGen *gen, BoundedValue v) {
  return MOVED(gen, v, x, keep_or_null(node_close(&g, x, 1, &gen->i, &fault)));
}

static inline BoundedValue random_opaque(GraphGen *gen, BoundedValue v) {
  uint32_t rank = v.node->rank, what = choose(gen, 2), axis = choose(gen, 60);
  if (rank == 0 || v.node->dtype == DT_BOOL)
    return (BoundedValue){0};
  int64_t params[4] = {axis % rank};
  PrimId op = what ? PRIM_CUMSUM : PRIM_SORT;
  bool broadcasts = rank && v.node->broadcast_mask >> axis % rank & 1;
  if (broadcasts || (!v.exact && !what))
    return (BoundedValue){0};
  Node *n =
      keep(node_opaque(&g, op, 1, &v.node, params, (PrngKey){{0}}, 0, &fault));
  if (!what || !dtype_is_float(v.node->dtype) || v.exact)
    return exact(n); /* not compiled: equal results */
  Node *error = NULL;
  if (gen->with_errors) {
    Node *terms = abs_in_f64(v.node);
    error = scale_error(
        keep(node_opaque(&g, op, 1, &terms, params, (PrngKey){{0}}, 0, &fault)),
        SUM_ULPS * ulp_of(v.node->dtype));
    if (v.error)
      error = add(error, keep(node_opaque(&g, op, 1, &v.error, params,
                                          (PrngKey){{0}}, 0, &fault)));
  }
  return inexact(gen, n, error, 1);
}

/* ---- whole graphs ---- */

static inline BoundedValue random_value(GraphGen *gen) {
  BoundedValue x = gen->pool[choose(gen, gen->count)],
               y = gen->pool[choose(gen, gen->count)];
  BoundedValue c = gen->pool[choose(gen, gen->count)];
  uint32_t what = choose(gen, 25);
  if (gen->prefer_contractions && what > 17)
    what = 13 + what % 5;
  Dtype t = x.node->dtype, wanted = random_dtype(gen);
  if (what < 10 && y.node->dtype != t) {
    y = to_type(gen, y, t);
    if (!y.node)
      return y;
  }
  switch (what) {
  case 0:
  case 1:
  case 2:
    return t == DT_BOOL ? random_select(gen, x, y, c)
                        : random_binary(gen, x, y);
  case 3:
  case 4:
    return t == DT_BOOL ? random_select(gen, x, y, c)
                        : random_division(gen, x, y);
  case 5:
    return random_select(gen, x, y, c);
  case 6:
  case 7:
    return dtype_is_float(t) ? random_unary(gen, x) : to_type(gen, x, wanted);
  case 8:
    return random_concat(gen, x, y);
  case 9:
  case 10:
  case 11:
  case 12:
    return random_reduction(gen, x);
  case 13:
    return random_matmul(gen, x);
  case 14:
    return random_einsum(gen, x);
  case 15:
    return random_convolution(gen, x);
  case 16:
    return softmax(gen, x);
  case 17:
    return choose(gen, 2) ? random_norm(gen, x) : attention(gen, x);
  case 18:
    return random_for_body(gen, x);
  case 19:
    return close_over_index(gen, x);
  case 20:
    return choose(gen, 3) ? to_type(gen, x, wanted) : random_opaque(gen, x);
  case 21:
    return t == DT_BOOL ? (BoundedValue){0}
                        : masked(gen, x, choose(gen, 3) ? 0 : 3);
  default:
    return random_index_map(gen, x);
  }
}

/* Makes the graph.  Returns up to `max` of its values without free indices. */
static inline uint32_t make_graph(GraphGen *gen, uint32_t max,
                                  BoundedValue *roots) {
  uint32_t steps = 3 + choose(gen, 9);
  gen->prefer_contractions = choose(gen, 3) == 0;
  gen->max_elements =
      random_below(&gen->size_state, 8) ? MAX_ELEMENTS : MAX_ELEMENTS_LARGE;
  for (uint32_t k = 0; k < EXTENT_CHOICES; k++)
    gen->dims[k] = random_extent(gen);
  gen->i = var(1 + random_below(&gen->size_state, 9));
  gen->count = 0;
  for (uint32_t k = 0; k < 4; k++) {
    int64_t shape[3];
    uint32_t rank = k == 0 ? 2 : choose(gen, 4);
    for (uint32_t a = 0; a < rank; a++)
      shape[a] = gen->dims[choose(gen, EXTENT_CHOICES)];
    Node *n = k == 3 && choose(gen, 4) == 0
                  ? random_numbers(gen, rank, shape)
                  : random_data(gen, k == 0 ? DT_F32 : random_dtype(gen), rank,
                                shape);
    if (n)
      gen->pool[gen->count++] = exact(n);
  }
  if (!gen->count)
    return 0;
  for (uint32_t k = 0; k < 4 * steps && gen->count < steps + 4; k++) {
    BoundedValue v = random_value(gen);
    if (v.node && node_element_count(v.node) <= gen->max_elements &&
        v.node->rank <= 5)
      gen->pool[gen->count++] = v;
  }
  uint32_t count = 0;
  for (uint32_t k = gen->count; k-- > 0 && count < max;) {
    BoundedValue v = gen->pool[k];
    if (v.node->free_count)
      v = close_over_index(gen, v);
    if (v.node && (count == 0 || choose(gen, 3) == 0))
      roots[count++] = v;
  }
  return count;
}

#endif
