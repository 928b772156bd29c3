/* A module of C: its functions, header and manifest. */
#include "session/build.h"
#include "session/driver.h"

#include <string.h>

/* ---- names ---- */

/* Words of C and C++, and macros of their headers. */
static const char *const reserved[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor",
    "bool", "break", "case", "catch", "char", "char16_t", "char32_t",
    "char8_t", "class", "co_await", "co_return", "co_yield", "code",
    "compl", "complex", "concept", "const", "const_cast", "consteval",
    "constexpr", "constinit", "continue", "decltype", "default", "delete",
    "do", "double", "dynamic_cast", "else", "enum", "errno", "explicit",
    "export", "extern", "false", "float", "for", "friend", "goto", "i386",
    "if", "imaginary", "inline", "int", "int32_t", "int64_t", "int8_t",
    "linux", "long", "mutable", "namespace", "new", "noexcept", "noreturn",
    "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
    "protected", "public", "register", "reinterpret_cast", "requires",
    "restrict", "return", "short", "signed", "sizeof", "static",
    "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
    "typeof", "typeof_unqual", "uint16_t", "uint8_t", "union", "unix",
    "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while",
    "xor", "xor_eq"};

/* What may be declared of a function: itself first. */
static const char *const beside[] = {"", "_call", "_strided", "_strided_call"};

static const char *joined(Session *s, const char *name, const char *end) {
  return arena_printf(s->arena, "%s%s", name, end);
}

static void take_name(Session *s, Map *taken, const char *name) {
  map_put(taken, intern(s->interner, name, strlen(name)), s);
}

static bool is_taken(Session *s, Map *taken, const char *name) {
  bool is = map_get(taken, intern(s->interner, name, strlen(name))) != NULL;
  for (size_t k = 0; k < ARRAY_LEN(reserved); k++)
    is |= strcmp(reserved[k], name) == 0;
  return is;
}

/* "p.layer.w" is p_layer_w, f' is f_; with as many _ as it takes to be one of
 * its own, also with so many of these ends. */
static const char *c_names(Session *s, Map *taken, const char *name,
                           size_t ends) {
  Buffer out = {.arena = s->arena};
  for (const char *p = name; *p; p++) {
    char c = *p;
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool good = letter || c == '_' || (c >= '0' && c <= '9' && out.len);
    buffer_putc(&out, good ? c : '_');
  }
  if (!out.len)
    buffer_putc(&out, '_');
  for (size_t k = 0; k < ends;)
    if (is_taken(s, taken, joined(s, out.text, beside[k]))) {
      buffer_putc(&out, '_');
      k = 0;
    } else {
      k++;
    }
  for (size_t k = 0; k < ends; k++)
    take_name(s, taken, joined(s, out.text, beside[k]));
  return out.text;
}

static const char *c_name(Session *s, Map *taken, const char *name) {
  return c_names(s, taken, name, 1);
}

static bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (c >= '0' && c <= '9');
}

/* Names in the text are none for functions: a module may be called `size`. */
static void take_names(Session *s, Map *taken, const char *text) {
  while (*text) {
    size_t len = 0;
    while (in_name(text[len]))
      len++;
    if (len)
      map_put(taken, intern(s->interner, text, len), s);
    text += len ? len : 1;
  }
}

/* Parameters are p_x, s_x and so on inside: not those whose name would be the
 * function's own, where a module is called `s`. */
static void take_own(Session *s, Map *taken, const char *function) {
  if (function[0] && function[1] == '_')
    take_name(s, taken, function + 2);
}

/* ---- what a function is called with ---- */

const char *driver_shape(Driver *e, Dtype dtype, uint32_t rank,
                         const int64_t *shape, uint32_t stars) {
  Buffer out = {.arena = e->arena};
  buffer_puts(&out, dtype_info[dtype].name);
  for (uint32_t k = 0; k < rank; k++) {
    buffer_puts(&out, k ? ", " : "[");
    if (stars >> k & 1)
      buffer_putc(&out, '1');
    else
      size_put(e->g, &out, shape[k]);
  }
  if (rank)
    buffer_putc(&out, ']');
  return out.text;
}

