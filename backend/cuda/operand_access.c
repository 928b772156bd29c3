/* Memory access patterns of contraction operands. */
#include "backend/cuda/gemm_pass.h"

enum { ALIGN_BYTES = 16 };

const KernelOp *cuda_widened_narrow(const LoopNest *side) {
  const KernelOp *s = &side->ops.at[side->outputs.at[0].value_op];
  if (s->kind != KOP_CONVERT)
    return NULL;
  const KernelOp *of = &side->ops.at[s->args[0]];
  return dtype_is_narrow_float(of->dtype) ? of : NULL;
}

const KernelOp *cuda_widened_half(const LoopNest *side) {
  const KernelOp *of = cuda_widened_narrow(side);
  return of && dtype_info[of->dtype].bytes == 2 ? of : NULL;
}

/* The load of type t that the operand consists of; or NULL. */
const KernelOp *cuda_plain_load(const LoopNest *side, Dtype t) {
  const KernelOp *s = cuda_widened_narrow(side);
  if (!s)
    s = &side->ops.at[side->outputs.at[0].value_op];
  return s->kind == KOP_LOAD && s->dtype == t && !s->checked_index_count &&
                 !affine_has_floor_divs(s->address)
             ? s
             : NULL;
}

/* The largest power of two up to `align` that divides `count` elements, in
 * bytes.  At least one element.  Holds for all values of symbolic sizes. */
static uint32_t alignment_of(const LoopNest *loop, int64_t count,
                             uint32_t bytes, uint32_t align) {
  int64_t size, left;
  while (align > bytes &&
         (!extent_mul(loop->graph, count, bytes, &size) ||
          !extent_floor_mod(loop->graph, size, align, &left) || left))
    align /= 2;
  return align;
}

/* The alignment of an address without the term of axis `dense`, bytes. */
uint32_t cuda_alignment_of(const LoopNest *loop, const AffineExpr *at,
                           uint32_t bytes, uint32_t dense) {
  uint32_t align = alignment_of(loop, at->constant, bytes, ALIGN_BYTES);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != dense)
      align = alignment_of(loop, at->coef[v], bytes, align);
  return align;
}

/* True if the last axis of a group is contiguous.  *align: the alignment of
 * vector accesses that do not cross into the next axis, bytes. */
bool cuda_is_contiguous_group(const LoopNest *loop, const AffineExpr *at,
                              uint32_t count, const uint32_t *axes,
                              uint32_t *align, uint32_t bytes) {
  if (!count || at->coef[axes[count - 1]] != 1)
    return false;
  uint32_t dense = axes[count - 1];
  *align = cuda_alignment_of(loop, at, bytes, dense);
  if (count > 1)
    *align = alignment_of(loop, loop->extents[dense], bytes, *align);
  return true;
}

uint32_t cuda_store_alignment(const Kernel *k, uint32_t dense) {
  uint32_t align = ALIGN_BYTES;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      uint32_t bytes = dtype_info[r->dtype].bytes, channels;
      channels =
          r->global_index
              ? cuda_alignment_of(k->loops.at[j], r->global_index, bytes, dense)
              : ALIGN_BYTES;
      align = channels < align ? channels : align;
    }
  return align;
}

bool cuda_requires_align16(const GemmSide *sides, uint32_t count,
                           uint32_t store_align) {
  bool wants = store_align == ALIGN_BYTES;
  for (uint32_t j = 0; j < count; j++)
    wants |= !sides[j].computed &&
             sides[j].align_bytes > dtype_info[sides[j].dtype].bytes;
  return wants;
}
