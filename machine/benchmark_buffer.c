/* Memory for benchmarks. */
#define _GNU_SOURCE
#include "machine/internal.h"
#include "support/mem.h"

#include <sys/mman.h>

/* The rates of a build without optimization are not those of the machine. */
#ifdef __OPTIMIZE__
#define IS_OPTIMIZED true
#else
#define IS_OPTIMIZED false
#endif

enum { HUGE_PAGE_BYTES = 2 << 20 };

static size_t choose_bytes(size_t caches) {
  const Machine *m = machine();
  size_t min = (size_t)64 << 20, max = (size_t)512 << 20;
  size_t bytes = caches * m->cache_bytes[2];
  bytes = bytes < min ? min : bytes > max ? max : bytes;
  if (bytes > m->memory_bytes / 8)
    bytes = (size_t)(m->memory_bytes / 8);
  return bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

bool benchmark_buffer_new(BenchmarkBuffer *b, size_t caches) {
  b->bytes = choose_bytes(caches);
  b->memory = IS_OPTIMIZED ? mem_try_alloc(b->bytes + HUGE_PAGE_BYTES) : NULL;
  if (!b->memory)
    return false;
  b->at = b->memory + (-(uintptr_t)b->memory & (HUGE_PAGE_BYTES - 1));
  madvise(b->at, b->bytes,
          MADV_HUGEPAGE); /* a hint; the system may ignore it */
  return true;
}
