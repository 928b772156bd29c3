/* C modules: functions, header and manifest. */
#include "aot/c_module.h"
#include "aot/host_code.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/c_identifier.h"
#include "support/code_indent.h"
#include "support/intern.h"
#include "support/json_writer.h"
#include "support/trap.h"

#include <string.h>

/* ---- names ---- */

/* Keywords of C and C++, and macros of their headers. */
static const char *const reserved_names[] = {"alignas",
                                             "alignof",
                                             "and",
                                             "and_eq",
                                             "asm",
                                             "auto",
                                             "bitand",
                                             "bitor",
                                             "bool",
                                             "break",
                                             "case",
                                             "catch",
                                             "char",
                                             "char16_t",
                                             "char32_t",
                                             "char8_t",
                                             "class",
                                             "co_await",
                                             "co_return",
                                             "co_yield",
                                             "code",
                                             "compl",
                                             "complex",
                                             "concept",
                                             "const",
                                             "const_cast",
                                             "consteval",
                                             "constexpr",
                                             "constinit",
                                             "continue",
                                             "decltype",
                                             "default",
                                             "delete",
                                             "do",
                                             "double",
                                             "dynamic_cast",
                                             "else",
                                             "enum",
                                             "errno",
                                             "explicit",
                                             "export",
                                             "extern",
                                             "false",
                                             "float",
                                             "for",
                                             "friend",
                                             "goto",
                                             "i386",
                                             "if",
                                             "imaginary",
                                             "inline",
                                             "int",
                                             "int32_t",
                                             "int64_t",
                                             "int8_t",
                                             "linux",
                                             "long",
                                             "mutable",
                                             "namespace",
                                             "new",
                                             "noexcept",
                                             "noreturn",
                                             "not",
                                             "not_eq",
                                             "nullptr",
                                             "operator",
                                             "or",
                                             "or_eq",
                                             "private",
                                             "protected",
                                             "public",
                                             "register",
                                             "reinterpret_cast",
                                             "requires",
                                             "restrict",
                                             "return",
                                             "short",
                                             "signed",
                                             "sizeof",
                                             "static",
                                             "static_assert",
                                             "static_cast",
                                             "struct",
                                             "switch",
                                             "template",
                                             "this",
                                             "thread_local",
                                             "throw",
                                             "true",
                                             "try",
                                             "typedef",
                                             "typeid",
                                             "typename",
                                             "typeof",
                                             "typeof_unqual",
                                             "uint16_t",
                                             "uint8_t",
                                             "union",
                                             "unix",
                                             "unsigned",
                                             "using",
                                             "virtual",
                                             "void",
                                             "volatile",
                                             "wchar_t",
                                             "while",
                                             "xor",
                                             "xor_eq"};

/* Suffixes of the functions that may be declared for an entry. */
static const char *const symbol_suffixes[] = {"", "_call", "_strided",
                                              "_strided_call"};

static const char *concat(Session *s, const char *name, const char *end) {
  return arena_printf(s->arena, "%s%s", name, end);
}

static void reserve_name(Session *s, Map *reserved, const char *name) {
  map_put(reserved, intern(s->interner, name, strlen(name)), s);
}

static bool is_name_reserved(Session *s, Map *reserved, const char *name) {
  bool is = map_get(reserved, intern(s->interner, name, strlen(name))) != NULL;
  for (size_t k = 0; k < ARRAY_LEN(reserved_names); k++)
    is |= strcmp(reserved_names[k], name) == 0;
  return is;
}

/* Makes a C identifier: "p.layer.w" becomes p_layer_w, f' becomes f_.  Appends
 * _ until the name is unique with each of these suffixes. */
static const char *unique_c_name_with_suffixes(Session *s, Map *reserved,
                                               const char *name,
                                               size_t suffix_count) {
  Buffer out = {.arena = s->arena};
  for (const char *p = name; *p; p++) {
    char c = *p;
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool ok = letter || c == '_' || (c >= '0' && c <= '9' && out.len);
    buffer_putc(&out, ok ? c : '_');
  }
  if (!out.len)
    buffer_putc(&out, '_');
  for (size_t k = 0; k < suffix_count;)
    if (is_name_reserved(s, reserved,
                         concat(s, out.text, symbol_suffixes[k]))) {
      buffer_putc(&out, '_');
      k = 0;
    } else {
      k++;
    }
  for (size_t k = 0; k < suffix_count; k++)
    reserve_name(s, reserved, concat(s, out.text, symbol_suffixes[k]));
  return out.text;
}

