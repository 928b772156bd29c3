/* Folds and scans over scalar formulas as kernels: a loop nest whose reduced
 * axis is that of the iterations, and whose outputs are the states and, of a
 * scan, the result of each iteration.
 *
 * A task is a block of elements of the state, whose recurrences are
 * independent: vectors if they are contiguous, or interleaved scalars. */
#include "backend/cpu/kernel_cache.h"
#include "backend/cpu/library_ops.h"
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/vector_axis.h"
#include "kernel/verify.h"
#include "support/arena.h"

#include "runtime/thread_pool.h"
#include "machine/limits/cpu.h"

#include <math.h>

typedef struct Recurrence {
  Arena *arena;
  const Node *node;
  LoopNest *loop;
  uint32_t iteration_axis,
      state_count;         /* the axis of iterations; number of states */
  uint32_t element_axis;   /* the axis of independent elements, or NO_AXIS */
  uint32_t *op_of_body_op; /* by body operation: its kernel operation */
} Recurrence;

/* ---- one iteration as operations ---- */

static int64_t product_of_extents(uint32_t count, const int64_t *extents) {
  int64_t product = 1;
  for (uint32_t k = 0; k < count; k++)
    product *= extents[k];
  return product;
}

/* Elements of a node for one value of all free indices. */
static int64_t slice_elements(const Node *n) {
  return product_of_extents(n->rank, n->extents + n->free_count);
}

static int64_t state_elements(const Node *n) {
  int64_t count = slice_elements(n);
  return n->op == PRIM_SCAN ? count / n->params[0] : count;
}

/* Builds the loop: one axis for each free index, one for the elements of a
 * state, and the axis of iterations. */
static LoopNest *build_loop(Recurrence *o, Graph *g) {
  const Node *n = o->node;
  int64_t elements = state_elements(n);
  LoopNest *loop = NEW(o->arena, LoopNest);
  loop->graph = g;
  for (uint32_t v = 0; v < n->free_count; v++)
    loop->extents[loop->parallel_axes++] = n->extents[v];
  if (elements != 1)
    loop->extents[loop->parallel_axes++] = elements;
  o->iteration_axis = loop->spatial_axes = loop->parallel_axes;
  o->element_axis = loop->parallel_axes ? loop->parallel_axes - 1 : NO_AXIS;
  loop->extents[loop->parallel_axes] = n->params[0];
  loop->axis_count = loop->parallel_axes + 1;
  return loop;
}

static uint32_t axis_of_free(const Node *n, const IndexVar *v) {
  uint32_t k = 0;
  while (n->free_vars[k] != v)
    k++;
  return k;
}

/* The address of an input's element; has_iterations: the input has an element
 * for each iteration. */
static AffineExpr *input_address(const Recurrence *o, const Node *x,
                                 bool has_iterations) {
  const Node *n = o->node;
  AffineExpr *q = affine_new(o->arena, 0);
  bool per_element = x->rank > has_iterations;
  int64_t slice = slice_elements(x);
  if (per_element && state_elements(n) != 1)
    q->coef[o->iteration_axis - 1] = 1;
  if (has_iterations)
    q->coef[o->iteration_axis] = slice / n->params[0];
  for (uint32_t k = x->free_count; k-- > 0; slice *= x->extents[k])
    q->coef[axis_of_free(n, x->free_vars[k])] += slice;
  return q;
}

static KernelOp op_from_body(const BodyOp *c) {
  return (KernelOp){.dtype = c->dtype,
                    .op = c->op,
                    .span = c->span,
                    .low = INT64_MIN,
                    .high = INT64_MAX,
                    .proved_safe = true};
}

/* The first output that is a state. */
static uint32_t first_state(const Node *n) {
  return n->op == PRIM_SCAN;
}

static void add_load(Recurrence *o, const BodyOp *c, KernelOp *s) {
  const Node *n = o->node, *x = n->inputs[c->axis];
  if (c->axis < o->state_count) {
    s->kind = KOP_LOAD_LOCAL;
    s->source_output = first_state(n) + c->axis;
    s->address = affine_new(o->arena, 0);
    s->address->coef[o->iteration_axis] = 1;
    return;
  }
  s->kind = KOP_LOAD;
  s->node = x;
  s->input = c->axis;
  s->address = input_address(o, x, (uint64_t)n->params[2] >> c->axis & 1);
}

