/* Tiling of the matmuls of a kernel.
 *
 * A register tile of the result accumulates all terms.  One operand is
 * broadcast.  The other operand is a vector, packed into panels that the caches
 * hold: Goto and van de Geijn, Anatomy of high-performance matrix
 * multiplication, 2008.  Each thread packs its own panels, since reading memory
 * that another core has written is slower. */
#include "backend/cpu/cost.h"
#include "backend/cpu/gemm_chooser.h"
#include "backend/cpu/prepack.h"
#include "machine/machine.h"
#include "machine/limits/cpu.h"
#include "machine/limits/planner.h"
#include "support/arena.h"

#include <string.h>

/* ---- shape of tasks ---- */

static bool match_product(const GemmChooser *c, uint32_t loop_index,
                          ContractionPattern *p) {
  const LoopNest *loop = c->k->loops.at[loop_index];
  return c->any_size ? contraction_match_any_size(c->arena, loop, p)
                     : contraction_match(c->arena, loop, p);
}

static void find_products(GemmChooser *c) {
  c->count = 0;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    c->is_product[j] = match_product(c, j, &c->products[j]);
    c->count += c->is_product[j];
  }
}

/* Returns true if each matmul can be vectorized along n. */
static bool vectorizes_all_products(const GemmChooser *c, uint32_t n) {
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    uint32_t m, with_n;
    if (!c->is_product[j])
      continue;
    if (!contraction_operand_sides(c->k->loops.at[j], &c->products[j], n, &m,
                                   &with_n) ||
        !with_n || m >= c->k->parallel_axes)
      return false;
  }
  return true;
}

static double strided_access_work(const GemmChooser *c, uint32_t v) {
  double work = 0;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    const LoopNest *loop = c->k->loops.at[j];
    if (!c->is_product[j])
      work += loop_iterations_hint(loop, 0, loop->axis_count) *
              gemm_operand_strided_accesses(loop, v);
    double points = loop_iterations_hint(loop, 0, loop->spatial_axes);
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].global_index)
        work += points * (loop->outputs.at[i].global_index->coef[v] != 1);
  }
  return work;
}

/* Work of the lanes that stay idle on an axis shorter than a quarter of a
 * vector, such as the columns of a 3 x 3 weight gradient. */
static double idle_lane_work(const GemmChooser *c, uint32_t v) {
  const LoopNest *loop = c->k->loops.at[0];
  int64_t extent = loop_extent_hint(loop, v);
  if (4 * extent > (int64_t)c->s->width)
    return 0;
  double work = loop_iterations_hint(loop, 0, loop->axis_count);
  return work / (double)(extent > 0 ? extent : 1);
}

/* The parallel axis for vectors: the one with the least strided work, and the
 * longest of these. */
static uint32_t choose_outer_vector_axis(const GemmChooser *c) {
  const LoopNest *loop = c->k->loops.at[0];
  uint32_t best = NO_AXIS;
  double min = 0;
  for (uint32_t v = c->k->parallel_axes; v-- > 0;) {
    if (!vectorizes_all_products(c, v))
      continue;
    double work = strided_access_work(c, v) + idle_lane_work(c, v);
    if (best == NO_AXIS || work < min ||
        (work == min &&
         loop_extent_hint(loop, v) > loop_extent_hint(loop, best))) {
      best = v;
      min = work;
    }
  }
  return best;
}

static Dtype accumulator_type(const LoopNest *loop) {
  return loop->ops.at[loop->outputs.at[0].value_op].dtype;
}

/* Returns true if positions that continue from row to row leave fewer lanes
 * idle than separate rows, for a window that does not slide. */
static bool row_positions_pay(const GemmChooser *c, int64_t m, int64_t rows,
                              int64_t columns) {
  double waste = (double)round_up(columns, c->s->width) / (double)columns;
  double position_waste =
      (double)round_up(rows * columns, c->s->width) / (double)(rows * columns);
  return m >= MIN_WINDOW_M && waste > MAX_LANE_WASTE * position_waste;
}

/* Returns true if the few columns leave many lanes idle and there are enough
 * rows for vectors.  Then packing the operand once, with its columns as rows of
 * a tile, is faster. */
static bool transposed_tile_pays(const GemmChooser *c, int64_t m,
                                 int64_t columns) {
  double waste = (double)round_up(columns, c->s->width) / (double)columns;
  return m >= MIN_WINDOW_M && waste > MAX_LANE_WASTE &&
         !contraction_is_bf16(c->k->loops.at[0]);
}

/* Returns true if the window of a small task fits in MAX_WINDOW_BYTES. */
static bool window_fits(const GemmChooser *c, const LoopNest *b,
                        uint32_t row_axis, uint32_t n) {
  ConvWindow *w = conv_window_new(c->arena, b, row_axis, n);
  int64_t columns = loop_extent_hint(b, n);
  columns = columns < MIN_WINDOW_COLUMNS ? columns : 2 * MIN_WINDOW_COLUMNS;
  return w && conv_window_set_size(w, 2, columns, c->s->width) &&
         (double)extent_hint(b->graph, w->plane_count) *
                 (double)extent_hint(b->graph, w->plane_elements) *
                 sizeof(double) <=
             MAX_WINDOW_BYTES;
}

