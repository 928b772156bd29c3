/* backend/cuda: kernels' texts to code, which is kept as an artifact from one
 * process to the next. */
#ifndef AXON_CUDA_CODE_CACHE_H
#define AXON_CUDA_CODE_CACHE_H

#include "backend/cuda/nvrtc.h"

/* As nvrtc_compile, or what a process before this one got of it, with the same
 * log.  found: it was. */
bool code_cache_compile(const Nvrtc *n, const KernelSource *source,
                        CompiledCode *out, bool *found, Fault *fault);

#endif
