/* Removes predicates that the bounds of a trimmed loop imply.  A select whose
 * condition is known becomes one of its operands.  A checked index that is in
 * bounds becomes part of the address.
 *
 * Unless a bound contains a load, a trimmed loop runs at least one iteration.
 * So its bounds imply a predicate only if they leave at least one iteration at
 * each point of the parallel axes. */
#include "kernel/trim_no_ops.h"
#include "support/arena.h"

typedef struct TrimmedLoop {
  const Kernel *kernel;
  LoopNest *loop;
} TrimmedLoop;

static bool has_bound(const TrimmedLoop *w, uint32_t number) {
  return w->loop->trim_bounds >> number & 1;
}

bool loop_may_be_empty(const Kernel *k, const LoopNest *loop) {
  for (uint32_t j = 0; j < k->trim_bounds.len; j++)
    if (loop->trim_bounds >> j & 1 && k->trim_bounds.at[j].load)
      return true;
  return false;
}

/* True if the expression is at least 0 at all points. */
static bool is_nonnegative(const LoopNest *loop, const AffineExpr *inequality) {
  int64_t low, high;
  return affine_bounds(loop, inequality, &low, &high) &&
         extent_proved(loop->graph, EXTENT_LE, 0, low);
}

/* True if x <= y at all points. */
static bool is_at_most(const LoopNest *loop, const AffineExpr *x,
                       const AffineExpr *y) {
  AffineExpr d = *y;
  return affine_add(loop->graph, &d, -1, x) && is_nonnegative(loop, &d);
}

/* True if the bound, together with the ends of the axis and each other bound,
 * leaves at least one iteration. */
static bool is_nonempty(const TrimmedLoop *w, const TrimBound *bound) {
  const LoopNest *loop = w->loop;
  if (bound->load)
    return false;
  AffineExpr end = {0};
  if (bound->is_lower &&
      (!extent_mul(loop->graph, loop->extents[loop->trimmed_axis],
                   bound->divisor, &end.constant) ||
       !extent_sub(loop->graph, end.constant, 1, &end.constant)))
    return false;
  if (bound->is_lower ? !is_at_most(loop, &bound->dividend, &end)
                      : !is_at_most(loop, &end, &bound->dividend))
    return false;
  for (uint32_t j = 0; j < w->kernel->trim_bounds.len; j++) {
    const TrimBound *other = &w->kernel->trim_bounds.at[j];
    if (has_bound(w, j) && bound->is_lower && !other->is_lower &&
        (bound->divisor != 1 || other->divisor != 1 ||
         !is_at_most(loop, &bound->dividend, &other->dividend)))
      return false;
  }
  return true;
}

static bool bounds_are_exact(const TrimmedLoop *w) {
  if (loop_may_be_empty(w->kernel, w->loop))
    return true;
  for (uint32_t j = 0; j < w->kernel->trim_bounds.len; j++)
    if (has_bound(w, j) && (w->kernel->trim_bounds.at[j].exact_limit ||
                            !is_nonempty(w, &w->kernel->trim_bounds.at[j])))
      return false;
  return true;
}

/* True if the expression is at least 0 within the bounds of the loop. */
static bool holds_in_bounds(const TrimmedLoop *w,
                            const Inequality *inequality) {
  TrimBound bound;
  uint32_t axis;
  if (!inequality->load && is_nonnegative(w->loop, &inequality->affine))
    return true;
  if (!trim_bound_of_inequality(w->loop, inequality, &bound, &axis) ||
      axis != w->loop->trimmed_axis)
    return false;
  for (uint32_t j = 0; j < w->kernel->trim_bounds.len; j++) {
    const TrimBound *known = &w->kernel->trim_bounds.at[j];
    if (has_bound(w, j) && known->is_lower == bound.is_lower &&
        known->divisor == bound.divisor &&
        trim_loads_equal(known->load, known->load_coef, bound.load,
                         bound.load_coef) &&
        (known->is_lower
             ? is_at_most(w->loop, &bound.dividend, &known->dividend)
             : is_at_most(w->loop, &known->dividend, &bound.dividend)))
      return true;
  }
  return false;
}

/* True if the condition has this truth value within the bounds of the loop.
 * The planner limits the depth of the recursion: it is the depth of a body. */
static bool condition_is_known(const TrimmedLoop *w, uint32_t at, bool truth) {
  const KernelOp *s = &w->loop->ops.at[at];
  if (s->kind != KOP_MAP)
    return false;
  if (s->op == PRIM_NOT)
    return condition_is_known(w, s->args[0], !truth);
  if (s->op == PRIM_AND || s->op == PRIM_OR) {
    bool x = condition_is_known(w, s->args[0], truth),
         y = condition_is_known(w, s->args[1], truth);
    return (s->op == PRIM_AND) == truth ? x && y : x || y;
  }
  Inequality inequalities[2];
  uint32_t count = comparison_inequalities(w->loop, s, truth, inequalities);
  for (uint32_t j = 0; j < count; j++)
    if (!holds_in_bounds(w, &inequalities[j]))
      return false;
  return count > 0;
}

static void resolve_select(const TrimmedLoop *w, KernelOp *s) {
  for (uint32_t side = 1; side < 3; side++)
    if (condition_is_known(w, s->args[0], side == 1)) {
      s->kind = KOP_CONVERT;
      s->arg_count = 1;
      s->args[0] = s->args[side];
      return;
    }
}

/* Adds a checked index to the address if it is in bounds.  Returns false if it
 * may be out of bounds. */
static bool fold_checked_index(const TrimmedLoop *w, KernelOp *s,
                               const CheckedIndex *r) {
  const KernelOp *index = &w->loop->ops.at[r->index_op];
  if (index->kind != KOP_AFFINE)
    return false;
  AffineExpr *address;
  Inequality low = {.affine = *index->affine}, high = {.load = NULL};
  if (!extent_sub(w->loop->graph, r->extent, 1, &high.affine.constant) ||
      !affine_add(w->loop->graph, &high.affine, -1, index->affine) ||
      !holds_in_bounds(w, &low) || !holds_in_bounds(w, &high))
    return false;
  address = affine_copy(w->kernel->arena, s->address);
  if (!affine_add(w->loop->graph, address, r->stride, index->affine))
    return false;
  s->address = address;
  return true;
}

static void simplify_load(const TrimmedLoop *w, KernelOp *s) {
  uint32_t left = 0;
  CheckedIndex *indices =
      NEW_ARRAY(w->kernel->arena, CheckedIndex, s->checked_index_count);
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (!fold_checked_index(w, s, &s->checked_indices[j]))
      indices[left++] = s->checked_indices[j];
  s->checked_indices = indices;
  s->checked_index_count = left;
}

void loop_drop_predicates(const Kernel *k, LoopNest *loop) {
  const TrimmedLoop w = {k, loop};
  for (uint32_t i = 0; i < loop->ops.len; i++) {
    KernelOp *s = &loop->ops.at[i];
    if (s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT))
      resolve_select(&w, s);
    else if (s->kind == KOP_LOAD && s->checked_index_count)
      simplify_load(&w, s);
  }
}

void kernel_drop_predicates(Kernel *k) {
  bool full_range_needed = k->trim_check != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    full_range_needed |= k->loops.at[j]->requires_finite;
  for (uint32_t j = 0; !full_range_needed && j < k->loops.len; j++) {
    TrimmedLoop w = {k, k->loops.at[j]};
    if (w.loop->trim_bounds && bounds_are_exact(&w))
      loop_drop_predicates(k, w.loop);
  }
}
