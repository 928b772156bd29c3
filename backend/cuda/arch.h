/* backend/cuda: properties of a typical GPU of each architecture.  Plans and
 * modules use them if no GPU is present. */
#ifndef AXON_CUDA_ARCH_H
#define AXON_CUDA_ARCH_H

#include "backend/cuda/kernel.h"
#include "kernel/roofline.h"
#include "plan/observer.h"

/* A typical GPU of the architecture. */
CudaTarget cuda_arch_target(const char *arch);
/* Predicts the run time of a kernel from its passes. */
Prediction cuda_predict(const Cost *cost, const CudaKernel *k,
                        const CudaTarget *target);

#endif
