/* Operands of matmuls: packed, or read in place. */
#include "backend/cpu/gemm.h"
#include "machine/limits/cpu.h"

#define format emit_format

const char *gemm_element_type(Dtype t) {
  return t == DT_F64 ? "double" : t == DT_I32 ? "int32_t" : "float";
}

const char *gemm_load_type(const GemmTiling *t) {
  return t->element_dtype == DT_I32 ? "pairs_u"
                                    : gemm_element_type(t->element_dtype);
}

const char *gemm_suffix(Emitter *e, uint32_t loop_index) {
  return *e->suffix ? format(e, "%s_%u", e->suffix, loop_index)
                    : format(e, "%u", loop_index);
}

uint32_t gemm_short_tile_rows(const GemmTiling *t, uint32_t part) {
  return (uint32_t)ceil_div((int64_t)t->mr * part, SHORT_TILE_STEPS);
}

void gemm_open_term_loops(Emitter *e, Buffer *out, const LoopNest *loop,
                          const char *from, const char *to) {
  uint32_t count =
      loop->accumulated_axes ? 1 : loop->axis_count - loop->spatial_axes;
  if (count > 1) {
    buffer_printf(out, "int64_t term = %s;\n", from);
    for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;) {
      const char *extent = emit_divisor(e, loop->extents[v]);
      buffer_printf(out, "int64_t i%u = term %% %s;\nterm /= %s;\n", v, extent,
                    extent);
    }
  }
  buffer_printf(out, "for (int64_t k = %s; k < %s; k++) {\n", from, to);
  if (count == 1)
    buffer_printf(out, "const int64_t i%u = k;\n", loop_term_axis(loop));
}

void gemm_close_term_loops(Emitter *e, Buffer *out, const LoopNest *loop) {
  if (loop->axis_count - loop->spatial_axes > 1)
    for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;)
      buffer_printf(out, "if (++i%u == %s) {\ni%u = 0;\n", v,
                    emit_int(e, loop->extents[v]), v);
  if (loop->axis_count - loop->spatial_axes > 1)
    for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;)
      buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}

/* ---- runs: terms that differ only in their last axis ---- */

/* Opens a loop over the runs of the terms from .. to - 1: `run` terms, from
 * term k on.  The loop over vectors of a run has the index j. */
static void open_run_loops(Emitter *e, Buffer *out, const LoopNest *loop,
                           const char *from, const char *to) {
  uint32_t last = loop->axis_count - 1;
  buffer_printf(out, "int64_t term = %s;\n", from);
  for (uint32_t v = loop->axis_count; v-- > loop->spatial_axes;) {
    const char *extent = emit_divisor(e, loop->extents[v]);
    buffer_printf(out, "int64_t i%u = term %% %s;\nterm /= %s;\n", v, extent,
                  extent);
  }
  const char *extent = emit_int(e, loop->extents[last]);
  buffer_printf(out,
                "for (int64_t k = %s, run; k < %s; k += run) {\n"
                "run = %s - i%u < %s - k ? %s - i%u : %s - k;\n",
                from, to, extent, last, to, extent, last, to);
}

static void close_run_loops(Emitter *e, Buffer *out, const LoopNest *loop) {
  uint32_t last = loop->axis_count - 1;
  for (uint32_t v = last + 1; v-- > loop->spatial_axes;)
    buffer_printf(out, "if ((i%u += %s) == %s) {\ni%u = 0;\n", v,
                  v == last ? "run" : "1", emit_int(e, loop->extents[v]), v);
  for (uint32_t v = loop->spatial_axes; v <= last; v++)
    buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}

static bool has_runs(const LoopNest *loop) {
  return loop->axis_count > loop->spatial_axes + 1;
}

void gemm_append_levels(Emitter *e, Buffer *out, uint32_t from, uint32_t to) {
  for (uint32_t l = from; l < to; l++)
    emit_append(out, &e->levels.code[l]);
}

const char *gemm_begin_operand(Emitter *e, const LoopNest *loop,
                               uint32_t vector_axis, uint32_t loops,
                               const uint32_t *order, Buffer *task_code) {
  emit_begin_loop(e, loop, vector_axis, loops, order);
  emit_ops(e);
  Dtype t = loop->outputs.at[0].dtype;
  const char *value =
      emit_vector(e, loop->outputs.at[0].value_op, value_class(t));
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(task_code, &e->levels.code[OUTER_LEVEL]);
  return value;
}

