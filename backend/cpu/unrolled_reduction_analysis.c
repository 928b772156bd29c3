/* Analyses of short reductions (unrolled_reduction.c): which rows are jammed,
 * and whether the next loop is the epilogue. */
#include "backend/cpu/unrolled_reduction.h"
#include "backend/cpu/conv_analysis.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

bool unrolled_reduction_applies(const Schedule *s, const LoopNest *loop,
                                uint32_t vector_axis) {
  if (vector_axis + 1 == loop->parallel_axes && s->task_kind != TASK_TILE)
    return false;
  if (loop->outputs.len != 1 || !short_reduction_applies(loop) ||
      vector_axis >= loop->spatial_axes)
    return false;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (loop_is_trimmed(loop, v) ||
        (s->reduction_chunk && v == loop->spatial_axes))
      return false;
  return true;
}

/* ---- unroll-and-jam ---- */

/* Returns true if all affine expressions contain row and term only as a
 * multiple of one input row.  The windows of neighbouring rows must overlap. */
static bool rows_overlap(const LoopNest *loop, UnrolledReduction *f,
                         uint32_t term_axis) {
  int64_t row_stride = 0, term_stride = 0;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[f->row_axis] ||
        loop->floor_divs[j].dividend.coef[term_axis])
      return false;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    if (!q || !q->coef[f->row_axis] || !q->coef[term_axis])
      continue;
    int64_t x = q->coef[f->row_axis], y = q->coef[term_axis];
    if (row_stride
            ? !conv_has_stride_ratio(loop->graph, x, y, row_stride, term_stride)
            : !conv_stride_ratio(loop->graph, x, y, &row_stride, &term_stride))
      return false;
  }
  if (row_stride < 0) { /* the row has a positive coefficient */
    row_stride = -row_stride;
    term_stride = -term_stride;
  }
  int64_t reach = (term_stride < 0 ? -term_stride : term_stride) *
                  (loop->extents[term_axis] - 1);
  if (!row_stride || reach < row_stride)
    return false;
  f->row_stride = row_stride;
  f->term_stride = term_stride;
  f->term_axis = term_axis;
  return true;
}

int64_t unrolled_reduction_input_rows(const UnrolledReduction *f,
                                      const LoopNest *loop, uint32_t rows) {
  int64_t term_stride = f->term_stride < 0 ? -f->term_stride : f->term_stride;
  return f->row_stride * (rows - 1) +
         term_stride * (loop->extents[f->term_axis] - 1) + 1;
}

/* Returns true if jamming saves at least a quarter of the loads. */
static bool saves_loads(const UnrolledReduction *f, const LoopNest *loop,
                        uint32_t rows) {
  return 4 * unrolled_reduction_input_rows(f, loop, rows) <=
         3 * rows * loop->extents[f->term_axis];
}

/* The number of jammed rows for which a task reads the fewest input rows. */
static uint32_t choose_jammed_rows(const UnrolledReduction *f,
                                   const LoopNest *loop, uint32_t max) {
  const Schedule *s = f->e->cpu->schedule;
  bool is_task_axis = f->row_axis < loop->parallel_axes &&
                      s->task_kind == TASK_TILE && !s->gemm_tilings;
  int64_t row_count = is_task_axis ? s->task_height
                                   : loop_extent_hint(loop, f->row_axis),
          min_input_rows = INT64_MAX;
  uint32_t best = max;
  for (uint32_t rows = max; rows > 1; rows--) {
    int64_t input_rows =
        row_count / rows * unrolled_reduction_input_rows(f, loop, rows) +
        row_count % rows * unrolled_reduction_input_rows(f, loop, 1);
    if (input_rows < min_input_rows && saves_loads(f, loop, rows)) {
      min_input_rows = input_rows;
      best = rows;
    }
  }
  return best;
}

bool unrolled_reduction_has_constant_terms(const LoopNest *loop) {
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (!extent_is_static(loop->graph, loop->extents[v]))
      return false;
  return true;
}

void unrolled_reduction_choose_jam(const LoopNest *loop, UnrolledReduction *f) {
  double terms =
      loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  f->rows = 1;
  f->term_axis = NO_AXIS;
  f->partially_unrolled =
      !unrolled_reduction_has_constant_terms(loop) ||
      terms * MAX_ROW_BLOCK_VECTORS > 2 * MAX_UNROLLED_TERMS;
  if (f->row_axis == NO_AXIS || loop->axis_count == MAX_KERNEL_AXES)
    return;
  int64_t extent = loop_extent_hint(loop, f->row_axis);
  uint32_t max = MAX_ACCUMULATORS / f->vectors;
  max = extent < max ? (uint32_t)extent : max;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count && max > 1; v++) {
    if (!extent_is_static(loop->graph, loop->extents[v]) ||
        !rows_overlap(loop, f, v))
      continue;
    bool partially_unrolled =
        !unrolled_reduction_has_constant_terms(loop) ||
        (terms > FULL_UNROLL_TERMS && terms > (double)loop->extents[v]);
    double rows = MAX_UNROLLED_TERMS /
                  (partially_unrolled ? (double)loop->extents[v] : terms);
    rows = rows < max ? rows : max;
    if (rows < 2 || !saves_loads(f, loop, (uint32_t)rows))
      continue;
    f->input_row_axis = loop->axis_count;
    f->partially_unrolled = partially_unrolled;
    f->rows = choose_jammed_rows(f, loop, (uint32_t)rows);
    return;
  }
  f->term_axis = NO_AXIS;
}

