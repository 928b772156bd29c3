/* Tests reverse-mode derivatives (reverse_pass_run) with random graphs in f64.
 *
 *   tests/unit/adjoint_test [SEED [COUNT]]
 *   AXON_TARGET=cuda tests/unit/adjoint_test [SEED [COUNT]]
 *
 * Each graph computes tensors y from leaves x.  For random directions u of x
 * and v of y:
 *   - <grad <v, y>, u> equals the central difference of <v, y> along u.
 *   - <J u, v> equals <u, J^T v>, to rounding.  J u is the vjp of the vjp.
 *   - the gradient of <grad <v, y>, u> along u equals its central difference.
 *   - the reference backend and the CPU backend compute equal gradients.  With
 *     AXON_TARGET, only this is tested, for that backend and for all graphs.
 *
 * Axes have 0 to 7 elements.  A graph is skipped if a value is not finite, or
 * if two step sizes of the differences disagree: then a kink is near. */
#define _GNU_SOURCE
#include "tests/unit/graphs.h"
#include "support/buffer.h"
#include "tests/unit/tested.h"

#include <stdio.h>

enum { SIZES = 3, MAX_LEAVES = 3, MAX_ROOTS = 3, COMPILED_EVERY = 15 };

/* ---- graphs ---- */

typedef struct Program {
  uint64_t seed, sizes;
  uint32_t leaf_count, root_count;
  Node *leaves[MAX_LEAVES]; /* what the graph reads */
  Node *roots[MAX_ROOTS];
} Program;

static uint64_t seed_now, sizes_now;

static void force_all(uint32_t count, Node *const *nodes) {
  Buffer text = {0};
  if (getenv("AXON_SHOW"))
    graph_print(&g, &text, count, nodes);
  if (graph_force(&g, count, nodes, &where, &fault)) {
    buffer_free(&text);
    return;
  }
  if (text.text)
    fprintf(stderr, "%s\n", text.text);
  fail_msg("graph %d, sizes %d: fault: %s", (int)seed_now, (int)sizes_now,
           fault.message);
}

/* Deterministic noise in -1 .. 1, without ties. */
static double noise(uint64_t seed, uint64_t k) {
  uint64_t x = (seed * 0x9e3779b97f4a7c15u + k) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return (double)(x >> 11) * 0x1p-52 - 1;
}

/* Noise with the shape of x. */
static Node *noise_like(const Node *x, uint64_t seed) {
  Tensor *t = tensor_new(DT_F64, x->rank, x->extents, false, &fault);
  t->broadcast_mask = x->broadcast_mask;
  for (int64_t k = 0; k < t->count; k++)
    scalar_store(num(DT_F64, noise(seed, (uint64_t)k)), tensor_at(t, k));
  Node *n = keep(node_data(&g, t));
  tensor_release(t);
  return n;
}

static Node *axis_argument(PrimId op, Node *x, uint32_t axis) {
  return keep(node_opaque(&g, op, 1, &x, (int64_t[4]){axis}, (PrngKey){{0}}, 0,
                          &fault));
}

static Node *largest(Node *x, int64_t count) {
  return keep(node_opaque(&g, PRIM_TOPK, 1, &x, (int64_t[4]){count},
                          (PrngKey){{0}}, 0, &fault));
}

static Node *scattered(Node *x, Node *y) {
  int64_t rows = axis_extent(x, 0), count = axis_extent(y, 0);
  Node *at = keep(node_iota(&g, DT_I64, count, &fault));
  at = op2(PRIM_MOD, mul(at, integer(3)), integer(rows));
  Node *inputs[3] = {x, at, y};
  return keep(node_opaque(&g, PRIM_SCATTER, 3, inputs, (int64_t[4]){0},
                          (PrngKey){{0}}, 0, &fault));
}

static bool same_rows(const Node *x, const Node *y) {
  if (x->rank != y->rank || !x->rank || x->free_count || y->free_count ||
      x->broadcast_mask || y->broadcast_mask || axis_extent(x, 0) == 0)
    return false;
  for (uint32_t k = 1; k < x->rank; k++)
    if (x->extents[k] != y->extents[k])
      return false;
  return true;
}

/* ---- index arithmetic ---- */

enum { MAX_LOOPS = 3 };

typedef struct IndexForm {
  Node *node;
  int64_t low, high; /* inclusive range */
} IndexForm;

