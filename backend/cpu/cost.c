/* The cost of a kernel with its schedule. */
#include "backend/cpu/cost.h"

#include "backend/cpu/gemm_chooser.h"
#include "backend/cpu/prepack.h"

#include <math.h>

static double hint(const Kernel *k, int64_t extent) {
  return (double)extent_hint(k->graph, extent);
}

static double points_before(const Kernel *k, uint32_t axis) {
  return loop_iterations_hint(k->loops.at[0], 0, axis);
}

static GemmProblem problem_of(const Kernel *k, const Schedule *s,
                              uint32_t loop_index) {
  const LoopNest *loop = k->loops.at[loop_index];
  const GemmTiling *t = &s->gemm_tilings->by_loop[loop_index];
  GemmProblem g = gemm_problem(loop, t, s->width);
  g.may_prepack_b = prepack_may_keep(loop, t, &t->b, t->n_axis);
  bool is_tile = s->task_kind == TASK_TILE;
  g.task_height =
      (int64_t)hint(k, is_tile ? s->task_height : s->last_axis_block);
  g.task_columns = (int64_t)(is_tile ? hint(k, s->last_axis_block) : g.n);
  if (t->hoists_packing)
    g.packed_rows = (int64_t)hint(k, s->last_axis_span);
  if (loop->accumulated_axes)
    g.task_height = (int64_t)g.m;
  return g;
}

CoreType core_type_of(Dtype t) {
  return t == DT_I32                ? CORE_BF16
         : dtype_info[t].bytes == 8 ? CORE_F64
                                    : CORE_F32;
}

/* Tasks of a kernel without matmuls. */
static double task_count(const Kernel *k, const Schedule *s) {
  uint32_t outer = k->parallel_axes;
  double tasks = points_before(k, outer), block = hint(k, s->last_axis_block);
  if (outer && s->task_kind != TASK_POINT) {
    double extent = (double)loop_extent_hint(k->loops.at[0], outer - 1);
    if (s->task_kind == TASK_ROWS)
      block = hint(k, s->last_axis_span);
    tasks *= ceil(extent / block) / extent;
  }
  if (outer > 1 && s->task_kind == TASK_TILE) {
    double extent = (double)loop_extent_hint(k->loops.at[0], outer - 2);
    tasks *= ceil(extent / hint(k, s->task_height)) / extent;
  }
  if (outer > 2 && s->task_image_rows) {
    double extent = (double)loop_extent_hint(k->loops.at[0], outer - 3);
    tasks *= ceil(extent / hint(k, s->task_image_rows)) / extent;
  }
  if (s->reduction_chunk)
    tasks *= ceil(
        (double)loop_extent_hint(k->loops.at[0], k->loops.at[0]->spatial_axes) /
        (double)s->reduction_chunk);
  return fmax(tasks, 1);
}

void cost_count(const Kernel *k, const Schedule *s, const CoreRates *r,
                CostCounts *out) {
  *out = (CostCounts){.type =
                          s->width * 8 == s->vector_bytes ? CORE_F64 : CORE_F32,
                      .tasks = task_count(k, s)};
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const GemmTiling *t = s->gemm_tilings ? &s->gemm_tilings->by_loop[j] : NULL;
    if (t && t->is_gemm) {
      out->type = core_type_of(t->element_dtype);
      if (t->window) {
        cost_add_conv(out, k, s, t, r);
      } else {
        GemmProblem g = problem_of(k, s, j);
        cost_add_gemm(out, t, &g, r);
      }
    } else if (s->nests && s->nests[j]) {
      cost_add_nest(out, k, s, s->nests[j], r);
    }
  }
}
