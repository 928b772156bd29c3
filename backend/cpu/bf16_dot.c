/* Matmuls of bf16 with dot products of pairs: one instruction multiplies two
 * pairs of terms and adds both products to an f32 accumulator.
 *
 * An operand's terms become 32-bit pairs, so that packing and tiles are those
 * of 32-bit elements.  If the number of terms is odd or symbolic, the last pair
 * contains a zero.  The instruction flushes subnormal operands and results to
 * zero. */
#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/cpu.h"
#include "support/arena.h"

#include <string.h>

static bool cpu_has_bf16_dot(void) {
#if defined(__x86_64__) || defined(__i386__)
  return cpu_vector_bytes() == 64 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

/* The bf16 value that an operand widens; NULL: it is computed in f32. */
static const KernelOp *bf16_source(const LoopNest *loop) {
  const KernelOp *s = &loop->ops.at[loop->outputs.at[0].value_op];
  if (s->kind != KOP_CONVERT || s->dtype != DT_F32)
    return NULL;
  const KernelOp *source = &loop->ops.at[s->args[0]];
  return source->dtype == DT_BF16 ? source : NULL;
}

/* Returns true if the number of terms is even in all calls. */
static bool is_known_even(const LoopNest *loop, int64_t terms) {
  return extent_is_static(loop->graph, terms) && terms % 2 == 0;
}

/* Returns true if the last axis can be divided into pairs. */
static bool operand_can_pair(const LoopNest *loop) {
  uint32_t k = loop->axis_count - 1;
  if (!bf16_source(loop))
    return false;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[k])
      return false;
  return is_known_even(loop, loop->extents[k]) ||
         (loop->axis_count == loop->spatial_axes + 1 &&
          loop->floor_div_count < MAX_FLOOR_DIVS);
}

bool bf16_dot_applies(const Schedule *s, const GemmTiling *t) {
  const LoopNest *a = t->a.loop, *b = t->b.loop;
  bool single = a->axis_count == a->spatial_axes + 1 &&
                b->axis_count == b->spatial_axes + 1;
  return cpu_has_bf16_dot() && s->width * 4 == cpu_vector_bytes() &&
         t->accumulator_dtype == DT_F32 && operand_can_pair(a) &&
         operand_can_pair(b) && (single || is_known_even(a, t->depth));
}

/* ---- both elements of a pair ---- */

/* Replaces k by 2 * k + second.  If the number of terms is odd, the second
 * element of the last pair is read at the address of the first.  The quotient
 * is 1 there.  On overflow, the coefficient is INT64_MAX, which is not
 * emitted. */
static void double_term_axis(Graph *g, AffineExpr *q, uint32_t k, bool second,
                             uint32_t quotient) {
  int64_t coef = q->coef[k];
  if (!extent_mul(g, coef, 2, &q->coef[k]))
    q->coef[k] = INT64_MAX;
  if (!second)
    return;
  if (!extent_add(g, q->constant, coef, &q->constant) ||
      (quotient && !extent_mul(g, coef, -1, &q->coef[quotient])))
    q->constant = INT64_MAX;
}

static uint32_t take_pair_half(Arena *arena, const LoopNest *from, LoopNest *to,
                               bool second, uint32_t quotient) {
  uint32_t *place = NEW_ARRAY(arena, uint32_t, from->ops.len);
  uint32_t first = to->ops.len, k = from->axis_count - 1;
  uint32_t value =
      loop_clone_op(arena, from, to, place, from->outputs.at[0].value_op);
  for (uint32_t j = first; j < to->ops.len; j++) {
    KernelOp *s = &to->ops.at[j];
    if (s->kind == KOP_AFFINE)
      double_term_axis(from->graph, s->affine, k, second, quotient);
    else if (s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL)
      double_term_axis(from->graph, s->address, k, second, quotient);
  }
  return value;
}

static uint32_t add_op(Arena *arena, LoopNest *to, KernelOp s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, to->ops, s);
  return to->ops.len - 1;
}

