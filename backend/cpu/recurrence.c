/* Folds and scans over scalar formulas as C: the loop over iterations contains
 * the operations of one step, with the state in registers.
 *
 * A task is a block of elements of the state, whose recurrences are
 * independent: vectors if they are contiguous, or interleaved scalars. */
#include "backend/cpu/kernel_cache.h"
#include "backend/cpu/library_ops.h"
#include "backend/cpu/cpu_emitter.h"
#include "support/arena.h"

#include "runtime/thread_pool.h"
#include "machine/limits/cpu.h"

#include <string.h>

#define format emit_format

typedef struct Recurrence {
  Emitter *e;
  const Node *node;
  LoopNest *loop;
  uint32_t iteration_axis,
      state_count;         /* the axis of iterations; number of states */
  uint32_t element_axis;   /* the axis of independent elements, or NO_AXIS */
  bool is_vectorized;      /* vectors lie along element_axis */
  uint32_t *op_of_body_op; /* by body operation: its kernel operation */
  const char *(*state_offsets); /* offset of each state in memory */
  const char *out_offset;
  Buffer full_code, tail_code; /* code at the end of an iteration */
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
static LoopNest *build_loop(Recurrence *o, Kernel *k) {
  const Node *n = o->node;
  int64_t elements = state_elements(n);
  LoopNest *loop = NEW(k->arena, LoopNest);
  loop->graph = k->graph;
  for (uint32_t v = 0; v < n->free_count; v++)
    loop->extents[loop->parallel_axes++] = n->extents[v];
  if (elements != 1)
    loop->extents[loop->parallel_axes++] = elements;
  o->iteration_axis = loop->spatial_axes = loop->parallel_axes;
  o->element_axis = loop->parallel_axes ? loop->parallel_axes - 1 : NO_AXIS;
  loop->extents[loop->parallel_axes] = n->params[0];
  loop->axis_count = loop->parallel_axes + 1;
  k->parallel_axes = loop->parallel_axes;
  VEC_PUSH(k->arena, k->loops, loop);
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
  AffineExpr *q = affine_new(o->e->arena, 0);
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

static void add_load(Recurrence *o, const BodyOp *c, KernelOp *s) {
  const Node *n = o->node, *x = n->inputs[c->axis];
  s->kind = KOP_LOAD;
  s->node = x;
  s->input = c->axis;
  s->address = input_address(o, x, (uint64_t)n->params[2] >> c->axis & 1);
  if (c->axis >= o->state_count)
    return;
  /* a state changes with each iteration and is not in memory */
  s->address = affine_new(o->e->arena, 0);
  for (uint32_t v = 0; v < o->loop->axis_count; v++)
    s->address->coef[v] = 2;
}

static void add_ops(Recurrence *o) {
  const Node *n = o->node;
  Arena *arena = o->e->arena;
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

/* The outputs of an iteration. */
static void add_outputs(Recurrence *o) {
  const Node *n = o->node;
  uint32_t count = o->state_count + (n->op == PRIM_SCAN);
  for (uint32_t k = n->body_op_count - count; k < n->body_op_count; k++) {
    LoopOutput r = {.dtype = n->body_ops[k].dtype,
                    .value_op = o->op_of_body_op[k]};
    r.global_index = affine_new(o->e->arena, 0);
    VEC_PUSH(o->e->arena, o->loop->outputs, r);
  }
}

static uint32_t choose_width(const Recurrence *o) {
  uint32_t bytes = cpu_vector_bytes(), number = 4;
  for (uint32_t k = 0; k < o->loop->ops.len; k++)
    if (dtype_info[o->loop->ops.at[k].dtype].bytes == 8)
      number = 8;
  return bytes / number ? bytes / number : 1;
}

/* ---- C source ---- */

static const char *state_name(Recurrence *o, uint32_t k) {
  return format(o->e, "state%u[q]", k);
}

static void bind_states(Recurrence *o) {
  Emitter *e = o->e;
  const char **precomputed =
      NEW_ARRAY(e->arena, const char *, o->loop->ops.len);
  for (uint32_t k = 0; k < o->loop->ops.len; k++) {
    const KernelOp *s = &o->loop->ops.at[k];
    if (s->kind == KOP_LOAD && s->input < o->state_count)
      precomputed[k] = state_name(o, s->input);
  }
  e->ops.precomputed = precomputed;
}

static const char *vector_offset(Recurrence *o, const char *base) {
  return o->is_vectorized ? format(o->e, "%s + j", base) : base;
}

static void emit_output(Recurrence *o, Buffer *out, Dtype t, const char *x,
                        bool full) {
  const char *name = dtype_info[t].name, *to = vector_offset(o, o->out_offset);
  if (o->is_vectorized)
    buffer_printf(
        out, full ? "st_%s(o0 + %s, %s);\n" : "stp_%s(o0 + %s, %s, rest);\n",
        name, to, x);
  else if (dtype_is_narrow_float(t))
    buffer_printf(out, "put_%s(o0 + %s, %s);\n", name, to, x);
  else
    buffer_printf(out, "o0[%s] = (%s)%s;\n", to, memory_type(t), x);
}

static const char *output_value(Recurrence *o, const LoopOutput *r) {
  return o->is_vectorized
             ? emit_vector(o->e, r->value_op, value_class(r->dtype))
             : format(o->e, "(%s)%s", scalar_type(value_class(r->dtype)),
                      emit_scalar(o->e, r->value_op));
}

/* Stores the outputs of an iteration, then the new states: all reads of the old
 * states come first. */
static void emit_iteration_end(Recurrence *o) {
  for (uint32_t k = o->state_count; k < o->loop->outputs.len; k++) {
    const LoopOutput *r = &o->loop->outputs.at[k];
    emit_output(o, &o->full_code, r->dtype, output_value(o, r), true);
    emit_output(o, &o->tail_code, r->dtype, output_value(o, r), false);
  }
  for (uint32_t k = 0; k < o->state_count; k++) {
    const char *x = output_value(o, &o->loop->outputs.at[k]);
    buffer_printf(&o->full_code, "%s = %s;\n", state_name(o, k), x);
    buffer_printf(&o->tail_code, "%s = %s;\n", state_name(o, k), x);
  }
}

static const char *initial_state(Recurrence *o, uint32_t k) {
  Dtype t = o->node->inputs[k]->dtype;
  const char *name = dtype_info[t].name;
  const char *at =
      format(o->e, "p%u + %s", k, vector_offset(o, o->state_offsets[k]));
  if (o->is_vectorized)
    return format(o->e, "LOAD(%s, %s)", name, at);
  if (dtype_is_narrow_float(t))
    return format(o->e, "get_%s(%s)", name, at);
  return format(o->e, "*(%s)%s", at, t == DT_BOOL ? " != 0" : "");
}

/* Opens the loop over interleaved elements. */
static void open_interleaved(Recurrence *o, Buffer *out, uint32_t interleave) {
  buffer_printf(out, "#pragma GCC unroll %d\nfor (int q = 0; q < %u; q++) {\n",
                RECURRENCE_INTERLEAVE, interleave);
  if (o->is_vectorized)
    buffer_puts(out, "const int64_t j = first + q * W;\n(void)j;\n");
  else if (o->element_axis != NO_AXIS)
    buffer_printf(out, "const int64_t i%u = first + q;\n(void)i%u;\n",
                  o->element_axis, o->element_axis);
}

/* A long loop checks regularly for an interrupt. */
static void open_iterations(Recurrence *o, Buffer *out) {
  uint32_t v = o->iteration_axis;
  int64_t iterations = o->loop->extents[v];
  const char *trip_count = emit_int(o->e, iterations);
  if (iterations <= ITERATIONS_PER_POLL) {
    buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                  trip_count, v);
    return;
  }
  buffer_printf(out,
                "for (int64_t at = 0; at < %s; at += %d) {\n"
                "if (stop && *stop)\nreturn 0;\n"
                "const int64_t till = %s - at < %d ? %s : at + %d;\n"
                "for (int64_t i%u = at; i%u < till; i%u++) {\n",
                trip_count, ITERATIONS_PER_POLL, trip_count,
                ITERATIONS_PER_POLL, trip_count, ITERATIONS_PER_POLL, v, v, v);
}

static void close_iterations(const Recurrence *o, Buffer *out) {
  buffer_puts(out, o->loop->extents[o->iteration_axis] > ITERATIONS_PER_POLL
                       ? "}\n}\n"
                       : "}\n");
}

/* All iterations of `interleave` vectors or scalars from `first` on. */
static void emit_iterations(Recurrence *o, Buffer *out, uint32_t interleave,
                            bool full) {
  Emitter *e = o->e;
  uint32_t inner = o->is_vectorized ? e->levels.vector
                   : o->element_axis != NO_AXIS
                       ? e->levels.of[o->element_axis]
                       : e->levels.of[o->iteration_axis];
  for (uint32_t k = 0; k < o->state_count; k++) {
    char class = value_class(o->node->inputs[k]->dtype);
    if (o->is_vectorized)
      buffer_printf(out, "v%c state%u[%u];\n", vector_type_letter(class), k,
                    interleave);
    else
      buffer_printf(out, "%s state%u[%u];\n", scalar_type(class), k,
                    interleave);
  }
  buffer_puts(out, full ? full_vector_macros : tail_macros);
  open_interleaved(o, out, interleave);
  for (uint32_t k = 0; k < o->state_count; k++)
    buffer_printf(out, "%s = %s;\n", state_name(o, k), initial_state(o, k));
  buffer_puts(out, "}\n");
  open_iterations(o, out);
  if (inner != e->levels.of[o->iteration_axis])
    emit_append(out, &e->levels.code[e->levels.of[o->iteration_axis]]);
  open_interleaved(o, out, interleave);
  emit_append(out, &e->levels.code[inner]);
  emit_append(out, full ? &o->full_code : &o->tail_code);
  buffer_puts(out, "}\n");
  close_iterations(o, out);
  if (o->node->op == PRIM_FOLD) {
    open_interleaved(o, out, interleave);
    emit_output(o, out, o->node->dtype,
                state_name(o, (uint32_t)o->node->params[3]), full);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, undef_macros);
}

/* Elements lo .. hi - 1: interleaved, then one at a time. */
static void emit_elements(Recurrence *o, Buffer *out) {
  if (o->element_axis == NO_AXIS) {
    buffer_puts(out, "const int64_t first = 0;\n(void)first;\n");
    emit_iterations(o, out, 1, true);
    return;
  }
  const char *step = o->is_vectorized ? " * W" : "";
  buffer_puts(out, "int64_t first = lo;\n");
  for (uint32_t interleave = RECURRENCE_INTERLEAVE; interleave;
       interleave /= RECURRENCE_INTERLEAVE) {
    buffer_printf(out, "for (; first + %u%s <= hi; first += %u%s) {\n",
                  interleave, step, interleave, step);
    emit_iterations(o, out, interleave, true);
    buffer_puts(out, "}\n");
  }
  if (!o->is_vectorized)
    return;
  buffer_puts(out, "if (first < hi) {\nconst int rest = (int)(hi - first);\n"
                   "(void)rest;\n");
  emit_iterations(o, out, 1, false);
  buffer_puts(out, "}\n");
}

/* Declares the elements of task u.  Returns the number of tasks. */
static int64_t emit_task_range(Recurrence *o, Buffer *out) {
  Emitter *e = o->e;
  int64_t tasks = 1;
  uint32_t points = o->loop->parallel_axes;
  buffer_puts(out, "int64_t row = u;\n");
  if (o->element_axis != NO_AXIS) {
    int64_t extent = o->loop->extents[--points];
    int64_t block =
        RECURRENCE_INTERLEAVE * (o->is_vectorized ? (int64_t)e->width : 1);
    const char *n = emit_int(e, extent);
    tasks = ceil_div(extent, block);
    buffer_printf(out,
                  "const int64_t blocks = %s, lo = row %% blocks * %lld;\n"
                  "const int64_t hi = lo + %lld < %s ? lo + %lld : %s;\n"
                  "row /= blocks;\n",
                  emit_int(e, tasks), (long long)block, (long long)block, n,
                  (long long)block, n);
  }
  for (uint32_t v = points; v-- > 0; tasks *= o->loop->extents[v]) {
    const char *n = emit_int(e, o->loop->extents[v]);
    buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v, n, n);
  }
  buffer_puts(out, "(void)row;\n");
  return tasks;
}

static void emit_pointers(const Recurrence *o, Buffer *out) {
  const Node *n = o->node;
  buffer_printf(out, "%s *restrict const o0 = p[0];\n", memory_type(n->dtype));
  for (uint32_t k = 0; k < n->input_count; k++)
    buffer_printf(out, "const %s *const p%u = p[%u];\n",
                  memory_type(n->inputs[k]->dtype), k, k + 1);
  buffer_printf(out, "const _Atomic _Bool *const stop = p[%u];\n(void)stop;\n",
                n->input_count + 1);
}

/* The address before the first iteration. */
static const char *offset_before_iterations(Recurrence *o,
                                            const AffineExpr *q) {
  const char *sum = "0";
  for (uint32_t v = 0; v < o->iteration_axis; v++)
    if (q->coef[v] && !(o->is_vectorized && v == o->element_axis))
      sum = format(o->e, "%s + %s * i%u", sum, emit_int(o->e, q->coef[v]), v);
  return sum;
}

static void find_offsets(Recurrence *o) {
  Emitter *e = o->e;
  const Node *n = o->node;
  AffineExpr *out = affine_new(e->arena, 0);
  int64_t slice = slice_elements(n);
  if (state_elements(n) != 1)
    out->coef[o->iteration_axis - 1] = 1;
  if (n->op == PRIM_SCAN)
    out->coef[o->iteration_axis] = state_elements(n);
  for (uint32_t k = n->free_count; k-- > 0; slice *= n->extents[k])
    out->coef[k] += slice;
  o->out_offset = n->op == PRIM_SCAN ? emit_affine(e, out)
                                     : offset_before_iterations(o, out);
  o->state_offsets = NEW_ARRAY(e->arena, const char *, o->state_count);
  for (uint32_t k = 0; k < o->state_count; k++)
    o->state_offsets[k] =
        offset_before_iterations(o, input_address(o, n->inputs[k], false));
}

/* Emits the source.  Returns false if an operation has no code generation. */
static bool emit_recurrence(Recurrence *o, int64_t *tasks) {
  Emitter *e = o->e;
  Buffer *out = &e->emitted->source, rows = {.arena = e->arena}, body = rows;
  uint32_t order[2] = {o->iteration_axis, o->element_axis};
  o->full_code = o->tail_code = body;
  bool is_scalar_interleaved = !o->is_vectorized && o->element_axis != NO_AXIS;
  emit_begin_loop(e, o->loop, o->is_vectorized ? o->element_axis : NO_AXIS,
                  is_scalar_interleaved ? 2 : 1, order);
  bind_states(o);
  *tasks = emit_task_range(o, &rows);
  emit_ops(e);
  e->ops.precomputed = NULL;
  find_offsets(o);
  emit_iteration_end(o);
  emit_elements(o, &body);
  buffer_printf(out,
                "#define W %u\nint kernel(void *const *p, const int64_t *n,\n"
                "const double *c, int64_t begin, int64_t end, char *room) {\n"
                "(void)p, (void)n, (void)c, (void)room;\n",
                e->width);
  emit_pointers(o, out);
  emit_append(out, &e->levels.code[0]);
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  emit_append(out, &rows);
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  emit_append(out, &body);
  buffer_puts(out, "}\nreturn 0;\n}\n");
  return !e->failed && !e->check_code.len && !e->emitted->call.scratch_bytes &&
         !e->emitted->call.key_params.len;
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

static Emitter *emitter_of(LibraryOp *r) {
  Arena *arena = r->arena;
  Kernel *k = NEW(arena, Kernel);
  Schedule *s = NEW(arena, Schedule);
  Emitter *e = NEW(arena, Emitter);
  e->cpu = NEW(arena, CpuEmitter);
  e->dialect = &c_dialect;
  e->function.has_lane_begin = true;
  k->arena = arena;
  k->graph = r->graph;
  s->vector_bytes = cpu_vector_bytes();
  e->arena = arena;
  e->kernel = k;
  e->cpu->schedule = s;
  e->suffix = "";
  e->prefetch_axis = NO_AXIS;
  e->emitted = NEW(arena, EmittedKernel);
  e->emitted->source = (Buffer){.arena = arena};
  e->function.head = e->cpu->pack_functions = e->emitted->source;
  return e;
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
      .e = emitter_of(r), .node = n, .state_count = (uint32_t)n->params[1]};
  Emitter *e = o.e;
  CompiledKernel p = {.tasks = 1};
  o.loop = build_loop(&o, (Kernel *)(uintptr_t)e->kernel);
  add_ops(&o);
  add_outputs(&o);
  Schedule *s = (Schedule *)(uintptr_t)e->cpu->schedule;
  s->width = e->width = choose_width(&o);
  o.is_vectorized = state_elements(n) >= s->width && s->width > 1;
  if (!emit_recurrence(&o, &p.tasks))
    return p;
  const Call *call = &e->emitted->call;
  p.ints = call->ints.at;
  p.int_count = call->ints.len;
  p.floats = call->floats.at;
  p.float_count = call->floats.len;
  p.operations = (double)n->body_op_count * (double)n->params[0] *
                 (double)state_elements(n) *
                 (double)product_of_extents(n->free_count, n->extents);
  p.exact = node_is_exact(n);
  p.object = jit_request(e->emitted->source.text, e->emitted->source.len,
                         p.operations);
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
