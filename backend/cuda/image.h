/* backend/cuda: kernels' texts to code, which is kept as an artifact from one
 * process to the next. */
#ifndef AXON_CUDA_IMAGE_H
#define AXON_CUDA_IMAGE_H

#include "backend/cuda/nvrtc.h"

/* As nvrtc_compile, or what a process before this one got of it, with the same
 * log.  found: it was. */
bool cuda_image(const Nvrtc *n, const CudaText *text, CudaCode *out,
                bool *found, Fault *fault);

#endif
