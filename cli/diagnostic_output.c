/* Diagnostics for tools: one JSON object per line, or one SARIF document.
   doc/diagnostics.md describes both.  Main entry point: report_diag. */
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/diag_render.h"
#include "support/json_writer.h"
#include "support/source.h"

#include <string.h>

typedef enum DiagnosticFormat {
  DIAGNOSTIC_FORMAT_TEXT,
  DIAGNOSTIC_FORMAT_JSON,
  DIAGNOSTIC_FORMAT_SARIF
} DiagnosticFormat;

static DiagnosticFormat output_format;

bool report_set_format(const char *name) {
  static const char *const names[] = {[DIAGNOSTIC_FORMAT_TEXT] = "text",
                                      [DIAGNOSTIC_FORMAT_JSON] = "json",
                                      [DIAGNOSTIC_FORMAT_SARIF] = "sarif"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (strcmp(name, names[i]) == 0) {
      output_format = (DiagnosticFormat)i;
      return true;
    }
  return false;
}

/* ---- SARIF 2.1.0 ---- */

static Buffer sarif_results, sarif_rules; /* collected until the end */

static void sarif_text(Buffer *out, const char *name, const char *text) {
  json_open(out, name, '{');
  json_string_field(out, "text", text);
  buffer_putc(out, '}');
}

/* Writes a file as a relative URI reference; or a file of the library. */
static void sarif_artifact(Buffer *out, const Source *source) {
  Buffer uri = {0};
  buffer_puts(&uri, source->is_library ? "axon-library:" : "");
  for (const char *p = source->name; *p; p++) {
    unsigned char c = (unsigned char)*p;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 (c >= '0' && c <= '9') || strchr("-._~/", c);
    if (plain)
      buffer_putc(&uri, *p);
    else
      buffer_printf(&uri, "%%%02X", c);
  }
  json_open(out, "artifactLocation", '{');
  json_string_field(out, "uri", uri.text);
  buffer_putc(out, '}');
  buffer_free(&uri);
}

static void sarif_region(Buffer *out, const char *name,
                         const SourceRegion *region) {
  json_open(out, name, '{');
  json_int_field(out, "startLine", region->line);
  json_int_field(out, "startColumn", region->column);
  json_int_field(out, "endLine", region->end_line);
  json_int_field(out, "endColumn", region->end_column);
  buffer_putc(out, '}');
}

/* Writes nothing if there is no place. */
static void sarif_location(Buffer *out, const char *name,
                           const Sources *sources, Span span,
                           const char *message) {
  SourceRegion region;
  if (!sources_region(sources, span, &region))
    return;
  json_open(out, name, '{');
  json_open(out, "physicalLocation", '{');
  sarif_artifact(out, region.source);
  sarif_region(out, "region", &region);
  buffer_putc(out, '}');
  if (message)
    sarif_text(out, "message", message);
  buffer_putc(out, '}');
}

/* Writes an array unless it is empty. */
static void sarif_array(Buffer *out, const char *name, Buffer *items) {
  if (items->len) {
    json_open(out, name, '[');
    buffer_add(out, items->text, items->len);
    buffer_putc(out, ']');
  }
  buffer_free(items);
}

static void sarif_step(Buffer *out, const Sources *sources, Span span,
                       const char *shape, const char *arithmetic) {
  SourceRegion region;
  if (!sources_region(sources, span, &region))
    return;
  Buffer text = {0};
  buffer_puts(&text, shape);
  if (arithmetic)
    buffer_printf(&text, "    %s", arithmetic);
  json_open(out, NULL, '{');
  sarif_location(out, "location", sources, span, text.text);
  buffer_putc(out, '}');
  buffer_free(&text);
}

/* The provenance trace, which ends at the error. */
static void sarif_code_flow(Buffer *out, const Sources *sources,
                            const Diag *diag) {
  Buffer steps = {0};
  for (uint32_t i = 0; i < diag->step_count; i++)
    sarif_step(&steps, sources, diag->steps[i].span, diag->steps[i].shape,
               diag->steps[i].text);
  if (!steps.len)
    return;
  sarif_step(&steps, sources, diag->span, diag->message, NULL);
  json_open(out, "codeFlows", '[');
  json_open(out, NULL, '{');
  json_open(out, "threadFlows", '[');
  json_open(out, NULL, '{');
  sarif_array(out, "locations", &steps);
  buffer_puts(out, "}]}]");
}

/* The edits of one file; all our fix-its have only one. */
static void sarif_fix(Buffer *out, const Sources *sources,
                      const DiagFixIt *fix) {
  Buffer edits = {0};
  SourceRegion region, first = {0};
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    if (!sources_region(sources, fix->edits[i].span, &region))
      continue;
    if (!first.source)
      first = region;
    json_open(&edits, NULL, '{');
    sarif_region(&edits, "deletedRegion", &region);
    sarif_text(&edits, "insertedContent", fix->edits[i].text);
    buffer_putc(&edits, '}');
  }
  if (!first.source)
    return;
  json_open(out, NULL, '{');
  sarif_text(out, "description", fix->title);
  json_open(out, "artifactChanges", '[');
  json_open(out, NULL, '{');
  sarif_artifact(out, first.source);
  sarif_array(out, "replacements", &edits);
  buffer_puts(out, "}]}");
}

