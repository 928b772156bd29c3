/* Tests sums over the rows of a kernel (plan/accumulation.c), and weights that
 * matmuls compute again (plan/recomputation.c), with random attention-like
 * graphs and their gradients.
 *
 *   tests/unit/accumulation_test [SEED [COUNT]]
 *
 * Each graph runs with and without such sums, and with one and two threads. The
 * results must agree, and the number of threads must not change a bit.  Most
 * graphs must have a kernel that does this, and no such graph may store a
 * value of the size of the scores, unless a gradient has this size. */
#define _GNU_SOURCE
#include "tests/unit/graphs.h"
#include "tests/unit/tested.h"

#include "kernel/kernel.h"
#include "machine/machine.h"
#include "plan/backend.h"
#include "runtime/artifact.h"
#include "runtime/warn_once.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_GRAPHS = 1000, MAX_RESULTS = 5 };

/* The report of a child process. */
typedef struct Report {
  uint64_t seed; /* being worked on */
  uint32_t accumulating, storing;
  uint64_t hashes[MAX_GRAPHS];
} Report;

static Report *report;

/* ---- the backends ---- */

static double score_elements; /* of the current graph */
/* Matmuls that reduce the rows of several heads do not compute 16-bit weights
 * again. */
static bool may_store;
static uint32_t accumulating_kernels, stored_scores;

static void count_kernel(const Kernel *k) {
  accumulating_kernels += k->accumulated_axes > 0 || k->recomputes;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      stored_scores += r->global_index &&
                       (double)node_element_count(r->node) >= score_elements;
    }
}

static void prepare(Graph *graph, uint32_t count,
                    FusionGroup *const *clusters) {
  for (uint32_t k = 0; k < count; k++)
    if (clusters[k]->kernel)
      count_kernel(clusters[k]->kernel);
  backend_cpu.prepare(graph, count, clusters);
}

static Backend accumulating, plain;

/* ---- graphs ---- */

typedef struct Attention {
  uint64_t state;
  Dtype dtype;
  int64_t groups, heads, n, m, d, e;
  Node *leaves[4]; /* queries, keys, values; bias, or NULL */
  Node *out;
  bool is_normalized; /* each row of weights is divided by its sum */
} Attention;

static uint32_t pick(Attention *a, uint32_t n) {
  return random_below(&a->state, n);
}

static double noise(int64_t i) {
  uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
  return (double)(int32_t)(x >> 32) * 0x1p-31;
}

static Node *einsum2(Node *x, const char *of_x, Node *y, const char *of_y,
                     const char *of_result) {
  uint8_t labels[3][8];
  const char *texts[] = {of_x, of_y, of_result};
  for (uint32_t k = 0; k < 3; k++)
    for (uint32_t j = 0; texts[k][j]; j++)
      labels[k][j] = (uint8_t)(texts[k][j] - 'a');
  return keep(node_einsum(&g, 2, (Node *[]){x, y},
                          (const uint8_t *const[]){labels[0], labels[1]},
                          (uint32_t)strlen(of_result), labels[2], &fault));
}

static Node *select3(Node *c, Node *x, Node *y) {
  return keep(
      node_map(&g, PRIM_SELECT, 3, (Node *[]){c, x, y}, DT_NONE, &fault));
}

/* A mask of the scores: causal, a band, or data. */
static Node *mask_of(Attention *a, uint32_t kind) {
  if (kind == 3)
    return data_with(DT_BOOL, SHAPE(a->n, a->m), mixed_values);
  IndexVar *i = var(a->n), *j = var(a->m);
  Node *row = index_of(i), *column = index_of(j);
  Node *mask = op2(PRIM_LE, column, row);
  if (kind == 2)
    mask = op2(PRIM_AND, mask,
               op2(PRIM_LT, row, add(column, integer(a->m / 3 + 1))));
  return close2(mask, i, j);
}

