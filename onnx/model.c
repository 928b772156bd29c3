/* Reads the bytes of a model.  Main entry point: model_read.
 *
 * The library nests calls as deeply as messages nest, and makes a structure
 * for each message.  So this file first checks depth and number. */
#include "onnx/messages.h"

#include <string.h>

enum {
  MAX_DEPTH = 64,
  MAX_VARINT_BYTES = 10,
  WIRE_VARINT = 0,
  WIRE_64 = 1,
  WIRE_BYTES = 2,
  WIRE_32 = 5,
};
/* Structures of messages may take this much memory. */
static const size_t MAX_STRUCTURE_BYTES = (size_t)1 << 30;

typedef struct Wire {
  const uint8_t *at, *end;
} Wire;

typedef struct Check {
  size_t structure_bytes;
  Fault *fault;
} Check;

static bool read_varint(Wire *w, uint64_t *out) {
  *out = 0;
  for (int i = 0; i < MAX_VARINT_BYTES && w->at < w->end; i++) {
    uint8_t byte = *w->at++;
    *out |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

/* Reads the contents of a field.  Returns false if it exceeds the message. */
static bool read_field(Wire *w, uint32_t wire_type, Wire *contents) {
  uint64_t len = 0;
  *contents = *w;
  if (wire_type == WIRE_VARINT)
    return read_varint(w, &len);
  if (wire_type == WIRE_BYTES) {
    if (!read_varint(w, &len))
      return false;
  } else if (wire_type == WIRE_64 || wire_type == WIRE_32) {
    len = wire_type == WIRE_64 ? 8 : 4;
  } else
    return false;
  if (len > (size_t)(w->end - w->at))
    return false;
  *contents = (Wire){w->at, w->at + len};
  w->at += len;
  return true;
}

static const ProtobufCFieldDescriptor *
find_field(const ProtobufCMessageDescriptor *type, uint64_t number) {
  for (unsigned i = 0; i < type->n_fields; i++)
    if (type->fields[i].id == number)
      return &type->fields[i];
  return NULL;
}

static bool damaged(Check *check) {
  fault_set(check->fault, "the file is damaged, or no ONNX model");
  return false;
}

static bool check_message(Check *check, const ProtobufCMessageDescriptor *type,
                          Wire w, int depth) {
  check->structure_bytes += type->sizeof_message + 2 * sizeof(void *);
  if (depth > MAX_DEPTH || check->structure_bytes > MAX_STRUCTURE_BYTES) {
    fault_set(check->fault, "the model has too many nested or small parts");
    return false;
  }
  while (w.at < w.end) {
    uint64_t key;
    Wire contents;
    if (!read_varint(&w, &key) || !read_field(&w, key & 7, &contents))
      return damaged(check);
    const ProtobufCFieldDescriptor *field = find_field(type, key >> 3);
    if (!field)
      continue;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
      if ((key & 7) != WIRE_BYTES)
        return damaged(check);
      if (!check_message(check, field->descriptor, contents, depth + 1))
        return false;
    } else if (field->label == PROTOBUF_C_LABEL_REPEATED)
      check->structure_bytes += sizeof(ProtobufCBinaryData);
  }
  return true;
}

static void *allocate(void *arena, size_t size) {
  return import_alloc(arena, size);
}

static void release(void *arena, void *at) {
  (void)arena, (void)at;
}

Model *model_read(Arena *arena, const void *bytes, size_t len, Fault *fault) {
  const uint8_t *at = bytes;
  Check check = {.fault = fault};
  if (!messages_load_library(fault) ||
      !check_message(&check, &onnx__model_proto__descriptor,
                     (Wire){at, at + len}, 0))
    return NULL;
  ProtobufCAllocator allocator = {allocate, release, arena};
  Model *model = onnx__model_proto__unpack(&allocator, len, at);
  if (!model || !model->graph) {
    damaged(&check);
    return NULL;
  }
  return model;
}
