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

/* ---- cost of a task ---- */

/* Cycles of one term of a tile: two multiply-adds and two loads per cycle, and
 * at least the latency of an addition. */
static double micro_kernel_cycles(uint32_t rows, uint32_t vectors) {
  double products = rows * vectors / 2.0, loads = (rows + vectors) / 2.0;
  double cycles = (products > loads ? products : loads) + loads / 10;
  return cycles > 4 ? cycles : 4;
}

static double fill_cycles(const ConvWindow *w, const ConvProblem *problem,
                          int64_t image_rows, int64_t columns) {
  const LoopNest *loop = w->copy_loop;
  int64_t filled = (columns - 1) * w->column.stride + w->column.span + 1;
  double vectors = (double)ceil_div(filled, problem->vector_lanes);
  double cycles = IMAGE_ROW_CYCLES + FILL_CYCLES * vectors;
  for (uint32_t v = loop->spatial_axes; v + 2 < loop->axis_count; v++)
    cycles *= (double)loop->extents[v];
  return w->has_rows ? cycles * (double)((image_rows - 1) * w->row.stride +
                                         w->row.span + 1)
                     : cycles;
}

typedef struct TaskSize { /* size of a task */
  int64_t task_height, image_rows, columns;
} TaskSize;

/* The sizes are small constants, so that positions do not overflow. */
static int64_t task_positions(const ConvWindow *w, TaskSize s) {
  int64_t out = 0;
  return conv_window_positions(w, s.image_rows, s.columns, &out) ? out
                                                                 : INT64_MAX;
}

/* Cycles of one term, with the penalty for a panel that exceeds L1. */
static double term_cycles(const ConvProblem *problem, uint32_t rows,
                          uint32_t vectors) {
  double panel = (double)problem->kc * (double)problem->element_bytes *
                 vectors * (double)problem->vector_lanes;
  return micro_kernel_cycles(rows, vectors) +
         (panel > ASSUMED_L1_BYTES ? L2_VECTOR_CYCLES * vectors : 0);
}

static double position_vectorized_cycles(const ConvWindow *w,
                                         const ConvProblem *problem,
                                         const ConvTask *u, TaskSize s) {
  int64_t vectors = ceil_div(task_positions(w, s), problem->vector_lanes);
  uint32_t vectors_per_tile = u->tile.nr_vectors,
           remaining = (uint32_t)(vectors % vectors_per_tile);
  double panels = (double)(vectors / vectors_per_tile),
         depth = (double)problem->depth;
  double term = panels * term_cycles(problem, u->tile.mr, vectors_per_tile) +
                (remaining ? term_cycles(problem, u->tile.mr, remaining) : 0);
  double copies =
      depth * (panels + (remaining > 0)) * (2 * vectors_per_tile + 2);
  double results = (double)s.task_height * (double)vectors *
                   (2 * depth / (double)problem->kc + 2);
  double rows = (double)ceil_div(s.task_height, u->tile.mr);
  return rows * depth * term + copies + results;
}

/* Cycles of one term in all tiles of an image row.  If the last tile is peeled,
 * it has only the remaining rows. */
static double image_row_cycles(const ConvWindow *w, const ConvProblem *problem,
                               const ConvTask *u, int64_t columns) {
  uint32_t rows = u->tile.mr, vectors = u->tile.nr_vectors;
  double whole = term_cycles(problem, rows, vectors);
  uint32_t remaining = (uint32_t)(columns % rows);
  if (problem->symbolic)
    return (double)columns / rows * whole;
  if (remaining && w->padding.peeled_terms)
    return (double)(columns / rows) * whole +
           term_cycles(problem, remaining, vectors);
  return (double)ceil_div(columns, rows) * whole;
}

