/* The messages of onnx.proto, as protoc-c generates them.  The library is
   loaded when a file is first read.  Generated functions that write messages
   are not used. */
#include "onnx/messages.h"

ProtobufC protobuf_c;

static const DynLib library = DYNLIB("libprotobuf-c.so.1", "libprotobuf-c1",
                                     PROTOBUF_C_FUNCTIONS, protobuf_c);

bool messages_load_library(Fault *fault) {
  return dynlib_load(&library, fault);
}

#define protobuf_c_message_get_packed_size(message) ((size_t) !(message))
#define protobuf_c_message_pack(message, out) ((size_t)(!(message) || !(out)))
#define protobuf_c_message_pack_to_buffer(message, buffer) \
  ((size_t)(!(message) || !(buffer)))
#define protobuf_c_message_unpack protobuf_c.protobuf_c_message_unpack
#define protobuf_c_message_free_unpacked(message, allocator) \
  ((void)(message), (void)(allocator))

#include "onnx/onnx.pb-c.c"
