/* Predicated operands of matmuls: loads within bounds, 0 elsewhere, such as
 * the padded input of a convolution.  They are copied with bounds
 * predicates. */
#include "backend/cuda/gemm_pass.h"
#include "kernel/trim_no_ops.h"
#include "support/arena.h"

#include <math.h>

typedef struct NonNegativeForms { /* forms that must be at least 0 */
  uint32_t count;
  AffineExpr form[4 * GEMM_MAX_PREDICATES];
} NonNegativeForms;

/* True if x = factor * y + *by. */
static bool differs_by_constant(Graph *g, const AffineExpr *x, int64_t factor,
                                const AffineExpr *y, int64_t *by) {
  int64_t times;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (!extent_mul(g, factor, y->coef[v], &times) || x->coef[v] != times)
      return false;
  return extent_mul(g, factor, y->constant, &times) &&
         extent_sub(g, x->constant, times, by);
}

/* Adds the condition form >= 0.  Of forms that differ by a constant, only the
 * smallest is needed. */
static bool add_form(const LoopNest *loop, NonNegativeForms *f,
                     const AffineExpr *form) {
  Graph *g = loop->graph;
  int64_t low, high, by;
  if (affine_has_floor_divs(form) || !affine_bounds(loop, form, &low, &high))
    return false;
  if (extent_proved(g, EXTENT_LE, 0, low))
    return true;
  for (uint32_t j = 0; j < f->count; j++)
    if (differs_by_constant(g, form, 1, &f->form[j], &by)) {
      if (extent_proved(g, EXTENT_LE, 0, by))
        return true;
      if (extent_proved(g, EXTENT_LE, by, 0))
        return extent_add(g, f->form[j].constant, by, &f->form[j].constant);
    }
  if (f->count == ARRAY_LEN(f->form))
    return false;
  f->form[f->count++] = *form;
  return true;
}

/* Adds forms whose conjunction is equivalent to the condition.  The recursion
 * is as deep as the expression. */
static bool add_condition(const LoopNest *loop, uint32_t at,
                          NonNegativeForms *f) {
  const KernelOp *s = &loop->ops.at[at];
  Inequality forms[2];
  if (s->kind == KOP_MAP && s->op == PRIM_AND)
    return add_condition(loop, s->args[0], f) &&
           add_condition(loop, s->args[1], f);
  uint32_t count = comparison_inequalities(loop, s, true, forms);
  bool good = count > 0;
  for (uint32_t j = 0; good && j < count; j++)
    good = !forms[j].load && add_form(loop, f, &forms[j].affine);
  return good;
}

/* True if a static size fits in 32 bits.  Symbolic sizes are checked at
 * launch. */
static bool fits_int32(const Graph *g, int64_t x) {
  return !extent_is_static(g, x) || (x >= INT32_MIN && x < INT32_MAX);
}

static bool add_predicate(const LoopNest *loop, BoundsPredicates *to,
                          const AffineExpr *form, int64_t max) {
  Graph *g = loop->graph;
  int64_t low, high;
  if (to->count == GEMM_MAX_PREDICATES ||
      !affine_bounds(loop, form, &low, &high) || !fits_int32(g, low) ||
      !fits_int32(g, high) || !fits_int32(g, max) ||
      !extent_add(g, max, 1, &max))
    return false;
  to->index[to->count] = *form;
  to->extent[to->count++] =
      extent_proved(g, EXTENT_LE, 0, max) ? max : extent_max(g, max, 0);
  return true;
}

static bool is_increasing(const Graph *g, const AffineExpr *form) {
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (!extent_proved(g, EXTENT_LE, 0, form->coef[v]))
      return false;
  return true;
}

/* A form without a partner gets its own maximum as the other bound.  If it is
 * not increasing, the predicate uses maximum - form. */