/* A sum of multiples of the loop indices. */
static IndexForm affine_index(GraphGen *gen, uint32_t count,
                              IndexVar *const *loops) {
  static const int8_t factors[] = {0, 1, 1, 1, 2, 3, 4, 6, -1, -2};
  IndexForm f = {integer(0), 0, 0};
  for (uint32_t k = 0; k < count; k++) {
    int64_t by = factors[choose(gen, ARRAY_LEN(factors))];
    int64_t last = by * (loops[k]->extent - 1);
    f.node = add(f.node, mul(index_of(loops[k]), integer(by)));
    f.low += last < 0 ? last : 0;
    f.high += last > 0 ? last : 0;
  }
  return f;
}

static int64_t floor_div(int64_t x, int64_t y) {
  return (x - ((x % y + y) % y)) / y;
}

static IndexForm divided(IndexForm f, int64_t by) {
  return (IndexForm){op2(PRIM_DIV, f.node, integer(by)), floor_div(f.low, by),
                     floor_div(f.high, by)};
}

static IndexForm shifted(IndexForm f, int64_t by) {
  return (IndexForm){add(f.node, integer(by)), f.low + by, f.high + by};
}

/* An index of 0 .. n - 1. */
static Node *random_index(GraphGen *gen, uint32_t count, IndexVar *const *loops,
                          int64_t n) {
  IndexForm f = affine_index(gen, count, loops);
  int64_t divisor = 1 + choose(gen, 4);
  uint32_t how = choose(gen, 7);
  f = shifted(f, (int64_t)choose(gen, 3) - (choose(gen, 2) ? f.low : 1));
  if (how == 0) {
    f = divided(f, divisor);
  } else if (how == 1) { /* digits with other weights */
    int64_t radix = (int64_t)choose(gen, 5) - 1;
    IndexForm high = divided(f, divisor);
    Node *low = op2(PRIM_MOD, f.node, integer(divisor));
    high.node = add(mul(low, integer(radix)), high.node);
    high.low -= radix < 0 ? divisor - 1 : 0;
    high.high += radix > 0 ? (divisor - 1) * radix : 0;
    f = high;
  } else if (how == 2) {
    f = (IndexForm){op1(PRIM_NEG, f.node), -f.high, -f.low};
  } else if (how == 3) {
    f = divided(divided(f, divisor), 2);
  } else if (how == 4) {
    f.node = op2(PRIM_MOD, f.node, integer(2 * divisor));
    f = divided((IndexForm){f.node, 0, 2 * divisor - 1}, divisor);
  }
  f = shifted(f, (int64_t)choose(gen, 2) - f.low);
  if (f.high >= n || choose(gen, 4) == 0)
    f.node = op2(PRIM_MOD, f.node, integer(n));
  return f.node;
}

/* for i j => sum (for k => x.[e] * sin x.[f]), with one to three loops; x is
 * a vector or a matrix. */
static Node *index_arithmetic(GraphGen *gen, Node *x) {
  uint32_t count = 1 + choose(gen, MAX_LOOPS), rank = 1 + choose(gen, 2);
  IndexVar *loops[MAX_LOOPS];
  if (!node_element_count(x) || x->free_count || x->broadcast_mask ||
      var_count + count > ARRAY_LEN(vars) || (rank == 2 && x->rank != 2))
    return NULL;
  if (rank == 1)
    x = keep(node_reshape(&g, x, 1, (int64_t[]){-1}, 0, &fault));
  for (uint32_t k = 0; k < count; k++)
    loops[k] = var(1 + random_below(&gen->size_state, 5));
  Node *terms = NULL;
  for (uint32_t k = 0; k < 2; k++) {
    Subscript at[2];
    for (uint32_t a = 0; a < rank; a++)
      at[a] = item_at(random_index(gen, count, loops, axis_extent(x, a)));
    Node *read = keep(node_subscript(&g, x, rank, at, &fault));
    terms = terms ? mul(terms, op1(PRIM_SIN, read)) : read;
    if (choose(gen, 3) == 0)
      break;
  }
  uint32_t summed = choose(gen, count);
  if (summed) {
    terms = keep(node_close(&g, terms, summed, loops, &fault));
    terms =
        reduce(choose(gen, 4) ? PRIM_SUM : PRIM_MAX, terms, 0, summed, false);
  }
  return keep(node_close(&g, terms, count - summed, loops + summed, &fault));
}