/* The coefficient of the input row in an expression of row and term. */
static int64_t input_row_coef(const LoopNest *loop, const UnrolledReduction *f,
                              const AffineExpr *q) {
  int64_t x = q->coef[f->row_axis], y = q->coef[f->term_axis], line = INT64_MAX;
  if (extent_is_static(loop->graph, x) && extent_is_static(loop->graph, y))
    return x / f->row_stride;
  if (f->row_stride == 1) /* otherwise term_stride is 1 or -1 */
    return x;
  return extent_mul(loop->graph, y, f->term_stride, &line) ? line : INT64_MAX;
}

LoopNest *unrolled_reduction_index_by_input_rows(Arena *arena,
                                                 const LoopNest *from,
                                                 const UnrolledReduction *f) {
  LoopNest *loop = loop_clone(arena, from);
  loop->extents[loop->axis_count++] = 1;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    if (!q || !q->coef[f->row_axis] || !q->coef[f->term_axis])
      continue;
    q->coef[f->input_row_axis] = input_row_coef(loop, f, q);
    q->coef[f->row_axis] = q->coef[f->term_axis] = 0;
  }
  return loop;
}

uint32_t unrolled_reduction_choose_block_vectors(const Emitter *e,
                                                 const LoopNest *loop,
                                                 uint32_t vector_axis) {
  bool outer = vector_axis + 1 == loop->parallel_axes;
  int64_t max =
      outer ? e->cpu->schedule->last_axis_block : loop->extents[vector_axis];
  uint32_t best = MAX_ROW_BLOCK_VECTORS;
  if (!extent_is_static(e->kernel->graph, max))
    return best;
  int64_t vectors = (max + e->width - 1) / e->width;
  if (vectors <= best)
    return (uint32_t)vectors;
  for (uint32_t v = best; v > 1; v--)
    if ((vectors + v - 1) / v * v < (vectors + best - 1) / best * best)
      best = v;
  return best;
}

/* ---- epilogue ---- */

static bool reads_loop(const LoopNest *loop, uint32_t at) {
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL &&
        loop->ops.at[j].source_loop == at)
      return true;
  return false;
}

/* Replaces the only inner axis by the inner axes of the reduction, which it
 * collapses.  Returns false on overflow. */
static bool split_axis_form(const LoopNest *sums, AffineExpr *q) {
  int64_t times = q ? q->coef[sums->parallel_axes] : 0;
  for (uint32_t v = sums->spatial_axes; q && v-- > sums->parallel_axes;) {
    q->coef[v] = times;
    if (!extent_mul(sums->graph, times, sums->extents[v], &times))
      return false;
  }
  return true;
}

/* A copy of the loop over the axes of the reduction; NULL: it iterates over
 * other axes. */
static LoopNest *retarget_axes(Arena *arena, const LoopNest *sums,
                               const LoopNest *from) {
  uint32_t outer = sums->parallel_axes, inner = sums->spatial_axes - outer;
  bool same = from->axis_count == sums->spatial_axes, succeeded = true;
  int64_t all;
  for (uint32_t v = outer; same && v < sums->spatial_axes; v++)
    same = from->extents[v] == sums->extents[v];
  if (same)
    return loop_clone(arena, from);
  if (inner < 2 || from->axis_count != outer + 1 || from->floor_div_count ||
      !extent_product(sums->graph, inner, sums->extents + outer, &all) ||
      all != from->extents[outer])
    return NULL;
  LoopNest *loop = loop_clone(arena, from);
  loop->axis_count = loop->spatial_axes = sums->spatial_axes;
  for (uint32_t v = outer; v < sums->spatial_axes; v++)
    loop->extents[v] = sums->extents[v];
  for (uint32_t j = 0; j < loop->ops.len; j++)
    succeeded &= split_axis_form(sums, kernel_op_affine(&loop->ops.at[j]));
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    succeeded &= split_axis_form(sums, loop->outputs.at[j].global_index) &&
                 split_axis_form(sums, loop->outputs.at[j].local_index);
  return succeeded ? loop : NULL;
}

/* Returns true if the stored type is the computed type. */
static bool stores_computed_dtype(const LoopNest *loop, const LoopOutput *r) {
  Dtype t = loop->ops.at[r->value_op].dtype;
  return r->dtype == t && (t == DT_F32 || t == DT_F64);
}

LoopNest *unrolled_reduction_epilogue(const Kernel *k, const Schedule *s,
                                      Arena *arena, uint32_t at) {
  const LoopNest *sums = k->loops.at[at];
  const LoopOutput *r = &sums->outputs.at[0];
  bool tile = s->task_kind == TASK_TILE && !s->gemm_tilings;
  if ((s->task_kind != TASK_POINT && !tile) || at + 1 == k->loops.len ||
      !unrolled_reduction_applies(s, sums, s->vector_axes[at]) ||
      r->global_index || !r->local_index || !stores_computed_dtype(sums, r) ||
      s->reduction_chunk || s->strip_length)
    return NULL;
  const LoopNest *next = k->loops.at[at + 1];
  if (next->axis_count != next->spatial_axes || next->staging != STAGE_NONE ||
      next->trim_bounds || next->strip_mined ||
      next->outputs.len > MAX_LOOP_OUTPUTS)
    return NULL;
  for (uint32_t j = at + 2; j < k->loops.len; j++)
    if (reads_loop(k->loops.at[j], at))
      return NULL;
  LoopNest *loop =
      reads_loop(next, at) ? retarget_axes(arena, sums, next) : NULL;
  for (uint32_t j = 0; loop && j < loop->ops.len; j++) {
    const KernelOp *x = &loop->ops.at[j];
    if (x->kind == KOP_LOAD_LOCAL && x->source_loop == at &&
        !affine_equal(x->address, r->local_index))
      return NULL;
  }
  return loop;
}