static Node *scores_of(Attention *a) {
  Node *x = einsum2(a->leaves[0], "ghid", a->leaves[1], "gjd", "ghij");
  uint32_t what = pick(a, 4), kind = pick(a, 6);
  x = mul(x, constant(a->dtype, what ? 0.3 : 0.25));
  if (what == 1)
    x = mul(constant(a->dtype, 3),
            op1(PRIM_TANH, mul(x, constant(a->dtype, 0.4))));
  if (what == 2 && pick(a, 2)) {
    a->leaves[3] = data_with(a->dtype, SHAPE(a->n, a->m), noise);
    x = add(x, a->leaves[3]);
  }
  if (kind > 0 && kind < 4)
    x = select3(mask_of(a, kind), x, constant(a->dtype, -INFINITY));
  return x;
}

static Node *output_of(Attention *a) {
  Node *x = scores_of(a), *e;
  switch (pick(a, 4)) {
  case 0: /* without a maximum */
    e = op1(PRIM_EXP, x);
    break;
  case 1: /* weights that are not normalized */
    e = op1(PRIM_EXP, op2(PRIM_MINIMUM, x, constant(a->dtype, 2)));
    return einsum2(e, "ghij", a->leaves[2], "gje", "ghie");
  default:
    e = op1(PRIM_EXP,
            op2(PRIM_SUB, x,
                keep(node_stop_gradient(&g, reduce(PRIM_MAX, x, 3, 1, true)))));
    break;
  }
  a->is_normalized = true;
  Node *weights = op2(PRIM_DIV, e, reduce(PRIM_SUM, e, 3, 1, true));
  return einsum2(weights, "ghij", a->leaves[2], "gje", "ghie");
}

static Attention attention_of(uint64_t seed, Tape *tape) {
  static const int64_t depths[] = {9, 16, 17, 33, 64};
  Attention a = {.state = seed * 7919};
  static const Dtype dtypes[] = {DT_F64, DT_F32, DT_F32, DT_F16};
  a.dtype = dtypes[pick(&a, 4)];
  /* one task for each group: enough for all cores of this machine */
  a.groups = machine()->processors < 4 ? 4 : machine()->processors;
  a.heads = 1 + pick(&a, 3);
  a.m = 64 + pick(&a, 300);
  if (pick(&a, 4) == 0) /* the rows are computed in strips */
    a.m += 800;
  a.n = 280000 / (a.groups * a.heads * a.m) + 40 + pick(&a, 50);
  if (a.n < 260 / a.heads) /* rows for all cores */
    a.n = 260 / a.heads;
  do { /* scores are much larger than queries, keys and values */
    a.d = depths[pick(&a, 5)];
    a.e = depths[pick(&a, 5)];
  } while (4 * a.d > a.m || 4 * a.e > a.m || 4 * a.d > a.n || 4 * a.e > a.n);
  Shape shapes[] = {SHAPE(a.groups, a.heads, a.n, a.d),
                    SHAPE(a.groups, a.m, a.d), SHAPE(a.groups, a.m, a.e)};
  for (uint32_t k = 0; k < 3; k++)
    a.leaves[k] =
        keep(node_leaf(&g, data_with(a.dtype, shapes[k], noise), tape));
  may_store = a.dtype == DT_F16 && a.heads > 1;
  a.out = output_of(&a);
  score_elements = (double)(a.groups * a.heads * a.n * a.m);
  return a;
}

/* Computes the result and the gradients of <w, result>; not of the bias. */
static uint32_t run_graph(uint64_t seed, const Backend *backend,
                          Node **results) {
  g.backend = backend;
  Tape *tape = tape_new(&g);
  Attention a = attention_of(seed, tape);
  Node *w = data_with(a.dtype, SHAPE(a.groups, a.heads, a.n, a.e), noise);
  tape_stop_recording(tape);
  ReversePass *pass = reverse_pass_new(&g, tape, 1, &a.out, &w, 3, a.leaves);
  VjpRule *rule;
  Node *const *at_rule;
  uint32_t count = 0;
  assert_int_equal(reverse_pass_run(pass, &rule, &at_rule, &fault),
                   REVERSE_DONE);
  for (uint32_t k = 0; k < 3; k++)
    if (k != seed % 7) /* sometimes only two of them */
      results[count++] = keep(node_retain(reverse_pass_cotangent(pass, k)));
  reverse_pass_free(pass);
  /* otherwise one kernel computes the gradients, and another one the result */
  if (seed % 2 && a.is_normalized)
    results[count++] = a.out;
  if (!graph_force(&g, count, results, &where, &fault))
    fail_msg("graph %d: fault: %s", (int)seed, fault.message);
  tape_close(tape);
  return count;
}

