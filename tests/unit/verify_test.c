/* Tests the kernel verifier (kernel/verify.c): the kernel of a softmax passes,
 * and each way to break that kernel is detected. */
#include "tests/unit/tensors.h"

#include "kernel/verify.h"
#include "support/buffer.h"

static const char *missed;
static uint32_t kernel_count;

static void expect(const Kernel *k, const char *wanted) {
  Buffer message = {0};
  if (kernel_verify(k, &message) != !wanted ||
      (wanted && strcmp(message.text, wanted) != 0))
    missed = wanted ? wanted : "the kernel is right";
  if (missed)
    fprintf(stderr, "wanted: %s\nfound: %s\n", missed,
            message.text ? message.text : "nothing");
  buffer_free(&message);
}

/* Stores a wrong value in `place`, checks the error, and restores it. */
#define BREAK(k, place, value, message)               \
  do {                                                \
    __typeof__(place) *at_ = &(place), right_ = *at_; \
    *at_ = (value);                                   \
    expect(k, message);                               \
    *at_ = right_;                                    \
  } while (0)

static KernelOp *find_op(LoopNest *loop, KernelOpKind kind) {
  for (uint32_t k = 0; k < loop->ops.len; k++)
    if (loop->ops.at[k].kind == kind)
      return &loop->ops.at[k];
  return NULL;
}

static void break_ops(const Kernel *k, LoopNest *last) {
  KernelOp *op = find_op(last, KOP_MAP), *local = find_op(last, KOP_LOAD_LOCAL),
           *load = find_op(k->loops.at[0], KOP_LOAD);
  uint32_t at = (uint32_t)(op - last->ops.at),
           read = (uint32_t)(local - last->ops.at),
           first = (uint32_t)(load - k->loops.at[0]->ops.at),
           loop = k->loops.len - 1;
  char message[200];
  snprintf(message, sizeof message,
           "loop %u: op %u reads op %u before it is computed", loop, at, at);
  BREAK(k, op->args[0], at, message);
  snprintf(message, sizeof message, "loop %u: op %u has 4 arguments", loop, at);
  BREAK(k, op->arg_count, 4, message);
  snprintf(message, sizeof message,
           "loop %u: op %u reads local values of loop %u before it runs", loop,
           read, loop + 1);
  BREAK(k, local->source_loop, loop + 1, message);
  snprintf(message, sizeof message,
           "loop %u: op %u reads output 0 of its loop, which is no state", loop,
           read);
  BREAK(k, local->source_loop, loop, message);
  snprintf(message, sizeof message,
           "loop %u: op %u reads output 9 of loop %u, which does not exist",
           loop, read, local->source_loop);
  BREAK(k, local->source_output, 9, message);
  snprintf(message, sizeof message, "loop 0: op %u loads input 7 of 1", first);
  BREAK(k, load->input, 7, message);
  snprintf(message, sizeof message,
           "loop 0: op %u uses variable 39, which does not exist", first);
  BREAK(k, load->address->coef[MAX_KERNEL_AXES - 1], 1, message);
}

static void break_outputs(const Kernel *k, LoopNest *last) {
  LoopOutput *r = &last->outputs.at[0];
  uint32_t loop = k->loops.len - 1;
  char message[200];
  snprintf(message, sizeof message, "loop %u: output 0 is op %u of %u", loop,
           last->ops.len, last->ops.len);
  BREAK(k, r->value_op, last->ops.len, message);
  snprintf(message, sizeof message,
           "loop %u: output 0 updates output 0 of loop 0, which is no such "
           "state",
           loop);
  BREAK(k, r->updates, true, message);
  r->reduce = PRIM_FOLD;
  snprintf(message, sizeof message, "loop %u: state 0 begins with op %u of %u",
           loop, last->ops.len, last->ops.len);
  BREAK(k, r->initial_op, last->ops.len, message);
  r->reduce = PRIM_NONE;
  snprintf(message, sizeof message,
           "loop %u: output 0 is written outside of its tensor", loop);
  BREAK(k, r->global_index->constant, 1, message);
  BREAK(k, r->global_index->constant, -1, message);
  BREAK(k, r->global_index->coef[0], r->global_index->coef[0] + 1, message);
}

static void break_loops(const Kernel *k, LoopNest *last) {
  uint32_t loop = k->loops.len - 1;
  char message[200];
  snprintf(message, sizeof message,
           "loop %u: the extent of parallel axis 0 is not that of loop 0",
           loop);
  BREAK(k, last->extents[0], last->extents[0] - 1, message);
  snprintf(message, sizeof message,
           "loop %u: it has a bound that the kernel does not have", loop);
  BREAK(k, last->trim_bounds, 1, message);
  snprintf(message, sizeof message,
           "loop %u: it has 1 parallel, 0 spatial and %u axes", loop,
           last->axis_count);
  BREAK(k, last->spatial_axes, 0, message);
  Kernel changed = *k;
  changed.strip_end = 1;
  expect(&changed, "loops 0 to 0 run again, and the strips are 0 to 1");
  changed.strip_end = k->loops.len + 1;
  snprintf(message, sizeof message, "loops 0 to %u of %u are strip-mined",
           k->loops.len + 1, k->loops.len);
  expect(&changed, message);
}

/* Called by the backend before anything runs. */
static void break_kernels(Graph *graph, uint32_t count,
                          FusionGroup *const *groups) {
  (void)graph;
  for (uint32_t j = 0; j < count; j++) {
    Kernel *k = groups[j]->kernel;
    if (!k || k->loops.len < 2)
      continue;
    LoopNest *last = k->loops.at[k->loops.len - 1];
    kernel_count++;
    expect(k, NULL);
    break_ops(k, last);
    break_outputs(k, last);
    break_loops(k, last);
    expect(k, NULL);
  }
}

static void test_broken_kernels(void **state) {
  (void)state;
  Backend backend = backend_reference;
  backend.compiles_kernels = true;
  backend.prepare = break_kernels;
  g.backend = &backend;
  Node *x = data(DT_F32, SHAPE(48, 64));
  Node *top = keep(node_reduce(&g, PRIM_MAX, x, 1, 1, true, &fault));
  Node *shifted =
      keep(node_map(&g, PRIM_SUB, 2, (Node *[]){x, top}, DT_NONE, &fault));
  Node *e = keep(node_map(&g, PRIM_EXP, 1, &shifted, DT_NONE, &fault));
  Node *sum = keep(node_reduce(&g, PRIM_SUM, e, 1, 1, true, &fault));
  Node *softmax =
      keep(node_map(&g, PRIM_DIV, 2, (Node *[]){e, sum}, DT_NONE, &fault));
  must_force(softmax);
  assert_int_equal(kernel_count, 1);
  if (missed)
    fail_msg("not found: %s", missed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_broken_kernels, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
