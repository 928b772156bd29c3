/* Cached buffers are in lists by size class, and in one list by time of
 * release. */
#include "backend/cuda/caching_allocator.h"

#include "machine/limits/cuda.h"
#include "runtime/size_class.h"
#include "support/mem_inject.h"

#include <pthread.h>

enum { SIZE_CLASS_COUNT = SIZE_CLASS_COUNT_UP_FROM(ALLOC_MIN_CLASS_BITS) };
/* The driver maps pages of this size. */
#define DRIVER_PAGE_BYTES ((size_t)2 << 20)
#define MAX_ALLOC_BYTES ((size_t)1 << 60)

struct DeviceAllocator {
  CudaContext *gpu;
  pthread_mutex_t lock;
  DeviceBuffer *classes[SIZE_CLASS_COUNT];
  DeviceBuffer *newest, *oldest;
  uint64_t max_cached_bytes;
  DeviceAllocatorStats stats;
};

/* Without a cache, a buffer has exactly the requested size.  Then tools that
 * check memory accesses detect reads past its end. */
static size_t round_size(const DeviceAllocator *m, size_t bytes) {
  if (m->max_cached_bytes == 0)
    return bytes ? bytes : 1;
  if (bytes > ALLOC_MAX_ROUNDED_BYTES)
    return (bytes + DRIVER_PAGE_BYTES - 1) / DRIVER_PAGE_BYTES *
           DRIVER_PAGE_BYTES;
  return size_class_bytes(size_class_of(bytes, ALLOC_MIN_CLASS_BITS),
                          ALLOC_MIN_CLASS_BITS);
}

/* The largest class whose size does not exceed `size`.  Sizes above
 * ALLOC_MAX_ROUNDED_BYTES are not class sizes. */
static uint32_t class_below(size_t size) {
  uint32_t class = size_class_of(size, ALLOC_MIN_CLASS_BITS);
  return class && size_class_bytes(class, ALLOC_MIN_CLASS_BITS) > size
             ? class - 1
             : class;
}

/* ---- cache; callers hold the lock ---- */

static void cache_remove(DeviceAllocator *m, DeviceBuffer *b) {
  *(b->prev ? &b->prev->next : &m->classes[class_below(b->size)]) = b->next;
  if (b->next)
    b->next->prev = b->prev;
  *(b->newer ? &b->newer->older : &m->newest) = b->older;
  *(b->older ? &b->older->newer : &m->oldest) = b->newer;
  m->stats.cached_bytes -= b->size;
}

static void cache_insert(DeviceAllocator *m, DeviceBuffer *b) {
  DeviceBuffer **class = &m->classes[class_below(b->size)];
  b->prev = b->newer = NULL;
  b->next = *class;
  b->older = m->newest;
  if (b->next)
    b->next->prev = b;
  *class = b;
  *(b->older ? &b->older->newer : &m->oldest) = b;
  m->newest = b;
  m->stats.cached_bytes += b->size;
}

static DeviceBuffer *cache_find(const DeviceAllocator *m, size_t size) {
  uint32_t class = class_below(size);
  for (uint32_t k = class;
       k <= class + ALLOC_MAX_CLASS_DISTANCE && k < SIZE_CLASS_COUNT; k++)
    for (DeviceBuffer *b = m->classes[k]; b; b = b->next)
      if (b->size >= size)
        return b;
  return NULL;
}

/* Frees the oldest buffers.  Running kernels may still read them, and the
 * driver does not guarantee to wait: so this synchronizes first.  The next call
 * on the context reports errors that occur here. */
static void cache_trim(DeviceAllocator *m, uint64_t max_bytes) {
  Fault ignored;
  if (m->stats.cached_bytes <= max_bytes)
    return;
  cuda_synchronize(m->gpu, &ignored);
  while (m->stats.cached_bytes > max_bytes) {
    DeviceBuffer *b = m->oldest;
    cache_remove(m, b);
    m->gpu->api->mem_free(b->address);
    mem_free(b);
  }
}

/* ---- out of memory ---- */

static void size_text(char out[32], uint64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double n = (double)bytes;
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
    n /= 1024;
  snprintf(out, 32, "%.*f %s", unit ? 1 : 0, n, units[unit]);
}

/* Writes "f32[2, 3]" without an allocation. */
static void label_text(char *out, size_t size, const AllocationLabel *label) {
  size_t len = (size_t)snprintf(out, size, "%s", dtype_info[label->dtype].name);
  for (uint32_t k = 0; k < label->rank && len < size; k++)
    len += (size_t)snprintf(out + len, size - len, "%s%lld", k ? ", " : "[",
                            (long long)label->shape[k]);
  if (label->rank && len < size)
    snprintf(out + len, size - len, "]");
}

