/* backend/cuda: the one device that programs run on, opened when the first of
 * them does.  Sessions of several threads take turns. */
#ifndef AXON_CUDA_DEVICE_H
#define AXON_CUDA_DEVICE_H

#include "backend/cuda/caching_allocator.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/nvrtc.h"

typedef struct Device {
  CudaContext context;
  DeviceAllocator *allocator;
  const Nvrtc *nvrtc;
  CudaTarget target;
  DeviceBuffer *status; /* CUDA_STATUS_BYTES: a word for what kernels find
                           wrong, counters */
  bool is_open;
  bool is_timed,
      timer_started;  /* kernels are timed (event_timer.c); there was one, */
  bool timer_pending; /* and one since the last place that was noted */
  CuEvent start_event, end_event; /* before it and behind the last one */
  DeviceBuffer *l2_flush_buffer;  /* more than the second cache holds */
  bool is_virtual; /* it is not here: kernels are planned for it, and not run */
} Device;

/* Whoever has the lock may take it again. */
void device_lock(void);
void device_unlock(void);
/* The device, open; NULL with a fault.  With the lock. */
Device *device_get(Fault *fault);
/* Before a kernel is started, or when what was started is all. */
bool device_record_timer(Device *d, bool before, Fault *fault);
/* From now on it is one on paper, as is usual for an architecture (arch.h). */
void device_use_virtual(const char *arch);
bool device_is_virtual(void);

#endif
