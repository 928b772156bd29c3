/* What a kernel takes as parameters, and the types of its values. */
#include "backend/cpu/emit.h"

#define format emit_format
const char *emit_format(Emitter *e, const char *text, ...) {
  Buffer b = {.arena = e->arena};
  va_list args;
  va_start(args, text);
  buffer_vprintf(&b, text, args);
  va_end(args);
  return b.text;
}

/* ---- parameters ---- */

const char *emit_int(Emitter *e, int64_t x) {
  VEC_PUSH(e->arena, e->out->call.ints, x);
  return format(e, "n[%u]", e->out->call.ints.len - 1 - e->ints_from);
}

int64_t emit_times(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !size_mul(e->k->graph, x, y, &out);
  return out;
}

int64_t emit_plus(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !size_add(e->k->graph, x, y, &out);
  return out;
}

int64_t emit_over(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !size_div_up(e->k->graph, x, y, &out);
  return out;
}

enum { LINE = 64 };

const char *emit_room(Emitter *e, int64_t elements, Dtype t) {
  int64_t bytes = emit_times(e, elements, dtype_info[t].bytes);
  int64_t *room = &e->out->call.room;
  const char *at = emit_int(e, *room);
  *room = emit_plus(e, *room, emit_times(e, emit_over(e, bytes, LINE), LINE));
  return at;
}

/* One that is no size: what would be taken for one is put together of two. */
const char *emit_number(Emitter *e, int64_t x) {
  if (size_is_number(e->k->graph, x) && x != INT64_MIN)
    return emit_int(e, x);
  const char *high = emit_int(e, (int64_t)((uint64_t)x >> 32));
  const char *low = emit_int(e, (int64_t)((uint64_t)x & 0xffffffff));
  return format(e, "(int64_t)((uint64_t)%s << 32 | (uint64_t)%s)", high, low);
}

const char *emit_key(Emitter *e, Key key, uint32_t word) {
  Call *call = &e->out->call;
  int64_t x = (int64_t)key.word[word];
  if (!is_key_mark(key) || e->k->graph->sizes)
    return emit_number(e, x);
  KeyWord w = {call->ints.len, (uint32_t)key.word[1], word};
  VEC_PUSH(e->arena, call->keys, w);
  return emit_int(e, x);
}

const char *emit_float(Emitter *e, double x) {
  VEC_PUSH(e->arena, e->out->call.floats, x);
  return format(e, "c[%u]", e->out->call.floats.len - 1 - e->floats_from);
}

/* ---- classes of values ---- */

char class_of(Dtype t) {
  switch (t) {
  case DT_BOOL:
    return 'b';
  case DT_U8:
  case DT_I8:
  case DT_I32:
    return 'i';
  case DT_I64:
    return 'l';
  case DT_F16:
  case DT_BF16:
  case DT_F32:
    return 'f';
  case DT_F64:
    return 'd';
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return 'l';
}

const char *scalar_type(char class) {
  switch (class) {
  case 'f':
    return "float";
  case 'd':
    return "double";
  case 'b':
    return "int";
  case 'i':
    return "int32_t";
  default:
    return "int64_t";
  }
}

const char *memory_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
      [DT_BOOL] = "uint8_t",  [DT_U8] = "uint8_t",  [DT_I8] = "int8_t",
      [DT_I32] = "int32_t",   [DT_I64] = "int64_t", [DT_F16] = "uint16_t",
      [DT_BF16] = "uint16_t", [DT_F32] = "float",   [DT_F64] = "double"};
  return names[t];
}

char vector_letter(char class) {
  return class == 'b' ? 'i' : class;
}
