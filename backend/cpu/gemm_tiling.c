/* Tiling of the matmuls of a kernel.
 *
 * * A register tile of the result accumulates all terms.  One operand is
 * broadcast.  The other operand is a vector, packed into panels that the caches
 * hold: Goto and van de Geijn, Anatomy of high-performance matrix
 * multiplication, 2008.  Each thread packs its own panels, since reading memory
 * that another core has written is slower. */
#include "backend/cpu/prepack.h"

#include "backend/cpu/cpu.h"
#include "machine/machine.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#include <string.h>

/* ---- register tile ---- */

static const MicroTile *micro_tiles(const Schedule *s, uint32_t *count) {
  static const MicroTile tiles_32_registers[] = {
      {6, 4}, {8, 3}, {12, 2}, {8, 2}, {4, 4}, {24, 1}, {16, 1}, {8, 1}};
  static const MicroTile tiles_16_registers[] = {
      {6, 2}, {4, 2}, {12, 1}, {8, 1}};
  bool has_32_registers =
      s->vector_bytes == 64; /* AVX-512 has 32 vector registers */
  *count = has_32_registers ? ARRAY_LEN(tiles_32_registers)
                            : ARRAY_LEN(tiles_16_registers);
  return has_32_registers ? tiles_32_registers : tiles_16_registers;
}

/* Half cycles of one term.  The machine starts two multiply-adds per cycle,
 * with a latency of four cycles, and two loads.  The last addend prefers tiles
 * with fewer loads. */
static double term_half_cycles(int64_t rows, int64_t vectors) {
  double sums = (double)(rows * vectors), loads = (double)(rows + vectors);
  double max = sums > loads ? sums : loads;
  return (max > MIN_ACCUMULATORS ? max : MIN_ACCUMULATORS) + 0.1 * loads;
}

/* Returns true if m rows consist of tiles of `rows` and of `rows` - 1 rows. */
static bool rows_divide_evenly(int64_t m, int64_t rows) {
  return m % rows == 0 || (rows - m % rows) * (rows - 1) <= m;
}

/* Rows of a tile, at most `max`, such that the number of tiles is minimal and
 * their heights are equal. */
static int64_t balanced_mr(int64_t m, int64_t max) {
  return m > 0 ? ceil_div(m, ceil_div(m, max)) : max;
}

/* m_is_constant: m is the number of rows in all calls. */
static void choose_micro_tile(GemmTiling *t, const Schedule *s, int64_t m,
                              int64_t n, bool m_is_constant) {
  uint32_t count;
  const MicroTile *shapes = micro_tiles(s, &count);
  int64_t vectors = ceil_div(n, s->width);
  double best = 0;
  for (uint32_t j = 0; j < count; j++) {
    int64_t rows = shapes[j].mr, per_tile = shapes[j].nr_vectors;
    if (m_is_constant)
      rows = balanced_mr(m, rows);
    double tile_rows_count = rows_divide_evenly(m, rows)
                                 ? (double)m / (double)rows
                                 : (double)ceil_div(m, rows);
    double time =
        (double)(vectors / per_tile) * term_half_cycles(rows, per_tile);
    if (vectors % per_tile)
      time += term_half_cycles(rows, vectors % per_tile);
    if (j > 0 && tile_rows_count * time >= best)
      continue;
    best = tile_rows_count * time;
    t->mr = (uint32_t)rows;
    t->nr_vectors = shapes[j].nr_vectors;
  }
}

/* Chooses the tiles of the edges: tiles of one row less, and of fewer
 * vectors. */
static void choose_edge_tiles(GemmTiling *t, const LoopNest *loop,
                              uint32_t width) {
  int64_t m = loop->extents[t->m_axis], n = loop->extents[t->n_axis];
  t->has_mr_minus_one = !extent_is_static(loop->graph, m) || m % t->mr != 0;
  t->has_mr_minus_one &= t->mr > 1;
  bool n_is_constant = extent_is_static(loop->graph, n);
  if (n_is_constant)
    t->last_panel_vectors = (uint32_t)(ceil_div(n, width) % t->nr_vectors);
  if (t->b.packing == OPERAND_UNPACKED && !t->last_panel_vectors &&
      (!n_is_constant || n % width))
    t->last_panel_vectors = t->nr_vectors;
}

