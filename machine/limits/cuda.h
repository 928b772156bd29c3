/* The constants of machine/limits/cuda.def. */
#ifndef AXON_LIMITS_CUDA_H
#define AXON_LIMITS_CUDA_H

#define LIMITS_TABLE "machine/limits/cuda.def"
#include "machine/limits/expand.inc"
#undef LIMITS_TABLE

#endif