/* The axis of image rows for a window that slides along n or along this axis;
 * NO_AXIS: there is none. *use_window: a convolution window is profitable. */
static uint32_t find_window_rows(const GemmChooser *c, uint32_t m, uint32_t n,
                                 uint32_t with_n, bool *use_window) {
  const LoopNest *loop = c->k->loops.at[0];
  const ContractionPattern *p = &c->products[0];
  const LoopNest *b = gemm_operand_loop(c->arena, loop, p, with_n,
                                        accumulator_type(loop), true);
  uint64_t a_vars = 0, b_vars = 0;
  for (uint32_t j = 0; j < p->factor_count; j++)
    *(with_n >> j & 1 ? &b_vars : &a_vars) |= p->op_vars[p->factors[j]];
  SlidingAccess r;
  bool symbolic = kernel_is_symbolic(c->k);
  *use_window = false;
  if ((symbolic && (!c->k->allow_conv_windows || c->s->width == 1)) ||
      !conv_sliding_access(b, n, &r))
    return NO_AXIS;
  *use_window = conv_access_slides(&r);
  uint32_t best = NO_AXIS;
  int64_t max = -1;
  for (uint32_t v = 0; v < c->k->parallel_axes; v++) {
    if (v == m || v == n || !(b_vars >> v & 1) || a_vars >> v & 1 ||
        !conv_sliding_access(b, v, &r))
      continue;
    int64_t span = conv_access_slides(&r) ? extent_hint(b->graph, r.span) : 0;
    if (span < max || loop_extent_hint(loop, v) < 2)
      continue;
    max = span;
    best = v;
  }
  bool slides = max > 0;
  if (best != NO_AXIS && !slides && !*use_window && !symbolic)
    slides = row_positions_pay(c, loop->extents[m], loop->extents[best],
                               loop->extents[n]);
  *use_window |= slides;
  if (best == NO_AXIS && !*use_window && !symbolic)
    *use_window = transposed_tile_pays(c, loop->extents[m], loop->extents[n]);
  *use_window = *use_window && window_fits(c, b, best, n);
  return best;
}

/* The parallel axes of which b, the operand with axis n, is independent, except
 * for the rows m. */
static uint64_t batch_axes_without_b(const GemmChooser *c, uint32_t n,
                                     uint32_t *m) {
  const LoopNest *loop = c->k->loops.at[0];
  const ContractionPattern *p = &c->products[0];
  uint32_t with_n;
  uint64_t b_vars = 0;
  if (!contraction_operand_sides(loop, p, n, m, &with_n) || !with_n)
    return 0;
  for (uint32_t j = 0; j < p->factor_count; j++)
    if (with_n >> j & 1)
      b_vars |= p->op_vars[p->factors[j]];
  return ~b_vars & ~((uint64_t)1 << *m) &
         (((uint64_t)1 << c->k->parallel_axes) - 1);
}

/* Returns true if the work of packing b for each matmul of the batch is a large
 * part of a deep product with few rows. */
static bool shared_panels_pay(const GemmChooser *c, uint32_t m, uint32_t n,
                              uint64_t batch) {
  const LoopNest *loop = c->k->loops.at[0];
  double sharing = 1, rows = (double)loop_extent_hint(loop, m),
         depth =
             loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
  for (uint32_t v = 0; v < c->k->parallel_axes; v++)
    if (batch >> v & 1)
      sharing *= (double)loop_extent_hint(loop, v);
  double columns = (double)loop_extent_hint(loop, n);
  double row_bytes =
      sharing * columns * dtype_info[accumulator_type(loop)].bytes;
  double panel_rows = 2 * c->s->width * PACK_CYCLES * (1 - 1 / sharing);
  return depth > MAX_KC && MIN_SHARED_PACKING * rows <= panel_rows &&
         rows * sharing >= MIN_CONTRACTION_M && columns >= MIN_CONTRACTION_N &&
         row_bytes * MIN_STRIP_MINED_ROWS <= MAX_TASK_LOCAL_BYTES;
}

/* Makes the axes of `inner` spatial axes that are not parallel, in front of
 * axis n, which becomes the last one.  The last parallel axis becomes m. */
