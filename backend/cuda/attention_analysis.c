/* Matches fused attention in kernels (kernel/match_attention.c), and derives
 * the parts of attention.h. */
#include "backend/cuda/attention_analysis.h"

#include "backend/cuda/schedule_text.h"
#include "plan/schedule_file.h"
#include "kernel/roofline.h"
#include "kernel/trim_no_ops.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#include <math.h>
#include <string.h>

/* ---- axes and operands ---- */

static uint64_t operand_depends(const ContractionPattern *p, uint32_t which) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < p->factor_count; j++)
    if (which >> j & 1)
      set |= p->op_vars[p->factors[j]];
  return set;
}

static const LoopNest *product_loop(const AttentionPass *t, const Kernel *k,
                                    uint32_t product) {
  return k->loops.at[t->pattern.products[product].loop];
}

/* The axes of the terms of a score product. */
static AxisList term_axes(const AttentionPass *t, uint32_t product) {
  return (AxisList){t->k_count[product], t->k[product]};
}

static bool classify_terms(AttentionPass *t, const Kernel *k,
                           uint32_t product) {
  const LoopNest *loop = product_loop(t, k, product);
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    t->k[product][t->k_count[product]++] = v;
  return t->k_count[product] <= GEMM_MAX_AXES;
}

/* Axes along which keys or values differ are batch axes.  The longest row axis
 * becomes m if it fills a tile; the other row axes are then batch axes, too.
 * All rows of a tile thus have the same values of these axes, and similar
 * trimmed bounds. */
static bool classify_axes(AttentionPass *t, const Kernel *k) {
  const AttentionPattern *b = &t->pattern;
  const LoopNest *first = k->loops.at[0], *second = k->loops.at[b->pv_loop];
  uint64_t shared = operand_depends(&b->pv, b->pv_column_factors);
  for (uint32_t j = 0; j < b->product_count; j++)
    shared |=
        operand_depends(&b->products[j].pattern, b->products[j].column_factors);
  uint32_t row_axis = NO_AXIS;
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    if (!(shared >> v & 1) &&
        (row_axis == NO_AXIS ||
         loop_extent_hint(first, v) >= loop_extent_hint(first, row_axis)))
      row_axis = v;
  if (row_axis == NO_AXIS)
    return false;
  bool fills_tile =
      loop_extent_hint(first, row_axis) >= ATTENTION_MIN_TILE_ROWS;
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    if (shared >> v & 1 || (fills_tile && v != row_axis))
      t->batch[t->batch_count++] = v;
    else
      t->m[t->m_count++] = v;
  for (uint32_t v = k->parallel_axes; v < second->spatial_axes; v++)
    t->e[t->e_count++] = v;
  for (uint32_t j = 0; j < b->product_count; j++)
    if (!classify_terms(t, k, j))
      return false;
  return t->batch_count <= GEMM_MAX_AXES && t->m_count <= GEMM_MAX_AXES &&
         t->e_count <= GEMM_MAX_AXES;
}

static void find_product_operands(AttentionPass *t, const Kernel *k,
                                  uint32_t product, uint32_t query,
                                  uint32_t key) {
  const ScoreProduct *p = &t->pattern.products[product];
  const LoopNest *loop = product_loop(t, k, product);
  uint32_t all = (1u << p->pattern.factor_count) - 1;
  t->side[query] = contraction_operand_loop(k->arena, loop, &p->pattern,
                                            all & ~p->column_factors, DT_F32);
  t->side[key] = contraction_operand_loop(k->arena, loop, &p->pattern,
                                          p->column_factors, DT_F32);
}

static bool is_f32_contraction(const LoopNest *loop) {
  return loop->ops.at[loop->outputs.at[0].value_op].dtype == DT_F32;
}