static const char **extents_of(Driver *e, uint32_t rank, const int64_t *shape,
                               uint32_t stars) {
  const char **out = NEW_ARRAY(e->arena, const char *, rank + 1);
  for (uint32_t k = 0; k < rank; k++)
    out[k] = stars >> k & 1 ? "1" : driver_formula(e, shape[k]);
  return out;
}

static void add_size_params(Driver *e, Map *taken, CParams *params) {
  const Trace *t = e->t;
  e->size_vars = NEW_ARRAY(e->arena, const char *, t->size_count + 1);
  for (uint32_t k = 0; k < t->size_count; k++) {
    const TraceSize *s = &t->sizes[k];
    if (!trace_size_is_given(t, k)) {
      e->size_vars[k] = driver_fresh(e, "k");
      continue;
    }
    const char *plain = c_name(e->s, taken, s->name);
    e->size_vars[k] = driver_format(e, "n_%s", plain);
    VEC_PUSH(e->arena, *params,
             ((CParam){.type = "int64_t ",
                      .name = e->size_vars[k],
                      .plain = plain,
                      .stride = s->stride ? s : NULL}));
  }
}

static void add_arg_params(Driver *e, Map *taken, CParams *params) {
  const Trace *t = e->t;
  e->arg_names = NEW_ARRAY(e->arena, const char *, t->arg_count + 1);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size)
      continue;
    const char *plain = c_name(e->s, taken, a->name);
    e->arg_names[k] = driver_format(e, "p_%s", plain);
    const char *type = driver_type(a->dtype);
    VEC_PUSH(
        e->arena, *params,
        ((CParam){
            .type = driver_format(e, a->rank ? "const %s *" : "%s ", type),
            .name = e->arg_names[k],
            .plain = plain,
            .value = !a->rank,
            .arg = k,
            .dtype = a->dtype,
            .rank = a->rank,
            .extents = extents_of(e, a->rank, a->shape, a->stars),
            .what = driver_shape(e, a->dtype, a->rank, a->shape, a->stars)}));
  }
}

static void add_out_params(Driver *e, Map *taken, CParams *params) {
  const Trace *t = e->t;
  e->out_names = NEW_ARRAY(e->arena, const char *, t->result_count + 1);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    const Node *n = r->node;
    const char *plain = c_name(
        e->s, taken, *r->name ? driver_format(e, "out.%s", r->name) : "out");
    e->out_names[k] = driver_format(e, "o_%s", plain);
    VEC_PUSH(e->arena, *params,
             ((CParam){.type = driver_format(e, "%s *", driver_type(n->dtype)),
                       .name = e->out_names[k],
                       .plain = plain,
                       .result = true,
                       .dtype = n->dtype,
                       .rank = n->rank,
                       .extents = extents_of(e, n->rank, n->extents, n->stars),
                       .what = driver_shape(e, n->dtype, n->rank, n->extents,
                                          n->stars)}));
  }
}

void driver_params(Buffer *out, const CParams *params, bool definition) {
  bool cuda = params->len && params->at[0].stream; /* C++ has no restrict */
  buffer_putc(out, '(');
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    bool pointer = p->what && !p->value;
    buffer_printf(out, "%s%s%s%s", k ? ", " : "", p->type,
                  definition && pointer && !cuda ? "restrict " : "",
                  definition ? p->name : p->plain);
  }
  buffer_puts(out, params->len ? ")" : "void)");
}

/* ---- the function ---- */

static void test_size(Driver *e, int64_t size) {
  if (size_holds(e->g, SIZE_LE, 0, size))
    return;
  driver_line(
      e, "if (%s < 0) %s", driver_size(e, size),
      driver_fail(e, e->t->span,
                  driver_format(e, "%s: the size %s is negative", e->t->name,
                                size_text(e->g, size).text)));
}

static void test_sizes(Driver *e) {
  const Trace *t = e->t;
  for (uint32_t k = 0; k < t->size_count; k++) {
    const TraceSize *s = &t->sizes[k];
    if (!s->var->value)
      driver_line(e, "if (%s < 0) %s", e->size_vars[k],
                  driver_fail(e, t->span,
                              driver_format(e, "%s: the size %s is negative",
                                            t->name, s->name)));
  }
  for (uint32_t k = 0; k < t->arg_count; k++)
    for (uint32_t j = 0; j < t->args[k].rank; j++)
      if (!(t->args[k].stars >> j & 1))
        test_size(e, t->args[k].shape[j]);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    driver_bound_array(e, a->dtype, a->rank, a->shape, t->span,
                       driver_shape(e, a->dtype, a->rank, a->shape, a->stars));
  }
}

