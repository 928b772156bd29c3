/* Names, literals and sizes in host code. */
#include "aot/host_code.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

/* size_div is floor division, as in the language; division by 0 gives 0, and a
 * requirement rejects it.  mul_or_overflow: the product, or -1 if it overflows.
 * mul_extent_or_overflow ignores extents of 0, so that the product of the
 * others is still checked. */
const char host_runtime_source[] =
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
    "#define MAYBE_UNUSED __attribute__((unused))\n"
    "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
    "#pragma GCC diagnostic ignored \"-Wpedantic\"\n"
    "#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
    "#pragma GCC diagnostic ignored \"-Wtautological-compare\"\n"
    "#else\n"
    "#define MAYBE_UNUSED\n"
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
    "static MAYBE_UNUSED int64_t size_div(int64_t x, int64_t y) {\n"
    "  return y ? x / y - (x % y != 0 && (x < 0) != (y < 0)) : 0;\n"
    "}\n"
    "static MAYBE_UNUSED double size_abs(int64_t x) {\n"
    "  return x < 0 ? -(double)x : (double)x;\n"
    "}\n"
    "static MAYBE_UNUSED int64_t size_min(int64_t x, int64_t y) {\n"
    "  return x < y ? x : y;\n"
    "}\n"
    "static MAYBE_UNUSED int64_t size_max(int64_t x, int64_t y) {\n"
    "  return x > y ? x : y;\n"
    "}\n"
    "static MAYBE_UNUSED int64_t mul_or_overflow(int64_t x, int64_t y) {\n"
    "  if (x < 0 || y <= 0 || x == 0)\n"
    "    return x < 0 ? -1 : 0;\n"
    "  return x > INT64_MAX / 16 / y ? -1 : x * y;\n"
    "}\n"
    "static MAYBE_UNUSED int64_t mul_extent_or_overflow(int64_t x, int64_t y) "
    "{\n"
    "  return x < 0 || y <= 1 ? x : mul_or_overflow(x, y);\n"
    "}\n"
    "static MAYBE_UNUSED void *allocate(int64_t count, size_t bytes, int "
    "clear) {\n"
    "  if (count < 0 || (uint64_t)count > (SIZE_MAX - 64) / bytes)\n"
    "    return NULL;\n"
    "  size_t n = (size_t)count * bytes + 64;\n"
    "  return clear ? calloc(n, 1) : malloc(n);\n"
    "}\n"
    "static MAYBE_UNUSED void copy(void *to, const void *from, int64_t count,\n"
    "                        size_t bytes) {\n"
    "  if (count > 0 && to != from)\n"
    "    memcpy(to, from, (size_t)count * bytes);\n"
    "}\n";

void host_emit_line(HostEmitter *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (uint32_t k = 0; k <= e->depth; k++)
    buffer_puts(e->statement, "  ");
  buffer_vprintf(e->statement, format, args);
  buffer_putc(e->statement, '\n');
  va_end(args);
}

const char *host_emit_format(HostEmitter *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(e->arena, format, args);
  va_end(args);
  return text;
}

const char *host_emit_fresh_name(HostEmitter *e, const char *prefix) {
  return host_emit_format(e, "%s%u", prefix, e->next_id++);
}

void host_emit_open_block(HostEmitter *e, const char *head) {
  host_emit_line(e, "%s%s{", head, *head ? " " : "");
  e->depth++;
}

void host_emit_close_block(HostEmitter *e) {
  e->depth--;
  host_emit_line(e, "}");
}

const char *host_emit_c_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
#define D(id, name, bytes, class, memory, compute) [DT_##id] = #memory,
#include "primitives/dtypes.def"
#undef D
  };
  return names[t];
}

static const char *int_literal(HostEmitter *e, int64_t x) {
  if (x == INT64_MIN)
    return "INT64_MIN";
  bool is_64bit = x > INT32_MAX || x < -INT32_MAX;
  return host_emit_format(e,
                          x < 0      ? is_64bit ? "(-INT64_C(%lld))" : "(-%lld)"
                          : is_64bit ? "INT64_C(%lld)"
                                     : "%lld",
                          (long long)(x < 0 ? -x : x));
}

const char *host_emit_literal(HostEmitter *e, Scalar x) {
  if (!dtype_is_float(x.dtype))
    return int_literal(e, x.i);
  const char *suffix = x.dtype == DT_F64 ? "" : "f";
  if (isnan(x.f))
    return "NAN";
  if (isinf(x.f))
    return x.f < 0 ? "(-INFINITY)" : "INFINITY";
  bool negative = signbit(x.f);
  double y = negative ? -x.f : x.f;
  const char *text = y == floor(y) && y < 1e6 ? host_emit_format(e, "%.1f", y)
                                              : host_emit_format(e, "%a", y);
  return host_emit_format(e, negative ? "(-%s%s)" : "%s%s", text, suffix);
}

