/* The parts of a GPU module that differ from a CPU module.
 *
 * Its host code is valid C and C++, because nvcc compiles it as C++:
 * declarations precede the first goto, and pointers are cast. */
#include "aot/host_code.h"
#include "support/arena_text.h"
#include "support/json_writer.h"
#include "support/trap.h"

#include <string.h>

/* Separates the two parts of the template; the module's tables are between
 * them. */
static const char template_split[] = "\n@\n";

/* ---- functions ---- */

/* Copies scalar arguments to device memory. */
void host_emit_cuda_prologue(HostEmitter *e) {
  const Trace *t = e->trace;
  host_emit_line(e, "code = begin(x, stream, found, "
                    "sizeof found / sizeof *found - 1);");
  host_emit_line(e, "if (code) goto done;");
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size || a->rank)
      continue;
    const char *type = host_emit_c_type(a->dtype), *name = e->arg_names[k];
    VEC_PUSH(e->arena, e->declarations,
             host_emit_format(e, "%s *g_%s = NULL;", type, name));
    host_emit_line(e, "if (!(g_%s = (%s *)allocate(x, 1, sizeof *g_%s, 0))) %s",
                   name, type, name,
                   host_emit_fail(e, (Span){0}, "out of memory"));
    host_emit_line(e, "copy_to_device(x, g_%s, &%s, sizeof %s);", name, name,
                   name);
  }
  host_emit_end_statement(e);
}

void host_emit_cuda_epilogue(HostEmitter *e, Buffer *out) {
  if (!e->checking_kernels.len)
    return;
  buffer_puts(out, "  if (read_check_flags(x) && !code)\n    code = ");
  for (uint32_t k = 0; k < e->checking_kernels.len; k++)
    buffer_printf(out, "found[%u] ? code%u(x, found[%u]) : ", k,
                  e->checking_kernels.at[k], k);
  buffer_puts(out, "0;\n");
}

/* ---- module ---- */

void cuda_host_begin(CModule *m, uint32_t count, const char *const *archs) {
  cuda_aot_module_begin(&m->cuda, m->session->arena, count, archs);
}

static const char *archs_text(const CModule *m) {
  Buffer out = {.arena = m->session->arena};
  for (uint32_t a = 0; a < m->cuda.arch_count; a++)
    buffer_printf(&out, "%s%s", a ? ", " : "", m->cuda.archs[a]);
  return out.text;
}

void cuda_host_header(CModule *m) {
  const char *name = m->name;
  buffer_printf(
      &m->header,
      "/* Written by axon build, for GPUs: %s.\n"
      " *\n"
      " * Pointers are GPU addresses in the current context of the calling "
      "thread.  A\n"
      " * thread without a context uses the first device.  Tensors are "
      "row-major and\n"
      " * contiguous.  Floats of 8 and 16 bits are their bits; bool elements "
      "are 0 or 1.\n"
      " * Results must not overlap any other array.  Sizes come first; the "
      "comment of\n"
      " * each array gives its shape.  A function enqueues all its work and "
      "temporary\n"
      " * memory on the stream (NULL: the default stream), and usually returns "
      "before\n"
      " * the work is done.  It waits only to check data-dependent indices "
      "and\n"
      " * divisors, and for the condition of a loop.  A function returns 0 or "
      "an error\n"
      " * code; %s_message returns its text.  After an error, do not use the\n"
      " * results.  %s_driver_error is the last CUresult of this thread that\n"
      " * was not a success.  NAME_call is the same function with three "
      "arrays: sizes,\n"
      " * pointers to arguments (numbers are in host memory), pointers to "
      "results.\n"
      " *\n"
      " * Functions need only the driver, libcuda.so.1, which the first call "
      "loads.\n"
      " * CUstream and cudaStream_t are struct CUstream_st *.  Every thread "
      "may call\n"
      " * these functions. */\n"
      "#ifndef AXON_BUILD_%s_H\n#define AXON_BUILD_%s_H\n\n"
      "#include <stdint.h>\n\nstruct CUstream_st;\n\n#ifdef __cplusplus\n"
      "extern \"C\" {\n#endif\n\nconst char *%s_message(int code);\n"
      "int %s_driver_error(void);\n",
      archs_text(m), name, name, name, name, name, name);
  buffer_printf(&m->manifest,
                "{\"module\":\"%s\",\"target\":\"cuda\",\"functions\":[", name);
  Arena *arena = m->session->arena;
  VEC_PUSH(arena, m->messages, "out of memory");
  VEC_PUSH(arena, m->messages, "no usable GPU driver (libcuda.so.1)");
  VEC_PUSH(arena, m->messages,
           arena_printf(arena,
                        "this code does not support the GPU; it supports: %s",
                        archs_text(m)));
  VEC_PUSH(
      arena, m->messages,
      arena_printf(arena, "the GPU driver failed: see %s_driver_error", name));
  VEC_PUSH(arena, m->messages,
           "sizes are too large for a GPU: more than 2^31 blocks, or rows, "
           "columns or terms of a product");
}