/* ---- operands ---- */

/* Replaces the reduction axes by one axis if all addresses of the operand step
 * over them as over one axis.  The order of the terms stays the same. */
static void collapse_reduction_axes(LoopNest *loop) {
  uint32_t k = loop->spatial_axes, last = loop->axis_count - 1;
  int64_t terms;
  if (!extent_product(loop->graph, last - k + 1, loop->extents + k, &terms))
    return;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    for (uint32_t v = k; v <= last; v++)
      if (loop->floor_divs[j].dividend.coef[v])
        return;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    const AffineExpr *q = s->kind == KOP_AFFINE ? s->affine
                          : s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL
                              ? s->address
                              : NULL;
    int64_t step;
    for (uint32_t v = k; q && v < last; v++)
      if (!extent_mul(loop->graph, q->coef[v + 1], loop->extents[v + 1],
                      &step) ||
          q->coef[v] != step)
        return;
  }
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    KernelOp *s = &loop->ops.at[j];
    AffineExpr *q = s->kind == KOP_AFFINE ? s->affine
                    : s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL
                        ? s->address
                        : NULL;
    if (!q)
      continue;
    q->coef[k] = q->coef[last];
    for (uint32_t v = k + 1; v <= last; v++)
      q->coef[v] = 0;
  }
  loop->extents[k] = terms;
  loop->axis_count = k + 1;
}

static LoopNest *operand_loop(Arena *arena, const LoopNest *loop,
                              const ContractionPattern *p, uint32_t which,
                              Dtype t) {
  LoopNest *to = contraction_operand_loop(arena, loop, p, which, t);
  collapse_reduction_axes(to);
  return to;
}

/* Cost of vectors along v: a strided access counts 1; gathers and divisions
 * count more. */
static uint32_t strided_accesses(const LoopNest *loop, uint32_t v) {
  uint32_t strided = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL)
      strided += s->address->coef[v] != 0 && s->address->coef[v] != 1;
    for (uint32_t a = 0; s->kind == KOP_LOAD && a < s->checked_index_count; a++)
      strided += loop->ops.at[s->checked_indices[a].index_op].kind == KOP_AFFINE
                     ? 1
                     : 4;
  }
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    strided += loop->floor_divs[j].dividend.coef[v] != 0 ? 16 : 0;
  return strided;
}

/* The load that is the whole operand; NULL: the operand is computed. */
static const KernelOp *unpacked_load(const LoopNest *loop, Dtype t) {
  const KernelOp *s = &loop->ops.at[loop->outputs.at[0].value_op];
  bool read = s->kind == KOP_LOAD && s->checked_index_count == 0;
  if ((!read && s->kind != KOP_LOAD_LOCAL) || s->dtype != t ||
      loop->axis_count != loop->spatial_axes + 1)
    return NULL;
  for (uint32_t v = MAX_KERNEL_AXES; v < MAX_KERNEL_VARS; v++)
    if (s->address->coef[v])
      return NULL;
  return s;
}

static void choose_packing(GemmTiling *t, const LoopNest *loop,
                           const Schedule *s) {
  uint32_t k = loop->spatial_axes;
  bool single_a = t->a.loop->axis_count == k + 1,
       single_b = t->b.loop->axis_count == k + 1;
  const KernelOp *a = unpacked_load(t->a.loop, t->accumulator_dtype);
  const KernelOp *b = unpacked_load(t->b.loop, t->accumulator_dtype);
  t->a.packing = OPERAND_PACK_A_COLUMNS;
  if (single_a &&
      strided_accesses(t->a.loop, k) <= strided_accesses(t->a.loop, t->m_axis))
    t->a.packing = OPERAND_PACK_A_ROWS;
  if (a && a->address->coef[k] == 1 &&
      (a->kind == KOP_LOAD || s->task_kind == TASK_ROWS))
    t->a.packing = OPERAND_UNPACKED;
  t->b.packing = OPERAND_PACK_B;
  if (single_b &&
      strided_accesses(t->b.loop, k) < strided_accesses(t->b.loop, t->n_axis))
    t->b.packing = OPERAND_PACK_B_TRANSPOSED;
  if (b && b->kind == KOP_LOAD && b->address->coef[t->n_axis] == 1 &&
      b->address->coef[k] <= MAX_UNPACKED_STRIDE)
    t->b.packing = OPERAND_UNPACKED;
}