static void add_ops(Recurrence *o) {
  const Node *n = o->node;
  Arena *arena = o->arena;
  o->op_of_body_op = NEW_ARRAY(arena, uint32_t, n->body_op_count);
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    KernelOp s = op_from_body(c);
    s.arg_count = c->arg_count;
    for (uint32_t j = 0; j < c->arg_count; j++)
      s.args[j] = o->op_of_body_op[c->args[j]];
    if (c->kind == BODY_AXIS)
      add_load(o, c, &s);
    else if (c->kind == BODY_CONST)
      s.kind = KOP_CONST, s.value = c->value;
    else
      s.kind = c->kind == BODY_OP       ? KOP_MAP
               : c->kind == BODY_SELECT ? KOP_SELECT
                                        : KOP_CONVERT;
    o->op_of_body_op[k] = o->loop->ops.len;
    VEC_PUSH(arena, o->loop->ops, s);
  }
}

/* The address of the result's element. */
static AffineExpr *output_address(const Recurrence *o) {
  const Node *n = o->node;
  AffineExpr *q = affine_new(o->arena, 0);
  int64_t slice = slice_elements(n);
  if (state_elements(n) != 1)
    q->coef[o->iteration_axis - 1] = 1;
  if (n->op == PRIM_SCAN)
    q->coef[o->iteration_axis] = state_elements(n);
  for (uint32_t k = n->free_count; k-- > 0; slice *= n->extents[k])
    q->coef[k] += slice;
  return q;
}

static void add_output(Recurrence *o, uint32_t body_op, bool is_result,
                       LoopOutput r) {
  const Node *n = o->node;
  r.dtype = n->body_ops[body_op].dtype;
  r.value_op = o->op_of_body_op[body_op];
  if (is_result) {
    r.node = (Node *)(uintptr_t)n;
    r.global_index = output_address(o);
  }
  VEC_PUSH(o->arena, o->loop->outputs, r);
}

/* The result of an iteration, then the states. */
static void add_outputs(Recurrence *o) {
  const Node *n = o->node;
  bool is_scan = n->op == PRIM_SCAN;
  uint32_t first = n->body_op_count - o->state_count - is_scan;
  if (is_scan)
    add_output(o, n->body_op_count - 1, true, (LoopOutput){0});
  for (uint32_t k = 0; k < o->state_count; k++) {
    const Node *x = n->inputs[k];
    KernelOp s = {.kind = KOP_LOAD,
                  .dtype = x->dtype,
                  .low = INT64_MIN,
                  .high = INT64_MAX,
                  .node = x,
                  .input = k,
                  .address = input_address(o, x, false)};
    LoopOutput r = {.reduce = PRIM_FOLD, .initial_op = o->loop->ops.len};
    VEC_PUSH(o->arena, o->loop->ops, s);
    add_output(o, first + k, !is_scan && k == (uint32_t)n->params[3], r);
  }
}

static Kernel *build_kernel(Recurrence *o, Graph *g) {
  Kernel *k = NEW(o->arena, Kernel);
  k->arena = o->arena;
  k->graph = g;
  o->loop = build_loop(o, g);
  add_ops(o);
  add_outputs(o);
  k->parallel_axes = o->loop->parallel_axes;
  for (uint32_t v = 0; v < o->loop->axis_count; v++)
    k->axis_names[v] = (uint8_t)v;
  VEC_PUSH(o->arena, k->loops, o->loop);
  for (uint32_t j = 0; j < o->node->input_count; j++)
    VEC_PUSH(o->arena, k->inputs, o->node->inputs[j]);
  kernel_verify_after(k, "a recurrence");
  return k;
}

/* ---- schedule ---- */

/* Vectors lie along the elements if they fill one. */
static void choose_schedule(const Recurrence *o, const Kernel *k, Schedule *s) {
  bool has_elements = o->element_axis != NO_AXIS;
  uint32_t bytes = cpu_vector_bytes(),
           width = bytes / (vector_axis_needs_64bit(k, NULL) ? 8 : 4);
  width = width ? width : 1;
  bool is_vectorized = state_elements(o->node) >= width && width > 1;
  *s = (Schedule){.vector_bytes = bytes,
                  .task_kind = has_elements ? TASK_COLUMNS : TASK_POINT,
                  .width = width,
                  .last_axis_block =
                      RECURRENCE_INTERLEAVE * (is_vectorized ? width : 1),
                  .task_height = 1,
                  .nontemporal_bytes = INFINITY};
  s->vector_axes = NEW_ARRAY(o->arena, uint32_t, 1);
  s->vector_axes[0] = is_vectorized ? o->element_axis : NO_AXIS;
  s->nests = NEW_ARRAY(o->arena, Nest *, 1);
  s->nests[0] = nest_choose(k, s, 0);
}

/* ---- execution ---- */