/* The operation's value, or 0 if the term does not exist. */
static uint32_t select_in_range(Arena *arena, LoopNest *to, uint32_t k,
                                int64_t terms, uint32_t op_index) {
  AffineExpr *second = affine_new(arena, 1);
  second->coef[k] = 2;
  KernelOp index = {.kind = KOP_AFFINE, .dtype = DT_I64, .affine = second};
  KernelOp end = {.kind = KOP_AFFINE, .dtype = DT_I64};
  end.affine = affine_new(arena, terms);
  KernelOp zero = {.kind = KOP_CONST, .dtype = DT_F32};
  zero.value = (Scalar){.dtype = DT_F32};
  KernelOp in_range = {
      .kind = KOP_MAP, .op = PRIM_LT, .dtype = DT_BOOL, .arg_count = 2};
  in_range.args[0] = add_op(arena, to, index);
  in_range.args[1] = add_op(arena, to, end);
  KernelOp chosen = {.kind = KOP_SELECT, .dtype = DT_F32, .arg_count = 3};
  chosen.args[0] = add_op(arena, to, in_range);
  chosen.args[1] = op_index;
  chosen.args[2] = add_op(arena, to, zero);
  return add_op(arena, to, chosen);
}

/* The variable that is 1 for the last pair and 0 for all others. */
static uint32_t last_pair_floor_div(LoopNest *to, uint32_t k, int64_t terms) {
  FloorDiv *q = &to->floor_divs[to->floor_div_count];
  *q = (FloorDiv){.dividend = {.constant = 1}, .divisor = terms, .high = 1};
  q->dividend.coef[k] = 2;
  return MAX_KERNEL_AXES + to->floor_div_count++;
}

/* Loads pairs that are contiguous in memory as 32-bit elements. */
static uint32_t contiguous_pairs(Arena *arena, LoopNest *to,
                                 const KernelOp *source, uint32_t k,
                                 int64_t terms) {
  KernelOp s = *source;
  s.dtype = DT_I32;
  s.packed_pairs = true;
  s.packed_elements = is_known_even(to, terms) ? 0 : terms;
  s.address = affine_copy(arena, source->address);
  s.address->coef[k] = 2;
  return add_op(arena, to, s);
}

static uint32_t packed_pairs(Arena *arena, const LoopNest *loop, LoopNest *to,
                             uint32_t k, int64_t terms) {
  uint32_t q = is_known_even(to, terms) ? 0 : last_pair_floor_div(to, k, terms);
  KernelOp s = {.kind = KOP_PACK_BF16X2, .dtype = DT_I32, .arg_count = 2};
  s.args[0] = take_pair_half(arena, loop, to, false, q);
  s.args[1] = take_pair_half(arena, loop, to, true, q);
  if (q)
    s.args[1] = select_in_range(arena, to, k, terms, s.args[1]);
  return add_op(arena, to, s);
}

LoopNest *bf16_dot_operand(Arena *arena, const LoopNest *loop,
                           bool vectors_along_terms) {
  uint32_t k = loop->axis_count - 1;
  int64_t terms = loop->extents[k];
  const KernelOp *source = bf16_source(loop);
  LoopNest *to = NEW(arena, LoopNest);
  *to = *loop;
  memset(&to->ops, 0, sizeof to->ops);
  memset(&to->outputs, 0, sizeof to->outputs);
  if (!extent_ceil_div(to->graph, terms, 2, &to->extents[k]))
    to->extents[k] = INT64_MAX;
  bool is_in_memory =
      (source->kind == KOP_LOAD && !source->checked_index_count) ||
      source->kind == KOP_LOAD_LOCAL;
  LoopOutput r = {.dtype = DT_I32};
  r.value_op =
      vectors_along_terms && is_in_memory && source->address->coef[k] == 1
          ? contiguous_pairs(arena, to, source, k, terms)
          : packed_pairs(arena, loop, to, k, terms);
  VEC_PUSH(arena, to->outputs, r);
  return to;
}
