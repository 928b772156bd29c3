/* Which products are read through a window, and how large that is. */
#include "backend/cpu/conv_analysis.h"

#include "backend/cpu/cpu.h"
#include "machine/limits/planner.h"
#include "machine/machine.h"

#include <math.h>
#include <string.h>

enum { MAX_SYMBOLIC_STRIDE = 8 }; /* of a window, where strides are open */

static int64_t gcd(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x < 0 ? -x : x;
}

/* ---- forms ---- */

static AffineExpr *affine_of(const KernelOp *s) {
  return s->kind == KOP_AFFINE                              ? s->affine
         : s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL ? s->address
                                                            : NULL;
}

static bool is_in_floor_div(const LoopNest *loop, uint32_t v) {
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[v])
      return true;
  return false;
}

bool conv_has_stride_ratio(Graph *g, int64_t x, int64_t y, int64_t of_x,
                           int64_t of_y) {
  int64_t one, other;
  return extent_mul(g, y, of_x, &one) && extent_mul(g, x, of_y, &other) &&
         one == other;
}

bool conv_stride_ratio(Graph *g, int64_t x, int64_t y, int64_t *of_x,
                       int64_t *of_y) {
  *of_x = *of_y = 1;
  if (extent_is_static(g, x) && extent_is_static(g, y)) {
    int64_t by = gcd(x, y);
    *of_x = x / by;
    *of_y = y / by;
    return true;
  }
  for (int64_t n = -MAX_SYMBOLIC_STRIDE; n <= MAX_SYMBOLIC_STRIDE; n++) {
    if (n && conv_has_stride_ratio(g, x, y, n, 1))
      *of_x = n;
    else if (n && conv_has_stride_ratio(g, x, y, 1, n))
      *of_y = n;
    else
      continue;
    return true;
  }
  return false;
}

/* Are the multiples of v and k in the same ratio everywhere?  That of a form
 * that has them, of numbers if there is one. */
static bool have_constant_ratio(const LoopNest *loop, uint32_t v, uint32_t k,
                                int64_t *of_v, int64_t *of_k) {
  Graph *g = loop->graph;
  *of_v = *of_k = 0;
  for (uint32_t numbers = 2; numbers-- > 0;)
    for (uint32_t j = 0; j < loop->ops.len && !*of_v; j++) {
      const AffineExpr *q = affine_of(&loop->ops.at[j]);
      bool number = q && extent_is_static(g, q->coef[v]) &&
                    extent_is_static(g, q->coef[k]);
      if (q && q->coef[v] && q->coef[k] && number == (numbers > 0) &&
          !conv_stride_ratio(g, q->coef[v], q->coef[k], of_v, of_k))
        return false;
    }
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const AffineExpr *q = affine_of(&loop->ops.at[j]);
    if (!q || (!q->coef[v] && !q->coef[k]))
      continue;
    if (!q->coef[v] || !q->coef[k] ||
        !conv_has_stride_ratio(g, q->coef[v], q->coef[k], *of_v, *of_k))
      return false;
  }
  if (*of_v < 0) {
    *of_v = -*of_v;
    *of_k = -*of_k;
  }
  return *of_v > 0;
}

static int64_t constant_or(const LoopNest *loop, uint32_t v, int64_t other) {
  int64_t x = loop->extents[v];
  return extent_is_static(loop->graph, x) ? x : other;
}

/* Does k move the window by as much as one step of the axis, at least, and less
 * than the axis is long?  Else it is at other places altogether.  Where sizes
 * are open, windows are taken for short, and axes for long. */
static bool windows_overlap(const LoopNest *loop, uint32_t v, uint32_t k,
                            int64_t of_v, int64_t of_k) {
  int64_t shift, range;
  return !__builtin_mul_overflow(
             of_k < 0 ? -of_k : of_k,
             constant_or(loop, k, ASSUMED_WINDOW_LENGTH) - 1, &shift) &&
         !__builtin_mul_overflow(
             of_v, constant_or(loop, v, EXTENT_HINT_DEFAULT), &range) &&
         shift >= of_v && shift < range;
}

bool conv_access_slides(const SlidingAccess *r) {
  for (uint32_t k = 0; k < MAX_KERNEL_AXES; k++)
    if (r->dilation[k])
      return true;
  return false;
}

/* What the term adds to where the window lies; sign: -1, and it is taken away.
 */
static bool extend_access(const LoopNest *b, uint32_t k, SlidingAccess *r,
                          int64_t sign) {
  Graph *g = b->graph;
  bool is_negative = r->dilation[k] < 0;
  int64_t end, by = is_negative ? -r->dilation[k] : r->dilation[k];
  return extent_sub(g, b->extents[k], 1, &end) &&
         extent_mul(g, end, by * sign, &end) &&
         extent_add(g, r->span, end, &r->span) &&
         (!is_negative || extent_sub(g, r->low, end, &r->low));
}

