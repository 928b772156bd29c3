/* Bounds of loops as C: those of trimmed loops (kernel/trim_no_ops.c) and of
 * strips (kernel/online_reduction.c), and checks after loops. */
#include "backend/cpu/cpu_emitter.h"

#define format emit_format

bool loop_is_trimmed(const LoopNest *loop, uint32_t v) {
  return (loop->trim_bounds || loop->strip_mined) && v == loop->trimmed_axis;
}

/* True if the rows of a task have different indices of axis v. */
static bool varies_in_task(const Emitter *e, uint32_t v) {
  return v + 1 == e->kernel->parallel_axes &&
         e->cpu->schedule->task_kind != TASK_POINT;
}

/* An expression of parallel axes.  last: the index of the last axis, if it
 * varies in the task. */
static const char *outer_affine(Emitter *e, const AffineExpr *q,
                                const char *last) {
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, emit_int(e, q->constant));
  for (uint32_t v = 0; v < e->kernel->parallel_axes; v++)
    if (q->coef[v] && varies_in_task(e, v))
      buffer_printf(&b, " + %s * %s", emit_int(e, q->coef[v]), last);
    else if (q->coef[v])
      buffer_printf(&b, " + %s * i%u", emit_int(e, q->coef[v]), v);
  return b.text;
}

/* A bound at one row, or its minimum or maximum among the rows of a task. */
static const char *trim_bound_expr(Emitter *e, const TrimBound *bound,
                                   const char *row) {
  uint32_t outer = e->kernel->parallel_axes;
  int64_t t = outer ? bound->dividend.coef[outer - 1] : 0;
  const char *last = row ? row : (t > 0) == bound->is_lower ? "lo" : "(hi - 1)";
  const char *x = outer_affine(e, &bound->dividend, last);
  if (bound->load) {
    const char *coef = emit_int(e, bound->load_coef);
    x = format(e, "%s + %s * p%u[%s]", x, coef, bound->load->input,
               outer_affine(e, bound->load->address, last));
  }
  return bound->divisor == 1
             ? x
             : format(e, "floor_div(%s, %s)", x, emit_int(e, bound->divisor));
}

/* Among the rows of a task, the bound that leaves most iterations. */
static void emit_loosest_bound(Emitter *e, Buffer *out, uint32_t at,
                               const TrimBound *bound, const char *name) {
  bool lower = bound->is_lower;
  buffer_printf(out,
                "{ int64_t y = %s;\n"
                "for (int64_t r = lo; r < hi; r++) {\n"
                "const int64_t x = %s%s;\ny = x %s y ? x : y; }\n"
                "if (y %s %s%u)\n%s%u = y; }\n",
                lower ? "INT64_MAX" : "0", trim_bound_expr(e, bound, "r"),
                lower ? "" : " + 1", lower ? "<" : ">", lower ? ">" : "<", name,
                at, name, at);
}

static void emit_trim_bound(Emitter *e, Buffer *out, uint32_t at,
                            const TrimBound *bound, const char *name) {
  uint32_t outer = e->kernel->parallel_axes;
  if (bound->load && outer && varies_in_task(e, outer - 1) &&
      bound->load->address->coef[outer - 1]) {
    emit_loosest_bound(e, out, at, bound, name);
    return;
  }
  if (bound->exact_limit) {
    const char *index = emit_int(e, bound->largest_index);
    buffer_printf(out, "if (%s < %s)\n", index,
                  emit_int(e, bound->exact_limit));
  }
  buffer_printf(out, "{ const int64_t x = %s%s;\nif (x %s %s%u)\n%s%u = x; }\n",
                trim_bound_expr(e, bound, NULL), bound->is_lower ? "" : " + 1",
                bound->is_lower ? ">" : "<", name, at, name, at);
}

bool kernel_may_run_untrimmed(const Kernel *k) {
  bool needs_fallback = k->trim_check != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    needs_fallback |= k->loops.at[j]->requires_finite;
  return needs_fallback;
}

/* Without loads in bounds, at least one element remains of a non-empty axis. */
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
  int one = !loop_may_be_empty(e->kernel, loop);
  buffer_printf(out,
                "if (%s%u > %s - %d)\n%s%u = %s - %d;\n"
                "if (%s%u < %s%u + %d)\n%s%u = %s%u + %d;\n}\n",
                from, at, extent, one, from, at, extent, one, to, at, from, at,
                one, to, at, from, at, one);
}

void emit_trim_bounds(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (e->kernel->loops.at[j]->strip_mined)
      emit_loop_trim_bounds(e, out, j, "low", "high");
    else if (e->kernel->loops.at[j]->trim_bounds)
      emit_loop_trim_bounds(e, out, j, "from", "to");
}

/* The part of each loop's axis, and of its values, that the strip has. */
static void emit_strip_bounds(Emitter *e, Buffer *out, uint32_t loop_index,
                              const char *size) {
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  buffer_printf(out,
                "const int64_t from%u = low%u > at ? low%u : at;\n"
                "const int64_t to%u = high%u < at + %s ? high%u : at + %s;\n",
                loop_index, loop_index, loop_index, loop_index, loop_index,
                size, loop_index, size);
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    const LocalBuffer *l = &e->function.locals[loop_index][i];
    if (l->strip_mined)
      buffer_printf(out, "%s *const l%u = r%u - at;\n",
                    memory_type(loop->outputs.at[i].dtype), l->id, l->id);
  }
}

void emit_strips_begin(Emitter *e, Buffer *out) {
  const Kernel *k = e->kernel;
  const char *size = emit_int(e, e->cpu->schedule->strip_length);
  uint32_t first = k->strip_begin;
  buffer_printf(out, "int64_t at0 = low%u, at1 = high%u;\n", first, first);
  for (uint32_t j = first + 1; j < k->strip_end; j++)
    if (k->loops.at[j]->strip_mined)
      buffer_printf(out,
                    "if (low%u < at0)\nat0 = low%u;\n"
                    "if (high%u > at1)\nat1 = high%u;\n",
                    j, j, j, j);
  buffer_printf(out, "for (int64_t at = at0 / %s * %s; at < at1; at += %s) {\n",
                size, size, size);
  for (uint32_t j = first; j < k->strip_end; j++)
    if (k->loops.at[j]->strip_mined)
      emit_strip_bounds(e, out, j, size);
}

void emit_loop_check(Emitter *e, Buffer *out, const LoopNest *check,
                     const char *flag) {
  emit_begin_loop(e, check, NO_AXIS, 0, NULL);
  emit_ops(e);
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  for (uint32_t j = 0; j < check->outputs.len; j++)
    buffer_printf(out, "%s |= %s;\n", flag,
                  emit_scalar(e, check->outputs.at[j].value_op));
}
