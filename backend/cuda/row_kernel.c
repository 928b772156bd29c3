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

/* ---- loop nests ---- */

/* What happens to the outputs in the innermost loop, and at the end of their
 * sums. */
static void put_outputs(ThreadGroup *t, RowLoop *n, Buffer *update,
                        Buffer *finish) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  for (uint32_t j = 0; j < n->loop->outputs.len; j++) {
    const LoopOutput *r = &n->loop->outputs.at[j];
    const CudaAccumulator *s = &n->accumulators[j];
    bool is_sum = n->kind != ROW_SCALAR && row_output_is_reduction(r);
    if (!is_output_used(r))
      continue;
    if (is_sum)
      cuda_accumulator_update(w, s, update);
    if (is_sum && n->kind == ROW_REDUCE)
      thread_group_end_sum(t, n, j, finish);
    else
      cuda_put_output(&n->vectors, is_sum ? finish : update, j,
                      cuda_value(w, n->loop_index, j),
                      n->kind == ROW_SCALAR ? "live && lane == 0" : "live",
                      is_sum ? cuda_accumulator_value(e, s)
                             : emit_scalar(e, r->value_op));
  }
}

static bool is_any_output_used(const LoopNest *loop) {
  bool any = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    any |= is_output_used(&loop->outputs.at[j]);
  return any;
}

static void put_loop(ThreadGroup *t, uint32_t at) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  RowLoop n;
  if (!is_any_output_used(w->k->loops.at[at]))
    return;
  if (t->online_sums[at].pattern.matched) {
    online_put_rescale(t, at);
    return;
  }
  Buffer after_run = online_put_blocks(t, at), update = {.arena = e->arena},
         finish = update;
  row_loop_begin(t, &n, w->k->loops.at[at], at, NULL);
  if (e->failed)
    return;
  put_outputs(t, &n, &update, &finish);
  emit_append(&t->body, &e->levels.code[OUTER_LEVEL]);
  row_loop_put(&(RowWalk){t, &n, &update, &finish, &after_run, &t->body}, 0);
  emit_append(&e->function.head, &e->levels.code[0]);
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
      t->reduction_count ? row_reduction_slots(t) * row_reduction_slot_bytes(t)
                         : 0;
  if (t->memory.shared_bytes) {
    buffer_printf(
        head, "unsigned char *const local = ax_shared() + %lld + slot * %s;\n",
        (long long)shared_bytes, emit_int(e, t->memory.shared_bytes));
    shared_bytes += t->memory.shared_bytes * width;
  }
  if (t->memory.scratch_bytes) {
    int64_t all = emit_extent_mul(e, t->memory.scratch_bytes,
                                  (int64_t)ROW_MAX_SCRATCH_BLOCKS * width);
    int64_t at = cuda_alloc_scratch_bytes(w, all);
    const char *start = emit_int(e, at);
    buffer_printf(
        head,
        "char *const own = scratch + %s + ((int64_t)blockIdx.x * %u + "
        "slot) * %s;\n",
        start, width, emit_int(e, t->memory.scratch_bytes));
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
  t.memory = cuda_choose_values(w, &t.body);
  w->dialect.divide_by_row_sum = "ax_quotient";
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_loop(&t, j);
  w->dialect.divide_by_row_sum = NULL;
  put_group_index(&t);
  cuda_put_value_pointers(w);
  put_point(w, out);
  emit_append(out, &t.body);
  if (t.needs_barrier)
    put_barrier(&t, out);
  buffer_puts(out, "}\n");
}
