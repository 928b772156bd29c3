/* backend/cpu: tiling of matmuls: register tiles, cache blocks, packing. */
#ifndef AXON_CPU_GEMM_TILING_H
#define AXON_CPU_GEMM_TILING_H

#include "backend/cpu/conv_analysis.h"
#include "machine/limits/cpu.h"

typedef struct Arena Arena;
typedef struct GemmProblem GemmProblem; /* cost.h */

typedef enum OperandPacking {
  OPERAND_UNPACKED, /* read in place. a: terms are contiguous in a row; b:
                       columns are contiguous in a term */
  OPERAND_UNPACKED_COLUMNS, /* a: read in place; rows are contiguous in a term
                             */
  OPERAND_PACK_A_ROWS,      /* a: packed row by row; terms are contiguous */
  OPERAND_PACK_A_COLUMNS,   /* a: packed term by term; rows are contiguous */
  OPERAND_PACK_B, /* b: packed into panels of NR columns, term by term */
  OPERAND_PACK_B_TRANSPOSED, /* the same, from memory in which terms are
                                contiguous */
  OPERAND_PACK_B_IM2COL,     /* b: the same, from a convolution window, panel by
                                panel */
} OperandPacking;

typedef struct Operand {
  LoopNest *loop; /* its one output is the product of the operand's factors */
  OperandPacking packing;
  struct Nest *nest; /* packs it, or copies its window; NULL: nothing does */
  bool may_prepack;  /* the packed operand may be cached between calls
                        (prepack.c) */
  bool prepack_pays; /* packing takes long enough to cache its result */
  bool packs_once;   /* at least MIN_PACKED_ROW_BLOCKS row blocks of one run use
                        the packed operand: it is packed before them, even if it
                        is not cached */
} Operand;

/* result[others, m, n] = sum over k of a[others, m, k] * b[others, k, n] */
typedef struct GemmTiling {
  bool is_gemm; /* this loop of the kernel is a matmul */
  uint32_t m_axis, n_axis;
  Operand a, b;
  uint32_t mr, nr_vectors;         /* rows and vectors of a register tile */
  const struct MicroKernel *micro; /* computes full tiles; NULL: none */
  bool has_short_tiles; /* convolutions: there are also tiles with fewer rows */
  bool has_mr_minus_one; /* remainder rows use tiles of mr - 1 rows, if these
                            divide them evenly */
  uint32_t last_panel_vectors; /* vectors of a tile of the last panel; 0:
                                  nr_vectors */
  int64_t depth;               /* reduction terms */
  int64_t kc, mc, nc;          /* terms, rows and columns of a cache block */
  int64_t pack_kc;             /* terms of b that are packed at a time */
  bool epilogue_per_block; /* the loops after the matmul run per cache block,
                              which is the only part of the result that is
                              stored */
  bool hoists_packing; /* b is packed before the loop over the rows of a task */
  /* b does not depend on the batch axes: a packed block of b serves the whole
   * batch, and the result accumulates in memory. */
  bool shares_panels;
  /* shares_panels with packed rows of a: the rows of the whole batch are those
   * of one matmul.  Their number for each m, an extent; otherwise 1. */
  int64_t batch_rows;
  bool reads_b_unpacked; /* b is read in place, or prepacked, though its terms
                            are far apart in memory: it has too few rows to
                            amortize packing */
  bool prefetch_b;       /* no cache holds b, so that the tile prefetches it */
  struct Nest *nest; /* the loops around the tile; NULL: a step is refused */
  ConvWindow *window;
  bool prefetch_a; /* a is read in place and does not fit in the caches of a
                      core, so that the tile prefetches it */
  Dtype accumulator_dtype; /* type of the accumulators */
  Dtype element_dtype; /* type of packed elements; DT_I32: a pair of bf16 terms,
                          for bf16 dot instructions */
} GemmTiling;

