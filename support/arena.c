/* Arenas: many allocations with one lifetime. */
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/vec.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#ifdef AXON_FAIL_ALLOC /* many small chunks, so that each allocation of one \
                          may fail */
enum { CHUNK_FIRST = 256, CHUNK_MOST = 256, ALIGN = 16 };
#else
enum { CHUNK_FIRST = 16 * 1024, CHUNK_MOST = 16 * 1024 * 1024, ALIGN = 16 };
#endif

enum { PAGE_BYTES = 4096, MIN_HUGE_PAGE_CHUNK_BYTES = 4 * 1024 * 1024 };

typedef struct Chunk {
  struct Chunk *next;
  size_t size, used;
  size_t dirty; /* the bytes from here on are zero */
  _Alignas(ALIGN) char bytes[];
} Chunk;

struct Arena {
  Chunk *chunks; /* newest first */
  size_t next_size;
};

Arena *arena_new(void) {
  Arena *arena = mem_alloc(sizeof *arena);
  arena->next_size = CHUNK_FIRST;
  return arena;
}

void arena_free(Arena *arena) {
  if (!arena)
    return;
  for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    mem_free(chunk);
  }
  mem_free(arena);
}

void arena_reset(Arena *arena, size_t max_retained_bytes) {
  Chunk *retained = arena->chunks;
  if (retained && retained->size > max_retained_bytes)
    retained = NULL;
  for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    if (chunk != retained)
      mem_free(chunk);
  }
  arena->chunks = retained;
  if (!retained) {
    arena->next_size = CHUNK_FIRST;
    return;
  }
  retained->next = NULL;
  if (retained->dirty < retained->used)
    retained->dirty = retained->used;
  retained->used = 0;
}

/* Requests huge pages for large chunks.  With small pages, the kernel took a
   third of the time of checking a long program. */
static void advise_huge_pages(void *at, size_t size) {
#ifdef MADV_HUGEPAGE
  uintptr_t from =
      ((uintptr_t)at + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
  uintptr_t to = ((uintptr_t)at + size) & ~(uintptr_t)(PAGE_BYTES - 1);
  if (size >= MIN_HUGE_PAGE_CHUNK_BYTES)
    madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
  (void)at, (void)size;
#endif
}

static Chunk *chunk_add(Arena *arena, size_t need) {
  size_t size = arena->next_size;
  if (arena->next_size < CHUNK_MOST)
    arena->next_size *= 2;
  if (size < need)
    size = need;
  Chunk *chunk = mem_alloc(sizeof *chunk + size);
  advise_huge_pages(chunk, size);
  chunk->size = size;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  return chunk;
}

/* Takes bytes from the chunk, and clears those from `from` on. */
static char *chunk_take(Chunk *chunk, size_t size, size_t from) {
  char *p = chunk->bytes + chunk->used;
  if (chunk->used + from < chunk->dirty) {
    size_t end = chunk->dirty - chunk->used;
    memset(p + from, 0, (size < end ? size : end) - from);
  }
  chunk->used += size;
  return p;
}

static size_t aligned(size_t size) {
  if (size > PTRDIFF_MAX / 2)
    trap_raise(FAIL_MEMORY);
  return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Memory that is zero from `from` on: the caller writes what is before. */
static char *alloc_zero_from(Arena *arena, size_t size, size_t from) {
  size = aligned(size);
  Chunk *chunk = arena->chunks;
  if (!chunk || chunk->size - chunk->used < size)
    chunk = chunk_add(arena, size);
  return chunk_take(chunk, size, from);
}

__attribute__((noinline)) static void *alloc_slowly(Arena *arena, size_t size) {
  return alloc_zero_from(arena, size, 0);
}

void *arena_alloc(Arena *arena, size_t size) {
  Chunk *chunk = arena->chunks;
  size_t used = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  if (!chunk || size > CHUNK_MOST || chunk->size - chunk->used < used ||
      chunk->used < chunk->dirty)
    return alloc_slowly(arena, size);
  char *p = chunk->bytes + chunk->used;
  chunk->used += used;
  return p;
}

char *arena_strndup(Arena *arena, const char *text, size_t len) {
  char *copy = arena_alloc(arena, len + 1);
  if (len)
    memcpy(copy, text, len);
  copy[len] = 0;
  return copy;
}

char *arena_vprintf(Arena *arena, const char *format, va_list args) {
  va_list args_copy;
  va_copy(args_copy, args);
  int len = vsnprintf(NULL, 0, format, args_copy);
  va_end(args_copy);
  char *text = arena_alloc(arena, (size_t)(len < 0 ? 0 : len) + 1);
  if (len > 0)
    vsnprintf(text, (size_t)len + 1, format, args);
  return text;
}

char *arena_printf(Arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = arena_vprintf(arena, format, args);
  va_end(args);
  return text;
}

/* True if `size` bytes at p are the last ones of the arena, and `more` follow
   in the chunk. */
static bool can_extend(const Arena *arena, const char *p, size_t size,
                       size_t more) {
  const Chunk *chunk = arena->chunks;
  return chunk && p && p + size == chunk->bytes + chunk->used &&
         chunk->size - chunk->used >= more;
}

void *vec_grow(Arena *arena, void *at, size_t item, uint32_t len,
               uint32_t *cap) {
  uint32_t bigger = *cap ? *cap * 2 : 4;
  size_t old = aligned(item * *cap), size = aligned(item * bigger);
  if (can_extend(arena, at, old, size - old)) {
    chunk_take(arena->chunks, size - old, 0);
  } else {
    char *copy = alloc_zero_from(arena, size, item * len);
    if (len)
      memcpy(copy, at, item * len);
    at = copy;
  }
  *cap = bigger;
  return at;
}
