/* Writes diagnostics as JSON, as doc/diagnostics.md describes.  Main entry
   point: diag_json. */
#include "support/arena.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/diag_render.h"
#include "support/json_writer.h"
#include "support/source.h"
#include "support/span.h"

/* version of the schema in doc/diagnostics.md */
enum { JSON_SCHEMA_VERSION = 1 };

const char *severity_name(Severity severity) {
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

/* ---- JSON ---- */

static void put_location(Buffer *out, const Sources *sources, Span span) {
  SourceRegion region;
  if (!sources_region(sources, span, &region))
    return;
  json_open(out, "place", '{');
  json_string_field(out, "file", region.source->name);
  if (region.source->is_library) {
    json_key(out, "library");
    buffer_puts(out, "true");
  }
  json_int_field(out, "line", region.line);
  json_int_field(out, "column", region.column);
  json_int_field(out, "end_line", region.end_line);
  json_int_field(out, "end_column", region.end_column);
  json_int_field(out, "start", span.start);
  json_int_field(out, "end", span.end);
  buffer_putc(out, '}');
}

static void put_steps(Buffer *out, const Sources *sources, const Diag *diag) {
  Arena *arena = arena_new();
  json_open(out, "steps", '[');
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    json_open(out, NULL, '{');
    put_location(out, sources, step->span);
    json_string_field(out, "expression",
                      source_excerpt(arena, sources, step->span));
    json_string_field(out, "shape", step->shape);
    json_string_field(out, "arithmetic", step->text);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
  arena_free(arena);
}

static void put_labels(Buffer *out, const Sources *sources, const Diag *diag) {
  json_open(out, "marks", '[');
  for (uint32_t i = 0; i < diag->label_count; i++) {
    json_open(out, NULL, '{');
    put_location(out, sources, diag->labels[i].span);
    json_string_field(out, "label", diag->labels[i].text);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_fixit(Buffer *out, const Sources *sources,
                      const DiagFixIt *fix) {
  json_open(out, NULL, '{');
  json_string_field(out, "title", fix->title);
  json_open(out, "edits", '[');
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    json_open(out, NULL, '{');
    put_location(out, sources, fix->edits[i].span);
    json_string_field(out, "text", fix->edits[i].text);
    buffer_putc(out, '}');
  }
  buffer_puts(out, "]}");
}

void diag_json(Buffer *out, const Sources *sources, const Diag *diag) {
  json_open(out, NULL, '{');
  json_int_field(out, "schema", JSON_SCHEMA_VERSION);
  json_string_field(out, "severity", severity_name(diag->severity));
  if (diag->code)
    json_string_field(out, "code", diag_code(diag).text);
  json_string_field(out, "message", diag->message);
  put_location(out, sources, diag->span);
  json_string_field(out, "label", diag->primary_label);
  json_string_field(out, "found", diag->found);
  json_string_field(out, "expected", diag->expected);
  if (diag->axis >= 0)
    json_int_field(out, "axis", diag->axis);
  put_steps(out, sources, diag);
  put_labels(out, sources, diag);
  json_string_field(out, "witness", diag->counterexample);
  json_string_field(out, "note", diag->note);
  json_string_field(out, "help", diag->help);
  json_open(out, "fixes", '[');
  for (uint32_t i = 0; i < diag->fixit_count; i++)
    put_fixit(out, sources, &diag->fixits[i]);
  buffer_puts(out, "]}");
}