/* Returns true if few rows use each element of b.  Then packing b takes longer
 * than reading it in place. */
static bool may_read_b_unpacked(const GemmTiling *t, const LoopNest *loop,
                                const Schedule *s) {
  int64_t m = loop->extents[t->m_axis];
  const KernelOp *b = unpacked_load(t->b.loop, t->accumulator_dtype);
  return s->task_kind == TASK_TILE && t->b.packing == OPERAND_PACK_B &&
         t->element_dtype == t->accumulator_dtype &&
         extent_is_static(loop->graph, m) && m <= MAX_MC && b &&
         b->kind == KOP_LOAD && b->address->coef[t->n_axis] == 1;
}

/* ---- shape of tasks ---- */

typedef struct GemmChooser {
  Arena *arena;
  Kernel *k;
  Schedule *s;
  ContractionPattern products[MAX_KERNEL_LOOPS];
  bool is_product[MAX_KERNEL_LOOPS];
  bool through_window; /* the only matmul is a convolution */
  uint32_t count;
} GemmChooser;

static void find_products(GemmChooser *c) {
  c->count = 0;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    c->is_product[j] =
        contraction_match(c->arena, c->k->loops.at[j], &c->products[j]);
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
              strided_accesses(loop, v);
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
  const LoopNest *b =
      operand_loop(c->arena, loop, p, with_n, accumulator_type(loop));
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

/* For matmuls with spatial axes that are not parallel: tasks are rows, and
 * vectors lie along the last spatial axis. */
static bool choose_row_tasks(GemmChooser *c) {
  uint32_t m = NO_AXIS;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    const LoopNest *loop = c->k->loops.at[j];
    uint32_t of, with_n;
    if (!c->is_product[j])
      continue;
    if (loop->spatial_axes == loop->parallel_axes ||
        !contraction_operand_sides(loop, &c->products[j],
                                   loop->spatial_axes - 1, &of, &with_n) ||
        !with_n || of >= c->k->parallel_axes || (m != NO_AXIS && m != of))
      return false;
    m = of;
  }
  kernel_move_axis_last(c->k, m);
  c->s->task_kind = TASK_ROWS;
  return true;
}

/* ---- sizes ---- */

static int64_t reduction_depth(const LoopNest *loop) {
  int64_t depth;
  return extent_product(loop->graph, loop->axis_count - loop->spatial_axes,
                        loop->extents + loop->spatial_axes, &depth)
             ? depth
             : INT64_MAX;
}

/* The size of equal blocks of `extent`: at most `max`, and a multiple of
 * `of`. */
static int64_t balanced_block(int64_t extent, int64_t max, int64_t of) {
  int64_t count = ceil_div(extent, max);
  return round_up(ceil_div(extent, count > 0 ? count : 1), of);
}

static double batch_points(const GemmChooser *c, uint32_t last) {
  uint32_t outer = c->k->parallel_axes;
  return outer > last ? loop_iterations_hint(c->k->loops.at[0], 0, outer - last)
                      : 1;
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
                         const GemmPartition *g) {
  const LoopNest *loop = c->k->loops.at[0];
  const LoopOutput *r = &loop->outputs.at[0];
  int64_t columns = (int64_t)t->nr_vectors * c->s->width;
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
  GemmPartition g = {.m = loop_extent_hint(loop, t->m_axis),
                     .n = loop_extent_hint(loop, t->n_axis),
                     .depth = extent_hint(loop->graph, t->depth),
                     .batch = batch_points(c, 2),
                     .element_bytes = dtype_info[t->accumulator_dtype].bytes,
                     .vector_lanes = c->s->width};
  if (split_k_pays(c, t, &g)) {
    g.task_height = round_up(g.m, t->mr);
    g.task_columns = round_up(g.n, (int64_t)t->nr_vectors * c->s->width);
    c->s->reduction_chunk =
        balanced_block(g.depth, ceil_div(g.depth, SPLIT_K_PARTS), t->kc);
  } else {
    gemm_partition_choose(&g, t, loop->graph->extent_table != NULL);
  }
  t->nc = c->s->last_axis_block = g.task_columns;
  t->mc = balanced_block(g.task_height, MAX_MC, t->mr);
  c->s->task_height = g.task_height;
  c->s->row_task_count =
      symbolic_row_tasks(loop, t, ceil_div(g.m, g.task_height), g.task_height);
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
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
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
  if (c->s->task_kind == TASK_ROWS &&
      local_bytes_per_row * MIN_STRIP_MINED_ROWS > MAX_TASK_LOCAL_BYTES &&
      kernel_strip_mine(c->k))
    c->s->strip_length = STRIP_ELEMENTS;
}

