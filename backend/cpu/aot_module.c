/* Kernels for several ISAs in one C source. */
#include "backend/cpu/aot_module.h"
#include "backend/cpu/multiversion.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/schedule_make.h"
#include "backend/emit/prelude.h"
#include "machine/limits/cpu.h"

#include <string.h>

/* Placeholder for a kernel's number, until the source is known to be new. */
#define NUMBER_PLACEHOLDER "\1"

typedef struct IsaTarget {
  uint32_t vector_bytes; /* bytes of a vector register */
  const char *condition;
} IsaTarget;

static const IsaTarget isa_targets[AOT_ISA_COUNT] = {
    {64, "#if defined __AVX512F__ && defined __AVX512DQ__ && \\\n"
         "    defined __AVX512BW__ && defined __AVX512VL__ && defined __FMA__ "
         "&& \\\n    !defined AXON_PORTABLE\n"},
    {32, "#elif defined __AVX2__ && !defined AXON_PORTABLE\n"},
    {16, "#elif defined __GNUC__ && !defined AXON_PORTABLE\n"},
    {4, "#else\n"},
};

/* ---- calls ---- */

typedef struct EntryWriter {
  const AotCaller *caller;
  Graph *graph;
  Buffer *out;
  const KernelVersion *version; /* whose extent aliases are u3 and so on */
  bool failed;
} EntryWriter;

static const char *emit_extent_var(void *context, const DimVar *var) {
  const EntryWriter *writer = context;
  int64_t value;
  for (uint32_t k = writer->version->alias_begin;
       k < writer->version->alias_end; k++)
    if (extent_table_alias_at(writer->graph->extent_table, k, &value) == var)
      return arena_printf(writer->version->kernel->arena, "u%u", k);
  return writer->caller->emit_size(writer->caller->context, var);
}

static void emit_extent(EntryWriter *writer, int64_t x) {
  writer->failed |=
      !extent_emit_c(writer->graph, writer->out, x, emit_extent_var, writer);
}

static void emit_aliases(EntryWriter *writer) {
  for (uint32_t k = writer->version->alias_begin;
       k < writer->version->alias_end; k++) {
    int64_t value;
    extent_table_alias_at(writer->graph->extent_table, k, &value);
    buffer_printf(writer->out, "const int64_t u%u = ", k);
    emit_extent(writer, value);
    buffer_printf(writer->out, ";\n(void)u%u;\n", k);
  }
}

static void emit_int_args(EntryWriter *writer, const Call *call) {
  buffer_printf(writer->out, "const int64_t n[%u] = {",
                call->ints.len ? call->ints.len : 1);
  for (uint32_t j = 0; j < call->ints.len; j++) {
    buffer_puts(writer->out, j ? ",\n" : "");
    emit_extent(writer, call->ints.at[j]);
  }
  buffer_puts(writer->out, call->ints.len ? "};\n" : "0};\n");
}

static void emit_float_args(EntryWriter *writer, const Call *call) {
  buffer_printf(writer->out, "const double c[%u] = {",
                call->floats.len ? call->floats.len : 1);
  for (uint32_t j = 0; j < call->floats.len; j++) {
    buffer_puts(writer->out, j ? ", " : "");
    emit_float_literal(writer->out, call->floats.at[j]);
  }
  buffer_puts(writer->out, call->floats.len ? "};\n" : "0};\n");
}

static uint32_t result_index(const NodeList *results, const Node *n) {
  uint32_t k = 0;
  while (results->at[k] != n)
    k++;
  return k;
}

/* first: replaces the first pointer, or NULL */
static void emit_pointer_args(EntryWriter *writer, const Kernel *k,
                              const Call *call, const NodeList *results,
                              const char *first) {
  buffer_puts(writer->out, "void *const p[] = {");
  for (uint32_t j = 0; j < call->outputs.len; j++)
    if (first)
      buffer_puts(writer->out, first);
    else
      buffer_printf(writer->out, "%sq[%u]", j ? ", " : "",
                    result_index(results, call->outputs.at[j]->node));
  for (uint32_t j = 0; j < k->inputs.len; j++)
    buffer_printf(writer->out, ", q[%u]", results->len + j);
  buffer_puts(writer->out, "};\n");
}

