/* Memory on the heap.  The caller frees it.
 *
 * Out of memory: allocations never return NULL, except those of the mem_try
 * functions.  They unwind to the innermost trap (support/trap.h), so callers
 * need no check. */
#ifndef AXON_SUPPORT_MEM_H
#define AXON_SUPPORT_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);     /* zeroed; raises FAIL_MEMORY */
void *mem_try_alloc(size_t size); /* zeroed; NULL on failure */
/* Aligned to `align`, not zeroed; NULL on failure. */
void *mem_try_alloc_aligned(size_t align, size_t size);
/* A block of whole huge pages, if the system has them; zeroed.  `size` is a
   multiple of MEM_HUGE_PAGE_BYTES.  NULL on failure. */
#define MEM_HUGE_PAGE_BYTES ((size_t)2 << 20)
void *mem_try_map(size_t size);
void mem_unmap(void *p, size_t size);
/* raises FAIL_MEMORY */
void *mem_realloc(void *old, size_t old_size, size_t size);
void mem_free(void *p);

#endif
