/* Matches contractions: sums of products of two operands, where each operand
 * lacks a result axis that the other one has.  Examples are matmuls, einsums
 * and convolutions.  Also moves factors that do not depend on the reduced axes
 * out of the sum. */
#include "kernel/kernel.h"

#include "machine/limits/planner.h"
#include "support/arena.h"
#include "tensor/scalar_ops.h"

#include <string.h>

static uint64_t affine_axes(const LoopNest *loop, const AffineExpr *q) {
  uint64_t vars = 0;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    if (!q->coef[v])
      continue;
    if (v < MAX_KERNEL_AXES)
      vars |= (uint64_t)1 << v;
    else
      vars |=
          affine_axes(loop, &loop->floor_divs[v - MAX_KERNEL_AXES].dividend);
  }
  return vars;
}

static uint64_t compute_op_vars(const LoopNest *loop, const KernelOp *s,
                                const uint64_t *op_vars) {
  uint64_t vars = 0;
  if (s->kind == KOP_AFFINE)
    vars = affine_axes(loop, s->affine);
  if (s->kind == KOP_LOAD_LOCAL) /* depends on all parallel axes */
    vars = affine_axes(loop, s->address) |
           (((uint64_t)1 << loop->parallel_axes) - 1);
  if (s->kind == KOP_LOAD) {
    vars = affine_axes(loop, s->address);
    for (uint32_t a = 0; a < s->checked_index_count; a++)
      vars |= op_vars[s->checked_indices[a].index_op];
  }
  for (uint32_t a = 0; a < s->arg_count; a++)
    vars |= op_vars[s->args[a]];
  return vars;
}

uint64_t *loop_op_vars(Arena *arena, const LoopNest *loop) {
  uint64_t *op_vars = NEW_ARRAY(arena, uint64_t, loop->ops.len);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    op_vars[j] = compute_op_vars(loop, &loop->ops.at[j], op_vars);
  return op_vars;
}

const KernelOp *loop_index_affine(const LoopNest *loop, uint32_t index_op,
                                  uint32_t *rest) {
  const KernelOp *s = &loop->ops.at[index_op];
  *rest = NO_OP;
  if (s->kind == KOP_AFFINE)
    return s;
  for (uint32_t j = 0; s->kind == KOP_MAP && s->op == PRIM_ADD && j < 2; j++)
    if (loop->ops.at[s->args[j]].kind == KOP_AFFINE) {
      *rest = s->args[1 - j];
      return &loop->ops.at[s->args[j]];
    }
  return NULL;
}

bool loop_load_is_contiguous(const LoopNest *loop, const uint64_t *op_vars,
                             const KernelOp *s, uint32_t v) {
  uint64_t others = 0;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (s->address->coef[MAX_KERNEL_AXES + j])
      others |= affine_axes(loop, &loop->floor_divs[j].dividend);
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    others |= op_vars[s->checked_indices[j].index_op];
  return s->address->coef[v] == 1 && !(others >> v & 1);
}

/* ---- factors ---- */

static uint64_t axes_before(uint32_t v) {
  return ((uint64_t)1 << v) - 1;
}

static uint64_t reduced_axes(const LoopNest *loop) {
  uint32_t outer = loop->parallel_axes;
  return (axes_before(loop->axis_count) & ~axes_before(loop->spatial_axes)) |
         (axes_before(outer) & ~axes_before(outer - loop->accumulated_axes));
}

/* The spatial axes that are not parallel. */
static uint64_t inner_axes(const LoopNest *loop) {
  return axes_before(loop->spatial_axes) & ~axes_before(loop->parallel_axes);
}

static bool add_factor(ContractionPattern *p, uint32_t step, bool is_divisor) {
  if (p->factor_count == MAX_FACTORS)
    return false;
  p->factor_divides[p->factor_count] = is_divisor;
  p->factors[p->factor_count++] = step;
  return true;
}

static bool add_hoisted(const LoopNest *loop, ContractionPattern *p,
                        uint32_t step, bool is_divisor) {
  if (loop->accumulated_axes)
    return add_factor(p, step, is_divisor);
  if (p->hoisted_count == MAX_FACTORS)
    return false;
  p->hoisted_divides[p->hoisted_count] = is_divisor;
  p->hoisted[p->hoisted_count++] = step;
  return true;
}

/* Collects the factors of op `at`.  The planner limits the depth of the
 * recursion: it is the depth of a body. */
