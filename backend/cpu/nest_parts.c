/* A nest that runs part of its vector axis after part, each with the operations
 * of this part (kernel/loop_parts.c). */
#include "backend/cpu/nest_parts.h"

#include "backend/cpu/nest_writer.h"
#include "machine/limits/cpu.h"

uint32_t vector_axis_parts(const Kernel *k, const LoopNest *loop, uint32_t v,
                           uint32_t vector_bytes, LoopPart *parts) {
  if (v == NO_AXIS || loop->staging || loop->strip_mined ||
      loop_is_trimmed(loop, v) || loop_has_states(loop))
    return 0;
  uint32_t count = loop_parts(k->arena, loop, v, parts);
  int64_t lanes = vector_bytes / 4, vectors = 0;
  for (uint32_t j = 0; j < count; j++)
    vectors += ceil_div(extent_hint(k->graph, parts[j].to) -
                            extent_hint(k->graph, parts[j].from),
                        lanes);
  int64_t all = ceil_div(loop_extent_hint(loop, v), lanes);
  return vectors * 100 <= all * MAX_PART_VECTORS ? count : 0;
}

void kernel_collapse_rows(Kernel *k, uint32_t vector_bytes) {
  LoopPart parts[MAX_LOOP_PARTS];
  LoopNest *loop = k->loops.len == 1 ? k->loops.at[0] : NULL;
  while (
      loop && (loop = loop_collapse_rows(k->arena, loop)) &&
      vector_axis_parts(k, loop, loop->axis_count - 1, vector_bytes, parts)) {
    k->loops.at[0] = loop;
    k->parallel_axes--;
  }
}

/* Returns true if the loops over the vector axis are full vectors, then the
 * rest. */
static bool has_plain_vectors(const Nest *n, uint32_t lanes) {
  uint32_t outer = nest_find(n, n->loops[lanes].axis, 1);
  return outer != NO_LOOP && n->loops[outer].run == NEST_SERIAL &&
         n->loops[outer].tail == TAIL_PEEL &&
         n->loops[outer].step == n->loops[lanes].count &&
         n->loops[lanes].tail == TAIL_LESS;
}

uint32_t nest_parts(const Kernel *k, const Schedule *s, const Nest *n,
                    LoopPart *parts) {
  uint32_t lanes = nest_lanes(n);
  bool is_plain =
      lanes != NO_LOOP && has_plain_vectors(n, lanes) && !n->has_epilogue &&
      n->stream.row_axis == NO_LOOP && nest_interleaved(n) == NO_LOOP &&
      nest_transposed(n) == NO_LOOP && nest_shuffled(n) == NO_LOOP &&
      !s->transpose && !s->gemm_tilings && !s->strip_length;
  return is_plain ? vector_axis_parts(k, n->spec, n->loops[lanes].axis,
                                      s->vector_bytes, parts)
                  : 0;
}

void emit_nest_parts(Emitter *e, Buffer *out, uint32_t at, const Nest *n,
                     const LoopPart *parts, uint32_t count) {
  for (uint32_t j = 0; j < count && !e->failed; j++) {
    Nest part = *n;
    part.spec = parts[j].loop;
    e->cpu->part = &parts[j];
    emit_nest(e, out, at, &part, NULL);
  }
  e->cpu->part = NULL;
}