static void fault_out_of_memory(DeviceAllocator *m, size_t bytes,
                                const AllocationLabel *label, Fault *fault) {
  Fault ignored;
  char type[200], need[32], live[32], text[2][32];
  uint64_t unused, total = m->gpu->info.memory_bytes;
  label_text(type, sizeof type, label);
  size_text(need, bytes);
  fault_set(fault, "%.100s%s%s needs %s of the GPU's memory",
            label->name ? label->name : "", label->name ? " : " : "", type,
            need);
  fault->kind = FAULT_MEMORY;
  size_text(live, device_allocator_stats(m).live_bytes);
  size_text(text[0], total);
  if (bytes > total) {
    fault_set_help(fault,
                   "it has %s: process the data in parts, or reduce it before "
                   "it is stored",
                   text[0]);
  } else if (cuda_memory_info(m->gpu, &unused, &total, &ignored)) {
    size_text(text[1], unused);
    fault_set_help(fault,
                   "of %s, %s are free, and this program uses %s: process the "
                   "data in parts, or end other programs that use the GPU",
                   text[0], text[1], live);
  } else {
    fault_set_help(
        fault, "it has %s, and this program uses %s: process the data in parts",
        text[0], live);
  }
}

/* ---- interface ---- */

DeviceAllocator *device_allocator_new(CudaContext *gpu,
                                      uint64_t max_cached_bytes) {
  DeviceAllocator *m = mem_try_alloc(sizeof *m);
  if (!m)
    return NULL;
  m->gpu = gpu;
  m->max_cached_bytes = max_cached_bytes;
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

void device_allocator_free(DeviceAllocator *m) {
  if (!m)
    return;
  cache_trim(m, 0);
  pthread_mutex_destroy(&m->lock);
  mem_free(m);
}

static CuResult driver_alloc(DeviceAllocator *m, DeviceBuffer *b) {
  return mem_should_fail() ? CU_OUT_OF_MEMORY
                           : m->gpu->api->mem_alloc(&b->address, b->size);
}

/* Requires the lock.  A request larger than the GPU fails before it flushes the
 * cache. */
static CuResult alloc_from_driver(DeviceAllocator *m, size_t bytes,
                                  DeviceBuffer *b) {
  if (bytes > m->gpu->info.memory_bytes)
    return CU_OUT_OF_MEMORY;
  CuResult result = driver_alloc(m, b);
  if (result != CU_OUT_OF_MEMORY)
    return result;
  cache_trim(m, 0);
  return driver_alloc(m, b);
}

static DeviceBuffer *alloc_from_cache(DeviceAllocator *m, size_t size) {
  pthread_mutex_lock(&m->lock);
  DeviceBuffer *b = cache_find(m, size);
  if (b) {
    cache_remove(m, b);
    m->stats.cache_hits++;
    m->stats.live_bytes += b->size;
  }
  pthread_mutex_unlock(&m->lock);
  return b;
}

static bool alloc_buffer(DeviceAllocator *m, size_t bytes, DeviceBuffer *b,
                         const AllocationLabel *label, Fault *fault) {
  if (!cuda_context_make_current(m->gpu, fault))
    return false;
  pthread_mutex_lock(&m->lock);
  CuResult result = alloc_from_driver(m, bytes, b);
  m->stats.driver_allocs += result == 0;
  m->stats.live_bytes += result == 0 ? b->size : 0;
  pthread_mutex_unlock(&m->lock);
  if (result == CU_OUT_OF_MEMORY)
    fault_out_of_memory(m, bytes, label, fault);
  else
    cuda_check(m->gpu->api, result, fault, "allocating %zu bytes of GPU memory",
               bytes);
  return result == 0;
}

DeviceBuffer *device_allocator_alloc(DeviceAllocator *m, size_t bytes,
                                     const AllocationLabel *label,
                                     Fault *fault) {
  if (bytes > MAX_ALLOC_BYTES) {
    fault_out_of_memory(m, bytes, label, fault);
    return NULL;
  }
  DeviceBuffer *b = alloc_from_cache(m, round_size(m, bytes));
  if (b)
    return b;
  b = mem_try_alloc(sizeof *b);
  if (!b) {
    fault_set_kind(fault, FAULT_MEMORY, "out of memory");
    return NULL;
  }
  b->size = round_size(m, bytes);
  if (alloc_buffer(m, bytes, b, label, fault))
    return b;
  mem_free(b);
  return NULL;
}

void device_allocator_release(DeviceAllocator *m, DeviceBuffer *block) {
  if (!block)
    return;
  pthread_mutex_lock(&m->lock);
  m->stats.live_bytes -= block->size;
  cache_insert(m, block);
  cache_trim(m, m->max_cached_bytes);
  pthread_mutex_unlock(&m->lock);
}

void device_allocator_trim(DeviceAllocator *m, uint64_t max_bytes) {
  pthread_mutex_lock(&m->lock);
  cache_trim(m, max_bytes);
  pthread_mutex_unlock(&m->lock);
}

DeviceAllocatorStats device_allocator_stats(DeviceAllocator *m) {
  pthread_mutex_lock(&m->lock);
  DeviceAllocatorStats counts = m->stats;
  pthread_mutex_unlock(&m->lock);
  return counts;
}
