/* Memory for the elements of tensors.
 *
 * Blocks that are given back are kept for a while and handed out again: the
 * system clears the pages of a new one, which costs as much as most kernels.
 * A loop over tensors of the same sizes so takes nothing from the system after
 * its first rounds.  Sizes are rounded up by at most an eighth, so that nearly
 * equal ones share blocks.  Large blocks are of huge pages, where the system
 * has them: the first walk over 64 MB takes 3 ms with, 14 ms without.
 *
 * Under the address sanitizer nothing is kept, so that a use of memory that
 * was given back is found. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include "runtime/kept.h"
#include "runtime/sizeclass.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS 0
#endif
#endif
#ifndef KEEPS
#define KEEPS 1
#endif

enum {
  ALIGN = 64,
  SMALLEST_BITS = 6, /* aligned, malloc takes long even for these */
  CLASSES = SIZECLASS_COUNT(SMALLEST_BITS),
  NEAR = 2, /* classes above its own in which a block is looked for */
};
#define HUGE_PAGE ((size_t)2 << 20)
#define KEPT_LEAST ((uint64_t)64 << 20)

typedef struct Free {         /* at the beginning of a block that is kept */
  struct Free *next, *prev;   /* of its class */
  struct Free *newer, *older; /* of all */
  size_t size;
} Free;

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  Free *classes[CLASSES];
  Free *newest, *oldest;
  uint64_t kept, live, peak; /* bytes; peak: of live ones */
  uint64_t fresh, reused;    /* blocks handed out */
} blocks = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- sizes ---- */

static uint32_t class_of(size_t bytes) {
  return sizeclass_of(bytes, SMALLEST_BITS);
}

static size_t class_size(uint32_t class) {
  return sizeclass_size(class, SMALLEST_BITS);
}

/* ---- from the system and back to it ---- */

static void *map(size_t size) {
  if (mem_denied())
    return NULL;
  size_t all = size + HUGE_PAGE;
  char *at = mmap(NULL, all, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  size_t before = -(uintptr_t)at % HUGE_PAGE;
  if (before)
    munmap(at, before);
  munmap(at + before + size, all - before - size);
  madvise(at + before, size, MADV_HUGEPAGE); /* or not */
  return at + before;
}

static bool is_mapped(size_t size) {
  return KEEPS && size >= HUGE_PAGE;
}

static void *take_fresh(size_t size, bool clear) {
  if (is_mapped(size))
    return map(size);
  void *at = mem_try_aligned(ALIGN, size);
  if (at && clear)
    memset(at, 0, size);
  return at;
}

static void give_back(void *at, size_t size) {
  if (is_mapped(size))
    munmap(at, size);
  else
    mem_free(at);
}

/* ---- what is kept: all with the lock ---- */

static void before_fork(void) {
  pthread_mutex_lock(&blocks.lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&blocks.lock);
}

static void set_up(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}

static void lock(void) {
  pthread_once(&blocks.once, set_up);
  pthread_mutex_lock(&blocks.lock);
}

static void unlock(void) {
  pthread_mutex_unlock(&blocks.lock);
}

static void take_out(Free *f) {
  *(f->prev ? &f->prev->next : &blocks.classes[class_of(f->size)]) = f->next;
  if (f->next)
    f->next->prev = f->prev;
  *(f->newer ? &f->newer->older : &blocks.newest) = f->older;
  *(f->older ? &f->older->newer : &blocks.oldest) = f->newer;
  blocks.kept -= f->size;
}

static void put_in(Free *f, size_t size) {
  Free **class = &blocks.classes[class_of(size)];
  *f = (Free){.next = *class, .older = blocks.newest, .size = size};
  if (f->next)
    f->next->prev = f;
  *class = f;
  *(f->older ? &f->older->newer : &blocks.oldest) = f;
  blocks.newest = f;
  blocks.kept += size;
}

static void trim(uint64_t keep) {
  while (blocks.kept > keep) {
    Free *f = blocks.oldest;
    take_out(f);
    give_back(f, f->size);
  }
}

/* No more than was in use at once, and than a quarter of the memory. */
static uint64_t kept_most(void) {
  uint64_t most = memory_physical() / 4;
  if (blocks.peak < most)
    most = blocks.peak;
  return most < KEPT_LEAST ? KEPT_LEAST : most;
}

static Free *find(size_t size) {
  uint32_t class = class_of(size);
  for (uint32_t k = class; k <= class + NEAR && k < CLASSES; k++)
    if (blocks.classes[k])
      return blocks.classes[k];
  return NULL;
}

/* Where memory is short what is kept goes before the system has to swap. */
static void make_room(size_t size) {
  uint64_t most = memory_physical() / 4 * 3, wanted = blocks.live + size;
  if (wanted + blocks.kept > most)
    trim(wanted < most ? most - wanted : 0);
}

static void count_live(size_t size) {
  blocks.live += size;
  if (blocks.live > blocks.peak)
    blocks.peak = blocks.live;
}

/* ---- the door ---- */

static void *take_kept(size_t bytes, size_t *size) {
  lock();
  Free *f = find(*size);
  if (f) {
    take_out(f);
    *size = f->size;
    count_live(*size);
    blocks.reused++;
  } else {
    make_room(bytes);
  }
  unlock();
  return f;
}

void *block_new(size_t bytes, bool clear, size_t *size) {
  *size = 0;
  if (bytes > (size_t)1 << 60)
    return NULL;
  *size = class_size(class_of(bytes));
  void *at = take_kept(bytes, size);
  if (at) {
    if (clear)
      memset(at, 0, bytes);
    return at;
  }
  at = take_fresh(*size, clear);
  if (!at) {
    kept_trim(0);
    memory_trim(0);
    at = take_fresh(*size, clear);
  }
  if (!at)
    return NULL;
  lock();
  blocks.fresh++;
  count_live(*size);
  unlock();
  return at;
}

void block_free(void *at, size_t size) {
  if (!size) {
    mem_free(at);
    return;
  }
  lock();
  blocks.live -= size;
  if (KEEPS)
    put_in(at, size);
  trim(kept_most());
  unlock();
  if (!KEEPS)
    give_back(at, size);
}

void memory_trim(uint64_t keep) {
  lock();
  trim(keep);
  if (keep == 0)
    blocks.peak = blocks.live;
  unlock();
}

MemoryCounts memory_counts(void) {
  lock();
  MemoryCounts counts = {.fresh = blocks.fresh,
                         .reused = blocks.reused,
                         .live = blocks.live,
                         .kept = blocks.kept,
                         .keeps = KEEPS};
  unlock();
  return counts;
}
