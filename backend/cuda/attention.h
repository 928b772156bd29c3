/* backend/cuda: fused attention, matmuls with a row-wise weighting between
 * them,
 *
 *     s[m, n] = score(sum over k of a[m, k] * b[n, k]),
 *     c[m, e] = sum over n of weight(s[m, n]) * v[n, e],
 *
 * as one kernel that never writes s to memory.  The kernel iterates over
 * blocks of n.  It keeps the running maximum and the running sum of each row
 * (online softmax, arXiv:1805.02867; FlashAttention, arXiv:2205.14135 and
 * 2407.08608).
 *
 * Names: a is the query, b the key, v the value.  The weight may depend on a
 * second product of this kind, with its own query and key (suffix 2), as the
 * gradient of attention does.
 *
 * The schedule is a GemmSchedule (gemm.h): m is the rows of a block, n the
 * columns of a key/value tile, and k the head dimension. */
#ifndef AXON_CUDA_ATTENTION_H
#define AXON_CUDA_ATTENTION_H

#include "backend/cuda/gemm.h"

typedef struct Buffer Buffer;

typedef struct AttentionShape {
  /* f16 or bf16; contiguous along k (query, key) or e (value), or computed */
  GemmSide query, key, value, query2, key2;
  double m, n, batch; /* Sizes, or size hints if they are symbolic. */
  uint32_t head_dim, value_dim;
  uint32_t head_dim2; /* of the second product; 0: there is none */
  /* Average part of n that trimmed bounds leave. */
  double visited_fraction;
  bool subtract_max;  /* softmax: weights are exp(score - row maximum) */
  bool needs_row_sum; /* the sum of weights is used */
  /* Trimmed bounds may be invalid; the kernel then repeats over all of n. */
  bool may_retry;
  /* The blocks of a wgmma kernel may count sums: AttentionKernelSpec.counters.
   */
  bool may_count;
  /* Operations per score, in units of `cost` in primitives/map.def. */
  double score_ops;
  uint32_t score_loads;        /* Loads per score. */
  bool score_converts_64_bits; /* A score converts a 64-bit value to float. */
  /* Bytes that the epilogue reads and writes per element of c. */
  double epilogue_bytes;
  uint32_t store_align_bytes;
  /* TMA can store all outputs, and there are no row statistics. */
  bool tma_storable;
  uint32_t output_count, max_output_bytes; /* see GemmShape */
} AttentionShape;

/* See gemm_choose. */
bool attention_choose(const AttentionShape *shape, const GpuSpec *gpu,
                      GemmSchedule *s, double *seconds);
/* See gemm_override. */
bool attention_override(const AttentionShape *shape, const GpuSpec *gpu,
                        const char *text, GemmSchedule *s, Buffer *why);
/* NULL, or why wgmma or tcgen05 cannot compute this attention. */
const char *attention_producer_refusal(const AttentionShape *shape,
                                       const GpuSpec *gpu, MmaKind kind);
/* Rows of a block per unit of warps_m. */
uint32_t attention_rows_per_unit(MmaKind kind);
/* Columns of tensor memory that a block uses; 0: it uses none. */
uint32_t attention_tmem_columns(const AttentionShape *shape,
                                const GemmSchedule *s);
BlockUse attention_block_use(const AttentionShape *shape, const GpuSpec *gpu,
                             const GemmSchedule *s);
bool attention_fits(const AttentionShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s);
/* A head or value dimension, rounded up to whole MMAs. */
uint32_t attention_padded_dim(uint32_t dim);
uint32_t attention_shared_bytes(const AttentionShape *shape,
                                const GemmSchedule *s);
/* True if the threads of an mma kernel keep the query in registers. */
bool attention_query_in_registers(const AttentionShape *shape);
int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch);

/* A product that computes scores.  Axes of the query with stride_a.  Axes of
 * key and value with stride_a (key) and stride_b (value, first product). */
typedef struct ScoreProductSpec {
  GemmAxisGroup batch, m, k;       /* of the query */
  GemmAxisGroup kv_batch, n, kv_k; /* of the key */
  GemmOperand query, key;
} ScoreProductSpec;

/* Counters of a batch: blocks with their sums, sums that are not finite, and
 * blocks that have stored their results. */
enum { ATTENTION_COUNTERS = 3 };

typedef struct AttentionKernelSpec {
  const AttentionShape *shape;
  const GemmSchedule *schedule;
  const char *name;
  ScoreProductSpec first, second; /* second: if shape->head_dim2 */
  GemmAxisGroup e;                /* of the value */
  GemmOperand value;
  uint32_t output_count;
  GemmOutput outputs[GEMM_MAX_OUTPUTS]; /* axes of batch, m, e */
  /* Emits statements that assign to `to` the score of x, and of `second` if
   * there is a second product, at the axis variables of batch, m and n; without
   * subtract_max, the weight.  unmasked: for a tile without masked scores. */
  void (*put_score)(void *owner, Buffer *out, const char *x, const char *to,
                    bool unmasked);
  bool out_of_bounds_safe; /* The score is valid for elements out of bounds. */
  /* Emits statements that reduce the ints `low` and `high` to the range of n
   * that rows `first` to `last` need; NULL: they need all of it. */
  void (*put_bounds)(void *owner, Buffer *out, const char *first,
                     const char *last);
  /* The same for `whole_low` and `whole_high`: the range in which no score of
   * these rows is masked; NULL: no score is masked. */
  void (*put_unmasked_bounds)(void *owner, Buffer *out, const char *first,
                              const char *last);
  /* Emits the declaration of the float `unit_whole`: an unmasked score is
   * unit_whole * x; NULL: it is given by put_score. */
  void (*put_score_scale)(void *owner, Buffer *out);
  /* Emits statements that clear the bool `to` if the numbers of this call do
   * not allow the unmasked score; NULL: they always do. */
  void (*put_number_check)(void *owner, Buffer *out, const char *to);
  /* Emits statements that set the bool `to` if elements outside the trimmed
   * bounds contribute to a row with these values.  The kernel then repeats
   * over all of n.  NULL: they never contribute.  Only in mma kernels. */
  void (*put_trim_check)(void *owner, Buffer *out, const char *row_max,
                         const char *row_sum, const char *to);
  /* The blocks of a batch, which read all values between them, count their
   * sums that are not finite: then a value may not be, and the last block
   * repeats the rows of the batch over all of n.  ATTENTION_COUNTERS counters
   * per batch, which are 0 before and after the kernel; NULL: no such check.
   * Only in wgmma kernels. */
  const char *counters;
  /* Emits the stores of row statistics, at the axis variables of batch and m;
   * NULL: there are none. */
  void (*put_row_outputs)(void *owner, Buffer *out);
  /* Emits what the epilogue of a row needs once: the declarations, or the
   * assignments at the axis variables of batch and m; NULL: nothing. */
  void (*put_row_factors)(void *owner, Buffer *out, bool declare);
  bool epilogue_out_of_bounds_safe;
  /* See GemmKernelSpec; `most` and `total` are the row's maximum and sum. */
  void (*put_epilogue)(void *owner, Buffer *out, const char *x,
                       const char *const to[GEMM_MAX_OUTPUTS]);
  void *owner;
} AttentionKernelSpec;

/* See gemm_put_kernel. */
void attention_put_kernel(Buffer *before, Buffer *body,
                          const AttentionKernelSpec *t);

#endif
