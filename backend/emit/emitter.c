/* Selects the current loop, and the macros around its vector code. */
#include "backend/emit/emit.h"
#include "support/arena.h"

#include <string.h>

void emit_append(Buffer *out, const Buffer *code) {
  if (code->len)
    buffer_add(out, code->text, code->len);
}

void emit_begin_loop(Emitter *e, const LoopNest *loop, uint32_t vector_axis,
                     uint32_t loops, const uint32_t *order) {
  e->ops.first_name += e->loop ? e->loop->ops.len : 0;
  e->floor_divs.first_name += e->loop ? e->loop->floor_div_count : 0;
  e->loop = loop;
  e->vector_axis = vector_axis;
  e->levels.count = loops;
  uint32_t level = OUTER_LEVEL, count = loop->ops.len;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    e->levels.of[v] = OUTER_LEVEL;
  for (uint32_t j = 0; j < loops; j++) {
    e->levels.order[j] = order[j];
    e->levels.of[order[j]] = ++level;
  }
  e->levels.vector = vector_axis == NO_AXIS ? level : level + 1;
  e->levels.of[NO_AXIS] = 0;
  memset(e->floor_divs.varies, 0, sizeof e->floor_divs.varies);
  if (vector_axis != NO_AXIS)
    e->levels.of[vector_axis] = e->levels.vector;
  for (uint32_t j = 0; j < MAX_LEVELS; j++)
    e->levels.code[j] = (Buffer){.arena = e->arena};
  e->check_code = (Buffer){.arena = e->arena};
  e->transpose.loads = e->transpose.decls = e->check_code;
  e->transpose.axis = NO_AXIS;
  e->ops.contracted = NO_KERNEL_OP;
  e->ops.levels = NEW_ARRAY(e->arena, uint32_t, count);
  e->ops.varies = NEW_ARRAY(e->arena, bool, count);
  e->ops.has_unrounded = NEW_ARRAY(e->arena, bool, count);
  e->ops.classes = NEW_ARRAY(e->arena, char, count);
  e->ops.demanded_lanes = NEW_ARRAY(e->arena, const char *, count);
}

const char full_vector_macros[] =
    "#define LOAD(T, p) ld_##T(p)\n#define REST W\n#define LIVE ALL\n";
const char tail_macros[] =
    "#define LOAD(T, p) ldp_##T(p, rest)\n#define REST rest\n"
    "#define LIVE (lanes() < (lane)rest)\n";
const char undef_macros[] = "#undef LOAD\n#undef REST\n#undef LIVE\n";