static bool collect_factors(const LoopNest *loop, ContractionPattern *p,
                            uint32_t at) {
  const KernelOp *s = &loop->ops.at[at];
  uint64_t reduced = reduced_axes(loop);
  if (!(p->op_vars[at] & reduced))
    return add_hoisted(loop, p, at, false);
  if (s->kind == KOP_MAP && s->op == PRIM_MUL)
    return collect_factors(loop, p, s->args[0]) &&
           collect_factors(loop, p, s->args[1]);
  if (s->kind == KOP_MAP && s->op == PRIM_DIV && dtype_is_float(s->dtype) &&
      (!(p->op_vars[s->args[1]] & reduced) ||
       (loop->accumulated_axes &&
        !(p->op_vars[s->args[1]] & inner_axes(loop)))))
    return collect_factors(loop, p, s->args[0]) &&
           add_hoisted(loop, p, s->args[1], true);
  return add_factor(p, at, false);
}

/* In a loop that accumulates, a factor of the terms or of the result multiplies
 * the operand with axis n. */
static bool is_on_side_of(const LoopNest *loop, const ContractionPattern *p,
                          uint32_t factor, uint32_t n) {
  uint64_t vars = p->op_vars[p->factors[factor]];
  return (vars >> n & 1) ||
         (loop->accumulated_axes && !(vars & inner_axes(loop)));
}

uint64_t contraction_row_axes(const LoopNest *loop, const ContractionPattern *p,
                              uint32_t n, uint32_t *n_factors) {
  uint64_t a = 0, b = 0, spatial = ((uint64_t)1 << loop->spatial_axes) - 1;
  *n_factors = 0;
  for (uint32_t j = 0; j < p->factor_count; j++) {
    bool has = is_on_side_of(loop, p, j, n);
    *n_factors |= (uint32_t)has << j;
    *(has ? &b : &a) |= p->op_vars[p->factors[j]];
  }
  return a & ~b & spatial & ~((uint64_t)1 << n) & ~reduced_axes(loop);
}

uint32_t loop_largest_axis(const LoopNest *loop, uint64_t axes) {
  uint32_t m = UINT32_MAX;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if ((axes >> v & 1) && (m == UINT32_MAX || loop_extent_hint(loop, v) >
                                                   loop_extent_hint(loop, m)))
      m = v;
  return m;
}

bool contraction_operand_sides(const LoopNest *loop,
                               const ContractionPattern *p, uint32_t n,
                               uint32_t *m, uint32_t *n_factors) {
  *m = loop_largest_axis(loop, contraction_row_axes(loop, p, n, n_factors));
  return *m != UINT32_MAX;
}

/* True if all factors that depend on axis v are contiguous along it. */
static bool is_contiguous_along(const LoopNest *loop,
                                const ContractionPattern *p, uint32_t v) {
  for (uint32_t j = 0; j < p->factor_count; j++) {
    const KernelOp *s = &loop->ops.at[p->factors[j]];
    if ((p->op_vars[p->factors[j]] >> v & 1) &&
        (s->kind != KOP_LOAD ||
         !loop_load_is_contiguous(loop, p->op_vars, s, v)))
      return false;
  }
  return true;
}

static bool is_profitable(const LoopNest *loop, const ContractionPattern *p,
                          uint32_t m, uint32_t n) {
  double depth =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count) *
      loop_iterations_hint(loop, loop->parallel_axes - loop->accumulated_axes,
                           loop->parallel_axes);
  double x = loop_iterations_hint(loop, m, m + 1),
         y = loop_iterations_hint(loop, n, n + 1);
  double min = x < y ? x : y, most = x < y ? y : x;
  bool contiguous = most * depth >= MIN_CONTIGUOUS_SIDE_ELEMENTS &&
                    is_contiguous_along(loop, p, x < y ? n : m);
  return min >= (contiguous ? MIN_CONTIGUOUS_M : MIN_CONTRACTION_M) &&
         most >= MIN_CONTRACTION_N && depth >= MIN_CONTRACTION_K &&
         x * y * depth >= MIN_CONTRACTION_WORK;
}

static bool is_accumulator_dtype(Dtype t) {
  return t == DT_F32 || t == DT_F64;
}

/* any_size: also matches contractions for which packing does not pay. */
static bool match(Arena *arena, const LoopNest *loop, ContractionPattern *p,
                  bool any_size) {
  memset(p, 0, sizeof *p);
  if (loop->outputs.len != 1 || !reduced_axes(loop) || loop->spatial_axes < 2)
    return false;
  const LoopOutput *r = &loop->outputs.at[0];
  Dtype t = loop->ops.at[r->value_op].dtype;
  if (r->reduce != PRIM_SUM || !is_accumulator_dtype(t))
    return false;
  p->op_vars = loop_op_vars(arena, loop);
  if (!collect_factors(loop, p, r->value_op) || p->factor_count < 2)
    return false;
  for (uint32_t n = 0; n < loop->spatial_axes; n++) {
    uint32_t m, n_factors;
    if (!(reduced_axes(loop) >> n & 1) &&
        contraction_operand_sides(loop, p, n, &m, &n_factors) && n_factors &&
        (any_size || is_profitable(loop, p, m, n)))
      return true;
  }
  return false;
}

