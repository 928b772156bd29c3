/* Conditions on indices, as inequalities of affine expressions. */
#include "kernel/trim_no_ops.h"

bool kernel_affine_is_outer(const LoopNest *loop, const AffineExpr *q) {
  for (uint32_t v = loop->parallel_axes; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v])
      return false;
  return true;
}

bool trim_loads_equal(const KernelOp *x, int64_t x_coef, const KernelOp *y,
                      int64_t y_coef) {
  return x && y ? x_coef == y_coef && x->input == y->input &&
                      affine_equal(x->address, y->address)
                : !x && !y;
}

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

/* A side of a comparison: an affine expression, or a load. */
static bool op_as_side(const LoopNest *loop, uint32_t at, Inequality *out) {
  const KernelOp *s = &loop->ops.at[at];
  *out = (Inequality){.load = NULL};
  if (op_as_affine(loop, at, &out->affine))
    return true;
  if (s->kind != KOP_LOAD || s->dtype != DT_I64 || s->checked_index_count ||
      !kernel_affine_is_outer(loop, s->address))
    return false;
  out->load = s;
  out->load_coef = 1;
  return true;
}

/* factor * d + constant >= 0 */
static uint32_t append_inequality(Graph *g, Inequality *out, uint32_t count,
                                  const Inequality *d, int64_t factor,
                                  int64_t constant) {
  out[count] = (Inequality){.affine.constant = constant,
                            .load = d->load,
                            .load_coef = factor * d->load_coef};
  return affine_add(g, &out[count].affine, factor, &d->affine) ? count + 1
                                                               : count;
}

/* |x| <= y as x <= y and -x <= y; likewise |x| < y. */
static uint32_t abs_inequalities(const LoopNest *loop, const KernelOp *s,
                                 PrimId op, Inequality *out) {
  const KernelOp *x = &loop->ops.at[s->args[0]];
  AffineExpr of;
  Inequality max = {.load = NULL};
  if (x->kind != KOP_MAP || x->op != PRIM_ABS ||
      (op != PRIM_LT && op != PRIM_LE) ||
      !op_as_affine(loop, x->args[0], &of) ||
      !op_as_affine(loop, s->args[1], &max.affine) ||
      !extent_sub(loop->graph, max.affine.constant, op == PRIM_LT,
                  &max.affine.constant))
    return 0;
  uint32_t count = append_inequality(loop->graph, out, 0, &max, 1, 0);
  if (!count || !affine_add(loop->graph, &out[0].affine, 1, &of))
    return 0;
  count = append_inequality(loop->graph, out, 1, &max, 1, 0);
  return count == 2 && affine_add(loop->graph, &out[1].affine, -1, &of) ? 2 : 0;
}

/* x -= y.  Returns false on overflow, or if both have a load. */
static bool subtract_side(Graph *g, Inequality *x, const Inequality *y) {
  if (x->load && y->load)
    return false;
  if (y->load) {
    x->load = y->load;
    x->load_coef = -y->load_coef;
  }
  return affine_add(g, &x->affine, -1, &y->affine);
}

uint32_t comparison_inequalities(const LoopNest *loop, const KernelOp *s,
                                 bool truth, Inequality *out) {
  Inequality x, y;
  if (s->kind != KOP_MAP || s->arg_count != 2 || !prim_is_comparison(s->op))
    return 0;
  PrimId op = truth ? s->op : map_info[s->op].inverse;
  if (!op_as_side(loop, s->args[0], &x) || !op_as_side(loop, s->args[1], &y))
    return abs_inequalities(loop, s, op, out);
  if (!subtract_side(loop->graph, &x, &y))
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
                                bool truth, Inequality *out) {
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
                              const Inequality *inequality, TrimBound *bound,
                              uint32_t *axis) {
  uint32_t found = 0;
  const AffineExpr *q = &inequality->affine;
  for (uint32_t v = loop->parallel_axes; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v]) {
      *axis = v;
      found++;
    }
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (!extent_is_static(loop->graph, q->coef[v]))
      return false; /* the sign is unknown */
  if (found != 1 || *axis >= loop->axis_count)
    return false;
  int64_t t = q->coef[*axis];
  AffineExpr rest = *q;
  rest.coef[*axis] = 0;
  *bound = (TrimBound){.divisor = t > 0 ? t : -t,
                       .is_lower = t > 0,
                       .load = inequality->load,
                       .load_coef = (t > 0 ? -1 : 1) * inequality->load_coef};
  bound->dividend.constant = t > 0 ? t - 1 : 0;
  return affine_add(loop->graph, &bound->dividend, t > 0 ? -1 : 1, &rest);
}
