/* Diagnostics for tools: JSON, an object a line, or one SARIF document.
 * doc/diagnostics.md describes both. */
#include "cli/cli.h"
#include "runtime/json.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_SCHEMA = 1 }; /* of the objects; see doc/diagnostics.md */

typedef enum Format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF } Format;

static Format format;
static json_t *results, *rules; /* of SARIF, until the end */

bool report_as(const char *name, Fault *problem) {
  if (strcmp(name, "text") == 0) {
    format = FORMAT_TEXT;
    return true;
  }
  bool json = strcmp(name, "json") == 0;
  if ((!json && strcmp(name, "sarif") != 0) || !json_ready(problem))
    return false;
  format = json ? FORMAT_JSON : FORMAT_SARIF;
  return true;
}

/* ---- what both say ---- */

static void put(json_t *object, const char *name, json_t *value) {
  jansson.json_object_set_new(object, name, value);
}

static void add(json_t *array, json_t *value) {
  jansson.json_array_append_new(array, value);
}

/* What is not UTF-8 is `?`. */
static json_t *string(const char *text) {
  size_t len = strlen(text), valid = utf8_valid(text, len);
  if (valid == len)
    return jansson.json_string(text);
  Buffer mended = {0};
  for (size_t i = 0; i < len; i++)
    buffer_putc(&mended, i < valid || !(text[i] & 0x80) ? text[i] : '?');
  json_t *value = jansson.json_string(mended.text);
  buffer_free(&mended);
  return value;
}

static void put_text(json_t *object, const char *name, const char *text) {
  if (text)
    put(object, name, string(text));
}

static void put_int(json_t *object, const char *name, int64_t n) {
  put(object, name, jansson.json_integer(n));
}

static const char *level(Severity severity) {
  return severity == SEV_ERROR     ? "error"
         : severity == SEV_WARNING ? "warning"
                                   : "note";
}

static json_t *code_of(const Diag *diag) {
  char code[8];
  snprintf(code, sizeof code, "%c%04u",
           diag->severity == SEV_ERROR ? 'E' : 'W', diag->code);
  return jansson.json_string(code);
}

typedef struct Region { /* lines and columns from 1, columns in characters */
  const Source *source;
  uint32_t line, column, end_line, end_column;
} Region;

static bool place_of(const Sources *sources, Span span, Region *out) {
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  if (!source)
    return false;
  uint32_t bytes;
  *out = (Region){.source = source,
                 .column = source_column(source, span.start),
                 .end_column = source_column(source, span.end)};
  source_place(source, span.start, &out->line, &bytes);
  source_place(source, span.end, &out->end_line, &bytes);
  return true;
}

/* ---- JSON ---- */

static void put_place(json_t *object, const Sources *sources, Span span) {
  Region at;
  if (!place_of(sources, span, &at))
    return;
  json_t *place = jansson.json_object();
  put_text(place, "file", at.source->name);
  if (at.source->library)
    put(place, "library", jansson.json_true());
  put_int(place, "line", at.line);
  put_int(place, "column", at.column);
  put_int(place, "end_line", at.end_line);
  put_int(place, "end_column", at.end_column);
  put_int(place, "start", span.start);
  put_int(place, "end", span.end);
  put(object, "place", place);
}

static json_t *json_steps(const Sources *sources, const Diag *diag) {
  json_t *all = jansson.json_array();
  Arena *arena = arena_new();
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    json_t *one = jansson.json_object();
    put_place(one, sources, step->span);
    put_text(one, "expression", source_excerpt(arena, sources, step->span));
    put_text(one, "shape", step->shape);
    put_text(one, "arithmetic", step->text);
    add(all, one);
  }
  arena_free(arena);
  return all;
}

static json_t *json_marks(const Sources *sources, const Diag *diag) {
  json_t *all = jansson.json_array();
  for (uint32_t i = 0; i < diag->mark_count; i++) {
    json_t *one = jansson.json_object();
    put_place(one, sources, diag->marks[i].span);
    put_text(one, "label", diag->marks[i].label);
    add(all, one);
  }
  return all;
}

static json_t *json_fix(const Sources *sources, const DiagFix *fix) {
  json_t *one = jansson.json_object(), *edits = jansson.json_array();
  put_text(one, "title", fix->title);
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    json_t *edit = jansson.json_object();
    put_place(edit, sources, fix->edits[i].span);
    put_text(edit, "text", fix->edits[i].text);
    add(edits, edit);
  }
  put(one, "edits", edits);
  return one;
}

