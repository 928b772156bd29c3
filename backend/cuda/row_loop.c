/* A loop over a row that a thread group shares: the for statement, and the
 * combination of the threads' results. */
#include "backend/cuda/row_kernel.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#include <string.h>

enum {
  DISTRIBUTED_LEVEL = OUTER_LEVEL + 1,
};

#define format emit_format

static void begin_accumulator(ThreadGroup *t, RowLoop *n, uint32_t j) {
  CudaWriter *w = t->w;
  CudaAccumulator *s = &n->accumulators[j];
  *s = cuda_accumulator_new(w, n->loop, &n->loop->outputs.at[j]);
  for (uint32_t i = n->loop_index + 1; i < w->k->loops.len; i++)
    if (t->online_sums[i].pattern.matched &&
        t->online_sums[i].pattern.max_loop == n->loop_index &&
        t->online_sums[i].pattern.max_output == j)
      s->name = t->online_sums[i].max_name;
  s->blocked_sum = n->row->has_runs && cuda_sums_runs(n->loop, s->r);
}

/* Reductions alternate between slots, so each needs one barrier: a thread that
 * reads a slot has passed the next barrier before the slot is written again.  A
 * single reduction has a second barrier instead, before the next point. */
uint32_t row_reduction_slots(const ThreadGroup *t) {
  return t->w->s->coalesce_outer || t->reduction_count < 2
             ? 1
             : 2 + t->reduction_count % 2;
}

uint32_t row_reduction_slot_bytes(const ThreadGroup *t) {
  return (t->w->s->coalesce_outer ? t->w->s->block_threads : WARP) *
         (t->has_arg_reduction ? 16 : 8);
}

static uint32_t reduction_slot_offset(const ThreadGroup *t, uint32_t fold) {
  bool third = fold + 1 == t->reduction_count && t->reduction_count % 2;
  return row_reduction_slots(t) == 1
             ? 0
             : (third ? 2 : fold % 2) * row_reduction_slot_bytes(t);
}

void thread_group_put_reduction(ThreadGroup *t, const CudaAccumulator *s,
                                Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  if (w->s->group_threads == 1)
    return;
  cuda_accumulator_combine(
      w, s, out,
      w->s->coalesce_outer
          ? format(e, "ax_fold_across<%u, %u>", w->s->group_threads,
                   w->s->block_threads / w->s->group_threads)
          : format(e, "ax_fold<%u>", w->s->group_threads),
      format(e, "ax_shared() + %u",
             reduction_slot_offset(t, t->reductions_done++)));
}

static bool is_row_load(const RowLoop *n, const KernelOp *s) {
  return s->kind == KOP_LOAD && !s->checked_index_count &&
         cuda_depends_on_axis(n->loop, s->address,
                              n->row->axes[n->row->axis_count - 1]);
}

static const char *find_register_row(ThreadGroup *t, const RowLoop *n,
                                     const KernelOp *s) {
  for (uint32_t j = 0; j < t->register_rows.len; j++) {
    const RegisterRow *row = &t->register_rows.at[j];
    if (row->load->input == s->input &&
        affine_equal(row->load->address, s->address) &&
        row_nests_match(row->nest, n->row))
      return row->name;
  }
  return NULL;
}

/* True if a later loop loads the same element in the same thread. */
static bool is_read_again(const ThreadGroup *t, const RowLoop *n,
                          const KernelOp *s) {
  for (uint32_t j = n->loop_index + 1; j < t->w->k->loops.len; j++) {
    const LoopNest *loop = t->w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *x = &loop->ops.at[i];
      if (x->kind == KOP_LOAD && !x->checked_index_count &&
          x->input == s->input && affine_equal(x->address, s->address) &&
          row_nests_match(n->row, &t->w->s->rows[j]))
        return true;
    }
  }
  return false;
}

/* Loads all row elements of a thread before the loop. */
static void put_early_load(RowLoop *n, const KernelOp *s, const char *name) {
  Emitter *e = &n->vectors.w->e;
  const char *to = format(e, "%s + t * %u", name, n->vectors.width);
  vector_put_load(&n->vectors, &n->early_loads, s, to, "true || ");
  vector_put_load(&n->vectors, &n->early_scalar_loads, s, to, "false && ");
  buffer_printf(&n->early_aligned, "%sax_aligned(p%u)",
                n->early_aligned.len ? " && " : "", s->input);
  n->early_elements += n->vectors_in_registers * n->vectors.width;
}

