/* Tests compiled kernels with random graphs.  They run on the CPU backend with
 * one, two and three threads, or on the backend that AXON_TARGET names, and on
 * the reference backend.
 *
 *   tests/unit/kernels_test [SEED [COUNT]]
 *
 * Exact values must be equal; others must be within their error (graphs.h).
 * The number of threads must not change a bit.  Each structure runs in three
 * sizes.
 *
 * AXON_TEST_FILTER=NAME runs one test, such as test_random_schedules.
 *
 * AXON_RESULTS=FILE appends the bytes of all results, so that those of two
 * builds can be compared. */
#define _GNU_SOURCE
#include "tests/unit/graphs.h"
#include "support/buffer.h"
#include "tests/unit/random_schedules.h"
#include "tests/unit/tested.h"

#include "backend/cpu/schedule_make.h"
#include "kernel/kernel.h"
#include "runtime/derived_cache.h"
#include "runtime/warn_once.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZES = 3, ROOTS = 3, BATCH = 50, RESULTS = 512 << 20 };

/* The report of a child process. */
typedef struct Report {
  uint64_t seed, sizes; /* being worked on */
  uint64_t kernels;     /* groups with a kernel */
  uint64_t left;        /* groups that were not compiled */
  uint64_t planned;     /* graphs whose plan was not in the cache */
  uint64_t scheduled;   /* kernels with a random schedule */
  size_t used;
  size_t ends[BATCH * SIZES]; /* of the results of each graph in each size */
  char results[RESULTS];
} Report;

static Report *report;

/* ---- a backend that counts ---- */

static void show_kernel(const Kernel *k) {
  Buffer text = {0};
  kernel_print(&text, k);
  fprintf(stderr, "%s\n", text.text);
  buffer_free(&text);
}

/* True if the group has no kernel but could have one. */
static bool is_without(const FusionGroup *c) {
  const Node *n = c->nodes.at[0];
  return !c->kernel && n->kind == NODE_COMP && node_element_count(n) > 0;
}

static void prepare(Graph *graph, uint32_t count,
                    FusionGroup *const *clusters) {
  tested_backend()->prepare(graph, count, clusters);
  for (uint32_t k = 0; k < count; k++) {
    report->kernels += clusters[k]->kernel != NULL;
    report->left += clusters[k]->kernel && !clusters[k]->backend_data;
    report->left += is_without(clusters[k]);
    if (clusters[k]->kernel && !clusters[k]->backend_data &&
        getenv("AXON_LEFT"))
      show_kernel(clusters[k]->kernel);
  }
}

/* The backend under test.  prepare is NULL if AXON_TARGET is reference: then
 * nothing is compiled. */
static Backend counting;

/* Fails if the compiler rejected a kernel. */
static void must_have_compiled(void) {
  OnceWarning n;
  if (warn_once_take(&n))
    fail_msg("%s: %s", n.message, n.note);
}

/* ---- a graph, made and run ---- */

static uint32_t made(uint64_t seed, uint64_t sizes, bool errors,
                     BoundedValue roots[ROOTS]) {
  GraphGen m = {.structure_state = seed * 7919, .with_errors = errors};
  m.size_state = seed * 31 + sizes * 1000003;
  return make_graph(&m, ROOTS, roots);
}

static void force_all(uint32_t count, Node *const *nodes, uint64_t seed) {
  if (!graph_force(&g, count, nodes, &where, &fault))
    fail_msg("graph %d: fault: %s", (int)seed, fault.message);
}

/* Holds only the roots, or all values. */
static uint32_t run_compiled(uint64_t seed, uint64_t sizes,
                             Node *nodes[ROOTS]) {
  BoundedValue roots[ROOTS];
  uint32_t count = made(seed, sizes, false, roots);
  for (uint32_t k = 0; k < count; k++)
    nodes[k] = node_retain(roots[k].node);
  if (seed % 4)
    release_kept();
  for (uint32_t k = 0; k < count; k++)
    keep(nodes[k]);
  force_all(count, nodes, seed);
  return count;
}

/* The same with other constants, so that the plan is cached. */
static void run_other_numbers(uint64_t seed, uint64_t sizes) {
  Node *nodes[ROOTS];
  number_scale = 1.37;
  run_compiled(seed, sizes, nodes);
  number_scale = 1;
  release_kept();
}

