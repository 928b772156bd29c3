/* Operands of matmuls: packed, or read in place. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/nest_writer.h"
#include "machine/limits/cpu.h"

#define format emit_format

const char *gemm_load_type(const GemmTiling *t) {
  return t->element_dtype == DT_I32 ? "pairs_u" : memory_type(t->element_dtype);
}

const char *gemm_suffix(Emitter *e, uint32_t loop_index) {
  return *e->suffix ? format(e, "%s_%u", e->suffix, loop_index)
                    : format(e, "%u", loop_index);
}

uint32_t gemm_short_tile_rows(const GemmTiling *t, uint32_t part) {
  return (uint32_t)ceil_div((int64_t)t->mr * part, SHORT_TILE_STEPS);
}

/* ---- packing ---- */

/* The part of an operand that a nest copies, without its lines and terms. */
static OperandCopy begin_copy(const LoopNest *loop, uint32_t axis,
                              Buffer *task_code) {
  return (OperandCopy){.axis = axis,
                       .first_term = loop_term_axis(loop),
                       .term_axes = loop->accumulated_axes
                                        ? 1
                                        : loop->axis_count - loop->spatial_axes,
                       .task_code = task_code};
}

void gemm_emit_copy(Emitter *e, const Nest *n, const OperandCopy *c,
                    Buffer *out) {
  if (!n) {
    e->failed = true;
    return;
  }
  if (e->cpu->comments) {
    buffer_puts(out, "/* schedule: ");
    nest_print_schedule(out, n, n->task_steps);
    buffer_puts(out, " */\n");
  }
  emit_operand_copy(e, out, n, c);
}

void gemm_pack_a(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out) {
  OperandCopy c = begin_copy(t->a.loop, t->m_axis, task_code);
  bool by_rows = t->a.packing == OPERAND_PACK_A_ROWS;
  c.use = by_rows ? OPERAND_TO_ROWS : OPERAND_TO_COLUMNS;
  c.dtype = t->element_dtype;
  c.to = "a";
  c.pitch = by_rows ? LDA_ROWS : LDA_COLUMNS;
  c.begin = "x0", c.end = "x1", c.from = "k0", c.until = "k1";
  gemm_emit_copy(e, t->a.nest, &c, out);
}

void gemm_pack_b(Emitter *e, const GemmTiling *t, const Operand *o,
                 uint32_t n_axis, Buffer *task_code, Buffer *out) {
  OperandCopy c = begin_copy(o->loop, n_axis, task_code);
  c.use = OPERAND_TO_PANELS;
  c.dtype = t->element_dtype;
  c.to = "b";
  c.pitch = (int64_t)t->nr_vectors * e->width;
  c.begin = "n0", c.end = "n1", c.from = "from", c.until = "to";
  gemm_emit_copy(e, o->nest, &c, out);
}

void gemm_test_b(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out) {
  LoopNest *loop = t->b.loop;
  OperandCopy c = begin_copy(loop, t->n_axis, task_code);
  bool along_terms =
      t->b.packing == OPERAND_PACK_B_TRANSPOSED && c.term_axes == 1;
  c.use = OPERAND_TESTED;
  c.begin = "0", c.end = emit_int(e, loop->extents[t->n_axis]);
  c.from = loop->accumulated_axes ? "first" : "0";
  c.until = loop->accumulated_axes ? "last" : emit_int(e, t->depth);
  gemm_emit_copy(
      e, gemm_test_nest(e->kernel, loop, t->n_axis, along_terms, e->width), &c,
      out);
}

/* ---- operands that are read in place ---- */

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
  const char *type = memory_type(t);
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
