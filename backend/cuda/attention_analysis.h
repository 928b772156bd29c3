/* backend/cuda: matches fused attention in kernels (kernel/match_attention.c),
 * and emits it as passes (attention.h). */
#ifndef AXON_CUDA_ATTENTION_ANALYSIS_H
#define AXON_CUDA_ATTENTION_ANALYSIS_H

#include "backend/cuda/attention.h"
#include "backend/cuda/gemm_pass.h"

/* The right operand of the matmul that reads the weights (value), and the
 * operands of the first product that computes scores (query, key), and of the
 * second, if there is one. */
enum {
  ATTENTION_Q,
  ATTENTION_K,
  ATTENTION_V,
  ATTENTION_Q2,
  ATTENTION_K2,
  ATTENTION_OPERANDS
};

typedef struct AttentionPass {
  const char *arch; /* target architecture */
  GpuSpec gpu;
  AttentionShape shape;
  GemmSchedule s;
  double seconds;      /* predicted */
  const char *refusal; /* see GemmPass */
  AttentionPattern pattern;
  uint32_t operand_count;
  uint32_t batch[MAX_KERNEL_AXES], m[MAX_KERNEL_AXES],
      k[MAX_SCORE_PRODUCTS][MAX_KERNEL_AXES], e[MAX_KERNEL_AXES];
  uint32_t batch_count, m_count, k_count[MAX_SCORE_PRODUCTS], e_count;
  /* Loop nests whose results are the operand elements. */
  const LoopNest *side[ATTENTION_OPERANDS];
  /* The load, if the operand is nothing else; or NULL. */
  const KernelOp *load[ATTENTION_OPERANDS];
  /* For operands that TMA can copy. */
  TensorMap tensor_map[ATTENTION_OPERANDS];
  LoopNest *score;          /* the score and its operands */
  LoopNest *unmasked_score; /* the score of a tile without masked elements */
  /* Numbers for which unmasked_score is valid if they are neither small nor
   * large; or NULL. */
  LoopNest *score_numbers;
  /* The tanh in unmasked_score, if that is a number times tanh; or NULL. */
  const KernelOp *capping_tanh;
  /* Factor of the unmasked score, if it is a multiple of the dot product; or
   * NULL. */
  LoopNest *score_scale;
  LoopNest *weight_factors; /* One result per factor of the weights. */
  /* The kernel with trimmed bounds (kernel/trim_no_ops.c), and the bounds as a
   * bit set; or NULL. */
  const Kernel *trimmed;
  uint32_t trim_bounds;
  /* The trimmed bounds are always valid: see AttentionShape.may_retry. */
  bool bounds_proved;
  /* With trimmed bounds: finds values that are not finite.  A weight of 0 does
   * not remove these.  NULL: no block skips values, or checks_sums. */
  LoopNest *finite_check;
  /* The blocks find such values in their sums: see AttentionKernelSpec. */
  bool checks_sums;
} AttentionPass;

/* ---- attention_coverage.c ---- */

/* What the blocks of a batch read with trimmed bounds. */
typedef enum AttentionCoverage {
  COVERAGE_UNKNOWN,
  COVERAGE_TOGETHER,   /* each value is read by a block */
  COVERAGE_EACH_BLOCK, /* each block reads all values */
} AttentionCoverage;
AttentionCoverage attention_coverage(const AttentionPass *t, const Kernel *k);

/* The tensor map of an output, without box. */
bool attention_output_map(const AttentionPass *t, const LoopNest *loop,
                          const LoopOutput *r, TensorMap *to);
/* Records whether TMA can store the outputs.  In epilogue.c. */
void cuda_attention_stores(AttentionPass *t, const Kernel *k);
/* NULL: not a supported attention kernel, or no schedule fits.  fields: see
 * gemm_pass_match. */
AttentionPass *attention_pass_match(const Kernel *k, const CudaTarget *target,
                                    const char *fields);
void attention_set_output_box(const AttentionPass *t, TensorMap *map);
/* Emits the body of the pass, and the functions before it. */
void attention_pass_put(CudaWriter *w, Buffer *before);

#endif
