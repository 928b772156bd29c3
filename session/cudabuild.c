/* What a module for GPUs has in place of what other modules have.
 *
 * Its host's part is plain C, and C++ too, as nvcc takes it: so declarations
 * are before the first goto, and pointers are cast. */
#include "session/driver.h"

#include <string.h>

/* Between its two parts stands what they know of the module. */
static const char middle[] = "\n@\n";

/* ---- a function ---- */

/* Numbers among its arguments become memory of the GPU. */
void driver_begin_cuda(Driver *e) {
  const Trace *t = e->t;
  driver_line(e, "code = begin(x, stream, found, "
                 "sizeof found / sizeof *found - 1);");
  driver_line(e, "if (code) goto done;");
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size || a->rank)
      continue;
    const char *type = driver_type(a->dtype), *name = e->arg_names[k];
    VEC_PUSH(e->arena, e->declared,
             driver_format(e, "%s *g_%s = NULL;", type, name));
    driver_line(e, "if (!(g_%s = (%s *)room(x, 1, sizeof *g_%s, 0))) %s", name,
                type, name, driver_fail(e, (Span){0}, "out of memory"));
    driver_line(e, "set(x, g_%s, &%s, sizeof %s);", name, name, name);
  }
  driver_end_piece(e);
}

void driver_end_cuda(Driver *e, Buffer *out) {
  if (!e->flags.len)
    return;
  buffer_puts(out, "  if (look(x) && !code)\n    code = ");
  for (uint32_t k = 0; k < e->flags.len; k++)
    buffer_printf(out, "found[%u] ? code%u(x, found[%u]) : ", k, e->flags.at[k],
                  k);
  buffer_puts(out, "0;\n");
}

/* ---- the module ---- */

void cuda_begin(BuildModule *m, uint32_t count, const char *const *archs) {
  cuda_module_begin(&m->cuda, m->s->arena, count, archs);
}

static const char *archs_text(const BuildModule *m) {
  Buffer out = {.arena = m->s->arena};
  for (uint32_t a = 0; a < m->cuda.arch_count; a++)
    buffer_printf(&out, "%s%s", a ? ", " : "", m->cuda.archs[a]);
  return out.text;
}

void cuda_header(BuildModule *m) {
  const char *name = m->name;
  buffer_printf(
      &m->header,
      "/* Written by axon build, for GPUs: %s.\n"
      " *\n"
      " * Pointers are into the memory of the GPU that is the calling thread's,"
      " or of\n"
      " * the first one where it has none yet.  Tensors are row-major and"
      " contiguous, f16\n"
      " * and bf16 as their bits, bool as 0 and 1; results must not overlap "
      "with"
      " anything.\n"
      " * Sizes come first, and each array has the shape that its comment says."
      "  All is\n"
      " * put on the stream (NULL: the default one), with the memory that it"
      " takes on the\n"
      " * way, and the function returns before it is done; but where indices or"
      " divisors\n"
      " * are data, whose checks it waits for, or a loop goes on until data "
      "says"
      " so.  It\n"
      " * gives 0, or a code of which %s_message says what it means; then the"
      " results\n"
      " * are not to be used.  %s_driver_error is the last CUresult of this"
      " thread that\n"
      " * was no success.  NAME_call is the same function on arrays of its"
      " sizes, of\n"
      " * pointers to its arguments (to numbers, which are the host's) and to"
      " its results.\n"
      " *\n"
      " * The driver alone is needed, libcuda.so.1, which is loaded at the "
      "first"
      " call.\n"
      " * CUstream and cudaStream_t are struct CUstream_st *.  Any thread may"
      " call. */\n"
      "#ifndef AXON_BUILD_%s_H\n#define AXON_BUILD_%s_H\n\n"
      "#include <stdint.h>\n\nstruct CUstream_st;\n\n#ifdef __cplusplus\n"
      "extern \"C\" {\n#endif\n\nconst char *%s_message(int code);\n"
      "int %s_driver_error(void);\n",
      archs_text(m), name, name, name, name, name, name);
  buffer_printf(&m->manifest,
                "{\"module\":\"%s\",\"target\":\"cuda\",\"functions\":[", name);
  Arena *arena = m->s->arena;
  VEC_PUSH(arena, m->messages, "out of memory");
  VEC_PUSH(arena, m->messages,
           "there is no driver for GPUs that would do (libcuda.so.1)");
  VEC_PUSH(arena, m->messages,
           arena_printf(arena, "the GPU is none that this is for: %s",
                        archs_text(m)));
  VEC_PUSH(arena, m->messages,
           arena_printf(arena,
                        "the GPU's driver failed: %s_driver_error says "
                        "how",
                        name));
  VEC_PUSH(arena, m->messages,
           "sizes are too large for a GPU: more than 2^31 blocks, or rows, "
           "columns or terms of a product");
}