static bool find_operands(AttentionPass *t, const Kernel *k) {
  const AttentionPattern *b = &t->pattern;
  const LoopNest *second = k->loops.at[b->pv_loop];
  Dtype dtype = DT_NONE;
  find_product_operands(t, k, 0, ATTENTION_Q, ATTENTION_K);
  t->side[ATTENTION_V] = contraction_operand_loop(k->arena, second, &b->pv,
                                                  b->pv_column_factors, DT_F32);
  t->operand_count = ATTENTION_V + 1;
  if (b->product_count > 1) {
    find_product_operands(t, k, 1, ATTENTION_Q2, ATTENTION_K2);
    t->operand_count = ATTENTION_K2 + 1;
  }
  for (uint32_t j = 0; j < t->operand_count; j++) {
    const KernelOp *narrow = cuda_widened_half(t->side[j]);
    if (!narrow || (j && narrow->dtype != dtype))
      return false;
    dtype = narrow->dtype;
    t->load[j] = cuda_plain_load(t->side[j], dtype);
  }
  for (uint32_t j = 0; j < b->product_count; j++)
    if (!is_f32_contraction(product_loop(t, k, j)))
      return false;
  return b->weight_dtype == dtype && is_f32_contraction(second);
}

static GemmSide gemm_side(const AttentionPass *t, uint32_t which) {
  const LoopNest *loop = t->side[which];
  const KernelOp *read = t->load[which];
  GemmSide side = {.dtype = cuda_widened_half(loop)->dtype};
  AxisList axes = which == ATTENTION_V ? (AxisList){t->e_count, t->e}
                                       : term_axes(t, which >= ATTENTION_Q2);
  side.align_bytes = 2;
  side.computed =
      !read || !cuda_is_contiguous_group(loop, read->address, axes.count,
                                         axes.axes, &side.align_bytes, 2);
  return side;
}

static bool are_static_extents(const LoopNest *loop, uint32_t count,
                               const uint32_t *axes) {
  bool are = true;
  for (uint32_t j = 0; j < count; j++)
    are &= extent_is_static(loop->graph, loop->extents[axes[j]]);
  return are;
}

static double epilogue_bytes(const AttentionPass *t, const Kernel *k) {
  double bytes = 0;
  for (uint32_t j = t->pattern.pv_loop; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].global_index)
        bytes += dtype_info[loop->outputs.at[i].dtype].bytes;
    for (uint32_t i = 0; j > t->pattern.pv_loop && i < loop->ops.len; i++)
      if (loop->ops.at[i].kind == KOP_LOAD)
        bytes += dtype_info[loop->ops.at[i].dtype].bytes;
  }
  return bytes;
}

/* ---- scores and weights ---- */

/* A loop whose results are the given operations of `row`, with their
 * operands. */
static LoopNest *extract_ops(const Kernel *k, const LoopNest *row,
                             uint32_t count, const uint32_t *steps) {
  LoopNest *to = loop_clone_empty(k->arena, row);
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, row->ops.len);
  for (uint32_t j = 0; j < count; j++) {
    LoopOutput r = {.dtype = row->ops.at[steps[j]].dtype};
    r.value_op = loop_clone_op(k->arena, row, to, place, steps[j]);
    r.local_index = affine_new(k->arena, 0);
    VEC_PUSH(k->arena, to->outputs, r);
  }
  return to;
}

/* A loop that computes, per batch element, whether v - v is nonzero anywhere:
 * v has an infinity or NaN. */
static LoopNest *nonfinite_loop(const AttentionPass *t, const Kernel *k) {
  LoopNest *loop = loop_clone(k->arena, t->side[ATTENTION_V]);
  LoopOutput *r = &loop->outputs.at[0];
  uint64_t depends =
      operand_depends(&t->pattern.pv, t->pattern.pv_column_factors);
  Dtype type = loop->ops.at[r->value_op].dtype;
  KernelOp difference = {.kind = KOP_MAP,
                         .op = PRIM_SUB,
                         .dtype = type,
                         .arg_count = 2,
                         .args = {r->value_op, r->value_op},
                         .low = INT64_MIN,
                         .high = INT64_MAX};
  KernelOp zero = {.kind = KOP_CONST, .dtype = type, .value.dtype = type};
  KernelOp is = difference;
  VEC_PUSH(k->arena, loop->ops, difference);
  VEC_PUSH(k->arena, loop->ops, zero);
  is.op = PRIM_NE;
  is.dtype = DT_BOOL;
  is.args[0] = loop->ops.len - 2;
  is.args[1] = loop->ops.len - 1;
  VEC_PUSH(k->arena, loop->ops, is);
  loop->spatial_axes = loop->parallel_axes;
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    if (!(depends >> v & 1))
      loop->extents[v] = 1;
  *r = (LoopOutput){.reduce = PRIM_ANY, .dtype = DT_BOOL, .local_elements = 1};
  r->value_op = loop->ops.len - 1;
  r->local_index = affine_new(k->arena, 0);
  return loop;
}

