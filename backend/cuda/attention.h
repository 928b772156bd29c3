/* backend/cuda: two contractions with a row's weights between them,
 *
 *     s[m, n] = score(sum over k of a[m, k] * b[n, k]),
 *     c[m, e] = sum over n of weight(s[m, n]) * v[n, e],
 *
 * as one kernel that keeps no s: n is gone through block by block, while what
 * the weights are relative to (the largest score of the row so far) and their
 * total are carried along (online softmax, arXiv:1805.02867; FlashAttention,
 * arXiv:2205.14135 and 2407.08608).
 *
 * Its schedule is a contraction's (gemm.h), whose m are rows, n the terms that
 * are gone through at a time, and k the terms of the first sum. */
#ifndef AXON_CUDA_ATTENTION_H
#define AXON_CUDA_ATTENTION_H

#include "backend/cuda/gemm.h"

typedef struct AttentionShape {
  GemmSide query, key,
      value;          /* of f16 or bf16; dense along k, k and e, or computed */
  double m, n, batch; /* what they may be like */
  uint32_t head_dim, value_dim; /* at most so many */
  double visited_fraction;      /* of n that is gone through, on average */
  bool subtract_max;    /* weights are exp(score - the largest of the row) */
  bool needs_row_sum;   /* their total is wanted, too */
  bool may_retry;       /* limits may be wrong: then n is gone through again */
  double score_ops;     /* operations that make a score of a sum, */
  uint32_t score_loads; /* and what is read for one */
  bool score_converts_64_bits; /* a float that one takes is made of 64 bits */
  double epilogue_bytes; /* bytes, of each result and what is read with it */
  uint32_t store_align_bytes;
} AttentionShape;

/* As gemm_choose. */
bool attention_choose(const AttentionShape *shape, const GpuSpec *gpu,
                      GemmSchedule *s, double *seconds);
/* As gemm_override. */
bool attention_override(const AttentionShape *shape, const GpuSpec *gpu,
                        const char *text, GemmSchedule *s, Buffer *why);
bool attention_fits(const AttentionShape *shape, const GpuSpec *gpu,
                    const GemmSchedule *s);
uint32_t attention_shared_bytes(const AttentionShape *shape,
                                const GemmSchedule *s);
int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch);

typedef struct AttentionKernelSpec {
  const AttentionShape *shape;
  const GemmSchedule *schedule;
  const char *name; /* of the kernel */
  /* stride_a is that of a; of b and v: stride_a and stride_b, of groups that
   * are given again */
  GemmAxisGroup batch, m, k;          /* a's */
  GemmAxisGroup kv_batch, n, kv_k, e; /* b and v: batch, n, b's k, v's e */
  GemmOperand query, key, value;
  uint32_t output_count;
  GemmOutput outputs[GEMM_MAX_OUTPUTS]; /* strides: batch, m, e */
  /* Statements that give `to` the score (or, where it is not relative, the
   * weight) of x where the variables of batch, m and n say.  whole: in a tile
   * that `inside` has to itself. */
  void (*put_score)(void *owner, Buffer *out, const char *x, const char *to,
                    bool unmasked);
  bool out_of_bounds_safe; /* that is right of scores that are not there, too */
  /* Statements that give the ints `low` and `high`, outside of which n need
   * not be gone through, of rows `first` to `last`; or NULL: all of it. */
  void (*put_bounds)(void *owner, Buffer *out, const char *first,
                     const char *last);
  /* Likewise `whole_low` and `whole_high`, between which all of these rows need
   * all of n; or NULL: everywhere. */
  void (*put_unmasked_bounds)(void *owner, Buffer *out, const char *first,
                              const char *last);
  /* Statements that give the float `unit_whole`: the score of a whole tile is
   * so many times x; or NULL: it is what `score` says. */
  void (*put_score_scale)(void *owner, Buffer *out);
  /* Statements that take from the bool `to` whether the numbers of the call are
   * such that the score of a whole tile is right; or NULL: they always are. */
  void (*put_divisor_check)(void *owner, Buffer *out, const char *to);
  /* Statements that add to the bool `to` whether terms outside of the limits
   * would have counted in the row that has these values: then all are gone
   * through; or NULL: they never do.  By mma only. */
  void (*put_trim_check)(void *owner, Buffer *out, const char *row_max,
                         const char *row_sum, const char *to);
  /* As of a contraction; `most` and `total` are of the row. */
  void (*put_epilogue)(void *owner, Buffer *out, const char *x,
                       const char *const to[GEMM_MAX_OUTPUTS]);
  void *owner;
} AttentionKernelSpec;

/* As gemm_put_kernel. */
void attention_put_kernel(Buffer *before, Buffer *body,
                          const AttentionKernelSpec *t);

#endif
