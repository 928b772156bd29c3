/* Trims loops: skips iterations in which a condition on indices selects a value
 * that has no effect.
 *
 * In `if j <= i then x else k`, each element beyond i is k.  Any value computed
 * from it has the same *outside value* at all such j; it depends on the
 * parallel axes only.  If it is zero, a sum may skip these terms.  A maximum
 * may skip values that do not exceed it.  So loops over j may end at i.
 * Examples: masked scores of attention are -inf, and their weights exp (-inf -
 * m) are zero.  Sums over bands and triangles are similar.
 *
 * Some outside values are known only at run time: m may be infinite, or k may
 * be as large as m.  So the kernel has a *check* that runs after its loops.  It
 * reports whether an outside value has an effect at this point.  Then the loops
 * run again without trimming.  Zero times infinity is not zero.  So before a
 * contraction skips terms, its other factors are checked to be finite.
 *
 * The main entry point is kernel_trim. */
#include "kernel/trim_no_ops.h"
#include "kernel/verify.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "tensor/scalar_ops.h"

#include <math.h>
#include <string.h>

enum {
  NO_AXIS = UINT32_MAX,
  NO_OUTSIDE_VALUE = UINT32_MAX,
};

typedef struct Trimmer {
  Arena *arena;
  Kernel *k;
  bool tiled, only_ragged;
  TrimBound bound; /* the bound that is being tried */
  uint32_t bound_index;
  LoopNest *check;
  uint32_t
      *trimmed_axes; /* for each loop: the axis with the bound, or NO_AXIS */
  bool *trimmable;   /* for each loop: true if it may be trimmed */
  /* For each loop and op: 1 + the op of the check that is its outside value;
   * 0: not visited; NO_OUTSIDE_VALUE: it has none. */
  uint32_t **outside_ops;
  /* Ops of the check; each is true if an outside value has an effect. */
  VEC(uint32_t) violations;
} Trimmer;

static bool bounds_equal(const TrimBound *x, const TrimBound *y) {
  return x->divisor == y->divisor && x->is_lower == y->is_lower &&
         x->largest_index == y->largest_index &&
         x->exact_limit == y->exact_limit &&
         trim_loads_equal(x->load, x->load_coef, y->load, y->load_coef) &&
         affine_equal(&x->dividend, &y->dividend);
}

/* The axis on which the comparison puts the current bound, or NO_AXIS. */
static uint32_t bounded_axis(const Trimmer *l, const LoopNest *loop,
                             uint32_t at, bool truth) {
  Inequality inequalities[2];
  uint32_t count = condition_inequalities(loop, &loop->ops.at[at], truth,
                                          inequalities),
           axis;
  for (uint32_t j = 0; j < count; j++) {
    TrimBound bound;
    if (trim_bound_of_inequality(loop, &inequalities[j], &bound, &axis) &&
        trim_bound_set_exactness(loop, &loop->ops.at[at], &bound) &&
        bounds_equal(&bound, &l->bound))
      return axis;
  }
  return NO_AXIS;
}

/* True if the condition has this truth value only within the current bound. The
 * planner limits the depth of the recursion: it is the depth of a body. */
static bool implies_bound(const Trimmer *l, uint32_t loop_index, uint32_t at,
                          bool truth) {
  const LoopNest *loop = l->k->loops.at[loop_index];
  const KernelOp *s = &loop->ops.at[at];
  if (s->kind != KOP_MAP)
    return false;
  if (s->op == PRIM_NOT)
    return implies_bound(l, loop_index, s->args[0], !truth);
  if (s->op != PRIM_AND && s->op != PRIM_OR) {
    uint32_t axis = bounded_axis(l, loop, at, truth);
    return axis != NO_AXIS && axis == l->trimmed_axes[loop_index];
  }
  bool x = implies_bound(l, loop_index, s->args[0], truth);
  bool y = implies_bound(l, loop_index, s->args[1], truth);
  return (s->op == PRIM_AND) == truth ? x || y : x && y;
}

