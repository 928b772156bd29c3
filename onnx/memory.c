/* Memory of an import: an arena. */
#include "onnx/internal.h"
#include "support/arena.h"

void *import_alloc(Arena *arena, size_t size) {
  return arena_alloc(arena, size);
}

Arena *import_arena_new(void) {
  return arena_new();
}

void import_arena_free(Arena *arena) {
  arena_free(arena);
}