/* After what the function requires: till then they may be negative. */
void driver_bound_results(Driver *e) {
  const Trace *t = e->t;
  for (uint32_t k = 0; k < t->result_count; k++) {
    const Node *n = t->results[k].node;
    driver_bound_array(
        e, n->dtype, n->rank, n->extents, t->span,
        driver_shape(e, n->dtype, n->rank, n->extents, n->stars));
  }
}

static bool mentions(const char *text, const char *name) {
  size_t len = strlen(name);
  for (const char *p = text; (p = strstr(p, name)); p += len)
    if (!in_name(p[len]) && (p == text || !in_name(p[-1])))
      return true;
  return false;
}

/* Those that came to be used.  Gives the test that they fit, which goes before
 * them. */
static const char *put_sizes(Driver *e, Buffer *out, const Buffer *body) {
  const char *used = body->len ? body->text : "", *text = "", *fits = "";
  for (uint32_t k = e->size_lines.len; k-- > 0;) {
    const SizeLine *s = &e->size_lines.at[k];
    if (!mentions(used, s->name) && !mentions(text, s->name))
      continue;
    text = driver_format(e, "  const int64_t %s = %s;\n%s", s->name, s->text,
                         text);
    fits = driver_format(e, "%s%s%s", driver_fits(e, s->size),
                         *fits ? " &&\n        " : "", fits);
  }
  if (*fits)
    fits = driver_format(
        e, "  if (!(%s))\n    return %u;\n", fits,
        driver_code(e, e->t->span,
                    driver_format(e, "%s: sizes are too large for 64 bits",
                                  e->t->name)));
  buffer_printf(out, "%s%s", fits, text);
  return fits;
}

/* Sizes that arguments are. */
static const char *values_of(Driver *e) {
  const Trace *t = e->t;
  Buffer out = {.arena = e->arena};
  buffer_puts(&out, "");
  for (uint32_t k = 0; k < t->size_count; k++)
    if (!trace_size_is_given(t, k))
      buffer_printf(&out, "  const int64_t %s = %s;\n", e->size_vars[k],
                    e->arg_names[t->sizes[k].arg]);
  return out.text;
}

static const char *put_top(Driver *e, Buffer *out, const CParams *params,
                           const Buffer *body) {
  const Trace *t = e->t;
  buffer_puts(out, "  int code = 0;\n");
  if (e->cuda)
    buffer_printf(out,
                  "  uint32_t found[%u];\n"
                  "  Run run = no_run, *const x = &run;\n",
                  e->flags.len + 1);
  for (uint32_t k = 0; k < e->declared.len; k++)
    buffer_printf(out, "  %s\n", e->declared.at[k]);
  for (uint32_t k = 0; k < params->len; k++)
    buffer_printf(out, "  (void)%s;\n", params->at[k].name);
  buffer_puts(out, values_of(e));
  const char *fits = put_sizes(e, out, body);
  if (!e->cuda && !mentions(body->len ? body->text : "", "z"))
    return fits;
  buffer_printf(out, "  const int64_t z[%u] = {",
                t->size_count ? t->size_count : 1);
  for (uint32_t k = 0; k < t->size_count; k++)
    buffer_printf(out, "%s%s", k ? ", " : "", e->size_vars[k]);
  buffer_puts(out, t->size_count ? "};\n" : "0};\n");
  return fits;
}

static void put_end(Driver *e, Buffer *out, const Buffer *body) {
  if (mentions(body->len ? body->text : "", "goto") || e->cuda)
    buffer_puts(out, "done:\n");
  if (e->cuda)
    driver_end_cuda(e, out);
  for (uint32_t k = 0; k < e->declared.len; k++) {
    const char *star = strchr(e->declared.at[k], '*');
    if (star)
      buffer_printf(out, "  %s\n",
                    driver_free(e, driver_format(
                                       e, "%.*s", (int)strcspn(star + 1, " "),
                                       star + 1)));
  }
  buffer_puts(out, e->cuda ? "  return end(x, code);\n}\n"
                           : "  return code;\n}\n");
}

