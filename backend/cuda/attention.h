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
  GemmSide a, b, v;   /* of f16 or bf16; dense along k, k and e, or computed */
  double m, n, batch; /* what they may be like */
  uint32_t k, e;      /* at most so many */
  double part;        /* of n that is gone through, on average */
  bool relative;      /* weights are exp(score - the largest of the row) */
  bool total;         /* their total is wanted, too */
  bool again;         /* limits may be wrong: then n is gone through again */
  double score;       /* operations that make a score of a sum, */
  uint32_t reads;     /* and what is read for one */
  bool wide;          /* a float that one takes is made of 64 bits */
  double stored;      /* bytes, of each result and what is read with it */
  uint32_t store_align;
} AttentionShape;

/* As gemm_choose. */
bool attention_choose(const AttentionShape *shape, const GemmGpu *gpu,
                      GemmSchedule *s, double *seconds);
/* As gemm_change. */
bool attention_change(const AttentionShape *shape, const GemmGpu *gpu,
                      const char *text, GemmSchedule *s, Buffer *why);
bool attention_fits(const AttentionShape *shape, const GemmGpu *gpu,
                    const GemmSchedule *s);
uint32_t attention_shared(const AttentionShape *shape, const GemmSchedule *s);
int64_t attention_blocks(const GemmSchedule *s, int64_t m, int64_t batch);

typedef struct AttentionText {
  const AttentionShape *shape;
  const GemmSchedule *schedule;
  const char *name; /* of the kernel */
  /* stride_a is that of a; of b and v: stride_a and stride_b, of groups that
   * are given again */
  GemmGroup batch, m, k;        /* a's */
  GemmGroup inner, n, terms, e; /* b and v: batch, n, b's k, v's e */
  GemmOperand a, b, v;
  uint32_t results;
  GemmResult result[GEMM_RESULTS]; /* strides: batch, m, e */
  /* Statements that give `to` the score (or, where it is not relative, the
   * weight) of x where the variables of batch, m and n say.  whole: in a tile
   * that `inside` has to itself. */
  void (*score)(void *owner, Buffer *out, const char *x, const char *to,
                bool whole);
  bool anywhere; /* that is right of scores that are not there, too */
  /* Statements that give the ints `low` and `high`, outside of which n need
   * not be gone through, of rows `first` to `last`; or NULL: all of it. */
  void (*limits)(void *owner, Buffer *out, const char *first, const char *last);
  /* Likewise `whole_low` and `whole_high`, between which all of these rows need
   * all of n; or NULL: everywhere. */
  void (*inside)(void *owner, Buffer *out, const char *first, const char *last);
  /* Statements that give the float `unit_whole`: the score of a whole tile is
   * so many times x; or NULL: it is what `score` says. */
  void (*unit)(void *owner, Buffer *out);
  /* Statements that take from the bool `to` whether the numbers of the call are
   * such that the score of a whole tile is right; or NULL: they always are. */
  void (*plain)(void *owner, Buffer *out, const char *to);
  /* Statements that add to the bool `to` whether terms outside of the limits
   * would have counted in the row that has these values: then all are gone
   * through; or NULL: they never do.  By mma only. */
  void (*wrong)(void *owner, Buffer *out, const char *most, const char *total,
                const char *to);
  /* As of a contraction; `most` and `total` are of the row. */
  void (*epilogue)(void *owner, Buffer *out, const char *x,
                   const char *const to[GEMM_RESULTS]);
  void *owner;
} AttentionText;

/* As gemm_put. */
void attention_put(Buffer *before, Buffer *body, const AttentionText *t);

#endif
