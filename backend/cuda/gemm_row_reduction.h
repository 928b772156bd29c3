/* backend/cuda: matmuls with row reductions,
 *
 *     r[m] = reduction over n of f(sum over k of a[m, k] * b[n, k]),
 *
 * and the code that uses r.  The matmul result is never written to memory. */
#ifndef AXON_CUDA_GEMM_ROW_REDUCTION_H
#define AXON_CUDA_GEMM_ROW_REDUCTION_H

#include "backend/cuda/gemm_pass.h"
#include "backend/cuda/match_exp_sum.h"

typedef struct GemmRowReduction {
  /* The matmul pass: matmul, elementwise epilogue, then the reductions as
   * elementwise loops. */
  Kernel *gemm_kernel;
  GemmPass *gemm;
  uint32_t first_reduction; /* in gemm_kernel */
  /* First loop of the second pass, in the original kernel.  It may also have
   * elementwise results. */
  uint32_t second_pass_loop;
  /* Index in the original kernel of each loop of gemm_kernel. */
  uint32_t loop_index[MAX_KERNEL_LOOPS];
  ExpSumPattern exp_sum[MAX_KERNEL_LOOPS]; /* by index in gemm_kernel */
  int64_t partials_per_row;                /* a symbolic size */
  uint32_t partial_count;
  /* Index in `partials`, by loop and output of gemm_kernel. */
  uint32_t partial_index[MAX_KERNEL_LOOPS][MAX_LOOP_OUTPUTS];
  PartialReduction partials[MAX_KERNEL_LOOPS];
  /* Used while source is emitted. */
  CudaAccumulator accumulators[MAX_KERNEL_LOOPS][MAX_LOOP_OUTPUTS];
  const char *combine;
} GemmRowReduction;

/* NULL: the kernel has no such reductions, or the matmul cannot reduce rows.
 * fields: see gemm_pass_match. */
GemmRowReduction *gemm_row_reduction_match(const Kernel *k,
                                           const CudaTarget *target,
                                           const char *fields);
/* Allocates the partial results, at the beginning of the matmul pass. */
void gemm_row_reduction_begin(CudaWriter *w);
/* Fills in the callbacks of the matmul's epilogue. */
void gemm_row_reduction_callbacks(CudaWriter *w, RowReductionCallbacks *to);
/* Builds the second pass: the loops of k from t->second_pass_loop on.  It
 * combines the partial results t->partials. */
Kernel *gemm_row_reduction_second_pass(CudaWriter *w, const GemmRowReduction *t,
                                       const Kernel *k);

#endif
