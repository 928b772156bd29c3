/* Allocation that raises FAIL_MEMORY instead of returning NULL. */
#define _GNU_SOURCE
#include "support/mem.h"
#include "support/mem_inject.h"
#include "support/trap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Fault injection.  Tests set these before any thread starts. */
static uint64_t allocations_until_failure;
static bool keep_failing, failure_injected;

void mem_inject_failure_at(uint64_t n) {
  allocations_until_failure = n;
  keep_failing = false;
  failure_injected = failure_injected && !n;
}

void mem_inject_failures_from(uint64_t n) {
  mem_inject_failure_at(n);
  keep_failing = true;
}

bool mem_failure_injected(void) {
  return failure_injected;
}

bool mem_should_fail(void) {
  if (!allocations_until_failure ||
      __atomic_sub_fetch(&allocations_until_failure, 1, __ATOMIC_RELAXED) > 0)
    return false;
  allocations_until_failure = keep_failing;
  failure_injected = true;
  return true;
}

/* malloc serves small sizes from a per-thread list, which calloc does not
   use. */
enum { MAX_SMALL_BYTES = 1024 };

void *mem_try_alloc(size_t size) {
  if (mem_should_fail() || size > PTRDIFF_MAX)
    return NULL;
  if (size > MAX_SMALL_BYTES)
    return calloc(1, size);
  size += !size;
  void *p = malloc(size);
  /* hides size and pointer from the compiler: otherwise it merges malloc and
     memset to calloc, or uses a string instruction, which is slow to start for
     small sizes */
  __asm__("" : "+r"(p), "+r"(size));
  return p ? memset(p, 0, size) : NULL;
}

void *mem_try_alloc_aligned(size_t align, size_t size) {
  if (mem_should_fail() || size > PTRDIFF_MAX - align)
    return NULL;
  size_t rounded = (size + align - 1) / align * align;
  return aligned_alloc(align, rounded ? rounded : align);
}

void *mem_try_map(size_t size) {
  if (mem_should_fail() || size > PTRDIFF_MAX - MEM_HUGE_PAGE_BYTES)
    return NULL;
  size_t all = size + MEM_HUGE_PAGE_BYTES;
  char *at = mmap(NULL, all, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  size_t misalignment = -(uintptr_t)at % MEM_HUGE_PAGE_BYTES;
  if (misalignment)
    munmap(at, misalignment);
  munmap(at + misalignment + size, all - misalignment - size);
  madvise(at + misalignment, size, MADV_HUGEPAGE); /* it may fail */
  return at + misalignment;
}

void mem_unmap(void *p, size_t size) {
  munmap(p, size);
}

void *mem_alloc(size_t size) {
  void *p = mem_try_alloc(size);
  if (!p)
    trap_raise(FAIL_MEMORY);
  return p;
}

void *mem_realloc(void *old, size_t old_size, size_t size) {
  if (mem_should_fail() || size > PTRDIFF_MAX)
    trap_raise(FAIL_MEMORY);
  char *p = realloc(old, size ? size : 1);
  if (!p)
    trap_raise(FAIL_MEMORY);
  if (size > old_size)
    memset(p + old_size, 0, size - old_size);
  return p;
}

void mem_free(void *p) {
  free(p);
}
