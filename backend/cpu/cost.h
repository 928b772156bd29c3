/* backend/cpu: what the code of a schedule does, counted for the cost model
 * (kernel/cost_model.h).  Sizes that are symbolic count as their hints. */
#ifndef AXON_CPU_COST_H
#define AXON_CPU_COST_H

#include "backend/cpu/gemm_tiling.h"
#include "kernel/cost_model.h"
#include "kernel/nest.h"

/* Returns true if the model tells that `cost` is less than that of an earlier
 * candidate, by a part of it.  It does not order close costs reliably;
 * candidates that are good in general come first. */
static inline bool cost_is_less(double cost, double best, double least_gain) {
  return cost < (1 - least_gain) * best;
}
/* The type of the arithmetic on elements of a matmul; DT_I32: bf16 pairs. */
CoreType core_type_of(Dtype t);
/* What the code of a kernel with its schedule does.  cost_of_counts makes terms
 * of it. */
void cost_count(const Kernel *k, const Schedule *s, const CoreRates *r,
                CostCounts *out);

/* ---- cost_gemm.c ---- */

struct GemmProblem { /* sizes of the matmuls of a loop nest */
  double m, n, depth;
  double batch;   /* number of matmuls */
  double sharing; /* of them, the number that share panels of b */
  int64_t task_height, task_columns;
  int64_t packed_rows; /* rows that use a packed b; 0: those of a task */
  double lanes, element_bytes;
  /* b may be prepacked, and is then counted so.  Choosers do not set it: the
   * tasks of fewer rows that it allows are up to 6 % slower. */
  bool may_prepack_b;
};

/* The matmuls of a loop nest, without tasks: task_height and task_columns are
 * 0.  b is not prepacked. */
GemmProblem gemm_problem(const LoopNest *loop, const GemmTiling *t,
                         uint32_t lanes);
/* Adds the matmuls to the counts.  Their tasks do not count. */
void cost_add_gemm(CostCounts *c, const GemmTiling *t, const GemmProblem *g,
                   const CoreRates *r);
/* Number of tasks. */
double gemm_task_count(const GemmProblem *g);
/* Adds the terms of tiles of `rows` rows and `vectors` vectors.
 * pointers: rows of the left operand that have their own pointers. */
void cost_add_tile_terms(CostCounts *c, double rows, double vectors,
                         double terms, double pointers);
/* Adds the stores of `tiles` tiles, which add to sums of earlier blocks of
 * terms in a part of them. */
void cost_add_tile_stores(CostCounts *c, double rows, double vectors,
                          double tiles, double adding);

/* ---- cost_conv.c ---- */

/* The sizes of the convolution of a kernel. */
ConvProblem conv_problem(const Kernel *k, const Schedule *s,
                         const GemmTiling *t);
/* Counts all tasks of a convolution.  Returns false if a window is too
 * large. */
bool conv_count_tasks(const ConvWindow *w, const ConvProblem *problem,
                      const ConvTask *task, const CoreRates *r,
                      CostCounts *out);
void cost_add_conv(CostCounts *c, const Kernel *k, const Schedule *s,
                   const GemmTiling *t, const CoreRates *r);

/* ---- cost_nest.c ---- */

/* Adds the iterations of a loop nest as its schedule arranges them. */
void cost_add_nest(CostCounts *c, const Kernel *k, const Schedule *s,
                   const Nest *n, const CoreRates *r);

#endif
