/* Results whose last axis is short, such as the two numbers of each element of
 * a complex tensor.  Vectors lie along the axis before it, so that the elements
 * of a vector are apart in memory.  If a task has all iterations of the short
 * axis, the vectors of all of them can be stored together (step
 * `interleave`). */
#include "backend/cpu/nest_choose.h"
#include "machine/limits/cpu.h"

static bool is_interleaved(const LoopNest *loop, const LoopOutput *r,
                           uint32_t v, uint32_t w) {
  return r->global_index && !r->local_index && r->global_index->coef[w] == 1 &&
         r->global_index->coef[v] == loop->extents[w];
}

/* Returns true if the loop has no terms, or few that are unrolled. */
static bool has_few_terms(const LoopNest *loop) {
  return loop->axis_count == loop->spatial_axes ||
         (loop->outputs.len == 1 && short_reduction_applies(loop) &&
          short_reduction_has_constant_terms(loop) &&
          !short_reduction_slides(loop));
}

/* Tasks of loops that read results of other loops have no short axis. */
static bool reads_locals(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      return true;
  return false;
}

uint32_t interleave_axis(const LoopNest *loop, uint32_t v, uint32_t width) {
  if (v >= loop->parallel_axes || width == 1 ||
      loop_extent_hint(loop, v) < MIN_INTERLEAVED_VECTORS * width)
    return NO_AXIS;
  uint32_t first = reads_locals(loop) ? loop->parallel_axes : 0;
  for (uint32_t w = first; w < loop->spatial_axes; w++) {
    int64_t extent = loop->extents[w];
    bool fits = w != v && extent >= 2 && extent <= MAX_INTERLEAVED &&
                extent_is_static(loop->graph, extent);
    for (uint32_t j = 0; j < loop->outputs.len; j++)
      fits = fits && is_interleaved(loop, &loop->outputs.at[j], v, w);
    if (fits)
      return has_few_terms(loop) ? w : NO_AXIS;
  }
  return NO_AXIS;
}

bool interleave_has_tasks(const NestChoice *c) {
  const Schedule *s = c->schedule;
  uint32_t last = c->loop->parallel_axes - 1, v = c->vector_axis,
           w = v == last ? interleave_axis(c->loop, v, s->width) : NO_AXIS;
  if (w == NO_AXIS)
    return false;
  return w > last ? s->task_kind == TASK_COLUMNS
                  : s->task_kind == TASK_TILE && w == last - 1 &&
                        s->task_height == c->loop->extents[w];
}