/* ---- outside values ---- */

static uint32_t add_check_op(Trimmer *l, const KernelOp *s) {
  VEC_PUSH(l->arena, l->check->ops, *s);
  return l->check->ops.len - 1;
}

bool loop_output_has_axis(const LoopNest *loop, const LoopOutput *r,
                          uint32_t v) {
  return r->reduce == PRIM_NONE || v < loop->spatial_axes;
}

uint32_t loop_matching_axis(const LoopNest *reader, const AffineExpr *address,
                            const LoopNest *loop, const LoopOutput *r,
                            uint32_t of) {
  int64_t step = r->local_index->coef[of], extent = loop->extents[of], min, max;
  int64_t whole, rest;
  Graph *g = loop->graph;
  uint32_t found = NO_AXIS;
  AffineExpr lower = {.constant = address->constant};
  for (uint32_t v = reader->parallel_axes; v < MAX_KERNEL_VARS; v++) {
    int64_t t = address->coef[v];
    if (t == step && v < reader->axis_count && reader->extents[v] == extent &&
        found == NO_AXIS)
      found = v;
    else if (t &&
             (!extent_mul(g, step, extent, &whole) ||
              (t != whole && (!extent_floor_mod(g, t, whole, &rest) || rest))))
      lower.coef[v] = t;
  }
  bool alone = affine_bounds(reader, &lower, &min, &max) &&
               extent_proved(g, EXTENT_LE, 0, min) &&
               extent_proved_less(g, max, step);
  return alone ? found : NO_AXIS;
}

static uint32_t outside_value(Trimmer *l, uint32_t loop_index, uint32_t at);

/* The outside value of a local load along the trimmed axis of its producer. */
static uint32_t outside_value_of_load(Trimmer *l, uint32_t loop_index,
                                      const KernelOp *s) {
  const LoopNest *loop = l->k->loops.at[s->source_loop];
  const LoopOutput *r = &loop->outputs.at[s->source_output];
  uint32_t axis = l->trimmed_axes[s->source_loop];
  if (axis == NO_AXIS || !loop_output_has_axis(loop, r, axis) ||
      r->reduce != PRIM_NONE || !r->local_index ||
      loop_matching_axis(l->k->loops.at[loop_index], s->address, loop, r,
                         axis) != l->trimmed_axes[loop_index])
    return NO_OUTSIDE_VALUE;
  uint32_t rest = outside_value(l, s->source_loop, r->value_op);
  if (rest == NO_OUTSIDE_VALUE || l->check->ops.at[rest].dtype == r->dtype)
    return rest;
  KernelOp convert = {.kind = KOP_CONVERT, .dtype = r->dtype, .arg_count = 1};
  convert.args[0] = rest;
  convert.low = INT64_MIN;
  convert.high = INT64_MAX;
  return add_check_op(l, &convert);
}

static bool is_select(const KernelOp *s) {
  return s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT);
}

static uint32_t outside_value_of_op(Trimmer *l, uint32_t loop_index,
                                    const KernelOp *s) {
  if (is_select(s)) {
    if (implies_bound(l, loop_index, s->args[0], true))
      return outside_value(l, loop_index, s->args[2]);
    if (implies_bound(l, loop_index, s->args[0], false))
      return outside_value(l, loop_index, s->args[1]);
  }
  KernelOp to = *s;
  for (uint32_t j = 0; j < s->arg_count; j++)
    if ((to.args[j] = outside_value(l, loop_index, s->args[j])) ==
        NO_OUTSIDE_VALUE)
      return NO_OUTSIDE_VALUE;
  return add_check_op(l, &to);
}

/* In a kernel that accumulates, the check runs before the loops, since these
 * cannot run again.  So it reads no local values. */
static uint32_t add_check_local(Trimmer *l, const KernelOp *s) {
  return l->k->accumulated_axes ? NO_OUTSIDE_VALUE : add_check_op(l, s);
}