/* Operations that random_value applies to exact values only, or not at all. */
static BoundedValue smooth_value(GraphGen *gen) {
  static const PrimId unary[] = {PRIM_TAN, PRIM_SOFTSIGN, PRIM_SQRT, PRIM_LOG};
  BoundedValue x = gen->pool[choose(gen, gen->count)],
               y = gen->pool[choose(gen, gen->count)];
  uint32_t what = choose(gen, 13), k = choose(gen, 60);
  if (x.node->dtype != DT_F64)
    return (BoundedValue){0};
  uint32_t rank = x.node->rank, axis = rank ? k % rank : 0;
  bool broadcasts = rank && x.node->broadcast_mask >> axis & 1;
  bool is_last = rank && x.node->broadcast_mask >> (rank - 1) & 1;
  Node *small = op1(PRIM_SIN, x.node);
  BoundedValue out = {0};
  if (what == 0 && rank)
    out.node = reduce(PRIM_PROD, small, axis, 1, k & 1);
  else if (what == 1)
    out.node =
        op1(unary[k % 4], add(op1(PRIM_ABS, small), constant(DT_F64, 0.5)));
  else if (what == 2 && rank && !broadcasts)
    out.node = axis_argument(PRIM_SORT, x.node, axis);
  else if (what == 3 && rank && !broadcasts)
    out.node = axis_argument(PRIM_CUMSUM, x.node, axis);
  else if (what == 4 && rank && !is_last && axis_extent(x.node, rank - 1))
    out.node = largest(x.node, (axis_extent(x.node, rank - 1) + 1) / 2);
  else if (what == 5 && y.node->dtype == DT_F64 && same_rows(x.node, y.node))
    out.node = scattered(x.node, y.node);
  else if (what > 8)
    out.node = index_arithmetic(gen, x.node);
  else if (what > 5 && y.node->dtype == DT_F64) {
    Node *positive = add(op1(PRIM_ABS, small), constant(DT_F64, 0.5));
    out.node =
        what == 6
            ? keep_or_null(node_map(&g, PRIM_POW, 2,
                                    (Node *[]){positive, op1(PRIM_SIN, y.node)},
                                    DT_NONE, &fault))
        : what == 7
            ? keep_or_null(node_map(&g, PRIM_ATAN2, 2,
                                    (Node *[]){y.node, positive}, DT_NONE,
                                    &fault))
            : keep_or_null(node_map(
                  &g, PRIM_SELECT, 3,
                  (Node *[]){op2(PRIM_GT, x.node, constant(DT_F64, 0.3)),
                             op1(PRIM_COS, x.node), y.node},
                  DT_NONE, &fault));
  }
  return out;
}

static uint32_t add_leaves(GraphGen *gen, Program *p) {
  uint32_t count = 1 + choose(gen, MAX_LEAVES);
  p->leaf_count = 0;
  for (uint32_t k = 0; k < count; k++) {
    int64_t shape[3];
    uint32_t rank = k == 0 ? 2 : choose(gen, 4);
    for (uint32_t a = 0; a < rank; a++)
      shape[a] = gen->dims[choose(gen, EXTENT_CHOICES)];
    if (rank > 1 && choose(gen, 2))
      shape[1] = shape[0];
    Node *x = p->leaves[k];
    if (!x) {
      Shape s = {.rank = rank};
      memcpy(s.at, shape, rank * sizeof *shape);
      x = noise_like(data_with(DT_F64, s, ones), gen->structure_state + k);
      p->leaves[k] = x;
    }
    gen->pool[gen->count++] = (BoundedValue){.node = x};
    p->leaf_count++;
  }
  for (uint32_t k = 0; k < 2; k++) {
    int64_t shape[3];
    uint32_t rank = choose(gen, 4);
    for (uint32_t a = 0; a < rank; a++)
      shape[a] = gen->dims[choose(gen, EXTENT_CHOICES)];
    Node *n = random_data(gen, random_dtype(gen), rank, shape);
    if (n)
      gen->pool[gen->count++] = exact(n);
  }
  return gen->count;
}