/* ---- proof that trimmed bounds are valid ---- */

/* Facts about a value.  They assume that the row maximum is finite, and that
 * the row sum is finite and positive.  Otherwise the row is NaN, with trimmed
 * bounds or without. */
typedef enum ValueFact {
  FACT_UNKNOWN,
  FACT_NEG_INFINITY,
  FACT_ZERO,
  FACT_FINITE,
  FACT_POSITIVE,
  FACT_TRUE,
  FACT_FALSE
} ValueFact;

static ValueFact fact_of_const(const KernelOp *s) {
  if (!dtype_is_float(s->dtype) || scalar_is_param(s->value))
    return FACT_UNKNOWN;
  return s->value.f == -INFINITY ? FACT_NEG_INFINITY
         : s->value.f == 0       ? FACT_ZERO
         : !isfinite(s->value.f) ? FACT_UNKNOWN
         : s->value.f > 0        ? FACT_POSITIVE
                                 : FACT_FINITE;
}

static bool is_finite(ValueFact x) {
  return x == FACT_ZERO || x == FACT_FINITE || x == FACT_POSITIVE;
}

static ValueFact fact_of_op(PrimId op, ValueFact x, ValueFact y) {
  switch ((int)op) {
  case PRIM_ADD:
  case PRIM_SUB:
    return x == FACT_NEG_INFINITY && is_finite(y) ? FACT_NEG_INFINITY
                                                  : FACT_UNKNOWN;
  case PRIM_MUL:
    return x == FACT_NEG_INFINITY && y == FACT_POSITIVE ? FACT_NEG_INFINITY
           : x == FACT_ZERO && is_finite(y)             ? FACT_ZERO
                                                        : FACT_UNKNOWN;
  case PRIM_DIV:
    return y != FACT_POSITIVE                         ? FACT_UNKNOWN
           : x == FACT_NEG_INFINITY || x == FACT_ZERO ? x
                                                      : FACT_UNKNOWN;
  case PRIM_EXP:
    return x == FACT_NEG_INFINITY ? FACT_ZERO : FACT_UNKNOWN;
  case PRIM_NE:
    return x == FACT_ZERO && y == FACT_ZERO ? FACT_FALSE : FACT_UNKNOWN;
  case PRIM_GE:
    return is_finite(x) && y == FACT_NEG_INFINITY ? FACT_TRUE : FACT_UNKNOWN;
  case PRIM_NOT:
    return x == FACT_TRUE    ? FACT_FALSE
           : x == FACT_FALSE ? FACT_TRUE
                             : FACT_UNKNOWN;
  }
  return FACT_UNKNOWN;
}

static bool trim_is_proved(const Kernel *k) {
  const LoopNest *check = k->trim_check;
  ValueFact *facts = NEW_ARRAY(k->arena, ValueFact, check ? check->ops.len : 0);
  for (uint32_t j = 0; check && j < check->ops.len; j++) {
    const KernelOp *s = &check->ops.at[j];
    ValueFact x = s->arg_count ? facts[s->args[0]] : FACT_UNKNOWN;
    ValueFact y = s->arg_count > 1 ? facts[s->args[1]] : FACT_UNKNOWN;
    if (s->kind == KOP_CONST)
      facts[j] = fact_of_const(s);
    else if (s->kind == KOP_LOAD_LOCAL)
      facts[j] =
          k->loops.at[s->source_loop]->outputs.at[s->source_output].reduce ==
                  PRIM_MAX
              ? FACT_FINITE
              : FACT_POSITIVE;
    else if (s->kind == KOP_CONVERT && dtype_is_float(s->dtype))
      facts[j] = x == FACT_NEG_INFINITY || x == FACT_ZERO ? x : FACT_UNKNOWN;
    else if (s->kind == KOP_MAP)
      facts[j] = fact_of_op(s->op, x, y);
  }
  for (uint32_t j = 0; check && j < check->outputs.len; j++)
    if (facts[check->outputs.at[j].value_op] != FACT_FALSE)
      return false;
  return true;
}

/* ---- unmasked tiles ---- */

static uint32_t add_step(const Kernel *k, LoopNest *to, KernelOp s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(k->arena, to->ops, s);
  return to->ops.len - 1;
}