uint32_t gemm_reduction_axes(const LoopNest *loop, uint32_t *order) {
  uint32_t count = 0;
  if (loop->accumulated_axes)
    order[count++] = loop_term_axis(loop);
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    order[count++] = v;
  return count;
}

static void emit_packed_store(Emitter *e, Buffer *out, const GemmTiling *t,
                              const char *to, const char *value) {
  buffer_printf(out, "st_%s(%s, %s);\n", dtype_info[t->element_dtype].name, to,
                value);
  (void)e;
}

/* Opens loops over rows x0 .. x1 - 1, and over the batch axes whose rows belong
 * to the same matmul: `count` axes in all.  The code of its level begins each
 * loop. */
static void open_row_loops(Emitter *e, const GemmTiling *t,
                           const uint32_t *order, uint32_t count, Buffer *out) {
  const LoopNest *loop = t->a.loop;
  uint32_t m = t->m_axis;
  const char *row = format(e, "(i%u - x0)", m);
  buffer_printf(out, "for (int64_t i%u = x0; i%u < x1; i%u++) {\n", m, m, m);
  gemm_append_levels(e, out, 2, 3);
  for (uint32_t j = 1; j < count; j++) {
    uint32_t v = order[j];
    const char *extent = emit_int(e, loop->extents[v]);
    buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                  extent, v);
    gemm_append_levels(e, out, 2 + j, 3 + j);
    row = format(e, "(%s * %s + i%u)", row, extent, v);
  }
  buffer_printf(out, "%s *const to = a + %s * %d;\n",
                gemm_element_type(t->element_dtype), row, LDA_ROWS);
}

/* Packs a by rows: each row holds its terms, by vectors along the last axis of
 * the terms. */
static void emit_packed_rows(Emitter *e, const GemmTiling *t, Buffer *task_code,
                             Buffer *out) {
  const LoopNest *loop = t->a.loop;
  uint32_t order[MAX_KERNEL_AXES] = {t->m_axis}, last = loop->axis_count - 1,
           rows = 1;
  Buffer store = {.arena = e->arena};
  if (gemm_merges_batch(t))
    for (uint32_t v = loop->parallel_axes; v < loop->spatial_axes; v++)
      if (v != t->n_axis)
        order[rows++] = v;
  uint32_t levels = rows;
  for (uint32_t v = loop->spatial_axes; v < last; v++)
    order[levels++] = v;
  const char *value =
      gemm_begin_operand(e, loop, last, levels, order, task_code);
  emit_packed_store(e, &store, t,
                    has_runs(loop)
                        ? format(e, "to + (k - k0) + (j - i%u)", last)
                        : "to + (j - k0)",
                    value);
  open_row_loops(e, t, order, rows, out);
  if (has_runs(loop)) {
    open_run_loops(e, out, loop, "k0", "k1");
    gemm_append_levels(e, out, 2 + rows, e->levels.vector);
    buffer_printf(out, "const int64_t end = i%u + run;\nint64_t j = i%u;\n",
                  last, last);
    emit_vector_loop(e, out, "", &store, &store);
    close_run_loops(e, out, loop);
  } else {
    buffer_puts(out, "const int64_t end = k1;\nint64_t j = k0;\n");
    emit_vector_loop(e, out, "", &store, &store);
  }
  while (rows--)
    buffer_puts(out, "}\n");
}

void gemm_pack_a(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out) {
  const LoopNest *loop = t->a.loop;
  uint32_t order[MAX_KERNEL_AXES];
  Buffer store = {.arena = e->arena};
  if (t->a.packing == OPERAND_PACK_A_ROWS) {
    emit_packed_rows(e, t, task_code, out);
    return;
  }
  uint32_t count = gemm_reduction_axes(loop, order);
  const char *value =
      gemm_begin_operand(e, loop, t->m_axis, count, order, task_code);
  emit_packed_store(e, &store, t, format(e, "to + (j - x0)"), value);
  buffer_puts(out, "{\n");
  gemm_open_term_loops(e, out, loop, "k0", "k1");
  buffer_printf(out, "%s *const to = a + (k - k0) * %d;\n",
                gemm_element_type(t->element_dtype), LDA_COLUMNS);
  gemm_append_levels(e, out, 2, e->levels.vector);
  buffer_puts(out, "const int64_t end = x1;\nint64_t j = x0;\n");
  emit_vector_loop(e, out, "", &store, &store);
  gemm_close_term_loops(e, out, loop);
  buffer_puts(out, "}\n");
}