static const char *unique_c_name(Session *s, Map *reserved, const char *name) {
  return unique_c_name_with_suffixes(s, reserved, name, 1);
}

/* Reserves the identifiers of the runtime sources: a module may be called
 * `size`. */
static void reserve_names_of(Session *s, Map *reserved, const char *text) {
  while (*text) {
    size_t len = 0;
    while (is_c_identifier_char(text[len]))
      len++;
    if (len)
      map_put(reserved, intern(s->interner, text, len), s);
    text += len ? len : 1;
  }
}

/* Internal names of parameters are p_x, s_x and so on.  In a module called `s`,
 * they must not equal the name of the function. */
static void reserve_own_name(Session *s, Map *reserved, const char *function) {
  if (function[0] && function[1] == '_')
    reserve_name(s, reserved, function + 2);
}

/* ---- parameters ---- */

static const char **extent_exprs(HostEmitter *e, uint32_t rank,
                                 const int64_t *shape,
                                 uint32_t broadcast_mask) {
  const char **out = NEW_ARRAY(e->arena, const char *, rank + 1);
  for (uint32_t k = 0; k < rank; k++)
    out[k] = broadcast_mask >> k & 1 ? "1" : host_emit_extent_expr(e, shape[k]);
  return out;
}

static void add_size_params(HostEmitter *e, Map *reserved, CParams *params) {
  const Trace *t = e->trace;
  e->size_vars = NEW_ARRAY(e->arena, const char *, t->size_count + 1);
  for (uint32_t k = 0; k < t->size_count; k++) {
    const TraceSize *s = &t->sizes[k];
    if (!trace_size_is_param(t, k)) {
      e->size_vars[k] = host_emit_fresh_name(e, "k");
      continue;
    }
    const char *plain = unique_c_name(e->session, reserved, s->name);
    e->size_vars[k] = host_emit_format(e, "n_%s", plain);
    VEC_PUSH(e->arena, *params,
             ((CParam){.type = "int64_t ",
                       .name = e->size_vars[k],
                       .header_name = plain,
                       .stride = s->is_stride ? s : NULL}));
  }
}

static void add_arg_params(HostEmitter *e, Map *reserved, CParams *params) {
  const Trace *t = e->trace;
  e->arg_names = NEW_ARRAY(e->arena, const char *, t->arg_count + 1);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size)
      continue;
    const char *plain = unique_c_name(e->session, reserved, a->name);
    e->arg_names[k] = host_emit_format(e, "p_%s", plain);
    const char *type = host_emit_c_type(a->dtype);
    VEC_PUSH(
        e->arena, *params,
        ((CParam){
            .type = host_emit_format(e, a->rank ? "const %s *" : "%s ", type),
            .name = e->arg_names[k],
            .header_name = plain,
            .by_value = !a->rank,
            .arg_index = k,
            .dtype = a->dtype,
            .rank = a->rank,
            .extents = extent_exprs(e, a->rank, a->shape, a->broadcast_mask),
            .tensor_type = host_emit_tensor_type(e, a->dtype, a->rank, a->shape,
                                                 a->broadcast_mask)}));
  }
}

static void add_out_params(HostEmitter *e, Map *reserved, CParams *params) {
  const Trace *t = e->trace;
  e->out_names = NEW_ARRAY(e->arena, const char *, t->result_count + 1);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    const Node *n = r->node;
    const char *plain = unique_c_name(
        e->session, reserved,
        *r->name ? host_emit_format(e, "out.%s", r->name) : "out");
    e->out_names[k] = host_emit_format(e, "o_%s", plain);
    VEC_PUSH(
        e->arena, *params,
        ((CParam){
            .type = host_emit_format(e, "%s *", host_emit_c_type(n->dtype)),
            .name = e->out_names[k],
            .header_name = plain,
            .is_result = true,
            .dtype = n->dtype,
            .rank = n->rank,
            .extents = extent_exprs(e, n->rank, n->extents, n->broadcast_mask),
            .tensor_type = host_emit_tensor_type(
                e, n->dtype, n->rank, n->extents, n->broadcast_mask)}));
  }
}

