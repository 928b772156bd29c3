/* Tiling of convolutions: the tile and the task with the least estimated time.
 */
#include "backend/cpu/cost.h"
#include "backend/cpu/gemm_chooser.h"
#include "backend/cpu/prepack.h"
#include "machine/machine.h"

#include <math.h>

typedef struct ConvTaskSearch { /* search for the best task */
  const ConvWindow *window;
  const Schedule *schedule;
  const GemmFields *set; /* fields that the user set */
  ConvProblem problem;
  const CoreRates *rates;
  double threads;
  int64_t along; /* what the lanes are; 0: the best */
  ConvTask best;
  double best_cost; /* below 0: none found yet */
} ConvTaskSearch;

/* Cycles of all tasks of this size; HUGE_VAL: the task is too large. */
static double task_cost(const ConvTaskSearch *s, const ConvTask *u) {
  CostCounts counts = {.type =
                           s->problem.element_bytes == 8 ? CORE_F64 : CORE_F32};
  if (tile_registers(u->tile.mr, u->tile.nr_vectors) >
          vector_registers(s->schedule->vector_bytes) ||
      !conv_count_tasks(s->window, &s->problem, u, s->rates, &counts))
    return HUGE_VAL;
  return cost_of_counts(&counts, s->rates, s->threads).total;
}

static void try_task(ConvTaskSearch *s, ConvTask u) {
  int64_t along =
      u.vectorize_channels ? GEMM_ALONG_CHANNELS : GEMM_ALONG_POSITIONS;
  if (s->along && s->along != along)
    return;
  if (s->set->of[GEMM_ROWS])
    u.task_height = s->set->of[GEMM_ROWS];
  double cost = task_cost(s, &u);
  if (s->best_cost < 0 || cost < s->best_cost) {
    s->best_cost = cost;
    s->best = u;
  }
}

/* The tile with the rows and columns that the user set. */
static MicroTile tile_with(const ConvTaskSearch *s, MicroTile tile) {
  int64_t mr = s->set->of[GEMM_MR], nr = s->set->of[GEMM_NR];
  return (MicroTile){mr ? (uint32_t)mr : tile.mr,
                     nr ? (uint32_t)ceil_div(nr, s->problem.vector_lanes)
                        : tile.nr_vectors};
}

/* Tries all tiles for `parts` parts of the rows. */
static void try_tiles(ConvTaskSearch *s, int64_t parts, int64_t task_image_rows,
                      int64_t task_columns) {
  uint32_t count, width = s->problem.vector_lanes;
  const MicroTile *shapes = register_tiles(s->schedule, &count);
  int64_t task_height = ceil_div(s->problem.rows, parts);
  ConvTask u = {.task_image_rows = task_image_rows,
                .task_columns = task_columns};
  for (uint32_t j = 0; j < count; j++) {
    u.tile = tile_with(s, shapes[j]);
    u.task_height = round_up(task_height, u.tile.mr);
    try_task(s, u);
  }
  int64_t registers = vector_registers(cpu_vector_bytes());
  u.vectorize_channels = true;
  /* Symbolic sizes do not justify another shape by their hints.  With four
   * vectors, each step loads four vectors of weights from L2 or L3. */
  uint32_t vectors = s->problem.symbolic ? 2 : 4;
  for (uint32_t v = 1; v <= vectors; v++) {
    int64_t max = (registers - 1 - v) / v; /* tile_registers */
    max = max < MAX_CONV_MR ? max : MAX_CONV_MR;
    int64_t runs = ceil_div(task_columns, max);
    u.tile =
        tile_with(s, (MicroTile){(uint32_t)(s->problem.symbolic
                                                ? max
                                                : ceil_div(task_columns, runs)),
                                 v});
    u.task_height = round_up(task_height, (int64_t)u.tile.nr_vectors * width);
    try_task(s, u);
  }
}

