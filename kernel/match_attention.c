/* Matches attention: two contractions with row weights between them.
 *
 *     s[n] = sum over k of a[k] * b[n, k],
 *     c[e] = sum over n of weight (s[n]) * v[n, e].
 *
 * The weights of a gradient depend on two such contractions.
 *
 * Several loops may lie between the contractions.  Each weight is followed back
 * to s: the values that these loops compute along n become one expression of n,
 * in which equal ops are shared.  Factors that are constant along n are moved
 * out of the sum.  The rest is exp (x - row maximum of x), or any expression of
 * the element alone.  A row sum that divides must be the sum of just these
 * values.
 *
 * The main entry point is kernel_match_attention. */
#include "kernel/kernel.h"

#include "support/arena.h"
#include "tensor/scalar_ops.h"

#include <string.h>

typedef struct AttentionMatcher {
  Arena *arena;
  const Kernel *kernel;
  AttentionPattern *pattern;
  LoopNest *row_loop;
  /* For each loop and op: 1 + its copy in row_loop; 0: not visited; NO_OP: it
   * has none. */
  uint32_t **op_map;
  uint64_t *op_vars; /* for each op of row_loop: its variables */
} AttentionMatcher;

static bool is_score_product(const AttentionPattern *b, uint32_t loop) {
  for (uint32_t j = 0; j < b->product_count; j++)
    if (b->products[j].loop == loop)
      return true;
  return false;
}

/* ---- ops of the row loop ---- */

static uint32_t remap_floor_div(AttentionMatcher *w, uint32_t from,
                                uint32_t floor_div_index);

/* The axis of a loop that runs along the row. */
static uint32_t row_axis_of(const AttentionMatcher *w, uint32_t loop) {
  return loop == w->pattern->pv_loop ? w->kernel->loops.at[loop]->spatial_axes
                                     : w->kernel->parallel_axes;
}

/* Expresses an expression of a loop in the variables of the row loop.  Returns
 * false if it uses other variables. */
static bool remap_affine(AttentionMatcher *w, uint32_t from,
                         const AffineExpr *q, AffineExpr *to) {
  const LoopNest *loop = w->kernel->loops.at[from];
  uint32_t outer = w->kernel->parallel_axes, n = row_axis_of(w, from);
  *to = (AffineExpr){.constant = q->constant};
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    if (!q->coef[v])
      continue;
    uint32_t to_var = v < outer ? v : v == n ? outer : NO_OP;
    if (v >= MAX_KERNEL_AXES && v - MAX_KERNEL_AXES < loop->floor_div_count)
      to_var = remap_floor_div(w, from, v - MAX_KERNEL_AXES);
    if (to_var == NO_OP)
      return false;
    if (!extent_add(loop->graph, to->coef[to_var], q->coef[v],
                    &to->coef[to_var]))
      return false;
  }
  return true;
}

static uint32_t remap_floor_div(AttentionMatcher *w, uint32_t from,
                                uint32_t floor_div_index) {
  FloorDiv q = w->kernel->loops.at[from]->floor_divs[floor_div_index];
  AffineExpr of;
  uint32_t j = 0;
  if (!remap_affine(w, from, &q.dividend, &of))
    return NO_OP;
  q.dividend = of;
  while (j < w->row_loop->floor_div_count &&
         (w->row_loop->floor_divs[j].divisor != q.divisor ||
          !affine_equal(&w->row_loop->floor_divs[j].dividend, &q.dividend)))
    j++;
  if (j == MAX_FLOOR_DIVS)
    return NO_OP;
  if (j == w->row_loop->floor_div_count)
    w->row_loop->floor_divs[w->row_loop->floor_div_count++] = q;
  return MAX_KERNEL_AXES + j;
}

static bool ops_equal(const KernelOp *x, const KernelOp *y) {
  return x->arg_count == y->arg_count &&
         memcmp(x->args, y->args, x->arg_count * sizeof *x->args) == 0 &&
         kernel_op_equivalent(x, y);
}

static uint32_t find_or_add_op(AttentionMatcher *w, const KernelOp *s) {
  for (uint32_t j = 0; j < w->row_loop->ops.len; j++)
    if (ops_equal(&w->row_loop->ops.at[j], s))
      return j;
  VEC_PUSH(w->arena, w->row_loop->ops, *s);
  return w->row_loop->ops.len - 1;
}