/* ---- sizes ---- */

static uint32_t size_index_of(const HostEmitter *e, const DimVar *v) {
  for (uint32_t k = 0; k < e->trace->size_count; k++)
    if (e->trace->sizes[k].var == v)
      return k;
  return UINT32_MAX;
}

const char *host_emit_extent_var(void *driver, const DimVar *v) {
  HostEmitter *e = driver;
  uint32_t k = size_index_of(e, v);
  return k == UINT32_MAX ? "0" : host_emit_format(e, "z[%u]", k);
}

static const char *size_var_name(void *driver, const DimVar *v) {
  HostEmitter *e = driver;
  uint32_t k = size_index_of(e, v);
  return k == UINT32_MAX ? "0" : e->size_vars[k];
}

const char *host_emit_extent_expr(HostEmitter *e, int64_t x) {
  Buffer text = {.arena = e->arena};
  if (extent_is_static(e->graph, x))
    return int_literal(e, x);
  if (!extent_emit_c(e->graph, &text, x, size_var_name, e))
    host_emit_unsupported(
        e, e->trace->span,
        host_emit_format(e, "the formula of the size %s is too long",
                         extent_text(e->graph, x).text));
  return text.text;
}

const char *host_emit_overflow_check(HostEmitter *e, int64_t x) {
  Buffer magnitude = {.arena = e->arena};
  extent_emit_magnitude(e->graph, &magnitude, x, size_var_name, e);
  return host_emit_format(e, "%s <= 4e18", magnitude.text);
}

const char *host_emit_extent(HostEmitter *e, int64_t x) {
  if (extent_is_static(e->graph, x))
    return int_literal(e, x);
  const char *name = map_get(&e->extent_names, (void *)(uintptr_t)x);
  if (name)
    return name;
  const char *text = host_emit_extent_expr(e, x);
  bool is_simple = true;
  for (const char *p = text; *p; p++)
    is_simple &= *p != ' ' && *p != '(';
  name = text;
  if (!is_simple) {
    name = host_emit_fresh_name(e, "e");
    VEC_PUSH(e->arena, e->extent_decls, ((ExtentDecl){name, text, x}));
  }
  map_put(&e->extent_names, (void *)(uintptr_t)x, (void *)(uintptr_t)name);
  return name;
}

const char *host_emit_element_count(HostEmitter *e, uint32_t axes,
                                    const int64_t *extents) {
  const char *text = NULL;
  for (uint32_t k = 0; k < axes; k++) {
    if (extents[k] == 1)
      continue;
    const char *size = host_emit_extent(e, extents[k]);
    text = text ? host_emit_format(e, "mul_or_overflow(%s, %s)", text, size)
                : host_emit_format(e, "mul_or_overflow(1, %s)", size);
  }
  return text ? text : "1";
}

/* ---- errors ---- */

uint32_t host_emit_error_code(HostEmitter *e, Span span, const char *message) {
  const Source *source =
      span.file ? sources_get(&e->session->sources, span.file) : NULL;
  if (source && source->is_library) {
    span = e->trace->span;
    source = sources_get(&e->session->sources, span.file);
  }
  if (source) {
    uint32_t line, column;
    source_line_and_column(source, span.start, &line, &column);
    const char *slash = strrchr(source->name, '/');
    message = host_emit_format(e, "%s:%u: %s", slash ? slash + 1 : source->name,
                               line, message);
  }
  for (uint32_t k = 0; k < e->module->messages.len; k++)
    if (strcmp(e->module->messages.at[k], message) == 0)
      return k + 1;
  VEC_PUSH(e->session->arena, e->module->messages,
           arena_strndup(e->session->arena, message, strlen(message)));
  return e->module->messages.len;
}

const char *host_emit_fail(HostEmitter *e, Span span, const char *message) {
  return host_emit_format(e, "{ code = %u; goto done; }",
                          host_emit_error_code(e, span, message));
}

void host_emit_unsupported(HostEmitter *e, Span span, const char *what) {
  session_error(e->session, 613, span.file ? span : e->trace->span,
                "%s cannot be built: %s", e->trace->name, what);
  trap_raise(FAIL_ERROR);
}

/* ---- size limits ---- */

/* True if a checked product contains this one.  Then one check covers all
 * arrays of a shape and the results derived from them. */
static bool is_implied(const HostEmitter *e, const CheckedProduct *b) {
  for (uint32_t k = 0; k < e->checked_products.len; k++) {
    const CheckedProduct *known = e->checked_products.at[k];
    uint64_t used = 0;
    bool all = b->factor <= known->factor;
    for (uint32_t i = 0; all && i < b->extent_count; i++) {
      uint32_t j = 0;
      while (j < known->extent_count &&
             (used >> j & 1 || known->extents[j] != b->extents[i]))
        j++;
      all = j < known->extent_count;
      used |= UINT64_C(1) << (j & 63);
    }
    if (all)
      return true;
  }
  return false;
}

