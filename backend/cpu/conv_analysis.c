/* Recognizes convolutions, and estimates the cost of their tasks. */
#include "backend/cpu/conv_analysis.h"

#include "backend/cpu/cpu.h"
#include "machine/limits/planner.h"
#include "machine/machine.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"
#include "support/int_math.h"

#include <math.h>
#include <string.h>

/* ---- affine expressions ---- */

static bool is_in_floor_div(const LoopNest *loop, uint32_t v) {
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[v])
      return true;
  return false;
}

/* Returns true if the coefficients of v and k have the same ratio in all
 * expressions.  The ratio of constant coefficients is preferred. */
static bool have_constant_ratio(const LoopNest *loop, uint32_t v, uint32_t k,
                                int64_t *v_ratio, int64_t *k_ratio) {
  Graph *g = loop->graph;
  *v_ratio = *k_ratio = 0;
  for (uint32_t constants = 2; constants-- > 0;)
    for (uint32_t j = 0; j < loop->ops.len && !*v_ratio; j++) {
      const AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
      bool is_constant = q && extent_is_static(g, q->coef[v]) &&
                         extent_is_static(g, q->coef[k]);
      if (q && q->coef[v] && q->coef[k] && is_constant == (constants > 0) &&
          !affine_coef_ratio(g, q->coef[v], q->coef[k], v_ratio, k_ratio))
        return false;
    }
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    if (!q || (!q->coef[v] && !q->coef[k]))
      continue;
    if (!q->coef[v] || !q->coef[k] ||
        !affine_has_coef_ratio(g, q->coef[v], q->coef[k], *v_ratio, *k_ratio))
      return false;
  }
  if (*v_ratio < 0) {
    *v_ratio = -*v_ratio;
    *k_ratio = -*k_ratio;
  }
  return *v_ratio > 0;
}

static int64_t constant_or(const LoopNest *loop, uint32_t v, int64_t other) {
  int64_t x = loop->extents[v];
  return extent_is_static(loop->graph, x) ? x : other;
}

/* Returns true if k moves the window by at least one stride of the axis and by
 * less than the axis.  Otherwise the windows do not overlap.  Symbolic windows
 * are assumed to be short, and symbolic axes long. */
static bool windows_overlap(const LoopNest *loop, uint32_t v, uint32_t k,
                            int64_t v_ratio, int64_t k_ratio) {
  int64_t shift, range;
  return !__builtin_mul_overflow(
             k_ratio < 0 ? -k_ratio : k_ratio,
             constant_or(loop, k, ASSUMED_WINDOW_LENGTH) - 1, &shift) &&
         !__builtin_mul_overflow(
             v_ratio, constant_or(loop, v, EXTENT_HINT_DEFAULT), &range) &&
         shift >= v_ratio && shift < range;
}

bool conv_access_slides(const SlidingAccess *r) {
  for (uint32_t k = 0; k < MAX_KERNEL_AXES; k++)
    if (r->dilation[k])
      return true;
  return false;
}

/* Adds the extent of the term to the span of the window; sign -1 removes it. */
static bool extend_access(const LoopNest *b, uint32_t k, SlidingAccess *r,
                          int64_t sign) {
  Graph *g = b->graph;
  bool is_negative = r->dilation[k] < 0;
  int64_t end, dilation = is_negative ? -r->dilation[k] : r->dilation[k];
  return extent_sub(g, b->extents[k], 1, &end) &&
         extent_mul(g, end, dilation * sign, &end) &&
         extent_add(g, r->span, end, &r->span) &&
         (!is_negative || extent_sub(g, r->low, end, &r->low));
}

