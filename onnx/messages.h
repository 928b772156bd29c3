/* The messages of an ONNX file, and the library that reads them. */
#ifndef AXON_ONNX_MESSAGES_H
#define AXON_ONNX_MESSAGES_H

#include "runtime/runtime.h"

#include "onnx/memory.h"
#include "onnx/onnx.pb-c.h"

#define PROTOBUF_C_FUNCTIONS(F) \
  F(protobuf_c_message_unpack)  \
  F(protobuf_c_message_pack_to_buffer)

typedef struct Arena Arena;

typedef struct ProtobufC {
  PROTOBUF_C_FUNCTIONS(DYNLIB_POINTER)
} ProtobufC;
extern ProtobufC protobuf_c;

typedef Onnx__ModelProto Model;
typedef Onnx__GraphProto Graph;
typedef Onnx__NodeProto Node;
typedef Onnx__AttributeProto Attribute;
typedef Onnx__TensorProto TensorMessage;
typedef Onnx__ValueInfoProto ValueInfo;

/* ---- messages.c, model.c ---- */

/* Loads the library.  Returns false with a fault that names the package. */
bool messages_load_library(Fault *fault);

/* Reads a model into the arena.  The fault does not name the file. */
Model *model_read(Arena *arena, const void *bytes, size_t len, Fault *fault);

#endif
