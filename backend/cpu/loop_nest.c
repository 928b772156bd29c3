/* The loop nests of a kernel as C, each as its schedule says. */
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_writer.h"

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
  emit_nest(e, out, at, n, e->cpu->epilogue[at]);
  if (e->cpu->jammed_rows)
    unroll_and_jam_bind_locals(e, out, false);
  e->cpu->jammed_rows = 0;
}
