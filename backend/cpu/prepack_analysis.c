/* Decides which operands may be prepacked. */
#include "backend/cpu/prepack.h"

static bool uses_only_axis(const LoopNest *loop, const AffineExpr *q,
                           uint32_t n_axis) {
  for (uint32_t v = 0; v < MAX_KERNEL_AXES; v++)
    if (q->coef[v] && v != n_axis && v < loop->spatial_axes)
      return false;
  return true;
}

static bool is_int_division(const KernelOp *s) {
  return !dtype_is_float(s->dtype) && map_info[s->op].fault != ARITH_OK;
}

/* Returns true if only the tensor's elements differ between calls. */
static bool is_call_invariant(const LoopNest *loop, const KernelOp *s,
                              uint32_t n_axis) {
  switch (s->kind) {
  case KOP_CONST:
    return !scalar_is_param(s->value);
  case KOP_AFFINE:
    return uses_only_axis(loop, s->affine, n_axis);
  case KOP_LOAD:
    return s->checked_index_count == 0 &&
           uses_only_axis(loop, s->address, n_axis);
  case KOP_MAP:
    return !is_int_division(s);
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    return true;
  case KOP_LOAD_LOCAL:
  case KOP_RANDOM:
    break;
  }
  return false;
}

bool prepack_is_possible(const LoopNest *loop, uint32_t n_axis) {
  const KernelOp *read = NULL;
  if (loop_is_symbolic(loop))
    return false;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (!uses_only_axis(loop, &loop->floor_divs[j].dividend, n_axis))
      return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (!is_call_invariant(loop, s, n_axis) ||
        (s->kind == KOP_LOAD && read && s->input != read->input))
      return false;
    read = s->kind == KOP_LOAD ? s : read;
  }
  return read != NULL;
}

bool prepack_may_keep(const LoopNest *loop, const GemmTiling *t,
                      const Operand *o, uint32_t n_axis) {
  bool is_copied = o->packing == OPERAND_PACK_B ||
                   o->packing == OPERAND_PACK_B_TRANSPOSED ||
                   t->reads_b_unpacked;
  return is_copied && !loop->accumulated_axes &&
         prepack_is_possible(o->loop, n_axis);
}

bool prepack_pays(const Operand *o, double elements, double lanes,
                  double rows) {
  double per_tile = o->packing == OPERAND_PACK_B_TRANSPOSED
                        ? TRANSPOSE_COST_ROWS
                        : PACK_COST_ROWS;
  return elements >= MIN_PREPACKED_ELEMENTS &&
         per_tile * lanes >= MIN_PACKING_SHARE * rows;
}
