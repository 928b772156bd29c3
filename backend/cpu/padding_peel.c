/* Skips the terms of a convolution that multiply only padding.
 *
 * An image row near the top or the bottom skips the filter rows outside
 * of the image.  These are consecutive terms in each group of terms.  The first
 * and the last tile of an image row are separate functions.  They unroll the
 * filter columns.  Each column is multiplied only with the rows of the tile for
 * which it is inside the image. */
#include "backend/cpu/conv_analysis.h"

#include "backend/cpu/gemm_tiling.h"
#include "kernel/trim_no_ops.h"
#include "support/int_math.h"

/* ---- valid range ---- */

/* Finds the condition under which the value is not padding.  Returns false if
 * there is none. */
static bool padding_condition(const LoopNest *loop, uint32_t op_index,
                              uint32_t *condition) {
  const KernelOp *s = &loop->ops.at[op_index];
  while (s->kind == KOP_CONVERT)
    s = &loop->ops.at[s->args[0]];
  if (s->kind != KOP_SELECT)
    return false;
  const KernelOp *other = &loop->ops.at[s->args[2]];
  *condition = s->args[0];
  if (other->kind == KOP_AFFINE)
    return other->low == 0 && other->high == 0;
  return other->kind == KOP_CONST &&
         (dtype_is_float(other->dtype) ? other->value.f == 0
                                       : other->value.i == 0);
}

/* Narrows the valid range by `form >= 0`, if the form is a coordinate: the
 * parallel axis plus the axis of the copy. */
static void bound_coordinate(const AffineExpr *form, uint32_t axis,
                             uint32_t copy_axis, SlidingAccess *r) {
  int64_t step = form->coef[copy_axis], product;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (form->coef[v] && v != axis && v != copy_axis)
      return;
  if (!step || step <= INT32_MIN || form->constant <= INT32_MIN ||
      form->constant > INT32_MAX ||
      __builtin_mul_overflow(step, r->stride, &product) ||
      form->coef[axis] != product)
    return;
  int64_t from = -int_floor_div(form->constant, step > 0 ? step : -step);
  int64_t to = step > 0 ? 0 : int_floor_div(form->constant, -step) + 1;
  if (step > 0 && from > r->valid_begin)
    r->valid_begin = from;
  if (step < 0 && to < r->valid_end)
    r->valid_end = to;
}

/* All operands of a conjunction hold.  The planner limits the depth of the
 * recursion. */
static void bound_by_condition(const LoopNest *loop, uint32_t op_index,
                               uint32_t axis, uint32_t copy_axis,
                               SlidingAccess *r) {
  const KernelOp *s = &loop->ops.at[op_index];
  Inequality forms[2];
  if (s->kind == KOP_MAP && s->op == PRIM_AND) {
    bound_by_condition(loop, s->args[0], axis, copy_axis, r);
    bound_by_condition(loop, s->args[1], axis, copy_axis, r);
    return;
  }
  uint32_t count = comparison_inequalities(loop, s, true, forms);
  for (uint32_t j = 0; j < count; j++)
    if (!forms[j].load)
      bound_coordinate(&forms[j].affine, axis, copy_axis, r);
}

/* Finds the only reduction axis that moves the coordinate, forwards.  Returns
 * false if there is none or several. */
static bool find_filter_axis(const ConvWindow *w, SlidingAccess *r) {
  uint32_t found = 0;
  for (uint32_t k = 0; k < w->reduction_axes; k++)
    if (r->dilation[k]) {
      r->filter_axis = k;
      found++;
    }
  return found == 1 && r->dilation[r->filter_axis] > 0;
}

void padding_peel_find_valid_range(ConvWindow *w, uint32_t row,
                                   uint32_t column) {
  const LoopNest *loop = w->copy_loop;
  uint32_t condition, last = loop->axis_count - 1;
  if (loop_is_symbolic(loop) ||
      !padding_condition(loop, loop->outputs.at[0].value_op, &condition))
    return;
  for (uint32_t c = w->has_rows ? 0 : 1; c < 2; c++) {
    SlidingAccess *r = c ? &w->column : &w->row;
    r->valid_begin = INT32_MIN;
    r->valid_end = INT32_MAX;
    bound_by_condition(loop, condition, c ? column : row, last - 1 + c, r);
    r->padded = r->valid_begin < r->valid_end && find_filter_axis(w, r);
  }
}

