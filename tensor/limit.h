/* tensor, for limit.c and within.c: what conditions on indices say. */
#ifndef AXON_TENSOR_LIMIT_H
#define AXON_TENSOR_LIMIT_H

#include "tensor/kernel.h"

/* What is not negative where, and only where, a comparison has the value
 * `truth`: so many forms, at most two; 0: it is no such comparison. */
uint32_t limit_forms(const Loop *loop, const Step *s, bool truth, Quasi *out);
/* What `form >= 0` says of the one inner axis that it has; false: it has none,
 * or others. */
bool limit_of_form(const Loop *loop, const Quasi *form, Limit *limit,
                   uint32_t *axis);

/* within.c: of a loop at whose points all its limits hold. */
void loop_settle(const Kernel *k, Loop *loop);
/* Of a kernel whose loops go exactly as far as limits say. */
void kernel_settle(Kernel *k);

#endif
