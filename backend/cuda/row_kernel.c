/* Row kernels: a thread group computes a point of the outer axes.  It runs the
 * loops of the kernel one after the other.
 *
 * Each thread owns a part of the row elements or of the reduction terms.
 * Afterwards the group combines the sums (ax_fold).  If a loop has both spatial
 * and reduction axes, the spatial axes are distributed, and each thread
 * computes whole sums.  Long float sums use a second accumulator after each
 * block of SUM_BLOCK_TERMS terms, for accuracy. */
#include "backend/cuda/row_kernel.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#define format emit_format

/* Makes the writes of the group visible to all its threads. */
static void put_barrier(ThreadGroup *t, Buffer *out) {
  const CudaSchedule *s = t->w->s;
  if (s->group_threads == 1)
    return;
  buffer_puts(out, s->coalesce_outer || s->group_threads > WARP
                       ? "ax_sync();\n"
                       : "ax_sync_warp();\n");
}

/* ---- sums ---- */

static void begin_accumulator(ThreadGroup *t, NestWriter *p, uint32_t j) {
  CudaWriter *w = t->w;
  CudaAccumulator *s = &p->accumulators[j];
  *s = cuda_accumulator_new(w, p->spec, &p->spec->outputs.at[j]);
  for (uint32_t i = p->loop_index + 1; i < w->k->loops.len; i++)
    if (t->online_sums[i].pattern.matched &&
        t->online_sums[i].pattern.max_loop == p->loop_index &&
        t->online_sums[i].pattern.max_output == j)
      s->name = t->online_sums[i].max_name;
  s->blocked_sum = p->row->has_runs && cuda_sums_runs(p->spec, s->r);
}

/* Reductions alternate between slots, so each needs one barrier: a thread that
 * reads a slot has passed the next barrier before the slot is written again.  A
 * single reduction has a second barrier instead, before the next point. */
static uint32_t reduction_slots(const ThreadGroup *t) {
  return t->w->s->coalesce_outer || t->reduction_count < 2
             ? 1
             : 2 + t->reduction_count % 2;
}

static uint32_t reduction_slot_bytes(const ThreadGroup *t) {
  return (t->w->s->coalesce_outer ? t->w->s->block_threads : WARP) *
         (t->has_arg_reduction ? 16 : 8);
}

static uint32_t reduction_slot_offset(const ThreadGroup *t, uint32_t fold) {
  bool third = fold + 1 == t->reduction_count && t->reduction_count % 2;
  return reduction_slots(t) == 1
             ? 0
             : (third ? 2 : fold % 2) * reduction_slot_bytes(t);
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

void thread_group_end_sum(ThreadGroup *t, NestWriter *p, uint32_t j,
                          Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const CudaAccumulator *s = &p->accumulators[j];
  join_threads(t, s, out);
  if (!w->part_count) {
    cuda_put_output(&p->vectors, out, j, cuda_value(w, p->loop_index, j),
                    "live && lane == 0", cuda_accumulator_value(e, s));
    return;
  }
  buffer_puts(out, "if (live && lane == 0) {\n");
  cuda_accumulator_store_partial(
      w, s, &w->partial_out,
      format(e, "part * %s + point", emit_int(e, w->point_count)), out);
  buffer_puts(out, "}\n");
}

/* ---- loop nests ---- */

void row_loop_begin(ThreadGroup *t, NestWriter *p, const LoopNest *loop,
                    uint32_t at, const char *first) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const RowNest *row = &w->s->rows[at];
  nest_begin(p, w, row->nest, loop, row);
  p->group = t;
  p->kind = row_loop_kind(loop);
  p->loop_index = at;
  p->row_length = 1;
  p->registers = row->vectors_in_registers;
  for (uint32_t k = 0; k < row->axis_count; k++)
    p->row_length =
        emit_extent_mul(e, p->row_length, loop->extents[row->axes[k]]);
  nest_put_ops(p, loop, first);
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    if (row_output_is_reduction(&loop->outputs.at[j]))
      begin_accumulator(t, p, j);
}

