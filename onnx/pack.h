/* Writes the message of a model. */
#ifndef AXON_ONNX_PACK_H
#define AXON_ONNX_PACK_H

#include "runtime/runtime.h"

typedef struct Buffer Buffer;
struct Onnx__ModelProto;

/* Returns false, with a fault, if protobuf-c is missing. */
bool onnx_pack(const struct Onnx__ModelProto *model, Buffer *out, Fault *fault);

#endif