void host_emit_size_limit(HostEmitter *e, uint32_t axes, const int64_t *extents,
                          size_t bytes, Span span, const char *message) {
  CheckedProduct *b = NEW(e->arena, CheckedProduct);
  const char *text = NULL;
  b->factor = (double)bytes;
  b->extents = NEW_ARRAY(e->arena, int64_t, axes + 1);
  for (uint32_t k = 0; k < axes; k++)
    if (!extent_is_static(e->graph, extents[k]))
      b->extents[b->extent_count++] = extents[k];
    else if (extents[k] > 1)
      b->factor *= (double)extents[k];
  if (b->extent_count == 0 || b->extent_count > 64 || is_implied(e, b))
    return;
  text = host_emit_format(e, "%zu", bytes);
  for (uint32_t k = 0; k < axes; k++)
    if (extents[k] != 1)
      text = host_emit_format(e, "mul_extent_or_overflow(%s, %s)", text,
                              host_emit_extent(e, extents[k]));
  host_emit_line(e, "if (%s < 0) %s", text, host_emit_fail(e, span, message));
  if (!e->depth)
    VEC_PUSH(e->arena, e->checked_products, b);
}

void host_emit_array_limit(HostEmitter *e, Dtype dtype, uint32_t axes,
                           const int64_t *extents, Span span,
                           const char *what) {
  host_emit_size_limit(e, axes, extents, dtype_info[dtype].bytes, span,
                       host_emit_format(e, "%s: %s is too large for any memory",
                                        e->trace->name, what));
}

/* Emitted after the requirements: before them, sizes may be negative. */
void host_emit_result_limits(HostEmitter *e) {
  const Trace *t = e->trace;
  for (uint32_t k = 0; k < t->result_count; k++) {
    const Node *n = t->results[k].node;
    host_emit_array_limit(e, n->dtype, n->rank, n->extents, t->span,
                          host_emit_tensor_type(e, n->dtype, n->rank,
                                                n->extents, n->broadcast_mask));
  }
}

/* ---- parameters ---- */

const char *host_emit_tensor_type(HostEmitter *e, Dtype dtype, uint32_t rank,
                                  const int64_t *shape,
                                  uint32_t broadcast_mask) {
  Buffer out = {.arena = e->arena};
  buffer_puts(&out, dtype_info[dtype].name);
  for (uint32_t k = 0; k < rank; k++) {
    buffer_puts(&out, k ? ", " : "[");
    if (broadcast_mask >> k & 1)
      buffer_putc(&out, '1');
    else
      extent_print(e->graph, &out, shape[k]);
  }
  if (rank)
    buffer_putc(&out, ']');
  return out.text;
}

void host_emit_params(Buffer *out, const CParams *params, bool is_definition) {
  bool cuda = params->len && params->at[0].is_stream; /* C++ lacks restrict */
  buffer_putc(out, '(');
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    bool pointer = p->tensor_type && !p->by_value;
    buffer_printf(out, "%s%s%s%s", k ? ", " : "", p->type,
                  is_definition && pointer && !cuda ? "restrict " : "",
                  is_definition ? p->name : p->header_name);
  }
  buffer_puts(out, params->len ? ")" : "void)");
}

/* Programs that read the manifest call this wrapper. */
void host_emit_array_wrapper(Buffer *out, const char *name,
                             const CParams *params, bool is_strided) {
  uint32_t n[4] = {0};
  bool cuda = params->len && params->at[0].is_stream;
  buffer_printf(out,
                "\nint %s_call(%sconst int64_t *sizes, "
                "const void *const *args,\n    void *const *outs%s) {\n"
                "  (void)sizes, (void)args, (void)outs;\n  return %s(",
                name, cuda ? "struct CUstream_st *stream, " : "",
                is_strided ? ", const int64_t *const *strides" : "", name);
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    buffer_puts(out, k ? ",\n      " : "\n      ");
    if (cuda && p->tensor_type && !p->by_value)
      buffer_printf(out, "(%s)", p->type);
    if (p->is_stream)
      buffer_puts(out, "stream");
    else if (!p->tensor_type)
      buffer_printf(out, "sizes[%u]", n[0]++);
    else if (p->is_result)
      buffer_printf(out, "outs[%u]", n[2]++);
    else if (p->by_value)
      buffer_printf(out, "*(const %s *)args[%u]", host_emit_c_type(p->dtype),
                    n[1]++);
    else
      buffer_printf(out, "args[%u]", n[1]++);
    if (is_strided && p->tensor_type && p->rank)
      buffer_printf(out, ", strides[%u]", n[3]);
    n[3] += p->tensor_type != NULL;
  }
  buffer_puts(out, ");\n}\n");
}