static uint32_t clone_op(AttentionMatcher *w, uint32_t loop, uint32_t at);

static uint32_t clone_output_value(AttentionMatcher *w, uint32_t loop,
                                   const LoopOutput *r) {
  uint32_t at = clone_op(w, loop, r->value_op);
  if (at == NO_OP || w->row_loop->ops.at[at].dtype == r->dtype)
    return at;
  KernelOp s = {.kind = KOP_CONVERT, .dtype = r->dtype, .arg_count = 1};
  s.args[0] = at;
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  return find_or_add_op(w, &s);
}

/* A local load of a value along the row becomes the ops that compute the value.
 * Loads of scores and of row statistics remain loads. */
static uint32_t clone_local_load(AttentionMatcher *w, uint32_t from,
                                 const KernelOp *s) {
  const LoopNest *x = w->kernel->loops.at[s->source_loop],
                 *loop = w->kernel->loops.at[from];
  const LoopOutput *r = &x->outputs.at[s->source_output];
  uint32_t outer = w->kernel->parallel_axes;
  KernelOp leaf = *s;
  leaf.address = affine_new(w->arena, 0);
  if (!r->local_index || s->source_loop >= w->pattern->pv_loop)
    return NO_OP;
  if (loop_output_has_axis(x, r, outer)) {
    if (loop_matching_axis(loop, s->address, x, r, outer) !=
        row_axis_of(w, from))
      return NO_OP;
    if (!is_score_product(w->pattern, s->source_loop))
      return clone_output_value(w, s->source_loop, r);
    leaf.address->coef[outer] = 1;
  }
  return find_or_add_op(w, &leaf);
}

static uint32_t build_row_op(AttentionMatcher *w, uint32_t from, KernelOp s) {
  AffineExpr affine;
  for (uint32_t j = 0; j < s.arg_count; j++)
    if ((s.args[j] = clone_op(w, from, s.args[j])) == NO_OP)
      return NO_OP;
  if (s.kind == KOP_LOAD_LOCAL)
    return clone_local_load(w, from, &s);
  if (s.kind == KOP_AFFINE) {
    if (!remap_affine(w, from, s.affine, &affine))
      return NO_OP;
    s.affine = affine_copy(w->arena, &affine);
  }
  if (s.kind == KOP_LOAD) {
    if (!remap_affine(w, from, s.address, &affine))
      return NO_OP;
    CheckedIndex *indices =
        NEW_ARRAY(w->arena, CheckedIndex, s.checked_index_count + 1);
    for (uint32_t j = 0; j < s.checked_index_count; j++) {
      indices[j] = s.checked_indices[j];
      indices[j].index_op = clone_op(w, from, s.checked_indices[j].index_op);
      if (indices[j].index_op == NO_OP)
        return NO_OP;
    }
    s.address = affine_copy(w->arena, &affine);
    s.checked_indices = indices;
  }
  return s.kind == KOP_PACK_BF16X2 ? NO_OP : find_or_add_op(w, &s);
}

/* Copies an op and its arguments to the row loop.  Returns NO_OP if that is
 * impossible.  The depth of the recursion is that of all bodies together, which
 * the planner limits. */
static uint32_t clone_op(AttentionMatcher *w, uint32_t loop, uint32_t at) {
  uint32_t *mapped = &w->op_map[loop][at];
  if (!*mapped) {
    uint32_t to = build_row_op(w, loop, w->kernel->loops.at[loop]->ops.at[at]);
    *mapped = to == NO_OP ? NO_OP : to + 1;
  }
  return *mapped == NO_OP ? NO_OP : *mapped - 1;
}

/* ---- weights ---- */

static const KernelOp *row_op_at(const AttentionMatcher *w, uint32_t at) {
  return &w->row_loop->ops.at[at];
}

/* Skips float conversions; widening_only: only those to a wider type. */
static uint32_t strip_conversions(const AttentionMatcher *w, uint32_t at,
                                  bool widening_only) {
  const KernelOp *s = row_op_at(w, at);
  while (s->kind == KOP_CONVERT && dtype_is_float(s->dtype)) {
    Dtype from = row_op_at(w, s->args[0])->dtype;
    if (!dtype_is_float(from) ||
        (widening_only && dtype_info[from].bytes >= dtype_info[s->dtype].bytes))
      break;
    at = s->args[0];
    s = row_op_at(w, at);
  }
  return at;
}