static void make_inner_axes(Kernel *k, uint64_t inner, uint32_t m, uint32_t n) {
  uint32_t order[MAX_KERNEL_AXES], count = 0, kept;
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    if (v != m && v != n && !(inner >> v & 1))
      order[count++] = v;
  order[count++] = m;
  kept = count;
  for (uint32_t v = 0; v < k->parallel_axes; v++)
    if (inner >> v & 1)
      order[count++] = v;
  order[count++] = n;
  uint64_t moved = 0;
  for (uint32_t j = 0; j < count; j++) {
    uint64_t before = moved & (((uint64_t)1 << order[j]) - 1);
    kernel_move_axis_last(k, order[j] - (uint32_t)__builtin_popcountll(before));
    moved |= (uint64_t)1 << order[j];
  }
  kernel_make_axes_inner(k, kept);
}

/* For a batch of matmuls with the same b, which is packed once for all of them,
 * such as a weight gradient of a convolution, where each tap of the filter is a
 * matmul: tasks are rows, and the batch axes are inner axes. */
static bool choose_shared_panels(GemmChooser *c) {
  const LoopNest *loop = c->k->loops.at[0];
  uint32_t best = NO_AXIS, best_m = 0;
  uint64_t best_batch = 0;
  for (uint32_t n = 0; n < c->k->parallel_axes; n++) {
    uint32_t m;
    uint64_t batch = batch_axes_without_b(c, n, &m);
    if (!batch || !shared_panels_pay(c, m, n, batch) ||
        (best != NO_AXIS &&
         loop_extent_hint(loop, n) <= loop_extent_hint(loop, best)))
      continue;
    best = n, best_m = m, best_batch = batch;
  }
  if (best == NO_AXIS)
    return false;
  make_inner_axes(c->k, best_batch, best_m, best);
  c->s->task_kind = TASK_ROWS;
  return c->k->shares_panels = true;
}

/* Chooses the tasks of a kernel that is scheduled again: its axes have
 * moved. */
static bool choose_same_shared_panels(GemmChooser *c) {
  if (!c->k->shares_panels)
    return false;
  c->any_size = true;
  find_products(c);
  c->s->task_kind = TASK_ROWS;
  return true;
}

/* The same for matmuls with so few rows that each alone is none. */
static bool choose_shared_panels_of_few_rows(GemmChooser *c) {
  if (c->k->loops.len != 1 || c->k->accumulated_axes ||
      c->k->loops.at[0]->spatial_axes != c->k->parallel_axes)
    return false;
  c->any_size = true;
  find_products(c);
  return c->count && choose_shared_panels(c);
}

/* Returns true if an operand is read through a window that slides along a
 * parallel axis. */
static bool has_sliding_window(const GemmChooser *c) {
  const LoopNest *loop = c->k->loops.at[0];
  const ContractionPattern *p = &c->products[0];
  for (uint32_t v = 0; v < c->k->parallel_axes; v++) {
    uint32_t m, with_v;
    SlidingAccess r;
    if (contraction_operand_sides(loop, p, v, &m, &with_v) &&
        conv_sliding_access(gemm_operand_loop(c->arena, loop, p, with_v,
                                              accumulator_type(loop), true),
                            v, &r) &&
        conv_access_slides(&r))
      return true;
  }
  return false;
}

/* For a kernel whose only matmul has only parallel axes: tasks are tiles of the
 * result. */
static bool choose_tile_tasks(GemmChooser *c) {
  uint32_t m, with_n, outer = c->k->parallel_axes;
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->k->loops.at[j]->spatial_axes > outer)
      return false;
  if (c->count != 1 || !c->is_product[0] || outer < 2)
    return false;
  uint32_t n = choose_outer_vector_axis(c);
  if (n == NO_AXIS)
    return false;
  contraction_operand_sides(c->k->loops.at[0], &c->products[0], n, &m, &with_n);
  uint32_t row_axis = find_window_rows(c, m, n, with_n, &c->through_window);
  if (c->k->loops.len == 1 && (!c->through_window || !has_sliding_window(c)) &&
      choose_shared_panels(c)) {
    c->through_window = false;
    return true;
  }
  if (c->through_window && row_axis != NO_AXIS) {
    c->s->task_image_rows = 1;
    kernel_move_axis_last(c->k, row_axis);
    m -= m > row_axis;
    n -= n > row_axis;
  }
  kernel_move_axis_last(c->k, m);
  kernel_move_axis_last(c->k, n - (n > m));
  c->s->task_kind = TASK_TILE;
  return true;
}

/* True if a loop that accumulates along rows can be tiled: it has two more
 * axes, each with its own operand, and adds directly to the result. */
static bool accumulates_in_tiles(const GemmChooser *c, uint32_t loop_index) {
  const LoopNest *loop = c->k->loops.at[loop_index];
  const ContractionPattern *p = &c->products[loop_index];
  const LoopOutput *r = &loop->outputs.at[0];
  uint32_t m = loop->parallel_axes, n = m + 1, of, with_n;
  if (!c->is_product[loop_index] || loop->axis_count != loop->spatial_axes ||
      loop->spatial_axes != n + 1 || !r->global_index || r->local_index ||
      r->global_index->coef[n] != 1 || r->dtype != accumulator_type(loop) ||
      !contraction_operand_sides(loop, p, n, &of, &with_n))
    return false;
  uint64_t vars[2] = {0, 0};
  for (uint32_t j = 0; j < p->factor_count; j++)
    vars[with_n >> j & 1] |= p->op_vars[p->factors[j]];
  return (vars[0] >> m & 1) && !(vars[0] >> n & 1) && (vars[1] >> n & 1) &&
         !(vars[1] >> m & 1);
}