static bool add_one_sided(const LoopNest *loop, BoundsPredicates *to,
                          const AffineExpr *form) {
  int64_t low, high;
  AffineExpr up = {0};
  if (!affine_bounds(loop, form, &low, &high))
    return false;
  if (is_increasing(loop->graph, form))
    return add_predicate(loop, to, form, high);
  up.constant = high;
  return affine_add(loop->graph, &up, -1, form) &&
         add_predicate(loop, to, &up, high);
}

/* Combines two forms that bound the same index from both sides into one
 * predicate. */
static bool pair_predicates(const LoopNest *loop, const NonNegativeForms *f,
                            BoundsPredicates *to) {
  bool paired[ARRAY_LEN(f->form)] = {0}, good = true;
  for (uint32_t j = 0; good && j < f->count; j++) {
    int64_t max;
    uint32_t with = 0;
    for (uint32_t i = j + 1; !paired[j] && !with && i < f->count; i++)
      if (!paired[i] &&
          differs_by_constant(loop->graph, &f->form[j], -1, &f->form[i], &max))
        with = i;
    if (paired[j])
      continue;
    bool up = is_increasing(loop->graph, &f->form[j]);
    good = with ? add_predicate(loop, to, &f->form[up ? j : with], max)
                : add_one_sided(loop, to, &f->form[j]);
    paired[with] |= with != 0;
  }
  return good;
}

/* True if the predicates imply that the index is in bounds. */
static bool is_in_bounds(const LoopNest *loop, const BoundsPredicates *g,
                         const AffineExpr *index, int64_t extent) {
  Graph *graph = loop->graph;
  int64_t low, high, by;
  if (affine_bounds(loop, index, &low, &high) &&
      extent_proved(graph, EXTENT_LE, 0, low) &&
      extent_proved_less(graph, high, extent))
    return true;
  for (uint32_t j = 0; j < g->count; j++)
    if (differs_by_constant(graph, index, 1, &g->index[j], &by) &&
        extent_proved(graph, EXTENT_LE, 0, by) &&
        extent_add(graph, by, g->extent[j], &by) &&
        extent_proved(graph, EXTENT_LE, by, extent))
      return true;
  return false;
}

/* The load with an affine address instead of checked indices; or NULL. */
static const KernelOp *drop_bounds_checks(Arena *arena, const LoopNest *loop,
                                          const KernelOp *read,
                                          const BoundsPredicates *g) {
  KernelOp *to = NEW(arena, KernelOp);
  AffineExpr *at = affine_copy(arena, read->address);
  for (uint32_t j = 0; j < read->checked_index_count; j++) {
    const CheckedIndex *r = &read->checked_indices[j];
    const KernelOp *index = &loop->ops.at[r->index_op];
    if (index->kind != KOP_AFFINE ||
        !is_in_bounds(loop, g, index->affine, r->extent) ||
        !affine_add(loop->graph, at, r->stride, index->affine))
      return NULL;
  }
  *to = *read;
  to->address = at;
  to->checked_index_count = 0;
  return !affine_has_floor_divs(at) ? to : NULL;
}

static bool is_zero(const KernelOp *s) {
  return s->kind == KOP_CONST && dtype_is_float(s->dtype) &&
         !scalar_is_param(s->value) && s->value.f == 0 && !signbit(s->value.f);
}

const KernelOp *cuda_predicated_load(Arena *arena, const LoopNest *side,
                                     Dtype t, BoundsPredicates *to) {
  const KernelOp *s = cuda_widened_narrow(side);
  NonNegativeForms forms = {0};
  to->count = 0;
  if (!s)
    s = &side->ops.at[side->outputs.at[0].value_op];
  bool choice =
      s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT);
  if (choice && (!is_zero(&side->ops.at[s->args[2]]) ||
                 !add_condition(side, s->args[0], &forms) ||
                 !pair_predicates(side, &forms, to)))
    return NULL;
  if (choice)
    s = &side->ops.at[s->args[1]];
  return s->kind == KOP_LOAD && s->dtype == t
             ? drop_bounds_checks(arena, side, s, to)
             : NULL;
}
