/* backend/cuda: the memory of a GPU, by plain allocations.
 *
 * To take memory from the driver costs as much as a small kernel, and to give
 * it back waits for all that runs; so what is given back here is kept, and
 * handed out again.  That a kernel still reads a block that was given back does
 * no harm: who takes it next writes to it later on the same stream.  At most so
 * many bytes are kept; and when the driver has no more, all of them go back.
 *
 * A block belongs to who took it until he gives it back.  Any thread. */
#ifndef AXON_CUDA_MEMORY_H
#define AXON_CUDA_MEMORY_H

#include "backend/cuda/driver.h"

typedef struct CudaMemory CudaMemory;

typedef struct CudaBlock {
  CuAddress at;                    /* at a multiple of 256 bytes */
  size_t size;                     /* as many as were asked for, or more */
  struct CudaBlock *next, *prev;   /* while it is kept: in its class; */
  struct CudaBlock *newer, *older; /* of all */
} CudaBlock;

/* What memory is for, to be named when there is not enough. */
typedef struct CudaUse {
  const char *name; /* of the value; NULL: it has none */
  Dtype dtype;
  uint32_t rank;
  const int64_t *shape;
} CudaUse;

/* The GPU must stay open, and keep its stream, as long as this lives.  NULL: no
 * memory (of the host).  kept_most: bytes; with 0 no block is larger than what
 * was asked for. */
CudaMemory *cuda_memory_new(CudaGpu *gpu, uint64_t kept_most);
/* With all that was kept; blocks in use are not to be used any more. */
void cuda_memory_free(CudaMemory *m);

/* NULL with a fault, and everything else as it was. */
CudaBlock *cuda_memory_take(CudaMemory *m, size_t bytes, const CudaUse *use,
                            Fault *fault);
void cuda_memory_give(CudaMemory *m, CudaBlock *block); /* NULL: nothing */
/* Gives back to the driver until at most so many bytes are kept. */
void cuda_memory_trim(CudaMemory *m, uint64_t keep);

typedef struct CudaMemoryCounts {
  uint64_t fresh, reused; /* blocks handed out: of the driver, or again */
  uint64_t live, kept;    /* bytes in use, bytes for use again */
} CudaMemoryCounts;
CudaMemoryCounts cuda_memory_counts(CudaMemory *m);

#endif
