/* Counts what register tiles do, and which data they move between caches. */
#include "backend/cpu/cost.h"

#include "backend/cpu/gemm_chooser.h"
#include "backend/cpu/prepack.h"

#include <math.h>

/* Instructions of a term besides those of the tile: the loop, and the steps of
 * two pointers. */
enum { TERM_INSTRUCTIONS = 3, L1_SETS = 64, LINE_BYTES = 64 };

GemmProblem gemm_problem(const LoopNest *loop, const GemmTiling *t,
                         uint32_t lanes) {
  GemmProblem g = {.m = (double)loop_extent_hint(loop, t->m_axis),
                   .n = (double)loop_extent_hint(loop, t->n_axis),
                   .depth = (double)extent_hint(loop->graph, t->depth),
                   .batch = 1,
                   .sharing = 1,
                   .lanes = lanes,
                   .element_bytes = dtype_info[t->accumulator_dtype].bytes};
  for (uint32_t v = 0; v < loop->spatial_axes; v++) {
    if (v == t->m_axis || v == t->n_axis)
      continue;
    double extent = (double)loop_extent_hint(loop, v);
    g.batch *= extent;
    g.sharing *= t->shares_panels && v >= loop->parallel_axes ? extent : 1;
  }
  return g;
}

/* Returns true if b is prepacked already. */
static bool keeps_b(const GemmTiling *t, const GemmProblem *g) {
  double rows = (double)(g->packed_rows ? g->packed_rows : g->task_height);
  return g->may_prepack_b &&
         prepack_pays(&t->b, g->depth * g->n, g->lanes, rows);
}

void cost_add_tile_terms(CostCounts *c, double rows, double vectors,
                         double terms, double pointers) {
  /* pointers that exceed the registers are read from memory in each term */
  double spilled = fmax(pointers - COST_KEPT_POINTERS, 0);
  /* the only use of an element is an operand in memory */
  bool is_operand = vectors == 1;
  cost_add_body(
      c, &(CostBody){.iterations = terms,
                     .vectors = rows * vectors + COST_SPILL_VECTORS * spilled,
                     .loads = vectors + (is_operand ? 0 : rows),
                     .elements = spilled + (is_operand ? rows : 0),
                     .others = TERM_INSTRUCTIONS - (is_operand ? rows : 0),
                     .serial = 1});
}

void cost_add_tile_stores(CostCounts *c, double rows, double vectors,
                          double tiles, double adding) {
  cost_add_body(c, &(CostBody){.iterations = tiles,
                               .vectors = adding * rows * vectors,
                               .loads = adding * rows * vectors,
                               .stores = rows * vectors,
                               .others = rows * vectors,
                               .serial = 1});
  c->calls += tiles;
}

double gemm_task_count(const GemmProblem *g) {
  return g->batch / g->sharing * ceil(g->m / (double)g->task_height) *
         ceil(g->n / (double)g->task_columns);
}

/* Returns true if the rows of a that a tile reads do not stay in L1 from term
 * to term: with a stride that is a multiple of a large power of two, they share
 * few sets of the cache.  Another line of each set is in use by b. */
static bool rows_conflict(const GemmTiling *t, const GemmProblem *g,
                          const CoreRates *r) {
  const KernelOp *s =
      t->a.packing == OPERAND_UNPACKED
          ? gemm_operand_unpacked_load(t->a.loop, t->element_dtype)
          : NULL;
  if (!s || s->kind != KOP_LOAD)
    return false;
  int64_t bytes = extent_hint(t->a.loop->graph, s->address->coef[t->m_axis]) *
                  (int64_t)g->element_bytes;
  int64_t ways = (int64_t)r->cache_bytes[0] / (L1_SETS * LINE_BYTES),
          sets = L1_SETS;
  for (int64_t lines = bytes / LINE_BYTES;
       bytes > 0 && bytes % LINE_BYTES == 0 && sets > 1 && lines % 2 == 0;
       lines /= 2)
    sets /= 2;
  return ceil_div(t->mr, sets) + 1 > ways;
}

typedef struct TileCounts { /* one task, or the remainder of the tasks */
  double rows, columns, times;
} TileCounts;

/* Tiles of `rows` rows along the columns of a task. */
static void add_panels(CostCounts *c, const GemmTiling *t, const GemmProblem *g,
                       double rows, double count, double columns) {
  bool by_rows = !gemm_rows_are_contiguous(t);
  double vectors = ceil(columns / g->lanes), panels = t->nr_vectors,
         blocks = ceil(g->depth / (double)t->kc);
  double adding = (blocks - 1) / blocks;
  double rest = fmod(vectors, panels);
  double full = (vectors - rest) / panels;
  for (int is_rest = 0; is_rest < 2; is_rest++) {
    double tiles = count * (is_rest ? rest > 0 : full),
           width = is_rest && t->last_panel_vectors ? rest : panels;
    cost_add_tile_terms(c, rows, width, tiles * g->depth, by_rows ? rows : 0);
    if (tiles > 0)
      cost_add_tile_stores(c, rows, width, tiles * blocks, adding);
  }
}

/* The tiles of a block of rows.  Its remainder takes a full tile. */
static void add_row_block(CostCounts *c, const GemmTiling *t,
                          const GemmProblem *g, double rows, double times,
                          double columns) {
  double mr = t->mr;
  double rest = fmod(rows, mr), full = floor(rows / mr),
         lesser = rest > 0 ? mr - rest : 0; /* tiles of one row less */
  bool shrinks = t->has_mr_minus_one && rest > 0 && lesser * (mr - 1) <= rows;
  if (shrinks) {
    full = (rows - lesser * (mr - 1)) / mr;
    add_panels(c, t, g, mr - 1, lesser * times, columns);
  } else if (rest > 0) {
    full++;
  }
  add_panels(c, t, g, mr, full * times, columns);
}