/* Vector registers of a machine whose vectors have `vector_bytes` bytes. */
static inline int64_t vector_registers(uint32_t vector_bytes) {
  return vector_bytes == 64 ? 32 : 16;
}

/* Vector registers of a tile: accumulators, vectors of b, an element of a. */
static inline int64_t tile_registers(int64_t rows, int64_t vectors) {
  return rows * vectors + vectors + 1;
}

/* True if the rows of a are contiguous in each term. */
static inline bool gemm_rows_are_contiguous(const GemmTiling *t) {
  return t->a.packing == OPERAND_PACK_A_COLUMNS ||
         t->a.packing == OPERAND_UNPACKED_COLUMNS;
}

/* True if the rows of the whole batch are those of one matmul. */
static inline bool gemm_merges_batch(const GemmTiling *t) {
  return t->batch_rows != 1;
}

/* True if vectors lie along the output channels of a convolution. */
static inline bool gemm_is_along_channels(const GemmTiling *t) {
  return t->window && t->window->vectorize_channels;
}

/* True if tiles at the padding leave out terms of each group. */
static inline bool gemm_groups_terms(const GemmTiling *t) {
  return gemm_is_along_channels(t) && t->window->padding.group_terms;
}

typedef struct GemmTilings {
  GemmTiling by_loop[MAX_KERNEL_LOOPS];
} GemmTilings;

static inline bool gemm_tiling_epilogue_per_block(const Schedule *s) {
  return s->gemm_tilings && s->gemm_tilings->by_loop[0].epilogue_per_block;
}

/* True if a tile runs a micro-kernel of the user. */
bool gemm_tilings_have_micro_kernel(const Kernel *k, const Schedule *s);
/* Finds the matmuls of the kernel and a schedule for all of them.  Returns
 * false if there are none, or if ordinary loops are faster. */
bool gemm_tiling_choose(Kernel *k, Schedule *s);
/* Returns the set of reduction axes along which a window of a matmul's operand
 * slides.  The window also slides along a parallel axis. *rows becomes the row
 * axis of the other operand.  Returns 0 if there is no such axis. */
uint64_t gemm_tiling_sliding_axes(Arena *arena, const LoopNest *loop,
                                  uint32_t *rows);

/* ---- gemm_pack_nest.c ---- */

/* Chooses the nests that pack the operands. */
void gemm_pack_choose(const Kernel *k, const Schedule *s, GemmTiling *t);
/* The nest that reads all elements of an operand, to test them.  axis: of the
 * rows or columns.  along_terms: vectors lie along the terms. */
struct Nest *gemm_test_nest(const Kernel *k, LoopNest *loop, uint32_t axis,
                            bool along_terms, uint32_t width);

/* ---- gemm_nest.c ---- */

/* Chooses the loops around the register tile of a matmul or of a direct
 * convolution.  has_epilogue: other loop nests run on its results.  Returns
 * NULL if a step is refused. */
struct Nest *gemm_nest_choose(const Kernel *k, const Schedule *s,
                              const GemmTiling *t, const LoopNest *loop,
                              bool has_epilogue);

/* ---- gemm_partition.c ---- */

/* Chooses the tasks for the tile: sizes that are not set, but 0. symbolic:
 * sizes are unknown at compile time. */
void gemm_partition_choose(GemmProblem *g, const GemmTiling *t, bool symbolic);
/* Chooses the rows of tasks that have all columns. */
void gemm_partition_choose_rows(GemmProblem *g, const GemmTiling *t,
                                bool symbolic);

/* ---- bf16_dot.c ---- */

/* Returns true if both operands are widened bf16 and the machine has bf16 dot
 * products. */
bool bf16_dot_applies(const Schedule *s, const GemmTiling *t);
/* The operand with pairs of terms as elements. vectors_along_terms: vectors lie
 * along the terms. */
LoopNest *bf16_dot_operand(Arena *arena, const LoopNest *loop,
                           bool vectors_along_terms);

#endif
