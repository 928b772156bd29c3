/* Names, numbers and sizes in the text of a driver. */
#include "session/driver.h"

#include <math.h>
#include <string.h>

/* Sizes divide as in the language; by 0, which a requirement refuses, it is 0.
 * times: -1 is more than there can be; grown: also where another axis has
 * nothing, since what is computed of the others would wrap around. */
const char driver_runtime[] =
    "#include <math.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n\n"
    "#ifdef __clang__\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#elif defined __GNUC__\n"
    "#pragma GCC optimize(\"fp-contract=off\", \"wrapv\", \"no-math-errno\")\n"
    "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
    "#endif\n"
    "#ifdef __GNUC__\n"
    "#define MAY_GO __attribute__((unused))\n"
    "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
    "#pragma GCC diagnostic ignored \"-Wpedantic\"\n"
    "#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
    "#pragma GCC diagnostic ignored \"-Wtautological-compare\"\n"
    "#else\n"
    "#define MAY_GO\n"
    "#define __attribute__(x)\n"
    "#define __builtin_inff() ((float)INFINITY)\n"
    "#define __builtin_fabsf fabsf\n"
    "#define __builtin_fabs fabs\n"
    "#define __builtin_sqrtf sqrtf\n"
    "#define __builtin_sqrt sqrt\n"
    "#define __builtin_tan tan\n"
    "#define __builtin_atan2 atan2\n"
    "#define __builtin_sinh sinh\n"
    "#define __builtin_cosh cosh\n"
    "#define __builtin_pow pow\n"
    "#endif\n"
    "static MAY_GO int64_t size_div(int64_t x, int64_t y) {\n"
    "  return y ? x / y - (x % y != 0 && (x < 0) != (y < 0)) : 0;\n"
    "}\n"
    "static MAY_GO double size_abs(int64_t x) {\n"
    "  return x < 0 ? -(double)x : (double)x;\n"
    "}\n"
    "static MAY_GO int64_t size_min(int64_t x, int64_t y) {\n"
    "  return x < y ? x : y;\n"
    "}\n"
    "static MAY_GO int64_t size_max(int64_t x, int64_t y) {\n"
    "  return x > y ? x : y;\n"
    "}\n"
    "static MAY_GO int64_t times(int64_t x, int64_t y) {\n"
    "  if (x < 0 || y <= 0 || x == 0)\n"
    "    return x < 0 ? -1 : 0;\n"
    "  return x > INT64_MAX / 16 / y ? -1 : x * y;\n"
    "}\n"
    "static MAY_GO int64_t grown(int64_t x, int64_t y) {\n"
    "  return x < 0 || y <= 1 ? x : times(x, y);\n"
    "}\n"
    "static MAY_GO void *room(int64_t count, size_t bytes, int clear) {\n"
    "  if (count < 0 || (uint64_t)count > (SIZE_MAX - 64) / bytes)\n"
    "    return NULL;\n"
    "  size_t n = (size_t)count * bytes + 64;\n"
    "  return clear ? calloc(n, 1) : malloc(n);\n"
    "}\n"
    "static MAY_GO void copy(void *to, const void *from, int64_t count,\n"
    "                        size_t bytes) {\n"
    "  if (count > 0 && to != from)\n"
    "    memcpy(to, from, (size_t)count * bytes);\n"
    "}\n";

void driver_line(Driver *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (uint32_t k = 0; k <= e->depth; k++)
    buffer_puts(e->out, "  ");
  buffer_vprintf(e->out, format, args);
  buffer_putc(e->out, '\n');
  va_end(args);
}

const char *driver_format(Driver *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(e->arena, format, args);
  va_end(args);
  return text;
}

const char *driver_fresh(Driver *e, const char *prefix) {
  return driver_format(e, "%s%u", prefix, e->next++);
}

void driver_open(Driver *e, const char *head) {
  driver_line(e, "%s%s{", head, *head ? " " : "");
  e->depth++;
}

void driver_close(Driver *e) {
  e->depth--;
  driver_line(e, "}");
}

const char *driver_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
      [DT_BOOL] = "uint8_t",  [DT_U8] = "uint8_t",  [DT_I8] = "int8_t",
      [DT_I32] = "int32_t",   [DT_I64] = "int64_t", [DT_F16] = "uint16_t",
      [DT_BF16] = "uint16_t", [DT_F32] = "float",   [DT_F64] = "double"};
  return names[t];
}

static const char *int_text(Driver *e, int64_t x) {
  if (x == INT64_MIN)
    return "INT64_MIN";
  bool wide = x > INT32_MAX || x < -INT32_MAX;
  return driver_format(e,
                       x < 0  ? wide ? "(-INT64_C(%lld))" : "(-%lld)"
                       : wide ? "INT64_C(%lld)"
                              : "%lld",
                       (long long)(x < 0 ? -x : x));
}

const char *driver_const(Driver *e, Scalar x) {
  if (!dtype_is_float(x.dtype))
    return int_text(e, x.i);
  const char *suffix = x.dtype == DT_F64 ? "" : "f";
  if (isnan(x.f))
    return "NAN";
  if (isinf(x.f))
    return x.f < 0 ? "(-INFINITY)" : "INFINITY";
  bool negative = signbit(x.f);
  double y = negative ? -x.f : x.f;
  const char *text = y == floor(y) && y < 1e6 ? driver_format(e, "%.1f", y)
                                              : driver_format(e, "%a", y);
  return driver_format(e, negative ? "(-%s%s)" : "%s%s", text, suffix);
}

/* ---- sizes ---- */

static uint32_t size_number(const Driver *e, const DimVar *v) {
  for (uint32_t k = 0; k < e->t->size_count; k++)
    if (e->t->sizes[k].var == v)
      return k;
  return UINT32_MAX;
}