static void add_tiles(CostCounts *c, const GemmTiling *t, const GemmProblem *g,
                      const TileCounts *x) {
  double rows = x->rows * g->sharing, mc = fmin((double)t->mc, rows);
  double rest = fmod(rows, mc);
  if (mc <= 0)
    return; /* there are no rows */
  add_row_block(c, t, g, mc, x->times * floor(rows / mc), x->columns);
  if (rest > 0)
    add_row_block(c, t, g, rest, x->times, x->columns);
}

/* Bytes between L1 and L2.  A panel of b is read for each tile of rows, and a
 * block of a for each panel. */
static void add_l1_traffic(CostCounts *c, const GemmTiling *t,
                           const GemmProblem *g, const TileCounts *x,
                           const CoreRates *r) {
  double bytes = g->element_bytes, depth = g->depth;
  double kc = fmin((double)t->kc, depth), width = t->nr_vectors * g->lanes;
  double rows = x->rows * g->sharing, mc = fmin((double)t->mc, rows),
         columns = ceil(x->columns / g->lanes) * g->lanes;
  double panels = ceil(columns / width), blocks = ceil(depth / kc),
         row_blocks = ceil(rows / mc), tiles = ceil(rows / t->mr);
  double panel = kc * width * bytes, a_tile = t->mr * kc * bytes,
         a_block = mc * kc * bytes, l1 = r->cache_bytes[0];
  double b_passes = row_blocks +
                    (tiles - row_blocks) * cost_miss_share(panel + a_tile, l1),
         a_passes = 1 + (panels - 1) * cost_miss_share(a_block + panel, l1);
  double lines =
      rows_conflict(t, g, r) ? rows * depth * panels * LINE_BYTES : 0;
  c->bytes[0] += x->times * (b_passes * columns * depth * bytes +
                             a_passes * rows * depth * bytes +
                             2 * blocks * rows * columns * bytes + lines);
  /* each term of b, read in place, begins a page */
  if (t->b.packing == OPERAND_UNPACKED && !keeps_b(t, g) &&
      g->n * bytes >= PAGE_STRIDE_BYTES)
    c->pages += x->times * panels * tiles * depth;
}

/* Bytes between L2 and L3, and between L3 and memory.  Tasks run along the
 * columns first, so that each row of tasks reads all of b again. */
static void add_far_traffic(CostCounts *c, const GemmTiling *t,
                            const GemmProblem *g, const CoreRates *r) {
  double bytes = g->element_bytes, depth = g->depth, l2 = r->cache_bytes[1];
  double kc = fmin((double)t->kc, depth), m = g->m * g->sharing,
         height = fmin((double)g->task_height, g->m) * g->sharing,
         width = fmin((double)g->task_columns, g->n),
         mc = fmin((double)t->mc, height);
  double row_tasks = ceil(m / height), column_tasks = ceil(g->n / width),
         row_blocks = ceil(height / mc), blocks = ceil(depth / kc);
  double a_all = m * depth * bytes, b_all = g->n * depth * bytes,
         c_all = m * g->n * bytes, a_block = mc * kc * bytes,
         packed = width * fmin((double)t->pack_kc, depth) * bytes,
         c_task = height * width * bytes, slab = height * depth * bytes;
  double all = a_all + b_all + c_all;
  double b_passes =
      cost_miss_share(all, l2) +
      (row_tasks - 1) * cost_miss_share(b_all + height * g->n * bytes, l2) +
      row_tasks * (row_blocks - 1) * cost_miss_share(packed + a_block, l2);
  double a_passes = cost_miss_share(all, l2) +
                    (column_tasks - 1) * cost_miss_share(slab + packed, l2);
  double c_passes =
      cost_miss_share(all, l2) +
      (blocks - 1) * cost_miss_share(c_task + packed + a_block, l2);
  double each = g->batch / g->sharing;
  c->bytes[1] +=
      each * (b_passes * b_all + a_passes * a_all + 2 * c_passes * c_all);
  c->bytes[2] += each * all * cost_miss_share(each * all, r->cache_bytes[2]);
}

static double packed_vectors(const GemmTiling *t, const GemmProblem *g,
                             const TileCounts *x) {
  double vectors = 0;
  if (t->b.packing == OPERAND_PACK_B)
    vectors += x->columns * g->depth / g->lanes;
  else if (t->b.packing == OPERAND_PACK_B_TRANSPOSED)
    vectors += COST_TRANSPOSED_PACKING * x->columns * g->depth / g->lanes;
  if (keeps_b(t, g))
    vectors = 0;
  if (t->a.packing == OPERAND_PACK_A_ROWS ||
      t->a.packing == OPERAND_PACK_A_COLUMNS)
    vectors += x->rows * g->sharing * g->depth / g->lanes;
  return vectors * x->times;
}

void cost_add_gemm(CostCounts *c, const GemmTiling *t, const GemmProblem *g,
                   const CoreRates *r) {
  double heights[2] = {(double)g->task_height, fmod(g->m, g->task_height)},
         widths[2] = {(double)g->task_columns, fmod(g->n, g->task_columns)};
  double each = g->batch / g->sharing;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      TileCounts x = {.rows = heights[i], .columns = widths[j], .times = each};
      x.times *= i ? heights[1] > 0 : floor(g->m / heights[0]);
      x.times *= j ? widths[1] > 0 : floor(g->n / widths[0]);
      if (x.times <= 0)
        continue;
      add_tiles(c, t, g, &x);
      add_l1_traffic(c, t, g, &x, r);
      c->packed_vectors += packed_vectors(t, g, &x);
    }
  add_far_traffic(c, t, g, r);
}
