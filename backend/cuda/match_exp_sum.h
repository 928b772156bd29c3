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
#ifndef AXON_CUDA_MATCH_EXP_SUM_H
#define AXON_CUDA_MATCH_EXP_SUM_H

#include "backend/cuda/kernel.h"

typedef struct ExpSumPattern {
  bool matched;
  uint32_t sum_output; /* of the loop's results: all that is wanted of it */
  uint32_t max_loop, max_output; /* that has the largest */
  uint32_t x, shift;             /* steps */
} ExpSumPattern;

/* Is the kernel's loop one?  Says all of it but which has the largest. */
bool match_exp_sum(const Kernel *k, uint32_t at, ExpSumPattern *to);
/* Is this what another loop over the same axes has? */
bool exp_sum_is_row_max(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern, uint32_t other,
                        uint32_t result);
/* Its terms: the first step, a KOP_LOAD_LOCAL, is there in place of v. */
LoopNest *exp_sum_terms(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern);
/* What that is while the part is gone through, of which acc%u is the largest x:
 * an expression. */
const char *exp_sum_finite_max(Emitter *e, uint32_t max_name);

#endif