/* ---- functions ---- */

static void emit_nonneg_check(HostEmitter *e, int64_t size) {
  if (extent_proved(e->graph, EXTENT_LE, 0, size))
    return;
  host_emit_line(
      e, "if (%s < 0) %s", host_emit_extent(e, size),
      host_emit_fail(e, e->trace->span,
                     host_emit_format(e, "%s: the size %s is negative",
                                      e->trace->name,
                                      extent_text(e->graph, size).text)));
}

static void emit_size_checks(HostEmitter *e) {
  const Trace *t = e->trace;
  for (uint32_t k = 0; k < t->size_count; k++) {
    const TraceSize *s = &t->sizes[k];
    if (!s->var->is_integer)
      host_emit_line(
          e, "if (%s < 0) %s", e->size_vars[k],
          host_emit_fail(e, t->span,
                         host_emit_format(e, "%s: the size %s is negative",
                                          t->name, s->name)));
  }
  for (uint32_t k = 0; k < t->arg_count; k++)
    for (uint32_t j = 0; j < t->args[k].rank; j++)
      if (!(t->args[k].broadcast_mask >> j & 1))
        emit_nonneg_check(e, t->args[k].shape[j]);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    host_emit_array_limit(e, a->dtype, a->rank, a->shape, t->span,
                          host_emit_tensor_type(e, a->dtype, a->rank, a->shape,
                                                a->broadcast_mask));
  }
}

static bool mentions(const char *text, const char *name) {
  size_t len = strlen(name);
  for (const char *p = text; (p = strstr(p, name)); p += len)
    if (!is_c_identifier_char(p[len]) &&
        (p == text || !is_c_identifier_char(p[-1])))
      return true;
  return false;
}

/* Emits the used sizes.  Returns the check that they do not overflow, which
 * precedes them. */
static const char *emit_extent_decls(HostEmitter *e, Buffer *out,
                                     const Buffer *body) {
  const char *used = body->len ? body->text : "", *text = "",
             *overflow_check = "";
  for (uint32_t k = e->extent_decls.len; k-- > 0;) {
    const ExtentDecl *s = &e->extent_decls.at[k];
    if (!mentions(used, s->name) && !mentions(text, s->name))
      continue;
    text = host_emit_format(e, "  const int64_t %s = %s;\n%s", s->name, s->expr,
                            text);
    overflow_check = host_emit_format(
        e, "%s%s%s", host_emit_overflow_check(e, s->extent),
        *overflow_check ? " &&\n        " : "", overflow_check);
  }
  if (*overflow_check)
    overflow_check = host_emit_format(
        e, "  if (!(%s))\n    return %u;\n", overflow_check,
        host_emit_error_code(
            e, e->trace->span,
            host_emit_format(e, "%s: sizes are too large for 64 bits",
                             e->trace->name)));
  buffer_printf(out, "%s%s", overflow_check, text);
  return overflow_check;
}

/* Declares the sizes that are values of arguments. */
static const char *scalar_size_decls(HostEmitter *e) {
  const Trace *t = e->trace;
  Buffer out = {.arena = e->arena};
  buffer_puts(&out, "");
  for (uint32_t k = 0; k < t->size_count; k++)
    if (!trace_size_is_param(t, k))
      buffer_printf(&out, "  const int64_t %s = %s;\n", e->size_vars[k],
                    e->arg_names[t->sizes[k].arg]);
  return out.text;
}