const char *driver_size_var(void *driver, const DimVar *v) {
  Driver *e = driver;
  uint32_t k = size_number(e, v);
  return k == UINT32_MAX ? "0" : driver_format(e, "z[%u]", k);
}

static const char *size_name(void *driver, const DimVar *v) {
  Driver *e = driver;
  uint32_t k = size_number(e, v);
  return k == UINT32_MAX ? "0" : e->size_vars[k];
}

const char *driver_formula(Driver *e, int64_t x) {
  Buffer text = {.arena = e->arena};
  if (size_is_number(e->g, x))
    return int_text(e, x);
  if (!size_emit(e->g, &text, x, size_name, e))
    driver_refuse(e, e->t->span,
                  driver_format(e, "a size of it, %s, is too long a formula",
                                size_text(e->g, x).text));
  return text.text;
}

const char *driver_fits(Driver *e, int64_t x) {
  Buffer reach = {.arena = e->arena};
  size_emit_reach(e->g, &reach, x, size_name, e);
  return driver_format(e, "%s <= 4e18", reach.text);
}

const char *driver_size(Driver *e, int64_t x) {
  if (size_is_number(e->g, x))
    return int_text(e, x);
  const char *name = map_get(&e->size_names, (void *)(uintptr_t)x);
  if (name)
    return name;
  const char *text = driver_formula(e, x);
  bool plain = true;
  for (const char *p = text; *p; p++)
    plain &= *p != ' ' && *p != '(';
  name = text;
  if (!plain) {
    name = driver_fresh(e, "e");
    VEC_PUSH(e->arena, e->size_lines, ((SizeLine){name, text, x}));
  }
  map_put(&e->size_names, (void *)(uintptr_t)x, (void *)(uintptr_t)name);
  return name;
}

const char *driver_count(Driver *e, uint32_t axes, const int64_t *extents) {
  const char *text = NULL;
  for (uint32_t k = 0; k < axes; k++) {
    if (extents[k] == 1)
      continue;
    const char *size = driver_size(e, extents[k]);
    text = text ? driver_format(e, "times(%s, %s)", text, size)
                : driver_format(e, "times(1, %s)", size);
  }
  return text ? text : "1";
}

/* ---- what goes wrong ---- */

uint32_t driver_code(Driver *e, Span span, const char *message) {
  const Source *source =
      span.file ? sources_get(&e->s->sources, span.file) : NULL;
  if (source && source->library) {
    span = e->t->span;
    source = sources_get(&e->s->sources, span.file);
  }
  if (source) {
    uint32_t line, column;
    source_place(source, span.start, &line, &column);
    const char *slash = strrchr(source->name, '/');
    message = driver_format(e, "%s:%u: %s", slash ? slash + 1 : source->name,
                            line, message);
  }
  for (uint32_t k = 0; k < e->m->messages.len; k++)
    if (strcmp(e->m->messages.at[k], message) == 0)
      return k + 1;
  VEC_PUSH(e->s->arena, e->m->messages,
           arena_text(e->s->arena, message, strlen(message)));
  return e->m->messages.len;
}

const char *driver_fail(Driver *e, Span span, const char *message) {
  return driver_format(e, "{ code = %u; goto done; }",
                       driver_code(e, span, message));
}

void driver_refuse(Driver *e, Span span, const char *what) {
  session_error(e->s, 613, span.file ? span : e->t->span,
                "%s cannot be built: %s", e->t->name, what);
  trap_raise(FAIL_ERROR);
}

/* ---- sizes that are too large ---- */

/* Was a product tested of which this one is a part?  Where it is, the text has
 * one test for all arrays of a shape, and what is made of them. */
static bool is_bounded(const Driver *e, const Bounded *b) {
  for (uint32_t k = 0; k < e->bounded.len; k++) {
    const Bounded *known = e->bounded.at[k];
    uint64_t used = 0;
    bool all = b->factor <= known->factor;
    for (uint32_t i = 0; all && i < b->axes; i++) {
      uint32_t j = 0;
      while (j < known->axes &&
             (used >> j & 1 || known->extents[j] != b->extents[i]))
        j++;
      all = j < known->axes;
      used |= UINT64_C(1) << (j & 63);
    }
    if (all)
      return true;
  }
  return false;
}

void driver_bound(Driver *e, uint32_t axes, const int64_t *extents,
                  size_t bytes, Span span, const char *message) {
  Bounded *b = NEW(e->arena, Bounded);
  const char *text = NULL;
  b->factor = (double)bytes;
  b->extents = NEW_ARRAY(e->arena, int64_t, axes + 1);
  for (uint32_t k = 0; k < axes; k++)
    if (!size_is_number(e->g, extents[k]))
      b->extents[b->axes++] = extents[k];
    else if (extents[k] > 1)
      b->factor *= (double)extents[k];
  if (b->axes == 0 || b->axes > 64 || is_bounded(e, b))
    return;
  text = driver_format(e, "%zu", bytes);
  for (uint32_t k = 0; k < axes; k++)
    if (extents[k] != 1)
      text = driver_format(e, "grown(%s, %s)", text,
                           driver_size(e, extents[k]));
  driver_line(e, "if (%s < 0) %s", text, driver_fail(e, span, message));
  if (!e->depth)
    VEC_PUSH(e->arena, e->bounded, b);
}

void driver_bound_array(Driver *e, Dtype dtype, uint32_t axes,
                        const int64_t *extents, Span span, const char *what) {
  driver_bound(e, axes, extents, dtype_info[dtype].bytes, span,
               driver_format(e, "%s: %s is larger than any memory",
                             e->t->name, what));
}