static uint32_t find_outside_value(Trimmer *l, uint32_t loop_index,
                                   uint32_t at) {
  const KernelOp *s = &l->k->loops.at[loop_index]->ops.at[at];
  switch (s->kind) {
  case KOP_CONST:
    return add_check_op(l, s);
  case KOP_AFFINE:
    return kernel_affine_is_outer(l->check, s->affine) ? add_check_op(l, s)
                                                       : NO_OUTSIDE_VALUE;
  case KOP_LOAD:
    return s->checked_index_count == 0 &&
                   kernel_affine_is_outer(l->check, s->address)
               ? add_check_op(l, s)
               : NO_OUTSIDE_VALUE;
  case KOP_LOAD_LOCAL:
    return kernel_affine_is_outer(l->check, s->address)
               ? add_check_local(l, s)
               : outside_value_of_load(l, loop_index, s);
  case KOP_MAP:
  case KOP_SELECT:
  case KOP_CONVERT:
    return outside_value_of_op(l, loop_index, s);
  case KOP_RANDOM:
  case KOP_PACK_BF16X2: /* backends create it later */
  case KOP_DOT_BYTES:
    break;
  }
  return NO_OUTSIDE_VALUE;
}

/* The op of the check that computes the outside value of an op.  Returns
 * NO_OUTSIDE_VALUE if its value beyond the bound varies.  The planner limits
 * the depth of the recursion: it is the depth of a body. */
static uint32_t outside_value(Trimmer *l, uint32_t loop_index, uint32_t at) {
  uint32_t *memo = &l->outside_ops[loop_index][at];
  if (*memo == 0) {
    uint32_t rest = find_outside_value(l, loop_index, at);
    *memo = rest == NO_OUTSIDE_VALUE ? NO_OUTSIDE_VALUE : rest + 1;
  }
  return *memo == NO_OUTSIDE_VALUE ? NO_OUTSIDE_VALUE : *memo - 1;
}

/* ---- conditions on outside values ---- */

static uint32_t add_check_binary(Trimmer *l, PrimId op, Dtype t, uint32_t count,
                                 uint32_t x, uint32_t y) {
  KernelOp s = {.kind = KOP_MAP, .op = op, .dtype = t, .arg_count = count};
  s.args[0] = x;
  s.args[1] = y;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  return add_check_op(l, &s);
}

static bool is_zero(const KernelOp *s) {
  return dtype_is_float(s->dtype) ? s->value.f == 0 : s->value.i == 0;
}

/* True if an outside value is the result of the reduction of no elements. */
static bool is_identity(const Trimmer *l, PrimId op, uint32_t rest) {
  if (rest == NO_OUTSIDE_VALUE || prim_is_arg_reduction(op))
    return false;
  const KernelOp *s = &l->check->ops.at[rest];
  Scalar identity = reduce_identity(op, s->dtype);
  return s->kind == KOP_CONST && !scalar_is_param(s->value) &&
         (dtype_is_float(s->dtype) ? s->value.f == identity.f
                                   : s->value.i == identity.i);
}

/* Requires that an outside value is zero, so that a sum may skip it. */
static bool require_zero(Trimmer *l, uint32_t rest) {
  if (rest == NO_OUTSIDE_VALUE)
    return false;
  KernelOp s = l->check->ops.at[rest];
  if (s.kind == KOP_CONST && !scalar_is_param(s.value))
    return is_zero(&s);
  KernelOp zero = {.kind = KOP_CONST, .dtype = s.dtype};
  zero.value.dtype = s.dtype;
  VEC_PUSH(
      l->arena, l->violations,
      add_check_binary(l, PRIM_NE, DT_BOOL, 2, rest, add_check_op(l, &zero)));
  return true;
}

/* Requires that an outside value does not exceed the extreme of the other
 * values, so that the reduction may skip it. */