static const char *emit_prologue(HostEmitter *e, Buffer *out,
                                 const CParams *params, const Buffer *body) {
  const Trace *t = e->trace;
  buffer_puts(out, "  int code = 0;\n");
  if (e->is_cuda)
    buffer_printf(out,
                  "  uint32_t found[%u];\n"
                  "  Run run = no_run, *const x = &run;\n",
                  e->checking_kernels.len + 1);
  for (uint32_t k = 0; k < e->declarations.len; k++)
    buffer_printf(out, "  %s\n", e->declarations.at[k]);
  for (uint32_t k = 0; k < params->len; k++)
    buffer_printf(out, "  (void)%s;\n", params->at[k].name);
  buffer_puts(out, scalar_size_decls(e));
  const char *overflow_check = emit_extent_decls(e, out, body);
  if (!e->is_cuda && !mentions(body->len ? body->text : "", "z"))
    return overflow_check;
  buffer_printf(out, "  const int64_t z[%u] = {",
                t->size_count ? t->size_count : 1);
  for (uint32_t k = 0; k < t->size_count; k++)
    buffer_printf(out, "%s%s", k ? ", " : "", e->size_vars[k]);
  buffer_puts(out, t->size_count ? "};\n" : "0};\n");
  return overflow_check;
}

static void emit_epilogue(HostEmitter *e, Buffer *out, const Buffer *body) {
  if (mentions(body->len ? body->text : "", "goto") || e->is_cuda)
    buffer_puts(out, "done:\n");
  if (e->is_cuda)
    host_emit_cuda_epilogue(e, out);
  for (uint32_t k = 0; k < e->declarations.len; k++) {
    const char *star = strchr(e->declarations.at[k], '*');
    if (star)
      buffer_printf(
          out, "  %s\n",
          host_emit_free(e, host_emit_format(e, "%.*s",
                                             (int)strcspn(star + 1, " "),
                                             star + 1)));
  }
  buffer_puts(out, e->is_cuda ? "  return end(x, code);\n}\n"
                              : "  return code;\n}\n");
}

/* Writes text inside a comment, so that it does not end the comment. */
static void write_comment(Buffer *out, const char *text) {
  for (char last = 0; *text; last = *text++) {
    if ((last == '*' && *text == '/') || (last == '/' && *text == '*'))
      buffer_putc(out, ' ');
    buffer_putc(out, *text);
    if (*text == '\n')
      buffer_puts(out, text[1] == '\n' || !text[1] ? " *" : " * ");
  }
}

static void write_prototype(HostEmitter *e, const CParams *params) {
  Buffer *out = &e->module->header;
  buffer_printf(out, "\n/* %s : %s\n", e->trace->name, e->trace->type);
  if (e->trace->doc) {
    buffer_puts(out, " * ");
    write_comment(out, e->trace->doc);
    buffer_puts(out, "\n *\n");
  }
  for (uint32_t k = 0; k < params->len; k++)
    if (params->at[k].tensor_type)
      buffer_printf(out, " *   %s: %s\n", params->at[k].header_name,
                    params->at[k].tensor_type);
  buffer_printf(out, " */\nint %s", e->name);
  host_emit_params(out, params, false);
  buffer_printf(out,
                ";\nint %s_call(%sconst int64_t *sizes, "
                "const void *const *args, void *const *outs);\n",
                e->name, e->is_cuda ? "struct CUstream_st *stream, " : "");
}

static bool has_arrays(const CParams *params) {
  bool some = false;
  for (uint32_t k = 0; k < params->len; k++)
    some |= params->at[k].rank > 0;
  return some;
}

