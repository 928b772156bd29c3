/* backend/cuda: kernels that are started together.
 *
 * What is started is noted first, and given to the driver when something else
 * is asked of the stream, or when there is much of it.  The first time these
 * are kernels one by one; the second time that the same ones are started with
 * grids as before, they become a graph of the driver's, which is kept: from
 * then on it is started as one, after what is otherwise in their arguments
 * (where tensors are, mostly) was changed in it. */
#ifndef AXON_CUDA_TAPE_H
#define AXON_CUDA_TAPE_H

#include "backend/cuda/driver.h"

typedef struct CudaTape CudaTape;

/* NULL: no memory, which is no harm. */
CudaTape *cuda_tape_new(void);
void cuda_tape_free(CudaGpu *gpu);
/* False: it is none for tapes. */
bool cuda_tape_add(CudaGpu *gpu, const CudaLaunch *launch, Fault *fault,
                   bool *good);
/* Gives all of it to the driver. */
bool cuda_tape_flush(CudaGpu *gpu, Fault *fault);

typedef struct CudaTapeCounts {
  uint64_t alone;         /* kernels started one by one */
  uint64_t made, started; /* graphs */
  uint64_t changed;       /* nodes of graphs that were started again */
} CudaTapeCounts;
CudaTapeCounts cuda_tape_counts(const CudaTape *tape);

#endif
