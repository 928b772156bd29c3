/* The loop nests of a kernel as C, each as its schedule says. */
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_parts.h"
#include "backend/cpu/nest_writer.h"

void emit_open_axis(Buffer *out, uint32_t axis, const char *begin,
                    const char *end) {
  buffer_printf(out, "for (int64_t i%u = %s; i%u < %s; i%u++) {\n", axis, begin,
                axis, end, axis);
}

uint32_t emit_open_axes(Emitter *e, Buffer *out, const LoopNest *loop,
                        uint32_t first, uint32_t last) {
  for (uint32_t v = first; v < last; v++)
    emit_open_axis(out, v, "0", emit_int(e, loop->extents[v]));
  return first < last ? last - first : 0;
}

void emit_close(Buffer *out, uint32_t loops) {
  while (loops--)
    buffer_puts(out, "}\n");
}

void emit_loop_nest(Emitter *e, Buffer *out, uint32_t at) {
  const LoopNest *loop = e->kernel->loops.at[at];
  const Nest *n = e->cpu->schedule->nests[at];
  bool fits = loop->outputs.len <= MAX_LOOP_OUTPUTS || loop_has_states(loop);
  if (!n || !fits) {
    e->failed = true;
    return;
  }
  if (e->cpu->comments && n->steps.len > n->task_steps) {
    buffer_puts(out, "/* schedule: ");
    nest_print_schedule(out, n, n->task_steps);
    buffer_puts(out, " */\n");
  }
  e->cpu->jammed_rows = nest_jammed_rows(n);
  LoopPart parts[MAX_LOOP_PARTS];
  uint32_t count = nest_parts(e->kernel, e->cpu->schedule, n, parts);
  if (count)
    emit_nest_parts(e, out, at, n, parts, count);
  else
    emit_nest(e, out, at, n, e->cpu->epilogue[at]);
  if (e->cpu->jammed_rows)
    unroll_and_jam_bind_locals(e, out, false);
  e->cpu->jammed_rows = 0;
}
