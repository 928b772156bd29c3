/* The register tile of a matmul. */
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

void register_tile_choose(GemmTiling *t, const Schedule *s,
                          const GemmFields *set, int64_t m, int64_t n,
                          bool m_is_constant) {
  uint32_t count;
  const MicroTile *shapes = register_tiles(s, &count);
  int64_t vectors = ceil_div(n, s->width);
  double best = 0;
  for (uint32_t j = 0; j < count; j++) {
    int64_t rows = shapes[j].mr, per_tile = shapes[j].nr_vectors;
    if (m_is_constant)
      rows = balanced_mr(m, rows);
    if (set->of[GEMM_MR])
      rows = set->of[GEMM_MR];
    if (set->of[GEMM_NR])
      per_tile = ceil_div(set->of[GEMM_NR], s->width);
    double tile_rows_count = rows_divide_evenly(m, rows)
                                 ? (double)m / (double)rows
                                 : (double)ceil_div(m, rows);
    double time =
        (double)(vectors / per_tile) * term_half_cycles(rows, per_tile);
    if (vectors % per_tile)
      time += term_half_cycles(rows, vectors % per_tile);
    if (tile_registers(rows, per_tile) > vector_registers(s->vector_bytes))
      time = HUGE_VAL;
    if (j > 0 && tile_rows_count * time >= best)
      continue;
    best = tile_rows_count * time;
    t->mr = (uint32_t)rows;
    t->nr_vectors = (uint32_t)per_tile;
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