/* The sign of a NaN depends on the order of operands, which compilers choose.
 */
static void make_nans_equal(Dtype dtype, int64_t count, char *results) {
  for (int64_t k = 0; dtype_is_float(dtype) && k < count; k++) {
    char *at = results + k * dtype_info[dtype].bytes;
    if (isnan(scalar_load(dtype, at).f))
      scalar_store((Scalar){.dtype = dtype, .f = NAN}, at);
  }
}

static void compiled_graph(uint64_t seed, uint64_t sizes, FuseMode fuse) {
  Node *nodes[ROOTS];
  g.fuse_mode = fuse;
  g.backend = &counting;
  if (seed % 3 == 0) /* non-temporal stores, however small */
    setenv("AXON_STREAM", "0", 1);
  else
    unsetenv("AXON_STREAM");
  if (sizes == 1)
    run_other_numbers(seed, sizes);
  uint64_t before = g.plan_cache_hits;
  uint32_t count = run_compiled(seed, sizes, nodes);
  if (sizes == 1 && count && before == g.plan_cache_hits)
    report->planned++;
  for (uint32_t k = 0; k < count; k++) {
    const Tensor *t = nodes[k]->data;
    size_t bytes = (size_t)t->count * dtype_info[t->dtype].bytes;
    if (report->used + bytes > RESULTS)
      fail_msg("no room for the results");
    memcpy(report->results + report->used, t->data, bytes);
    make_nans_equal(t->dtype, t->count, report->results + report->used);
    report->used += bytes;
  }
}

static FuseMode mode_of(uint64_t seed) {
  return seed % 5 == 4 ? FUSE_NONE : seed % 5 == 3 ? FUSE_ALL : FUSE_COST;
}

static void end_graph(void) {
  release_kept();
  graph_clear_caches(&g);
  while (var_count)
    index_var_release(vars[--var_count]);
}

/* A failure in a child ends the child.  Otherwise cmocka would run the other
 * tests there. */
static void end_where_it_fails(void) {
  setenv("CMOCKA_TEST_ABORT", "1", 1);
}

static void keep_results(const Report *r) {
  const char *path = getenv("AXON_RESULTS");
  FILE *file = path ? fopen(path, "ab") : NULL;
  if (!path)
    return;
  if (!file || fwrite(r->results, 1, r->used, file) != r->used || fclose(file))
    fail_msg("cannot write %s", path);
}

