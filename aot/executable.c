/* Functions as an executable.  Each function is a command that reads its
 * arguments, infers the sizes, and prints or saves the results.  The runtime is
 * in executable.inc. */
#include "aot/host_code.h"

#include <string.h>

static const char *kind_name(Dtype t) {
  static const char *const names[DT_COUNT] = {
#define D(id, name, bytes, class, memory, compute) [DT_##id] = #id,
#include "primitives/dtypes.def"
#undef D
  };
  return names[t];
}

/* ---- tables ---- */

/* A size that no argument determines is an additional number before the
 * arguments. */
static bool is_size_argument(const TraceSize *s) {
  return s->arg == TRACE_INACCESSIBLE;
}

static uint32_t size_argument_count(const Trace *t) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < t->size_count; k++)
    count += is_size_argument(&t->sizes[k]);
  return count;
}

static void write_leaf(Buffer *out, const char *name, const char *type,
                       Dtype dtype, uint32_t rank) {
  buffer_printf(out, "  {\"%s\", \"%s\", KIND_%s, %u},\n", name, type,
                kind_name(dtype), rank);
}

static void write_inputs(HostEmitter *e, Buffer *out) {
  const Trace *t = e->trace;
  buffer_printf(out, "\nstatic const Leaf %s_in[] = {\n", e->name);
  for (uint32_t k = 0; k < t->size_count; k++)
    if (is_size_argument(&t->sizes[k]))
      write_leaf(out, t->sizes[k].name, "a size", DT_I64, 0);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    write_leaf(out, a->name,
               a->is_size
                   ? host_emit_format(e, "the size %s",
                                      extent_text(e->graph, a->size).text)
                   : host_emit_tensor_type(e, a->dtype, a->rank, a->shape,
                                           a->broadcast_mask),
               a->dtype, a->rank);
  }
  buffer_puts(out, "  {NULL, NULL, KIND_BOOL, 0}};\n");
}

static void write_outputs(HostEmitter *e, Buffer *out) {
  const Trace *t = e->trace;
  buffer_printf(out, "static const Leaf %s_out[] = {\n", e->name);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    const Node *n = r->node;
    write_leaf(out, *r->name ? r->name : "out",
               host_emit_tensor_type(e, n->dtype, n->rank, n->extents,
                                     n->broadcast_mask),
               n->dtype, n->rank);
  }
  buffer_puts(out, "  {NULL, NULL, KIND_BOOL, 0}};\n");
}

/* ---- sizes ---- */

static const char *extent_expr(HostEmitter *e, int64_t size) {
  Buffer text = {.arena = e->arena};
  if (!extent_emit_c(e->graph, &text, size, host_emit_extent_var, e))
    host_emit_unsupported(e, e->trace->span,
                          "the formula of a size is too long");
  return text.text;
}

static void write_size(HostEmitter *e, Buffer *out, uint32_t k) {
  const TraceSize *s = &e->trace->sizes[k];
  uint32_t size_args = size_argument_count(e->trace), before = 0;
  for (uint32_t i = 0; i < k; i++)
    before += is_size_argument(&e->trace->sizes[i]);
  if (is_size_argument(s)) {
    buffer_printf(out, "  z[%u] = integer(&x[%u]);\n", k, before);
    return;
  }
  Buffer actual = {.arena = e->arena};
  if (s->axis == TRACE_SCALAR_VALUE)
    buffer_printf(&actual, "integer(&x[%u])", size_args + (uint32_t)s->arg);
  else
    buffer_printf(&actual, "x[%u].shape[%d]", size_args + (uint32_t)s->arg,
                  s->axis);
  if (s->offset == 0 && s->coef == 1)
    buffer_printf(out, "  z[%u] = %s;\n", k, actual.text);
  else
    buffer_printf(out, "  z[%u] = shown(%s, %s, %s);\n", k, actual.text,
                  extent_expr(e, s->offset), extent_expr(e, s->coef));
}

static void write_shape_checks(HostEmitter *e, Buffer *out, uint32_t k) {
  const TraceArg *a = &e->trace->args[k];
  uint32_t at = size_argument_count(e->trace) + k;
  if (a->is_size)
    buffer_printf(out, "  fits_number(&x[%u], %s, \"%s\");\n", at,
                  extent_expr(e, a->size), extent_text(e->graph, a->size).text);
  for (uint32_t j = 0; j < a->rank; j++) {
    int64_t size = a->broadcast_mask >> j & 1 ? 1 : a->shape[j];
    buffer_printf(out, "  fits(&x[%u], %u, %s, \"%s\");\n", at, j,
                  extent_expr(e, size), extent_text(e->graph, size).text);
  }
}

