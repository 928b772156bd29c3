/* Tests opaque operations against the reference backend, in many shapes and
 * types: on the CPU backend with one, two and three threads, or on the backend
 * that AXON_TARGET names.
 *
 *   tests/unit/routines_test [all] */
#define _GNU_SOURCE
#include "tests/unit/tensors.h"

#include "backend/cpu/library_ops.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RESULTS = 256 << 20 };

/* ---- what is tried ---- */

typedef struct Case {
  PrimId op;
  uint32_t axis; /* topk: number of results; permutation: its length */
  Shape shape;
  bool free;     /* the first axis is a free axis */
  int64_t added; /* scatter: rows of updates */
} Case;

static uint64_t state;

static uint32_t draw(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

/* Few different values among them.  Sums are exact. */
static Scalar element(Dtype t, bool sum) {
  static const double specials[] = {NAN, -0.0, 0.0, INFINITY, -INFINITY};
  uint32_t x = draw(1u << 30);
  if (dtype_is_float(t) && !sum && x % 11 == 0)
    return num(t, specials[x / 16 % ARRAY_LEN(specials)]);
  if (t == DT_F8_E8M0 && sum)
    return num(t, x % 2 ? 0.5 : 64);
  if (t == DT_F4_E2M1 && sum) /* no -0 */
    return num(t, x % 13 - 6.0);
  if (dtype_is_float(t))
    return num(t, ((double)(x % 4001) - 2000) / 64);
  int64_t i = x % 3 ? (int64_t)x - (1 << 29) : x % 100;
  if (dtype_info[t].bytes == 8 && x % 5 == 0)
    i *= INT64_C(1) << 33;
  return scalar_convert((Scalar){.dtype = DT_I64, .i = i}, t);
}

static Node *drawn(Dtype t, uint32_t rank, const int64_t *shape, bool sum) {
  Tensor *x = tensor_new(t, rank, shape, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < x->count; i++)
    scalar_store(element(t, sum), tensor_at(x, i));
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

static Node *drawn_indices(int64_t count, int64_t below) {
  Tensor *x = tensor_new(DT_I64, 1, &count, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++)
    ((int64_t *)x->data)[i] = draw((uint32_t)below);
  Node *n = keep(node_data(&g, x));
  tensor_release(x);
  return n;
}

static Node *opaque_of(const Case *c, uint32_t count, Node *const *inputs,
                       uint32_t output) {
  int64_t params[4] = {c->axis};
  return keep(node_opaque(&g, c->op, count, inputs, params,
                          prng_key_from_seed(3), output, &fault));
}

static Node *row_of(Node *x, IndexVar *i) {
  Subscript items[6] = {item_at(index_of(i))};
  for (uint32_t k = 1; k < x->rank; k++)
    items[k] = item_range(0, x->extents[k]);
  return keep(node_subscript(&g, x, x->rank, items, &fault));
}

static Node *made(const Case *c, Dtype t) {
  bool sum = c->op == PRIM_CUMSUM || c->op == PRIM_SCATTER;
  state = 77;
  if (c->op == PRIM_PERMUTATION)
    return opaque_of(c, 0, NULL, 0);
  Node *x = drawn(t, c->shape.rank, c->shape.at, sum);
  if (c->op == PRIM_SCATTER) {
    int64_t shape[6];
    memcpy(shape, c->shape.at, sizeof shape);
    shape[0] = c->added;
    Node *y = drawn(t, c->shape.rank, shape, true);
    Node *index = drawn_indices(c->added, c->shape.at[0]);
    return opaque_of(c, 3, (Node *[]){x, index, y}, 0);
  }
  IndexVar *i = c->free ? var(c->shape.at[0]) : NULL;
  if (c->free)
    x = row_of(x, i);
  Node *n = opaque_of(c, 1, &x, c->op == PRIM_TOPK && draw(2));
  return c->free ? close1(n, i) : n;
}

static const Case cases[] = {
    {PRIM_SORT, 0, SHAPE(1), false, 0},
    {PRIM_SORT, 0, SHAPE(37), false, 0},
    {PRIM_SORT, 0, SHAPE(1000), false, 0},
    {PRIM_SORT, 0, SHAPE(70001), false, 0},
    {PRIM_SORT, 1, SHAPE(5, 300, 3), false, 0},
    {PRIM_SORT, 0, SHAPE(5, 300, 3), true, 0},
    {PRIM_ARGSORT, 0, SHAPE(70001), false, 0},
    {PRIM_ARGSORT, 0, SHAPE(41, 50), false, 0},
    {PRIM_TOPK, 7, SHAPE(30, 500), false, 0},
    {PRIM_TOPK, 1, SHAPE(1), false, 0},
    {PRIM_TOPK, 500, SHAPE(3, 500), false, 0},
    {PRIM_TOPK, 64, SHAPE(3, 64), false, 0},
    {PRIM_TOPK, 31, SHAPE(5, 500), false, 0},
    {PRIM_TOPK, 1000, SHAPE(2, 70001), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(1), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(100003), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(32768), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(3, 40000), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(13, 999), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(13, 999), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(3, 50, 2), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(5, 60, 70), true, 0},
    {PRIM_SCATTER, 0, SHAPE(10), false, 7},
    {PRIM_SCATTER, 0, SHAPE(10), false, 50001},
    {PRIM_SCATTER, 0, SHAPE(40000), false, 50001},
    {PRIM_SCATTER, 0, SHAPE(50, 33), false, 3000},
    {PRIM_SCATTER, 0, SHAPE(50, 3, 100), false, 300},
    {PRIM_SCATTER, 0, SHAPE(40, 5), false, 10},
    {PRIM_SCATTER, 0, SHAPE(30000, 12), false, 1024},
    {PRIM_PERMUTATION, 0, {0}, false, 0},
    {PRIM_PERMUTATION, 1, {0}, false, 0},
    {PRIM_PERMUTATION, 5000, {0}, false, 0},
    {PRIM_PERMUTATION, 70001, {0}, false, 0},
};

/* For slow backends, such as the GPU simulator: two types each, or all. */
static bool every_type;
static const Case few[] = {
    {PRIM_SORT, 0, SHAPE(1), false, 0},
    {PRIM_SORT, 0, SHAPE(37), false, 0},
    {PRIM_SORT, 1, SHAPE(5, 100, 3), false, 0},
    {PRIM_SORT, 0, SHAPE(5, 60, 3), true, 0},
    {PRIM_SORT, 0, SHAPE(4096), false, 0},
    {PRIM_SORT, 0, SHAPE(9001), false, 0},
    {PRIM_SORT, 0, SHAPE(4099, 2), false, 0},
    {PRIM_ARGSORT, 0, SHAPE(41, 50), false, 0},
    {PRIM_ARGSORT, 1, SHAPE(2, 4097), false, 0},
    {PRIM_TOPK, 7, SHAPE(30, 50), false, 0},
    {PRIM_TOPK, 1, SHAPE(1), false, 0},
    {PRIM_TOPK, 64, SHAPE(3, 64), false, 0},
    {PRIM_TOPK, 5, SHAPE(2, 5003), false, 0},
    {PRIM_TOPK, 100, SHAPE(33000), false, 0},
    {PRIM_TOPK, 1025, SHAPE(4500), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(1), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(20011), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(3, 2048), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(13, 257), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(130, 9), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(130, 9), false, 0},
    {PRIM_CUMSUM, 1, SHAPE(3, 50, 2), false, 0},
    {PRIM_CUMSUM, 0, SHAPE(5, 60, 7), true, 0},
    {PRIM_SCATTER, 0, SHAPE(10), false, 7},
    {PRIM_SCATTER, 0, SHAPE(10), false, 0},
    {PRIM_SCATTER, 0, SHAPE(10), false, 5001},
    {PRIM_SCATTER, 0, SHAPE(700), false, 3001},
    {PRIM_SCATTER, 0, SHAPE(50, 33), false, 300},
    {PRIM_PERMUTATION, 0, {0}, false, 0},
    {PRIM_PERMUTATION, 1, {0}, false, 0},
    {PRIM_PERMUTATION, 5000, {0}, false, 0},
};

/* ---- running them ---- */

/* AXON_TARGET, or cpu. */
static const Backend *tested(void) {
  const char *name = getenv("AXON_TARGET");
  const Backend *target = name ? target_by_name(name) : NULL;
  return target ? target : &backend_cpu;
}

typedef struct Results {
  size_t used;
  char bytes[RESULTS];
} Results;

/* All but sums in 16-bit types, which the reference backend runs. */
static bool has_routine(const Case *c, Dtype t) {
  bool sum = c->op == PRIM_CUMSUM || c->op == PRIM_SCATTER;
  return !c->free && !(sum && dtype_info[t].bytes == 2);
}

static void run_case(const Case *c, Dtype t, Results *r) {
  Node *n = made(c, t);
  if (g.backend == &backend_cpu && has_routine(c, t))
    assert_true(library_op_run(&g, n, (bool[3]){true, true, true}));
  must_force(n);
  size_t bytes = (size_t)n->data->count * dtype_info[n->dtype].bytes;
  assert_true(r->used + bytes <= RESULTS);
  memcpy(r->bytes + r->used, n->data->data, bytes);
  r->used += bytes;
  release_kept();
  while (var_count)
    index_var_release(vars[--var_count]);
}

static void run_cases(const Backend *backend, Results *r) {
  static const Dtype types[] = {DT_F32,     DT_F64,     DT_I64,     DT_I32,
                                DT_U8,      DT_I8,      DT_F16,     DT_BF16,
                                DT_F8_E4M3, DT_F8_E5M2, DT_F4_E2M1, DT_F8_E8M0};
  bool all = tested() == &backend_cpu;
  uint32_t count = all ? ARRAY_LEN(cases) : ARRAY_LEN(few);
  g.backend = backend;
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t j = 0; j < ARRAY_LEN(types); j++)
      if (all || every_type || (j + k) % 4 == 0)
        run_case(all ? &cases[k] : &few[k], types[j], r);
}

static Results *in_child(const Backend *backend, const char *threads) {
  Results *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(r != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("AXON_THREADS", threads, 1);
    run_cases(backend, r);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return r;
}

static void test_against_reference(void **state_) {
  (void)state_;
  Results *want = in_child(&backend_reference, "1");
  bool cpu = tested() == &backend_cpu;
  for (const char *threads = cpu ? "123" : "1"; *threads; threads++) {
    Results *got = in_child(tested(), (char[]){*threads, 0});
    assert_int_equal(want->used, got->used);
    size_t k = 0;
    while (k < want->used && want->bytes[k] == got->bytes[k])
      k++;
    if (k < want->used)
      fail_msg("%c threads: another byte %zu of %zu", *threads, k, want->used);
    munmap(got, sizeof *got);
  }
  munmap(want, sizeof *want);
}

/* ---- not exact ---- */

static double thirds(int64_t i) {
  return (double)(i * 7 % 1001 - 400) / 3;
}

static void test_rounded_sums(void **state_) {
  (void)state_;
  Node *x = data_with(DT_F32, SHAPE(100003), thirds), *n[2];
  for (uint32_t k = 0; k < 2; k++) {
    g.backend = k ? &backend_reference : tested();
    n[k] = keep(node_opaque(&g, PRIM_CUMSUM, 1, &x, (int64_t[4]){0},
                            (PrngKey){{0}}, 0, &fault));
    must_force(n[k]);
  }
  for (int64_t i = 0; i < 100003; i++)
    assert_true(fabs(element_at(n[0], i) - element_at(n[1], i)) <=
                2e-7 * fabs(element_at(n[1], i)));
}

/* Errors are reported as by the reference backend. */
static void test_bad_index(void **state_) {
  (void)state_;
  g.backend = tested();
  Node *x = data(DT_F32, SHAPE(5, 2)), *y = data(DT_F32, SHAPE(9, 2));
  Node *index = numbers(SHAPE(9));
  Node *n = keep(node_opaque(&g, PRIM_SCATTER, 3, (Node *[]){x, index, y},
                             (int64_t[4]){0}, (PrngKey){{0}}, 0, &fault));
  must_fault(n, "index 5 is out of bounds for axis 0 of size 5");
}

/* An element to which nothing is added is unchanged, including its sign. */
static void test_negative_zero(void **state_) {
  (void)state_;
  g.backend = tested();
  Node *x = data_with(DT_F32, SHAPE(3), ones);
  ((float *)x->data->data)[1] = -0.0f;
  Tensor *zeros = tensor_new(DT_I64, 1, (int64_t[]){40000}, true, &fault);
  Node *index = keep(node_data(&g, zeros)), *y = data(DT_F32, SHAPE(40000));
  tensor_release(zeros);
  Node *n = keep(node_opaque(&g, PRIM_SCATTER, 3, (Node *[]){x, index, y},
                             (int64_t[4]){0}, (PrngKey){{0}}, 0, &fault));
  must_force(n);
  assert_true(signbit(element_at(n, 1)));
}

static void test_interrupt(void **state_) {
  (void)state_;
  Flag stop = true;
  g.backend = tested();
  g.interrupt = &stop;
  Node *x = data(DT_F32, SHAPE(100003));
  Node *n = keep(node_opaque(&g, PRIM_SORT, 1, &x, (int64_t[4]){0},
                             (PrngKey){{0}}, 0, &fault));
  Trap t;
  FailKind kind = TRAP_SET(t);
  if (kind == FAIL_NONE) {
    must_force(n);
    fail_msg("it was not interrupted");
  }
  assert_int_equal(kind, FAIL_INTERRUPT);
  stop = false;
  must_force(n);
  assert_true(element_at(n, 0) == -4);
}

/* A scatter of few rows takes the memory of its first input, if nothing else
 * reads that. */
static void test_in_place(void **state_) {
  (void)state_;
  static const Case few_rows = {PRIM_SCATTER, 0, SHAPE(400, 5), false, 10};
  static const Case many_rows = {PRIM_SCATTER, 0, SHAPE(400, 5), false, 300};
  static const bool none[3] = {false}, first[3] = {true};
  for (int k = 0; k < 4; k++) {
    g.backend = &backend_cpu;
    Node *n = made(k == 3 ? &many_rows : &few_rows, DT_F32);
    Tensor *x = n->inputs[0]->data;
    Tensor *held = k == 2 ? tensor_retain(x) : NULL;
    const void *memory = x->data;
    assert_true(library_op_run(&g, n, k == 1 ? none : first));
    assert_true((n->data->data == memory) == (k == 0));
    if (k)
      assert_true(x->data == memory && n->inputs[0]->data == x);
    tensor_release(held);
    release_kept();
  }
}

int main(int argc, char **argv) {
  every_type = argc > 1 && strcmp(argv[1], "all") == 0;
  const struct CMUnitTest tests[] = {
      TEST(test_against_reference), TEST(test_rounded_sums),
      TEST(test_bad_index),         TEST(test_negative_zero),
      TEST(test_interrupt),         TEST(test_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
