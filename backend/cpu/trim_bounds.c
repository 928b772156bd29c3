/* Trimmed loops as C (kernel/trim_no_ops.c). */
#include "backend/cpu/cpu_emitter.h"

#define format emit_format

bool loop_is_trimmed(const LoopNest *loop, uint32_t v) {
  return (loop->trim_bounds || loop->strip_mined) && v == loop->trimmed_axis;
}

/* The minimum or maximum of a bound among the rows of a task. */
static const char *trim_bound_expr(Emitter *e, const TrimBound *bound) {
  uint32_t outer = e->kernel->parallel_axes;
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, emit_int(e, bound->dividend.constant));
  for (uint32_t v = 0; v < outer; v++) {
    int64_t t = bound->dividend.coef[v];
    if (!t)
      continue;
    buffer_printf(&b, " + %s * ", emit_int(e, t));
    if (v + 1 < outer || e->cpu->schedule->task_kind == TASK_POINT)
      buffer_printf(&b, "i%u", v);
    else
      buffer_puts(&b, (t > 0) == bound->is_lower ? "lo" : "(hi - 1)");
  }
  return bound->divisor == 1 ? b.text
                             : format(e, "floor_div(%s, %s)", b.text,
                                      emit_int(e, bound->divisor));
}

static void emit_trim_bound(Emitter *e, Buffer *out, uint32_t at,
                            const TrimBound *bound, const char *name) {
  if (bound->exact_limit)
    buffer_printf(out, "if (%s < %s)\n", emit_int(e, bound->largest_index),
                  emit_int(e, bound->exact_limit));
  buffer_printf(out, "{ const int64_t x = %s%s;\nif (x %s %s%u)\n%s%u = x; }\n",
                trim_bound_expr(e, bound), bound->is_lower ? "" : " + 1",
                bound->is_lower ? ">" : "<", name, at, name, at);
}

bool kernel_may_run_untrimmed(const Kernel *k) {
  bool needs_fallback = k->trim_check != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    needs_fallback |= k->loops.at[j]->requires_finite;
  return needs_fallback;
}

/* At least one element remains of a non-empty axis, so that its loops need no
 * special case. */
static void emit_loop_trim_bounds(Emitter *e, Buffer *out, uint32_t at,
                                  const char *from, const char *to) {
  const LoopNest *loop = e->kernel->loops.at[at];
  const char *extent = emit_int(e, loop->extents[loop->trimmed_axis]);
  buffer_printf(out, "int64_t %s%u = 0, %s%u = %s;\n", from, at, to, at,
                extent);
  if (!loop->trim_bounds)
    return;
  if (kernel_may_run_untrimmed(e->kernel))
    buffer_puts(out, "if (!whole)\n");
  if (!extent_is_static(e->kernel->graph, loop->extents[loop->trimmed_axis]))
    buffer_printf(out, "if (%s > 0)\n", extent);
  buffer_puts(out, "{\n");
  for (uint32_t i = 0; i < e->kernel->trim_bounds.len; i++) {
    const TrimBound *bound = &e->kernel->trim_bounds.at[i];
    if (loop->trim_bounds >> i & 1)
      emit_trim_bound(e, out, at, bound, bound->is_lower ? from : to);
  }
  buffer_printf(out,
                "if (%s%u >= %s)\n%s%u = %s - 1;\n"
                "if (%s%u <= %s%u)\n%s%u = %s%u + 1;\n}\n",
                from, at, extent, from, at, extent, to, at, from, at, to, at,
                from, at);
}

void emit_trim_bounds(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (e->kernel->loops.at[j]->strip_mined)
      emit_loop_trim_bounds(e, out, j, "low", "high");
    else if (e->kernel->loops.at[j]->trim_bounds)
      emit_loop_trim_bounds(e, out, j, "from", "to");
}

void emit_trim_check(Emitter *e, Buffer *out) {
  const LoopNest *guard = e->kernel->trim_check;
  emit_begin_loop(e, guard, NO_AXIS, 0, NULL);
  emit_ops(e);
  emit_append(&e->function.head, &e->levels.code[0]);
  buffer_puts(out, "{\n");
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  for (uint32_t j = 0; j < guard->outputs.len; j++)
    buffer_printf(out, "missed |= %s;\n",
                  emit_scalar(e, guard->outputs.at[j].value_op));
  buffer_puts(out, "}\n");
}