/* True for an f32 that is computed from constants. */
static bool is_number(const LoopNest *loop, uint32_t at) {
  const KernelOp *s = &loop->ops.at[at];
  bool is = s->kind == KOP_CONST || (s->kind == KOP_MAP && s->arg_count > 0);
  for (uint32_t a = 0; is && a < s->arg_count; a++)
    is = is_number(loop, s->args[a]);
  return is && s->dtype == DT_F32;
}

static bool is_f32_op(const KernelOp *s, PrimId op) {
  return s->kind == KOP_MAP && s->op == op && s->dtype == DT_F32;
}

static bool divides_by_number(const LoopNest *loop, const KernelOp *s) {
  return is_f32_op(s, PRIM_DIV) && loop->ops.at[s->args[1]].kind == KOP_CONST;
}

/* The number of the argument that is a number, if the other one is not; or
 * 2. */
static uint32_t number_argument(const LoopNest *loop, const KernelOp *s) {
  bool first = is_number(loop, s->args[0]),
       second = is_number(loop, s->args[1]);
  return first == second ? 2 : first ? 0 : 1;
}

static uint32_t add_number(const Kernel *k, LoopNest *to, double x) {
  return add_step(k, to,
                  (KernelOp){.kind = KOP_CONST,
                             .dtype = DT_F32,
                             .value = {.dtype = DT_F32, .f = x}});
}

static uint32_t add_op(const Kernel *k, LoopNest *to, PrimId op, uint32_t x,
                       uint32_t y, uint32_t z) {
  bool test = op == PRIM_LT || op == PRIM_GT;
  return add_step(k, to,
                  (KernelOp){.kind = KOP_MAP,
                             .dtype = test ? DT_BOOL : DT_F32,
                             .op = op,
                             .arg_count = op == PRIM_ABS      ? 1
                                          : op == PRIM_SELECT ? 3
                                                              : 2,
                             .args = {x, y, z}});
}

/* A power of 2 that scales c so that its reciprocal is neither subnormal nor
 * infinite. */
static uint32_t add_reciprocal_scale(const Kernel *k, LoopNest *to,
                                     uint32_t c) {
  uint32_t size = add_op(k, to, PRIM_ABS, c, 0, 0);
  uint32_t small = add_op(k, to, PRIM_LT, size, add_number(k, to, 1e-30), 0);
  uint32_t large = add_op(k, to, PRIM_GT, size, add_number(k, to, 1e30), 0);
  uint32_t down = add_number(k, to, 0x1p-90), one = add_number(k, to, 1);
  uint32_t less = add_op(k, to, PRIM_SELECT, large, down, one);
  return add_op(k, to, PRIM_SELECT, small, add_number(k, to, 0x1p90), less);
}

typedef struct ScoreRewrite {
  const Kernel *k;
  LoopNest *to;
  bool any_divisor;
  /* Numbers in `to` whose range the kernel checks when it starts. */
  uint32_t *checked, checked_count;
} ScoreRewrite;

/* x / c as x * (1 / c).  any_divisor: scales c first. */
static uint32_t rewrite_division(ScoreRewrite *r, uint32_t x, uint32_t c) {
  if (r->any_divisor) {
    uint32_t power = add_reciprocal_scale(r->k, r->to, c);
    x = add_op(r->k, r->to, PRIM_MUL, x, power, 0);
    c = add_op(r->k, r->to, PRIM_MUL, c, power, 0);
  } else
    r->checked[r->checked_count++] = c;
  uint32_t one = add_number(r->k, r->to, 1);
  uint32_t reciprocal = add_op(r->k, r->to, PRIM_DIV, one, c, 0);
  return add_op(r->k, r->to, PRIM_MUL, x, reciprocal, 0);
}