/* Binds a load of the row: to registers or to a vector.  NULL: no binding. */
static const char *bind_load(ThreadGroup *t, RowLoop *n, const KernelOp *s) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const char *index =
      n->vectors.width > 1 ? format(e, "t * %u + v", n->vectors.width) : "t";
  bool vector = vector_fits(&n->vectors, s->address);
  bool affine = !affine_has_floor_divs(s->address);
  const char *name =
      n->vectors_in_registers && affine ? find_register_row(t, n, s) : NULL;
  if (name)
    return cuda_load_element(e, s->dtype, name, index);
  bool keep = n->vectors_in_registers && affine && is_read_again(t, n, s) &&
              (vector || n->vectors.width == 1);
  bool early =
      vector && n->vectors_in_registers && affine &&
      (keep || n->early_elements + n->vectors_in_registers * n->vectors.width <=
                   MAX_EARLY_ELEMENTS);
  if (!vector && !keep)
    return NULL;
  if (!keep && !early)
    return vector_load(&n->vectors, s);
  name = vector_declare(&n->vectors, &t->body, 'r', s->dtype,
                        n->vectors_in_registers);
  if (keep)
    VEC_PUSH(e->arena, t->register_rows, ((RegisterRow){n->row, s, name}));
  const char *element = cuda_load_element(e, s->dtype, name, index);
  if (!vector)
    return format(e, "(%s[t] = p%u[%s], %s)", name, s->input,
                  emit_affine(e, s->address), element);
  put_early_load(n, s, name);
  return element;
}

static const char **bind_all(ThreadGroup *t, RowLoop *n) {
  const LoopNest *loop = n->loop;
  const char **precomputed =
      NEW_ARRAY(t->w->e.arena, const char *, loop->ops.len);
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL)
      precomputed[j] = cuda_load_value(t->w, s, n->vectors.width);
    else if (n->kind != ROW_SCALAR && n->kind != ROW_PARTIAL_REDUCE &&
             is_row_load(n, s))
      precomputed[j] = bind_load(t, n, s);
  }
  return precomputed;
}

/* Sets the level of each axis: distributed axes, then vector elements, then the
 * serial axes of a thread. */
static void begin_row_loop(CudaWriter *w, RowLoop *n) {
  Emitter *e = &w->e;
  const LoopNest *loop = n->loop;
  uint32_t order[MAX_KERNEL_AXES], loops = 0, level = DISTRIBUTED_LEVEL;
  for (uint32_t v = loop->parallel_axes; v < loop->axis_count; v++)
    order[loops++] = v;
  emit_begin_loop(e, loop, NO_AXIS, loops, order);
  for (uint32_t k = 0; k < n->row->axis_count; k++)
    e->levels.of[n->row->axes[k]] = level;
  if (n->vectors.width > 1)
    e->levels.of[n->row->axes[n->row->axis_count - 1]] = ++level;
  if (n->kind == ROW_PARTIAL_REDUCE)
    for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
      e->levels.of[v] = ++level;
  e->levels.vector = level;
}

/* True if all elements are in bounds, so that no bounds test is needed. */
static bool is_full_row(const CudaWriter *w, const RowLoop *n) {
  return n->row_length == (int64_t)n->vectors_in_registers *
                              w->s->group_threads * n->vectors.width;
}

/* Emits the head of a loop: its index, and the addresses that depend on it. */
static void open_loop(CudaWriter *w, const RowLoop *n, Buffer *out,
                      const char *from, const char *to) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index_type;
  uint32_t last = n->row->axes[n->row->axis_count - 1],
           step = w->s->group_threads * n->vectors.width;
  if (n->vectors_in_registers) {
    buffer_printf(out,
                  "#pragma unroll\nfor (int t = 0; t < %u; t++) {\n"
                  "const %s j = (t * %u + lane) * %u;\n",
                  n->vectors_in_registers, type, w->s->group_threads,
                  n->vectors.width);
    if (is_full_row(w, n))
      buffer_puts(out, "{\n");
    else
      buffer_printf(out, "if (j < %s) {\n", to);
  } else {
    buffer_printf(out, "for (%s j = %s; j < %s; j += %u) {\n", type, from, to,
                  step);
  }
  if (n->vectors.width == 1) {
    cuda_put_unravel(w, out, n->loop, n->row->axis_count, n->row->axes, "j");
  } else if (n->row->axis_count == 1) {
    buffer_printf(out, "const %s first = j;\n", type);
  } else {
    int64_t extent = n->loop->extents[last];
    buffer_printf(out,
                  "const %s group = floor_div(j, %s);\n"
                  "const %s first = j - group * %s;\n",
                  type, emit_divisor(e, extent), type, emit_int(e, extent));
    cuda_put_unravel(w, out, n->loop, n->row->axis_count - 1, n->row->axes,
                     "group");
  }
  emit_append(out, &e->levels.code[DISTRIBUTED_LEVEL]);
}