void cuda_manifest(BuildModule *m) {
  Buffer *out = &m->manifest;
  const CudaModule *c = &m->cuda;
  json_open(out, "kernels", '[');
  for (uint32_t j = 0; j < c->built.len; j++) {
    const CudaBuilt *b = &c->built.at[j];
    json_open(out, NULL, '{');
    json_field(out, "name", b->name);
    json_field(out, "arch", c->archs[b->arch]);
    json_field(out, "schedule", b->schedule);
    json_number(out, "threads", b->threads);
    json_number(out, "shared", b->shared);
    json_field(out, "blocks", b->blocks);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_data(const BuildModule *m, Buffer *out) {
  for (uint32_t k = 0; k < m->constants.len; k++) {
    const Constant *c = &m->constants.at[k];
    buffer_printf(out, "static const %s data%u[] = {", c->type, k);
    buffer_add(out, c->text, c->len);
  }
  buffer_puts(out, "static const Data data[] = {\n");
  for (uint32_t k = 0; k < m->constants.len; k++)
    buffer_printf(out, "{data%u, sizeof data%u},\n", k, k);
  buffer_printf(out, "{NULL, 0}};\nenum { DATA_COUNT = %u };\n",
                m->constants.len + 1);
}

static void put_symbols(const BuildModule *m, Buffer *out) {
  const CudaModule *c = &m->cuda;
  buffer_puts(out, "static int symbol_function(void **out, unsigned k) {\n"
                   "  static const void *const symbols[] = {\n");
  for (uint32_t j = 0; j < c->built.len; j++)
    if (!c->built.at[j].arch)
      buffer_printf(out, "      (const void *)device::%s,\n",
                    c->built.at[j].name);
  buffer_puts(out, "      NULL};\n"
                   "  return (int)cudaGetFuncBySymbol((cudaFunction_t *)out, "
                   "symbols[k]);\n}\n");
}

void cuda_finish(BuildModule *m, BuildFiles *out) {
  Arena *arena = m->s->arena;
  const char *at = strstr(cuda_text, middle);
  *out = (BuildFiles){.header = m->header, .manifest = m->manifest};
  out->source.arena = out->rest.arena = out->symbols.arena = arena;
  buffer_printf(&out->source,
                "/* Written by axon build: see %s.h. */\n#include \"%s.h\"\n\n",
                m->name, m->name);
  buffer_add(&out->source, cuda_text, (size_t)(at - cuda_text) + 1);
  cuda_module_tables(&m->cuda, &out->source);
  put_data(m, &out->source);
  buffer_puts(&out->rest, at + strlen(middle));
  buffer_printf(&out->rest,
                "\nint %s_driver_error(void) {\n  return last_error;\n}\n\n",
                m->name);
  if (m->cuda.host.len)
    buffer_add(&out->rest, m->cuda.host.text, m->cuda.host.len);
  buffer_add(&out->rest, m->source.text, m->source.len);
  put_symbols(m, &out->symbols);
  for (uint32_t a = 0; a < m->cuda.arch_count; a++) {
    out->device[a].arena = arena;
    if (!cuda_module_text(&m->cuda, a, &out->device[a]))
      trap_raise(FAIL_MEMORY);
  }
}