/* Estimates the time of the kernel's matmuls in nanoseconds.  Other kernels
 * have no estimate, since their operations differ too much. */
static void emit_estimated_ns(EntryWriter *writer, const Kernel *k,
                              const Schedule *s) {
  uint32_t count = 0;
  for (uint32_t j = 0; s->gemm_tilings && j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (!s->gemm_tilings->by_loop[j].is_gemm)
      continue;
    buffer_puts(writer->out, count++ ? " + (" : "(");
    for (uint32_t v = 0; v < loop->axis_count; v++) {
      buffer_printf(writer->out, "%s(", v ? " * " : "");
      emit_extent(writer, loop->extents[v]);
      buffer_puts(writer->out, " + 0.0)");
    }
    buffer_printf(writer->out, ") / %u", TERMS_PER_LANE_NS * s->width);
  }
  buffer_puts(writer->out, count ? "" : "0");
}

static void emit_parallel_call(EntryWriter *writer, const Kernel *k,
                               const Schedule *s, const CpuKernel *kernel,
                               const char *function) {
  buffer_printf(writer->out, "%s, p, n, c, ", function);
  emit_extent(writer, kernel->tasks);
  buffer_puts(writer->out, ", ");
  emit_extent(writer, kernel->code.call.scratch_bytes);
  buffer_puts(writer->out, ", ");
  emit_estimated_ns(writer, k, s);
  buffer_puts(writer->out, ");\n");
}

/* Computes the partial results of all chunks, then combines them. */
static void emit_partial_reductions(EntryWriter *writer, const Kernel *k,
                                    const Schedule *s, const CpuKernel *kernel,
                                    const NodeList *results, uint32_t number) {
  const Node *n = kernel->code.call.outputs.at[0]->node;
  int64_t count = 0;
  writer->failed |= !extent_product(writer->graph, n->free_count + n->rank,
                                    n->extents, &count);
  buffer_puts(writer->out, "const int64_t count = ");
  emit_extent(writer, count);
  buffer_puts(writer->out, ", chunks = ");
  emit_extent(writer, kernel->reduction_chunks);
  buffer_printf(writer->out,
                ";\nvoid *const partials = allocate(mul_or_overflow(count, "
                "chunks), %u, 0);\n"
                "if (!partials)\nreturn 1;\n",
                (unsigned)dtype_info[kernel->accumulator_dtype].bytes
                    << kernel->is_arg_reduction);
  emit_pointer_args(writer, k, &kernel->code.call, results, "partials");
  buffer_puts(writer->out, "int status = ");
  Buffer name = {.arena = k->arena};
  buffer_printf(&name, "parallel_for(kernel%u", number);
  emit_parallel_call(writer, k, s, kernel, name.text);
  buffer_printf(writer->out,
                "if (!status) {\nvoid *const f[] = {q[0], partials};\n"
                "const int64_t sums[] = {chunks, ");
  emit_extent(writer, count);
  buffer_printf(
      writer->out,
      "};\nstatus = parallel_for(fold%u, f, sums, c, count, 0, 0);\n}\n"
      "free(partials);\n",
      number);
}

static void emit_entry(EntryWriter *writer, const NodeList *results,
                       const char *name, uint32_t number) {
  const Kernel *k = writer->version->kernel;
  const Schedule *s = &writer->version->schedule;
  const CpuKernel *kernel = &writer->version->emitted;
  const Call *call = &kernel->code.call;
  buffer_printf(writer->out,
                "static int %s(const int64_t *z, void *const *q) {\n"
                "(void)z;\n",
                name);
  emit_aliases(writer);
  emit_int_args(writer, call);
  emit_float_args(writer, call);
  if (s->reduction_chunk) {
    emit_partial_reductions(writer, k, s, kernel, results, number);
  } else {
    emit_pointer_args(writer, k, call, results, NULL);
    Buffer call_code = {.arena = k->arena};
    buffer_printf(&call_code, "const int status = parallel_for(kernel%u",
                  number);
    emit_parallel_call(writer, k, s, kernel, call_code.text);
  }
  buffer_puts(writer->out, "return status < 0 ? 1\n");
  for (uint32_t j = 0; j < call->checks.len; j++)
    buffer_printf(writer->out, ": status & %u ? %u\n", 1u << j,
                  writer->caller->error_code(writer->caller->context,
                                             call->checks.at[j]));
  buffer_puts(writer->out, ": 0;\n}\n");
}

