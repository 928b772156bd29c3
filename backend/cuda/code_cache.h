/* backend/cuda: cache of compiled kernels.  Artifacts persist between
 * processes. */
#ifndef AXON_CUDA_CODE_CACHE_H
#define AXON_CUDA_CODE_CACHE_H

#include "backend/cuda/nvrtc.h"

/* Like nvrtc_compile, but returns a cached result with the same log if one
 * exists.  *found: the result comes from the cache. */
bool code_cache_compile(const Nvrtc *n, const KernelSource *source,
                        CompiledCode *out, bool *found, Fault *fault);

#endif