/* The parallel axes that are rows of all matmuls with spatial axes that are not
 * parallel. */
static uint64_t common_row_axes(const GemmChooser *c) {
  uint64_t common = ((uint64_t)1 << c->k->parallel_axes) - 1;
  bool found = false;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    const LoopNest *loop = c->k->loops.at[j];
    uint32_t with_n;
    if (!c->is_product[j] || loop->accumulated_axes)
      continue;
    found = true;
    common &= contraction_row_axes(loop, &c->products[j],
                                   loop->spatial_axes - 1, &with_n);
    if (loop->spatial_axes == loop->parallel_axes || !with_n)
      return 0;
  }
  return found ? common : 0;
}

/* For matmuls with spatial axes that are not parallel: tasks are rows, and
 * vectors lie along the last spatial axis. */
static bool choose_row_tasks(GemmChooser *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->k->loops.at[j]->accumulated_axes && !accumulates_in_tiles(c, j))
      return false;
  uint64_t rows = common_row_axes(c);
  uint32_t m = loop_largest_axis(c->k->loops.at[0], rows);
  if (!rows || (c->k->accumulated_axes &&
                m < c->k->parallel_axes - c->k->accumulated_axes))
    return false;
  kernel_move_axis_last(c->k, m);
  c->s->task_kind = TASK_ROWS;
  return true;
}

/* ---- sizes ---- */

int64_t gemm_rows(const GemmTiling *t, const LoopNest *loop) {
  int64_t rows;
  return extent_mul(loop->graph, loop->extents[t->m_axis], t->batch_rows, &rows)
             ? rows
             : INT64_MAX;
}

static int64_t reduction_depth(const LoopNest *loop) {
  int64_t depth;
  return extent_product(loop->graph, loop->axis_count - loop->spatial_axes,
                        loop->extents + loop->spatial_axes, &depth)
             ? depth
             : INT64_MAX;
}

/* Returns true if rows and columns are the innermost axes of the result and
 * their extents are constant. */
static bool is_constant_innermost(const LoopNest *loop, const AffineExpr *out) {
  uint32_t last = loop->parallel_axes - 1;
  int64_t size = 1;
  for (uint32_t v = loop->parallel_axes; v-- > 0;)
    if (out->coef[v] != size ||
        !extent_mul(loop->graph, size, loop->extents[v], &size))
      return false;
  return extent_is_static(loop->graph, loop->extents[last]) &&
         extent_is_static(loop->graph, loop->extents[last - 1]);
}

/* Returns true if the reduction is so deep, and the result so small, that only
 * split-K gives all threads work. */
static bool split_k_pays(const GemmChooser *c, const GemmTiling *t,
                         const GemmProblem *g) {
  const LoopNest *loop = c->k->loops.at[0];
  const LoopOutput *r = &loop->outputs.at[0];
  double columns = (double)t->nr_vectors * c->s->width;
  return r->global_index && g->n < MAX_SPLIT_K_PANELS * columns &&
         g->m <= MAX_SPLIT_K_ROWS && g->batch < MAX_SPLIT_K_BATCH &&
         g->depth >= MIN_SPLIT_K_DEPTH && c->k->loops.len == 1 &&
         is_constant_innermost(loop, r->global_index);
}

/* Number of equal row tasks of a symbolic number of rows; 0: rows are constant.
 * A task has at most `task_height` rows, and fewer if that gives more threads
 * work. */
static int64_t symbolic_row_tasks(const LoopNest *loop, const GemmTiling *t,
                                  int64_t row_tasks, int64_t task_height) {
  Graph *g = loop->graph;
  int64_t m = loop->extents[t->m_axis], min, max;
  if (extent_is_static(g, m) || !extent_ceil_div(g, m, task_height, &min) ||
      !extent_ceil_div(g, m, MAX_MC, &max))
    return 0;
  row_tasks =
      row_tasks < SYMBOLIC_MAX_ROW_TASKS ? row_tasks : SYMBOLIC_MAX_ROW_TASKS;
  return extent_max(g, min, extent_min(g, max, row_tasks));
}