/* ---- module ---- */

static void append_numbered(Buffer *out, const Buffer *text, uint32_t number) {
  const char *p = text->len ? text->text : "", *end = p + text->len;
  while (p < end) {
    const char *placeholder = memchr(p, *NUMBER_PLACEHOLDER, (size_t)(end - p));
    buffer_add(out, p, (size_t)((placeholder ? placeholder : end) - p));
    if (placeholder)
      buffer_printf(out, "%u", number);
    p = placeholder ? placeholder + 1 : end;
  }
}

/* Returns the number of the kernel with this source, and adds it if it is new.
 * Kernels that differ only in sizes share one, since sizes are parameters. */
static uint32_t add_source(AotModule *m, Buffer *part, const Buffer *text) {
  for (uint32_t k = 0; k < m->sources.len; k++) {
    const AotKernelSource *t = &m->sources.at[k];
    if (t->section == part && t->len == text->len &&
        memcmp(t->source, text->text, t->len) == 0)
      return t->number;
  }
  uint32_t number = m->sources.len + 1;
  append_numbered(part, text, number);
  VEC_PUSH(m->arena, m->sources,
           ((AotKernelSource){part, text->text, text->len, number}));
  return number;
}

/* Rows with non-temporal stores must be long, too. */
static void
emit_nontemporal_condition(EntryWriter *writer, const KernelVersion *x,
                           const char *(*name)(void *, const DimVar *)) {
  const Schedule *s = &x->schedule;
  for (uint32_t j = 0; x->min_points > 0 && j < x->kernel->loops.len; j++) {
    const LoopNest *loop = x->kernel->loops.at[j];
    uint32_t vector_axis = s->vector_axes[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      if (!r->global_index ||
          !schedule_is_nontemporal_along(s, loop, r, vector_axis) ||
          extent_is_static(writer->graph, loop->extents[vector_axis]))
        continue;
      buffer_puts(writer->out, " && (");
      writer->failed |=
          !extent_emit_c(writer->graph, writer->out, loop->extents[vector_axis],
                         name, writer->caller->context);
      buffer_printf(writer->out, ") >= %d",
                    MIN_NONTEMPORAL_ROW_BYTES /
                        (int)dtype_info[r->dtype].bytes);
    }
  }
}

/* Declares index_32bit: all index values fit in 31 bits. */
static void emit_index_32bit_test(EntryWriter *writer,
                                  const KernelVersions *v) {
  buffer_puts(writer->out, "const int index_32bit = ");
  for (uint32_t j = 0; j < v->index_minima.len + v->index_maxima.len; j++) {
    bool low = j < v->index_minima.len;
    buffer_puts(writer->out, j ? " &&\n" : "");
    emit_extent(writer, low ? v->index_minima.at[j]
                            : v->index_maxima.at[j - v->index_minima.len]);
    buffer_puts(writer->out, low ? " >= -1073741824" : " <= 1073741823");
  }
  buffer_puts(writer->out, ";\n");
}

