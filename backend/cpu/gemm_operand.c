/* The operands of a matmul: their loops, and whether they are packed. */
#include "backend/cpu/gemm_chooser.h"

/* Returns true if all addresses of the operand step over the reduction axes v
 * and v + 1 as over one axis. */
static bool axes_collapse(const LoopNest *loop, uint32_t v) {
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[v] ||
        loop->floor_divs[j].dividend.coef[v + 1])
      return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    int64_t step;
    if (q && (!extent_mul(loop->graph, q->coef[v + 1], loop->extents[v + 1],
                          &step) ||
              q->coef[v] != step))
      return false;
  }
  return true;
}

/* Replaces the last reduction axes by one axis, as many as possible.  The order
 * of the terms stays the same. is_window: all axes or none, since the axes of a
 * window stay apart. */
static void collapse_reduction_axes(LoopNest *loop, bool is_window) {
  uint32_t last = loop->axis_count - 1, first = last;
  int64_t terms = loop->extents[last], product;
  if (loop->accumulated_axes)
    return;
  for (; first > loop->spatial_axes && axes_collapse(loop, first - 1);
       first--) {
    if (!extent_mul(loop->graph, loop->extents[first - 1], terms, &product))
      break;
    terms = product;
  }
  if (is_window && first > loop->spatial_axes)
    return;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    if (!q)
      continue;
    q->coef[first] = q->coef[last];
    for (uint32_t v = first + 1; v <= last; v++)
      q->coef[v] = 0;
  }
  loop->extents[first] = terms;
  loop->axis_count = first + 1;
}

LoopNest *gemm_operand_loop(Arena *arena, const LoopNest *loop,
                            const ContractionPattern *p, uint32_t which,
                            Dtype t, bool is_window) {
  LoopNest *to = contraction_operand_loop(arena, loop, p, which, t);
  collapse_reduction_axes(to, is_window);
  return to;
}

uint32_t gemm_operand_strided_accesses(const LoopNest *loop, uint32_t v) {
  uint32_t strided = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL)
      strided += s->address->coef[v] != 0 && s->address->coef[v] != 1;
    for (uint32_t a = 0; s->kind == KOP_LOAD && a < s->checked_index_count; a++)
      strided += loop->ops.at[s->checked_indices[a].index_op].kind == KOP_AFFINE
                     ? 1
                     : 4;
  }
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    strided += loop->floor_divs[j].dividend.coef[v] != 0 ? 16 : 0;
  return strided;
}

const KernelOp *gemm_operand_unpacked_load(const LoopNest *loop, Dtype t) {
  const KernelOp *s = &loop->ops.at[loop->outputs.at[0].value_op];
  bool read = s->kind == KOP_LOAD && s->checked_index_count == 0;
  if ((!read && s->kind != KOP_LOAD_LOCAL) || s->dtype != t ||
      loop->axis_count != loop->spatial_axes + !loop->accumulated_axes)
    return NULL;
  return affine_has_floor_divs(s->address) ? NULL : s;
}

/* True if b can be read in place. */
static bool is_contiguous_in_columns(const KernelOp *b, uint32_t n_axis,
                                     uint32_t term_axis) {
  return b && b->kind == KOP_LOAD && b->address->coef[n_axis] == 1 &&
         b->address->coef[term_axis] <= MAX_UNPACKED_STRIDE;
}

/* The terms are the rows of a block, and a is a local value of each row. */
static void choose_accumulated_packing(GemmTiling *t, const LoopNest *loop) {
  const KernelOp *b =
      gemm_operand_unpacked_load(t->b.loop, t->accumulator_dtype);
  const KernelOp *a =
      gemm_operand_unpacked_load(t->a.loop, t->accumulator_dtype);
  bool in_place =
      a && a->kind == KOP_LOAD_LOCAL && a->address->coef[t->m_axis] == 1;
  t->a.packing = in_place ? OPERAND_UNPACKED_COLUMNS : OPERAND_PACK_A_COLUMNS;
  t->b.packing = is_contiguous_in_columns(b, t->n_axis, loop_term_axis(loop))
                     ? OPERAND_UNPACKED
                     : OPERAND_PACK_B;
}

/* Returns true if vectors along the terms pay: their last axis is the only one,
 * or long enough. */
static bool has_term_vectors(const LoopNest *loop) {
  uint32_t last = loop->axis_count - 1;
  return last == loop->spatial_axes ||
         loop_extent_hint(loop, last) >= MIN_TERM_RUN;
}

void gemm_operand_choose_packing(GemmTiling *t, const LoopNest *loop,
                                 const Schedule *s) {
  if (loop->accumulated_axes) {
    choose_accumulated_packing(t, loop);
    return;
  }
  uint32_t k = loop->spatial_axes, last_a = t->a.loop->axis_count - 1,
           last_b = t->b.loop->axis_count - 1;
  const KernelOp *a =
      gemm_operand_unpacked_load(t->a.loop, t->accumulator_dtype);
  const KernelOp *b =
      gemm_operand_unpacked_load(t->b.loop, t->accumulator_dtype);
  t->a.packing = OPERAND_PACK_A_COLUMNS;
  if (has_term_vectors(t->a.loop) &&
      gemm_operand_strided_accesses(t->a.loop, last_a) <=
          gemm_operand_strided_accesses(t->a.loop, t->m_axis))
    t->a.packing = OPERAND_PACK_A_ROWS;
  if (a && a->address->coef[k] == 1 &&
      (a->kind == KOP_LOAD || s->task_kind == TASK_ROWS))
    t->a.packing = OPERAND_UNPACKED;
  t->b.packing = OPERAND_PACK_B;
  if (has_term_vectors(t->b.loop) &&
      gemm_operand_strided_accesses(t->b.loop, last_b) <
          gemm_operand_strided_accesses(t->b.loop, t->n_axis))
    t->b.packing = OPERAND_PACK_B_TRANSPOSED;
  if (is_contiguous_in_columns(b, t->n_axis, k))
    t->b.packing = OPERAND_UNPACKED;
}

bool gemm_operand_may_read_b_unpacked(const GemmTiling *t, const LoopNest *loop,
                                      const Schedule *s) {
  int64_t m = loop->extents[t->m_axis];
  const KernelOp *b =
      gemm_operand_unpacked_load(t->b.loop, t->accumulator_dtype);
  return s->task_kind == TASK_TILE && t->b.packing == OPERAND_PACK_B &&
         t->element_dtype == t->accumulator_dtype &&
         extent_is_static(loop->graph, m) && m <= MAX_MC && b &&
         b->kind == KOP_LOAD && b->address->coef[t->n_axis] == 1;
}