static uint32_t strip_casts(const AttentionMatcher *w, uint32_t at) {
  return strip_conversions(w, at, false);
}
static uint32_t strip_widening(const AttentionMatcher *w, uint32_t at) {
  return strip_conversions(w, at, true);
}

static bool varies_along_row(const AttentionMatcher *w, uint32_t at) {
  return w->op_vars[at] >> w->kernel->parallel_axes & 1;
}

/* True if s loads the row maximum of op `of`. */
static bool is_row_max(const AttentionMatcher *w, const KernelOp *s,
                       uint32_t of) {
  if (s->kind != KOP_LOAD_LOCAL || is_score_product(w->pattern, s->source_loop))
    return false;
  const LoopOutput *r =
      &w->kernel->loops.at[s->source_loop]->outputs.at[s->source_output];
  uint32_t at = w->op_map[s->source_loop][r->value_op];
  return r->reduce == PRIM_MAX && r->dtype == s->dtype && at != 0 &&
         at != NO_OP && strip_widening(w, at - 1) == of;
}

/* Returns op x if op `at` is exp (x - row maximum of x), otherwise NO_OP. */
static uint32_t match_shifted_exp(AttentionMatcher *w, uint32_t at) {
  const KernelOp *s = row_op_at(w, at);
  if (s->kind != KOP_MAP || s->op != PRIM_EXP)
    return NO_OP;
  s = row_op_at(w, strip_widening(w, s->args[0]));
  if (s->kind != KOP_MAP || s->op != PRIM_SUB)
    return NO_OP;
  uint32_t x = strip_widening(w, s->args[0]), y = strip_widening(w, s->args[1]);
  return is_row_max(w, row_op_at(w, y), x) ? s->args[0] : NO_OP;
}

static bool add_row_factor(AttentionPattern *b, uint32_t at, bool is_divisor) {
  if (b->row_factor_count == MAX_FACTORS)
    return false;
  b->row_factor_divides[b->row_factor_count] = is_divisor;
  b->row_factors[b->row_factor_count++] = at;
  return true;
}

/* Moves factors that are constant along the row to the pattern.  Returns the
 * remaining op, or NO_OP if there are too many factors. */
static uint32_t strip_row_factors(AttentionMatcher *w, uint32_t at) {
  for (;;) {
    at = strip_casts(w, at);
    const KernelOp *s = row_op_at(w, at);
    if (s->kind != KOP_MAP || (s->op != PRIM_MUL && s->op != PRIM_DIV) ||
        !dtype_is_float(s->dtype))
      return at;
    bool other = s->op == PRIM_MUL && !varies_along_row(w, s->args[0]);
    uint32_t by = s->args[!other], rest = s->args[other];
    if (varies_along_row(w, by) || !varies_along_row(w, rest))
      return at;
    if (!add_row_factor(w->pattern, by, s->op == PRIM_DIV))
      return NO_OP;
    at = rest;
  }
}

static bool uses_no_row_statistic(AttentionMatcher *w, uint32_t at) {
  const KernelOp *s = row_op_at(w, at);
  if (s->kind == KOP_LOAD_LOCAL && !varies_along_row(w, at))
    return false;
  for (uint32_t j = 0; j < s->arg_count; j++)
    if (!uses_no_row_statistic(w, s->args[j]))
      return false;
  for (uint32_t j = 0; s->kind == KOP_LOAD && j < s->checked_index_count; j++)
    if (!uses_no_row_statistic(w, s->checked_indices[j].index_op))
      return false;
  return true;
}

/* True if weights are as accurate without their row factors.  f16 weights could
 * overflow or underflow. */
static bool weights_stay_in_range(AttentionMatcher *w, Dtype t) {
  const AttentionPattern *b = w->pattern;
  if (t != DT_F16 || !b->row_factor_count ||
      (!b->subtract_max && row_op_at(w, b->unnormalized_weight)->dtype == t))
    return true;
  for (uint32_t j = 0; j < b->row_factor_count; j++)
    if (!b->subtract_max || !b->row_factor_divides[j] ||
        row_op_at(w, strip_casts(w, b->row_factors[j]))->kind != KOP_LOAD_LOCAL)
      return false;
  return true;
}