bool conv_sliding_access(const LoopNest *b, uint32_t axis, SlidingAccess *r) {
  int64_t steps[MAX_KERNEL_AXES] = {0};
  *r = (SlidingAccess){.stride = 1};
  if (is_in_floor_div(b, axis))
    return false;
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++) {
    int64_t k_ratio;
    if (is_in_floor_div(b, k))
      return false;
    if (!have_constant_ratio(b, axis, k, &steps[k], &k_ratio) ||
        !windows_overlap(b, axis, k, steps[k], k_ratio))
      continue;
    r->dilation[k] = k_ratio;
    if (__builtin_mul_overflow(r->stride / int_gcd(r->stride, steps[k]),
                               steps[k], &r->stride))
      return false;
  }
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++) {
    if (!r->dilation[k])
      continue;
    r->dilation[k] *= r->stride / steps[k];
    if (!extend_access(b, k, r, 1))
      return false;
  }
  return true;
}

/* Assigns a reduction axis that moves both coordinates to the one in which its
 * part is larger. */
static bool separate_coordinates(const LoopNest *b, SlidingAccess *row,
                                 SlidingAccess *column) {
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++) {
    if (!row->dilation[k] || !column->dilation[k])
      continue;
    int64_t x = row->dilation[k] < 0 ? -row->dilation[k] : row->dilation[k];
    int64_t y =
        column->dilation[k] < 0 ? -column->dilation[k] : column->dilation[k];
    SlidingAccess *minor =
        (double)x * (double)column->stride > (double)y * (double)row->stride
            ? column
            : row;
    if (!extend_access(b, k, minor, -1))
      return false;
    minor->dilation[k] = 0;
  }
  return true;
}

/* ---- loop of the copy ---- */

/* Coefficient of one coordinate step in an expression.  Returns false if it is
 * not an exact quotient. */
static bool coordinate_coef(const LoopNest *b, const SlidingAccess *r,
                            int64_t access_coef, int64_t *coef) {
  int64_t product;
  return extent_floor_div(b->graph, access_coef, r->stride, coef) &&
         extent_mul(b->graph, *coef, r->stride, &product) &&
         product == access_coef;
}

/* The expression with free reduction axes renumbered, and the others replaced
 * by the coordinates, which begin at the lowest element that is read.  NULL: a
 * coefficient is not a multiple of the stride. */
static AffineExpr *substitute_coordinates(Arena *arena, const LoopNest *b,
                                          const ConvWindow *w,
                                          const uint32_t *new_axis,
                                          const AffineExpr *from,
                                          const uint32_t *axes) {
  AffineExpr *q = affine_copy(arena, from);
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++)
    q->coef[k] = 0;
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++)
    if (new_axis[k] != UINT32_MAX)
      q->coef[new_axis[k]] = from->coef[k];
  for (uint32_t c = w->has_rows ? 0 : 1; c < 2; c++) {
    const SlidingAccess *r = c ? &w->column : &w->row;
    int64_t unit, offset;
    if (!coordinate_coef(b, r, from->coef[axes[c]], &unit) ||
        !extent_mul(b->graph, unit, r->low, &offset) ||
        !extent_add(b->graph, q->constant, offset, &q->constant))
      return NULL;
    q->coef[w->copy_loop->axis_count - 2 + c] = unit;
  }
  return q;
}

static bool copy_ops(Arena *arena, const LoopNest *b, ConvWindow *w,
                     const uint32_t *new_axis, const uint32_t *axes) {
  for (uint32_t j = 0; j < b->ops.len; j++) {
    KernelOp s = b->ops.at[j];
    AffineExpr **form = s.kind == KOP_AFFINE ? &s.affine
                        : s.kind == KOP_LOAD || s.kind == KOP_LOAD_LOCAL
                            ? &s.address
                            : NULL;
    if (form &&
        !(*form = substitute_coordinates(arena, b, w, new_axis, *form, axes)))
      return false;
    VEC_PUSH(arena, w->copy_loop->ops, s);
  }
  return true;
}

/* Indexes dilations by reduction axis from 0, instead of by loop axis. */
static void dilation_by_term(const LoopNest *b, SlidingAccess *r) {
  int64_t by[MAX_KERNEL_AXES] = {0};
  memcpy(by, r->dilation + b->spatial_axes,
         (b->axis_count - b->spatial_axes) * sizeof *by);
  memcpy(r->dilation, by, sizeof by);
}