/* Builds the graph over p->leaves; makes the leaves that are NULL. */
static void build(Program *p) {
  GraphGen gen = {.structure_state = p->seed * 7919, .is_smooth = true};
  gen.size_state = p->seed * 31 + p->sizes * 1000003;
  uint32_t steps = 2 + choose(&gen, 8);
  gen.prefer_contractions = choose(&gen, 3) == 0;
  gen.max_elements = 600;
  for (uint32_t k = 0; k < EXTENT_CHOICES; k++)
    gen.dims[k] = random_extent(&gen);
  gen.i = var(1 + random_below(&gen.size_state, 4));
  uint32_t first = add_leaves(&gen, p);
  for (uint32_t k = 0; k < 4 * steps && gen.count < steps + first; k++) {
    BoundedValue v = choose(&gen, 4) ? random_value(&gen) : smooth_value(&gen);
    if (v.node && node_element_count(v.node) <= gen.max_elements &&
        v.node->rank <= 5)
      gen.pool[gen.count++] = v;
  }
  p->root_count = 0;
  for (uint32_t k = gen.count; k-- > 0 && p->root_count < MAX_ROOTS;) {
    BoundedValue v = gen.pool[k];
    if (v.node->dtype != DT_F64)
      continue;
    if (v.node->free_count)
      v = close_over_index(&gen, v);
    if (v.node && (p->root_count == 0 || choose(&gen, 3) == 0))
      p->roots[p->root_count++] = v.node;
  }
}

static void end_graph(void) {
  release_kept();
  while (var_count)
    index_var_release(vars[--var_count]);
}

/* ---- values ---- */

static Node *dot_product(Node *x, Node *y) {
  Node *xy = mul(x, y);
  return xy->rank ? reduce(PRIM_SUM, xy, 0, xy->rank, false) : xy;
}

/* <v, y> for the roots y and a constant v. */
static Node *weighted(const Program *p, uint64_t seed) {
  Node *sum = constant(DT_F64, 0);
  for (uint32_t k = 0; k < p->root_count; k++)
    sum = add(sum, dot_product(p->roots[k], noise_like(p->roots[k], seed + k)));
  return sum;
}

/* <u, x> for nodes of the shapes of the leaves; NULL is zero. */
static Node *along(const Program *p, Node *const *x, Node *const *u) {
  Node *sum = constant(DT_F64, 0);
  for (uint32_t k = 0; k < p->leaf_count; k++)
    if (x[k])
      sum = add(sum, dot_product(x[k], u[k]));
  return sum;
}

/* out[k]: the cotangent of leaves[k], kept; NULL: zero. */
static void pull_back(const Tape *tape, uint32_t output_count,
                      Node *const *outputs, Node *const *cotangents,
                      uint32_t leaf_count, Node *const *leaves, Node **out) {
  ReversePass *pass = reverse_pass_new(&g, tape, output_count, outputs,
                                       cotangents, leaf_count, leaves);
  VjpRule *rule;
  Node *const *at_rule;
  if (reverse_pass_run(pass, &rule, &at_rule, &fault) != REVERSE_DONE)
    fail_msg("graph %d, sizes %d: fault: %s", (int)seed_now, (int)sizes_now,
             fault.message);
  for (uint32_t k = 0; k < leaf_count; k++) {
    out[k] = reverse_pass_cotangent(pass, k);
    if (out[k])
      keep(node_retain(out[k]));
  }
  reverse_pass_free(pass);
}

static void gradient(const Tape *tape, Node *y, uint32_t count,
                     Node *const *leaves, Node **out) {
  Node *one = constant(DT_F64, 1);
  pull_back(tape, 1, &y, &one, count, leaves, out);
}

static void tape_leaves(Program *p, Tape *tape) {
  for (uint32_t k = 0; k < p->leaf_count; k++)
    p->leaves[k] = keep(node_leaf(&g, p->leaves[k], tape));
}

/* What is computed at one point x. */
typedef struct Derivatives {
  double value;     /* <v, y> */
  double first;     /* <grad <v, y>, u> */
  double second;    /* <grad of first, u> */
  double magnitude; /* the sum of |terms| of first */
  double forward;   /* <J u, v> */
} Derivatives;

static double forced(Node *n) {
  force_all(1, &n);
  return element_at(n, 0);
}

/* The largest magnitude of an element of the gradient, times that of u. */
static double magnitude_of(const Program *p, Node *const *x) {
  double sum = 0;
  for (uint32_t k = 0; k < p->leaf_count; k++)
    if (x[k]) {
      force_all(1, &x[k]);
      for (int64_t j = 0; j < x[k]->data->count; j++)
        sum += fabs(element_at(x[k], j));
    }
  return sum;
}

/* The point x + step * u; also u. */
static Program program_at(uint64_t seed, uint64_t sizes, double step,
                          Node **u) {
  Program p = {.seed = seed, .sizes = sizes};
  seed_now = seed, sizes_now = sizes;
  build(&p);
  for (uint32_t k = 0; k < p.leaf_count; k++) {
    u[k] = noise_like(p.leaves[k], seed * 977 + k + 1);
    if (step != 0)
      p.leaves[k] = add(p.leaves[k], mul(u[k], real(step)));
    force_all(1, &p.leaves[k]);
  }
  build(&p);
  return p;
}

