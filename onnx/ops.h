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

/* A text of ops.def with operands for $0, $1, ... and attributes. */
const char *fill_template(Importer *im, const char *how,
                          const char *const *operands, uint32_t count);
/* The matrix product of two values, and its shape. */
const char *matmul_text(Importer *im, Value *a, Value *b, Shape *shape);
/* The convolution that the attributes of the node describe.  bias: or NULL. */
const char *conv_text(Importer *im, Value *x, Value *weight, Value *bias,
                      Shape *shape);
/* x.[:, item, ...], with the item at an axis. */
const char *item_at(Importer *im, const char *x, uint32_t axis, uint32_t rank,
                    const char *item);

/* The indices of all axes of a shape, as i0, i1, ... */
typedef struct Loop {
  const char *names[MAX_RANK];
  const char *binders; /* i0 < 2, i1 < n */
} Loop;

Loop loop_over(Importer *im, const Shape *shape);
/* Names with commas between them. */
const char *join_names(Importer *im, const char *const *names, uint32_t from,
                       uint32_t to);

#define O(name, since, emitter, how) Emitter emitter;
#include "onnx/ops.def"
#undef O

#endif