ConvWindow *conv_window_new(Arena *arena, const LoopNest *b, uint32_t row,
                            uint32_t column) {
  ConvWindow *w = NEW(arena, ConvWindow);
  uint32_t new_axis[MAX_KERNEL_AXES], axes[2] = {row, column};
  w->has_rows = row != NO_AXIS;
  if (!conv_sliding_access(b, column, &w->column) ||
      (w->has_rows && !conv_sliding_access(b, row, &w->row)))
    return NULL;
  if (w->has_rows && !separate_coordinates(b, &w->row, &w->column))
    return NULL;
  w->copy_loop = NEW(arena, LoopNest);
  *w->copy_loop = *b;
  memset(&w->copy_loop->ops, 0, sizeof w->copy_loop->ops);
  w->copy_loop->axis_count = b->spatial_axes;
  w->plane_count = 1;
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++) {
    w->extents[w->reduction_axes] = b->extents[k];
    w->is_free[w->reduction_axes] =
        !w->row.dilation[k] && !w->column.dilation[k];
    new_axis[k] =
        w->is_free[w->reduction_axes] ? w->copy_loop->axis_count : UINT32_MAX;
    if (w->is_free[w->reduction_axes++]) {
      w->copy_loop->extents[w->copy_loop->axis_count++] = b->extents[k];
      if (!extent_mul(b->graph, w->plane_count, b->extents[k], &w->plane_count))
        return NULL;
    }
  }
  dilation_by_term(b, &w->row);
  dilation_by_term(b, &w->column);
  w->copy_loop->axis_count += 2;
  if (w->copy_loop->axis_count > MAX_KERNEL_AXES ||
      !extent_mul(b->graph, w->plane_count, conv_window_phases(w),
                  &w->plane_count) ||
      !copy_ops(arena, b, w, new_axis, axes))
    return NULL;
  padding_peel_find_valid_range(w, row, column);
  return w;
}

/* ---- sizes ---- */

int64_t conv_window_phases(const ConvWindow *w) {
  return w->column.stride * (w->has_rows ? w->row.stride : 1);
}

/* Coordinates that `count` points of the axis read. */
static bool input_points(Graph *g, const SlidingAccess *r, int64_t count,
                         int64_t *out) {
  return extent_sub(g, count, 1, out) && extent_mul(g, *out, r->stride, out) &&
         extent_add(g, *out, r->span, out) && extent_add(g, *out, 1, out);
}

/* The same coordinates, counted in steps of r->stride. */
static bool strided_points(Graph *g, const SlidingAccess *r, int64_t count,
                           int64_t *out) {
  return extent_floor_div(g, r->span, r->stride, out) &&
         extent_add(g, *out, count, out);
}

bool conv_window_positions(const ConvWindow *w, int64_t rows, int64_t columns,
                           int64_t *out) {
  Graph *g = w->copy_loop->graph;
  int64_t before, pitch;
  return strided_points(g, &w->column, columns, &pitch) &&
         extent_sub(g, rows, 1, &before) && extent_mul(g, before, pitch, out) &&
         extent_add(g, *out, columns, out);
}

bool conv_window_set_size(ConvWindow *w, int64_t rows, int64_t columns,
                          uint32_t width) {
  Graph *g = w->copy_loop->graph;
  uint32_t last = w->copy_loop->axis_count - 1;
  w->plane_rows = w->copy_loop->extents[last - 1] = 1;
  return strided_points(g, &w->column, columns, &w->row_pitch) &&
         (!w->has_rows ||
          (strided_points(g, &w->row, rows, &w->plane_rows) &&
           input_points(g, &w->row, rows, &w->copy_loop->extents[last - 1]))) &&
         extent_mul(g, w->plane_rows, w->row_pitch, &w->plane_elements) &&
         extent_add(g, w->plane_elements, width, &w->plane_elements) &&
         input_points(g, &w->column, columns, &w->copy_loop->extents[last]);
}