/* Writes the condition of a version.  Returns the number of its parts. */
static uint32_t
emit_version_condition(EntryWriter *writer, const KernelVersions *v,
                       const KernelVersion *x,
                       const char *(*name)(void *, const DimVar *)) {
  uint32_t count = 0;
  const LoopNest *loop = x->kernel->loops.at[0];
  for (uint32_t j = 0; x->min_points > 0 && j < loop->axis_count; j++) {
    buffer_puts(writer->out, count++ ? " * (" : "(");
    writer->failed |=
        !extent_emit_c(writer->graph, writer->out, loop->extents[j], name,
                       writer->caller->context);
    buffer_puts(writer->out, " + 0.0)");
  }
  if (x->min_points > 0)
    buffer_printf(writer->out, "%s >= %.0f", count++ ? "" : "1", x->min_points);
  emit_nontemporal_condition(writer, x, name);
  if (x->index_32bit)
    buffer_puts(writer->out, count++ ? " && index_32bit" : "index_32bit");
  for (uint32_t j = 0; x->max_value && j < v->var_count; j++)
    if ((x->var_set & ~x->row_set) >> j & 1)
      buffer_printf(writer->out, "%s%s <= %lld", count++ ? " && " : "",
                    name(writer->caller->context, v->vars[j]),
                    (long long)x->max_value);
  for (uint32_t j = 0; x->row_set && j < v->var_count; j++)
    if (x->row_set >> j & 1)
      buffer_printf(writer->out, "%s%s <= %lld", count++ ? " && " : "",
                    name(writer->caller->context, v->vars[j]),
                    (long long)x->max_row);
  for (uint32_t j = 0; x->min_value && j < v->var_count; j++)
    if (x->var_set >> j & 1)
      buffer_printf(writer->out, "%s%s >= %lld", count++ ? " && " : "",
                    name(writer->caller->context, v->vars[j]),
                    (long long)x->min_value);
  return count;
}

/* Writes the limit of the scratch memory. */
static void emit_scratch_condition(EntryWriter *writer) {
  buffer_puts(writer->out, "(");
  emit_extent(writer, writer->version->emitted.code.call.scratch_bytes);
  buffer_printf(writer->out, ") <= %d", MAX_WINDOW_SCRATCH_BYTES);
}

/* For example "n <= 1; m <= 24; others". */
static const char *summarize_versions(EntryWriter *writer,
                                      const KernelVersions *v) {
  Buffer text = {.arena = v->versions[0].kernel->arena};
  EntryWriter to = *writer;
  to.out = &text;
  buffer_puts(&text, "");
  for (uint32_t j = 0; j + 1 < v->count; j++) {
    uint32_t parts = emit_version_condition(&to, v, &v->versions[j],
                                            writer->caller->display_name);
    if (v->versions[j].window)
      buffer_printf(&text, "%sa window that a cache holds",
                    parts ? " && " : "");
    buffer_puts(&text, "; ");
  }
  buffer_puts(&text, "others");
  return text.text;
}

static void emit_dispatcher(EntryWriter *writer, const KernelVersions *v,
                            const uint32_t *parts) {
  buffer_puts(writer->out, "static int run" NUMBER_PLACEHOLDER
                           "(const int64_t *z, void *const *q) {\n");
  writer->version = &v->versions[0];
  if (v->versions[0].index_32bit)
    emit_index_32bit_test(writer, v);
  for (uint32_t j = 0; j < v->count; j++) {
    writer->version = &v->versions[j];
    if (v->versions[j].window)
      emit_aliases(writer);
    if (j + 1 < v->count) {
      buffer_puts(writer->out, "if (");
      uint32_t count = emit_version_condition(writer, v, &v->versions[j],
                                              writer->caller->emit_size);
      if (v->versions[j].window) {
        buffer_puts(writer->out, count ? " && " : "");
        emit_scratch_condition(writer);
      }
      buffer_puts(writer->out, ")\n");
    }
    buffer_printf(writer->out, "return part%u(z, q);\n", parts[j]);
  }
  buffer_puts(writer->out, "}\n");
}