/* Chooses the rows that are computed together, and the rows of a task, which
 * share packed operands. */
static void choose_row_sizes(GemmChooser *c, uint32_t tile_rows) {
  int64_t extent = loop_extent_hint(c->k->loops.at[0], c->k->parallel_axes - 1);
  double local_bytes_per_row = local_bytes(c), points = batch_points(c, 1);
  int64_t rows = MAX_MC, span = extent;
  if (has_trim_bounds(c->k))
    rows = 2 * tile_rows > extent / MIN_TRIMMED_BLOCKS
               ? 2 * tile_rows
               : extent / MIN_TRIMMED_BLOCKS / tile_rows * tile_rows;
  rows = rows < MAX_MC ? rows : MAX_MC;
  while (rows > tile_rows &&
         local_bytes_per_row * (double)rows > MAX_TASK_LOCAL_BYTES)
    rows -= tile_rows;
  while (span > rows &&
         points * (double)ceil_div(extent, span) < GEMM_MIN_TASKS)
    span = ceil_div(span, 2);
  c->s->last_axis_block = rows < extent ? rows : extent;
  c->s->last_axis_span = round_up(span, c->s->last_axis_block);
}

/* ---- convolutions ---- */

typedef struct ConvTaskSearch { /* search for the best task */
  const ConvWindow *window;
  const Schedule *schedule;
  ConvProblem problem;
  ConvTask best;
  double best_cost; /* below 0: none found yet */
} ConvTaskSearch;

static void try_task(ConvTaskSearch *s, ConvTask u) {
  double cost = conv_task_cost(s->window, &s->problem, &u);
  if (s->best_cost < 0 || cost < s->best_cost) {
    s->best_cost = cost;
    s->best = u;
  }
}

/* Tries all tiles for `parts` parts of the rows. */
static void try_tiles(ConvTaskSearch *s, int64_t parts, int64_t task_image_rows,
                      int64_t task_columns) {
  uint32_t count, width = s->problem.vector_lanes;
  const MicroTile *shapes = micro_tiles(s->schedule, &count);
  int64_t task_height = ceil_div(s->problem.rows, parts);
  ConvTask u = {.task_image_rows = task_image_rows,
                .task_columns = task_columns};
  for (uint32_t j = 0; j < count; j++) {
    u.tile = shapes[j];
    u.task_height = round_up(task_height, shapes[j].mr);
    try_task(s, u);
  }
  uint32_t registers = cpu_vector_bytes() == 64 ? 32 : 16;
  u.vectorize_channels = true;
  /* Symbolic sizes do not justify another shape by their hints.  With four
   * vectors, each step loads four vectors of weights from L2 or L3. */
  uint32_t vectors = s->problem.symbolic ? 2 : 4;
  for (uint32_t v = 1; v <= vectors; v++) {
    int64_t max = (registers - 1 - v) / v;
    max = max < MAX_CONV_MR ? max : MAX_CONV_MR;
    int64_t runs = ceil_div(task_columns, max);
    u.tile = (MicroTile){
        (uint32_t)(s->problem.symbolic ? max : ceil_div(task_columns, runs)),
        v};
    u.task_height = round_up(task_height, (int64_t)v * width);
    try_task(s, u);
  }
}