static void try_tasks(ConvTaskSearch *s) {
  int64_t m = s->problem.rows, n = s->problem.columns,
          image_rows = s->problem.image_rows;
  const int64_t *set = s->set->of;
  for (int64_t parts = 1; parts <= MAX_ROW_PARTS && parts <= m; parts *= 2)
    for (int64_t strips = 1; strips <= image_rows;
         strips = strips < 16 ? strips + 1 : 2 * strips)
      for (int64_t task_columns = n;
           task_columns == n || task_columns >= MIN_WINDOW_COLUMNS;
           task_columns =
               round_up(ceil_div(task_columns, 2), s->problem.vector_lanes)) {
        try_tiles(s, parts,
                  set[GEMM_IMAGE_ROWS] ? set[GEMM_IMAGE_ROWS]
                                       : ceil_div(image_rows, strips),
                  set[GEMM_COLUMNS] ? set[GEMM_COLUMNS] : task_columns);
        if (task_columns < 2 * MIN_WINDOW_COLUMNS)
          break;
      }
}

/* What the lanes are changes the order of terms, so that it must not depend on
 * measurements, or on the affinity of the process.  Sizes change no sum. */
static void search_tasks(ConvTaskSearch *s) {
  s->rates = machine_reference_rates();
  s->threads = machine()->processors;
  s->along = s->set->of[GEMM_ALONG];
  s->best_cost = -1;
  try_tasks(s);
  const CoreRates *measured = machine_core_rates();
  if (s->problem.symbolic ||
      (!measured->measured && machine()->cores == machine()->processors))
    return;
  s->along =
      s->best.vectorize_channels ? GEMM_ALONG_CHANNELS : GEMM_ALONG_POSITIONS;
  s->rates = measured;
  s->threads = machine()->cores;
  s->best_cost = -1;
  try_tasks(s);
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

/* Sizes that the user set are no symbolic ones. */
static void keep_set_sizes(const GemmFields *set, ConvTask *u) {
  if (set->of[GEMM_ROWS])
    u->task_height = set->of[GEMM_ROWS];
  if (set->of[GEMM_IMAGE_ROWS])
    u->task_image_rows = set->of[GEMM_IMAGE_ROWS];
  if (set->of[GEMM_COLUMNS])
    u->task_columns = set->of[GEMM_COLUMNS];
}

void conv_tiling_choose(GemmChooser *c, GemmTiling *t, const GemmFields *set) {
  const LoopNest *loop = c->k->loops.at[0];
  Graph *g = loop->graph;
  uint32_t k = t->a.loop->spatial_axes;
  ConvTaskSearch s = {.window = t->window,
                      .schedule = c->s,
                      .set = set,
                      .problem = conv_problem(c->k, c->s, t)};
  bool transposed = s.problem.has_contiguous_terms;
  ConvWindow *w = t->window;
  padding_peel_choose(w, s.problem.image_rows, s.problem.columns);
  search_tasks(&s);
  ConvTask *u = &s.best;
  w->vectorize_channels = u->vectorize_channels;
  t->mr = u->tile.mr;
  t->nr_vectors = u->tile.nr_vectors;
  t->mc = balanced_block(u->task_height, MAX_MC, t->mr);
  t->nc = (int64_t)t->nr_vectors * c->s->width;
  t->has_short_tiles = s.problem.symbolic && w->vectorize_channels;
  if (s.problem.symbolic) {
    choose_symbolic_task(c, t, u);
    keep_set_sizes(set, u);
  }
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
    const KernelOp *a =
        gemm_operand_unpacked_load(t->a.loop, t->accumulator_dtype);
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
    t->kc = set->of[GEMM_KC]
                ? round_up(set->of[GEMM_KC], w->padding.group_terms)
                : balanced_block(t->depth,
                                 MAX_KC / w->padding.group_terms *
                                     w->padding.group_terms,
                                 w->padding.group_terms);
}