static void choose_tile_sizes(GemmChooser *c, GemmTiling *t) {
  const LoopNest *loop = c->k->loops.at[0];
  const GemmFields *set = gemm_fields_set(c->s, 0);
  GemmProblem g = gemm_problem(loop, t, c->s->width);
  g.task_height = set->of[GEMM_ROWS];
  g.task_columns = set->of[GEMM_COLUMNS];
  if (!g.task_height && !g.task_columns && split_k_pays(c, t, &g)) {
    int64_t depth = (int64_t)g.depth;
    g.task_height = round_up((int64_t)g.m, t->mr);
    g.task_columns =
        round_up((int64_t)g.n, (int64_t)t->nr_vectors * c->s->width);
    c->s->reduction_chunk =
        balanced_block(depth, ceil_div(depth, SPLIT_K_PARTS), t->kc);
  } else {
    gemm_partition_choose(&g, t, loop->graph->extent_table != NULL);
  }
  t->nc = c->s->last_axis_block = g.task_columns;
  t->mc = balanced_block(g.task_height, MAX_MC, t->mr);
  c->s->task_height = g.task_height;
  if (!set->of[GEMM_ROWS])
    c->s->row_task_count = symbolic_row_tasks(
        loop, t, ceil_div((int64_t)g.m, g.task_height), g.task_height);
  t->epilogue_per_block = !loop->outputs.at[0].global_index &&
                          extent_is_static(loop->graph, t->depth) &&
                          t->pack_kc >= t->depth;
}

static bool has_trim_bounds(const Kernel *k) {
  return k->trim_bounds.len > 0;
}

/* Bytes of the intermediates of a row, or of one strip of it. */
static double local_bytes(const GemmChooser *c) {
  double bytes = kernel_local_bytes(c->k, false);
  for (uint32_t j = c->k->strip_begin; j < c->k->strip_end; j++) {
    const LoopNest *loop = c->k->loops.at[j];
    for (uint32_t i = 0; loop->strip_mined && i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      if (r->local_index && loop_output_has_axis(loop, r, loop->trimmed_axis))
        bytes -= (double)(extent_hint(loop->graph, r->local_elements) -
                          c->s->strip_length) *
                 dtype_info[r->dtype].bytes;
    }
  }
  return bytes;
}

/* Strip-mines the rows if a cache holds the intermediates of too few rows for a
 * register tile. */
static void choose_strip_mining(GemmChooser *c) {
  double local_bytes_per_row = kernel_local_bytes(c->k, false);
  double min_rows =
      c->k->accumulated_axes ? MIN_ACCUMULATED_ROWS : MIN_STRIP_MINED_ROWS;
  if (c->s->task_kind == TASK_ROWS &&
      local_bytes_per_row * min_rows > MAX_TASK_LOCAL_BYTES &&
      kernel_strip_mine(c->k)) {
    c->s->strip_length = STRIP_ELEMENTS;
    find_products(c);
  }
}

/* The fields of row tasks are those of the first matmul. */
static int64_t set_of_first_product(const GemmChooser *c, GemmField field) {
  uint32_t first = 0;
  while (!c->is_product[first])
    first++;
  return gemm_fields_set(c->s, first)->of[field];
}

/* Chooses the rows of a task whose matmuls share panels. */
static void choose_shared_rows(GemmChooser *c, const GemmTiling *t) {
  const LoopNest *loop = c->k->loops.at[0];
  GemmProblem g = gemm_problem(loop, t, c->s->width);
  gemm_partition_choose_rows(&g, t, loop->graph->extent_table != NULL);
  int64_t max = (int64_t)(MAX_TASK_LOCAL_BYTES / local_bytes(c));
  int64_t rows = g.task_height < max ? g.task_height : max;
  rows = rows > 0 ? rows : 1;
  int64_t set = set_of_first_product(c, GEMM_ROWS);
  c->s->last_axis_block = c->s->last_axis_span = set ? set : rows;
}

/* Chooses the rows that are computed together, and the rows of a task, which
 * share packed operands. */
static void choose_row_sizes(GemmChooser *c, uint32_t tile_rows) {
  int64_t extent = loop_extent_hint(c->k->loops.at[0], c->k->parallel_axes - 1);
  double local_bytes_per_row = local_bytes(c),
         points = gemm_chooser_batch_points(c, 1);
  int64_t rows = MAX_MC, span = extent;
  if (has_trim_bounds(c->k))
    rows = 2 * tile_rows > extent / MIN_TRIMMED_BLOCKS
               ? 2 * tile_rows
               : extent / MIN_TRIMMED_BLOCKS / tile_rows * tile_rows;
  rows = rows < MAX_MC ? rows : MAX_MC;
  while (rows > tile_rows &&
         local_bytes_per_row * (double)rows > MAX_TASK_LOCAL_BYTES)
    rows -= tile_rows;
  while (span > rows && !c->k->accumulated_axes &&
         points * (double)ceil_div(extent, span) < GEMM_MIN_TASKS)
    span = ceil_div(span, 2);
  int64_t set_rows = set_of_first_product(c, GEMM_ROWS),
          set_span = set_of_first_product(c, GEMM_SPAN);
  c->s->last_axis_block = set_rows ? set_rows : rows < extent ? rows : extent;
  c->s->last_axis_span =
      round_up(set_span ? set_span : span, c->s->last_axis_block);
}