/* The same, called with arrays: what a program that reads the manifest uses. */
void driver_call(Buffer *out, const char *name, const CParams *params,
                 bool strided) {
  uint32_t n[4] = {0};
  bool cuda = params->len && params->at[0].stream;
  buffer_printf(out,
                "\nint %s_call(%sconst int64_t *sizes, "
                "const void *const *args,\n    void *const *outs%s) {\n"
                "  (void)sizes, (void)args, (void)outs;\n  return %s(",
                name, cuda ? "struct CUstream_st *stream, " : "",
                strided ? ", const int64_t *const *strides" : "", name);
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    buffer_puts(out, k ? ",\n      " : "\n      ");
    if (cuda && p->what && !p->value)
      buffer_printf(out, "(%s)", p->type);
    if (p->stream)
      buffer_puts(out, "stream");
    else if (!p->what)
      buffer_printf(out, "sizes[%u]", n[0]++);
    else if (p->result)
      buffer_printf(out, "outs[%u]", n[2]++);
    else if (p->value)
      buffer_printf(out, "*(const %s *)args[%u]", driver_type(p->dtype),
                    n[1]++);
    else
      buffer_printf(out, "args[%u]", n[1]++);
    if (strided && p->what && p->rank)
      buffer_printf(out, ", strides[%u]", n[3]);
    n[3] += p->what != NULL;
  }
  buffer_puts(out, ");\n}\n");
}

/* As part of a comment, which it must not end. */
static void put_comment(Buffer *out, const char *text) {
  for (char last = 0; *text; last = *text++) {
    if ((last == '*' && *text == '/') || (last == '/' && *text == '*'))
      buffer_putc(out, ' ');
    buffer_putc(out, *text);
    if (*text == '\n')
      buffer_puts(out, text[1] == '\n' || !text[1] ? " *" : " * ");
  }
}

static void put_header(Driver *e, const CParams *params) {
  Buffer *out = &e->m->header;
  buffer_printf(out, "\n/* %s : %s\n", e->t->name, e->t->type);
  if (e->t->doc) {
    buffer_puts(out, " * ");
    put_comment(out, e->t->doc);
    buffer_puts(out, "\n *\n");
  }
  for (uint32_t k = 0; k < params->len; k++)
    if (params->at[k].what)
      buffer_printf(out, " *   %s: %s\n", params->at[k].plain,
                    params->at[k].what);
  buffer_printf(out, " */\nint %s", e->name);
  driver_params(out, params, false);
  buffer_printf(out,
                ";\nint %s_call(%sconst int64_t *sizes, "
                "const void *const *args, void *const *outs);\n",
                e->name, e->cuda ? "struct CUstream_st *stream, " : "");
}

static bool has_arrays(const CParams *params) {
  bool some = false;
  for (uint32_t k = 0; k < params->len; k++)
    some |= params->at[k].rank > 0;
  return some;
}

static void put_manifest(Driver *e, const CParams *params) {
  static const char *const lists[] = {"sizes", "arguments", "results"};
  Buffer *out = &e->m->manifest;
  json_open(out, NULL, '{');
  json_field(out, "name", e->t->name);
  json_field(out, "symbol", e->name);
  if (has_arrays(params) && !e->cuda)
    json_field(out, "strided", driver_format(e, "%s_strided", e->name));
  json_field(out, "type", e->t->type);
  for (uint32_t list = 0; list < 3; list++) {
    json_open(out, lists[list], '[');
    for (uint32_t k = 0; k < params->len; k++) {
      const CParam *p = &params->at[k];
      if (p->stream || (p->what ? p->result ? 2u : 1u : 0u) != list)
        continue;
      json_open(out, NULL, '{');
      json_field(out, "name", p->plain);
      if (p->what)
        json_field(out, "dtype", dtype_info[p->dtype].name);
      json_field(out, "type", p->what);
      if (p->what)
        json_field(out, "pass", p->value   ? "value"
                                : e->cuda ? "device pointer"
                                          : "pointer");
      buffer_putc(out, '}');
    }
    buffer_putc(out, ']');
  }
  json_open(out, "stored", '[');
  for (uint32_t k = 0; k < e->kernels.len; k++) {
    const KernelNote *note = &e->kernels.at[k];
    json_open(out, NULL, '{');
    json_field(out, "type", note->type);
    if (note->line)
      json_number(out, "line", note->line);
    if (note->versions)
      json_field(out, "versions", note->versions);
    buffer_putc(out, '}');
  }
  buffer_puts(out, "]}");
}

