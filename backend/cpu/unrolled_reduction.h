/* backend/cpu: analyses of short reductions (unrolled_reduction_analysis.c),
 * for unrolled_reduction.c. */
#ifndef AXON_CPU_UNROLLED_REDUCTION_H
#define AXON_CPU_UNROLLED_REDUCTION_H

#include "backend/cpu/loop_writer.h"

typedef struct UnrolledReduction {
  Emitter *e;
  uint32_t loop_index, vector_axis;
  uint32_t outer_loops, row_axis; /* loops around the rows, in order; row_axis:
                                     NO_AXIS if there is none */
  uint32_t loop_order[MAX_KERNEL_AXES];
  uint32_t rows, vectors; /* rows and vectors of a block */
  /* input row = row_stride * row + term_stride * term + constant */
  uint32_t term_axis, input_row_axis; /* NO_AXIS: rows are not jammed */
  int64_t row_stride, term_stride;
  bool partially_unrolled;    /* terms are in loops, around the loop over input
                                 rows */
  bool has_padding;           /* input rows end in padding */
  uint32_t *shared_loads;     /* loads that all rows share for one input row */
  uint32_t shared_load_count; /* number of shared_loads */
  const char *
      *precomputed; /* by operation: the variable that has its value, or NULL */
  Buffer shared_load_code;               /* loop of the shared loads */
  Buffer shared_load_levels[MAX_LEVELS]; /* code that this loop needs, by loop
                                            level */
  uint32_t input_row_level;
  Buffer broadcast_code;               /* loops of the hoisted broadcasts */
  Buffer broadcast_levels[MAX_LEVELS]; /* code that these loops need, by loop
                                          level */
  HoistedMasks hoisted_masks;
  Buffer accumulate_code[2][2],
      finish_code[2][2]; /* [1][.]: jammed rows, [0][.]: one row; [.][1]: with a
                            tail, [.][0]: full vectors */
  Buffer level_code[MAX_LEVELS]; /* loop-invariant code by loop level */
} UnrolledReduction;

/* Number of input rows that `rows` rows read. */
int64_t unrolled_reduction_input_rows(const UnrolledReduction *f,
                                      const LoopNest *loop, uint32_t rows);
/* Returns true if the number of terms is constant. */
bool unrolled_reduction_has_constant_terms(const LoopNest *loop);
/* Chooses the number of jammed rows, and their axes. */
void unrolled_reduction_choose_jam(const LoopNest *loop, UnrolledReduction *f);
/* The loop with the axis of input rows in place of rows and terms. */
LoopNest *unrolled_reduction_index_by_input_rows(Arena *arena,
                                                 const LoopNest *from,
                                                 const UnrolledReduction *f);
/* Vectors of a block, such that no vector of the last block is idle. */
uint32_t unrolled_reduction_choose_block_vectors(const Emitter *e,
                                                 const LoopNest *loop,
                                                 uint32_t vector_axis);

#endif