/* (x * a) * b as x * (a * b), if a and b are numbers. */
static uint32_t rewrite_product(ScoreRewrite *r, uint32_t at) {
  const KernelOp outer = r->to->ops.at[at];
  uint32_t b = number_argument(r->to, &outer);
  if (r->any_divisor || b == 2)
    return at;
  uint32_t x = outer.args[1 - b];
  while (r->to->ops.at[x].kind == KOP_CONVERT &&
         r->to->ops.at[x].dtype == DT_F32 &&
         r->to->ops.at[r->to->ops.at[x].args[0]].dtype == DT_F32)
    x = r->to->ops.at[x].args[0];
  const KernelOp inner = r->to->ops.at[x];
  uint32_t a = is_f32_op(&inner, PRIM_MUL) ? number_argument(r->to, &inner) : 2;
  if (a == 2)
    return at;
  uint32_t factor =
      add_op(r->k, r->to, PRIM_MUL, inner.args[a], outer.args[b], 0);
  r->checked[r->checked_count++] = factor;
  return add_op(r->k, r->to, PRIM_MUL, inner.args[1 - a], factor, 0);
}

/* For a score c tanh x: the tanh, and the number of c in `cap`; or NULL. */
static const KernelOp *find_cap(const LoopNest *score, uint32_t at,
                                uint32_t *cap) {
  const KernelOp *s = &score->ops.at[at];
  while (s->kind == KOP_CONVERT && s->dtype == DT_F32)
    s = &score->ops.at[s->args[0]];
  uint32_t c = is_f32_op(s, PRIM_MUL) ? number_argument(score, s) : 2;
  if (c == 2 || !is_f32_op(&score->ops.at[s->args[1 - c]], PRIM_TANH))
    return NULL;
  *cap = s->args[c];
  return &score->ops.at[s->args[1 - c]];
}

/* A score c tanh x, with the absolute error of ax_tanh_absolute if |c| < 1000:
 * that of the weight is then less than that of a 16-bit float.  The check of
 * ranges is |c| 1e27 < 1e30. */
static bool check_cap(ScoreRewrite *r, uint32_t at) {
  uint32_t cap;
  if (!find_cap(r->to, at, &cap))
    return false;
  r->checked[r->checked_count++] =
      add_op(r->k, r->to, PRIM_MUL, cap, add_number(r->k, r->to, 1e27), 0);
  return true;
}

/* Replaces x / c by x * (1 / c), and products with several numbers by one: a
 * division takes longer than the rest of the score.  The rounding error is
 * smaller than that of the dot product.  any_divisor: for any numbers.
 * Otherwise the kernel checks them when it starts (score_numbers). */
static LoopNest *rewrite_score(AttentionPass *t, const Kernel *k,
                               const LoopNest *from, bool any_divisor) {
  ScoreRewrite r = {.k = k,
                    .to = loop_clone_empty(k->arena, from),
                    .any_divisor = any_divisor,
                    .checked =
                        NEW_ARRAY(k->arena, uint32_t, 2 * from->ops.len + 1)};
  uint32_t *place = NEW_ARRAY(k->arena, uint32_t, from->ops.len);
  for (uint32_t j = 0; j < from->ops.len; j++) {
    const KernelOp *s = &from->ops.at[j];
    uint32_t at = loop_clone_op(k->arena, from, r.to, place, j);
    if (divides_by_number(from, s) && !is_number(from, j))
      at = rewrite_division(&r, r.to->ops.at[at].args[0],
                            r.to->ops.at[at].args[1]);
    if (is_f32_op(&r.to->ops.at[at], PRIM_MUL))
      at = rewrite_product(&r, at);
    place[j] = at + 1;
  }
  LoopOutput result = from->outputs.at[0];
  result.value_op = place[result.value_op] - 1;
  VEC_PUSH(k->arena, r.to->outputs, result);
  bool is_capped =
      !any_divisor && t->pattern.subtract_max && check_cap(&r, result.value_op);
  if (!any_divisor && r.checked_count)
    t->score_numbers = extract_ops(k, r.to, r.checked_count, r.checked);
  LoopNest *score = extract_ops(k, r.to, 1, &result.value_op);
  uint32_t cap;
  if (is_capped)
    t->capping_tanh = find_cap(score, score->outputs.at[0].value_op, &cap);
  return score;
}

/* Matches a score that is a constant factor times the dot product.  The factor
 * is then folded into the exponent of the weights. */
