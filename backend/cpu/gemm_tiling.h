/* backend/cpu: sums of products as tiles that lie in registers. */
#ifndef AXON_CPU_GEMM_TILING_H
#define AXON_CPU_GEMM_TILING_H

#include "backend/cpu/conv_analysis.h"

enum {
  MAX_KC = 768, /* terms of a pass */
  MAX_MC = 96,  /* rows that are gone through at a time */
  MAX_TASK_LOCAL_BYTES =
      512 << 10,             /* local values of a unit: where these are not */
  MIN_STRIP_MINED_ROWS = 12, /* so many rows at least, rows go in portions */
};

typedef enum OperandPacking {
  OPERAND_UNPACKED,    /* as it lies in memory: a row by row, terms next to each
                          other; b term by term, columns next to each other */
  OPERAND_PACK_A_ROWS, /* a: likewise, copied */
  OPERAND_PACK_A_COLUMNS, /* a: copied term by term, rows next to each other */
  OPERAND_PACK_B,         /* b: copied as panels of NR columns, term by term */
  OPERAND_PACK_B_TRANSPOSED, /* the same, from values that lie along the terms
                              */
  OPERAND_PACK_B_IM2COL,     /* b: the same, panel by panel, from a window */
} OperandPacking;

typedef struct Operand {
  LoopNest *loop; /* its one result is the product of the operand's factors */
  OperandPacking packing;
  bool may_prepack;  /* it may be there from a call before: prepack.c; and */
  bool prepack_pays; /* copying it takes so long that it should be */
} Operand;

/* result[others, m, n] = sum over k of a[others, m, k] * b[others, k, n] */
typedef struct GemmTiling {
  bool is_gemm; /* this loop of the kernel is a product */
  uint32_t m_axis, n_axis;
  Operand a, b;
  uint32_t mr, nr_vectors; /* of the tile */
  bool has_short_tiles;  /* through a window: there are tiles of fewer rows, too
                          */
  bool has_mr_minus_one; /* the last rows are tiles of one row less, where that
                            comes out, so that there are no rows left */
  uint32_t last_panel_vectors; /* vectors of a tile of the last panel; 0: it is
                                  as others */
  int64_t depth;               /* of the sum */
  int64_t kc, mc, nc;          /* of a pass */
  int64_t pack_kc;             /* terms of b that are copied at a time */
  bool epilogue_per_block; /* what the loops after it read is there for a pass
                              only */
  bool hoists_packing; /* b is copied before the rows of a unit are gone through
                        */
  bool reads_b_unpacked; /* b is read as it lies, or as it was kept, though its
                            terms are far apart: there are too few rows to copy
                            it for; */
  bool prefetch_b; /* and no cache holds it, so that it is fetched ahead */
  ConvWindow *window;
  bool prefetch_a; /* the left side is read as it lies, though copied, and comes
                      from beyond the caches of a core: it is fetched ahead */
  Dtype accumulator_dtype; /* of the sums */
  Dtype element_dtype; /* of what is copied; DT_I32: terms are pairs of bf16,
                          whose products the machine adds up two at a time */
} GemmTiling;

typedef struct GemmTilings {
  GemmTiling by_loop[MAX_KERNEL_LOOPS];
} GemmTilings;

static inline bool gemm_tiling_epilogue_per_block(const Schedule *s) {
  return s->gemm_tilings && s->gemm_tilings->by_loop[0].epilogue_per_block;
}

/* Finds the kernel's products and a schedule that suits all of them; false:
 * there are none, or they are better off as ordinary loops. */
bool gemm_tiling_choose(Kernel *k, Schedule *s);
/* Of a product: the set of summed axes along which one of its sides is read
 * through a window that slides along an outer one, and which axis is that of
 * the other side's rows; 0: there are none. */
uint64_t gemm_tiling_sliding_axes(Arena *arena, const LoopNest *loop,
                                  uint32_t *rows);

/* ---- gemm_partition.c ---- */

/* How a product is cut into units. */
typedef struct GemmPartition {
  int64_t m, n, depth;   /* of it, */
  double batch;          /* and how many there are */
  int64_t element_bytes; /* of an element */
  double vector_lanes;   /* lanes */
  double threads;
  int64_t task_height, task_columns; /* rows and columns of a unit */
} GemmPartition;

/* Chooses these for the tile; open: sizes are not known. */
void gemm_partition_choose(GemmPartition *g, const GemmTiling *t,
                           bool symbolic);

/* ---- bf16_dot.c ---- */

/* Are both operands bf16 that is but widened, and has the machine dot products
 * of these? */
bool bf16_dot_applies(const Schedule *s, const GemmTiling *t);
/* The operand with pairs for terms; along: lanes lie along these. */
LoopNest *bf16_dot_operand(Arena *arena, const LoopNest *loop,
                           bool vectors_along_terms);

#endif