static void try_tasks(ConvTaskSearch *s) {
  int64_t m = s->problem.rows, n = s->problem.columns,
          image_rows = s->problem.image_rows;
  for (int64_t parts = 1; parts <= MAX_ROW_PARTS && parts <= m; parts *= 2)
    for (int64_t strips = 1; strips <= image_rows;
         strips = strips < 16 ? strips + 1 : 2 * strips)
      for (int64_t task_columns = n;
           task_columns == n || task_columns >= MIN_WINDOW_COLUMNS;
           task_columns =
               round_up(ceil_div(task_columns, 2), s->problem.vector_lanes)) {
        try_tiles(s, parts, ceil_div(image_rows, strips), task_columns);
        if (task_columns < 2 * MIN_WINDOW_COLUMNS)
          break;
      }
}

/* Arithmetic on extents.  The result is INT64_MAX on overflow; no code uses
 * it. */
static int64_t extent_mul_or_max(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return extent_mul(g, x, y, &out) ? out : INT64_MAX;
}

static int64_t extent_add_or_max(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return extent_add(g, x, y, &out) ? out : INT64_MAX;
}

static int64_t extent_ceil_div_or_max(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return extent_ceil_div(g, x, y, &out) ? extent_max(g, out, 1) : INT64_MAX;
}

static int64_t extent_round_up_or_max(Graph *g, int64_t x, int64_t of) {
  return extent_mul_or_max(g, extent_ceil_div_or_max(g, x, of), of);
}

/* Number of image rows that a cache holds, for `rows` output channels and
 * `columns` columns, with the part of the window that they read. */
static int64_t image_rows_in_cache(Graph *g, const ConvWindow *w, int64_t rows,
                                   int64_t columns) {
  int64_t row_pitch, extra_rows, max;
  if (!extent_floor_div(g, w->column.span, w->column.stride, &row_pitch) ||
      !extent_floor_div(g, w->row.span, w->row.stride, &extra_rows))
    return SYMBOLIC_MIN_IMAGE_ROWS;
  row_pitch = extent_new_alias(
      g, extent_mul_or_max(g, extent_add_or_max(g, row_pitch, columns),
                           w->plane_count));
  int64_t row_elements = extent_new_alias(
      g, extent_add_or_max(g, extent_mul_or_max(g, rows, columns), row_pitch));
  int64_t available = extent_add_or_max(
      g, SYMBOLIC_MAX_ELEMENTS,
      extent_mul_or_max(g, extent_mul_or_max(g, row_pitch, extra_rows), -1));
  return extent_floor_div(g, available, extent_max(g, row_elements, 1), &max)
             ? extent_max(g, max, SYMBOLIC_MIN_IMAGE_ROWS)
             : SYMBOLIC_MIN_IMAGE_ROWS;
}

/* Chooses a task for symbolic sizes.  A task has whole image rows, unless they
 * are very long, and as many as fit in a cache.  It has fewer image rows, then
 * fewer output channels, if several threads have no work otherwise. */
static void choose_symbolic_task(const GemmChooser *c, const GemmTiling *t,
                                 ConvTask *u) {
  Graph *g = c->k->graph;
  const LoopNest *loop = c->k->loops.at[0];
  uint32_t outer = c->k->parallel_axes,
           axes = outer - (c->s->task_image_rows ? 3 : 2);
  int64_t rows = extent_new_alias(g, loop->extents[t->m_axis]), tasks = 1;
  int64_t columns = extent_new_alias(g, loop->extents[t->n_axis]);
  int64_t image_rows =
      c->s->task_image_rows ? extent_new_alias(g, loop->extents[axes]) : 1;
  for (uint32_t v = 0; v < axes; v++)
    tasks = extent_mul_or_max(g, tasks, loop->extents[v]);
  tasks = extent_new_alias(g, extent_max(g, tasks, 1));
  u->task_columns = extent_new_alias(
      g, extent_ceil_div_or_max(
             g, columns,
             extent_ceil_div_or_max(g, columns, SYMBOLIC_MAX_COLUMNS)));
  int64_t strips = extent_ceil_div_or_max(
      g, image_rows,
      extent_ceil_div_or_max(g, SYMBOLIC_MIN_POSITIONS, u->task_columns));
  strips = extent_min(g, strips,
                      extent_ceil_div_or_max(g, SYMBOLIC_MIN_TASKS, tasks));
  int64_t image_rows_max = extent_new_alias(
      g, image_rows_in_cache(g, t->window, rows, u->task_columns));
  strips = extent_new_alias(
      g, extent_max(g, strips,
                    extent_ceil_div_or_max(g, image_rows, image_rows_max)));
  u->task_image_rows =
      extent_new_alias(g, extent_ceil_div_or_max(g, image_rows, strips));
  tasks = extent_mul_or_max(g, tasks, strips);
  int64_t min = u->vectorize_channels
                    ? (int64_t)u->tile.nr_vectors * c->s->width
                    : (int64_t)u->tile.mr;
  int64_t parts =
      extent_min(g, extent_ceil_div_or_max(g, SYMBOLIC_MIN_TASKS, tasks),
                 extent_ceil_div_or_max(g, rows, 2 * min));
  u->task_height = extent_new_alias(
      g,
      extent_round_up_or_max(g, extent_ceil_div_or_max(g, rows, parts), min));
}

