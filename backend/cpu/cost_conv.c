/* Counts what a task of a convolution does. */
#include "backend/cpu/cost.h"

#include "backend/cpu/gemm_chooser.h"
#include "backend/cpu/prepack.h"

#include <math.h>

/* Shuffles that transpose one vector as a part of a block. */
enum { TRANSPOSE_SHUFFLES = 8 };

typedef struct TaskSize {
  int64_t task_height, image_rows, columns;
} TaskSize;

typedef struct ConvCount {
  const ConvWindow *window;
  const ConvProblem *problem;
  const ConvTask *task;
  const CoreRates *rates;
  TaskSize size;
  double times; /* number of tasks of this size */
  CostCounts *to;
} ConvCount;

/* The sizes are small constants, so that positions do not overflow. */
static double positions_of(const ConvCount *c) {
  int64_t out = 0;
  return conv_window_positions(c->window, c->size.image_rows, c->size.columns,
                               &out)
             ? (double)out
             : HUGE_VAL;
}

/* The copy of the input to the window. */
static void count_fill(const ConvCount *c) {
  const ConvWindow *w = c->window;
  const LoopNest *loop = w->copy_loop;
  int64_t filled =
      (c->size.columns - 1) * w->column.stride + w->column.span + 1;
  double rows = c->times;
  for (uint32_t v = loop->spatial_axes; v + 2 < loop->axis_count; v++)
    rows *= (double)loop->extents[v];
  if (w->has_rows)
    rows *=
        (double)((c->size.image_rows - 1) * w->row.stride + w->row.span + 1);
  c->to->packed_vectors +=
      rows * (double)ceil_div(filled, c->problem->vector_lanes);
  c->to->calls += rows;
}

static void add_tiles(const ConvCount *c, double rows, double vectors,
                      double tiles, double share) {
  bool by_rows = !c->task->vectorize_channels;
  const ConvProblem *p = c->problem;
  double blocks = ceil((double)p->depth / (double)p->kc);
  cost_add_tile_terms(c->to, rows, vectors,
                      tiles * (double)p->depth * share * c->times,
                      by_rows ? rows : 0);
  cost_add_tile_stores(c->to, rows, vectors, tiles * blocks * c->times,
                       (blocks - 1) / blocks);
}

static void count_positions(const ConvCount *c) {
  const ConvProblem *p = c->problem;
  double vectors = ceil(positions_of(c) / p->vector_lanes),
         each = c->task->tile.nr_vectors, mr = c->task->tile.mr;
  double rest = fmod(vectors, each), panels = (vectors - rest) / each;
  double tiles = ceil((double)c->size.task_height / mr);
  add_tiles(c, mr, each, tiles * panels, 1);
  if (rest > 0)
    add_tiles(c, mr, rest, tiles, 1);
  c->to->packed_vectors +=
      c->times * COST_WINDOW_PACKING * (double)p->depth * vectors;
}

static void count_channels(const ConvCount *c) {
  const ConvProblem *p = c->problem;
  const PaddingPeel *peel = &c->window->padding;
  int64_t mr = c->task->tile.mr, columns = c->size.columns;
  double each = c->task->tile.nr_vectors, height = (double)c->size.task_height;
  double panels = ceil(height / (each * p->vector_lanes)),
         lines = panels * (double)c->size.image_rows;
  double rest = (double)(columns % mr), full = (double)(columns / mr);
  if (p->symbolic) {
    full = (double)columns / (double)mr;
    rest = 0;
  } else if (rest > 0 && !peel->peeled_terms) {
    full++;
    rest = 0;
  }
  add_tiles(c, (double)mr, each, lines * full, peel->remaining_share);
  if (rest > 0)
    add_tiles(c, rest, each, lines, peel->remaining_share);
  double results = lines * (full + (rest > 0)) * (double)mr * each;
  cost_add_body(c->to, &(CostBody){.iterations = results * c->times,
                                   .vectors = TRANSPOSE_SHUFFLES,
                                   .loads = 1,
                                   .stores = 1});
  if (!p->keeps_weights)
    c->to->packed_vectors +=
        c->times * (double)p->depth * height / p->vector_lanes *
        (p->has_contiguous_terms ? COST_TRANSPOSED_PACKING : 1);
}

/* Bytes between the caches.  Tiles read a panel of weights, and the rows of the
 * window that a filter covers, or panels of positions. */