bool contraction_match(Arena *arena, const LoopNest *loop,
                       ContractionPattern *p) {
  return match(arena, loop, p, false);
}

bool contraction_match_any_size(Arena *arena, const LoopNest *loop,
                                ContractionPattern *p) {
  return match(arena, loop, p, true);
}

bool loop_is_contraction(const LoopNest *loop) {
  if (loop->outputs.len != 1 || loop->outputs.at[0].reduce != PRIM_SUM)
    return false;
  Arena *arena = arena_new();
  ContractionPattern p;
  bool is = contraction_match(arena, loop, &p);
  arena_free(arena);
  return is;
}

bool contraction_is_bf16(const LoopNest *loop) {
  Arena *arena = arena_new();
  ContractionPattern p;
  bool are = contraction_match(arena, loop, &p);
  for (uint32_t j = 0; are && j < p.factor_count; j++) {
    const KernelOp *s = &loop->ops.at[p.factors[j]];
    are = s->kind == KOP_CONVERT && loop->ops.at[s->args[0]].dtype == DT_BF16;
  }
  arena_free(arena);
  return are;
}

/* ---- hoisting factors ---- */

uint32_t loop_clone_op(Arena *arena, const LoopNest *from, LoopNest *to,
                       uint32_t *op_map, uint32_t at) {
  if (op_map[at])
    return op_map[at] - 1;
  KernelOp s = from->ops.at[at];
  for (uint32_t a = 0; a < s.arg_count; a++)
    s.args[a] = loop_clone_op(arena, from, to, op_map, s.args[a]);
  if (s.kind == KOP_AFFINE)
    s.affine = affine_copy(arena, s.affine);
  if (s.kind == KOP_LOAD || s.kind == KOP_LOAD_LOCAL)
    s.address = affine_copy(arena, s.address);
  if (s.kind == KOP_LOAD && s.checked_index_count) {
    CheckedIndex *indices =
        NEW_ARRAY(arena, CheckedIndex, s.checked_index_count);
    for (uint32_t a = 0; a < s.checked_index_count; a++) {
      indices[a] = s.checked_indices[a];
      indices[a].index_op =
          loop_clone_op(arena, from, to, op_map, s.checked_indices[a].index_op);
    }
    s.checked_indices = indices;
  }
  VEC_PUSH(arena, to->ops, s);
  op_map[at] = to->ops.len;
  return to->ops.len - 1;
}

static uint32_t append_binary_op(Arena *arena, LoopNest *loop, PrimId op,
                                 Dtype t, uint32_t x, uint32_t y) {
  KernelOp s = {.kind = KOP_MAP, .op = op, .dtype = t, .arg_count = 2};
  s.args[0] = x;
  s.args[1] = y;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(arena, loop->ops, s);
  return loop->ops.len - 1;
}

LoopNest *contraction_operand_loop(Arena *arena, const LoopNest *loop,
                                   const ContractionPattern *p,
                                   uint32_t factor_set, Dtype t) {
  LoopNest *to = loop_clone_empty(arena, loop);
  uint32_t *op_map = NEW_ARRAY(arena, uint32_t, loop->ops.len);
  uint32_t value = UINT32_MAX;
  for (uint32_t divides = 0; divides < 2; divides++)
    for (uint32_t j = 0; j < p->factor_count; j++) {
      if (!(factor_set >> j & 1) || p->factor_divides[j] != divides)
        continue;
      uint32_t factor = loop_clone_op(arena, loop, to, op_map, p->factors[j]);
      value = value == UINT32_MAX
                  ? factor
                  : append_binary_op(arena, to, divides ? PRIM_DIV : PRIM_MUL,
                                     t, value, factor);
    }
  LoopOutput r = {.dtype = t, .value_op = value};
  VEC_PUSH(arena, to->outputs, r);
  return to;
}

/* A loop that computes only the sum, as local values. */
static LoopNest *sum_only_loop(Arena *arena, const LoopNest *loop,
                               const ContractionPattern *p,
                               const LoopOutput *r) {
  LoopNest *to = loop_clone_empty(arena, loop);
  uint32_t *op_map = NEW_ARRAY(arena, uint32_t, loop->ops.len);
  Dtype t = loop->ops.at[r->value_op].dtype;
  uint32_t product = loop_clone_op(arena, loop, to, op_map, p->factors[0]);
  for (uint32_t j = 1; j < p->factor_count; j++)
    product =
        append_binary_op(arena, to, PRIM_MUL, t, product,
                         loop_clone_op(arena, loop, to, op_map, p->factors[j]));
  LoopOutput sum = *r;
  sum.value_op = product;
  sum.global_index = NULL;
  sum.dtype = t;
  sum.local_elements = 1;
  sum.local_index = affine_new(arena, 0);
  for (uint32_t v = loop->spatial_axes; v-- > loop->parallel_axes;) {
    sum.local_index->coef[v] = sum.local_elements;
    if (!extent_mul(loop->graph, sum.local_elements, loop->extents[v],
                    &sum.local_elements))
      sum.local_elements = INT64_MAX;
  }
  VEC_PUSH(arena, to->outputs, sum);
  return to;
}