static void write_manifest_entry(HostEmitter *e, const CParams *params) {
  static const char *const lists[] = {"sizes", "arguments", "results"};
  Buffer *out = &e->module->manifest;
  json_open(out, NULL, '{');
  json_string_field(out, "name", e->trace->name);
  json_string_field(out, "symbol", e->name);
  if (has_arrays(params) && !e->is_cuda)
    json_string_field(out, "strided",
                      host_emit_format(e, "%s_strided", e->name));
  json_string_field(out, "type", e->trace->type);
  for (uint32_t list = 0; list < 3; list++) {
    json_open(out, lists[list], '[');
    for (uint32_t k = 0; k < params->len; k++) {
      const CParam *p = &params->at[k];
      if (p->is_stream ||
          (p->tensor_type ? p->is_result ? 2u : 1u : 0u) != list)
        continue;
      json_open(out, NULL, '{');
      json_string_field(out, "name", p->header_name);
      if (p->tensor_type)
        json_string_field(out, "dtype", dtype_info[p->dtype].name);
      json_string_field(out, "type", p->tensor_type);
      if (p->tensor_type)
        json_string_field(out, "pass",
                          p->by_value  ? "value"
                          : e->is_cuda ? "device pointer"
                                       : "pointer");
      buffer_putc(out, '}');
    }
    buffer_putc(out, ']');
  }
  json_open(out, "stored", '[');
  for (uint32_t k = 0; k < e->manifest_kernels.len; k++) {
    const ManifestKernel *note = &e->manifest_kernels.at[k];
    json_open(out, NULL, '{');
    json_string_field(out, "type", note->type);
    if (note->line)
      json_int_field(out, "line", note->line);
    if (note->versions)
      json_string_field(out, "versions", note->versions);
    buffer_putc(out, '}');
  }
  buffer_puts(out, "]}");
}

static void write_definition(HostEmitter *e, CFunction *f) {
  Buffer *out = &e->module->source;
  buffer_printf(out, "\n/* %s : %s%s */\n%sint %s", e->trace->name,
                e->trace->type,
                e->is_row_strided ? ", of strided arguments" : "",
                e->is_row_strided ? "static " : "", e->name);
  host_emit_params(out, &f->params, true);
  buffer_puts(out, " {\n");
  Buffer body = host_emit_body(e);
  f->overflow_check = emit_prologue(e, out, &f->params, &body);
  buffer_add(out, body.text ? body.text : "", body.len);
  emit_epilogue(e, out, &body);
}

static void write_function(HostEmitter *e) {
  CModule *m = e->module;
  CFunction f = {.dense_args = 0};
  CParams *params = &f.params;
  Map reserved;
  map_init(&reserved, e->arena);
  f.name = e->name = unique_c_name_with_suffixes(
      e->session, &m->reserved_names,
      host_emit_format(e, e->is_row_strided ? "%s_%s_rows" : "%s_%s", m->name,
                       e->trace->name),
      e->is_row_strided ? 1 : ARRAY_LEN(symbol_suffixes));
  reserve_own_name(e->session, &reserved, e->name);
  reserve_own_name(e->session, &reserved,
                   host_emit_format(e, "%s_rows", e->name));
  if (e->is_cuda)
    VEC_PUSH(
        e->arena, *params,
        ((CParam){.type = "struct CUstream_st *",
                  .name = "stream",
                  .header_name = unique_c_name(e->session, &reserved, "stream"),
                  .is_stream = true}));
  add_size_params(e, &reserved, params);
  add_arg_params(e, &reserved, params);
  add_out_params(e, &reserved, params);
  for (uint32_t k = 0; k < params->len; k++)
    if (params->at[k].rank)
      params->at[k].strides_name = unique_c_name(
          e->session, &reserved,
          host_emit_format(e, "%s_strides", params->at[k].header_name));
  f.scalar_size_decls = scalar_size_decls(e);
  emit_size_checks(e);
  host_emit_function(e);
  f.dense_args = e->dense_args;
  write_definition(e, &f);
  *(e->is_row_strided ? &m->row_strided_function : &m->dense_function) = f;
  if (e->is_row_strided)
    return;
  host_emit_array_wrapper(&m->source, e->name, params, false);
  write_prototype(e, params);
  write_manifest_entry(e, params);
  if (m->target == BUILD_EXECUTABLE)
    executable_add_command(e);
}