/* Loads columns g .. as vectors x along the terms from `term` on, and stores
 * the transposed block. is_full: W columns and W terms; otherwise `rest` terms
 * and the columns before n1.  index: the index of the term along its axis. */
static void emit_transposed_block(Emitter *e, const Operand *o, uint32_t n_axis,
                                  const char *id, char v, bool is_full,
                                  const char *term, const char *index,
                                  const Buffer *store_code, Buffer *out) {
  bool unrolled = is_full && o->loop->ops.len <= MAX_UNROLLED_OPS;
  const char *unroll =
      unrolled ? format(e, "#pragma GCC unroll %u\n", e->width) : "";
  buffer_printf(
      out, "%sfor (int l = 0; l < W; l++) {\nconst int64_t i%u = %s;\n", unroll,
      n_axis, is_full ? "g + l" : "g + l < n1 ? g + l : n1 - 1");
  gemm_append_levels(e, out, e->levels.of[n_axis], e->levels.vector);
  buffer_printf(out, "const int64_t j = %s;\n%s", index,
                is_full ? full_vector_macros : tail_macros);
  gemm_append_levels(e, out, e->levels.vector, e->levels.vector + 1);
  emit_append(out, &e->check_code);
  emit_append(out, store_code);
  buffer_printf(
      out,
      "%s}\ntranspose%s_%c(x);\n%s"
      "for (int l = 0; l < %s; l++)\n"
      "*(v%c_u *)(panel + (%s - from + l) * NR%s + (g - y)) = x[l];\n",
      undef_macros, e->suffix, v, unroll, is_full ? "W" : "rest", v, term, id);
}

/* Packs a panel from memory in which terms are contiguous, at least along their
 * last axis. */
static void emit_transposed_panel(Emitter *e, const GemmTiling *t,
                                  const Operand *o, uint32_t n_axis,
                                  const char *id, Buffer *task_code,
                                  Buffer *out) {
  const LoopNest *loop = o->loop;
  uint32_t order[MAX_KERNEL_AXES], last = loop->axis_count - 1,
                                   count = gemm_reduction_axes(loop, order);
  char v = gemm_element_type(t->element_dtype)[0];
  Buffer store_code = {.arena = e->arena};
  const char *term = "k", *index = "k";
  order[count - 1] = n_axis;
  const char *value =
      gemm_begin_operand(e, loop, last, count, order, task_code);
  buffer_printf(&store_code, "x[l] = %s;\n", value);
  if (has_runs(loop)) {
    term = "(k + p)";
    index = format(e, "i%u + p", last);
    buffer_puts(out, "for (int64_t g = y; g < right; g += W) {\n");
    open_run_loops(e, out, loop, "from", "to");
    gemm_append_levels(e, out, 2, e->levels.of[n_axis]);
    buffer_printf(out,
                  "for (int64_t p = 0; p < run; p += W) {\n"
                  "const int rest = run - p < W ? (int)(run - p) : W;\n"
                  "v%c x[W];\n"
                  "if (rest == W && g + W <= n1) {\n",
                  v);
  } else {
    buffer_printf(out,
                  "for (int64_t g = y; g < right; g += W)\n"
                  "for (int64_t k = from; k < to; k += W) {\n"
                  "const int rest = to - k < W ? (int)(to - k) : W;\n"
                  "v%c x[W];\n"
                  "if (rest == W && g + W <= n1) {\n",
                  v);
  }
  emit_transposed_block(e, o, n_axis, id, v, true, term, index, &store_code,
                        out);
  buffer_puts(out, "} else {\n");
  emit_transposed_block(e, o, n_axis, id, v, false, term, index, &store_code,
                        out);
  buffer_puts(out, "}\n}\n");
  if (has_runs(loop)) {
    close_run_loops(e, out, loop);
    buffer_puts(out, "}\n");
  }
}