/* Chooses tile and task of a convolution. */
static void choose_conv_sizes(GemmChooser *c, GemmTiling *t) {
  const LoopNest *loop = c->k->loops.at[0];
  Graph *g = loop->graph;
  uint32_t outer = c->k->parallel_axes, k = t->a.loop->spatial_axes;
  ConvTaskSearch s = {.window = t->window, .schedule = c->s, .best_cost = -1};
  bool single = t->a.loop->axis_count == k + 1;
  bool transposed = single && strided_accesses(t->a.loop, k) <
                                  strided_accesses(t->a.loop, t->m_axis);
  s.problem = (ConvProblem){
      .rows = loop_extent_hint(loop, t->m_axis),
      .image_rows =
          c->s->task_image_rows ? loop_extent_hint(loop, outer - 3) : 1,
      .columns = loop_extent_hint(loop, t->n_axis),
      .depth = extent_hint(g, t->depth),
      .element_bytes = dtype_info[t->accumulator_dtype].bytes,
      .kc = t->kc,
      .symbolic = kernel_is_symbolic(c->k),
      .transposed_weights =
          transposed &&
          !(prepack_is_possible(t->a.loop, t->m_axis) && !g->extent_table),
      .batch = batch_points(c, c->s->task_image_rows ? 3 : 2),
      .vector_lanes = c->s->width};
  ConvWindow *w = t->window;
  padding_peel_choose(w, s.problem.image_rows, s.problem.columns);
  try_tasks(&s);
  ConvTask *u = &s.best;
  w->vectorize_channels = u->vectorize_channels;
  t->mr = u->tile.mr;
  t->nr_vectors = u->tile.nr_vectors;
  t->mc = balanced_block(u->task_height, MAX_MC, t->mr);
  t->nc = (int64_t)t->nr_vectors * c->s->width;
  t->has_short_tiles = s.problem.symbolic && w->vectorize_channels;
  if (s.problem.symbolic)
    choose_symbolic_task(c, t, u);
  int64_t positions;
  if (!conv_window_set_size(w, u->task_image_rows, u->task_columns,
                            c->s->width) ||
      !conv_window_positions(w, u->task_image_rows, u->task_columns,
                             &positions))
    w->plane_elements = positions = INT64_MAX;
  c->s->task_height = u->task_height;
  c->s->last_axis_block = u->task_columns;
  c->s->task_image_rows = c->s->task_image_rows ? u->task_image_rows : 0;
  c->s->row_pitch = w->row_pitch;
  c->s->task_positions = extent_round_up_or_max(g, positions, t->nc);
  if (w->vectorize_channels) {
    t->a.packing = transposed ? OPERAND_PACK_B_TRANSPOSED : OPERAND_PACK_B;
    const KernelOp *a = unpacked_load(t->a.loop, t->accumulator_dtype);
    t->prefetch_a = transposed && a && a->kind == KOP_LOAD &&
                    a->address->coef[k] == 1 &&
                    (double)s.problem.rows * (double)s.problem.depth *
                            (double)s.problem.element_bytes >
                        MIN_PREFETCHED_A_BYTES;
    c->s->row_pitch = extent_round_up_or_max(g, u->task_columns, t->mr);
    c->s->task_positions = extent_round_up_or_max(
        g, extent_mul_or_max(g, u->task_image_rows, c->s->row_pitch),
        c->s->width);
    t->epilogue_per_block = true; /* the accumulators of one panel */
    t->mc = t->nc;
    padding_peel_choose_border_tiles(w, s.problem.columns, u->task_columns,
                                     t->mr);
  } else {
    w->padding = (PaddingPeel){.group_terms = 0};
  }
  if (w->padding.group_terms) /* whole groups of terms */
    t->kc = balanced_block(
        t->depth, MAX_KC / w->padding.group_terms * w->padding.group_terms,
        w->padding.group_terms);
}

