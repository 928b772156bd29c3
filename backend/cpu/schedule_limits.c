/* Limits of registers and caches, independent of the schedule. */
#include "backend/cpu/cpu.h"
#include "machine/machine.h"

#include <stdlib.h>

uint32_t cpu_vector_bytes(void) {
  uint32_t widest = machine()->vector_bytes;
  const char *setting = getenv("AXON_VECTOR");
  uint32_t wanted = setting ? (uint32_t)atoi(setting) : 0;
  return wanted && wanted < widest ? wanted : widest;
}

uint32_t schedule_max_accumulators(uint32_t vector_bytes) {
  return vector_bytes == 64 ? 16 : 8;
}

bool schedule_is_nontemporal(const Schedule *s, const Graph *g,
                             const LoopOutput *r) {
  double bytes = node_element_hint(g, r->node) * dtype_info[r->dtype].bytes;
  return s->width > 1 && bytes > s->nontemporal_bytes;
}

/* Returns true if each row of a result begins at a vector, so that all full
 * vectors are aligned. */
static bool rows_are_aligned(const Schedule *s, const LoopNest *loop,
                             const LoopOutput *r, uint32_t vector_axis) {
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != vector_axis &&
        (!extent_is_static(loop->graph, r->global_index->coef[v]) ||
         r->global_index->coef[v] % s->width != 0))
      return false;
  return r->global_index->constant % s->width == 0;
}

bool schedule_is_nontemporal_along(const Schedule *s, const LoopNest *loop,
                                   const LoopOutput *r, uint32_t vector_axis) {
  double element_bytes = dtype_info[r->dtype].bytes;
  return schedule_is_nontemporal(s, loop->graph, r) &&
         vector_axis < loop->axis_count &&
         r->global_index->coef[vector_axis] == 1 &&
         (s->nontemporal_bytes == 0 ||
          (double)loop_extent_hint(loop, vector_axis) * element_bytes >=
              MIN_NONTEMPORAL_ROW_BYTES ||
          rows_are_aligned(s, loop, r, vector_axis));
}