static void put_function(Driver *e, CFunction *f) {
  Buffer *out = &e->m->source;
  buffer_printf(out, "\n/* %s : %s%s */\n%sint %s", e->t->name, e->t->type,
                e->rows ? ", of arguments with rows apart" : "",
                e->rows ? "static " : "", e->name);
  driver_params(out, &f->params, true);
  buffer_puts(out, " {\n");
  Buffer body = driver_body(e);
  f->fits = put_top(e, out, &f->params, &body);
  buffer_add(out, body.text ? body.text : "", body.len);
  put_end(e, out, &body);
}

static void write_function(Driver *e) {
  BuildModule *m = e->m;
  CFunction f = {.dense = 0};
  CParams *params = &f.params;
  Map taken;
  map_init(&taken, e->arena);
  f.name = e->name =
      c_names(e->s, &m->taken,
              driver_format(e, e->rows ? "%s_%s_rows" : "%s_%s", m->name,
                            e->t->name),
              e->rows ? 1 : ARRAY_LEN(beside));
  take_own(e->s, &taken, e->name);
  take_own(e->s, &taken, driver_format(e, "%s_rows", e->name));
  if (e->cuda)
    VEC_PUSH(e->arena, *params,
             ((CParam){.type = "struct CUstream_st *",
                      .name = "stream",
                      .plain = c_name(e->s, &taken, "stream"),
                      .stream = true}));
  add_size_params(e, &taken, params);
  add_arg_params(e, &taken, params);
  add_out_params(e, &taken, params);
  for (uint32_t k = 0; k < params->len; k++)
    if (params->at[k].rank)
      params->at[k].strides =
          c_name(e->s, &taken,
                 driver_format(e, "%s_strides", params->at[k].plain));
  f.values = values_of(e);
  test_sizes(e);
  driver_function(e);
  f.dense = e->dense;
  put_function(e, &f);
  *(e->rows ? &m->rows : &m->plain) = f;
  if (e->rows)
    return;
  driver_call(&m->source, e->name, params, false);
  put_header(e, params);
  put_manifest(e, params);
  if (m->target == BUILD_PROGRAM)
    program_add(e);
}

/* False: there is something in it that only without fusion is a kernel. */
static bool add_function(BuildModule *m, Trace *t, bool rows, bool fused) {
  Driver e = {.m = m, .s = m->s, .t = t, .g = &t->graph, .arena = m->s->arena};
  e.rows = rows;
  e.cuda = m->target == BUILD_CUDA;
  BuildModule before = *m;
  map_init(&e.memory, e.arena);
  map_init(&e.size_names, e.arena);
  e.g->fuse = fused ? FUSE_COST : FUSE_NONE;
  driver_begin(&e);
  Trap trap;
  FailKind fail = TRAP_SET(trap);
  if (fail == FAIL_NONE) {
    write_function(&e);
    trap_end(&trap);
  }
  driver_end(&e);
  if (fail == FAIL_ERROR && e.refused && fused) {
    *m = before;
    return false;
  }
  if (e.refused)
    session_error(m->s, 613, t->span,
                  "%s cannot be built: a body of it has "
                  "too many axes, divides them too often, or is too long",
                  t->name);
  if (fail != FAIL_NONE)
    trap_raise(fail);
  return true;
}

/* ---- the module ---- */

static void begin(BuildModule *m) {
  const char *note = "Written by axon build.";
  if (m->target == BUILD_CUDA) {
    cuda_header(m);
    return;
  }
  buffer_printf(&m->header,
                "/* %s\n"
                " *\n"
                " * Tensors are row-major and contiguous, f16 and bf16 as their"
                " bits, bool as 0\n"
                " * and 1; results must not overlap with anything.  Sizes come"
                " first, and each\n"
                " * array has the shape that its comment says.  A function"
                " gives 0, or a code of\n"
                " * which %s_message says what it means; then the results are"
                " not to be used.\n"
                " * NAME_call is the same function on arrays of its sizes, of"
                " pointers to its\n"
                " * arguments and to its results.  NAME_strided takes arrays"
                " whose elements lie\n"
                " * elsewhere: behind each stands how far apart they are along"
                " each axis, in\n"
                " * elements, 0 and less too (not of results), or NULL. */\n"
                "#ifndef AXON_BUILD_%s_H\n#define AXON_BUILD_%s_H\n\n"
                "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n"
                "#endif\n\nconst char *%s_message(int code);\n",
                note, m->name, m->name, m->name, m->name);
  buffer_printf(&m->manifest, "{\"module\":\"%s\",\"functions\":[", m->name);
  VEC_PUSH(m->s->arena, m->messages, "out of memory");
}

