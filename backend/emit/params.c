/* Parameters of a kernel, and the C types of its values. */
#include "backend/emit/aot_caller.h"
#include "backend/emit/emit.h"

#include <math.h>

#define format emit_format
const char *emit_format(Emitter *e, const char *template, ...) {
  Buffer b = {.arena = e->arena};
  va_list args;
  va_start(args, template);
  buffer_vprintf(&b, template, args);
  va_end(args);
  return b.text;
}

/* ---- parameters ---- */

const char *emit_int(Emitter *e, int64_t x) {
  VEC_PUSH(e->arena, e->emitted->call.ints, x);
  return format(e, "n[%u]",
                e->emitted->call.ints.len - 1 - e->function.first_int);
}

const char *emit_kept_int(Emitter *e, int64_t x) {
  if (extent_is_static(e->kernel->graph, x))
    return format(e, "%lld", (long long)x);
  uint32_t id = e->next_id++;
  buffer_printf(&e->function.head, "const int64_t h%u = %s;\n", id,
                emit_int(e, x));
  return format(e, "h%u", id);
}

int64_t emit_extent_mul(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !extent_mul(e->kernel->graph, x, y, &out);
  return out;
}

int64_t emit_extent_add(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !extent_add(e->kernel->graph, x, y, &out);
  return out;
}

int64_t emit_extent_ceil_div(Emitter *e, int64_t x, int64_t y) {
  int64_t out = 0;
  e->failed |= !extent_ceil_div(e->kernel->graph, x, y, &out);
  return out;
}

enum { CACHE_LINE_BYTES = 64 };

const char *emit_scratch(Emitter *e, int64_t elements, Dtype t) {
  int64_t bytes = emit_extent_mul(e, elements, dtype_info[t].bytes);
  int64_t *scratch_bytes = &e->emitted->call.scratch_bytes;
  const char *offset = emit_int(e, *scratch_bytes);
  *scratch_bytes = emit_extent_add(
      e, *scratch_bytes,
      emit_extent_mul(e, emit_extent_ceil_div(e, bytes, CACHE_LINE_BYTES),
                      CACHE_LINE_BYTES));
  return offset;
}

/* A value that could be mistaken for a symbolic extent is passed as two
 * halves. */
const char *emit_plain_int(Emitter *e, int64_t x) {
  if (extent_is_static(e->kernel->graph, x) && x != INT64_MIN)
    return emit_int(e, x);
  const char *high = emit_int(e, (int64_t)((uint64_t)x >> 32));
  const char *low = emit_int(e, (int64_t)((uint64_t)x & 0xffffffff));
  return format(e, "(int64_t)((uint64_t)%s << 32 | (uint64_t)%s)", high, low);
}

const char *emit_key(Emitter *e, PrngKey key, uint32_t word) {
  Call *call = &e->emitted->call;
  int64_t x = (int64_t)key.word[word];
  if (!key_is_placeholder(key) || e->kernel->graph->extent_table)
    return emit_plain_int(e, x);
  KeyParam w = {call->ints.len, (uint32_t)key.word[1], word};
  VEC_PUSH(e->arena, call->key_params, w);
  return emit_int(e, x);
}

const char *emit_float(Emitter *e, double x) {
  VEC_PUSH(e->arena, e->emitted->call.floats, x);
  return format(e, "c[%u]",
                e->emitted->call.floats.len - 1 - e->function.first_float);
}

/* ---- classes of values ---- */

char value_class(Dtype t) {
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
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
    return 'f';
  case DT_F64:
    return 'd';
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return 'l';
}

char emit_class(const Emitter *e, Dtype t) {
  return e->has_byte_lanes && t == DT_U8 ? 'u' : value_class(t);
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
  case 'u':
    return "int32_t";
  default:
    return "int64_t";
  }
}

const char *memory_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
#define D(id, name, bytes, class, memory, compute) [DT_##id] = #memory,
#include "primitives/dtypes.def"
#undef D
  };
  return names[t];
}

char vector_type_letter(char class) {
  return class == 'b' ? 'i' : class;
}

void emit_float_literal(Buffer *out, double x) {
  if (isnan(x))
    buffer_puts(out, "NAN");
  else if (isinf(x))
    buffer_puts(out, x < 0 ? "-INFINITY" : "INFINITY");
  else
    buffer_printf(out, "%a", x);
}
