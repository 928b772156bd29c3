/* The loops of a nest whose row a thread group shares, and how the group joins
 * its sums. */
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

/* Combines the accumulators of all threads; every thread gets the result. */
static void join_threads(ThreadGroup *t, const CudaAccumulator *s,
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

void thread_group_end_sum(ThreadGroup *t, RowLoop *n, uint32_t j, Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const CudaAccumulator *s = &n->accumulators[j];
  join_threads(t, s, out);
  if (!w->part_count) {
    cuda_put_output(&n->vectors, out, j, cuda_value(w, n->loop_index, j),
                    "live && lane == 0", cuda_accumulator_value(e, s));
    return;
  }
  buffer_puts(out, "if (live && lane == 0) {\n");
  cuda_accumulator_store_partial(
      w, s, &w->partial_out,
      format(e, "part * %s + point", emit_int(e, w->point_count)), out);
  buffer_puts(out, "}\n");
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

/* ---- loops ---- */

/* Unroll factor of a loop over the terms that a group shares.  Scalar loops are
 * unrolled more.  Full blocks have few registers per thread, so loops with
 * several loads are unrolled less.  Long loop bodies are not unrolled. */
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

/* The range of a loop: of a run, or of its axis. */
static void find_range(const RowWalk *k, uint32_t at, const char **from,
                       const char **to) {
  CudaWriter *w = k->t->w;
  Emitter *e = &w->e;
  const RowLoop *n = k->n;
  const Nest *nest = n->row->nest;
  const NestLoop *l = &nest->loops[at];
  uint32_t outer = nest_find(nest, l->axis, nest_piece(nest, at) + 1);
  if (outer != NO_LOOP && nest_has_runs(nest, outer)) {
    *from = "run", *to = "stop";
  } else if (l->axis != n->row->axis) {
    *from = "0", *to = emit_int(e, n->loop->extents[l->axis]);
  } else {
    uint32_t width = n->vectors.width;
    *from = format(e, "%slane%s", w->part_count ? "from + " : "",
                   width > 1 ? format(e, " * %u", width) : "");
    *to = w->part_count ? "to" : emit_int(e, n->row_length);
  }
}

/* Runs: each ends at `stop`.  The index after the last run may not fit in 32
 * bits. */
static void put_runs(const RowWalk *k, uint32_t at) {
  const RowLoop *n = k->n;
  const char *type = k->t->w->dialect.index_type, *from, *to;
  long long step = (long long)n->row->run_elements;
  find_range(k, at, &from, &to);
  buffer_printf(k->out,
                "for (int64_t run = %s; run < %s; run += %lld) {\n"
                "const %s stop = %s - run < %lld ? %s : run + %lld;\n",
                from, to, step, type, to, step, to, step);
  online_begin(k->t, n->loop_index, k->out);
  row_loop_put(k, at + 1);
  for (uint32_t j = 0; j < n->loop->outputs.len; j++)
    cuda_accumulator_end_run(&n->accumulators[j], k->out);
  emit_append(k->out, k->after_run);
  buffer_puts(k->out, "}\n");
}

/* The loop over the row, which the threads of the group share. */
static void put_row(const RowWalk *k, uint32_t at) {
  CudaWriter *w = k->t->w;
  const RowLoop *n = k->n;
  const char *from, *to;
  find_range(k, at, &from, &to);
  if (n->kind == ROW_REDUCE && !n->vectors_in_registers)
    buffer_printf(k->out, "#pragma unroll %d\n", unroll_factor(k->t, n));
  if (n->early_loads.len)
    put_early_loads(w, n, k->out, from, to);
  open_loop(w, n, k->out, from, to);
  row_loop_put(k, at + 1);
  buffer_puts(k->out, n->vectors_in_registers ? "}\n}\n" : "}\n");
}

static void put_lanes(const RowWalk *k, uint32_t at) {
  VectorAccess *v = &k->n->vectors;
  emit_append(k->out, &v->loads);
  vector_open(v, k->out);
  emit_append(k->out, &v->w->e.levels.code[DISTRIBUTED_LEVEL + 1]);
  row_loop_put(k, at + 1);
  buffer_puts(k->out, "}\n");
  emit_append(k->out, &v->stores);
}

/* A loop over the terms of each element. */
static void put_terms(const RowWalk *k, uint32_t at) {
  Emitter *e = &k->t->w->e;
  uint32_t v = k->n->row->nest->loops[at].axis;
  const char *from, *to;
  find_range(k, at, &from, &to);
  if (v + 1 == k->n->loop->axis_count)
    buffer_printf(k->out, "#pragma unroll %d\n", VECTOR_UNROLL);
  buffer_printf(k->out, "for (%s i%u = %s; i%u < %s; i%u++) {\n",
                e->dialect->index_type, v, from, v, to, v);
  emit_append(k->out, &e->levels.code[e->levels.of[v]]);
  row_loop_put(k, at + 1);
  buffer_puts(k->out, "}\n");
}

/* A loop.  Those over blocks and threads are indices of the group. */
static void put_loop(const RowWalk *k, uint32_t at) {
  const Nest *nest = k->n->row->nest;
  if (at == nest->loop_count) {
    emit_append(k->out, &k->t->w->e.check_code);
    emit_append(k->out, k->update);
    return;
  }
  const NestLoop *l = &nest->loops[at];
  bool is_row = l->axis == k->n->row->axis;
  if (l->run == NEST_BLOCK || l->run == NEST_THREAD ||
      (is_row && l->run == NEST_SERIAL && k->n->vectors_in_registers))
    row_loop_put(k, at + 1);
  else if (l->run == NEST_LANES)
    put_lanes(k, at);
  else if (nest_has_runs(nest, at))
    put_runs(k, at);
  else if (is_row)
    put_row(k, at);
  else
    put_terms(k, at);
}

/* Sums begin before their first loop, and the group joins them after it. */
void row_loop_put(const RowWalk *k, uint32_t at) {
  const RowLoop *n = k->n;
  const Nest *nest = n->row->nest;
  bool has_sums =
      at < nest->loop_count && at == nest_accumulator_depth(nest) && k->finish;
  for (uint32_t j = 0; has_sums && j < n->loop->outputs.len; j++)
    if (row_output_is_reduction(&n->loop->outputs.at[j]))
      cuda_accumulator_declare(&n->accumulators[j], k->out);
  if (has_sums)
    online_declare(k->t, n->loop_index, k->out);
  put_loop(k, at);
  for (uint32_t j = 0; has_sums && j < n->loop->outputs.len; j++)
    cuda_accumulator_end(&n->accumulators[j], k->out);
  if (has_sums) {
    online_end(k->t, n->loop_index, k->out);
    emit_append(k->out, k->finish);
  }
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
