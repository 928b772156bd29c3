/* Selects the strategy for each loop nest of a kernel. */
#include "backend/cpu/loop_writer.h"
#include "machine/limits/cpu.h"

static bool is_task_axis(const Emitter *e, const LoopNest *loop, uint32_t v) {
  uint32_t outer = loop->parallel_axes;
  return v < outer && !(loop->staging == STAGE_OUT && v + 1 == outer) &&
         !(e->cpu->schedule->task_kind == TASK_TILE && v + 2 == outer) &&
         !(e->cpu->schedule->task_image_rows && v + 3 == outer);
}

static void emit_scalar_nest(Emitter *e, LoopWriter *n) {
  loop_writer_open(e, n, e->levels.count);
  buffer_puts(n->out, "#define LIVE ALL\n");
  emit_append(n->out, &e->check_code);
  buffer_puts(n->out, "#undef LIVE\n");
  for (uint32_t j = 0; j < n->count; j++)
    emit_scalar_output(e, n->out, &n->accumulators[j],
                       emit_scalar(e, n->accumulators[j].output->value_op));
  loop_writer_close(n, 0);
}

/* The axis along which a loop reads contiguously, if its vectors are strided
 * there. */
static uint32_t choose_transpose_axis(const Emitter *e, const LoopNest *loop,
                                      const uint32_t *order) {
  if (e->cpu->schedule->transpose)
    return order[0];
  if (loop->staging == STAGE_OUT)
    return loop->parallel_axes - 1;
  return loop->staging == STAGE_IN &&
                 loop_extent_hint(loop, loop->contiguous_axis) >=
                     MIN_TRANSPOSE_ROWS
             ? loop->contiguous_axis
             : NO_AXIS;
}

/* Tasks follow the last parallel axis.  A loop that copies inputs prefetches
 * those of the next task. */
static uint32_t choose_prefetch_axis(const Emitter *e, const LoopNest *loop) {
  bool copies =
      e->cpu->schedule->task_kind == TASK_POINT && loop->parallel_axes > 0 &&
      loop->axis_count == loop->spatial_axes && e->kernel->loops.len > 1;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    copies &= loop->outputs.at[j].local_index != NULL;
  return copies ? loop->parallel_axes - 1 : NO_AXIS;
}

void emit_loop_nest(Emitter *e, Buffer *out, uint32_t at,
                    uint32_t vector_axis) {
  const LoopNest *loop = e->kernel->loops.at[at];
  uint32_t order[MAX_KERNEL_AXES], loops = 0;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != vector_axis && !is_task_axis(e, loop, v) &&
        !(loop->staging == STAGE_OUT && v < loop->parallel_axes))
      order[loops++] = v;
  if (loop->staging == STAGE_OUT)
    order[loops++] = loop->parallel_axes - 1;
  if (e->cpu->schedule->task_image_rows) { /* the image row is closer to the
                                              vectors in memory */
    order[0] = loop->parallel_axes - 2;
    order[1] = loop->parallel_axes - 3;
  }
  if (unrolled_reduction_applies(e->cpu->schedule, loop, vector_axis)) {
    emit_unrolled_reduction(e, out, at, vector_axis, loops, order);
    return;
  }
  emit_begin_loop(e, loop, vector_axis, loops, order);
  e->loop_index = at;
  e->reads_past_tail = false;
  e->transpose.axis = choose_transpose_axis(e, loop, order);
  e->prefetch_axis = choose_prefetch_axis(e, loop);
  e->cpu->jammed_rows = unroll_and_jam_points(e->kernel, e->cpu->schedule, at);
  emit_ops(e);
  e->prefetch_axis = NO_AXIS;
  LoopWriter n = {.out = out};
  if (loop->outputs.len > MAX_LOOP_OUTPUTS) {
    e->failed = true;
    return;
  }
  bool reduces = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (!r->global_index && !r->local_index)
      continue;
    n.accumulators[n.count] = accumulator_new(e, j);
    accumulator_set_addresses(e, at, j, &n.accumulators[n.count]);
    reduces |= n.accumulators[n.count].op != PRIM_NONE;
    n.count++;
  }
  if (e->failed)
    return;
  for (uint32_t j = 0; j < e->levels.count; j++)
    n.spatial_loops +=
        e->levels.order[j] < (reduces ? loop->spatial_axes : loop->axis_count);
  buffer_puts(out, "{\n");
  emit_append(&e->function.head, &e->levels.code[0]);
  if (!e->cpu->jammed_rows)
    emit_append(out, &e->levels.code[OUTER_LEVEL]);
  if (e->cpu->jammed_rows)
    emit_jammed_nest(e, &n);
  else if (vector_axis == NO_AXIS)
    emit_scalar_nest(e, &n);
  else if (reduces && vector_axis < loop->spatial_axes)
    emit_column_reduction(e, &n);
  else
    emit_row_nest(e, &n);
  emit_online_rescale(e, out, at);
  buffer_puts(out, "}\n");
  if (e->cpu->jammed_rows)
    unroll_and_jam_bind_locals(e, out, false);
  e->cpu->jammed_rows = 0;
}
