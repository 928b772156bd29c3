/* backend/cuda: sums over a row of exp(x - v), where v is of the row, and some
 * other loop has the largest x.  A part of a row is summed relative to its own
 * largest x: to 0 where that is not finite.  It becomes one relative to v by
 *
 *     exp(largest - v):
 *
 * one in which there is nothing, whose largest is -inf, is 0 and stays so, but
 * where v is -inf, too; and what is infinite stays infinite.  (Where v is -inf
 * and not the largest, exponents are infinite; that some of them may be no
 * number is lost then.) */
#ifndef AXON_CUDA_NEAR_H
#define AXON_CUDA_NEAR_H

#include "backend/cuda/kernel.h"

typedef struct CudaNear {
  bool is;
  uint32_t sum;          /* of the loop's results: all that is wanted of it */
  uint32_t loop, result; /* that has the largest */
  uint32_t x, v;         /* steps */
} CudaNear;

/* Is the kernel's loop one?  Says all of it but which has the largest. */
bool cuda_near(const Kernel *k, uint32_t at, CudaNear *to);
/* Is this what another loop over the same axes has? */
bool cuda_is_largest(const Kernel *k, uint32_t at, const CudaNear *near,
                     uint32_t other, uint32_t result);
/* Its terms: the first step, a STEP_LOCAL, is there in place of v. */
Loop *cuda_near_terms(const Kernel *k, uint32_t at, const CudaNear *near);
/* What that is while the part is gone through, of which acc%u is the largest x:
 * an expression. */
const char *cuda_near_largest(Emitter *e, uint32_t most);

#endif