void cuda_host_manifest(CModule *m) {
  Buffer *out = &m->manifest;
  const CudaAotModule *c = &m->cuda;
  json_open(out, "kernels", '[');
  for (uint32_t j = 0; j < c->aot_passes.len; j++) {
    const AotPass *b = &c->aot_passes.at[j];
    json_open(out, NULL, '{');
    json_string_field(out, "name", b->name);
    json_string_field(out, "arch", c->archs[b->arch]);
    json_string_field(out, "schedule", b->schedule);
    json_int_field(out, "threads", b->block_threads);
    json_int_field(out, "shared", b->shared_bytes);
    json_string_field(out, "blocks", b->grid_blocks);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void write_constants(const CModule *m, Buffer *out) {
  for (uint32_t k = 0; k < m->constants.len; k++) {
    const ConstantArray *c = &m->constants.at[k];
    buffer_printf(out, "static const %s data%u[] = {", c->type, k);
    buffer_add(out, c->text, c->len);
  }
  buffer_puts(out, "static const Data data[] = {\n");
  for (uint32_t k = 0; k < m->constants.len; k++)
    buffer_printf(out, "{data%u, sizeof data%u},\n", k, k);
  buffer_printf(out, "{NULL, 0}};\nenum { DATA_COUNT = %u };\n",
                m->constants.len + 1);
}

static void write_symbol_table(const CModule *m, Buffer *out) {
  const CudaAotModule *c = &m->cuda;
  buffer_puts(out, "static int symbol_function(void **out, unsigned k) {\n"
                   "  static const void *const symbols[] = {\n");
  for (uint32_t j = 0; j < c->aot_passes.len; j++)
    if (!c->aot_passes.at[j].arch)
      buffer_printf(out, "      (const void *)device::%s,\n",
                    c->aot_passes.at[j].name);
  buffer_puts(out, "      NULL};\n"
                   "  return (int)cudaGetFuncBySymbol((cudaFunction_t *)out, "
                   "symbols[k]);\n}\n");
}

void cuda_host_finish(CModule *m, BuildFiles *out) {
  Arena *arena = m->session->arena;
  const char *at = strstr(cuda_runtime_source, template_split);
  *out = (BuildFiles){
      .header = m->header, .manifest = m->manifest, .schedules = m->schedules};
  out->source.arena = out->source_tail.arena = out->symbol_table.arena = arena;
  buffer_printf(&out->source,
                "/* Written by axon build: see %s.h. */\n#include \"%s.h\"\n\n",
                m->name, m->name);
  buffer_add(&out->source, cuda_runtime_source,
             (size_t)(at - cuda_runtime_source) + 1);
  cuda_aot_module_tables(&m->cuda, &out->source);
  write_constants(m, &out->source);
  buffer_puts(&out->source_tail, at + strlen(template_split));
  buffer_printf(&out->source_tail,
                "\nint %s_driver_error(void) {\n  return last_error;\n}\n\n",
                m->name);
  if (m->cuda.host_code.len)
    buffer_add(&out->source_tail, m->cuda.host_code.text,
               m->cuda.host_code.len);
  buffer_add(&out->source_tail, m->source.text, m->source.len);
  write_symbol_table(m, &out->symbol_table);
  for (uint32_t a = 0; a < m->cuda.arch_count; a++) {
    out->device_sources[a].arena = arena;
    if (!cuda_aot_module_source(&m->cuda, a, &out->device_sources[a]))
      trap_raise(FAIL_MEMORY);
  }
}