/* ---- entry point ---- */

/* Returns true if rows of bf16 pairs can be read in place.  Then each row
 * begins with the first element of a pair and ends with the second. */
static bool has_contiguous_pairs(const LoopNest *loop, uint32_t m) {
  const KernelOp *s = unpacked_load(loop, DT_I32);
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

static void make_gemm_tiling(GemmChooser *c, uint32_t loop_index) {
  const LoopNest *loop = c->k->loops.at[loop_index];
  GemmTiling *t = &c->s->gemm_tilings->by_loop[loop_index];
  ContractionPattern *p = &c->products[loop_index];
  contraction_match(c->arena, loop, p); /* axes have moved */
  uint32_t with_n, outer = c->k->parallel_axes;
  t->is_gemm = true;
  t->n_axis = c->s->task_kind == TASK_ROWS ? loop->spatial_axes - 1 : outer - 1;
  contraction_operand_sides(loop, p, t->n_axis, &t->m_axis, &with_n);
  t->m_axis = c->s->task_kind == TASK_TILE ? outer - 2 : outer - 1;
  t->accumulator_dtype = accumulator_type(loop);
  t->a.loop = operand_loop(c->arena, loop, p, ~with_n, t->accumulator_dtype);
  t->b.loop = operand_loop(c->arena, loop, p, with_n, t->accumulator_dtype);
  t->element_dtype = t->accumulator_dtype;
  t->depth = reduction_depth(loop);
  choose_packing(t, loop, c->s);
  bool is_trimmed = (loop->trim_bounds || loop->strip_mined) &&
                    loop->trimmed_axis >= loop->spatial_axes;
  if (c->through_window) {
    uint32_t row_axis = c->s->task_image_rows ? outer - 3 : NO_AXIS;
    t->window = conv_window_new(c->arena, t->b.loop, row_axis, t->n_axis);
    t->b.packing = OPERAND_PACK_B_IM2COL;
  } else if (!is_trimmed && (!loop_is_symbolic(loop) || c->k->native_only) &&
             bf16_dot_applies(c->s, t)) { /* a trim bound may split a pair */
    use_bf16_dot(c, t);
  }
  t->kc = balanced_block(extent_hint(loop->graph, t->depth), MAX_KC, 1);
}

static void choose_gemm_sizes(GemmChooser *c, GemmTiling *t,
                              const LoopNest *loop) {
  if (t->window) {
    choose_conv_sizes(c, t);
    return;
  }
  int64_t m = loop_extent_hint(loop, t->m_axis),
          n = loop_extent_hint(loop, t->n_axis);
  int64_t depth = extent_hint(loop->graph, t->depth);
  int64_t bytes = dtype_info[t->accumulator_dtype].bytes;
  choose_micro_tile(t, c->s, m, n,
                    extent_is_static(loop->graph, loop->extents[t->m_axis]));
  t->reads_b_unpacked = may_read_b_unpacked(t, loop, c->s);
  if (t->reads_b_unpacked)
    t->b.packing = OPERAND_UNPACKED;
  t->prefetch_b =
      t->reads_b_unpacked && (double)n * (double)depth * (double)bytes >
                                 (double)machine()->cache_bytes[2];
  choose_edge_tiles(t, loop, c->s->width);
  t->mc = balanced_block(m, MAX_MC, t->mr);
  t->nc = balanced_block(n, MAX_NC, (int64_t)t->nr_vectors * c->s->width);
  /* An epilogue that runs directly after a tile needs all terms. */
  bool stores_directly = loop->outputs.at[0].global_index != NULL;
  int64_t columns = 4 * (int64_t)t->nr_vectors * c->s->width;
  int64_t max = MAX_PACKED_BYTES / (columns * bytes) / t->kc * t->kc;
  t->pack_kc = stores_directly ? t->kc : depth < max ? depth : max;
  t->hoists_packing = c->s->task_kind == TASK_ROWS &&
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
    if (!contraction_match(c->arena, loop, &p))
      continue;
    const LoopOutput *r = &loop->outputs.at[0];
    uint32_t n = c->s->task_kind == TASK_ROWS ? loop->spatial_axes - 1
                                              : c->k->parallel_axes - 1;
    bool plain = r->global_index && !r->local_index &&
                 r->global_index->coef[n] == 1 && !c->through_window;
    if ((r->global_index && !plain) || r->dtype != accumulator_type(loop))
      kernel_split_store_loop(c->k, j);
  }
  find_products(c);
}