static json_t *json_of(const Sources *sources, const Diag *diag) {
  json_t *all = jansson.json_object(), *fixes = jansson.json_array();
  put_int(all, "schema", JSON_SCHEMA);
  put_text(all, "severity", level(diag->severity));
  put(all, "code", code_of(diag));
  put_text(all, "message", diag->message);
  put_place(all, sources, diag->span);
  put_text(all, "label", diag->label);
  put_text(all, "found", diag->found);
  put_text(all, "expected", diag->expected);
  if (diag->axis >= 0)
    put_int(all, "axis", diag->axis);
  put(all, "steps", json_steps(sources, diag));
  put(all, "marks", json_marks(sources, diag));
  put_text(all, "witness", diag->witness);
  put_text(all, "note", diag->note);
  put_text(all, "help", diag->help);
  for (uint32_t i = 0; i < diag->fix_count; i++)
    add(fixes, json_fix(sources, &diag->fixes[i]));
  put(all, "fixes", fixes);
  return all;
}

/* ---- SARIF 2.1.0 ---- */

static json_t *sarif_text(const char *text) {
  json_t *message = jansson.json_object();
  put_text(message, "text", text);
  return message;
}

/* A file as a relative reference, or a file of the library. */
static json_t *sarif_artifact(const Source *source) {
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
  json_t *artifact = jansson.json_object();
  put_text(artifact, "uri", uri.text ? uri.text : "");
  buffer_free(&uri);
  return artifact;
}

static json_t *sarif_region(const Region *at) {
  json_t *region = jansson.json_object();
  put_int(region, "startLine", at->line);
  put_int(region, "startColumn", at->column);
  put_int(region, "endLine", at->end_line);
  put_int(region, "endColumn", at->end_column);
  return region;
}

/* NULL where there is no place. */
static json_t *sarif_location(const Sources *sources, Span span,
                              const char *message) {
  Region at;
  if (!place_of(sources, span, &at))
    return NULL;
  json_t *location = jansson.json_object(), *place = jansson.json_object();
  put(place, "artifactLocation", sarif_artifact(at.source));
  put(place, "region", sarif_region(&at));
  put(location, "physicalLocation", place);
  if (message)
    put(location, "message", sarif_text(message));
  return location;
}

static void add_location(json_t *all, const Sources *sources, Span span,
                         const char *message) {
  json_t *location = sarif_location(sources, span, message);
  if (location)
    add(all, location);
}

/* Adds an array that is not empty. */
static void put_some(json_t *object, const char *name, json_t *array) {
  if (array && jansson.json_array_size(array))
    put(object, name, array);
  else
    json_drop(array);
}

/* The chain, which ends where the error is. */
static void put_flow(json_t *result, const Sources *sources,
                     const Diag *diag) {
  if (!diag->step_count)
    return;
  json_t *places = jansson.json_array();
  for (uint32_t i = 0; i <= diag->step_count; i++) {
    const DiagStep *step = i < diag->step_count ? &diag->steps[i] : NULL;
    Buffer text = {0};
    buffer_puts(&text, step ? step->shape : diag->message);
    if (step && step->text)
      buffer_printf(&text, "    %s", step->text);
    json_t *location = sarif_location(
        sources, step ? step->span : diag->span, text.text);
    buffer_free(&text);
    if (!location)
      continue;
    json_t *place = jansson.json_object();
    put(place, "location", location);
    add(places, place);
  }
  json_t *thread = jansson.json_object(), *threads = jansson.json_array();
  json_t *flow = jansson.json_object(), *flows = jansson.json_array();
  put(thread, "locations", places);
  add(threads, thread);
  put(flow, "threadFlows", threads);
  add(flows, flow);
  put(result, "codeFlows", flows);
}

/* The edits of one file; all of ours are. */
static json_t *sarif_fix(const Sources *sources, const DiagFix *fix) {
  json_t *one = jansson.json_object(), *changes = jansson.json_array();
  json_t *change = jansson.json_object(), *edits = jansson.json_array();
  put(one, "description", sarif_text(fix->title));
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    Region at;
    if (!place_of(sources, fix->edits[i].span, &at))
      continue;
    json_t *edit = jansson.json_object();
    put(edit, "deletedRegion", sarif_region(&at));
    put(edit, "insertedContent", sarif_text(fix->edits[i].text));
    add(edits, edit);
    if (i == 0)
      put(change, "artifactLocation", sarif_artifact(at.source));
  }
  put(change, "replacements", edits);
  add(changes, change);
  put(one, "artifactChanges", changes);
  return one;
}

