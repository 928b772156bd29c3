/* Hash maps in an arena, from pointers (or non-zero integers) to pointers. */
#ifndef AXON_SUPPORT_MAP_H
#define AXON_SUPPORT_MAP_H

#include <stdint.h>

typedef struct Arena Arena;

typedef struct Map {
  Arena *arena;
  struct MapSlot {
    const void *key;
    void *value;
  } * slots;
  uint32_t len, cap;
} Map;

void map_init(Map *map, Arena *arena);
void map_reserve(Map *map, uint32_t count);     /* room for that many keys */
void *map_get(const Map *map, const void *key); /* NULL if absent */
void map_put(Map *map, const void *key, void *value);
void map_delete(Map *map, const void *key);

#endif