bool conv_sliding_access(const LoopNest *b, uint32_t axis, SlidingAccess *r) {
  int64_t steps[MAX_KERNEL_AXES] = {0};
  *r = (SlidingAccess){.stride = 1};
  if (is_in_floor_div(b, axis))
    return false;
  for (uint32_t k = b->spatial_axes; k < b->axis_count; k++) {
    int64_t of_k;
    if (is_in_floor_div(b, k))
      return false;
    if (!have_constant_ratio(b, axis, k, &steps[k], &of_k) ||
        !windows_overlap(b, axis, k, steps[k], of_k))
      continue;
    r->dilation[k] = of_k;
    if (__builtin_mul_overflow(r->stride / gcd(r->stride, steps[k]), steps[k],
                               &r->stride))
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

/* A term that both coordinates could have: that in which it is the larger part.
 */
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

/* ---- the loop of the copy ---- */

/* What a step of the coordinate is in a form; false: it is not told. */
static bool coordinate_coef(const LoopNest *b, const SlidingAccess *r,
                            int64_t times, int64_t *unit) {
  int64_t is_negative;
  return extent_floor_div(b->graph, times, r->stride, unit) &&
         extent_mul(b->graph, *unit, r->stride, &is_negative) &&
         is_negative == times;
}

/* The form with summed axes replaced: free ones numbered anew, and the others
 * by the coordinates, which begin at the lowest place that is read.  NULL: it
 * cannot be told. */
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

/* Multiples by place in the sum, not by variable. */
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

/* Points of a coordinate that so many points of the axis take. */
static bool input_points(Graph *g, const SlidingAccess *r, int64_t count,
                         int64_t *out) {
  return extent_sub(g, count, 1, out) && extent_mul(g, *out, r->stride, out) &&
         extent_add(g, *out, r->span, out) && extent_add(g, *out, 1, out);
}

/* Points that lie r->stride apart. */
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

/* ---- what a unit costs ---- */

enum {
  MAX_TASK_CACHE_BYTES = 768
                         << 10, /* of a unit, so that they stay in a cache */
  FILL_CYCLES = 8,              /* of a vector of the window, */
  IMAGE_ROW_CYCLES = 12,        /* and of each line */
  TRANSPOSE_CYCLES = 6,         /* of a vector that is turned, with others */
  L1_BYTES = 32 << 10,          /* of the first cache; and from beyond it */
};

static const double L2_VECTOR_CYCLES = 0.5; /* a vector more in each term */

/* Of a term of a tile: two products or two loads at a time, and sums that wait
 * for themselves. */
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

typedef struct TaskSize { /* of a unit */
  int64_t task_height, image_rows, columns;
} TaskSize;

/* Of numbers, which fit: the search is among small units. */
static int64_t task_positions(const ConvWindow *w, TaskSize s) {
  int64_t out = 0;
  return conv_window_positions(w, s.image_rows, s.columns, &out) ? out
                                                                 : INT64_MAX;
}

/* Of a term, whose vectors are those of a panel that this cache may not hold.
 */
static double term_cycles(const ConvProblem *problem, uint32_t rows,
                          uint32_t vectors) {
  double panel = (double)problem->kc * (double)problem->element_bytes *
                 vectors * (double)problem->vector_lanes;
  return micro_kernel_cycles(rows, vectors) +
         (panel > L1_BYTES ? L2_VECTOR_CYCLES * vectors : 0);
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

/* Of a term in all tiles of a line.  Where the last one's rows are written out,
 * it has those alone that there are. */
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
  double places = (double)task_positions(w, s);
  double panel = (double)u->tile.nr_vectors * problem->vector_lanes;
  double elements = (double)w->plane_count * (double)w->plane_elements +
                    (double)s.task_height * places +
                    (double)problem->kc * panel;
  return (double)problem->element_bytes *
         (elements + (u->vectorize_channels ? places * panel : 0));
}

static double task_cycles(const ConvWindow *w, const ConvProblem *problem,
                          const ConvTask *u, TaskSize s) {
  double cache_penalty =
      task_bytes(w, problem, u, s) > MAX_TASK_CACHE_BYTES ? 1.2 : 1;
  double cycles = u->vectorize_channels
                      ? channel_vectorized_cycles(w, problem, u, s)
                      : position_vectorized_cycles(w, problem, u, s);
  return (cycles + fill_cycles(w, problem, s.image_rows, s.columns)) *
         cache_penalty;
}

/* What threads wait for each other at the end: of units that take as long as
 * each other, and a little in any case. */
static double load_imbalance(double tasks) {
  double cores = machine()->cores;
  return ceil(tasks / cores) * cores / tasks + 0.02 * cores / tasks;
}

/* The window where sizes are what they may be like. */
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
  for (uint32_t which = 0; which < 8; which++) { /* whole ones, and the rests */
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
