/* backend/cuda: caching allocator for device memory.
 *
 * An allocation by the driver costs as much as a small kernel, and a driver
 * free waits for all running kernels.  So released buffers are cached and
 * reused.  A kernel may still read a buffer after its release: the next owner
 * writes to it later on the same stream.
 *
 * The cache has a size limit.  If the driver is out of memory, the allocator
 * frees the whole cache and retries.
 *
 * The caller owns a buffer until its release.  All functions are thread-safe.
 */
#ifndef AXON_CUDA_CACHING_ALLOCATOR_H
#define AXON_CUDA_CACHING_ALLOCATOR_H

#include "backend/cuda/driver.h"

typedef struct DeviceAllocator DeviceAllocator;

typedef struct DeviceBuffer {
  CuDevicePtr address; /* 256-byte aligned */
  size_t size;         /* allocated bytes, at least the requested bytes */
  /* In the list of its size class, while cached. */
  struct DeviceBuffer *next, *prev;
  /* In the list of all cached buffers, by time of release. */
  struct DeviceBuffer *newer, *older;
} DeviceBuffer;

/* Describes the purpose of an allocation in messages. */
typedef struct AllocationLabel {
  const char *name; /* name of the value; NULL: unnamed */
  Dtype dtype;
  uint32_t rank;
  const int64_t *shape;
} AllocationLabel;

/* The context and its stream must outlive the allocator.  Returns NULL if host
 * memory is exhausted.  max_cached_bytes: limit of the cache; if 0, allocations
 * are not rounded up. */
DeviceAllocator *device_allocator_new(CudaContext *gpu,
                                      uint64_t max_cached_bytes);
/* Also frees the cached buffers.  Live buffers become invalid. */
void device_allocator_free(DeviceAllocator *m);

/* On failure: returns NULL with a fault, and changes nothing else. */
DeviceBuffer *device_allocator_alloc(DeviceAllocator *m, size_t bytes,
                                     const AllocationLabel *label,
                                     Fault *fault);
void device_allocator_release(DeviceAllocator *m,
                              DeviceBuffer *block); /* may be NULL */
/* Frees the oldest cached buffers until at most max_bytes remain. */
void device_allocator_trim(DeviceAllocator *m, uint64_t max_bytes);

typedef struct DeviceAllocatorStats {
  /* Allocations by the driver, and from the cache. */
  uint64_t driver_allocs, cache_hits;
  uint64_t live_bytes, cached_bytes; /* bytes in use, and bytes in the cache */
} DeviceAllocatorStats;
DeviceAllocatorStats device_allocator_stats(DeviceAllocator *m);

#endif