static bool add_for_isa(AotModule *m, const FusionGroup *c,
                        const AotCaller *caller, const NodeList *results,
                        uint32_t isa, Buffer *run) {
  const Kernel *k = c->kernel;
  KernelVersions v;
  uint32_t bytes = isa_targets[isa].vector_bytes, parts[MAX_VERSIONS];
  EntryWriter writer = {.caller = caller, .graph = k->graph};
  if (!multiversion_emit(c, bytes, m->only_isa >= 0, NUMBER_PLACEHOLDER, &v))
    return false;
  for (uint32_t j = 0; j < v.count; j++) {
    const KernelVersion *x = &v.versions[j];
    Buffer *out = &m->kernels[isa][bytes > 4 && x->schedule.width * 4 < bytes];
    uint32_t number = add_source(m, out, &x->emitted.code.source);
    Buffer part = {.arena = k->arena};
    writer.out = v.count > 1 ? &part : run;
    writer.version = x;
    emit_entry(&writer, results,
               v.count > 1 ? "part" NUMBER_PLACEHOLDER
                           : "run" NUMBER_PLACEHOLDER,
               number);
    parts[j] = v.count > 1 ? add_source(m, out, &part) : 0;
  }
  writer.out = run;
  if (v.count > 1)
    emit_dispatcher(&writer, &v, parts);
  if (bytes == cpu_vector_bytes())
    m->schedule = schedule_entry(m->arena, c, v.versions[v.count - 1].kernel,
                                 &v.versions[v.count - 1].schedule);
  if (!m->version_summary)
    m->version_summary = summarize_versions(&writer, &v);
  return !writer.failed;
}

/* Returns the number of the entry. */
static uint32_t add_entry(AotModule *m, const AotEntry *run) {
  for (uint32_t k = 0; k < m->entries.len; k++) {
    bool same = true;
    for (uint32_t t = 0; t < AOT_ISA_COUNT; t++)
      same &= buffer_equal(&m->entries.at[k].by_isa[t], &run->by_isa[t]);
    if (same)
      return k + 1;
  }
  VEC_PUSH(m->arena, m->entries, *run);
  for (uint32_t t = 0; t < AOT_ISA_COUNT; t++)
    append_numbered(&m->dispatchers[t], &run->by_isa[t], m->entries.len);
  return m->entries.len;
}

void aot_module_begin(AotModule *m, Arena *arena, bool native_only) {
  *m = (AotModule){.arena = arena, .only_isa = -1};
  for (int t = 0; t < AOT_ISA_COUNT; t++) {
    m->kernels[t][0].arena = m->kernels[t][1].arena = arena;
    m->dispatchers[t].arena = arena;
    if (native_only && isa_targets[t].vector_bytes == cpu_vector_bytes())
      m->only_isa = t;
  }
}

static bool targets_isa(const AotModule *m, uint32_t isa) {
  return m->only_isa < 0 || (uint32_t)m->only_isa == isa;
}

uint32_t aot_module_add(AotModule *m, const FusionGroup *c,
                        const AotCaller *caller, NodeList *results) {
  const Kernel *k = c->kernel;
  AotEntry run;
  *results = (NodeList){0};
  m->schedule = m->version_summary = NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++)
      if (k->loops.at[j]->outputs.at[i].global_index)
        VEC_PUSH(k->arena, *results, k->loops.at[j]->outputs.at[i].node);
  for (uint32_t t = 0; t < AOT_ISA_COUNT; t++) {
    run.by_isa[t] = (Buffer){.arena = m->arena};
    if (targets_isa(m, t) &&
        !add_for_isa(m, c, caller, results, t, &run.by_isa[t]))
      return UINT32_MAX;
  }
  return add_entry(m, &run);
}

void aot_module_write(const AotModule *m, Buffer *out) {
  if (!m->entries.len)
    return;
  for (uint32_t t = 0; t < AOT_ISA_COUNT; t++) {
    if (!targets_isa(m, t))
      continue;
    buffer_printf(out, "\n%s", m->only_isa < 0 ? isa_targets[t].condition : "");
    for (uint32_t wide = 0; wide < 2; wide++) {
      const Buffer *text = &m->kernels[t][wide];
      uint32_t width = isa_targets[t].vector_bytes / (wide ? 8 : 4);
      char suffix[16];
      snprintf(suffix, sizeof suffix, "_%u", width);
      if (text->len)
        prelude_wrap(m->arena, cpu_prelude(width), width, text, suffix, out);
    }
    if (m->dispatchers[t].len)
      buffer_add(out, m->dispatchers[t].text, m->dispatchers[t].len);
  }
  if (m->only_isa < 0)
    buffer_puts(out, "#endif\n");
}

void aot_module_write_scalar(Arena *arena, const Buffer *text, Buffer *out) {
  prelude_wrap(arena, scalar_prelude_text, 1, text, "_plain", out);
}