/* False if an operation becomes a kernel only without fusion. */
static bool add_function(CModule *m, Trace *t, bool row_strided,
                         bool with_fusion) {
  HostEmitter e = {.module = m,
                   .session = m->session,
                   .trace = t,
                   .graph = &t->graph,
                   .arena = m->session->arena};
  e.is_row_strided = row_strided;
  e.is_cuda = m->target == BUILD_CUDA;
  CModule saved = *m;
  map_init(&e.allocations, e.arena);
  map_init(&e.extent_names, e.arena);
  e.graph->fuse_mode = with_fusion ? FUSE_COST : FUSE_NONE;
  host_emit_begin(&e);
  Trap trap;
  FailKind fail = TRAP_SET(trap);
  if (fail == FAIL_NONE) {
    write_function(&e);
    trap_end(&trap);
  }
  host_emit_end(&e);
  if (fail == FAIL_ERROR && e.needs_unfused && with_fusion) {
    *m = saved;
    return false;
  }
  if (e.needs_unfused && !schedule_has_failed(e.graph))
    session_error(m->session, 613, t->span,
                  "%s cannot be built: a kernel has too many axes, too many "
                  "index divisions, or is too long",
                  t->name);
  if (fail != FAIL_NONE)
    trap_raise(fail);
  return true;
}

/* ---- module ---- */

static void begin_module(CModule *m) {
  const char *note = "Written by axon build.";
  if (m->target == BUILD_CUDA) {
    cuda_host_header(m);
    return;
  }
  buffer_printf(&m->header,
                "/* %s\n"
                " *\n"
                " * Tensors are row-major and contiguous.  Floats of 8 and 16 "
                "bits are their bits;\n"
                " * bool elements are 0 or 1.  Results must not overlap any "
                "other array.  Sizes\n"
                " * come first; the comment of each array gives its shape.  A "
                "function returns 0\n"
                " * or an error code; %s_message returns its text.  After an "
                "error, do not\n"
                " * use the results.  NAME_call is the same function with "
                "three arrays: sizes,\n"
                " * pointers to arguments, pointers to results.  NAME_strided "
                "accepts arrays\n"
                " * that are not contiguous: after each array comes an array "
                "with its stride\n"
                " * along each axis, in elements, or NULL for a contiguous "
                "array.  Strides of\n"
                " * arguments can be 0 or negative. */\n"
                "#ifndef AXON_BUILD_%s_H\n#define AXON_BUILD_%s_H\n\n"
                "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n"
                "#endif\n\nconst char *%s_message(int code);\n",
                note, m->name, m->name, m->name, m->name);
  buffer_printf(&m->manifest, "{\"module\":\"%s\",\"functions\":[", m->name);
  VEC_PUSH(m->session->arena, m->messages, "out of memory");
}

/* Characters without an escape letter become \ooo. */
static void write_c_string(Buffer *out, const char *text) {
  buffer_putc(out, '"');
  for (const char *p = text; *p; p++)
    if (*p == '"' || *p == '\\')
      buffer_printf(out, "\\%c", *p);
    else if (*p == '?' || (unsigned char)*p < ' ')
      buffer_printf(out, "\\%03o", (unsigned)(unsigned char)*p);
    else
      buffer_putc(out, *p);
  buffer_putc(out, '"');
}

/* Lists skipped functions in the header. */
static void write_omitted(CModule *m, const EntryNames *names) {
  if (!names->omitted.len)
    return;
  buffer_puts(&m->header, "\n/* Not built: the element types or ranks are not "
                          "known, or the function has\n * other effects than "
                          "computing tensors, and no --entry names it:\n");
  for (uint32_t k = 0; k < names->omitted.len; k++)
    buffer_printf(&m->header, " *   %s\n", names->omitted.at[k]);
  buffer_puts(&m->header, " */\n");
}