/* Runs graphs from .. to - 1 in a new process. */
static Report *in_child(uint64_t from, uint64_t to, const char *threads) {
  Report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(r != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    report = r;
    end_where_it_fails();
    setenv("AXON_THREADS", threads, 1);
    derived_cache_set_eager(*threads == '2'); /* must not change results */
    for (r->seed = from; r->seed < to; r->seed++)
      for (r->sizes = 0; r->sizes < SIZES; r->sizes++) {
        compiled_graph(r->seed, r->sizes, mode_of(r->seed));
        end_graph();
        must_have_compiled();
        r->ends[(r->seed - from) * SIZES + r->sizes] = r->used;
      }
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    fail_msg("graph %d, sizes %d, threads %s: status %x", (int)r->seed,
             (int)r->sizes, threads, status);
  keep_results(r);
  return r;
}

/* ---- comparing ---- */

static bool agrees(double want, double got, bool exact_, double error) {
  if (same_value(want, got))
    return true;
  if (exact_)
    return false;
  /* no finite error bound: any value is correct */
  return !isfinite(error) || fabs(want - got) <= error;
}

static uint32_t compare_root(const BoundedValue *v, const char *results,
                             uint64_t seed, uint64_t sizes, uint32_t root) {
  const Tensor *t = v->node->data;
  int64_t bytes = dtype_info[t->dtype].bytes;
  uint32_t wrong = 0;
  for (int64_t k = 0; k < t->count; k++) {
    Scalar x = scalar_load(t->dtype, tensor_at(t, k));
    Scalar y = scalar_load(t->dtype, results + k * bytes);
    bool whole = !dtype_is_float(t->dtype);
    double error = v->error ? ((double *)v->error->data->data)[k] : 0;
    if (whole ? x.i == y.i : agrees(x.f, y.f, v->exact, error))
      continue;
    if (wrong++ == 0)
      print_error("graph %d, sizes %d, root %u: %s element %lld of %lld: "
                  "%.9g, not %.9g +- %g\n",
                  (int)seed, (int)sizes, root, dtype_info[t->dtype].name,
                  (long long)k, (long long)t->count, value_of(y), value_of(x),
                  v->exact ? 0 : error);
  }
  return wrong != 0;
}

static void show_graph(uint32_t count, const BoundedValue *roots, uint64_t seed,
                       uint64_t sizes) {
  Buffer text = {0};
  Node *nodes[ROOTS];
  for (uint32_t k = 0; k < count; k++)
    nodes[k] = roots[k].node;
  graph_print(&g, &text, count, nodes);
  fprintf(stderr, "graph %d, sizes %d\n%s\n", (int)seed, (int)sizes, text.text);
  buffer_free(&text);
}

/* By the definition: every node is materialized. */
static uint32_t compare_graph(uint64_t seed, uint64_t sizes,
                              const char **results) {
  BoundedValue roots[ROOTS];
  Node *nodes[2 * ROOTS];
  uint32_t wrong = 0, all = 0;
  g.fuse_mode = FUSE_NONE;
  g.backend = &backend_reference;
  uint32_t count = made(seed, sizes, true, roots);
  if (getenv("AXON_SHOW"))
    show_graph(count, roots, seed, sizes);
  for (uint32_t k = 0; k < count; k++) {
    nodes[all++] = roots[k].node;
    if (roots[k].error)
      nodes[all++] = roots[k].error;
  }
  force_all(all, nodes, seed);
  for (uint32_t k = 0; k < count; k++) {
    wrong += compare_root(&roots[k], *results, seed, sizes, k);
    const Tensor *t = roots[k].node->data;
    *results += (size_t)t->count * dtype_info[t->dtype].bytes;
  }
  end_graph();
  return wrong;
}

/* Fails with the first graph of a batch whose results differ. */
static void must_be_same(const Report *one, const Report *more, uint64_t from,
                         const char *threads) {
  size_t at = 0;
  uint32_t k = 0;
  if (one->used == more->used &&
      memcmp(one->results, more->results, one->used) == 0)
    return;
  while (at < one->used && one->results[at] == more->results[at])
    at++;
  while (k + 1 < BATCH * SIZES && one->ends[k] <= at)
    k++;
  fail_msg("%s threads: other results, in graph %d, sizes %d", threads,
           (int)(from + k / SIZES), (int)(k % SIZES));
}

static void check_random_kernels(void) {
  uint32_t wrong = 0;
  uint64_t kernels = 0, left = 0, planned = 0, scheduled = 0;
  uint64_t end = first_seed + seed_count;
  for (uint64_t from = first_seed; from < end; from += BATCH) {
    uint64_t to = from + BATCH < end ? from + BATCH : end;
    Report *one = in_child(from, to, "1");
    const char *threads = tested_backend() == &backend_cpu ? "23" : "";
    for (; *threads; threads++) {
      const char number[] = {*threads, 0};
      Report *more = in_child(from, to, number);
      must_be_same(one, more, from, number);
      munmap(more, sizeof *more);
    }
    const char *results = one->results;
    for (uint64_t s = from; s < to; s++)
      for (uint64_t sizes = 0; sizes < SIZES; sizes++)
        wrong += compare_graph(s, sizes, &results);
    assert_true(results == one->results + one->used);
    kernels += one->kernels;
    left += one->left;
    planned += one->planned;
    scheduled += one->scheduled;
    munmap(one, sizeof *one);
  }
  if (seed_count > 60)
    print_message("%d kernels, %d left to the reference backend, %d with "
                  "random schedules\n",
                  (int)kernels, (int)left, (int)scheduled);
  assert_int_equal(wrong, 0);
  assert_true(kernels > seed_count || !counting.prepare);
  /* Rounding can make two constants equal. */
  assert_true(planned <= seed_count / 10);
}

static void test_random_kernels(void **state) {
  (void)state;
  check_random_kernels();
}

/* ---- random schedules ---- */

static const char *count_schedule(const Kernel *k) {
  const char *text = random_schedule(k);
  report->scheduled += text != NULL;
  if (text && getenv("AXON_SHOW"))
    fprintf(stderr, "schedule\n%s", text);
  return text;
}

/* The same graphs with random schedules. */
static void test_random_schedules(void **state) {
  (void)state;
  if (tested_backend() != &backend_cpu)
    skip();
  schedule_set_source(count_schedule);
  check_random_kernels();
  schedule_set_source(NULL);
}

/* ---- single features, with exact values ---- */

typedef Node *Made(int64_t n);

/* Both backends must agree on the graph of this size, and it must be
 * compiled. */
static void must_agree(Made *make, int64_t n) {
  Report *r = report = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Node *nodes[2];
  for (uint32_t k = 0; k < 2; k++) {
    g.backend = k ? &backend_reference : &counting;
    nodes[k] = make(n);
    must_force(nodes[k]);
  }
  const Tensor *x = nodes[0]->data, *y = nodes[1]->data;
  must_have_compiled();
  assert_true(r->kernels > 0 || x->count == 0 || !counting.prepare);
  assert_true(r->left == 0);
  assert_int_equal(x->count, y->count);
  for (int64_t k = 0; k < x->count; k++)
    if (!same_value(element_at(nodes[0], k), element_at(nodes[1], k)))
      fail_msg("of %d, element %d: %g, not %g", (int)n, (int)k,
               element_at(nodes[0], k), element_at(nodes[1], k));
  munmap(r, sizeof *r);
  release_kept();
}

static Node *moved_to(Node *x, uint32_t rank, const int64_t *shape) {
  return keep(node_reshape(&g, x, rank, shape, 0, &fault));
}
static Node *transposed(Node *x) {
  return keep(node_permute(&g, x, (uint32_t[]){1, 0}, &fault));
}

/* Lanes that wrap around, once or several times. */
static Node *rolled(int64_t n) {
  Node *x = keep(node_roll(&g, data(DT_F32, SHAPE(5, n)), 1, 3, &fault));
  return add(x, keep(node_roll(&g, x, 0, 2, &fault)));
}
static Node *tiled(int64_t n) {
  return keep(node_tile(&g, data(DT_I32, SHAPE(3, n)), 1, 4, false, &fault));
}
static Node *thirds(int64_t n) { /* rows k / 3 and -k / 3 */
  Node *k =
      op2(PRIM_DIV, keep(node_iota(&g, DT_I64, 3 * n, &fault)), integer(3));
  Node *x = keep(node_gather(&g, numbers(SHAPE(n)), k, &fault));
  return add(x, op2(PRIM_DIV, op1(PRIM_NEG, x), integer(3)));
}
/* A diagonal of a value that the same kernel computes. */
static Node *diagonal_of_local(int64_t n) {
  IndexVar *i = var(n);
  Node *x = op1(PRIM_NEG,
                reduce(PRIM_MAX, data(DT_F32, SHAPE(n, 9, n)), 1, 1, false));
  Node *d = close1(get2(x, index_of(i), index_of(i)), i);
  return add(d, reduce(PRIM_MAX, x, 1, 1, false));
}

static Node *diagonal_of_columns(int64_t n) {
  IndexVar *i = var(n);
  Node *x = keep(node_permute(&g, data(DT_F32, SHAPE(9, 5, n)),
                              (uint32_t[]){2, 0, 1}, &fault));
  x = op1(PRIM_NEG, reduce(PRIM_MAX, x, 1, 1, false));
  Node *j = op2(PRIM_MOD, index_of(i), integer(5));
  Node *d = close1(get2(x, index_of(i), j), i);
  return add(d, reduce(PRIM_MAX, x, 1, 1, false));
}

/* The first of equal elements, along and across rows, with a split axis. */
static Node *where_across(int64_t n) {
  Node *x = data(DT_F32, SHAPE(7, n));
  return add(reduce(PRIM_ARGMAX, x, 0, 1, false),
             reduce(PRIM_ARGMIN, x, 0, 1, false));
}
static Node *where_cut(int64_t n) {
  Node *x = moved_to(transposed(data(DT_I32, SHAPE(6, n))), 1, (int64_t[]){-1});
  return reduce(PRIM_ARGMAX, x, 0, 1, false);
}
static Node *where_cut_rows(int64_t n) {
  Node *x = keep(node_permute(&g, data(DT_I32, SHAPE(4, 6, n)),
                              (uint32_t[]){0, 2, 1}, &fault));
  return reduce(PRIM_ARGMIN, moved_to(x, 2, (int64_t[]){4, -1}), 1, 1, false);
}
static Node *where_single(int64_t n) {
  return reduce(PRIM_ARGMAX, data(DT_F32, SHAPE(n, 1)), 1, 1, false);
}
/* A reduction of one value, next to one of several. */
static Node *single_beside(int64_t n) {
  Node *x = data(DT_I64, SHAPE(n, 9)), *y = data(DT_I64, SHAPE(n, 1, 9));
  return add(reduce(PRIM_SUM, reduce(PRIM_SUM, y, 1, 1, false), 1, 1, false),
             reduce(PRIM_SUM, x, 1, 1, false));
}

/* A 16-bit product whose value stays in the kernel. */
static Node *half_products(int64_t n) {
  Node *x = data(DT_F16, SHAPE(n, 24)), *y = data(DT_F16, SHAPE(24, 48));
  Node *z = keep(node_matmul(&g, x, y, &fault));
  return op2(PRIM_SUB, z, reduce(PRIM_MAX, z, 1, 1, true));
}

/* bf16 dot products: even and odd numbers of terms; contiguous or strided;
 * parts of rows; computed operands; two axes. */
static Node *bf16_products(int64_t n) {
  Node *x = data(DT_BF16, SHAPE(30, n + 34)), *y = data(DT_BF16, SHAPE(97, 70));
  Node *z = data(DT_BF16, SHAPE(n + 34, 97));
  Node *sum =
      keep(node_matmul(&g, keep(node_matmul(&g, x, z, &fault)), y, &fault));
  return convert(sum, DT_F32);
}
static Node *bf16_turned(int64_t n) {
  Node *x = data(DT_BF16, SHAPE(n + 34, 31)),
       *y = data(DT_BF16, SHAPE(65, n + 34));
  return keep(node_matmul(&g, transposed(x), transposed(y), &fault));
}
static Node *bf16_parts(int64_t n) { /* rows of x have one more element */
  IndexVar *i = var(29), *j = var(n + 33);
  Node *x = get2(data(DT_BF16, SHAPE(29, n + 34)), index_of(i),
                 add(index_of(j), integer(1)));
  x = close1(close1(x, j), i);
  Node *y = data(DT_BF16, SHAPE(n + 33, 48));
  return keep(node_matmul(&g, op1(PRIM_NEG, x), y, &fault));
}
static Node *bf16_axes(int64_t n) {
  static const uint8_t x[] = {0, 1, 2}, y[] = {2, 1, 3}, out[] = {0, 3};
  return keep(node_einsum(&g, 2,
                          (Node *[]){data(DT_BF16, SHAPE(25, 6, n)),
                                     data(DT_BF16, SHAPE(n, 6, 40))},
                          (const uint8_t *[]){x, y}, 2, out, &fault));
}

/* Rows and columns that are no multiple of a tile; packed and unpacked
 * operands; results in memory; several passes over rows. */
static Node *plain_edges(int64_t n) {
  Node *x = data(DT_F32, SHAPE(n, 40)), *y = data(DT_F32, SHAPE(40, n + 47));
  return keep(node_matmul(&g, x, y, &fault));
}
static Node *copied_edges(int64_t n) {
  Node *x = data(DT_F32, SHAPE(n + 1, 530)),
       *y = data(DT_F32, SHAPE(530, n + 160));
  return keep(node_matmul(&g, x, y, &fault));
}
static Node *turned_edges(int64_t n) {
  Node *x = data(DT_F32, SHAPE(n + 61, 34)),
       *y = data(DT_F32, SHAPE(n + 150, 34)), *b = data(DT_F32, SHAPE(n + 150));
  return add(keep(node_matmul(&g, op1(PRIM_NEG, x), transposed(y), &fault)), b);
}

/* Batches of small products: entirely in registers, one or several at a time,
 * and by partial tiles; with transposed or shared operands. */
static Node *batch_of(Dtype t, int64_t n, int64_t rows, int64_t columns,
                      const uint8_t *x, const uint8_t *y, const uint8_t *out,
                      int64_t depth) {
  const uint8_t *letters[] = {x, y};
  Node *args[2];
  for (uint32_t k = 0; k < 2; k++) { /* of b, m, n, k as 0, 1, 2, 3 */
    int64_t shape[3], sizes[] = {n + 64, rows, columns, depth};
    for (uint32_t a = 0; a < 3; a++)
      shape[a] = sizes[letters[k][a]];
    args[k] = data(t, (Shape){3, {shape[0], shape[1], shape[2]}, 0});
  }
  return keep(node_einsum(&g, 2, args, letters, 3, out, &fault));
}
static const uint8_t bmk[] = {0, 1, 3}, bkn[] = {0, 3, 2}, bmn[] = {0, 1, 2},
                     bkm[] = {0, 3, 1}, bnk[] = {0, 2, 3}, bnm[] = {0, 2, 1};
static Node *small_twos(int64_t n) {
  return batch_of(DT_F32, n, 2, 2, bmk, bkn, bmn, 2);
}
static Node *small_threes(int64_t n) {
  return batch_of(DT_F64, n, 3, 3, bmk, bkn, bnm, 3);
}
static Node *small_turned(int64_t n) {
  return batch_of(DT_F32, n, 5, 7, bkm, bnk, bmn, 6);
}
static Node *small_tiles(int64_t n) {
  return batch_of(DT_F32, n, 13, 21, bmk, bkn, bmn, 9);
}
static Node *small_columns(int64_t n) {
  return batch_of(DT_F32, n, 33, 48, bkm, bkn, bmn, 30);
}
static Node *small_by_one(int64_t n) { /* one operand for all matrices */
  Node *x = data(DT_F32, SHAPE(4, 3)),
       *y = data(DT_F32, SHAPE(2, n + 64, 3, 5));
  return keep(node_matmul(&g, x, y, &fault));
}

/* Small factors whose product is large; divisors beyond the last lane. */
static Node *wide_products(int64_t n) {
  Node *x = op2(PRIM_MOD, numbers(SHAPE(n)), integer(1000000007));
  x = op2(PRIM_MOD, mul(x, integer(99999989)), integer(1000000007));
  return mul(x, x);
}
static Node *negative_divisors(int64_t n) {
  Node *k = keep(node_iota(&g, DT_I64, n, &fault));
  Node *by = op2(PRIM_SUB, k, integer(n));
  return add(op2(PRIM_DIV, numbers(SHAPE(n)), by),
             op2(PRIM_MOD, integer(INT64_MAX / 2), by));
}

/* Under a condition, a row that may not exist: for i < n => if i > 1 then the
 * maximum or the count of x.[i - 2] else -1.  It is materialized, since it is
 * read again. */
static Node *under_conditions(int64_t n) {
  Node *x = data(DT_I64, SHAPE(n, 9));
  IndexVar *i = var(n);
  Node *c = op2(PRIM_GT, index_of(i), integer(1));
  Node *all = op2(PRIM_AND, c, op2(PRIM_LT, index_of(i), integer(n - 1)));
  Subscript row[2] = {item_at(op2(PRIM_SUB, index_of(i), integer(2))),
                      item_range(0, 9)};
  g.guard = all;
  Node *y = keep(node_subscript(&g, x, 2, row, &fault));
  Node *by = op2(PRIM_SUB, index_of(i), integer(1));
  Node *most = op2(PRIM_DIV, reduce(PRIM_MAX, y, 0, 1, false), by);
  Node *many = reduce(PRIM_PROD, op2(PRIM_MOD, y, by), 0, 1, false);
  g.guard = NULL;
  Node *z =
      keep(node_select_lazy(&g, all, add(most, many), integer(-1), &fault));
  return close1(z, i);
}

static void test_single_things(void **state) {
  (void)state;
  static Made *const makers[] = {
      rolled,        under_conditions,  tiled,
      thirds,        diagonal_of_local, diagonal_of_columns,
      where_across,  where_cut,         where_cut_rows,
      where_single,  single_beside,     half_products,
      bf16_products, bf16_turned,       bf16_parts,
      bf16_axes,     small_twos,        small_threes,
      small_turned,  small_tiles,       small_columns,
      small_by_one,  wide_products,     negative_divisors,
      plain_edges,   copied_edges,      turned_edges};
  static const int64_t sizes[] = {4, 15, 16, 17, 65, 130};
  for (uint32_t k = 0; k < ARRAY_LEN(makers); k++)
    for (uint32_t j = 0; j < ARRAY_LEN(sizes); j++)
      must_agree(makers[k], sizes[j]);
}

/* Sums that are split into parts; three results. */
static Node *sum_of_all(int64_t n) {
  return reduce(PRIM_SUM, data(DT_F32, SHAPE(n, 97)), 0, 2, false);
}
static Node *halves_of_all(int64_t n) {
  return reduce(PRIM_SUM, data(DT_F16, SHAPE(n, 7)), 0, 2, true);
}
static Node *down_columns(int64_t n) {
  return reduce(PRIM_MAX, data(DT_F64, SHAPE(n, 33)), 0, 1, false);
}
/* terms that are pages apart */
static Node *far_columns(int64_t n) {
  return reduce(PRIM_SUM, data(DT_F32, SHAPE(n, 1037)), 0, 1, false);
}
static Node *far_integers(int64_t n) {
  Node *x = data(DT_I32, SHAPE(n, 3, 1025));
  return reduce(PRIM_SUM, x, 0, 1, false);
}
static Node *wraps(int64_t n) {
  return reduce(PRIM_PROD, data(DT_I32, SHAPE(n, 9)), 0, 2, false);
}
static Node *small_wraps(int64_t n) {
  return reduce(PRIM_SUM, data(DT_U8, SHAPE(n, 97)), 0, 1, false);
}
static Node *holds(int64_t n) {
  Node *x = data(DT_I8, SHAPE(3, n, 5));
  return reduce(PRIM_ALL, op2(PRIM_LT, x, constant(DT_I8, 7)), 1, 2, false);
}
static Node *where_in_all(int64_t n) {
  return reduce(PRIM_ARGMIN, data(DT_F32, SHAPE(2, 97 * n)), 1, 1, false);
}
static Node *several(int64_t n) {
  Node *x = data(DT_F32, SHAPE(n, 97));
  Node *most = reduce(PRIM_MAX, x, 1, 1, true);
  Node *y = op2(PRIM_SUB, most, x);
  return add(add(y, reduce(PRIM_SUM, y, 1, 1, true)),
             add(reduce(PRIM_MAX, y, 1, 1, true), most));
}
static Node *big_product(int64_t n) {
  Node *x = data(DT_F32, SHAPE(n, 97)), *y = data(DT_F32, SHAPE(97, 65));
  return op1(PRIM_NEG, keep(node_matmul(&g, x, y, &fault)));
}

/* A few long sums, whose results are stored in another order. */
static Node *turned_sums(int64_t n) {
  static const uint8_t x[] = {0, 1}, y[] = {1, 2}, out[] = {2, 0};
  return keep(node_einsum(
      &g, 2, (Node *[]){data(DT_F32, SHAPE(3, n)), data(DT_F32, SHAPE(n, 15))},
      (const uint8_t *[]){x, y}, 2, out, &fault));
}

static void test_large_things(void **state) {
  (void)state;
  static Made *const makers[] = {sum_of_all,   halves_of_all, down_columns,
                                 wraps,        small_wraps,   holds,
                                 where_in_all, several,       big_product,
                                 turned_sums,  far_columns,   far_integers};
  static const int64_t sizes[] = {0, 1, 100, 4099};
  for (uint32_t k = 0; k < ARRAY_LEN(makers); k++)
    for (uint32_t j = 0; j < ARRAY_LEN(sizes); j++)
      if (makers[k] != where_in_all || sizes[j])
        must_agree(makers[k], sizes[j]);
}

/* ---- sources ---- */

static int objects;

static int count_object(const char *path, const struct stat *is, int type,
                        struct FTW *ftw) {
  (void)is, (void)type, (void)ftw;
  size_t len = strlen(path);
  objects += len > 3 && strcmp(path + len - 3, ".so") == 0;
  return 0;
}

static int remove_it(const char *path, const struct stat *is, int type,
                     struct FTW *ftw) {
  (void)is, (void)type, (void)ftw;
  return remove(path);
}

static int objects_in(const char *folder) {
  objects = 0;
  nftw(folder, count_object, 16, FTW_PHYS);
  return objects;
}

static void make_sized(int64_t n) {
  /* No matmuls: their tile shapes depend on the remainders. */
  static Made *const makers[] = {rolled,       tiled,      thirds,      several,
                                 where_across, sum_of_all, down_columns};
  pid_t child = fork();
  if (child == 0) {
    end_where_it_fails();
    g.backend = &backend_cpu;
    for (uint32_t k = 0; k < ARRAY_LEN(makers); k++)
      must_force(makers[k](n));
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* A process that needs the same graphs, or other sizes, finds everything in the
 * cache that another process filled. */
static void test_texts(void **state) {
  (void)state;
  if (tested_backend() != &backend_cpu)
    skip();
  char folder[] = "/tmp/kernels_test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  char *before = getenv("XDG_CACHE_HOME");
  before = before ? strdup(before) : NULL;
  setenv("XDG_CACHE_HOME", folder, 1);
  Report *r = in_child(first_seed, first_seed + 3, "1");
  int made_first = objects_in(folder);
  munmap(r, sizeof *r);
  r = in_child(first_seed, first_seed + 3, "2");
  munmap(r, sizeof *r);
  assert_true(made_first > 3);
  assert_int_equal(objects_in(folder), made_first);
  make_sized(1000);
  int sized = objects_in(folder);
  for (int64_t n = 1001; n < 1020; n += 6)
    make_sized(n);
  assert_int_equal(objects_in(folder), sized);
  if (before)
    setenv("XDG_CACHE_HOME", before, 1);
  else
    unsetenv("XDG_CACHE_HOME");
  free(before);
  nftw(folder, remove_it, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- memory ---- */

typedef Node *Turn(Node *x, Node *y);

static Node *towards(Node *x, Node *y) { /* 0.75 x + y */
  Node *z = node_map(&g, PRIM_MUL, 2, (Node *[]){x, constant(DT_F32, 0.75)},
                     DT_NONE, &fault);
  return add(keep(z), y);
}
static Node *with_neighbour(Node *x, Node *y) {
  Node *z = keep(node_roll(&g, x, 0, 1, &fault));
  return op2(PRIM_MAXIMUM, add(x, y), z);
}

/* Runs iterations as a loop does.  Returns the number of memory blocks that the
 * last ones took.  held: the initial state is still needed. */
static uint64_t blocks_of_turns(Turn *turn, bool held, uint64_t *fresh) {
  enum { N = 20000, TURNS = 12, FIRST = 4 };
  AllocatorStats before = {0}, after;
  g.backend = &backend_cpu;
  Node *y = node_retain(data(DT_F32, SHAPE(N)));
  Node *x = node_retain(data(DT_F32, SHAPE(N))), *first = node_retain(x);
  release_kept();
  if (!held) {
    node_release(first);
    first = NULL;
  }
  for (uint32_t k = 0; k < TURNS; k++) {
    Node *next = node_retain(turn(x, y));
    release_kept();
    node_release(x);
    x = next;
    if (k == FIRST)
      before = allocator_stats();
    must_force(x);
  }
  after = allocator_stats();
  for (int64_t i = 0; first && i < N; i++)
    assert_true(element_at(first, i) == mixed_values(i));
  if (turn == towards)
    for (int64_t i = 0; i < N; i++) {
      double want = mixed_values(i);
      for (uint32_t k = 0; k < TURNS; k++)
        want = (float)((float)(want * 0.75) + mixed_values(i));
      assert_true(element_at(x, i) == want);
    }
  node_release(x), node_release(y), node_release(first);
  *fresh = after.system_allocs - before.system_allocs;
  return (after.system_allocs + after.cache_hits - before.system_allocs -
          before.cache_hits) /
         (TURNS - FIRST);
}

/* An operand that is read only at the stored index is overwritten.  If
 * neighbours read it, two blocks alternate. */
static void test_in_place(void **state) {
  (void)state;
  uint64_t fresh;
  if (!allocator_stats().is_caching)
    skip(); /* the address sanitizer disables reuse of blocks */
  assert_int_equal(blocks_of_turns(towards, false, &fresh), 0);
  assert_int_equal(blocks_of_turns(towards, true, &fresh), 0);
  assert_int_equal(blocks_of_turns(with_neighbour, false, &fresh), 1);
  assert_int_equal(fresh, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      /* Tests that fork run first: once a process has initialized a GPU driver,
       * the driver does not work in its children. */
      TEST(test_random_kernels), TEST(test_random_schedules),
      TEST(test_texts),          TEST(test_single_things),
      TEST(test_large_things),   TEST(test_in_place),
  };
  /* No kernel is compiled again in the background: test_texts counts objects.
   */
  setenv("AXON_OPTIMIZE", "sample", 0);
  parse_seeds(argc, argv, 60);
  cmocka_set_test_filter(getenv("AXON_TEST_FILTER"));
  counting = counting_backend();
  if (counting.prepare)
    counting.prepare = prepare;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
