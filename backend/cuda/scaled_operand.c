/* Matches operands of 4-bit floats with scales of blocks of terms: MXFP4, with
 * f8_e8m0 scales, and NVFP4, with f8_e4m3 scales.  An element is the product of
 * a load of f4_e2m1 and a load of the scale, which is the same for all terms of
 * a block: for all values of the last reduction axis. */
#include "backend/cuda/gemm_pass.h"

enum { VECTOR_BYTES = 16 };

/* The load whose conversion op `at` is; or NULL. */
static const KernelOp *converted_load(const LoopNest *side, uint32_t at) {
  const KernelOp *s = &side->ops.at[at];
  if (s->kind != KOP_CONVERT)
    return NULL;
  s = &side->ops.at[s->args[0]];
  return s->kind == KOP_LOAD && !s->checked_index_count &&
                 !affine_has_floor_divs(s->address)
             ? s
             : NULL;
}

/* Terms with one scale, in instructions; 0: no scale of instructions. */
static uint32_t scale_block(Dtype scale) {
  return scale == DT_F8_E8M0 ? 32 : scale == DT_F8_E4M3 ? 16 : 0;
}

static bool match_operand(const GemmPass *t, const LoopNest *side,
                          ScaledOperand *to) {
  const KernelOp *s = &side->ops.at[side->outputs.at[0].value_op];
  uint32_t block = t->k[0], term = t->k[1];
  int64_t terms = side->extents[term];
  *to = (ScaledOperand){0};
  if (s->kind != KOP_MAP || s->op != PRIM_MUL)
    return false;
  for (uint32_t j = 0; j < 2; j++) {
    const KernelOp *read = converted_load(side, s->args[j]);
    if (!read)
      return false;
    *(read->dtype == DT_F4_E2M1 ? &to->element : &to->scale) = read;
  }
  uint32_t each = to->element && to->scale ? scale_block(to->scale->dtype) : 0;
  return each && extent_is_static(side->graph, terms) && terms % each == 0 &&
         to->element->address->coef[term] == 1 &&
         to->element->address->coef[block] == terms &&
         to->scale->address->coef[term] == 0 &&
         cuda_alignment_of(side, to->element->address, 1, term) == VECTOR_BYTES;
}

bool gemm_pass_find_scales(GemmPass *t) {
  if (t->k_count != 2 || !match_operand(t, t->a, &t->scaled_a) ||
      !match_operand(t, t->b, &t->scaled_b) ||
      t->scaled_a.scale->dtype != t->scaled_b.scale->dtype)
    return false;
  t->shape.scale_block = scale_block(t->scaled_a.scale->dtype);
  t->shape.a = t->shape.b = (GemmSide){
      .dtype = DT_F4_E2M1, .computed = true, .align_bytes = VECTOR_BYTES};
  return true;
}
