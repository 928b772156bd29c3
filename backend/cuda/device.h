/* backend/cuda: the device that runs programs.  It opens on first use.  A lock
 * serializes the sessions of several threads. */
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
  /* CUDA_STATUS_BYTES: the word of failed checks, and the counters. */
  DeviceBuffer *status;
  bool is_open;
  /* The timer is active (event_timer.c); it has recorded the start. */
  bool is_timed, timer_started;
  bool timer_pending; /* a kernel was launched after the last recorded event */
  /* Before the first kernel and after the last one. */
  CuEvent start_event, end_event;
  DeviceBuffer *l2_flush_buffer; /* larger than the L2 cache */
  bool is_virtual;               /* no GPU: kernels are planned but not run */
} Device;

/* The lock is recursive. */
void device_lock(void);
void device_unlock(void);
/* The open device; NULL with a fault.  Requires the lock. */
Device *device_get(Fault *fault);
/* Records an event if timing is active.  before: a launch follows; otherwise
 * the launches are complete. */
bool device_record_timer(Device *d, bool before, Fault *fault);
/* From now on, the device is virtual: a typical GPU of the architecture
 * (arch.h). */
void device_use_virtual(const char *arch);
bool device_is_virtual(void);

#endif
