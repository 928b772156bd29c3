/* A caching allocator for the elements of tensors.
 *
 * Freed blocks are kept for a while and handed out again.  The system clears
 * the pages of a new block, which costs as much as most kernels.  So a loop
 * over tensors of equal sizes takes no memory from the system after its first
 * iterations.
 *
 * Sizes are rounded up by at most an eighth, so that similar sizes share
 * blocks.  Large blocks use huge pages, if the system has them: the first
 * access to 64 MB takes 3 ms with huge pages, and 14 ms without.
 *
 * With the address sanitizer nothing is kept, so that it finds uses of freed
 * memory. */
#define _GNU_SOURCE
#include "runtime/derived_cache.h"
#include "runtime/fork_lock.h"
#include "runtime/internal.h"
#include "runtime/size_class.h"
#include "support/compiler.h"
#include "support/mem.h"

#include <string.h>

#define CACHING (!ADDRESS_SANITIZER)

enum {
  ALIGN = TENSOR_ALIGNMENT,
  /* Log2 of the bytes of the smallest class.  Small blocks have a class, too,
   * since aligned allocation is slow in malloc. */
  MIN_CLASS_BITS = 6,
  SIZE_CLASS_COUNT = SIZE_CLASS_COUNT_UP_FROM(MIN_CLASS_BITS),
  /* Larger classes in which a block is also searched. */
  SEARCHED_LARGER_CLASSES = 2,
};
#define MIN_CACHED_BYTES ((uint64_t)64 << 20)

typedef struct FreeBlock {         /* header of a free block */
  struct FreeBlock *next, *prev;   /* list of its class */
  struct FreeBlock *newer, *older; /* list of all free blocks, by time */
  size_t size;
} FreeBlock;

static struct {
  FreeBlock *classes[SIZE_CLASS_COUNT];
  FreeBlock *newest, *oldest;
  uint64_t kept, live, peak; /* bytes; peak: of live blocks */
  uint64_t fresh, reused;    /* numbers of blocks */
} allocator;

DEFINE_FORK_LOCK()

/* ---- sizes ---- */

static uint32_t class_of(size_t bytes) {
  return size_class_of(bytes, MIN_CLASS_BITS);
}

static size_t class_bytes(uint32_t class) {
  return size_class_bytes(class, MIN_CLASS_BITS);
}

/* ---- system memory ---- */

static bool is_mapped(size_t size) {
  return CACHING && size >= MEM_HUGE_PAGE_BYTES;
}

static void *alloc_from_system(size_t size, bool clear) {
  if (is_mapped(size))
    return mem_try_map(size);
  void *at = mem_try_alloc_aligned(ALIGN, size);
  if (at && clear)
    memset(at, 0, size);
  return at;
}

static void free_to_system(void *at, size_t size) {
  if (is_mapped(size))
    mem_unmap(at, size);
  else
    mem_free(at);
}

/* ---- free lists; the caller holds the lock ---- */

static void unlink_block(FreeBlock *f) {
  *(f->prev ? &f->prev->next : &allocator.classes[class_of(f->size)]) = f->next;
  if (f->next)
    f->next->prev = f->prev;
  *(f->newer ? &f->newer->older : &allocator.newest) = f->older;
  *(f->older ? &f->older->newer : &allocator.oldest) = f->newer;
  allocator.kept -= f->size;
}

static void link_block(FreeBlock *f, size_t size) {
  FreeBlock **class = &allocator.classes[class_of(size)];
  *f = (FreeBlock){.next = *class, .older = allocator.newest, .size = size};
  if (f->next)
    f->next->prev = f;
  *class = f;
  *(f->older ? &f->older->newer : &allocator.oldest) = f;
  allocator.newest = f;
  allocator.kept += size;
}

static void evict_oldest(uint64_t max_cached_bytes) {
  while (allocator.kept > max_cached_bytes) {
    FreeBlock *f = allocator.oldest;
    unlink_block(f);
    free_to_system(f, f->size);
  }
}

/* Keeps at most as many bytes as were in use at once, and at most a quarter of
 * the memory. */
static uint64_t max_cached(void) {
  uint64_t max = memory_limit() / 4;
  if (allocator.peak < max)
    max = allocator.peak;
  return max < MIN_CACHED_BYTES ? MIN_CACHED_BYTES : max;
}

static FreeBlock *find_block(size_t size) {
  uint32_t class = class_of(size);
  for (uint32_t k = class;
       k <= class + SEARCHED_LARGER_CLASSES && k < SIZE_CLASS_COUNT; k++)
    if (allocator.classes[k])
      return allocator.classes[k];
  return NULL;
}

/* If memory is scarce, evicts free blocks before the system has to swap. */
static void evict_for(size_t size) {
  uint64_t max = memory_limit() / 4 * 3, wanted = allocator.live + size;
  if (wanted + allocator.kept > max)
    evict_oldest(wanted < max ? max - wanted : 0);
}

static void count_live(size_t size) {
  allocator.live += size;
  if (allocator.live > allocator.peak)
    allocator.peak = allocator.live;
}

/* ---- entry points ---- */

static void *alloc_from_cache(size_t bytes, size_t *size) {
  lock();
  FreeBlock *f = find_block(*size);
  if (f) {
    unlink_block(f);
    *size = f->size;
    count_live(*size);
    allocator.reused++;
  } else {
    evict_for(bytes);
  }
  unlock();
  return f;
}

void *caching_alloc(size_t bytes, bool clear, size_t *size) {
  *size = 0;
  if (bytes > (size_t)1 << 60)
    return NULL;
  *size = class_bytes(class_of(bytes));
  void *at = alloc_from_cache(bytes, size);
  if (at) {
    if (clear)
      memset(at, 0, bytes);
    return at;
  }
  at = alloc_from_system(*size, clear);
  if (!at) {
    derived_cache_trim(0);
    allocator_trim(0);
    at = alloc_from_system(*size, clear);
  }
  if (!at)
    return NULL;
  lock();
  allocator.fresh++;
  count_live(*size);
  unlock();
  return at;
}

void caching_free(void *at, size_t size) {
  if (!size) {
    mem_free(at);
    return;
  }
  lock();
  allocator.live -= size;
  if (CACHING)
    link_block(at, size);
  evict_oldest(max_cached());
  unlock();
  if (!CACHING)
    free_to_system(at, size);
}

void allocator_trim(uint64_t max_cached_bytes) {
  lock();
  evict_oldest(max_cached_bytes);
  if (max_cached_bytes == 0)
    allocator.peak = allocator.live;
  unlock();
}

AllocatorStats allocator_stats(void) {
  lock();
  AllocatorStats counts = {.system_allocs = allocator.fresh,
                           .cache_hits = allocator.reused,
                           .live_bytes = allocator.live,
                           .cached_bytes = allocator.kept,
                           .is_caching = CACHING};
  unlock();
  return counts;
}