static void write_output_alloc(HostEmitter *e, Buffer *out, uint32_t k) {
  const Node *n = e->trace->results[k].node;
  if (n->rank == 0) {
    buffer_printf(out, "  make(&y[%u], NULL);\n", k);
    return;
  }
  buffer_printf(out, "  make(&y[%u], (const int64_t[]){", k);
  for (uint32_t j = 0; j < n->rank; j++)
    buffer_printf(out, "%s%s", j ? ", " : "",
                  n->broadcast_mask >> j & 1 ? "1"
                                             : extent_expr(e, n->extents[j]));
  buffer_puts(out, "});\n");
}

/* ---- calls ---- */

static void write_call(HostEmitter *e, Buffer *out) {
  const Trace *t = e->trace;
  uint32_t size_args = size_argument_count(t), count = 0;
  buffer_printf(out, "  return %s(", e->name);
  for (uint32_t k = 0; k < t->size_count; k++)
    if (trace_size_is_param(t, k))
      buffer_printf(out, "%sz[%u]", count++ ? ", " : "", k);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size)
      continue;
    buffer_puts(out, count++ ? ", " : "");
    if (!a->rank)
      buffer_printf(out, "*(const %s *)", host_emit_c_type(a->dtype));
    buffer_printf(out, "x[%u].data", size_args + k);
  }
  for (uint32_t k = 0; k < t->result_count; k++)
    buffer_printf(out, "%sy[%u].data", count++ ? ", " : "", k);
  buffer_puts(out, ");\n");
}

void executable_add_command(HostEmitter *e) {
  CModule *m = e->module;
  const Trace *t = e->trace;
  Buffer *out = &m->command_code;
  write_inputs(e, out);
  write_outputs(e, out);
  buffer_printf(out,
                "static int %s_run(Array *x, Array *y) {\n"
                "  int64_t z[%u] = {0};\n  (void)x, (void)y, (void)z;\n",
                e->name, t->size_count ? t->size_count : 1);
  for (uint32_t k = 0; k < t->size_count; k++)
    write_size(e, out, k);
  for (uint32_t k = 0; k < t->arg_count; k++)
    write_shape_checks(e, out, k);
  for (uint32_t k = 0; k < t->result_count; k++)
    write_output_alloc(e, out, k);
  write_call(e, out);
  buffer_puts(out, "}\n");
  buffer_printf(&m->command_table,
                "    {\"%s\", \"%s\", %s_in, %s_out, %u, %u, %s_run},\n",
                t->name, t->type, e->name, e->name,
                size_argument_count(t) + t->arg_count, t->result_count,
                e->name);
  m->command_count++;
}

/* ---- executable ---- */

/* Also true if main was skipped: then the build reports the reason. */
static bool has_main(const EntryNames *names) {
  bool found = false;
  for (uint32_t k = 0; k < names->names.len; k++)
    found |= strcmp(names->names.at[k], "main") == 0;
  for (uint32_t k = 0; k < names->omitted.len; k++)
    found |= strncmp(names->omitted.at[k], "main : ", 7) == 0;
  return found;
}

SessionStatus executable_select_entry(Session *s, EntryNames *names) {
  if (has_main(names)) {
    names->names.len = 0;
    VEC_PUSH(names->arena, names->names, "main");
    return SESSION_OK;
  }
  for (uint32_t k = 0; k < s->current_program.dec_count; k++) {
    const Dec *dec = s->current_program.decs[k];
    if (dec->kind != DEC_DO)
      continue;
    Diag *diag = session_error(s, 614, dec->span,
                               "top-level effects cannot be compiled");
    diag->help =
        "name a function, as in --entry f, or define `fun main () = ...`: the "
        "executable prints its result; `axon run` runs the whole program";
    return SESSION_ERROR;
  }
  return SESSION_OK;
}

void executable_write(const CModule *m, Buffer *out) {
  buffer_puts(out, executable_source);
  buffer_add(out, m->command_code.text, m->command_code.len);
  buffer_printf(out,
                "\nint main(int count, char **words) {\n"
                "  (void)count;\n"
                "  static const Command all[] = {\n%.*s  };\n"
                "  return run_program(all, %u, words, %s_message);\n}\n",
                (int)m->command_table.len, m->command_table.text,
                m->command_count, m->name);
}
