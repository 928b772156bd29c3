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
void *arena_alloc(Arena *arena, size_t size); /* zeroed, 16-byte aligned */

#define NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define NEW_ARRAY(arena, type, n) \
  ((type *)arena_alloc((arena), sizeof(type) * (size_t)(n)))

#endif