static void put_early_loads(CudaWriter *w, const RowLoop *n, Buffer *out,
                            const char *from, const char *to) {
  buffer_printf(out, "if (%.*s) {\n", (int)n->early_aligned.len,
                n->early_aligned.text);
  open_loop(w, n, out, from, to);
  emit_append(out, &n->early_loads);
  buffer_puts(out, "}\n}\n} else {\n");
  open_loop(w, n, out, from, to);
  emit_append(out, &n->early_scalar_loads);
  buffer_puts(out, "}\n}\n}\n");
}

void row_open(CudaWriter *w, const RowLoop *n, Buffer *out, const char *from,
              const char *to) {
  Emitter *e = &w->e;
  if (n->early_loads.len)
    put_early_loads(w, n, out, from, to);
  open_loop(w, n, out, from, to);
  emit_append(out, &n->vectors.loads);
  if (n->vectors.width > 1) {
    vector_open(&n->vectors, out);
    emit_append(out, &e->levels.code[DISTRIBUTED_LEVEL + 1]);
  }
}

void row_close(const RowLoop *n, Buffer *out) {
  if (n->vectors.width > 1)
    buffer_puts(out, "}\n");
  emit_append(out, &n->vectors.stores);
  buffer_puts(out, n->vectors_in_registers ? "}\n}\n" : "}\n");
}

void thread_group_put_scalar(ThreadGroup *t, RowLoop *n, uint32_t j,
                             const char *x, Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  if (w->part_count) {
    buffer_puts(out, "if (live && lane == 0) {\n");
    cuda_accumulator_store_partial(
        w, &n->accumulators[j], &w->partial_out,
        format(e, "part * %s + point", emit_int(e, w->point_count)), out);
    buffer_puts(out, "}\n");
    return;
  }
  cuda_put_output(&n->vectors, out, j, cuda_value(w, n->loop_index, j),
                  "live && lane == 0", x);
}

/* Unroll factor of a reduction loop.  Scalar loops are unrolled more.  Full
 * blocks have few registers per thread, so loops with several loads are
 * unrolled less.  Long loop bodies are not unrolled. */
static int unroll_factor(const ThreadGroup *t, const RowLoop *n) {
  if (n->loop->ops.len > MAX_UNROLLED_OPS)
    return 1;
  bool full_block =
      t->w->s->block_threads >= MAX_BLOCK_THREADS && n->loop->ops.len > 2;
  uint32_t reads = 0;
  for (uint32_t j = 0; j < n->loop->ops.len; j++)
    reads += n->loop->ops.at[j].kind == KOP_LOAD;
  if (full_block && n->vectors.width > 1 && reads >= MIN_PENDING_LOADS)
    return VECTOR_UNROLL / 2;
  return n->vectors.width > 1 || full_block ? VECTOR_UNROLL : SCALAR_UNROLL;
}

void row_loop_put_for(ThreadGroup *t, const RowLoop *n, Buffer *out,
                      const Buffer *update, const char *from, const char *to) {
  if (!n->vectors_in_registers)
    buffer_printf(out, "#pragma unroll %d\n", unroll_factor(t, n));
  row_open(t->w, n, out, from, to);
  emit_append(out, &t->w->e.check_code);
  emit_append(out, update);
  row_close(n, out);
}

void row_loop_begin(ThreadGroup *t, RowLoop *n, const LoopNest *loop,
                    uint32_t at, const char *first) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer none = {.arena = e->arena};
  *n = (RowLoop){.loop = loop,
                 .loop_index = at,
                 .vectors = {.w = w, .loop = loop, .width = 1},
                 .row_length = 1};
  n->kind = row_loop_kind(loop);
  n->vectors.loads = n->vectors.stores = none;
  n->early_loads = n->early_scalar_loads = n->early_aligned = none;
  n->row = &w->s->rows[at];
  if (n->kind != ROW_SCALAR) {
    for (uint32_t k = 0; k < n->row->axis_count; k++)
      n->row_length =
          emit_extent_mul(e, n->row_length, loop->extents[n->row->axes[k]]);
    n->vectors.axis = n->row->axes[n->row->axis_count - 1];
    n->vectors.width = n->row->vector_width;
    n->vectors_in_registers = n->row->vectors_in_registers;
  }
  begin_row_loop(w, n);
  e->ops.precomputed = bind_all(t, n);
  if (first)
    e->ops.precomputed[0] = first;
  emit_ops(e);
  e->ops.precomputed = NULL;
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    if (row_output_is_reduction(&loop->outputs.at[j]))
      begin_accumulator(t, n, j);
  emit_append(&e->function.head, &e->levels.code[0]);
  e->levels.code[0].len = 0;
}
