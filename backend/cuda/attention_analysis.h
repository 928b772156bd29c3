/* backend/cuda: kernels that are two products with the weights of rows between
 * them (kernel/match_attention.c) as passes that keep no rows (attention.h). */
#ifndef AXON_CUDA_ATTENTION_ANALYSIS_H
#define AXON_CUDA_ATTENTION_ANALYSIS_H

#include "backend/cuda/attention.h"
#include "backend/cuda/gemm_pass.h"

/* The left and right side of the first product, and the right side of the
 * second one. */
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_OPERANDS };

typedef struct AttentionPass {
  const char *arch; /* that its text is for */
  AttentionShape shape;
  GemmSchedule s;
  double seconds;             /* that it takes, as far as is known */
  const char *override_error; /* as a GemmPass's */
  AttentionPattern pattern;
  uint32_t batch[MAX_KERNEL_AXES], m[MAX_KERNEL_AXES], k[MAX_KERNEL_AXES],
      e[MAX_KERNEL_AXES];
  uint32_t batch_count, m_count, k_count, e_count;
  const LoopNest *side[ATTENTION_OPERANDS]; /* whose results are its elements */
  const KernelOp
      *load[ATTENTION_OPERANDS]; /* the read that it is nothing but; or NULL */
  TensorMap tensor_map[ATTENTION_OPERANDS]; /* where TMA can copy it */
  LoopNest *score;          /* between's, no more steps than it needs, */
  LoopNest *unmasked_score; /* and of tiles that limits do not cut, */
  LoopNest *score_divisors; /* where such numbers have reciprocals; or NULL; */
  LoopNest *score_scale;    /* where it is this number times the sum; or NULL */
  LoopNest *weight_factors; /* likewise; a result each */
  /* With limits on the row (kernel/trim_no_ops.c), or NULL: then `finite` is a
   * loop that looks whether what is left out would have been zero whatever it
   * is weighed by, */
  const Kernel *trimmed;
  uint32_t trim_bounds;
  bool bounds_proved; /* and they are never wrong: see attention.h */
  LoopNest *finite_check;
} AttentionPass;

/* NULL: it is none, or what there would be to choose does not fit. */
AttentionPass *attention_pass_match(const Kernel *k, const CudaTarget *target);
/* The body of the pass, and what is to stand before it. */
void attention_pass_put(CudaWriter *w, Buffer *before);

#endif