/* What happens to the outputs in the innermost loop, and at the end of their
 * sums. */
static void put_outputs(ThreadGroup *t, NestWriter *p, Buffer *update,
                        Buffer *finish) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  for (uint32_t j = 0; j < p->spec->outputs.len; j++) {
    const LoopOutput *r = &p->spec->outputs.at[j];
    const CudaAccumulator *s = &p->accumulators[j];
    bool is_sum = p->kind != ROW_SCALAR && row_output_is_reduction(r);
    if (!is_output_used(r))
      continue;
    if (is_sum)
      cuda_accumulator_update(w, s, update);
    if (is_sum && p->kind == ROW_REDUCE)
      thread_group_end_sum(t, p, j, finish);
    else
      cuda_put_output(&p->vectors, is_sum ? finish : update, j,
                      cuda_value(w, p->loop_index, j),
                      p->kind == ROW_SCALAR ? "live && lane == 0" : "live",
                      is_sum ? cuda_accumulator_value(e, s)
                             : emit_scalar(e, r->value_op));
  }
}

/* What happens at the beginnings and ends of sums and of their runs. */
static void put_sums(ThreadGroup *t, NestWriter *p, const Buffer *after_run,
                     const Buffer *finish) {
  p->has_sums = true;
  for (uint32_t j = 0; j < p->spec->outputs.len; j++) {
    if (!row_output_is_reduction(&p->spec->outputs.at[j]))
      continue;
    cuda_accumulator_declare(&p->accumulators[j], &p->begin_sums);
    cuda_accumulator_end_run(&p->accumulators[j], &p->end_run);
    cuda_accumulator_end(&p->accumulators[j], &p->end_sums);
  }
  online_declare(t, p->loop_index, &p->begin_sums);
  online_begin(t, p->loop_index, &p->begin_run);
  emit_append(&p->end_run, after_run);
  online_end(t, p->loop_index, &p->end_sums);
  emit_append(&p->end_sums, finish);
}

static bool is_any_output_used(const LoopNest *loop) {
  bool any = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    any |= is_output_used(&loop->outputs.at[j]);
  return any;
}

static void put_loop_nest(ThreadGroup *t, uint32_t at) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  if (!is_any_output_used(w->k->loops.at[at]))
    return;
  if (t->online_sums[at].pattern.matched) {
    online_put_rescale(t, at);
    return;
  }
  NestWriter *p = NEW(e->arena, NestWriter);
  Buffer after_run = online_put_blocks(t, at), update = {.arena = e->arena},
         finish = update;
  row_loop_begin(t, p, w->k->loops.at[at], at, NULL);
  if (e->failed)
    return;
  put_outputs(t, p, &update, &finish);
  nest_end_ops(p, &update);
  put_sums(t, p, &after_run, &finish);
  nest_put(p, 0, nest_place(), &t->body);
  if (cuda_stores_in_memory(w, at)) {
    put_barrier(t, &t->body);
    t->needs_barrier = true;
  }
}

/* ---- pass ---- */

/* Computes the lane and slot of a thread, and the memory of its group. */
static void put_group_index(ThreadGroup *t) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer *head = &w->head;
  uint32_t width = w->s->block_threads / w->s->group_threads;
  const char *thread = "(int)threadIdx.x";
  if (w->s->coalesce_outer)
    buffer_printf(head, "const int lane = %s / %u, slot = %s %% %u;\n", thread,
                  width, thread, width);
  else
    buffer_printf(head, "const int lane = %s %% %u, slot = %s / %u;\n", thread,
                  w->s->group_threads, thread, w->s->group_threads);
  int64_t shared_bytes =
      t->reduction_count ? reduction_slots(t) * reduction_slot_bytes(t) : 0;
  if (w->s->homes->shared_bytes) {
    buffer_printf(
        head, "unsigned char *const local = ax_shared() + %lld + slot * %s;\n",
        (long long)shared_bytes, emit_int(e, w->s->homes->shared_bytes));
    shared_bytes += w->s->homes->shared_bytes * width;
  }
  if (w->s->homes->scratch_bytes) {
    int64_t all = emit_extent_mul(e, w->s->homes->scratch_bytes,
                                  (int64_t)ROW_MAX_SCRATCH_BLOCKS * width);
    int64_t at = cuda_alloc_scratch_bytes(w, all);
    const char *start = emit_int(e, at);
    buffer_printf(
        head,
        "char *const own = scratch + %s + ((int64_t)blockIdx.x * %u + "
        "slot) * %s;\n",
        start, width, emit_int(e, w->s->homes->scratch_bytes));
    w->pass->max_grid_blocks = ROW_MAX_SCRATCH_BLOCKS;
  }
  w->pass->shared_bytes = shared_bytes;
}