static double value_at(uint64_t seed, uint64_t sizes, double step) {
  Node *u[MAX_LEAVES];
  Program p = program_at(seed, sizes, step, u);
  double r = forced(weighted(&p, seed));
  end_graph();
  return r;
}

static double slope_at(uint64_t seed, uint64_t sizes, double step) {
  Node *u[MAX_LEAVES], *grad[MAX_LEAVES];
  Program p = program_at(seed, sizes, step, u);
  Tape *tape = tape_new(&g);
  tape_leaves(&p, tape);
  build(&p);
  Node *y = weighted(&p, seed);
  tape_stop_recording(tape);
  gradient(tape, y, p.leaf_count, p.leaves, grad);
  double r = forced(along(&p, grad, u));
  end_graph();
  tape_close(tape);
  return r;
}

static Derivatives derivatives_of(uint64_t seed, uint64_t sizes) {
  Node *u[MAX_LEAVES], *grad[MAX_LEAVES], *second[MAX_LEAVES];
  Derivatives d;
  Program p = program_at(seed, sizes, 0, u);
  Tape *outer = tape_new(&g);
  tape_leaves(&p, outer);
  Program inner = p;
  Tape *tape = tape_new(&g);
  tape_leaves(&inner, tape);
  build(&inner);
  Node *y = weighted(&inner, seed);
  tape_stop_recording(tape);
  gradient(tape, y, p.leaf_count, inner.leaves, grad);
  Node *slope = along(&p, grad, u);
  tape_stop_recording(outer);
  gradient(outer, slope, p.leaf_count, p.leaves, second);
  d.value = forced(y);
  d.first = forced(slope);
  d.magnitude = magnitude_of(&p, grad);
  d.second = forced(along(&p, second, u));
  end_graph();
  tape_close(tape);
  tape_close(outer);
  return d;
}

/* <J u, v>, by differentiating the pullback. */
static double forward_of(uint64_t seed, uint64_t sizes) {
  Node *u[MAX_LEAVES], *back[MAX_LEAVES], *v[MAX_ROOTS], *forward[MAX_ROOTS];
  Program p = program_at(seed, sizes, 0, u);
  Tape *tape = tape_new(&g);
  tape_leaves(&p, tape);
  build(&p);
  tape_stop_recording(tape);
  Tape *linear = tape_new(&g);
  for (uint32_t k = 0; k < p.root_count; k++)
    v[k] = keep(node_leaf(&g, noise_like(p.roots[k], seed + k), linear));
  pull_back(tape, p.root_count, p.roots, v, p.leaf_count, p.leaves, back);
  Node *y = along(&p, back, u);
  tape_stop_recording(linear);
  gradient(linear, y, p.root_count, v, forward);
  Node *sum = constant(DT_F64, 0);
  for (uint32_t k = 0; k < p.root_count; k++)
    if (forward[k])
      sum = add(sum, dot_product(forward[k], v[k]));
  double r = forced(sum);
  end_graph();
  tape_close(tape);
  tape_close(linear);
  return r;
}

/* ---- checks ---- */

typedef double At(uint64_t seed, uint64_t sizes, double step);

/* The derivative of f along the step, with its error; false: near a kink. */
static bool difference(At *f, uint64_t seed, uint64_t sizes, double *out) {
  double estimates[2];
  for (uint32_t k = 0; k < 2; k++) {
    double h = k ? 5e-5 : 2e-4;
    double wide = (f(seed, sizes, 2 * h) - f(seed, sizes, -2 * h)) / (4 * h);
    double narrow = (f(seed, sizes, h) - f(seed, sizes, -h)) / (2 * h);
    estimates[k] = (4 * narrow - wide) / 3;
  }
  *out = estimates[1];
  double size = fabs(estimates[0]) + fabs(estimates[1]);
  return isfinite(size) &&
         fabs(estimates[0] - estimates[1]) <= 1e-7 * size + 1e-10;
}

static bool near(double x, double y, double relative, double scale) {
  return fabs(x - y) <=
         relative * (fabs(x) + fabs(y)) + relative * 1e-2 * (scale + 1e-2);
}

static uint32_t checked, skipped, wrong;

static void show(uint64_t seed, uint64_t sizes) {
  if (!getenv("AXON_SHOW"))
    return;
  Program p = {.seed = seed, .sizes = sizes};
  Buffer text = {0};
  build(&p);
  graph_print(&g, &text, p.root_count, p.roots);
  fprintf(stderr, "%s\n", text.text);
  buffer_free(&text);
  end_graph();
}