static bool require_not_extreme(Trimmer *l, uint32_t loop_index, uint32_t at,
                                uint32_t rest) {
  const LoopNest *loop = l->k->loops.at[loop_index];
  const LoopOutput *r = &loop->outputs.at[at];
  bool max = reduce_info[r->reduce].order == ORDER_MAX;
  if (rest == NO_OUTSIDE_VALUE)
    return false;
  if (!r->local_index || loop->spatial_axes > loop->parallel_axes ||
      l->k->accumulated_axes)
    return false;
  KernelOp extreme = {
      .kind = KOP_LOAD_LOCAL, .dtype = r->dtype, .source_loop = loop_index};
  extreme.source_output = at;
  extreme.address = affine_copy(l->arena, r->local_index);
  extreme.low = INT64_MIN;
  extreme.high = INT64_MAX;
  uint32_t covers = add_check_binary(l, max ? PRIM_GE : PRIM_LE, DT_BOOL, 2,
                                     add_check_op(l, &extreme), rest);
  VEC_PUSH(l->arena, l->violations,
           add_check_binary(l, PRIM_NOT, DT_BOOL, 1, covers, 0));
  return true;
}

/* ---- trimmable loops ---- */

static bool is_tiled_contraction(const Trimmer *l, uint32_t at) {
  return l->tiled && loop_is_contraction(l->k->loops.at[at]);
}

/* Args precede their op.  Each op is visited once, since ops are shared. */
static bool reads_local(Arena *arena, const LoopNest *loop, uint32_t at) {
  bool *needed = NEW_ARRAY(arena, bool, at + 1);
  needed[at] = true;
  for (uint32_t k = at + 1; k-- > 0;) {
    const KernelOp *s = &loop->ops.at[k];
    if (needed[k] && s->kind == KOP_LOAD_LOCAL)
      return true;
    for (uint32_t j = 0; needed[k] && j < s->arg_count; j++)
      needed[s->args[j]] = true;
  }
  return false;
}

/* True if a contraction may skip terms: its factors that do not depend on the
 * columns must be zero.  Generated code checks that the others are finite. */
static bool can_skip_terms(Trimmer *l, uint32_t at, uint32_t axis) {
  LoopNest *loop = l->k->loops.at[at];
  ContractionPattern p;
  uint32_t m, n_factors;
  bool accumulates = loop->accumulated_axes > 0;
  if (loop->axis_count != loop->spatial_axes + !accumulates ||
      axis != (accumulates ? loop->parallel_axes : loop->spatial_axes) ||
      !contraction_match(l->arena, loop, &p) || p.hoisted_count ||
      !contraction_operand_sides(loop, &p, loop->spatial_axes - 1, &m,
                                 &n_factors))
    return false;
  uint32_t rest = NO_OUTSIDE_VALUE;
  for (uint32_t j = 0; j < p.factor_count; j++) {
    /* values of the kernel are not known to be finite before it runs */
    if (n_factors >> j & 1
            ? accumulates && reads_local(l->arena, loop, p.factors[j])
            : p.factor_divides[j])
      return false;
    if (n_factors >> j & 1)
      continue;
    uint32_t factor = outside_value(l, at, p.factors[j]);
    if (factor == NO_OUTSIDE_VALUE)
      return false;
    Dtype t = l->check->ops.at[factor].dtype;
    rest = rest == NO_OUTSIDE_VALUE
               ? factor
               : add_check_binary(l, PRIM_MUL, t, 2, rest, factor);
  }
  return require_zero(l, rest);
}

static bool can_trim(Trimmer *l, uint32_t at, uint32_t axis) {
  const LoopNest *loop = l->k->loops.at[at];
  if (loop->accumulated_axes) /* it adds nothing to the skipped rows */
    return is_tiled_contraction(l, at) && can_skip_terms(l, at, axis);
  if (is_tiled_contraction(l, at))
    return axis < loop->spatial_axes ? axis == loop->spatial_axes - 1 &&
                                           !loop->outputs.at[0].global_index
                                     : can_skip_terms(l, at, axis);
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (loop_output_has_axis(loop, r, axis) ? r->global_index != NULL
        : is_identity(l, r->reduce, outside_value(l, at, r->value_op)) ? false
        : r->reduce == PRIM_SUM
            ? !require_zero(l, outside_value(l, at, r->value_op))
        : prim_is_extreme(r->reduce)
            ? !require_not_extreme(l, at, j, outside_value(l, at, r->value_op))
            : true)
      return false;
  }
  return true;
}

