/* backend/cuda: sums of exp(x - v) over a row, where v depends only on the
 * row, and another loop computes the maximum of x.
 *
 * A part of the row is summed relative to its own maximum, or to 0 if that is
 * not finite.  The result is rescaled to v by the factor
 *
 *     exp(maximum - v)
 *
 * An empty part has the maximum -inf.  Its sum is 0 and stays 0, unless v is
 * -inf.  An infinite sum stays infinite.  If v is -inf and not the maximum,
 * the exponents are infinite; a NaN among them is lost. */
#ifndef AXON_CUDA_MATCH_EXP_SUM_H
#define AXON_CUDA_MATCH_EXP_SUM_H

#include "backend/cuda/kernel.h"

typedef struct ExpSumPattern {
  bool matched;
  uint32_t sum_output;           /* the only output in use */
  uint32_t max_loop, max_output; /* of the row maximum */
  uint32_t x, shift;             /* operations */
} ExpSumPattern;

/* Matches the loop.  Fills in all fields except those of the row maximum. */
bool match_exp_sum(const Kernel *k, uint32_t at, ExpSumPattern *to);
/* True if the output of loop `other`, over the same axes, is the maximum of
 * x. */
bool exp_sum_is_row_max(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern, uint32_t other,
                        uint32_t result);
/* The terms as a loop.  Its first operation, a KOP_LOAD_LOCAL, replaces v. */
LoopNest *exp_sum_terms(const Kernel *k, uint32_t at,
                        const ExpSumPattern *pattern);
/* The expression for v while a part is summed; acc%u is the maximum of the
 * part. */
const char *exp_sum_finite_max(Emitter *e, uint32_t max_name);

#endif
