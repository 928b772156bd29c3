/* Diagnostics as JSON.  doc/diagnostics.md describes it. */
#include "support/support.h"

enum { JSON_SCHEMA = 1 }; /* of the objects */

const char *severity_text(Severity severity) {
  return severity == SEV_ERROR     ? "error"
         : severity == SEV_WARNING ? "warning"
                                   : "note";
}

DiagCode diag_code(const Diag *diag) {
  DiagCode code;
  snprintf(code.text, sizeof code.text, "%c%04u",
           diag->severity == SEV_ERROR ? 'E' : 'W', diag->code);
  return code;
}

bool sources_region(const Sources *sources, Span span, SourceRegion *out) {
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  if (!source)
    return false;
  uint32_t bytes;
  *out = (SourceRegion){.source = source,
                 .column = source_column(source, span.start),
                 .end_column = source_column(source, span.end)};
  source_place(source, span.start, &out->line, &bytes);
  source_place(source, span.end, &out->end_line, &bytes);
  return true;
}

/* ---- JSON ---- */

static void put_place(Buffer *out, const Sources *sources, Span span) {
  SourceRegion at;
  if (!sources_region(sources, span, &at))
    return;
  json_open(out, "place", '{');
  json_field(out, "file", at.source->name);
  if (at.source->library) {
    json_key(out, "library");
    buffer_puts(out, "true");
  }
  json_number(out, "line", at.line);
  json_number(out, "column", at.column);
  json_number(out, "end_line", at.end_line);
  json_number(out, "end_column", at.end_column);
  json_number(out, "start", span.start);
  json_number(out, "end", span.end);
  buffer_putc(out, '}');
}

static void put_steps(Buffer *out, const Sources *sources, const Diag *diag) {
  Arena *arena = arena_new();
  json_open(out, "steps", '[');
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    json_open(out, NULL, '{');
    put_place(out, sources, step->span);
    json_field(out, "expression", source_excerpt(arena, sources, step->span));
    json_field(out, "shape", step->shape);
    json_field(out, "arithmetic", step->text);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
  arena_free(arena);
}

static void put_marks(Buffer *out, const Sources *sources, const Diag *diag) {
  json_open(out, "marks", '[');
  for (uint32_t i = 0; i < diag->mark_count; i++) {
    json_open(out, NULL, '{');
    put_place(out, sources, diag->marks[i].span);
    json_field(out, "label", diag->marks[i].label);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_fix(Buffer *out, const Sources *sources, const DiagFix *fix) {
  json_open(out, NULL, '{');
  json_field(out, "title", fix->title);
  json_open(out, "edits", '[');
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    json_open(out, NULL, '{');
    put_place(out, sources, fix->edits[i].span);
    json_field(out, "text", fix->edits[i].text);
    buffer_putc(out, '}');
  }
  buffer_puts(out, "]}");
}

void diag_json(Buffer *out, const Sources *sources, const Diag *diag) {
  json_open(out, NULL, '{');
  json_number(out, "schema", JSON_SCHEMA);
  json_field(out, "severity", severity_text(diag->severity));
  if (diag->code)
    json_field(out, "code", diag_code(diag).text);
  json_field(out, "message", diag->message);
  put_place(out, sources, diag->span);
  json_field(out, "label", diag->label);
  json_field(out, "found", diag->found);
  json_field(out, "expected", diag->expected);
  if (diag->axis >= 0)
    json_number(out, "axis", diag->axis);
  put_steps(out, sources, diag);
  put_marks(out, sources, diag);
  json_field(out, "witness", diag->witness);
  json_field(out, "note", diag->note);
  json_field(out, "help", diag->help);
  json_open(out, "fixes", '[');
  for (uint32_t i = 0; i < diag->fix_count; i++)
    put_fix(out, sources, &diag->fixes[i]);
  buffer_puts(out, "]}");
}
