/* The messages of onnx.proto, as protoc-c generates them.  The library is
   loaded when a file is first read or written. */
#include "onnx/messages.h"
#include "onnx/pack.h"
#include "support/buffer.h"

ProtobufC protobuf_c;

static const DynLib library = DYNLIB("libprotobuf-c.so.1", "libprotobuf-c1",
                                     PROTOBUF_C_FUNCTIONS, protobuf_c);

bool messages_load_library(Fault *fault) {
  return dynlib_load(&library, fault);
}

#define protobuf_c_message_get_packed_size(message) ((size_t) !(message))
#define protobuf_c_message_pack(message, out) ((size_t)(!(message) || !(out)))
#define protobuf_c_message_pack_to_buffer \
  protobuf_c.protobuf_c_message_pack_to_buffer
#define protobuf_c_message_unpack protobuf_c.protobuf_c_message_unpack
#define protobuf_c_message_free_unpacked(message, allocator) \
  ((void)(message), (void)(allocator))

#include "onnx/onnx.pb-c.c"

/* ---- writing ---- */

typedef struct PackBuffer {
  ProtobufCBuffer base;
  Buffer *out;
} PackBuffer;

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data) {
  buffer_add(((PackBuffer *)base)->out, (const char *)data, len);
}

bool onnx_pack(const Onnx__ModelProto *model, Buffer *out, Fault *fault) {
  PackBuffer buffer = {.base = {append}, .out = out};
  if (!messages_load_library(fault))
    return false;
  onnx__model_proto__pack_to_buffer(model, &buffer.base);
  return true;
}
