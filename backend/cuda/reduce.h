/* backend/cuda: products whose rows come to numbers,
 *
 *     r[m] = reduction over n of f(sum over k of a[m, k] * b[n, k]),
 *
 * and what follows of each row, without the product in memory. */
#ifndef AXON_CUDA_REDUCE_H
#define AXON_CUDA_REDUCE_H

#include "backend/cuda/near.h"
#include "backend/cuda/tile.h"

typedef struct CudaReduce {
  Kernel *front; /* the product's pass; behind what is done with each element
                    are the reductions, as of each element */
  CudaTile *tile;
  uint32_t first;  /* of these, in the pass, */
  uint32_t behind; /* and in the kernel, where elements may be left, too */
  uint32_t number[KERNEL_LOOPS]; /* their numbers in the kernel, by that in the
                                    pass */
  CudaNear near[KERNEL_LOOPS];   /* by numbers in the pass */
  int64_t each;                  /* parts of a row: a size */
  uint32_t count;                /* kinds of parts, by loop and */
  uint32_t part[KERNEL_LOOPS][RESULTS_MOST]; /* result in the pass: */
  CudaPart parts[KERNEL_LOOPS];
  CudaSum sums[KERNEL_LOOPS][RESULTS_MOST]; /* while text is written */
  const char *fold;
} CudaReduce;

/* NULL: it is none, or its product has no tiles. */
CudaReduce *cuda_reduce_find(const Kernel *k, const CudaTarget *target);
/* The product's pass is begun: where parts will lie. */
void cuda_reduce_begin(CudaWriter *w);
/* How its tiles leave them. */
void cuda_reduce_rows(CudaWriter *w, GemmRows *to);
/* The pass behind it, with the kernel's loops from t->behind on; it reads
 * t->parts. */
Kernel *cuda_reduce_rest(CudaWriter *w, const CudaReduce *t, const Kernel *k);

#endif