static void find_score_scale(AttentionPass *t, const Kernel *k) {
  const LoopNest *unmasked = t->unmasked_score;
  const KernelOp *s = &unmasked->ops.at[unmasked->outputs.at[0].value_op];
  if (!t->pattern.subtract_max)
    return;
  while (s->kind == KOP_CONVERT && s->dtype == DT_F32)
    s = &unmasked->ops.at[s->args[0]];
  if (s->kind != KOP_MAP || s->op != PRIM_MUL || s->dtype != DT_F32)
    return;
  const KernelOp *x = &unmasked->ops.at[s->args[0]];
  while (x->kind == KOP_CONVERT && x->dtype == DT_F32)
    x = &unmasked->ops.at[x->args[0]];
  if (is_number(unmasked, s->args[1]) && x->kind == KOP_LOAD_LOCAL &&
      x->source_loop == 0 && x->dtype == DT_F32)
    t->score_scale = extract_ops(k, unmasked, 1, &s->args[1]);
}

/* The score without masks. */
static void find_unmasked_score(AttentionPass *t, const Kernel *k) {
  LoopNest *unmasked = loop_clone(k->arena, t->score);
  if (t->trim_bounds) {
    unmasked->trimmed_axis = k->parallel_axes;
    unmasked->trim_bounds = t->trim_bounds;
    loop_drop_predicates(t->trimmed, unmasked);
    unmasked = extract_ops(k, unmasked, 1, &unmasked->outputs.at[0].value_op);
  }
  t->unmasked_score = rewrite_score(t, k, unmasked, false);
  find_score_scale(t, k);
}

/* Finds trimmed bounds that all loops up to the second matmul share. */
static void find_trim_bounds(AttentionPass *t, const Kernel *k) {
  Kernel *trimmed = NEW(k->arena, Kernel);
  *trimmed = *k;
  trimmed->loops = (typeof(trimmed->loops)){0};
  for (uint32_t j = 0; j < k->loops.len; j++)
    VEC_PUSH(k->arena, trimmed->loops, loop_clone(k->arena, k->loops.at[j]));
  kernel_trim(trimmed, TRIM_TILES);
  t->trim_bounds = UINT32_MAX;
  for (uint32_t j = 1; j <= t->pattern.pv_loop; j++) {
    const LoopNest *loop = trimmed->loops.at[j];
    uint32_t reduced_axis =
        j == t->pattern.pv_loop ? loop->spatial_axes : k->parallel_axes;
    t->trim_bounds &= loop->trim_bounds && loop->trimmed_axis == reduced_axis
                          ? loop->trim_bounds
                          : 0;
  }
  t->shape.visited_fraction = 1;
  if (!t->trim_bounds)
    return;
  t->shape.visited_fraction =
      trimmed->loops.at[t->pattern.pv_loop]->trip_fraction;
  t->trimmed = trimmed;
  for (uint32_t j = 0;
       trimmed->trim_check && j < trimmed->trim_check->outputs.len; j++)
    trimmed->trim_check->outputs.at[j].local_index = affine_new(k->arena, 0);
  t->bounds_proved = t->pattern.subtract_max && trim_is_proved(trimmed);
  t->finite_check = nonfinite_loop(t, k);
}

/* ---- tensor maps ---- */

/* Trimmed bounds that may be invalid need an mma kernel. */
static void find_tensor_maps(AttentionPass *t, const Kernel *k) {
  const uint32_t n = k->parallel_axes,
                 last = k->loops.at[t->pattern.pv_loop]->spatial_axes;
  GemmSide *sides[] = {&t->shape.query, &t->shape.key, &t->shape.value};
  const AxisList batch = {t->batch_count, t->batch}, terms = term_axes(t, 0);
  const AxisList axes[][3] = {
      {terms, {t->m_count, t->m}, batch},
      {terms, {1, &n}, batch},
      {{t->e_count, t->e}, {1, &last}, batch},
  };
  if (t->pattern.product_count > 1) /* only mma kernels have two products */
    return;
  cuda_attention_stores(t, k);
  for (uint32_t j = 0; j <= ATTENTION_V; j++)
    sides[j]->tma_copyable =
        (!t->trimmed || t->bounds_proved) && !sides[j]->computed &&
        tensor_map_of_load(t->side[j], t->load[j], axes[j], &t->tensor_map[j]);
}

bool attention_output_map(const AttentionPass *t, const LoopNest *loop,
                          const LoopOutput *r, TensorMap *to) {
  const AxisList axes[] = {
      {t->e_count, t->e}, {t->m_count, t->m}, {t->batch_count, t->batch}};
  return tensor_map_of_output(loop, r, axes, to);
}

/* ---- pass ---- */