/* ---- entry point ---- */

/* Returns true if rows of bf16 pairs can be read in place.  Then each row
 * begins with the first element of a pair and ends with the second. */
static bool has_contiguous_pairs(const LoopNest *loop, uint32_t m) {
  const KernelOp *s = gemm_operand_unpacked_load(loop, DT_I32);
  return s && s->kind == KOP_LOAD && s->packed_pairs && !s->packed_elements &&
         s->address->coef[m] % 2 == 0;
}

static void use_bf16_dot(GemmChooser *c, GemmTiling *t) {
  t->element_dtype = DT_I32;
  t->a.loop = bf16_dot_operand(c->arena, t->a.loop,
                               t->a.packing == OPERAND_PACK_A_ROWS);
  t->b.loop = bf16_dot_operand(c->arena, t->b.loop,
                               t->b.packing == OPERAND_PACK_B_TRANSPOSED);
  if (has_contiguous_pairs(t->a.loop, t->m_axis))
    t->a.packing = OPERAND_UNPACKED;
  if (!extent_ceil_div(c->k->graph, t->depth, 2, &t->depth))
    t->depth = INT64_MAX;
}

/* Terms of a cache block: whole runs of the last axis, if its vectors pack an
 * operand and it is short. */
static int64_t choose_kc(const GemmTiling *t, const LoopNest *loop,
                         const GemmFields *set) {
  const LoopNest *a = t->a.loop;
  int64_t run = 1, depth = extent_hint(loop->graph, t->depth);
  if (t->a.packing == OPERAND_PACK_A_ROWS &&
      a->axis_count > a->spatial_axes + 1 &&
      loop_extent_hint(a, a->axis_count - 1) <= MAX_KC)
    run = loop_extent_hint(a, a->axis_count - 1);
  return set->of[GEMM_KC] ? set->of[GEMM_KC]
                          : balanced_block(depth, MAX_KC / run * run, run);
}

static void make_gemm_tiling(GemmChooser *c, uint32_t loop_index) {
  const LoopNest *loop = c->k->loops.at[loop_index];
  GemmTiling *t = &c->s->gemm_tilings->by_loop[loop_index];
  const GemmFields *set = gemm_fields_set(c->s, loop_index);
  ContractionPattern *p = &c->products[loop_index];
  contraction_match(c->arena, loop, p); /* axes have moved */
  uint32_t with_n, outer = c->k->parallel_axes;
  t->is_gemm = true;
  t->n_axis = c->s->task_kind == TASK_ROWS ? loop->spatial_axes - 1 : outer - 1;
  contraction_operand_sides(loop, p, t->n_axis, &t->m_axis, &with_n);
  t->m_axis = c->s->task_kind == TASK_TILE ? outer - 2
              : loop->accumulated_axes     ? outer
                                           : outer - 1;
  t->accumulator_dtype = accumulator_type(loop);
  t->a.loop = gemm_operand_loop(c->arena, loop, p, ~with_n,
                                t->accumulator_dtype, c->through_window);
  t->b.loop = gemm_operand_loop(c->arena, loop, p, with_n, t->accumulator_dtype,
                                c->through_window);
  t->element_dtype = t->accumulator_dtype;
  t->depth =
      loop->accumulated_axes ? loop->extents[outer - 1] : reduction_depth(loop);
  gemm_operand_choose_packing(t, loop, c->s);
  bool is_trimmed = (loop->trim_bounds || loop->strip_mined) &&
                    loop->trimmed_axis >= loop->spatial_axes;
  if (c->through_window) {
    uint32_t row_axis = c->s->task_image_rows ? outer - 3 : NO_AXIS;
    t->window = conv_window_new(c->arena, t->b.loop, row_axis, t->n_axis);
    t->b.packing = OPERAND_PACK_B_IM2COL;
  } else if (!is_trimmed && !loop->accumulated_axes &&
             (!loop_is_symbolic(loop) || c->k->native_only) &&
             bf16_dot_applies(c->s, t)) { /* a trim bound may split a pair */
    use_bf16_dot(c, t);
  }
  t->shares_panels = c->k->shares_panels;
  t->batch_rows = 1;
  if (t->shares_panels && t->a.packing == OPERAND_PACK_A_ROWS &&
      !extent_product(loop->graph, loop->spatial_axes - outer - 1,
                      loop->extents + outer, &t->batch_rows))
    t->batch_rows = 1;
  t->kc = loop->accumulated_axes ? MAX_MC /* the rows of a block */
                                 : choose_kc(t, loop, set);
}

/* The rates by which a register tile is chosen.  Where it decides about the
 * order of sums, measurements must not: about split-K, the length of a strip,
 * rows that are summed together, and the version for symbolic sizes. */