/* Its number among the rules, each of which stands there once. */
static size_t rule_of(const Diag *diag) {
  json_t *code = code_of(diag);
  size_t count = jansson.json_array_size(rules), i = 0;
  for (; i < count; i++) {
    json_t *id = jansson.json_object_get(jansson.json_array_get(rules, i),
                                         "id");
    if (strcmp(jansson.json_string_value(id),
               jansson.json_string_value(code)) == 0)
      break;
  }
  if (i < count) {
    json_drop(code);
    return i;
  }
  const Page *page = explain_page(diag->code);
  json_t *rule = jansson.json_object(), *by = jansson.json_object();
  put(rule, "id", code);
  if (page) {
    put(rule, "shortDescription", sarif_text(page->title));
    put(rule, "help", sarif_text(page->text));
  }
  put_text(by, "level", level(diag->severity));
  put(rule, "defaultConfiguration", by);
  add(rules, rule);
  return count;
}

static void put_properties(json_t *result, const Diag *diag) {
  if (!diag->found && !diag->expected && !diag->witness && diag->axis < 0)
    return;
  json_t *all = jansson.json_object();
  put_text(all, "found", diag->found);
  put_text(all, "expected", diag->expected);
  if (diag->axis >= 0)
    put_int(all, "axis", diag->axis);
  put_text(all, "witness", diag->witness);
  put(result, "properties", all);
}

static json_t *sarif_of(const Sources *sources, const Diag *diag) {
  const char *parts[] = {diag->label, diag->witness, diag->note, diag->help};
  Buffer text = {0};
  buffer_puts(&text, diag->message);
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    if (parts[i])
      buffer_printf(&text, "\n%s", parts[i]);
  json_t *result = jansson.json_object();
  json_t *places = jansson.json_array(), *related = jansson.json_array();
  json_t *fixes = jansson.json_array();
  put(result, "ruleId", code_of(diag));
  put_int(result, "ruleIndex", (int64_t)rule_of(diag));
  put_text(result, "level", level(diag->severity));
  put(result, "message", sarif_text(text.text));
  add_location(places, sources, diag->span, NULL);
  put_some(result, "locations", places);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    add_location(related, sources, diag->marks[i].span, diag->marks[i].label);
  put_some(result, "relatedLocations", related);
  put_flow(result, sources, diag);
  for (uint32_t i = 0; i < diag->fix_count; i++)
    add(fixes, sarif_fix(sources, &diag->fixes[i]));
  put_some(result, "fixes", fixes);
  put_properties(result, diag);
  buffer_free(&text);
  return result;
}

static json_t *sarif_document(void) {
  json_t *all = jansson.json_object(), *runs = jansson.json_array();
  json_t *run = jansson.json_object(), *tool = jansson.json_object();
  json_t *driver = jansson.json_object();
  put_text(all, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  put_text(all, "version", "2.1.0");
  put_text(driver, "name", "axon");
  put_text(driver, "version", AXON_VERSION);
  put(driver, "rules", rules);
  put(tool, "driver", driver);
  put(run, "tool", tool);
  put_text(run, "columnKind", "unicodeCodePoints");
  put(run, "results", results);
  add(runs, run);
  put(all, "runs", runs);
  rules = results = NULL;
  return all;
}

/* ---- for all formats ---- */

static void put_document(Buffer *out, json_t *json, size_t flags) {
  char *text = jansson.json_dumps(json, flags);
  json_drop(json);
  if (!text)
    trap_raise(FAIL_MEMORY);
  buffer_puts(out, text);
  buffer_putc(out, '\n');
  free(text);
}

static void begin_sarif(void) {
  if (results)
    return;
  results = jansson.json_array();
  rules = jansson.json_array();
}

void report_diag(Buffer *out, const Sources *sources, const Diag *diag) {
  switch (format) {
  case FORMAT_TEXT:
    diag_render(out, sources, diag, host_colour_err());
    return;
  case FORMAT_JSON:
    put_document(out, json_of(sources, diag), JSON_COMPACT);
    return;
  case FORMAT_SARIF:
    begin_sarif();
    add(results, sarif_of(sources, diag));
    return;
  }
}

void report_end(void) {
  if (format != FORMAT_SARIF)
    return;
  Buffer out = {0};
  begin_sarif();
  put_document(&out, sarif_document(), JSON_INDENT(2));
  fputs(out.text, stderr);
  buffer_free(&out);
  format = FORMAT_TEXT;
}