typedef struct RecurrenceLaunch {
  KernelFunction *function;
  void **pointers;
  const CompiledKernel *kernel;
} RecurrenceLaunch;

static int run_tasks(void *context, int64_t begin, int64_t end) {
  const RecurrenceLaunch *launch = context;
  return launch->function(launch->pointers, launch->kernel->ints,
                          launch->kernel->floats, begin, end, NULL);
}

static bool run_kernel(LibraryOp *r, const CompiledKernel *p) {
  const Node *n = r->node;
  RecurrenceLaunch launch = {.kernel = p};
  launch.function = jit_kernel(p->object);
  if (!launch.function)
    return false;
  launch.pointers = NEW_ARRAY(r->arena, void *, n->input_count + 2);
  launch.pointers[0] = r->out->data;
  for (uint32_t k = 0; k < n->input_count; k++)
    launch.pointers[k + 1] = n->inputs[k]->data->data;
  launch.pointers[n->input_count + 1] = (void *)(uintptr_t)r->graph->interrupt;
  jit_count_run(p->object, p->operations);
  int64_t grain =
      1 + (int64_t)(MIN_GRAIN_OPS / (p->operations / (double)p->tasks));
  return library_op_parallel_for(r, p->tasks, grain, run_tasks, &launch);
}

/* ---- cache ---- */

static void hash_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void hash_axes(Buffer *b, const Node *n, const Node *x) {
  hash_number(b, (int64_t)x->dtype << 32 | x->free_count);
  hash_number(b, x->rank);
  for (uint32_t k = 0; k < x->free_count; k++)
    hash_number(b, axis_of_free(n, x->free_vars[k]));
  for (uint32_t k = 0; k < x->free_count + x->rank; k++)
    hash_number(b, x->extents[k]);
}

static void hash_body_op(Buffer *b, const BodyOp *c) {
  hash_number(b, (int64_t)c->kind << 32 | c->dtype);
  hash_number(b, (int64_t)c->op << 32 | c->arg_count);
  for (uint32_t k = 0; k < c->arg_count; k++)
    hash_number(b, c->args[k]);
  hash_number(b, c->kind == BODY_AXIS    ? c->axis
                 : c->kind == BODY_CONST ? c->value.i
                                         : 0);
}

/* Hash of all that the source and its parameters depend on. */
static ArtifactKey recurrence_key(Arena *arena, const Node *n) {
  Buffer b = {.arena = arena};
  buffer_puts(&b, prim_info[n->op].name);
  for (uint32_t k = 0; k < ARRAY_LEN(n->params); k++)
    hash_number(&b, n->params[k]);
  hash_axes(&b, n, n);
  for (uint32_t k = 0; k < n->input_count; k++)
    hash_axes(&b, n, n->inputs[k]);
  for (uint32_t k = 0; k < n->body_op_count; k++)
    hash_body_op(&b, &n->body_ops[k]);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* Compiles the node.  The object is NULL if it cannot be emitted. */
static CompiledKernel compile_recurrence(LibraryOp *r) {
  const Node *n = r->node;
  Recurrence o = {
      .arena = r->arena, .node = n, .state_count = (uint32_t)n->params[1]};
  CompiledKernel p = {.tasks = 1};
  Schedule s;
  CpuKernel e;
  const Kernel *k = build_kernel(&o, r->graph);
  choose_schedule(&o, k, &s);
  const Call *call = &e.code.call;
  if (!emit_kernel(k, &s, NULL, "", &e) || call->checks.len ||
      call->scratch_bytes || call->key_params.len)
    return p;
  p.tasks = e.tasks;
  p.ints = call->ints.at;
  p.int_count = call->ints.len;
  p.floats = call->floats.at;
  p.float_count = call->floats.len;
  p.operations = (double)n->body_op_count * (double)n->params[0] *
                 (double)state_elements(n) *
                 (double)product_of_extents(n->free_count, n->extents);
  p.exact = node_is_exact(n);
  p.object = jit_request(e.code.source.text, e.code.source.len, p.operations);
  return p;
}

bool library_op_recurrence(LibraryOp *r) {
  r->arena = arena_new();
  ArtifactKey key = recurrence_key(r->arena, r->node);
  const CompiledKernel *p = kernel_cache_find(key);
  CompiledKernel compiled;
  if (!p) {
    compiled = compile_recurrence(r);
    p = kernel_cache_insert(key, &compiled);
  }
  if (!p)
    p = &compiled;
  if (!p->object || compiled_kernel_is_interpreted(r->graph, p))
    return false;
  return run_kernel(r, p);
}