/* True for a sum of products with divisors that do not depend on the reduced
 * axes.  It need not match as a contraction: one division of the sum is less
 * work than one per term. */
static bool has_divided_terms(Arena *arena, const LoopNest *loop,
                              ContractionPattern *p) {
  memset(p, 0, sizeof *p);
  if (loop->outputs.len != 1 || loop->axis_count == loop->spatial_axes ||
      loop->outputs.at[0].reduce != PRIM_SUM ||
      !is_accumulator_dtype(loop->ops.at[loop->outputs.at[0].value_op].dtype))
    return false;
  p->op_vars = loop_op_vars(arena, loop);
  if (!collect_factors(loop, p, loop->outputs.at[0].value_op) ||
      p->factor_count < 2)
    return false;
  for (uint32_t j = 0; j < p->hoisted_count; j++)
    if (p->hoisted_divides[j])
      return true;
  return false;
}

/* Selects op `value` if the sum has terms, and otherwise the sum, which is 0.
 * An empty sum must not be divided by 0 or multiplied by infinity. */
static uint32_t select_if_nonempty(Arena *arena, const LoopNest *loop,
                                   LoopNest *rest, uint32_t value) {
  int64_t terms;
  if (!extent_product(loop->graph, loop->axis_count - loop->spatial_axes,
                      loop->extents + loop->spatial_axes, &terms) ||
      extent_proved(loop->graph, EXTENT_LE, 1, terms))
    return value;
  KernelOp count = {.kind = KOP_AFFINE, .dtype = DT_I64};
  KernelOp none = {.kind = KOP_CONST, .dtype = DT_I64};
  count.affine = affine_new(arena, terms);
  count.high = INT64_MAX;
  none.value.dtype = DT_I64;
  VEC_PUSH(arena, rest->ops, count);
  VEC_PUSH(arena, rest->ops, none);
  uint32_t last = rest->ops.len - 1;
  KernelOp chosen = {.kind = KOP_SELECT, .arg_count = 3};
  chosen.args[0] =
      append_binary_op(arena, rest, PRIM_LT, DT_BOOL, last, last - 1);
  chosen.args[1] = value;
  chosen.args[2] = 0; /* the sum */
  chosen.dtype = rest->ops.at[value].dtype;
  chosen.low = INT64_MIN;
  chosen.high = INT64_MAX;
  VEC_PUSH(arena, rest->ops, chosen);
  return rest->ops.len - 1;
}

LoopNest *contraction_hoist_factors(Arena *arena, LoopNest *loop,
                                    bool single_loop) {
  ContractionPattern p;
  if (loop->accumulated_axes)
    return NULL;
  if ((!contraction_match(arena, loop, &p) || !p.hoisted_count) &&
      (single_loop || !has_divided_terms(arena, loop, &p)))
    return NULL;
  LoopOutput r = loop->outputs.at[0];
  Dtype t = loop->ops.at[r.value_op].dtype;
  LoopNest *sum = sum_only_loop(arena, loop, &p, &r),
           *rest = loop_clone_empty(arena, loop);
  rest->axis_count = rest->spatial_axes;
  uint32_t *op_map = NEW_ARRAY(arena, uint32_t, loop->ops.len);
  KernelOp read = {
      .kind = KOP_LOAD_LOCAL, .dtype = t, .source_loop = PREVIOUS_LOOP};
  read.low = INT64_MIN;
  read.high = INT64_MAX;
  read.address = affine_new(arena, 0);
  *read.address = *sum->outputs.at[0].local_index;
  VEC_PUSH(arena, rest->ops, read);
  uint32_t value = 0;
  for (uint32_t j = 0; j < p.hoisted_count; j++)
    value = append_binary_op(
        arena, rest, p.hoisted_divides[j] ? PRIM_DIV : PRIM_MUL, t, value,
        loop_clone_op(arena, loop, rest, op_map, p.hoisted[j]));
  r.value_op = select_if_nonempty(arena, loop, rest, value);
  r.reduce = PRIM_NONE;
  VEC_PUSH(arena, rest->outputs, r);
  *loop = *sum;
  return rest;
}