/* The axis that a condition in the loop bounds, or NO_AXIS. */
static uint32_t axis_bounded_by_condition(const Trimmer *l,
                                          const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    for (uint32_t truth = 0; truth < 2; truth++) {
      uint32_t axis = bounded_axis(l, loop, j, truth);
      if (axis != NO_AXIS)
        return axis;
    }
  return NO_AXIS;
}

/* The axis along which the loop reads trimmed values, or NO_AXIS. */
static uint32_t axis_bounded_by_input(Trimmer *l, uint32_t at) {
  const LoopNest *loop = l->k->loops.at[at];
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    uint32_t from =
        s->kind == KOP_LOAD_LOCAL ? l->trimmed_axes[s->source_loop] : NO_AXIS;
    if (from == NO_AXIS)
      continue;
    const LoopNest *x = l->k->loops.at[s->source_loop];
    const LoopOutput *r = &x->outputs.at[s->source_output];
    if (r->local_index && r->reduce == PRIM_NONE &&
        outside_value(l, s->source_loop, r->value_op) != NO_OUTSIDE_VALUE)
      return loop_matching_axis(loop, s->address, x, r, from);
  }
  return NO_AXIS;
}

static bool axis_is_trimmable(const LoopNest *loop, uint32_t axis) {
  return !loop->trim_bounds || loop->trimmed_axis == axis;
}

static void find_trimmable_loops(Trimmer *l) {
  for (uint32_t j = 0; j < l->k->loops.len; j++) {
    const LoopNest *loop = l->k->loops.at[j];
    uint32_t axis = axis_bounded_by_condition(l, loop);
    l->trimmed_axes[j] = axis =
        axis == NO_AXIS ? axis_bounded_by_input(l, j) : axis;
    uint32_t before = l->violations.len;
    l->trimmable[j] = axis != NO_AXIS && axis_is_trimmable(loop, axis) &&
                      can_trim(l, j, axis);
    if (!l->trimmable[j])
      l->violations.len = before;
  }
}

/* True if the loop's values along the axis are read, and all readers are
 * trimmed in the same way. */
static bool readers_are_trimmed(const Trimmer *l, uint32_t at, uint32_t axis) {
  const LoopNest *loop = l->k->loops.at[at];
  bool any = false;
  for (uint32_t j = at + 1; j < l->k->loops.len; j++) {
    const LoopNest *reader = l->k->loops.at[j];
    for (uint32_t i = 0; i < reader->ops.len; i++) {
      const KernelOp *s = &reader->ops.at[i];
      if (s->kind != KOP_LOAD_LOCAL || s->source_loop != at)
        continue;
      const LoopOutput *r = &loop->outputs.at[s->source_output];
      if (!loop_output_has_axis(loop, r, axis))
        continue;
      if (!l->trimmable[j] || loop_matching_axis(reader, s->address, loop, r,
                                                 axis) != l->trimmed_axes[j])
        return false;
      any = true;
    }
  }
  return any;
}

/* Trims producers of values that are not read beyond the bound. */
static void trim_producers(Trimmer *l) {
  for (uint32_t j = l->k->loops.len; j-- > 0;) {
    const LoopNest *loop = l->k->loops.at[j];
    bool has_axis = false;
    for (uint32_t i = 0; l->trimmable[j] && i < loop->outputs.len; i++)
      has_axis |= loop_output_has_axis(loop, &loop->outputs.at[i],
                                       l->trimmed_axes[j]) &&
                  !loop->accumulated_axes;
    if (has_axis)
      l->trimmable[j] = readers_are_trimmed(l, j, l->trimmed_axes[j]);
    bool out = false;
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      out |=
          loop->outputs.at[i].global_index || !loop->outputs.at[i].local_index;
    for (uint32_t v = loop->spatial_axes;
         l->trimmed_axes[j] == NO_AXIS && !out && v-- > loop->parallel_axes;)
      if (axis_is_trimmable(loop, v) && readers_are_trimmed(l, j, v) &&
          (!is_tiled_contraction(l, j) || v + 1 == loop->spatial_axes)) {
        l->trimmed_axes[j] = v;
        l->trimmable[j] = true;
      }
  }
}

