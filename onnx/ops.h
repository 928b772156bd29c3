/* The table of operators (ops.def). */
#ifndef AXON_ONNX_OPS_H
#define AXON_ONNX_OPS_H

#include "onnx/internal.h"

/* Defines the outputs of the node.  `how` is the text in the row. */
typedef void Emitter(Importer *im, const char *how);

typedef struct Op {
  const char *name;
  int since; /* the oldest opset whose meaning is implemented */
  Emitter *emit;
  const char *how;
} Op;

const Op *op_by_name(const char *name); /* or NULL */

#define O(name, since, emitter, how) Emitter emitter;
#include "onnx/ops.def"
#undef O

#endif
