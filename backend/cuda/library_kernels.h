/* backend/cuda: kernels of library operations: sort, argsort, topk, cumsum,
 * scatter, permutation.
 *
 * A library kernel is a CudaKernel: passes with scratch memory between them.
 * Their functions are templates of prelude/{scan,sort,topk,scatter}.inc.  All
 * of them are deterministic: results do not depend on the order of blocks. */
#ifndef AXON_CUDA_LIBRARY_KERNELS_H
#define AXON_CUDA_LIBRARY_KERNELS_H

#include "backend/cuda/kernel.h"
#include "runtime/artifact.h"

typedef struct Arena Arena;

/* False if the node has no CUDA kernel; then the host computes it. */
bool library_kernel_emit(const Node *n, const CudaTarget *target, Arena *arena,
                         CudaKernel *out);
/* Hash of everything that the kernel depends on, except the random key. */
ArtifactKey library_kernel_key(const Node *n);

#endif
