/* backend/cuda: operations that are no loops over indices, as kernels of their
 * own: sort, argsort, topk, cumsum, scatter, permutation.
 *
 * A routine is a CudaKernel like others: passes that run one after the other,
 * with scratch memory between; their functions are templates of
 * prelude/{scan,sort,top,scatter}.inc.  All of them give the same in each run,
 * whatever the order in which blocks come. */
#ifndef AXON_CUDA_LIBRARY_KERNELS_H
#define AXON_CUDA_LIBRARY_KERNELS_H

#include "backend/cuda/kernel.h"
#include "runtime/artifact.h"

/* False: there is none for the node, and the host does it. */
bool library_kernel_emit(const Node *n, const CudaTarget *target, Arena *arena,
                         CudaKernel *out);
/* What the routine depends on, but for its random key. */
ArtifactKey library_kernel_key(const Node *n);

#endif
