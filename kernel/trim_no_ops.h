/* tensor, for trim_no_ops.c and drop_predicates.c: what conditions on indices
 * say. */
#ifndef AXON_KERNEL_TRIM_NO_OPS_H
#define AXON_KERNEL_TRIM_NO_OPS_H

#include "kernel/kernel.h"

/* What is not negative where, and only where, a comparison has the value
 * `truth`: so many forms, at most two; 0: it is no such comparison. */
uint32_t comparison_inequalities(const LoopNest *loop, const KernelOp *s,
                                 bool truth, AffineExpr *out);
/* What `form >= 0` says of the one inner axis that it has; false: it has none,
 * or others. */
bool trim_bound_of_inequality(const LoopNest *loop,
                              const AffineExpr *inequality, TrimBound *bound,
                              uint32_t *axis);

/* drop_predicates.c: of a loop at whose points all its limits hold. */
void loop_drop_predicates(const Kernel *k, LoopNest *loop);
/* Of a kernel whose loops go exactly as far as limits say. */
void kernel_drop_predicates(Kernel *k);

#endif