static const CoreRates *rates_of_tile(const GemmChooser *c, int64_t depth) {
  bool changes_no_sum = c->s->task_kind == TASK_TILE &&
                        depth < MIN_SPLIT_K_DEPTH && !kernel_is_symbolic(c->k);
  return changes_no_sum ? machine_core_rates() : machine_reference_rates();
}

static void choose_gemm_sizes(GemmChooser *c, uint32_t loop_index) {
  GemmTiling *t = &c->s->gemm_tilings->by_loop[loop_index];
  const LoopNest *loop = c->k->loops.at[loop_index];
  const GemmFields *set = gemm_fields_set(c->s, loop_index);
  if (t->window) {
    conv_tiling_choose(c, t, set);
    return;
  }
  int64_t rows = gemm_rows(t, loop), m = extent_hint(loop->graph, rows),
          n = loop_extent_hint(loop, t->n_axis);
  int64_t depth = extent_hint(loop->graph, t->depth);
  int64_t bytes = dtype_info[t->accumulator_dtype].bytes;
  t->micro = set->micro;
  t->reads_b_unpacked = gemm_operand_may_read_b_unpacked(t, loop, c->s);
  if (t->reads_b_unpacked)
    t->b.packing = OPERAND_UNPACKED;
  TileChoice choice = {.loop = loop,
                       .m = m,
                       .lanes = c->s->width,
                       .m_is_constant = extent_is_static(loop->graph, rows),
                       .rates = rates_of_tile(c, depth)};
  register_tile_choose(t, c->s, set, &choice);
  t->prefetch_b =
      t->reads_b_unpacked && (double)n * (double)depth * (double)bytes >
                                 (double)machine()->cache_bytes[2];
  register_tile_choose_edges(t, loop, c->s->width);
  int64_t batch_rows = extent_hint(loop->graph, t->batch_rows);
  t->mc = batch_rows == 1 ? balanced_block(m, MAX_MC, t->mr)
                          : ceil_div(MAX_MC, batch_rows);
  t->nc = balanced_block(n, MAX_NC, (int64_t)t->nr_vectors * c->s->width);
  /* An epilogue that runs directly after a tile needs all terms. */
  bool stores_directly = loop->outputs.at[0].global_index != NULL;
  int64_t columns = 4 * (int64_t)t->nr_vectors * c->s->width;
  int64_t max = MAX_PACKED_BYTES / (columns * bytes) / t->kc * t->kc;
  t->pack_kc = stores_directly || t->shares_panels ? t->kc
               : depth < max                       ? depth
                                                   : max;
  t->hoists_packing = c->s->task_kind == TASK_ROWS && !loop->accumulated_axes &&
                      t->b.packing != OPERAND_UNPACKED &&
                      loop->spatial_axes == loop->parallel_axes + 1 &&
                      (double)depth * (double)n * (double)bytes <=
                          (loop->strip_mined ? MAX_STRIP_MINED_PANEL_BYTES
                                             : MAX_HOISTED_PANEL_BYTES);
  for (uint32_t j = 0; j < t->b.loop->ops.len; j++)
    t->hoists_packing &= t->b.loop->ops.at[j].kind != KOP_LOAD_LOCAL;
  if (t->hoists_packing) {
    int64_t width = (int64_t)t->nr_vectors * c->s->width;
    t->pack_kc = t->depth;
    t->hoists_packing =
        extent_ceil_div(loop->graph, loop->extents[t->n_axis], width, &t->nc) &&
        extent_mul(loop->graph, t->nc, width, &t->nc);
  }
}

uint64_t gemm_tiling_sliding_axes(Arena *arena, const LoopNest *loop,
                                  uint32_t *rows) {
  uint64_t terms = 0;
  ContractionPattern p;
  if (!contraction_match(arena, loop, &p))
    return 0;
  for (uint32_t v = 0; v < loop->parallel_axes; v++) {
    uint32_t m, with_n;
    SlidingAccess r;
    if (!contraction_operand_sides(loop, &p, v, &m, &with_n) ||
        !conv_sliding_access(contraction_operand_loop(arena, loop, &p, with_n,
                                                      accumulator_type(loop)),
                             v, &r))
      continue;
    for (uint32_t k = loop->spatial_axes; k < loop->axis_count; k++)
      terms |= (uint64_t)(r.dilation[k] != 0) << k;
    if (conv_access_slides(&r))
      *rows = m;
  }
  return terms;
}

/* Makes each matmul store its accumulators directly, or to a local buffer that
 * a later loop reads. */