static void must_be_near(const char *what, uint64_t seed, uint64_t sizes,
                         double x, double y, double relative, double scale) {
  if (near(x, y, relative, scale))
    return;
  print_error("graph %d, sizes %d: %s: %.12g, not %.12g\n", (int)seed,
              (int)sizes, what, x, y);
  if (wrong++ == 0)
    show(seed, sizes);
}

static void check_graph(uint64_t seed, uint64_t sizes) {
  double slope, second;
  Derivatives d = derivatives_of(seed, sizes);
  double scale = d.magnitude;
  if (!isfinite(d.value) || !difference(value_at, seed, sizes, &slope)) {
    skipped++;
    return;
  }
  checked++;
  must_be_near("first", seed, sizes, d.first, slope, 1e-6, scale);
  must_be_near("transposed", seed, sizes, forward_of(seed, sizes), d.first,
               1e-11, scale);
  if (difference(slope_at, seed, sizes, &second))
    must_be_near("second", seed, sizes, d.second, second, 1e-6, scale);
}

static void test_random_gradients(void **state) {
  (void)state;
  if (getenv("AXON_TARGET"))
    skip();
  g.fuse_mode = FUSE_NONE;
  for (uint64_t s = first_seed; s < first_seed + seed_count; s++)
    for (uint64_t sizes = 0; sizes < SIZES; sizes++) {
      check_graph(s, sizes);
      graph_clear_caches(&g);
    }
  print_message("%u graphs, %u skipped\n", checked, skipped);
  assert_int_equal(wrong, 0);
  assert_true(checked > 3 * skipped);
}

/* The elements of the gradients and second derivatives. */
static size_t gradient_elements(uint64_t seed, uint64_t sizes, double *out,
                                size_t max) {
  Node *u[MAX_LEAVES], *all[2 * MAX_LEAVES] = {NULL};
  Program p = program_at(seed, sizes, 0, u);
  Tape *outer = tape_new(&g);
  tape_leaves(&p, outer);
  Program inner = p;
  Tape *tape = tape_new(&g);
  tape_leaves(&inner, tape);
  build(&inner);
  tape_stop_recording(tape);
  gradient(tape, weighted(&inner, seed), p.leaf_count, inner.leaves, all);
  Node *slope = along(&p, all, u);
  tape_stop_recording(outer);
  gradient(outer, slope, p.leaf_count, p.leaves, all + p.leaf_count);
  Node *nodes[2 * MAX_LEAVES];
  uint32_t count = 0;
  for (uint32_t k = 0; k < 2 * p.leaf_count; k++)
    if (all[k])
      nodes[count++] = all[k];
  force_all(count, nodes);
  size_t used = 0;
  for (uint32_t k = 0; k < count; k++)
    for (int64_t j = 0; j < nodes[k]->data->count && used < max; j++)
      out[used++] = element_at(nodes[k], j);
  end_graph();
  tape_close(tape);
  tape_close(outer);
  return used;
}

static void test_compiled_gradients(void **state) {
  (void)state;
  enum { MAX = 4096 };
  static double want[MAX], got[MAX];
  uint32_t bad = 0;
  uint64_t step = getenv("AXON_TARGET") ? 1 : COMPILED_EVERY;
  for (uint64_t s = first_seed; s < first_seed + seed_count; s += step) {
    uint64_t sizes = s % SIZES;
    g.fuse_mode = FUSE_NONE;
    g.backend = &backend_reference;
    size_t count = gradient_elements(s, sizes, want, MAX);
    graph_clear_caches(&g);
    g.fuse_mode = FUSE_COST;
    g.backend = tested_backend();
    size_t other = gradient_elements(s, sizes, got, MAX);
    graph_clear_caches(&g);
    assert_int_equal(count, other);
    double scale = 0;
    for (size_t k = 0; k < count; k++)
      scale += isfinite(want[k]) ? fabs(want[k]) : 0;
    for (size_t k = 0; k < count; k++)
      if (!same_value(want[k], got[k]) && !near(want[k], got[k], 1e-9, scale)) {
        print_error("graph %d, sizes %d, element %d: %.12g, not %.12g\n",
                    (int)s, (int)sizes, (int)k, got[k], want[k]);
        if (bad++ == 0)
          show(s, sizes);
        break;
      }
  }
  assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_random_gradients),
                                     TEST(test_compiled_gradients)};
  parse_seeds(argc, argv, 240);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