static double channel_vectorized_cycles(const ConvWindow *w,
                                        const ConvProblem *problem,
                                        const ConvTask *u, TaskSize s) {
  int64_t lanes = (int64_t)u->tile.nr_vectors * problem->vector_lanes;
  double panels = (double)ceil_div(s.task_height, lanes);
  double runs = (double)s.image_rows *
                (problem->symbolic ? (double)s.columns / u->tile.mr
                                   : (double)ceil_div(s.columns, u->tile.mr));
  double depth = (double)problem->depth;
  double vectors = (double)s.task_height / problem->vector_lanes;
  double results = panels * runs * u->tile.mr * u->tile.nr_vectors *
                   (2 * depth / (double)problem->kc + TRANSPOSE_CYCLES);
  double tiles = panels * (double)s.image_rows *
                 image_row_cycles(w, problem, u, s.columns);
  return tiles * depth * w->padding.remaining_share + results +
         depth * vectors * (problem->transposed_weights ? TRANSPOSE_CYCLES : 2);
}

static double task_bytes(const ConvWindow *w, const ConvProblem *problem,
                         const ConvTask *u, TaskSize s) {
  double positions = (double)task_positions(w, s);
  double panel = (double)u->tile.nr_vectors * problem->vector_lanes;
  double elements = (double)w->plane_count * (double)w->plane_elements +
                    (double)s.task_height * positions +
                    (double)problem->kc * panel;
  return (double)problem->element_bytes *
         (elements + (u->vectorize_channels ? positions * panel : 0));
}

static double task_cycles(const ConvWindow *w, const ConvProblem *problem,
                          const ConvTask *u, TaskSize s) {
  double cache_penalty = task_bytes(w, problem, u, s) > MAX_TASK_CACHE_BYTES
                             ? CACHE_MISS_PENALTY
                             : 1;
  double cycles = u->vectorize_channels
                      ? channel_vectorized_cycles(w, problem, u, s)
                      : position_vectorized_cycles(w, problem, u, s);
  return (cycles + fill_cycles(w, problem, s.image_rows, s.columns)) *
         cache_penalty;
}

/* Ratio of the time until the last thread ends to the mean time, for equal
 * tasks. */
static double load_imbalance(double tasks) {
  double cores = machine()->cores;
  return ceil(tasks / cores) * cores / tasks +
         CONV_TASK_IMBALANCE * cores / tasks;
}

/* The window with hints in place of symbolic sizes. */
static ConvWindow with_assumed_extents(const ConvWindow *from, LoopNest *loop) {
  const Graph *g = from->copy_loop->graph;
  ConvWindow w = *from;
  *loop = *from->copy_loop;
  w.copy_loop = loop;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    loop->extents[v] = extent_hint(g, loop->extents[v]);
  w.row.span = extent_hint(g, w.row.span);
  w.column.span = extent_hint(g, w.column.span);
  w.plane_count = extent_hint(g, w.plane_count);
  return w;
}

double conv_task_cost(const ConvWindow *from, const ConvProblem *problem,
                      const ConvTask *u) {
  LoopNest loop;
  ConvWindow w = with_assumed_extents(from, &loop);
  if (!conv_window_set_size(&w, u->task_image_rows, u->task_columns,
                            problem->vector_lanes))
    return HUGE_VAL;
  if ((double)w.plane_count * (double)w.plane_elements *
          (double)problem->element_bytes >
      MAX_WINDOW_BYTES)
    return HUGE_VAL;
  const int64_t sizes[3][2] = {{problem->rows, u->task_height},
                               {problem->image_rows, u->task_image_rows},
                               {problem->columns, u->task_columns}};
  double cycles = 0, tasks = 0;
  for (uint32_t which = 0; which < 8;
       which++) { /* full tasks, and remainders of each size */
    int64_t size[3];
    double count = 1;
    for (uint32_t k = 0; k < 3; k++) {
      bool rest = which >> k & 1;
      size[k] = rest ? sizes[k][0] % sizes[k][1] : sizes[k][1];
      count *= rest ? size[k] != 0 : (double)(sizes[k][0] / sizes[k][1]);
    }
    if (count > 0)
      cycles += count * task_cycles(&w, problem, u,
                                    (TaskSize){size[0], size[1], size[2]});
    tasks += count;
  }
  return cycles * load_imbalance(tasks * problem->batch);
}
