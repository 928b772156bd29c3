/* Memory in an arena. */
#ifndef AXON_ONNX_MEMORY_H
#define AXON_ONNX_MEMORY_H

#include <stddef.h>

typedef struct Arena Arena;

void *import_alloc(Arena *arena, size_t size); /* zeroed */
#define MAKE(arena, type) ((type *)import_alloc((arena), sizeof(type)))
#define MAKE_ARRAY(arena, type, n) \
  ((type *)import_alloc((arena), sizeof(type) * (size_t)(n)))

#endif