/* C has \ooo for what it has no letter for. */
static void put_text(Buffer *out, const char *text) {
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

/* For who looks for a function in vain. */
static void put_left_out(BuildModule *m, const EntryNames *names) {
  if (!names->left.len)
    return;
  buffer_puts(&m->header,
              "\n/* Not built, since types leave something open, or"
              " functions do more than\n * compute tensors, and no --entry"
              " names them:\n");
  for (uint32_t k = 0; k < names->left.len; k++)
    buffer_printf(&m->header, " *   %s\n", names->left.at[k]);
  buffer_puts(&m->header, " */\n");
}

static void finish(BuildModule *m, BuildFiles *out) {
  Buffer *text = &m->source;
  buffer_printf(text,
                "\nconst char *%s_message(int code) {\n"
                "  static const char *const messages[] = {\n    \"success\"",
                m->name);
  buffer_putc(&m->manifest, ']');
  if (m->target == BUILD_CUDA)
    cuda_manifest(m);
  buffer_puts(&m->manifest, ",\"codes\":[\"success\"");
  for (uint32_t k = 0; k < m->messages.len; k++) {
    buffer_puts(text, ",\n    ");
    put_text(text, m->messages.at[k]);
    buffer_putc(&m->manifest, ',');
    json_text(&m->manifest, m->messages.at[k]);
  }
  buffer_printf(text,
                "};\n  return code < 0 || code > %u ? \"no such code\" : "
                "messages[code];\n}\n",
                m->messages.len);
  buffer_puts(&m->manifest, "]}\n");
  buffer_puts(&m->header, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  if (m->target == BUILD_CUDA) {
    cuda_finish(m, out);
    return;
  }
  Buffer all = {.arena = m->s->arena};
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
  if (m->target == BUILD_PROGRAM)
    buffer_add(&all, m->header.text, m->header.len);
  else
    buffer_printf(&all, "#include \"%s.h\"\n", m->name);
  buffer_printf(&all,
                "\n%s#if defined AXON_PTHREADS && defined __linux__\n"
                "#include <limits.h>\n#include <stdio.h>\n"
                "static MAY_GO int cores_granted(const char *, const char *);\n"
                "%s#endif\n%s%s",
                driver_runtime, cores_text, work_text,
                m->strided ? strided_text : "");
  Buffer kernels = {.arena = m->s->arena};
  module_write(&m->kernels, &kernels);
  code_indent(kernels.text ? kernels.text : "", &all);
  Buffer plain = {.arena = m->s->arena};
  buffer_puts(&plain, opaque_runtime);
  buffer_add(&plain, text->text, text->len);
  if (m->opaque)
    module_write_plain(m->s->arena, &plain, &all);
  else
    buffer_add(&all, text->text, text->len);
  if (m->target == BUILD_PROGRAM)
    program_write(m, &all);
  *out = (BuildFiles){
      .source = all, .header = m->header, .manifest = m->manifest};
}

typedef struct Building {
  const SessionText *text;
  const char *module;
  uint32_t entry_count;
  const char *const *entries;
  BuildTarget target;
  uint32_t arch_count; /* BUILD_CUDA */
  const char *const *archs;
  BuildFiles *out;
} Building;

static SessionStatus try_entry(Session *s, BuildModule *m, const char *entry,
                               bool rows, bool fused, bool *good) {
  Trace trace;
  SessionStatus status = (rows ? session_trace_rows : session_trace)(s, entry,
                                                                     &trace);
  if (status != SESSION_OK)
    return status;
  Trap trap;
  FailKind fail = TRAP_SET(trap);
  if (fail == FAIL_NONE) {
    *good = add_function(m, &trace, rows, fused);
    trap_end(&trap);
  }
  trace_free(s, &trace);
  if (fail == FAIL_ERROR)
    return SESSION_ERROR;
  if (fail != FAIL_NONE)
    trap_raise(fail);
  return SESSION_OK;
}

static SessionStatus build_form(Session *s, BuildModule *m, const char *entry,
                                bool rows) {
  bool good = true;
  SessionStatus status = try_entry(s, m, entry, rows, true, &good);
  return good ? status : try_entry(s, m, entry, rows, false, &good);
}

/* Does it take arrays of more than one axis?  Others have no rows. */
static bool may_have_rows(const CFunction *f) {
  bool some = false;
  for (uint32_t k = 0; k < f->params.len; k++)
    some |= f->params.at[k].rank > 1 && !f->params.at[k].result;
  return some;
}

static SessionStatus build_entry(Session *s, BuildModule *m,
                                 const char *entry) {
  SessionStatus status = build_form(s, m, entry, false);
  if (status != SESSION_OK || m->target == BUILD_PROGRAM ||
      m->target == BUILD_CUDA)
    return status;
  bool rows = may_have_rows(&m->plain);
  if (rows)
    status = build_form(s, m, entry, true);
  if (status == SESSION_OK)
    strided_add(m, rows);
  return status;
}

static void tell_none(Session *s, const EntryNames *names) {
  enum { SHOWN = 8 };
  Diag *diag = session_error(
      s, 610, (Span){0},
      "there is no function to build: one whose type leaves something open has "
      "to be named, as in --entry 'f : f32[n] -> _'");
  Buffer text = {.arena = s->arena};
  for (uint32_t k = 0; k < names->left.len && k < SHOWN; k++)
    buffer_printf(&text, "%s%s", k ? "\n" : "", names->left.at[k]);
  if (names->left.len > SHOWN)
    buffer_printf(&text, "\nand %u more", names->left.len - SHOWN);
  diag->note = text.text;
  if (names->left.len)
    diag->help = "--entry with a name alone says what is open in it";
}

static const char *const runtime_texts[] = {
    driver_runtime, cores_text, work_text, strided_text, opaque_runtime};

static SessionStatus build(Session *s, void *arg) {
  const Building *b = arg;
  SessionStatus status = session_check(s, b->text);
  EntryNames names = {.arena = s->arena};
  BuildModule m = {.s = s, .name = b->module, .target = b->target};
  module_begin(&m.kernels, s->arena, b->target != BUILD_ANYWHERE);
  m.source.arena = m.header.arena = m.manifest.arena = s->arena;
  m.program.arena = m.commands.arena = s->arena;
  map_init(&m.taken, s->arena);
  for (size_t k = 0; k < ARRAY_LEN(runtime_texts); k++)
    take_names(s, &m.taken, runtime_texts[k]);
  take_name(s, &m.taken, joined(s, b->module, "_message"));
  if (b->target == BUILD_CUDA) {
    take_name(s, &m.taken, joined(s, b->module, "_driver_error"));
    take_names(s, &m.taken, cuda_text);
    cuda_begin(&m, b->arch_count, b->archs);
  }
  if (status == SESSION_OK)
    names = session_entries(s, b->entry_count, b->entries);
  if (status == SESSION_OK && !b->entry_count && b->target == BUILD_PROGRAM)
    status = program_entry(s, &names);
  if (status == SESSION_OK && !names.at.len) {
    tell_none(s, &names);
    status = SESSION_ERROR;
  }
  begin(&m);
  for (uint32_t i = 0; status == SESSION_OK && i < names.at.len; i++)
    status = build_entry(s, &m, names.at.at[i]);
  session_drop_waiting(s);
  put_left_out(&m, &names);
  if (status == SESSION_OK)
    finish(&m, b->out);
  return status;
}

SessionStatus session_build(Session *s, const SessionText *text,
                            const char *module, uint32_t entry_count,
                            const char *const *entries, BuildTarget target,
                            BuildFiles *out) {
  Building b = {text, module, entry_count, entries, target, 0, NULL, out};
  return session_guard(s, build, &b);
}

SessionStatus session_build_cuda(Session *s, const SessionText *text,
                                 const char *module, uint32_t entry_count,
                                 const char *const *entries,
                                 uint32_t arch_count, const char *const *archs,
                                 BuildFiles *out) {
  Building b = {text,       module,     entry_count, entries,
                BUILD_CUDA, arch_count, archs,       out};
  return session_guard(s, build, &b);
}