/* True if a conversion to float needs 64-bit registers (emit_convert).  A
 * 32-bit index does not, except for conversion to a 16-bit float
 * (rounds_twice). */
static bool converts_through_64_bits(const LoopNest *loop, const KernelOp *s) {
  if (s->kind != KOP_CONVERT || !dtype_is_float(s->dtype))
    return false;
  const KernelOp *from = &loop->ops.at[s->args[0]];
  uint32_t bytes = dtype_info[s->dtype].bytes;
  if (bytes == 2 && (from->dtype == DT_I32 || from->dtype == DT_I64))
    return true;
  return bytes == 8 ||
         (dtype_info[from->dtype].bytes == 8 && from->kind != KOP_AFFINE);
}

static bool fill_shape(AttentionPass *t, const Kernel *k) {
  const LoopNest *first = k->loops.at[0],
                 *second = k->loops.at[t->pattern.pv_loop];
  AttentionShape *s = &t->shape;
  double terms = loop_axes_hint(first, t->k_count[0], t->k[0]);
  double columns = loop_axes_hint(second, t->e_count, t->e);
  s->query = gemm_side(t, ATTENTION_Q);
  s->key = gemm_side(t, ATTENTION_K);
  s->value = gemm_side(t, ATTENTION_V);
  s->m = loop_axes_hint(first, t->m_count, t->m);
  s->n = (double)loop_extent_hint(first, k->parallel_axes);
  s->batch = loop_axes_hint(first, t->batch_count, t->batch);
  s->subtract_max = t->pattern.subtract_max;
  s->needs_row_sum = t->pattern.needs_row_sum;
  s->may_retry = t->trimmed && t->trimmed->trim_check && !t->bounds_proved;
  s->may_count = t->trimmed && t->bounds_proved && !k->graph->extent_table;
  s->epilogue_bytes = epilogue_bytes(t, k);
  for (uint32_t j = 0; j < t->score->ops.len; j++) {
    const KernelOp *step = &t->score->ops.at[j];
    s->score_loads += step->kind == KOP_LOAD;
    s->score_converts_64_bits |= converts_through_64_bits(t->score, step);
    s->score_ops += step->kind == KOP_MAP ? map_info[step->op].cost : 1;
  }
  s->store_align_bytes = cuda_store_alignment(k, t->e[t->e_count - 1]);
  s->head_dim = (uint32_t)(terms < UINT16_MAX ? terms : UINT16_MAX);
  s->value_dim = (uint32_t)(columns < UINT16_MAX ? columns : UINT16_MAX);
  for (uint32_t j = 0; j < t->pattern.product_count; j++)
    if (!are_static_extents(product_loop(t, k, j), t->k_count[j], t->k[j]))
      return false;
  if (t->pattern.product_count > 1) {
    double second_terms =
        loop_axes_hint(product_loop(t, k, 1), t->k_count[1], t->k[1]);
    s->query2 = gemm_side(t, ATTENTION_Q2);
    s->key2 = gemm_side(t, ATTENTION_K2);
    s->head_dim2 =
        (uint32_t)(second_terms < UINT16_MAX ? second_terms : UINT16_MAX);
  }
  return are_static_extents(second, t->e_count, t->e) && s->m < INT32_MAX &&
         s->n < INT32_MAX && s->batch < INT32_MAX;
}

/* True if the fused kernel is predicted to be at least as fast as two matmuls
 * with the scores in memory. */
static bool is_faster_fused(const AttentionPass *t, const GpuSpec *gpu,
                            double seconds) {
  const AttentionShape *s = &t->shape;
  GemmShape first = {.a = s->query,
                     .b = s->key,
                     .accumulator_dtype = DT_F32,
                     .m = s->m,
                     .n = s->n,
                     .k = s->head_dim,
                     .batch = s->batch,
                     .epilogue_bytes =
                         dtype_info[t->pattern.weight_dtype].bytes,
                     .store_align_bytes = 16};
  GemmShape second = first;
  GemmSchedule unused;
  double x, y, rows = s->m * s->n * s->batch;
  double scores =
      rows * s->score_ops / (gpu->f32_fma_rate * gpu->sms * gpu->clock_hz);
  second.b = s->value;
  second.b.mn_major = true;
  second.n = s->value_dim;
  second.k = s->n;
  bool materializes_scores = s->subtract_max || s->needs_row_sum;
  double moved = (materializes_scores ? 3 : 0) *
                 dtype_info[t->pattern.weight_dtype].bytes * rows /
                 gpu->dram_bandwidth;
  if (!gemm_choose(&first, gpu, &unused, &x) ||
      !gemm_choose(&second, gpu, &unused, &y))
    return true;
  return seconds + (t->trimmed ? LAUNCH_OVERHEAD_SECONDS : 0) <=
         x + y + scores + moved +
             (materializes_scores ? 3 : 1) * LAUNCH_OVERHEAD_SECONDS;
}