/* ---- skipped terms ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* The points for which term k is in the valid range, among `count` points from
 * `point` on. */
static void points_inside(const SlidingAccess *r, int64_t k, int64_t point,
                          int64_t count, int64_t *from, int64_t *to) {
  int64_t coordinate =
      r->stride * point + r->dilation[r->filter_axis] * k - r->low;
  *from =
      clamp(-int_floor_div(coordinate - r->valid_begin, r->stride), 0, count);
  *to =
      clamp(-int_floor_div(coordinate - r->valid_end, r->stride), *from, count);
}

/* Part of all terms of the coordinate that is in the valid range. */
static double share_inside(const ConvWindow *w, const SlidingAccess *r,
                           int64_t points) {
  int64_t terms = w->extents[r->filter_axis], inside = 0, from, to;
  for (int64_t k = 0; k < terms; k++) {
    points_inside(r, k, 0, points, &from, &to);
    inside += to - from;
  }
  return (double)inside / ((double)points * (double)terms);
}

static int64_t trailing_terms(const ConvWindow *w, uint32_t first) {
  int64_t terms = 1;
  for (uint32_t k = first; k < w->reduction_axes; k++)
    if (__builtin_mul_overflow(terms, w->extents[k], &terms))
      return INT64_MAX;
  return terms;
}

void padding_peel_choose(ConvWindow *w, int64_t image_rows, int64_t columns) {
  const SlidingAccess *row = &w->row, *column = &w->column;
  PaddingPeel *to = &w->padding;
  *to = (PaddingPeel){.remaining_share = 1};
  double inside_share = row->padded ? share_inside(w, row, image_rows) : 1;
  int64_t group_terms =
      row->padded ? trailing_terms(w, row->filter_axis) : INT64_MAX;
  if (inside_share < 1 && group_terms <= MAX_KC) {
    to->group_terms = group_terms;
    to->row_terms = trailing_terms(w, row->filter_axis + 1);
    to->remaining_share = inside_share;
  }
  inside_share = column->padded ? share_inside(w, column, columns) : 1;
  if (inside_share < 1 && column->filter_axis + 1 == w->reduction_axes &&
      w->extents[column->filter_axis] <= MAX_PEELED_TERMS) {
    to->peeled_terms = (uint32_t)w->extents[column->filter_axis];
    to->group_terms = to->group_terms ? to->group_terms : to->peeled_terms;
    to->remaining_share *= inside_share;
  }
}

/* Adds the tile of `rows` rows that begins at column op_index, if it skips
 * terms. */
static void add_border_tile(ConvWindow *w, int64_t column, int64_t rows,
                            int64_t columns) {
  PaddingPeel *r = &w->padding;
  BorderTile *end = &r->border_tiles[r->border_tile_count];
  int64_t valid_rows = columns - column < rows ? columns - column : rows, from,
          to, inside_terms = 0;
  end->column = column;
  for (uint32_t k = 0; k < r->peeled_terms; k++) {
    points_inside(&w->column, k, column, valid_rows, &from, &to);
    end->row_begin[k] = (uint8_t)from;
    end->row_end[k] = (uint8_t)to;
    inside_terms += to - from;
  }
  r->border_tile_count += inside_terms < rows * r->peeled_terms;
}

void padding_peel_choose_border_tiles(ConvWindow *w, int64_t columns,
                                      int64_t block, int64_t rows) {
  int64_t before = (columns - 1) / block * block;
  int64_t last = before + (columns - 1 - before) / rows * rows;
  w->padding.border_tile_count = 0;
  if (!w->padding.peeled_terms)
    return;
  add_border_tile(w, 0, rows, columns);
  if (last > 0)
    add_border_tile(w, last, rows, columns);
}
