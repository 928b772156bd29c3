/* Variants of functions that take strides.  Arrays of callers often have
 * contiguous rows: slices of larger arrays, or broadcast arrays.  Kernels read
 * these in place.  Other arrays are copied (strided_entry.inc), because
 * element-wise reads of a transposed array take longer. */
#include "aot/host_code.h"

#include <string.h>

static bool is_view(const CParam *p) {
  return p->rank > 0;
}

/* Each array has a parameter "const int64_t *x_strides". */
static void write_params(Buffer *out, const CParams *params,
                         bool is_definition) {
  buffer_putc(out, '(');
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    buffer_printf(out, "%s%s%s", k ? ", " : "", p->type,
                  is_definition ? p->name : p->header_name);
    if (is_view(p))
      buffer_printf(out, ", const int64_t *%s%s", is_definition ? "s_" : "",
                    is_definition ? p->header_name : p->strides_name);
  }
  buffer_putc(out, ')');
}

static void write_view(Buffer *out, const CFunction *row_strided,
                       const CParam *p) {
  uint32_t bit = p->arg_index < 63 ? p->arg_index : 63;
  bool is_dense =
      p->is_result || !row_strided || row_strided->dense_args >> bit & 1;
  buffer_printf(out, "    {%s%s, ", p->is_result ? ".to = " : "", p->name);
  buffer_printf(out, ".strides = s_%s,\n     .shape = (const int64_t[]){",
                p->header_name);
  for (uint32_t k = 0; k < p->rank; k++)
    buffer_printf(out, "%s%s", k ? ", " : "", p->extents[k]);
  buffer_printf(
      out,
      "},\n     .strides_used = (int64_t[%u]){0}, .bytes = sizeof *%s, "
      ".axes = %u, .dense = %d},\n",
      p->rank, p->name, p->rank, is_dense);
}

/* The index of the view of an argument. */
static uint32_t view_index(const CParams *params, uint32_t arg) {
  uint32_t at = 0;
  for (uint32_t k = 0; k < params->len; k++) {
    const CParam *p = &params->at[k];
    if (is_view(p) && !p->is_result && p->arg_index == arg)
      return at;
    at += is_view(p);
  }
  return at;
}

static void write_call(Buffer *out, const CFunction *dense_function,
                       const CFunction *f) {
  uint32_t view = 0;
  buffer_printf(out, "%s(", f->name);
  for (uint32_t k = 0; k < f->params.len; k++) {
    const CParam *p = &f->params.at[k];
    buffer_puts(out, k ? ", " : "");
    if (p->stride)
      buffer_printf(
          out, "v[%u].strides_used[%d]",
          view_index(&dense_function->params, (uint32_t)p->stride->arg),
          p->stride->axis);
    else if (!is_view(p))
      buffer_puts(out, p->name);
    else if (p->is_result)
      buffer_printf(out, "view_result(&v[%u])", view++);
    else
      buffer_printf(out, "v[%u].from", view++);
  }
  buffer_puts(out, ");\n");
}

void strided_entry_add(CModule *m, bool has_rows) {
  const CFunction *f = &m->dense_function,
                  *row_strided = has_rows ? &m->row_strided_function : NULL;
  uint32_t views = 0, args = 0;
  for (uint32_t k = 0; k < f->params.len; k++) {
    views += is_view(&f->params.at[k]);
    args += is_view(&f->params.at[k]) && !f->params.at[k].is_result;
  }
  if (!views)
    return;
  m->has_strided_entries = true;
  Buffer *out = &m->source;
  buffer_printf(out, "\nint %s_strided", f->name);
  write_params(out, &f->params, true);
  buffer_printf(out, " {\n%s%s  View v[] = {\n", f->scalar_size_decls,
                f->overflow_check);
  for (uint32_t k = 0; k < f->params.len; k++)
    if (is_view(&f->params.at[k]))
      write_view(out, row_strided, &f->params.at[k]);
  buffer_printf(out, "  };\n  int code = 1, rows = views_begin(v, %u, %u);\n",
                args, views);
  if (row_strided) {
    buffer_puts(out, "  if (rows > 0)\n    code = ");
    write_call(out, f, row_strided);
    buffer_puts(out, "  else ");
  } else {
    buffer_puts(out, "  ");
  }
  buffer_puts(out, "if (rows == 0)\n    code = ");
  write_call(out, f, f);
  buffer_printf(out, "  return views_end(v, %u, %u, code);\n}\n", args, views);
  Buffer name = {.arena = m->session->arena};
  buffer_printf(&name, "%s_strided", f->name);
  host_emit_array_wrapper(out, name.text, &f->params, true);
  buffer_printf(&m->header, "int %s_strided", f->name);
  write_params(&m->header, &f->params, false);
  buffer_printf(&m->header,
                ";\nint %s_strided_call(const int64_t *sizes, const void "
                "*const *args, void *const *outs, const int64_t *const "
                "*strides);\n",
                f->name);
}
