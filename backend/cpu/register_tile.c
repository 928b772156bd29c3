/* The register tile of a matmul. */
#include "backend/cpu/cost.h"
#include "backend/cpu/gemm_chooser.h"

#include <math.h>

const MicroTile *register_tiles(const Schedule *s, uint32_t *count) {
  static const MicroTile tiles_32_registers[] = {
      {6, 4}, {8, 3}, {12, 2}, {8, 2}, {4, 4}, {24, 1}, {16, 1}, {8, 1}};
  static const MicroTile tiles_16_registers[] = {
      {6, 2}, {4, 2}, {12, 1}, {8, 1}};
  bool has_32_registers = vector_registers(s->vector_bytes) == 32;
  *count = has_32_registers ? ARRAY_LEN(tiles_32_registers)
                            : ARRAY_LEN(tiles_16_registers);
  return has_32_registers ? tiles_32_registers : tiles_16_registers;
}

/* Rows of a tile, at most `max`, such that the number of tiles is minimal and
 * their heights are equal. */
static int64_t balanced_mr(int64_t m, int64_t max) {
  return m > 0 ? ceil_div(m, ceil_div(m, max)) : max;
}

/* Cycles of the tile of `t` for one task with all rows and columns. */
static double tile_cost(GemmTiling t, const TileChoice *c) {
  int64_t n = loop_extent_hint(c->loop, t.n_axis), lanes = c->lanes;
  GemmProblem g = gemm_problem(c->loop, &t, c->lanes);
  g.m = (double)c->m;
  g.batch = g.sharing = 1;
  g.task_height = c->m;
  g.task_columns = n < MAX_TASK_COLUMNS ? n : MAX_TASK_COLUMNS;
  t.mc = balanced_block(c->m, MAX_MC, t.mr);
  t.pack_kc = (int64_t)g.depth;
  t.has_mr_minus_one = t.mr > 1 && (!c->m_is_constant || c->m % t.mr != 0);
  t.last_panel_vectors = (uint32_t)(ceil_div(n, lanes) % (int64_t)t.nr_vectors);
  CostCounts counts = {.type = core_type_of(t.element_dtype)};
  cost_add_gemm(&counts, &t, &g, c->rates);
  return cost_of_counts(&counts, c->rates, 1).total;
}

void register_tile_choose(GemmTiling *t, const Schedule *s,
                          const GemmFields *set, const TileChoice *c) {
  uint32_t count;
  const MicroTile *shapes = register_tiles(s, &count);
  double best = HUGE_VAL;
  GemmTiling x = *t;
  for (uint32_t j = 0; j < count; j++) {
    int64_t rows = shapes[j].mr, vectors = shapes[j].nr_vectors;
    if (c->m_is_constant)
      rows = balanced_mr(c->m, rows);
    if (set->of[GEMM_MR])
      rows = set->of[GEMM_MR];
    if (set->of[GEMM_NR])
      vectors = ceil_div(set->of[GEMM_NR], s->width);
    x.mr = (uint32_t)rows;
    x.nr_vectors = (uint32_t)vectors;
    double cost =
        tile_registers(rows, vectors) > vector_registers(s->vector_bytes)
            ? HUGE_VAL
            : tile_cost(x, c);
    if (j > 0 && !cost_is_less(cost, best, LEAST_TILE_GAIN))
      continue;
    best = cost;
    t->mr = x.mr;
    t->nr_vectors = x.nr_vectors;
  }
}

void register_tile_choose_edges(GemmTiling *t, const LoopNest *loop,
                                uint32_t width) {
  int64_t m = gemm_rows(t, loop), n = loop->extents[t->n_axis];
  t->has_mr_minus_one = !extent_is_static(loop->graph, m) || m % t->mr != 0;
  t->has_mr_minus_one &= t->mr > 1;
  bool n_is_constant = extent_is_static(loop->graph, n);
  if (n_is_constant)
    t->last_panel_vectors = (uint32_t)(ceil_div(n, width) % t->nr_vectors);
  if (t->b.packing == OPERAND_UNPACKED && !t->last_panel_vectors &&
      (!n_is_constant || n % width))
    t->last_panel_vectors = t->nr_vectors;
}
