/* Conditions on indices, as bounds of loops: for trim_no_ops.c and
 * drop_predicates.c. */
#ifndef AXON_KERNEL_TRIM_NO_OPS_H
#define AXON_KERNEL_TRIM_NO_OPS_H

#include "kernel/kernel.h"

/* ---- inequality.c ---- */

/* affine + load_coef * load >= 0.  load: as in TrimBound. */
typedef struct Inequality {
  AffineExpr affine;
  const KernelOp *load;
  int64_t load_coef;
} Inequality;
/* Inequalities that all hold if and only if a comparison has the truth value.
 * Returns their number, at most 2.  Returns 0 if s is not a comparison of
 * affine expressions, of which at most one contains a load. */
uint32_t comparison_inequalities(const LoopNest *loop, const KernelOp *s,
                                 bool truth, Inequality *out);
/* The same, also for comparisons of indices that are converted to floats. */
uint32_t condition_inequalities(const LoopNest *loop, const KernelOp *s,
                                bool truth, Inequality *out);
/* True if the inequalities or bounds add the same load. */
bool trim_loads_equal(const KernelOp *x, int64_t x_coef, const KernelOp *y,
                      int64_t y_coef);
/* True if q has parallel axes only. */
bool kernel_affine_is_outer(const LoopNest *loop, const AffineExpr *q);
/* Floats compare like the integers from which they were converted if one of the
 * two conversions is exact.  Sets largest_index and exact_limit of the bound so
 * that one conversion is exact.  Returns false if none can be. */
bool trim_bound_set_exactness(const LoopNest *loop, const KernelOp *s,
                              TrimBound *bound);
/* Solves `inequality >= 0` for its only inner axis.  Returns false if it has no
 * or several inner axes. */
bool trim_bound_of_inequality(const LoopNest *loop,
                              const Inequality *inequality, TrimBound *bound,
                              uint32_t *axis);

/* ---- trim_no_ops.c ---- */

/* For each op: true if its value is used, and not only as an index of loads or
 * in a condition that trims the loop. */
bool *loop_value_ops(Arena *arena, const LoopNest *loop);

/* ---- drop_predicates.c ---- */

/* Removes predicates of a loop that runs only within its bounds. */
void loop_drop_predicates(const Kernel *k, LoopNest *loop);
/* The same for each loop of a kernel, if its bounds are exact. */
void kernel_drop_predicates(Kernel *k);

#endif