/* The index of a rule.  Each rule is listed once. */
static size_t sarif_rule_index(const Diag *diag) {
  enum { LENGTH = 5 };
  static char seen[4096]; /* codes of the rules listed so far */
  DiagCode code = diag_code(diag);
  const char *found = strstr(seen, code.text);
  size_t len = strlen(seen);
  if (found)
    return (size_t)(found - seen) / LENGTH;
  memcpy(seen + len, code.text, LENGTH + 1);
  const ExplainPage *page = explain_page(diag->code);
  json_open(&sarif_rules, NULL, '{');
  json_string_field(&sarif_rules, "id", code.text);
  if (page) {
    sarif_text(&sarif_rules, "shortDescription", page->title);
    sarif_text(&sarif_rules, "help", page->text);
  }
  json_open(&sarif_rules, "defaultConfiguration", '{');
  json_string_field(&sarif_rules, "level", severity_name(diag->severity));
  buffer_puts(&sarif_rules, "}}");
  return len / LENGTH;
}

static void sarif_message(Buffer *out, const Diag *diag) {
  const char *parts[] = {diag->primary_label, diag->counterexample, diag->note,
                         diag->help};
  Buffer text = {0};
  buffer_puts(&text, diag->message);
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    if (parts[i])
      buffer_printf(&text, "\n%s", parts[i]);
  sarif_text(out, "message", text.text);
  buffer_free(&text);
}

static void sarif_properties(Buffer *out, const Diag *diag) {
  if (!diag->found && !diag->expected && !diag->counterexample &&
      diag->axis < 0)
    return;
  json_open(out, "properties", '{');
  json_string_field(out, "found", diag->found);
  json_string_field(out, "expected", diag->expected);
  if (diag->axis >= 0)
    json_int_field(out, "axis", diag->axis);
  json_string_field(out, "witness", diag->counterexample);
  buffer_putc(out, '}');
}

static void sarif_result(Buffer *out, const Sources *sources,
                         const Diag *diag) {
  Buffer places = {0}, related = {0}, fixes = {0};
  json_open(out, NULL, '{');
  if (diag->code) {
    json_string_field(out, "ruleId", diag_code(diag).text);
    json_int_field(out, "ruleIndex", (int64_t)sarif_rule_index(diag));
  }
  json_string_field(out, "level", severity_name(diag->severity));
  sarif_message(out, diag);
  sarif_location(&places, NULL, sources, diag->span, NULL);
  sarif_array(out, "locations", &places);
  for (uint32_t i = 0; i < diag->label_count; i++)
    sarif_location(&related, NULL, sources, diag->labels[i].span,
                   diag->labels[i].text);
  sarif_array(out, "relatedLocations", &related);
  sarif_code_flow(out, sources, diag);
  for (uint32_t i = 0; i < diag->fixit_count; i++)
    sarif_fix(&fixes, sources, &diag->fixits[i]);
  sarif_array(out, "fixes", &fixes);
  sarif_properties(out, diag);
  buffer_putc(out, '}');
}

static void sarif_document(Buffer *out) {
  json_open(out, NULL, '{');
  json_string_field(out, "$schema",
                    "https://json.schemastore.org/sarif-2.1.0.json");
  json_string_field(out, "version", "2.1.0");
  json_open(out, "runs", '[');
  json_open(out, NULL, '{');
  json_open(out, "tool", '{');
  json_open(out, "driver", '{');
  json_string_field(out, "name", "axon");
  json_string_field(out, "version", AXON_VERSION);
  sarif_array(out, "rules", &sarif_rules);
  buffer_puts(out, "}}");
  json_string_field(out, "columnKind", "unicodeCodePoints");
  json_open(out, "results", '[');
  buffer_add(out, sarif_results.text, sarif_results.len);
  buffer_puts(out, "]}]}\n");
  buffer_free(&sarif_results);
}

/* ---- for all formats ---- */

void report_diag(Buffer *out, const Sources *sources, const Diag *diag) {
  switch (output_format) {
  case DIAGNOSTIC_FORMAT_TEXT:
    diag_render(out, sources, diag, terminal_colours_stderr());
    return;
  case DIAGNOSTIC_FORMAT_JSON: {
    Buffer line = {0};
    diag_json(&line, sources, diag);
    buffer_printf(out, "%s\n", line.text);
    buffer_free(&line);
    return;
  }
  case DIAGNOSTIC_FORMAT_SARIF:
    sarif_result(&sarif_results, sources, diag);
    return;
  }
}

void report_type_provenance(Session *session, Binding *binding) {
  const Diag *why = session_explain_type(session, binding);
  if (!why)
    return;
  Buffer text = {0};
  if (output_format == DIAGNOSTIC_FORMAT_TEXT)
    diag_render(&text, session_sources(session), why,
                terminal_colours_stdout());
  else
    report_diag(&text, session_sources(session), why);
  if (text.text)
    fwrite(text.text, 1, text.len, stdout);
  buffer_free(&text);
}

void report_flush(void) {
  if (output_format != DIAGNOSTIC_FORMAT_SARIF)
    return;
  Buffer out = {0};
  sarif_document(&out);
  fputs(out.text, stderr);
  buffer_free(&out);
  output_format = DIAGNOSTIC_FORMAT_TEXT;
}
