/* backend/cuda: products whose rows come to numbers,
 *
 *     r[m] = reduction over n of f(sum over k of a[m, k] * b[n, k]),
 *
 * and what follows of each row, without the product in memory. */
#ifndef AXON_CUDA_GEMM_ROW_REDUCTION_H
#define AXON_CUDA_GEMM_ROW_REDUCTION_H

#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/match_exp_sum.h"

typedef struct GemmRowReduction {
  Kernel *gemm_kernel; /* the product's pass; behind what is done with each
                          element are the reductions, as of each element */
  GemmPass *gemm;
  uint32_t first_reduction; /* of these, in the pass, */
  uint32_t
      second_pass_loop; /* and in the kernel, where elements may be left, too */
  uint32_t loop_index[MAX_KERNEL_LOOPS]; /* their numbers in the kernel, by that
                                            in the pass */
  ExpSumPattern exp_sum[MAX_KERNEL_LOOPS]; /* by numbers in the pass */
  int64_t partials_per_row;                /* parts of a row: a size */
  uint32_t partial_count;                  /* kinds of parts, by loop and */
  uint32_t partial_index[MAX_KERNEL_LOOPS]
                        [MAX_LOOP_OUTPUTS]; /* result in the pass: */
  PartialReduction partials[MAX_KERNEL_LOOPS];
  CudaAccumulator accumulators[MAX_KERNEL_LOOPS]
                              [MAX_LOOP_OUTPUTS]; /* while text is written */
  const char *combine;
} GemmRowReduction;

/* NULL: it is none, or its product has no tiles. */
GemmRowReduction *gemm_row_reduction_match(const Kernel *k,
                                           const CudaTarget *target);
/* The product's pass is begun: where parts will lie. */
void gemm_row_reduction_begin(CudaWriter *w);
/* How its tiles leave them. */
void gemm_row_reduction_callbacks(CudaWriter *w, RowReductionCallbacks *to);
/* The pass behind it, with the kernel's loops from t->second_pass_loop on; it
 * reads t->partials. */
Kernel *gemm_row_reduction_second_pass(CudaWriter *w, const GemmRowReduction *t,
                                       const Kernel *k);

#endif
