/* Schedules of short reductions, such as pooling and stencils.  Their terms are
 * unrolled, and accumulators stay in registers.  Decoding a task index takes as
 * long as computing a row.  So a task has several rows, also in kernels without
 * reductions if rows are short. */
#include "backend/cpu/conv_analysis.h"
#include "backend/cpu/cpu.h"
#include "machine/limits/cpu.h"

/* A gather prefetches its rows (prefetch.c), in a loop over the terms. */
static bool has_gather(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    for (uint32_t i = 0; s->kind == KOP_LOAD && i < s->checked_index_count; i++)
      if (loop->ops.at[s->checked_indices[i].index_op].kind != KOP_AFFINE)
        return true;
  }
  return false;
}

/* Returns true if an operand slides along the axis, so that neighbours read the
 * same elements. */
static bool operand_slides(const LoopNest *loop, uint32_t axis, uint32_t term) {
  int64_t stride, dilation;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    const AffineExpr *q = kernel_op_affine(s);
    if (!q || !q->coef[axis] || !q->coef[term] ||
        !affine_coef_ratio(loop->graph, q->coef[axis], q->coef[term], &stride,
                           &dilation))
      continue;
    stride = stride < 0 ? -stride : stride;
    dilation = dilation < 0 ? -dilation : dilation;
    if (dilation * (loop_extent_hint(loop, term) - 1) >= stride &&
        dilation < stride * loop_extent_hint(loop, axis))
      return true;
  }
  return false;
}

bool short_reduction_slides(const LoopNest *loop) {
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    for (uint32_t axis = 0; axis < loop->spatial_axes; axis++)
      if (operand_slides(loop, axis, v))
        return true;
  return false;
}

bool short_reduction_applies(const LoopNest *loop) {
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    PrimId op = loop->outputs.at[j].reduce;
    if (op == PRIM_NONE || prim_is_arg_reduction(op))
      return false;
  }
  return loop->axis_count > loop->spatial_axes && terms >= 1 &&
         (terms <= MAX_SHORT_TERMS ||
          (terms <= MAX_WINDOW_TERMS && short_reduction_slides(loop))) &&
         !has_gather(loop);
}

bool short_reduction_choose(const Kernel *k, Schedule *s) {
  bool has_short_reduction = false;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    bool is_short = short_reduction_applies(loop);
    if (loop->spatial_axes > loop->parallel_axes ||
        (!is_short && loop->axis_count > loop->parallel_axes))
      return false;
    has_short_reduction |= is_short;
  }
  if (k->parallel_axes < 2)
    return false;
  const LoopNest *loop = k->loops.at[0];
  int64_t columns = loop_extent_hint(loop, k->parallel_axes - 1);
  if (!has_short_reduction && columns > MAX_MAP_COLUMNS)
    return false;
  int64_t rows = loop_extent_hint(loop, k->parallel_axes - 2);
  double batch = loop_iterations_hint(loop, 0, k->parallel_axes - 2);
  int64_t task_columns = columns < SHORT_REDUCTION_MAX_COLUMNS
                             ? columns
                             : SHORT_REDUCTION_MAX_COLUMNS;
  task_columns = ceil_div(task_columns, s->width) * s->width;
  double local = kernel_local_bytes(k, true) * (double)task_columns;
  double tasks = batch * (double)ceil_div(columns, task_columns);
  int64_t task_height = rows;
  while (task_height > SHORT_REDUCTION_MIN_ROWS &&
         (tasks * (double)ceil_div(rows, task_height) <
              SHORT_REDUCTION_MIN_TASKS ||
          local * (double)task_height > SHORT_REDUCTION_MAX_LOCAL_BYTES))
    task_height = ceil_div(task_height, 2);
  s->task_kind = TASK_TILE;
  s->last_axis_block = task_columns;
  s->task_height = task_height;
  return true;
}
