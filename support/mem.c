/* Allocation that raises FAIL_MEMORY instead of returning NULL. */
#include "support/mem.h"
#include "support/mem_inject.h"
#include "support/trap.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- freed small blocks ----
 *
 * A run frees hundreds of nodes of a few sizes, and the next one allocates
 * as many.  malloc keeps seven blocks of a size per thread; the others cost it
 * several times as much.  So each thread keeps more, in lists by size.
 * Sanitizers should see every release. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MAX_KEPT_BLOCKS = 0 };
#else
enum { MAX_KEPT_BLOCKS = 2048 };
#endif

/* Blocks of class c have at least 16 c + 8 bytes, as those of glibc do. */
enum { MAX_KEPT_BYTES = 520, CLASS_COUNT = MAX_KEPT_BYTES / 16 + 1 };

typedef struct FreeBlock {
  struct FreeBlock *next;
} FreeBlock;

typedef struct FreeBlocks {
  FreeBlock *first[CLASS_COUNT];
  uint32_t count[CLASS_COUNT];
} FreeBlocks;

static _Thread_local FreeBlocks *free_blocks;
static pthread_once_t free_blocks_once = PTHREAD_ONCE_INIT;
static pthread_key_t free_blocks_key;
static bool has_free_blocks_key;

static void free_all_blocks(void *at) {
  FreeBlocks *lists = at;
  free_blocks = NULL;
  for (uint32_t k = 0; k < CLASS_COUNT; k++)
    for (FreeBlock *b = lists->first[k], *next; b; b = next) {
      next = b->next;
      free(b);
    }
  free(lists);
}

static void make_key(void) {
  has_free_blocks_key =
      pthread_key_create(&free_blocks_key, free_all_blocks) == 0;
}

/* The lists of this thread, which end with it; or NULL. */
static FreeBlocks *make_free_blocks(void) {
  pthread_once(&free_blocks_once, make_key);
  FreeBlocks *lists = has_free_blocks_key ? calloc(1, sizeof *lists) : NULL;
  if (lists && pthread_setspecific(free_blocks_key, lists) != 0) {
    free(lists);
    return NULL;
  }
  return free_blocks = lists;
}

/* Returns NULL if no block of the size is kept. */
static void *take_free_block(size_t size) {
  FreeBlocks *lists = free_blocks;
  size_t class = (size + 7) / 16;
  if (!lists || class >= CLASS_COUNT || !lists->first[class])
    return NULL;
  FreeBlock *b = lists->first[class];
  lists->first[class] = b->next;
  lists->count[class]--;
  return b;
}

static bool keep_free_block(void *p) {
  size_t size = malloc_usable_size(p), class = (size - 8) / 16;
  if (size < 24 || size > MAX_KEPT_BYTES || MAX_KEPT_BLOCKS == 0)
    return false;
  FreeBlocks *lists = free_blocks ? free_blocks : make_free_blocks();
  if (!lists || lists->count[class] >= MAX_KEPT_BLOCKS)
    return false;
  FreeBlock *b = p;
  b->next = lists->first[class];
  lists->first[class] = b;
  lists->count[class]++;
  return true;
}

/* ---- allocation ---- */

/* malloc serves small sizes from a per-thread list, which calloc does not
   use. */
enum { MAX_SMALL_BYTES = 1024 };

void *mem_try_alloc(size_t size) {
  if (mem_should_fail() || size > PTRDIFF_MAX)
    return NULL;
  if (size > MAX_SMALL_BYTES)
    return calloc(1, size);
  size += !size;
  void *p = take_free_block(size);
  p = p ? p : malloc(size);
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
  if (p && !keep_free_block(p))
    free(p);
}
