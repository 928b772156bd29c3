/* For trim_no_ops.c and drop_predicates.c: what conditions on indices say. */
#ifndef AXON_KERNEL_TRIM_NO_OPS_H
#define AXON_KERNEL_TRIM_NO_OPS_H

#include "kernel/kernel.h"

/* ---- inequality.c ---- */

/* What is not negative where, and only where, a comparison has the value
 * `truth`: so many forms, at most two; 0: it is no such comparison. */
uint32_t comparison_inequalities(const LoopNest *loop, const KernelOp *s,
                                 bool truth, AffineExpr *out);
/* The same, also of a comparison of indices that were converted to floats. */
uint32_t condition_inequalities(const LoopNest *loop, const KernelOp *s,
                                bool truth, AffineExpr *out);
/* The floats of a comparison compare as their indices do where one of the two
 * is exact, whatever the other one is: where its largest value is small enough.
 * False: that is not so. */
bool trim_bound_set_exactness(const LoopNest *loop, const KernelOp *s,
                              TrimBound *bound);
/* What `form >= 0` says of the one inner axis that it has; false: it has none,
 * or others. */
bool trim_bound_of_inequality(const LoopNest *loop,
                              const AffineExpr *inequality, TrimBound *bound,
                              uint32_t *axis);

/* ---- drop_predicates.c ---- */

/* Of a loop at whose points all its limits hold. */
void loop_drop_predicates(const Kernel *k, LoopNest *loop);
/* Of a kernel whose loops go exactly as far as limits say. */
void kernel_drop_predicates(Kernel *k);

#endif