bool *loop_value_ops(Arena *arena, const LoopNest *loop) {
  bool *is_value = NEW_ARRAY(arena, bool, loop->ops.len);
  Inequality inequalities[2];
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    is_value[loop->outputs.at[j].value_op] = true;
  for (uint32_t j = loop->ops.len; j-- > 0;) {
    const KernelOp *s = &loop->ops.at[j];
    bool trims = s->kind == KOP_MAP && prim_is_comparison(s->op) &&
                 comparison_inequalities(loop, s, true, inequalities) &&
                 inequalities[0].load;
    for (uint32_t a = 0; is_value[j] && !trims && a < s->arg_count; a++)
      is_value[s->args[a]] = true;
  }
  return is_value;
}

/* ---- trip fraction ---- */

/* The bound at one sample point.  The points are spaced evenly along all
 * parallel axes. */
static double sample_bound(const LoopNest *loop, const TrimBound *bound,
                           uint32_t sample) {
  double x = (double)extent_hint(loop->graph, bound->dividend.constant);
  for (uint32_t v = 0; v < loop->parallel_axes; v++)
    x += (double)bound->dividend.coef[v] *
         (double)(loop_extent_hint(loop, v) - 1) * (sample + 0.5) /
         TRIP_FRACTION_SAMPLES;
  return floor(x / (double)bound->divisor);
}

/* An estimate for a bound with a load. */
static double assumed_row_length(const LoopNest *loop, const TrimBound *bound) {
  double extent = (double)loop_extent_hint(loop, loop->trimmed_axis);
  return bound->is_lower ? 0 : RAGGED_TRIP_FRACTION * extent - 1;
}

static double estimate_trip_fraction(const Kernel *k, const LoopNest *loop) {
  double extent = (double)loop_extent_hint(loop, loop->trimmed_axis),
         iterations = 0;
  for (uint32_t j = 0; j < TRIP_FRACTION_SAMPLES; j++) {
    double from = 0, to = extent;
    for (uint32_t i = 0; i < k->trim_bounds.len; i++) {
      const TrimBound *bound = &k->trim_bounds.at[i];
      double x = bound->load ? assumed_row_length(loop, bound)
                             : sample_bound(loop, bound, j);
      if (!(loop->trim_bounds >> i & 1))
        continue;
      if (k->trim_bounds.at[i].is_lower)
        from = x > from ? x : from;
      else
        to = x + 1 < to ? x + 1 : to;
    }
    iterations += to > from ? to - from : 1;
  }
  return iterations / TRIP_FRACTION_SAMPLES / extent;
}

/* ---- main entry point ---- */

static LoopNest *check_loop_new(const Trimmer *l) {
  LoopNest *check = NEW(l->arena, LoopNest);
  check->graph = l->k->graph;
  check->parallel_axes = check->spatial_axes = check->axis_count =
      l->k->parallel_axes;
  memcpy(check->extents, l->k->loops.at[0]->extents, sizeof check->extents);
  return check;
}

static void add_checks(Trimmer *l) {
  if (!l->violations.len)
    return;
  uint32_t *memo = NEW_ARRAY(l->arena, uint32_t, l->check->ops.len);
  if (!l->k->trim_check)
    l->k->trim_check = check_loop_new(l);
  for (uint32_t j = 0; j < l->violations.len; j++) {
    LoopOutput r = {.reduce = PRIM_NONE, .dtype = DT_BOOL};
    r.value_op = loop_clone_op(l->arena, l->check, l->k->trim_check, memo,
                               l->violations.at[j]);
    VEC_PUSH(l->arena, l->k->trim_check->outputs, r);
  }
}