static int64_t panel_columns(const GemmChooser *c, uint32_t loop_index) {
  return (int64_t)c->s->gemm_tilings->by_loop[loop_index].nr_vectors *
         c->s->width;
}

static void choose_prepacking(const GemmChooser *c, GemmTiling *t) {
  bool vectorize_channels = t->window && t->window->vectorize_channels;
  uint32_t n = vectorize_channels ? t->m_axis : t->n_axis;
  Operand *o = vectorize_channels ? &t->a : &t->b;
  bool copied = o->packing == OPERAND_PACK_B ||
                o->packing == OPERAND_PACK_B_TRANSPOSED || t->reads_b_unpacked;
  o->may_prepack = copied && prepack_is_possible(o->loop, n);
  if (vectorize_channels &&
      t->window->padding.group_terms) /* the prepacked operand is contiguous */
    t->prefetch_a &= o->may_prepack;
  if (!o->may_prepack)
    return;
  double rows = (double)(vectorize_channels             ? c->s->task_positions
                         : c->s->task_kind == TASK_TILE ? c->s->task_height
                         : t->hoists_packing            ? c->s->last_axis_span
                                             : c->s->last_axis_block);
  double per_tile = o->packing == OPERAND_PACK_B_TRANSPOSED
                        ? TRANSPOSE_COST_ROWS
                        : PACK_COST_ROWS;
  double elements = (double)t->depth * (double)o->loop->extents[n];
  o->prepack_pays = elements >= MIN_PREPACKED_ELEMENTS &&
                    per_tile * c->s->width >= MIN_PACKING_SHARE * rows;
}

static void choose_all_prepacking(const GemmChooser *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->is_product[j])
      choose_prepacking(c, &c->s->gemm_tilings->by_loop[j]);
}

bool gemm_tiling_choose(Kernel *k, Schedule *s) {
  if (k->loops.len > MAX_KERNEL_LOOPS / 2)
    return false;
  GemmChooser *c = NEW(k->arena, GemmChooser);
  c->arena = k->arena;
  c->k = k;
  c->s = s;
  find_products(c);
  if (!c->count || !(choose_tile_tasks(c) || choose_row_tasks(c)))
    return false;
  split_off_stores(c);
  if (s->task_kind == TASK_ROWS)
    kernel_trim(k, true);
  choose_strip_mining(c);
  s->gemm_tilings = NEW(k->arena, GemmTilings);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is_product[j])
      make_gemm_tiling(c, j);
  uint32_t rows = 1;
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is_product[j]) {
      choose_gemm_sizes(c, &s->gemm_tilings->by_loop[j], k->loops.at[j]);
      rows = s->gemm_tilings->by_loop[j].mr;
    }
  if (c->through_window) {
    choose_all_prepacking(c);
    return true;
  }
  if (s->strip_length) /* whole panels of the first matmul */
    s->strip_length -= s->strip_length % panel_columns(c, k->strip_begin);
  if (s->task_kind == TASK_TILE)
    choose_tile_sizes(c, &s->gemm_tilings->by_loop[0]);
  else
    choose_row_sizes(c, rows);
  choose_all_prepacking(c);
  return true;
}
