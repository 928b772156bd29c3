/* Hash map from pointers to pointers; open addressing, linear probing. */
#include "support/map.h"
#include "support/arena.h"

enum { MIN_SLOTS = 8 };

static const char tombstone; /* its address marks a deleted slot */

void map_init(Map *map, Arena *arena) {
  *map = (Map){.arena = arena};
}

static uint32_t hash_key(const void *key) {
  uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 32);
}

static struct MapSlot *find_slot(const Map *map, const void *key) {
  uint32_t i = hash_key(key) & (map->cap - 1);
  while (map->slots[i].key && map->slots[i].key != key)
    i = (i + 1) & (map->cap - 1);
  return &map->slots[i];
}

void *map_get(const Map *map, const void *key) {
  return map->cap ? find_slot(map, key)->value : NULL;
}

static void grow_to(Map *map, uint32_t cap) {
  Map bigger = {.arena = map->arena, .cap = cap};
  bigger.slots = NEW_ARRAY(map->arena, struct MapSlot, bigger.cap);
  for (uint32_t i = 0; i < map->cap; i++)
    if (map->slots[i].key && map->slots[i].key != &tombstone) {
      *find_slot(&bigger, map->slots[i].key) = map->slots[i];
      bigger.len++;
    }
  *map = bigger;
}

void map_reserve(Map *map, uint32_t count) {
  uint32_t cap = map->cap ? map->cap : MIN_SLOTS;
  while (cap / 2 < count)
    cap *= 2;
  if (cap > map->cap)
    grow_to(map, cap);
}

void map_put(Map *map, const void *key, void *value) {
  if (map->len * 2 >= map->cap)
    grow_to(map, map->cap ? map->cap * 2 : MIN_SLOTS);
  struct MapSlot *slot = find_slot(map, key);
  if (!slot->key)
    map->len++;
  *slot = (struct MapSlot){key, value};
}

void map_delete(Map *map, const void *key) {
  if (!map->cap)
    return;
  struct MapSlot *slot = find_slot(map, key);
  if (slot->key)
    *slot = (struct MapSlot){&tombstone, NULL};
}
