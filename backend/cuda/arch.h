/* backend/cuda: what a usual GPU of each architecture is like, for plans and
 * modules that are made where none is. */
#ifndef AXON_CUDA_ARCH_H
#define AXON_CUDA_ARCH_H

#include "backend/cuda/kernel.h"
#include "kernel/roofline.h"
#include "plan/observer.h"

/* A usual GPU of it. */
CudaTarget cuda_arch_target(const char *arch);
/* How long a kernel should take there, whose passes are these. */
Prediction cuda_predict(const Cost *cost, const CudaKernel *k,
                        const CudaTarget *target);

#endif
