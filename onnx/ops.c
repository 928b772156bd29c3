/* The table of operators. */
#include "onnx/ops.h"

#include <string.h>

static const Op ops[] = {
#define O(name, since, emitter, how) {#name, since, emitter, how},
#include "onnx/ops.def"
#undef O
};

const Op *op_by_name(const char *name) {
  for (size_t i = 0; i < ARRAY_LEN(ops); i++)
    if (strcmp(ops[i].name, name) == 0)
      return &ops[i];
  return NULL;
}