/* True if the kernel can store the row statistics: at affine addresses. */
static bool can_store_statistics(const AttentionPass *t, const Kernel *k) {
  for (uint32_t j = 0; j < t->pattern.pv_loop; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const AffineExpr *at = k->loops.at[j]->outputs.at[i].global_index;
      if (at && affine_has_floor_divs(at))
        return false;
    }
  return true;
}

/* See apply_fields of gemm_match.c. */
static const char *apply_fields(AttentionPass *t, Arena *arena,
                                const GpuSpec *gpu, const char *fields) {
  Buffer why = {.arena = arena};
  ScheduleEntry *rule =
      fields ? NULL
             : schedule_file_find_rule(SCHEDULE_ATTENTION, t->arch,
                                       t->shape.query.dtype, t->shape.m,
                                       t->shape.n, t->shape.head_dim);
  fields = rule ? rule_fields(rule, arena) : fields;
  bool good =
      !fields || attention_override(&t->shape, gpu, fields, &t->s, &why);
  schedule_entry_report(rule, good ? NULL : why.text);
  return good ? NULL : why.text;
}

/* Without a pass before the kernel, the blocks of a batch must read all values
 * between them, and have counters. */
static void choose_finite_check(AttentionPass *t, const Kernel *k,
                                const CudaTarget *target) {
  AttentionCoverage coverage = attention_coverage(t, k);
  double counters = ATTENTION_COUNTERS *
                    loop_axes_hint(k->loops.at[0], t->batch_count, t->batch);
  t->checks_sums = coverage == COVERAGE_TOGETHER &&
                   t->s.mma_kind == MMA_KIND_WGMMA && target->has_tensor_maps &&
                   counters <= CUDA_COUNTER_COUNT;
  if (t->checks_sums || coverage == COVERAGE_EACH_BLOCK)
    t->finite_check = NULL;
}

AttentionPass *attention_pass_match(const Kernel *k, const CudaTarget *target,
                                    const char *fields) {
  AttentionPass *t = NEW(k->arena, AttentionPass);
  GpuSpec gpu;
  if (!target->arch || !gpu_spec(target->arch, &gpu) ||
      k->loops.len >= MAX_KERNEL_LOOPS ||
      !kernel_match_attention(k, &t->pattern) || !can_store_statistics(t, k) ||
      !classify_axes(t, k) || !find_operands(t, k))
    return NULL;
  gpu.sms = (uint32_t)target->sm_count;
  gpu.block_shared_bytes = target->optin_shared_bytes;
  t->arch = target->arch;
  t->gpu = gpu;
  t->score = extract_ops(k, t->pattern.row_loop, 1, &t->pattern.score);
  t->weight_factors =
      extract_ops(k, t->pattern.row_loop, t->pattern.row_factor_count,
                  t->pattern.row_factors);
  find_trim_bounds(t, k);
  find_unmasked_score(t, k);
  bool fits = fill_shape(t, k);
  t->score = rewrite_score(t, k, t->score, true);
  if (target->has_tensor_maps)
    find_tensor_maps(t, k);
  if (!fits || !attention_choose(&t->shape, &gpu, &t->s, &t->seconds) ||
      (!k->recomputes && !is_faster_fused(t, &gpu, t->seconds)))
    return NULL;
  t->refusal = apply_fields(t, k->arena, &gpu, fields);
  if (t->trimmed)
    choose_finite_check(t, k, target);
  return t;
}

void attention_pass_print(Buffer *out, const AttentionPass *t) {
  buffer_printf(out, "fused attention, tile for %s: ", t->arch);
  gemm_schedule_print(out, &t->s);
  if (t->refusal)
    buffer_printf(out, " (not used: %s)", t->refusal);
}