static void end_graph(void) {
  release_kept();
  graph_clear_caches(&g);
  while (var_count)
    index_var_release(vars[--var_count]);
}

/* ---- comparing ---- */

static double largest(const Node *x) {
  double max = 0;
  for (int64_t k = 0; k < x->data->count; k++)
    max = fmax(max, fabs(element_at(x, k)));
  return max;
}

static void compare(uint64_t seed, uint32_t at, const Node *x, const Node *y) {
  double part = x->dtype == DT_F64 ? 1e-12 : x->dtype == DT_F32 ? 1e-5 : 5e-3;
  double limit = part * (1 + largest(y));
  for (int64_t k = 0; k < x->data->count; k++) {
    double got = element_at(x, k), want = element_at(y, k);
    if (!same_value(got, want) && !(fabs(got - want) <= limit))
      fail_msg("graph %d, result %u, element %lld: %.9g, not %.9g", (int)seed,
               at, (long long)k, got, want);
  }
}

static uint64_t hash_of(uint32_t count, Node *const *results) {
  uint64_t hash = 0;
  for (uint32_t k = 0; k < count; k++) {
    const Tensor *t = results[k]->data;
    ArtifactKey key = artifact_key(
        1, &(ArtifactPart){t->data,
                           (size_t)t->count * dtype_info[t->dtype].bytes});
    hash = hash * 31 + *(const uint64_t *)(const void *)&key;
  }
  return hash;
}

static void check_graph(uint64_t seed, bool compares) {
  Node *results[MAX_RESULTS], *wanted[MAX_RESULTS];
  accumulating_kernels = stored_scores = 0;
  uint32_t count = run_graph(seed, &accumulating, results);
  report->hashes[seed - first_seed] = hash_of(count, results);
  if (getenv("AXON_SHOW"))
    print_message("graph %d: %u accumulate, %u store scores\n", (int)seed,
                  accumulating_kernels, stored_scores);
  report->accumulating += accumulating_kernels > 0;
  report->storing +=
      accumulating_kernels > 0 && stored_scores > 0 && !may_store;
  if (compares) {
    run_graph(seed, &plain, wanted);
    for (uint32_t k = 0; k < count; k++)
      compare(seed, k, results[k], wanted[k]);
  }
  end_graph();
}

static Report *in_child(const char *threads) {
  Report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(r != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    report = r;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    setenv("AXON_THREADS", threads, 1);
    for (r->seed = first_seed; r->seed < first_seed + seed_count; r->seed++)
      check_graph(r->seed, *threads == '2');
    OnceWarning n;
    if (warn_once_take(&n))
      fail_msg("%s: %s", n.message, n.note);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    fail_msg("graph %d, threads %s: status %x", (int)r->seed, threads, status);
  return r;
}

static void test_gradients(void **state) {
  (void)state;
  Report *two = in_child("2"), *one = in_child("1");
  for (uint64_t k = 0; k < seed_count; k++)
    if (one->hashes[k] != two->hashes[k])
      fail_msg("graph %d: the number of threads changes the result",
               (int)(first_seed + k));
  print_message("%u of %u graphs accumulate; %u store scores\n",
                two->accumulating, (unsigned)seed_count, two->storing);
  assert_true(seed_count < 20 || two->accumulating >= seed_count / 2);
  assert_int_equal(two->storing, 0);
  munmap(one, sizeof *one);
  munmap(two, sizeof *two);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_gradients)};
  parse_seeds(argc, argv, 20);
  seed_count = seed_count < MAX_GRAPHS ? seed_count : MAX_GRAPHS;
  accumulating = plain = backend_cpu;
  accumulating.prepare = prepare;
  plain.can_accumulate = NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