/* True if each row statistic is the row maximum of the score or the row sum of
 * the unnormalized weights. */
static bool match_row_statistics(AttentionMatcher *w) {
  AttentionPattern *b = w->pattern;
  for (uint32_t j = 1; j < b->pv_loop; j++) {
    const LoopNest *loop = w->kernel->loops.at[j];
    for (uint32_t i = 0; !is_score_product(b, j) && i < loop->outputs.len;
         i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      uint32_t of = clone_op(w, j, r->value_op);
      if (loop_output_has_axis(loop, r, w->kernel->parallel_axes))
        continue;
      bool is_sum =
          r->reduce == PRIM_SUM && strip_casts(w, of) == b->unnormalized_weight;
      bool is_max = r->reduce == PRIM_MAX && b->subtract_max &&
                    strip_widening(w, of) == strip_widening(w, b->score);
      if ((!is_sum && !is_max) || !dtype_is_float(r->dtype) || !r->local_index)
        return false;
      b->needs_row_sum |= is_sum;
    }
  }
  return true;
}

/* Matches the weight: op `at` of the row loop is a factor of pv. */
static bool match_weight(AttentionMatcher *w, uint32_t at) {
  AttentionPattern *b = w->pattern;
  const KernelOp *s = row_op_at(w, at);
  b->weight_dtype =
      s->kind == KOP_CONVERT ? row_op_at(w, s->args[0])->dtype : s->dtype;
  b->unnormalized_weight = strip_row_factors(w, at);
  if (b->unnormalized_weight == NO_OP)
    return false;
  b->score = match_shifted_exp(w, b->unnormalized_weight);
  b->subtract_max = b->score != NO_OP;
  if (!b->subtract_max)
    b->score = b->unnormalized_weight;
  return uses_no_row_statistic(w, b->score) &&
         weights_stay_in_range(w, b->weight_dtype) && match_row_statistics(w);
}

/* ---- loops ---- */

/* Matches a contraction that computes a row of scores. */
static bool match_score_product(const Kernel *k, uint32_t at,
                                AttentionPattern *b) {
  const LoopNest *loop = k->loops.at[at];
  ScoreProduct p = {.loop = at};
  uint32_t m;
  if (b->product_count == MAX_SCORE_PRODUCTS ||
      loop->spatial_axes != k->parallel_axes + 1 ||
      loop->extents[k->parallel_axes] !=
          k->loops.at[0]->extents[k->parallel_axes] ||
      loop->outputs.at[0].global_index ||
      !contraction_match(k->arena, loop, &p.pattern) || p.pattern.hoisted_count)
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      return false;
  if (!contraction_operand_sides(loop, &p.pattern, k->parallel_axes, &m,
                                 &p.column_factors))
    return false;
  b->products[b->product_count++] = p;
  return true;
}

/* True if the loop runs along the row and stores no row in memory. */
static bool is_row_loop(const Kernel *k, const LoopNest *loop) {
  bool local = loop->axis_count == k->parallel_axes + 1 &&
               loop->extents[k->parallel_axes] ==
                   k->loops.at[0]->extents[k->parallel_axes];
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    local &=
        !loop->outputs.at[j].global_index ||
        !loop_output_has_axis(loop, &loop->outputs.at[j], k->parallel_axes);
  return local;
}

/* Matches the second contraction.  It reduces the row axis; some of its factors
 * depend on its columns, and others do not. */
static bool match_pv(const Kernel *k, const LoopNest *loop,
                     AttentionPattern *b) {
  if (loop->spatial_axes <= k->parallel_axes ||
      loop->axis_count != loop->spatial_axes + 1 ||
      loop->extents[loop->spatial_axes] !=
          k->loops.at[0]->extents[k->parallel_axes] ||
      !contraction_match_any_size(k->arena, loop, &b->pv) ||
      b->pv.hoisted_count)
    return false;
  uint64_t columns =
      ((uint64_t)1 << loop->spatial_axes) - ((uint64_t)1 << k->parallel_axes);
  b->pv_column_factors = 0;
  for (uint32_t j = 0; j < b->pv.factor_count; j++)
    if (b->pv.op_vars[b->pv.factors[j]] & columns)
      b->pv_column_factors |= 1u << j;
  return b->pv_column_factors &&
         b->pv_column_factors != (1u << b->pv.factor_count) - 1;
}

