/* backend/cpu: parts of the choice of a tiling (gemm_tiling.h), for its files
 * only. */
#ifndef AXON_CPU_GEMM_CHOOSER_H
#define AXON_CPU_GEMM_CHOOSER_H

#include "backend/cpu/gemm_fields.h"
#include "backend/cpu/gemm_tiling.h"
#include "kernel/kernel.h"
#include "machine/machine.h"

typedef struct GemmChooser {
  Arena *arena;
  Kernel *k;
  Schedule *s;
  ContractionPattern products[MAX_KERNEL_LOOPS];
  bool is_product[MAX_KERNEL_LOOPS];
  bool through_window; /* the only matmul is a convolution */
  bool any_size;       /* a matmul may have few rows */
  uint32_t count;
} GemmChooser;

/* The size of equal blocks of `extent`: at most `max`, and a multiple of
 * `of`. */
static inline int64_t balanced_block(int64_t extent, int64_t max, int64_t of) {
  int64_t count = ceil_div(extent, max);
  return round_up(ceil_div(extent, count > 0 ? count : 1), of);
}

/* Iterations of the parallel axes before the last `last` ones. */
static inline double gemm_chooser_batch_points(const GemmChooser *c,
                                               uint32_t last) {
  uint32_t outer = c->k->parallel_axes;
  return outer > last ? loop_iterations_hint(c->k->loops.at[0], 0, outer - last)
                      : 1;
}

/* Rows of all matmuls that are computed as one, an extent. */
int64_t gemm_rows(const GemmTiling *t, const LoopNest *loop);

/* ---- register_tile.c ---- */

/* The register tiles to choose from. */
const MicroTile *register_tiles(const Schedule *s, uint32_t *count);
typedef struct TileChoice { /* what a register tile is chosen for */
  const LoopNest *loop;
  int64_t m; /* rows of all matmuls that are computed as one */
  uint32_t lanes;
  bool m_is_constant; /* m is the number of rows in all calls */
  const CoreRates *rates;
} TileChoice;
/* Chooses the tile of least cost.  set: fields that the user set. */
void register_tile_choose(GemmTiling *t, const Schedule *s,
                          const GemmFields *set, const TileChoice *c);
/* Chooses the tiles of the edges: tiles of one row less, and of fewer
 * vectors. */
void register_tile_choose_edges(GemmTiling *t, const LoopNest *loop,
                                uint32_t width);

/* ---- gemm_operand.c ---- */

/* The loop that computes an operand, with as few reduction axes as possible.
 * is_window: with one reduction axis, or all. */
LoopNest *gemm_operand_loop(Arena *arena, const LoopNest *loop,
                            const ContractionPattern *p, uint32_t which,
                            Dtype t, bool is_window);
/* Cost of vectors along v: a strided access counts 1; gathers and divisions
 * count more. */
uint32_t gemm_operand_strided_accesses(const LoopNest *loop, uint32_t v);
/* The load that is the whole operand; NULL: the operand is computed. */
const KernelOp *gemm_operand_unpacked_load(const LoopNest *loop, Dtype t);
void gemm_operand_choose_packing(GemmTiling *t, const LoopNest *loop,
                                 const Schedule *s);
/* Returns true if few rows use each element of b.  Then packing b takes longer
 * than reading it in place. */
bool gemm_operand_may_read_b_unpacked(const GemmTiling *t, const LoopNest *loop,
                                      const Schedule *s);

/* ---- conv_tiling.c ---- */

/* Chooses tile and task of a convolution.  set: fields that the user set. */
void conv_tiling_choose(GemmChooser *c, GemmTiling *t, const GemmFields *set);

#endif
