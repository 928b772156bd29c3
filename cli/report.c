/* Diagnostics for tools: JSON, an object a line, or one SARIF document.
 * doc/diagnostics.md describes both. */
#include "cli/cli.h"

#include <string.h>

typedef enum Format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF } Format;

static Format format;

bool report_as(const char *name) {
  static const char *const names[] = {
      [FORMAT_TEXT] = "text", [FORMAT_JSON] = "json", [FORMAT_SARIF] = "sarif"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (strcmp(name, names[i]) == 0) {
      format = (Format)i;
      return true;
    }
  return false;
}

/* ---- SARIF 2.1.0 ---- */

static Buffer results, rules; /* until the end */

static void sarif_text(Buffer *out, const char *name, const char *text) {
  json_open(out, name, '{');
  json_field(out, "text", text);
  buffer_putc(out, '}');
}

/* A file as a relative reference, or a file of the library. */
static void sarif_artifact(Buffer *out, const Source *source) {
  Buffer uri = {0};
  buffer_puts(&uri, source->library ? "axon-library:" : "");
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
  json_field(out, "uri", uri.text);
  buffer_putc(out, '}');
  buffer_free(&uri);
}

static void sarif_region(Buffer *out, const char *name,
                         const SourceRegion *at) {
  json_open(out, name, '{');
  json_number(out, "startLine", at->line);
  json_number(out, "startColumn", at->column);
  json_number(out, "endLine", at->end_line);
  json_number(out, "endColumn", at->end_column);
  buffer_putc(out, '}');
}

/* Nothing where there is no place. */
static void sarif_location(Buffer *out, const char *name,
                           const Sources *sources, Span span,
                           const char *message) {
  SourceRegion at;
  if (!sources_region(sources, span, &at))
    return;
  json_open(out, name, '{');
  json_open(out, "physicalLocation", '{');
  sarif_artifact(out, at.source);
  sarif_region(out, "region", &at);
  buffer_putc(out, '}');
  if (message)
    sarif_text(out, "message", message);
  buffer_putc(out, '}');
}

/* An array that is not left empty. */
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
  SourceRegion at;
  if (!sources_region(sources, span, &at))
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

/* The chain, which ends where the error is. */
static void sarif_flow(Buffer *out, const Sources *sources,
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

/* The edits of one file; all of ours are. */
static void sarif_fix(Buffer *out, const Sources *sources,
                      const DiagFix *fix) {
  Buffer edits = {0};
  SourceRegion at, first = {0};
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    if (!sources_region(sources, fix->edits[i].span, &at))
      continue;
    if (!first.source)
      first = at;
    json_open(&edits, NULL, '{');
    sarif_region(&edits, "deletedRegion", &at);
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

/* Its number among the rules, each of which stands there once. */
static size_t rule_of(const Diag *diag) {
  enum { LENGTH = 5 };
  static char seen[4096]; /* their codes */
  DiagCode code = diag_code(diag);
  const char *found = strstr(seen, code.text);
  size_t len = strlen(seen);
  if (found)
    return (size_t)(found - seen) / LENGTH;
  memcpy(seen + len, code.text, LENGTH + 1);
  const Page *page = explain_page(diag->code);
  json_open(&rules, NULL, '{');
  json_field(&rules, "id", code.text);
  if (page) {
    sarif_text(&rules, "shortDescription", page->title);
    sarif_text(&rules, "help", page->text);
  }
  json_open(&rules, "defaultConfiguration", '{');
  json_field(&rules, "level", severity_text(diag->severity));
  buffer_puts(&rules, "}}");
  return len / LENGTH;
}

static void sarif_message(Buffer *out, const Diag *diag) {
  const char *parts[] = {diag->label, diag->witness, diag->note, diag->help};
  Buffer text = {0};
  buffer_puts(&text, diag->message);
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    if (parts[i])
      buffer_printf(&text, "\n%s", parts[i]);
  sarif_text(out, "message", text.text);
  buffer_free(&text);
}

static void sarif_properties(Buffer *out, const Diag *diag) {
  if (!diag->found && !diag->expected && !diag->witness && diag->axis < 0)
    return;
  json_open(out, "properties", '{');
  json_field(out, "found", diag->found);
  json_field(out, "expected", diag->expected);
  if (diag->axis >= 0)
    json_number(out, "axis", diag->axis);
  json_field(out, "witness", diag->witness);
  buffer_putc(out, '}');
}

static void sarif_result(Buffer *out, const Sources *sources,
                         const Diag *diag) {
  Buffer places = {0}, related = {0}, fixes = {0};
  json_open(out, NULL, '{');
  if (diag->code) {
    json_field(out, "ruleId", diag_code(diag).text);
    json_number(out, "ruleIndex", (int64_t)rule_of(diag));
  }
  json_field(out, "level", severity_text(diag->severity));
  sarif_message(out, diag);
  sarif_location(&places, NULL, sources, diag->span, NULL);
  sarif_array(out, "locations", &places);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    sarif_location(&related, NULL, sources, diag->marks[i].span,
                   diag->marks[i].label);
  sarif_array(out, "relatedLocations", &related);
  sarif_flow(out, sources, diag);
  for (uint32_t i = 0; i < diag->fix_count; i++)
    sarif_fix(&fixes, sources, &diag->fixes[i]);
  sarif_array(out, "fixes", &fixes);
  sarif_properties(out, diag);
  buffer_putc(out, '}');
}

static void sarif_document(Buffer *out) {
  json_open(out, NULL, '{');
  json_field(out, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  json_field(out, "version", "2.1.0");
  json_open(out, "runs", '[');
  json_open(out, NULL, '{');
  json_open(out, "tool", '{');
  json_open(out, "driver", '{');
  json_field(out, "name", "axon");
  json_field(out, "version", AXON_VERSION);
  sarif_array(out, "rules", &rules);
  buffer_puts(out, "}}");
  json_field(out, "columnKind", "unicodeCodePoints");
  json_open(out, "results", '[');
  buffer_add(out, results.text, results.len);
  buffer_puts(out, "]}]}\n");
  buffer_free(&results);
}

/* ---- for all formats ---- */

void report_diag(Buffer *out, const Sources *sources, const Diag *diag) {
  switch (format) {
  case FORMAT_TEXT:
    diag_render(out, sources, diag, host_colour_err());
    return;
  case FORMAT_JSON: {
    Buffer line = {0};
    diag_json(&line, sources, diag);
    buffer_printf(out, "%s\n", line.text);
    buffer_free(&line);
    return;
  }
  case FORMAT_SARIF:
    sarif_result(&results, sources, diag);
    return;
  }
}

void report_why(Session *session, Binding *binding) {
  const Diag *why = session_why(session, binding);
  if (!why)
    return;
  Buffer text = {0};
  if (format == FORMAT_TEXT)
    diag_render(&text, session_sources(session), why, host_colour_out());
  else
    report_diag(&text, session_sources(session), why);
  if (text.text)
    fwrite(text.text, 1, text.len, stdout);
  buffer_free(&text);
}

void report_end(void) {
  if (format != FORMAT_SARIF)
    return;
  Buffer out = {0};
  sarif_document(&out);
  fputs(out.text, stderr);
  buffer_free(&out);
  format = FORMAT_TEXT;
}