/* True if the loop is a pointwise epilogue of the second contraction. */
static bool is_pointwise_epilogue(const Kernel *k, const LoopNest *loop,
                                  const AttentionPattern *b) {
  const LoopNest *second = k->loops.at[b->pv_loop];
  if (loop->axis_count != second->spatial_axes ||
      loop->spatial_axes != loop->axis_count)
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL && s->source_loop >= b->pv_loop &&
        !affine_equal(s->address, k->loops.at[s->source_loop]
                                      ->outputs.at[s->source_output]
                                      .local_index))
      return false;
  }
  return true;
}

static bool match_loops(const Kernel *k, AttentionPattern *b) {
  if (k->loops.len < 2 || !k->parallel_axes || !match_score_product(k, 0, b))
    return false;
  for (b->pv_loop = 1; !match_pv(k, k->loops.at[b->pv_loop], b); b->pv_loop++)
    if (b->pv_loop + 1 == k->loops.len ||
        (!is_row_loop(k, k->loops.at[b->pv_loop]) &&
         !match_score_product(k, b->pv_loop, b)))
      return false;
  for (uint32_t j = b->pv_loop + 1; j < k->loops.len; j++)
    if (!is_pointwise_epilogue(k, k->loops.at[j], b))
      return false;
  return true;
}

/* True if epilogue loops read no values along the row, only row statistics. */
static bool row_values_are_dead(const AttentionMatcher *w) {
  for (uint32_t j = w->pattern->pv_loop + 1; j < w->kernel->loops.len; j++) {
    const LoopNest *loop = w->kernel->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind != KOP_LOAD_LOCAL || s->source_loop >= w->pattern->pv_loop)
        continue;
      const LoopNest *x = w->kernel->loops.at[s->source_loop];
      if (loop_output_has_axis(x, &x->outputs.at[s->source_output],
                               w->kernel->parallel_axes))
        return false;
    }
  }
  return true;
}

static LoopNest *row_loop_new(const Kernel *k) {
  LoopNest *row_loop = NEW(k->arena, LoopNest);
  row_loop->graph = k->graph;
  row_loop->parallel_axes = k->parallel_axes;
  row_loop->spatial_axes = row_loop->axis_count = k->parallel_axes + 1;
  memcpy(row_loop->extents, k->loops.at[0]->extents,
         row_loop->axis_count * sizeof *row_loop->extents);
  return row_loop;
}

bool kernel_match_attention(const Kernel *k, AttentionPattern *b) {
  *b = (AttentionPattern){0};
  if (!match_loops(k, b))
    return false;
  AttentionMatcher w = {.arena = k->arena,
                        .kernel = k,
                        .pattern = b,
                        .row_loop = row_loop_new(k)};
  b->row_loop = w.row_loop;
  w.op_map = NEW_ARRAY(k->arena, uint32_t *, k->loops.len);
  for (uint32_t j = 0; j < k->loops.len; j++)
    w.op_map[j] = NEW_ARRAY(k->arena, uint32_t, k->loops.at[j]->ops.len);
  for (uint32_t j = 1; j < b->pv_loop; j++)
    for (uint32_t i = 0;
         !is_score_product(b, j) && i < k->loops.at[j]->outputs.len; i++)
      if (clone_op(&w, j, k->loops.at[j]->outputs.at[i].value_op) == NO_OP)
        return false;
  uint32_t weight = NO_OP;
  for (uint32_t j = 0; j < b->pv.factor_count; j++) {
    if (b->pv_column_factors >> j & 1)
      continue;
    if (weight != NO_OP)
      return false; /* a product of weights has no rounded value */
    weight = clone_op(&w, b->pv_loop, b->pv.factors[j]);
    if (weight == NO_OP)
      return false;
  }
  w.op_vars = loop_op_vars(k->arena, w.row_loop);
  return varies_along_row(&w, weight) && match_weight(&w, weight) &&
         row_values_are_dead(&w);
}