static void count_traffic(const ConvCount *c) {
  const ConvWindow *w = c->window;
  const ConvProblem *p = c->problem;
  bool by_channels = c->task->vectorize_channels;
  double bytes = (double)p->element_bytes, depth = (double)p->depth,
         width = (double)c->task->tile.nr_vectors * p->vector_lanes,
         height = (double)c->size.task_height, positions = positions_of(c),
         mr = c->task->tile.mr;
  double blocks = ceil(depth / (double)p->kc);
  double window = (double)w->plane_count * (double)w->plane_elements * bytes,
         weights = height * depth * bytes, result = height * positions * bytes,
         panel = (double)p->kc * width * bytes;
  double l1 = COST_CACHE_SHARE * c->rates->cache_bytes[0],
         l2 = COST_CACHE_SHARE * c->rates->cache_bytes[1];
  double first;
  if (by_channels) {
    double runs =
               (double)c->size.image_rows * ceil((double)c->size.columns / mr),
           panels = ceil(height / width),
           slab = (double)w->plane_count * bytes * (double)w->row_pitch *
                  (w->has_rows ? (double)w->row.span + 1 : 1);
    first = panels * (slab + panel <= l1 ? window
                                         : slab * (double)c->size.image_rows) +
            weights * (panel <= l1 ? 1 : runs) + 2 * blocks * result;
  } else {
    double panels = ceil(positions / width), tiles = ceil(height / mr);
    first = depth * positions * bytes * (panel <= l1 ? 2 : 1 + tiles) +
            weights * panels + 2 * blocks * result;
  }
  /* the input that the window is copied from passes through the cache */
  double held = 2 * window + result + (by_channels ? panel : weights);
  bool fits = held <= l2;
  c->to->bytes[0] += c->times * first;
  c->to->copied_bytes[0] += c->times * 2 * window;
  c->to->bytes[1] +=
      c->times * (fits ? weights + 2 * result
                       : weights + 2 * blocks * result +
                             (by_channels ? ceil(height / width) * window : 0));
  c->to->copied_bytes[1] += c->times * (fits ? 1 : 2) * window;
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

static void count_task(const ConvCount *c) {
  if (c->task->vectorize_channels)
    count_channels(c);
  else
    count_positions(c);
  count_fill(c);
  count_traffic(c);
}

/* Everything that passes through memory, if no cache holds it. */
static void count_memory(const ConvCount *c, double batch) {
  const ConvProblem *p = c->problem;
  double image = (double)p->image_rows * (double)p->columns;
  double all =
      (double)p->element_bytes *
      (batch * image * ((double)p->rows + (double)c->window->plane_count) +
       (double)p->rows * (double)p->depth);
  if (all > c->rates->cache_bytes[2])
    c->to->bytes[2] += all / p->batch;
}

bool conv_count_tasks(const ConvWindow *from, const ConvProblem *problem,
                      const ConvTask *task, const CoreRates *r,
                      CostCounts *out) {
  LoopNest loop;
  ConvWindow w = with_assumed_extents(from, &loop);
  if (!conv_window_set_size(&w, task->task_image_rows, task->task_columns,
                            problem->vector_lanes) ||
      (double)w.plane_count * (double)w.plane_elements *
              (double)problem->element_bytes >
          MAX_WINDOW_BYTES)
    return false;
  ConvCount c = {
      .window = &w, .problem = problem, .task = task, .rates = r, .to = out};
  const int64_t sizes[3][2] = {{problem->rows, task->task_height},
                               {problem->image_rows, task->task_image_rows},
                               {problem->columns, task->task_columns}};
  double tasks = 0;
  for (uint32_t which = 0; which < 8;
       which++) { /* full tasks, and remainders of each size */
    int64_t size[3];
    c.times = problem->batch;
    for (uint32_t k = 0; k < 3; k++) {
      bool rest = which >> k & 1;
      size[k] = rest ? sizes[k][0] % sizes[k][1] : sizes[k][1];
      c.times *= rest ? size[k] != 0 : (double)(sizes[k][0] / sizes[k][1]);
    }
    c.size = (TaskSize){size[0], size[1], size[2]};
    if (c.times > 0)
      count_task(&c);
    tasks += c.times;
  }
  count_memory(&c, problem->batch);
  out->tasks = tasks;
  return true;
}

ConvProblem conv_problem(const Kernel *k, const Schedule *s,
                         const GemmTiling *t) {
  const LoopNest *loop = k->loops.at[0];
  Graph *g = loop->graph;
  uint32_t outer = k->parallel_axes, last = s->task_image_rows ? 3 : 2,
           term = t->a.loop->spatial_axes;
  bool is_kept = prepack_is_possible(t->a.loop, t->m_axis) && !g->extent_table;
  return (ConvProblem){
      .rows = loop_extent_hint(loop, t->m_axis),
      .image_rows = s->task_image_rows ? loop_extent_hint(loop, outer - 3) : 1,
      .columns = loop_extent_hint(loop, t->n_axis),
      .depth = extent_hint(g, t->depth),
      .element_bytes = dtype_info[t->accumulator_dtype].bytes,
      .kc = t->kc,
      .symbolic = kernel_is_symbolic(k),
      .has_contiguous_terms =
          t->a.loop->axis_count == term + 1 &&
          gemm_operand_strided_accesses(t->a.loop, term) <
              gemm_operand_strided_accesses(t->a.loop, t->m_axis),
      .keeps_weights = is_kept,
      .batch = outer > last ? loop_iterations_hint(loop, 0, outer - last) : 1,
      .vector_lanes = s->width};
}

void cost_add_conv(CostCounts *out, const Kernel *k, const Schedule *s,
                   const GemmTiling *t, const CoreRates *r) {
  ConvProblem problem = conv_problem(k, s, t);
  Graph *g = k->graph;
  ConvTask task = {.tile = {t->mr, t->nr_vectors},
                   .vectorize_channels = t->window->vectorize_channels,
                   .task_height = extent_hint(g, s->task_height),
                   .task_image_rows = s->task_image_rows
                                          ? extent_hint(g, s->task_image_rows)
                                          : 1,
                   .task_columns = extent_hint(g, s->last_axis_block)};
  conv_count_tasks(t->window, &problem, &task, r, out);
}
