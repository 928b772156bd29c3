/* backend/cuda: the memory of a GPU, by plain allocations.
 *
 * To take memory from the driver costs as much as a small kernel, and to give
 * it back waits for all that runs; so what is given back here is kept, and
 * handed out again.  That a kernel still reads a block that was given back does
 * no harm: who takes it next writes to it later on the same stream.  At most so
 * many bytes are kept; and when the driver has no more, all of them go back.
 *
 * A block belongs to who took it until he gives it back.  Any thread. */
#ifndef AXON_CUDA_CACHING_ALLOCATOR_H
#define AXON_CUDA_CACHING_ALLOCATOR_H

#include "backend/cuda/driver.h"

typedef struct DeviceAllocator DeviceAllocator;

typedef struct DeviceBuffer {
  CuDevicePtr address;                /* at a multiple of 256 bytes */
  size_t size;                        /* as many as were asked for, or more */
  struct DeviceBuffer *next, *prev;   /* while it is kept: in its class; */
  struct DeviceBuffer *newer, *older; /* of all */
} DeviceBuffer;

/* What memory is for, to be named when there is not enough. */
typedef struct AllocationLabel {
  const char *name; /* of the value; NULL: it has none */
  Dtype dtype;
  uint32_t rank;
  const int64_t *shape;
} AllocationLabel;

/* The GPU must stay open, and keep its stream, as long as this lives.  NULL: no
 * memory (of the host).  max_cached_bytes: bytes; with 0 no block is larger
 * than what was asked for. */
DeviceAllocator *device_allocator_new(CudaContext *gpu,
                                      uint64_t max_cached_bytes);
/* With all that was kept; blocks in use are not to be used any more. */
void device_allocator_free(DeviceAllocator *m);

/* NULL with a fault, and everything else as it was. */
DeviceBuffer *device_allocator_alloc(DeviceAllocator *m, size_t bytes,
                                     const AllocationLabel *label,
                                     Fault *fault);
void device_allocator_release(DeviceAllocator *m,
                              DeviceBuffer *block); /* NULL: nothing */
/* Gives back to the driver until at most so many bytes are kept. */
void device_allocator_trim(DeviceAllocator *m, uint64_t max_bytes);

typedef struct DeviceAllocatorStats {
  uint64_t driver_allocs,
      cache_hits; /* blocks handed out: of the driver, or again */
  uint64_t live_bytes, cached_bytes; /* bytes in use, bytes for use again */
} DeviceAllocatorStats;
DeviceAllocatorStats device_allocator_stats(DeviceAllocator *m);

#endif
