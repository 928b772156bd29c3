/* backend/cuda: contractions among the loops of kernels, as tiles (gemm.h). */
#ifndef AXON_CUDA_TILE_H
#define AXON_CUDA_TILE_H

#include "backend/cuda/gemm.h"
#include "backend/cuda/kernel.h"

/* A pass that is one: what its loops are to it. */
typedef struct CudaTile {
  const char *arch; /* that its text is for */
  GemmGpu gpu;
  bool counts; /* there are counters for parts of sums */
  GemmShape shape;
  GemmSchedule s;
  uint32_t batch[KERNEL_AXES], m[KERNEL_AXES], n[KERNEL_AXES], k[KERNEL_AXES];
  uint32_t batches, ms, ns, ks; /* how many axes of each there are */
  const Loop *a, *b; /* loops over the same axes, whose results are elements */
  const Step *copy_a,
      *copy_b;          /* the reads that they are nothing but; or NULL */
  CudaMap map_a, map_b; /* where TMA can copy them */
  const char *unused;   /* why a schedule of a file is not used; or NULL */
} CudaTile;

/* NULL: the pass is none, or what there would be to choose does not fit. */
CudaTile *cuda_tile_find(Kernel *k, const CudaTarget *target);
/* Has it, beside other loops, a product that is better off in a pass of its
 * own? */
bool cuda_tile_apart(const Kernel *k);
/* The body of the pass, and what is to stand before it. */
void cuda_put_tile(CudaWriter *w, Buffer *before);

/* ---- boxes.c ---- */

/* The tensor that an operand is to TMA, without boxes.  False: it is none that
 * it takes. */
bool cuda_tile_map(const CudaTile *t, const Loop *loop, bool b, CudaMap *to);
/* Gives it the boxes of the tile's schedule. */
void cuda_tile_box(const CudaTile *t, bool b, CudaMap *map);

#endif