static void finish_module(CModule *m, BuildFiles *out) {
  Buffer *text = &m->source;
  buffer_printf(text,
                "\nconst char *%s_message(int code) {\n"
                "  static const char *const messages[] = {\n    \"success\"",
                m->name);
  buffer_putc(&m->manifest, ']');
  if (m->target == BUILD_CUDA)
    cuda_host_manifest(m);
  buffer_puts(&m->manifest, ",\"codes\":[\"success\"");
  for (uint32_t k = 0; k < m->messages.len; k++) {
    buffer_puts(text, ",\n    ");
    write_c_string(text, m->messages.at[k]);
    buffer_putc(&m->manifest, ',');
    json_quote(&m->manifest, m->messages.at[k]);
  }
  buffer_printf(text,
                "};\n  return code < 0 || code > %u ? \"no such code\" : "
                "messages[code];\n}\n",
                m->messages.len);
  buffer_puts(&m->manifest, "]}\n");
  buffer_puts(&m->header, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  if (m->target == BUILD_CUDA) {
    cuda_host_finish(m, out);
    return;
  }
  Buffer all = {.arena = m->session->arena};
  buffer_printf(&all,
                "/* Written by axon build: see %s.h.  With -DAXON_PTHREADS"
                " -pthread long\n * kernels are computed by several threads."
                " */\n"
                "#if defined AXON_PTHREADS && !defined _GNU_SOURCE\n"
                "#define _GNU_SOURCE\n#endif\n"
                "#ifdef __FAST_MATH__ /* integers are divided by way of"
                " doubles, too */\n"
                "#error \"NaN, infinities and rounding count here: compile it"
                " without -ffast-math\"\n#endif\n",
                m->name);
  if (m->target == BUILD_EXECUTABLE)
    buffer_add(&all, m->header.text, m->header.len);
  else
    buffer_printf(&all, "#include \"%s.h\"\n", m->name);
  buffer_printf(
      &all,
      "\n%s#if defined AXON_PTHREADS && defined __linux__\n"
      "#include <limits.h>\n#include <stdio.h>\n"
      "static MAYBE_UNUSED int cpu_quota_cores(const char *, const char *);\n"
      "%s#endif\n%s%s",
      host_runtime_source, cpu_quota_source, parallel_for_source,
      m->has_strided_entries ? strided_entry_source : "");
  if (m->has_fourier)
    buffer_printf(&all, "#include <dlfcn.h>\n#include <pthread.h>\n%s",
                  fourier_source);
  Buffer kernels = {.arena = m->session->arena};
  aot_module_write(&m->kernels, &kernels);
  code_indent(kernels.text ? kernels.text : "", &all);
  Buffer plain = {.arena = m->session->arena};
  buffer_puts(&plain, library_ops_source);
  buffer_add(&plain, text->text, text->len);
  if (m->has_lapack)
    buffer_printf(&all, "#define LAPACK_LINKAGE static MAYBE_UNUSED\n%s",
                  lapack_source);
  if (m->has_library_ops)
    aot_module_write_scalar(m->session->arena, &plain, &all);
  else
    buffer_add(&all, text->text, text->len);
  if (m->target == BUILD_EXECUTABLE)
    executable_write(m, &all);
  *out = (BuildFiles){.source = all,
                      .header = m->header,
                      .manifest = m->manifest,
                      .schedules = m->schedules};
}

typedef struct BuildRequest {
  const SourceInput *text;
  const char *module;
  uint32_t entry_count;
  const char *const *entries;
  BuildTarget target;
  uint32_t arch_count; /* BUILD_CUDA */
  const char *const *archs;
  BuildFiles *out;
} BuildRequest;

static SessionStatus build_entry_form(Session *s, CModule *m, const char *entry,
                                      bool row_strided, bool with_fusion,
                                      bool *ok) {
  Trace trace;
  SessionStatus status = (row_strided ? trace_function_row_strided
                                      : trace_function)(s, entry, &trace);
  if (status != SESSION_OK)
    return status;
  Trap trap;
  FailKind fail = TRAP_SET(trap);
  if (fail == FAIL_NONE) {
    *ok = add_function(m, &trace, row_strided, with_fusion);
    trap_end(&trap);
  }
  trace_free(s, &trace);
  if (fail == FAIL_ERROR)
    return SESSION_ERROR;
  if (fail != FAIL_NONE)
    trap_raise(fail);
  return SESSION_OK;
}

static SessionStatus build_form_with_fallback(Session *s, CModule *m,
                                              const char *entry,
                                              bool row_strided) {
  bool ok = true;
  SessionStatus status = build_entry_form(s, m, entry, row_strided, true, &ok);
  return ok ? status : build_entry_form(s, m, entry, row_strided, false, &ok);
}

/* True if an argument has more than one axis; others have no rows. */
static bool has_matrix_args(const CFunction *f) {
  bool some = false;
  for (uint32_t k = 0; k < f->params.len; k++)
    some |= f->params.at[k].rank > 1 && !f->params.at[k].is_result;
  return some;
}

static SessionStatus build_entry(Session *s, CModule *m, const char *entry) {
  SessionStatus status = build_form_with_fallback(s, m, entry, false);
  if (status != SESSION_OK || m->target == BUILD_EXECUTABLE ||
      m->target == BUILD_CUDA)
    return status;
  bool row_strided = has_matrix_args(&m->dense_function);
  if (row_strided)
    status = build_form_with_fallback(s, m, entry, true);
  if (status == SESSION_OK)
    strided_entry_add(m, row_strided);
  return status;
}

static void report_no_entries(Session *s, const EntryNames *names) {
  enum { SHOWN = 8 };
  Diag *diag =
      session_error(s, 610, (Span){0},
                    "no function to build: to build a function with unknown "
                    "element types or ranks, use --entry 'f : f32[n] -> _'");
  Buffer text = {.arena = s->arena};
  for (uint32_t k = 0; k < names->omitted.len && k < SHOWN; k++)
    buffer_printf(&text, "%s%s", k ? "\n" : "", names->omitted.at[k]);
  if (names->omitted.len > SHOWN)
    buffer_printf(&text, "\nand %u more", names->omitted.len - SHOWN);
  diag->note = text.text;
  if (names->omitted.len)
    diag->help =
        "--entry with only the name reports what is unknown in its type";
}

static const char *const runtime_sources[] = {
    host_runtime_source,  cpu_quota_source,   parallel_for_source,
    strided_entry_source, library_ops_source, lapack_source,
    fourier_source};

static SessionStatus build_module(Session *s, void *arg) {
  const BuildRequest *b = arg;
  SessionStatus status = session_check(s, b->text);
  EntryNames names = {.arena = s->arena};
  CModule m = {.session = s, .name = b->module, .target = b->target};
  aot_module_begin(&m.kernels, s->arena, b->target != BUILD_PORTABLE);
  m.source.arena = m.header.arena = m.manifest.arena = s->arena;
  m.schedules.arena = s->arena;
  m.command_code.arena = m.command_table.arena = s->arena;
  map_init(&m.reserved_names, s->arena);
  for (size_t k = 0; k < ARRAY_LEN(runtime_sources); k++)
    reserve_names_of(s, &m.reserved_names, runtime_sources[k]);
  reserve_name(s, &m.reserved_names, concat(s, b->module, "_message"));
  if (b->target == BUILD_CUDA) {
    reserve_name(s, &m.reserved_names, concat(s, b->module, "_driver_error"));
    reserve_names_of(s, &m.reserved_names, cuda_runtime_source);
    cuda_host_begin(&m, b->arch_count, b->archs);
  }
  if (status == SESSION_OK)
    names = trace_entry_names(s, b->entry_count, b->entries);
  if (status == SESSION_OK && !b->entry_count && b->target == BUILD_EXECUTABLE)
    status = executable_select_entry(s, &names);
  if (status == SESSION_OK && !names.names.len) {
    report_no_entries(s, &names);
    status = SESSION_ERROR;
  }
  begin_module(&m);
  for (uint32_t i = 0; status == SESSION_OK && i < names.names.len; i++)
    status = build_entry(s, &m, names.names.at[i]);
  session_discard_pending(s);
  write_omitted(&m, &names);
  if (status == SESSION_OK)
    finish_module(&m, b->out);
  return status;
}

SessionStatus build_c_module(Session *s, const SourceInput *text,
                             const char *module, uint32_t entry_count,
                             const char *const *entries, BuildTarget target,
                             BuildFiles *out) {
  BuildRequest b = {text, module, entry_count, entries, target, 0, NULL, out};
  return session_protected_call(s, build_module, &b);
}

SessionStatus build_cuda_module(Session *s, const SourceInput *text,
                                const char *module, uint32_t entry_count,
                                const char *const *entries, uint32_t arch_count,
                                const char *const *archs, BuildFiles *out) {
  BuildRequest b = {text,       module,     entry_count, entries,
                    BUILD_CUDA, arch_count, archs,       out};
  return session_protected_call(s, build_module, &b);
}
