/* Arenas: memory of an arena lives until the arena is freed.  Out of memory
 * unwinds to the innermost trap (support/trap.h). */
#ifndef AXON_SUPPORT_ARENA_H
#define AXON_SUPPORT_ARENA_H

#include <stddef.h>

typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena);
/* Frees all allocations.  Keeps the newest chunk for reuse, unless it is larger
   than `max_retained_bytes`. */
void arena_reset(Arena *arena, size_t max_retained_bytes);
void *arena_alloc_slowly(Arena *arena, size_t size);

struct Arena {
  char *at, *end;            /* free bytes of the newest chunk; zero */
  struct ArenaChunk *chunks; /* newest first */
  size_t next_bytes;         /* of the next chunk */
};

enum { ARENA_ALIGN = 16 };

/* Zeroed memory, aligned to 16 bytes. */
static inline void *arena_alloc(Arena *arena, size_t size) {
  if (size > (size_t)(arena->end - arena->at)) /* whole multiples of 16 */
    return arena_alloc_slowly(arena, size);
  char *p = arena->at;
  arena->at += (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
  return p;
}

#define NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define NEW_ARRAY(arena, type, n) \
  ((type *)arena_alloc((arena), sizeof(type) * (size_t)(n)))

#endif
