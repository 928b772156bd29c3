/* Arenas: many allocations with one lifetime. */
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/compiler.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/vec.h"

#include <stdbool.h>
#include <string.h>

#ifdef AXON_FAIL_ALLOC /* many small chunks, so that each allocation of one \
                          may fail */
enum { CHUNK_FIRST = 256, CHUNK_MOST = 256 };
#else
enum { CHUNK_FIRST = 16 * 1024, CHUNK_MOST = 16 * 1024 * 1024 };
#endif
enum { ALIGN = ARENA_ALIGN, MIN_MAPPED_BYTES = 512 * 1024 };

typedef struct ArenaChunk {
  struct ArenaChunk *next;
  size_t size;
  _Alignas(ALIGN) char bytes[];
} Chunk;

/* The address sanitizer only finds pointers to the heap in the heap. */
static bool is_mapped(size_t bytes) {
  return !ADDRESS_SANITIZER && bytes >= MIN_MAPPED_BYTES;
}

/* The bytes of a chunk, including its header.  Large chunks are whole huge
   pages: the system clears one in a quarter of the time that it takes for as
   many small pages.  Arenas of less than half a MiB have none: the whole page
   would be resident. */
static size_t chunk_bytes(size_t wanted) {
  return is_mapped(wanted)
             ? (wanted + MEM_HUGE_PAGE_BYTES - 1) & ~(MEM_HUGE_PAGE_BYTES - 1)
             : wanted;
}

static void chunk_free(Chunk *chunk) {
  size_t bytes = sizeof *chunk + chunk->size;
  if (is_mapped(bytes))
    mem_unmap(chunk, bytes);
  else
    mem_free(chunk);
}

/* An arena without chunks has 0 free bytes, at any address. */
static void use_no_chunk(Arena *arena) {
  *arena = (Arena){
      .at = (char *)arena, .end = (char *)arena, .next_bytes = CHUNK_FIRST};
}

Arena *arena_new(void) {
  Arena *arena = mem_alloc(sizeof *arena);
  use_no_chunk(arena);
  return arena;
}

void arena_free(Arena *arena) {
  if (!arena)
    return;
  for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    chunk_free(chunk);
  }
  mem_free(arena);
}

static void use_chunk(Arena *arena, Chunk *chunk) {
  arena->chunks = chunk;
  arena->at = chunk->bytes;
  arena->end = chunk->bytes + chunk->size;
}

void arena_reset(Arena *arena, size_t max_retained_bytes) {
  Chunk *retained = arena->chunks;
  if (retained && retained->size > max_retained_bytes)
    retained = NULL;
  for (Chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    if (chunk != retained)
      chunk_free(chunk);
  }
  if (!retained) {
    use_no_chunk(arena);
    return;
  }
  retained->next = NULL;
  memset(retained->bytes, 0, (size_t)(arena->at - retained->bytes));
  use_chunk(arena, retained);
}

static void chunk_add(Arena *arena, size_t need) {
  size_t bytes = arena->next_bytes;
  if (bytes < sizeof(Chunk) + need)
    bytes = sizeof(Chunk) + need;
  bytes = chunk_bytes(bytes);
  arena->next_bytes = bytes < CHUNK_MOST / 2 ? bytes * 2 : CHUNK_MOST;
  Chunk *chunk = is_mapped(bytes) ? mem_try_map(bytes) : mem_try_alloc(bytes);
  if (!chunk)
    trap_raise(FAIL_MEMORY);
  chunk->size = bytes - sizeof *chunk;
  chunk->next = arena->chunks;
  use_chunk(arena, chunk);
}

static size_t aligned(size_t size) {
  if (size > PTRDIFF_MAX / 2)
    trap_raise(FAIL_MEMORY);
  return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void *arena_alloc_slowly(Arena *arena, size_t size) {
  chunk_add(arena, aligned(size));
  return arena_alloc(arena, size);
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
  return p && p + size == arena->at && (size_t)(arena->end - arena->at) >= more;
}

void *vec_grow(Arena *arena, void *at, size_t item, uint32_t len,
               uint32_t *cap) {
  uint32_t bigger = *cap ? *cap * 2 : 4;
  size_t old = aligned(item * *cap), size = aligned(item * bigger);
  if (can_extend(arena, at, old, size - old)) {
    arena->at += size - old;
  } else {
    char *copy = arena_alloc(arena, size);
    if (len)
      memcpy(copy, at, item * len);
    at = copy;
  }
  *cap = bigger;
  return at;
}