static void split_off_stores(GemmChooser *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    LoopNest *loop = c->k->loops.at[j];
    ContractionPattern p;
    if (!match_product(c, j, &p))
      continue;
    const LoopOutput *r = &loop->outputs.at[0];
    uint32_t n = c->s->task_kind == TASK_ROWS ? loop->spatial_axes - 1
                                              : c->k->parallel_axes - 1;
    bool plain = r->global_index && !r->local_index &&
                 r->global_index->coef[n] == 1 && !c->through_window &&
                 !c->k->shares_panels;
    /* the sums of several strips are stored when they are complete */
    plain &= !c->k->accumulated_axes || loop->accumulated_axes > 0;
    if ((r->global_index && !plain) || r->dtype != accumulator_type(loop))
      kernel_split_store_loop(c->k, j);
  }
  find_products(c);
}

static int64_t panel_columns(const GemmChooser *c, uint32_t loop_index) {
  return (int64_t)c->s->gemm_tilings->by_loop[loop_index].nr_vectors *
         c->s->width;
}

/* The strips have whole panels of the first matmul in them. */
static void choose_strip_length(GemmChooser *c) {
  uint32_t first = c->k->strip_begin;
  while (!c->is_product[first])
    first++;
  int64_t set = gemm_fields_set(c->s, first)->of[GEMM_STRIP],
          length = set ? set : STRIP_ELEMENTS, panel = panel_columns(c, first);
  length -= length % panel;
  c->s->strip_length = length ? length : panel;
}

/* Row blocks of one run that use all of an operand with columns along axis n:
 * blocks of `rows` rows of all matmuls. */
static double row_block_count(const GemmChooser *c, uint32_t n, double rows) {
  const LoopNest *loop = c->k->loops.at[0];
  uint32_t outer = c->k->parallel_axes;
  double points = loop_iterations_hint(loop, 0, outer);
  return points / rows / (n < outer ? (double)loop_extent_hint(loop, n) : 1);
}

static void choose_prepacking(const GemmChooser *c, const LoopNest *loop,
                              GemmTiling *t) {
  bool vectorize_channels = gemm_is_along_channels(t);
  uint32_t n = vectorize_channels ? t->m_axis : t->n_axis;
  Operand *o = vectorize_channels ? &t->a : &t->b;
  o->may_prepack = prepack_may_keep(loop, t, o, n);
  if (gemm_groups_terms(t)) /* the prepacked operand is contiguous */
    t->prefetch_a &= o->may_prepack;
  if (!o->may_prepack)
    return;
  double rows = (double)(vectorize_channels             ? c->s->task_positions
                         : c->s->task_kind == TASK_TILE ? c->s->task_height
                         : t->hoists_packing            ? c->s->last_axis_span
                                             : c->s->last_axis_block);
  double elements = (double)t->depth * (double)o->loop->extents[n];
  o->prepack_pays = prepack_pays(o, elements, c->s->width, rows);
  o->packs_once =
      o->prepack_pays && row_block_count(c, n, rows) >= MIN_PACKED_ROW_BLOCKS;
}

static void choose_all_packing(const GemmChooser *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->is_product[j]) {
      GemmTiling *t = &c->s->gemm_tilings->by_loop[j];
      choose_prepacking(c, c->k->loops.at[j], t);
      gemm_pack_choose(c->k, c->s, t);
      t->nest = gemm_nest_choose(c->k, c->s, t, c->k->loops.at[j],
                                 j + 1 < c->k->loops.len);
    }
}

bool gemm_tilings_have_micro_kernel(const Kernel *k, const Schedule *s) {
  for (uint32_t j = 0; s->gemm_tilings && j < k->loops.len; j++)
    if (s->gemm_tilings->by_loop[j].micro)
      return true;
  return false;
}

bool gemm_tiling_choose(Kernel *k, Schedule *s) {
  if (k->loops.len > MAX_KERNEL_LOOPS / 2)
    return false;
  GemmChooser *c = NEW(k->arena, GemmChooser);
  c->arena = k->arena;
  c->k = k;
  c->s = s;
  find_products(c);
  if (!choose_same_shared_panels(c) &&
      !(c->count ? choose_tile_tasks(c) || choose_row_tasks(c)
                 : choose_shared_panels_of_few_rows(c)))
    return false;
  split_off_stores(c);
  if (s->task_kind == TASK_ROWS)
    kernel_trim(k, TRIM_TILES);
  choose_strip_mining(c);
  s->gemm_tilings = NEW(k->arena, GemmTilings);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is_product[j])
      make_gemm_tiling(c, j);
  uint32_t rows = 1;
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is_product[j]) {
      choose_gemm_sizes(c, j);
      if (!k->loops.at[j]->accumulated_axes)
        rows = s->gemm_tilings->by_loop[j].mr;
    }
  if (c->through_window) {
    choose_all_packing(c);
    return true;
  }
  if (s->strip_length)
    choose_strip_length(c);
  if (s->task_kind == TASK_TILE)
    choose_tile_sizes(c, &s->gemm_tilings->by_loop[0]);
  else if (c->k->shares_panels)
    choose_shared_rows(c, &s->gemm_tilings->by_loop[0]);
  else
    choose_row_sizes(c, rows);
  choose_all_packing(c);
  return true;
}