void gemm_pack_b(Emitter *e, const GemmTiling *t, const Operand *o,
                 uint32_t n_axis, uint32_t loop_index, Buffer *task_code,
                 Buffer *out) {
  const LoopNest *loop = o->loop;
  const char *id = gemm_suffix(e, loop_index);
  uint32_t order[MAX_KERNEL_AXES];
  Buffer store = {.arena = e->arena};
  const char *type = gemm_element_type(t->element_dtype);
  buffer_printf(out,
                "for (int64_t y = n0; y < n1; y += NR%s) {\n"
                "const int64_t right = y + NR%s < n1 ? y + NR%s : n1;\n"
                "%s *const panel = b + (y - n0) * (to - from);\n",
                id, id, id, type);
  if (o->packing != OPERAND_PACK_B_TRANSPOSED) {
    uint32_t count = gemm_reduction_axes(loop, order);
    const char *value =
        gemm_begin_operand(e, loop, n_axis, count, order, task_code);
    emit_packed_store(e, &store, t, "row + (j - y)", value);
    gemm_open_term_loops(e, out, loop, "from", "to");
    buffer_printf(out, "%s *const row = panel + (k - from) * NR%s;\n", type,
                  id);
    gemm_append_levels(e, out, 2, e->levels.vector);
    buffer_puts(out, "const int64_t end = right;\nint64_t j = y;\n");
    emit_vector_loop(e, out, "", &store, &store);
    gemm_close_term_loops(e, out, loop);
  } else {
    emit_transposed_panel(e, t, o, n_axis, id, task_code, out);
  }
  buffer_puts(out, "}\n");
}

void gemm_unpacked_operand(Emitter *e, const GemmTiling *t, const Operand *o,
                           uint32_t rows, Buffer *task_code, Buffer *out) {
  const LoopNest *loop = o->loop;
  const KernelOp *s = &loop->ops.at[loop->outputs.at[0].value_op];
  const char *type = gemm_load_type(t), *name = o == &t->a ? "a" : "b";
  emit_begin_loop(e, loop, NO_AXIS, 0, NULL);
  AffineExpr base = *s->address;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v == rows || v >= loop->spatial_axes ||
        (v + 1 == loop->spatial_axes && *name == 'b') ||
        (v == t->m_axis && *name == 'a'))
      base.coef[v] = 0;
  if (s->kind == KOP_LOAD) {
    const char *pitch =
        emit_int(e, s->address->coef[rows] / (1 + s->packed_pairs));
    buffer_printf(out,
                  "const int64_t ld%s = %s;\n"
                  "const %s *const %s = (const %s *)(p%u + %s);\n",
                  name, pitch, type, name, type, s->input,
                  emit_affine(e, &base));
  } else {
    const LocalBuffer *l =
        &e->function.locals[s->source_loop][s->source_output];
    buffer_printf(out,
                  "const int64_t ld%s = %s;\n"
                  "const %s *const %s = l%u + %s - lo * ld%s;\n",
                  name, l->point_elements, type, name, l->id,
                  emit_affine(e, &base), name);
  }
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(task_code, &e->levels.code[OUTER_LEVEL]);
}

void gemm_scratch_pointer(Emitter *e, const char *name, int64_t elements,
                          Dtype t, Buffer *out) {
  const char *type = gemm_element_type(t);
  buffer_printf(out, "%s *const %s = (%s *)(room + %s);\n", type, name, type,
                emit_scratch(e, elements, t));
}

void gemm_left_operand(Emitter *e, const GemmTiling *t, Buffer *task_code,
                       Buffer *body, Buffer *inner) {
  if (t->a.packing == OPERAND_PACK_A_ROWS)
    gemm_scratch_pointer(
        e, "a",
        emit_extent_mul(
            e, LDA_ROWS,
            gemm_merges_batch(t)
                ? emit_extent_add(e, emit_extent_mul(e, t->mc, t->batch_rows),
                                  t->mr)
                : MAX_MC + t->mr),
        t->element_dtype, body);
  else if (t->a.packing == OPERAND_PACK_A_COLUMNS)
    gemm_scratch_pointer(e, "a", (t->kc + 1) * LDA_COLUMNS, t->element_dtype,
                         body);
  else
    gemm_unpacked_operand(e, t, &t->a,
                          t->a.packing == OPERAND_UNPACKED_COLUMNS
                              ? loop_term_axis(t->a.loop)
                              : t->m_axis,
                          task_code, inner);
}

const char *gemm_row_arguments(Emitter *e, const GemmTiling *t,
                               const char *first) {
  return t->a.packing == OPERAND_UNPACKED           ? "a + x * lda + k0, lda"
         : t->a.packing == OPERAND_UNPACKED_COLUMNS ? "a + k0 * lda + x, lda"
         : t->a.packing == OPERAND_PACK_A_ROWS
             ? format(e, "a + (x - %s) * %d, %d", first, LDA_ROWS, LDA_ROWS)
             : format(e, "a + (x - %s), %d", first, LDA_COLUMNS);
}
