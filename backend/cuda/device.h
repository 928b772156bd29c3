/* backend/cuda: the one device that programs run on, opened when the first of
 * them does.  Sessions of several threads take turns. */
#ifndef AXON_CUDA_DEVICE_H
#define AXON_CUDA_DEVICE_H

#include "backend/cuda/kernel.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/nvrtc.h"

typedef struct Device {
  CudaGpu gpu;
  CudaMemory *memory;
  const Nvrtc *nvrtc;
  CudaTarget target;
  CudaBlock *bad; /* CUDA_WORDS: a word for what kernels find wrong, counters */
  bool open;
  bool timed, started; /* kernels are timed (clock.c); there was one, */
  bool running;        /* and one since the last place that was noted */
  CuEvent first, last; /* before it and behind the last one */
  CudaBlock *flush;    /* more than the second cache holds */
  bool paper; /* it is not here: kernels are planned for it, and not run */
} Device;

/* Whoever has the lock may take it again. */
void device_lock(void);
void device_unlock(void);
/* The device, open; NULL with a fault.  With the lock. */
Device *device_get(Fault *fault);
/* Before a kernel is started, or when what was started is all. */
bool device_clock(Device *d, bool before, Fault *fault);
/* From now on it is one on paper, as is usual for an architecture (arch.h). */
void device_on_paper(const char *arch);
bool device_is_paper(void);

#endif