/* Trims the loops by the current bound.  Returns false if that does not pay. */
static bool apply_bound(Trimmer *l) {
  uint32_t count = l->k->loops.len;
  l->check = check_loop_new(l);
  l->violations.len = 0;
  for (uint32_t j = 0; j < count; j++) {
    l->outside_ops[j] =
        NEW_ARRAY(l->arena, uint32_t, l->k->loops.at[j]->ops.len);
    l->trimmed_axes[j] = NO_AXIS;
    l->trimmable[j] = false;
  }
  find_trimmable_loops(l);
  trim_producers(l);
  bool profitable = false;
  int64_t min = l->bound.load ? MIN_RAGGED_EXTENT : MIN_TRIMMED_EXTENT;
  for (uint32_t j = 0; j < count; j++)
    profitable |=
        l->trimmable[j] &&
        loop_extent_hint(l->k->loops.at[j], l->trimmed_axes[j]) >= min;
  for (uint32_t j = 0; profitable && j < count; j++) {
    LoopNest *loop = l->k->loops.at[j];
    if (!l->trimmable[j])
      continue;
    loop->trimmed_axis = l->trimmed_axes[j];
    loop->trim_bounds |= (uint32_t)1 << l->bound_index;
    loop->requires_finite |=
        is_tiled_contraction(l, j) &&
        (l->trimmed_axes[j] >= loop->spatial_axes || loop->accumulated_axes);
  }
  if (profitable)
    add_checks(l);
  return profitable;
}

static void try_bound(Trimmer *l, const TrimBound *bound) {
  Kernel *k = l->k;
  for (uint32_t j = 0; j < k->trim_bounds.len; j++)
    if (bounds_equal(&k->trim_bounds.at[j], bound))
      return;
  if (bound->load ? l->tiled : l->only_ragged)
    return;
  l->bound = *bound;
  l->bound_index = k->trim_bounds.len;
  if (l->bound_index < MAX_TRIM_BOUNDS && apply_bound(l))
    VEC_PUSH(l->arena, k->trim_bounds, *bound);
}

static void try_condition(Trimmer *l, const LoopNest *loop, uint32_t at,
                          bool truth) {
  Inequality inequalities[2];
  TrimBound bound;
  uint32_t count = condition_inequalities(loop, &loop->ops.at[at], truth,
                                          inequalities),
           axis;
  for (uint32_t j = 0; j < count; j++)
    if (trim_bound_of_inequality(loop, &inequalities[j], &bound, &axis) &&
        trim_bound_set_exactness(loop, &loop->ops.at[at], &bound))
      try_bound(l, &bound);
}

/* True if the bounds of each row are known exactly. */
static bool bounds_each_row(const Kernel *k, TrimMode mode) {
  uint32_t last = k->parallel_axes - 1;
  for (uint32_t j = 0; mode == TRIM_COLUMNS && j < k->trim_bounds.len; j++) {
    const TrimBound *bound = &k->trim_bounds.at[j];
    if (!bound->load || bound->load->address->coef[last] ||
        bound->dividend.coef[last])
      return false;
  }
  return mode != TRIM_TILES;
}

void kernel_trim(Kernel *k, TrimMode mode) {
  Trimmer l = {.arena = k->arena,
               .k = k,
               .tiled = mode == TRIM_TILES,
               .only_ragged = mode == TRIM_COLUMNS};
  if (k->trim_bounds.len)
    return;
  l.trimmed_axes = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  l.outside_ops = NEW_ARRAY(k->arena, uint32_t *, k->loops.len);
  l.trimmable = NEW_ARRAY(k->arena, bool, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      try_condition(&l, loop, i, true);
      try_condition(&l, loop, i, false);
    }
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->trim_bounds)
      k->loops.at[j]->trip_fraction = estimate_trip_fraction(k, k->loops.at[j]);
  if (bounds_each_row(k, mode))
    kernel_drop_predicates(k);
  kernel_verify_after(k, "trimming");
}