/* Computes the point of a group.  Groups past the end repeat the last point. */
static void put_point(CudaWriter *w, Buffer *out) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index_type,
             *points = emit_int(e, w->point_count);
  uint32_t width = w->s->block_threads / w->s->group_threads;
  int64_t groups = emit_extent_ceil_div(e, w->point_count, width),
          blocks = groups;
  const char *group = "block";
  if (w->part_count)
    blocks = emit_extent_mul(e, groups, w->part_count);
  buffer_printf(out,
                "for (int64_t block = blockIdx.x; block < %s; block += "
                "gridDim.x) {\n",
                emit_int(e, blocks));
  if (w->part_count) {
    const LoopNest *loop = w->k->loops.at[0];
    int64_t row = 1;
    for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
      row = emit_extent_mul(e, row, loop->extents[v]);
    const char *chunk = emit_int(e, w->s->reduction_chunk),
               *end = emit_int(e, row);
    buffer_printf(out,
                  "const %s part = floor_div((%s)block, %s);\n"
                  "const int64_t group = block - (int64_t)part * %s;\n"
                  "const %s from = part * %s;\n"
                  "const %s to = %s - from < %s ? %s : from + %s;\n",
                  type, type, emit_divisor(e, groups), emit_int(e, groups),
                  type, chunk, type, end, chunk, end, chunk);
    group = "group";
  }
  buffer_printf(out,
                "const int64_t at = %s * %u + slot;\n"
                "const bool live = at < %s;\n"
                "const %s point = (%s)(live ? at : %s - 1);\n",
                group, width, points, type, type, points);
  cuda_put_unravel_outer(w, out, w->k->parallel_axes, "point");
  w->pass->grid_blocks = blocks;
}

/* Counts the reductions that the group combines. */
static void count_reductions(ThreadGroup *t) {
  const Kernel *k = t->w->k;
  for (uint32_t j = 0; t->w->s->group_threads > 1 && j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (row_loop_kind(loop) != ROW_REDUCE)
      continue;
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      t->reduction_count += row_output_is_reduction(&loop->outputs.at[i]);
      t->has_arg_reduction |= row_output_is_reduction(&loop->outputs.at[i]) &&
                              prim_is_arg_reduction(loop->outputs.at[i].reduce);
    }
  }
  t->needs_barrier = t->reduction_count == 1 && t->w->s->group_threads > WARP &&
                     !t->w->s->coalesce_outer;
}

void cuda_put_row_kernel(CudaWriter *w) {
  Emitter *e = &w->e;
  ThreadGroup t = {.w = w, .body = {.arena = e->arena}};
  Buffer *out = &w->body;
  online_match(&t);
  count_reductions(&t);
  cuda_put_homes(w, &t.body);
  w->dialect.divide_by_row_sum = "ax_quotient";
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_loop_nest(&t, j);
  w->dialect.divide_by_row_sum = NULL;
  put_group_index(&t);
  cuda_put_value_pointers(w);
  put_point(w, out);
  emit_append(out, &t.body);
  if (t.needs_barrier)
    put_barrier(&t, out);
  buffer_puts(out, "}\n");
}
