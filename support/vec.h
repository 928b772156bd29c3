/* Growable arrays in an arena. */
#ifndef AXON_SUPPORT_VEC_H
#define AXON_SUPPORT_VEC_H

#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

/* Growable arrays in an arena:  VEC(Dim *) v = {0};  VEC_PUSH(a, v, d); */
#define VEC(type)      \
  struct {             \
    type *at;          \
    uint32_t len, cap; \
  }
#define VEC_PUSH(arena, v, x)                                                \
  do {                                                                       \
    if ((v).len == (v).cap)                                                  \
      (v).at = vec_grow((arena), (v).at, sizeof *(v).at, (v).len, &(v).cap); \
    (v).at[(v).len++] = (x);                                                 \
  } while (0)
void *vec_grow(Arena *arena, void *at, size_t item, uint32_t len,
               uint32_t *cap);

#endif
