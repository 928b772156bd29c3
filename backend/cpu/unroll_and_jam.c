/* Unroll-and-jam of reductions over the last parallel axis.
 *
 * Neighbouring iterations may each read their own row and share another
 * row, as in a matrix-vector product.  Then several iterations share the load
 * of that row.  A load of the shared row for each iteration would take as long
 * as the load of the other row from the L2 cache.  Rows that come from farther
 * away are read faster one after the other.  Each sum adds its terms in the
 * same order as without jamming.  So results do not depend on the assignment of
 * tasks to threads. */
#include "backend/cpu/nest_choose.h"
#include "machine/machine.h"

/* Returns true if a load is a row along the vectors, shared by all iterations
 * or not. */
static bool is_row_load(const LoopNest *loop, const KernelOp *s, bool shared) {
  const int64_t *coefs = s->address->coef;
  return s->kind == KOP_LOAD && coefs[loop->spatial_axes] &&
         shared == !coefs[loop->parallel_axes - 1];
}

/* Returns true if the tensor fits in the L2 caches of all cores. */
static bool fits_l2_caches(const LoopNest *loop, const KernelOp *s) {
  const Machine *m = machine();
  return node_element_hint(loop->graph, s->node) * dtype_info[s->dtype].bytes <=
         (double)m->cache_bytes[1] * m->cores;
}

static bool has_shared_row(const LoopNest *loop) {
  bool shared = false, has_own_row = false;
  if (loop->floor_div_count || !loop->parallel_axes)
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL ||
        (s->kind == KOP_LOAD &&
         (s->checked_index_count || !fits_l2_caches(loop, s))))
      return false;
    shared |= s->kind == KOP_LOAD && is_row_load(loop, s, true);
    has_own_row |= s->kind == KOP_LOAD && is_row_load(loop, s, false);
  }
  return shared && has_own_row;
}

static bool has_only_sums(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (loop->outputs.at[j].reduce != PRIM_SUM)
      return false;
  return loop->outputs.len > 0;
}

bool unroll_and_jam_is_valid(const Kernel *k, const Schedule *s, uint32_t at) {
  const LoopNest *loop = k->loops.at[at];
  bool is_candidate = s->task_kind == TASK_POINT && !s->reduction_chunk &&
                      s->width > 1 && !k->trim_check &&
                      !kernel_may_run_untrimmed(k) && !loop->trim_bounds &&
                      loop->staging == STAGE_NONE && !loop->strip_mined;
  bool row = loop->parallel_axes && loop->spatial_axes == loop->parallel_axes &&
             loop->axis_count == loop->spatial_axes + 1 &&
             s->vector_axes[at] == loop->spatial_axes;
  return is_candidate && row && has_only_sums(loop);
}

uint32_t unroll_and_jam_points(const Kernel *k, const Schedule *s,
                               uint32_t at) {
  const LoopNest *loop = k->loops.at[at];
  if (!unroll_and_jam_is_valid(k, s, at) ||
      short_reduction_is_unrolled(s, loop, s->vector_axes[at]) ||
      !has_shared_row(loop))
    return 0;
  uint32_t points = schedule_max_accumulators(s->vector_bytes) /
                    INTERLEAVE_COUNT / loop->outputs.len;
  return points > 1 ? points : 0;
}

/* ---- C source ---- */

/* Begins a block of iterations top .. bottom - 1, unless their sums exist.
 * from%u is the task of the first iteration, and ready%u follows the last. */
void unroll_and_jam_begin(Emitter *e, Buffer *out) {
  uint32_t v = e->loop->parallel_axes - 1;
  const char *n = emit_int(e, e->loop->extents[v]);
  buffer_printf(&e->function.head,
                "int64_t from%u = begin, ready%u = begin;\n(void)from%u;\n",
                e->loop_index, e->loop_index, e->loop_index);
  buffer_printf(out,
                "#pragma GCC diagnostic push\n"
                "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
                "if (u >= ready%u) {\n"
                "const int64_t top = i%u, most = top + end - u;\n"
                "const int64_t rest = %s < most ? %s : most;\n"
                "const int64_t bottom = rest < top + %u ? rest : top + %u;\n"
                "from%u = u;\nready%u = u + bottom - top;\n",
                e->loop_index, v, n, n, e->cpu->jammed_rows,
                e->cpu->jammed_rows, e->loop_index, e->loop_index);
}

void unroll_and_jam_end(Buffer *out) {
  buffer_puts(out, "}\n#pragma GCC diagnostic pop\n");
}

void unroll_and_jam_bind_locals(Emitter *e, Buffer *out, bool in_jammed_loop) {
  for (uint32_t j = 0; j < e->loop->outputs.len; j++) {
    const LocalBuffer *l = &e->function.locals[e->loop_index][j];
    const char *type = memory_type(e->loop->outputs.at[j].dtype);
    uint32_t v = e->loop->parallel_axes - 1;
    if (!l->jammed)
      continue;
    buffer_printf(out, "%s *const l%u = r%u + ", type, l->id, l->id);
    if (in_jammed_loop)
      buffer_printf(out, "(i%u - top) * %s;\n", v, l->point_elements);
    else
      buffer_printf(out, "(u - from%u) * %s;\n", e->loop_index,
                    l->point_elements);
  }
}
