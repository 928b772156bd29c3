/* Conditions on indices, as inequalities of affine expressions. */
#include "kernel/trim_no_ops.h"

static bool op_as_affine(const LoopNest *loop, uint32_t at, AffineExpr *out) {
  const KernelOp *s = &loop->ops.at[at];
  if (s->kind == KOP_AFFINE)
    *out = *s->affine;
  else if (s->kind == KOP_CONST && s->dtype == DT_I64 &&
           extent_is_static(loop->graph, s->value.i))
    *out = (AffineExpr){.constant = s->value.i};
  else
    return false;
  return true;
}

static uint32_t append_inequality(Graph *g, AffineExpr *out, uint32_t count,
                                  const AffineExpr *d, int64_t factor,
                                  int64_t constant) {
  out[count] = (AffineExpr){.constant = constant};
  return affine_add(g, &out[count], factor, d) ? count + 1 : count;
}

/* |x| <= y as x <= y and -x <= y; likewise |x| < y. */
static uint32_t abs_inequalities(const LoopNest *loop, const KernelOp *s,
                                 PrimId op, AffineExpr *out) {
  const KernelOp *x = &loop->ops.at[s->args[0]];
  AffineExpr of, max;
  if (x->kind != KOP_MAP || x->op != PRIM_ABS ||
      (op != PRIM_LT && op != PRIM_LE) ||
      !op_as_affine(loop, x->args[0], &of) ||
      !op_as_affine(loop, s->args[1], &max) ||
      !extent_sub(loop->graph, max.constant, op == PRIM_LT, &max.constant))
    return 0;
  uint32_t count = append_inequality(loop->graph, out, 0, &max, 1, 0);
  if (!count || !affine_add(loop->graph, &out[0], 1, &of))
    return 0;
  count = append_inequality(loop->graph, out, 1, &max, 1, 0);
  return count == 2 && affine_add(loop->graph, &out[1], -1, &of) ? 2 : 0;
}

uint32_t comparison_inequalities(const LoopNest *loop, const KernelOp *s,
                                 bool truth, AffineExpr *out) {
  AffineExpr x, y;
  if (s->kind != KOP_MAP || s->arg_count != 2 || !prim_is_comparison(s->op))
    return 0;
  PrimId op = truth ? s->op : map_info[s->op].inverse;
  if (!op_as_affine(loop, s->args[0], &x) ||
      !op_as_affine(loop, s->args[1], &y))
    return abs_inequalities(loop, s, op, out);
  if (!affine_add(loop->graph, &x, -1, &y))
    return 0;
  if (op == PRIM_LT || op == PRIM_LE)
    return append_inequality(loop->graph, out, 0, &x, -1,
                             op == PRIM_LT ? -1 : 0);
  if (op == PRIM_GT || op == PRIM_GE)
    return append_inequality(loop->graph, out, 0, &x, 1,
                             op == PRIM_GT ? -1 : 0);
  return op == PRIM_EQ
             ? append_inequality(
                   loop->graph, out,
                   append_inequality(loop->graph, out, 0, &x, 1, 0), &x, -1, 0)
             : 0;
}

/* ---- comparisons of indices converted to floats ---- */

/* The index op that op `at` converts to a float, or NULL. */
static const KernelOp *converted_index(const LoopNest *loop, uint32_t at) {
  const KernelOp *s = &loop->ops.at[at];
  const KernelOp *of = &loop->ops.at[s->args[0]];
  return s->kind == KOP_CONVERT && dtype_is_float(s->dtype) &&
                 of->kind == KOP_AFFINE
             ? of
             : NULL;
}

static bool compares_converted_indices(const LoopNest *loop,
                                       const KernelOp *s) {
  return s->kind == KOP_MAP && s->arg_count == 2 && prim_is_comparison(s->op) &&
         converted_index(loop, s->args[0]) && converted_index(loop, s->args[1]);
}

uint32_t condition_inequalities(const LoopNest *loop, const KernelOp *s,
                                bool truth, AffineExpr *out) {
  if (!compares_converted_indices(loop, s))
    return comparison_inequalities(loop, s, truth, out);
  KernelOp of = *s;
  for (uint32_t j = 0; j < 2; j++)
    of.args[j] = loop->ops.at[s->args[j]].args[0];
  return comparison_inequalities(loop, &of, truth, out);
}

/* Integers up to this value are exact in the float type.  Larger integers never
 * round below it.  0 for other types. */
static int64_t max_exact_int(Dtype t) {
  return t == DT_F64 ? (int64_t)1 << 53 : t == DT_F32 ? 1 << 24 : 0;
}

bool trim_bound_set_exactness(const LoopNest *loop, const KernelOp *s,
                              TrimBound *bound) {
  bound->largest_index = bound->exact_limit = 0;
  if (!compares_converted_indices(loop, s))
    return true;
  int64_t exact = max_exact_int(loop->ops.at[s->args[0]].dtype), low, high;
  for (uint32_t j = 0; exact && j < 2; j++) {
    const KernelOp *of = converted_index(loop, s->args[j]);
    if (!affine_bounds(loop, of->affine, &low, &high) ||
        !extent_proved(loop->graph, EXTENT_LE, 1 - exact, low) ||
        (extent_is_static(loop->graph, high) && high >= exact))
      continue;
    bound->largest_index = high;
    bound->exact_limit = exact;
    return true;
  }
  return false;
}

bool trim_bound_of_inequality(const LoopNest *loop,
                              const AffineExpr *inequality, TrimBound *bound,
                              uint32_t *axis) {
  uint32_t found = 0;
  for (uint32_t v = loop->parallel_axes; v < MAX_KERNEL_VARS; v++)
    if (inequality->coef[v]) {
      *axis = v;
      found++;
    }
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (!extent_is_static(loop->graph, inequality->coef[v]))
      return false; /* the sign is unknown */
  if (found != 1 || *axis >= loop->axis_count)
    return false;
  int64_t t = inequality->coef[*axis];
  AffineExpr rest = *inequality;
  rest.coef[*axis] = 0;
  bound->divisor = t > 0 ? t : -t;
  bound->is_lower = t > 0;
  bound->dividend = (AffineExpr){0};
  bound->dividend.constant = t > 0 ? t - 1 : 0;
  return affine_add(loop->graph, &bound->dividend, t > 0 ? -1 : 1, &rest);
}
