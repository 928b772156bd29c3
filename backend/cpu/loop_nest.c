/* The loop nests of a kernel as C, each as its schedule says. */
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_writer.h"

void emit_loop_nest(Emitter *e, Buffer *out, uint32_t at) {
  const LoopNest *loop = e->kernel->loops.at[at];
  const Nest *n = nest_choose(e->kernel, e->cpu->schedule, at);
  if (!n || loop->outputs.len > MAX_LOOP_OUTPUTS) {
    e->failed = true;
    return;
  }
  if (e->cpu->comments && n->steps.len) {
    buffer_puts(out, "/* schedule: ");
    nest_print_schedule(out, n);
    buffer_puts(out, " */\n");
  }
  uint32_t clamped = nest_clamped(n);
  e->cpu->jammed_rows =
      clamped == NO_LOOP ? 0 : (uint32_t)n->loops[clamped].count;
  emit_nest(e, out, at, n, e->cpu->epilogue[at]);
  emit_online_rescale(e, out, at);
  if (e->cpu->jammed_rows)
    unroll_and_jam_bind_locals(e, out, false);
  e->cpu->jammed_rows = 0;
}
