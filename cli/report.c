/* Diagnostics for tools: JSON, an object a line, or one SARIF document. */
#include "cli/cli.h"

#include <string.h>

typedef enum Format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF } Format;

static Format format;
static Buffer results; /* of SARIF, until the end */

bool report_as(const char *name) {
  if (strcmp(name, "text") == 0)
    format = FORMAT_TEXT;
  else if (strcmp(name, "json") == 0)
    format = FORMAT_JSON;
  else if (strcmp(name, "sarif") == 0)
    format = FORMAT_SARIF;
  else
    return false;
  return true;
}

/* ---- JSON ---- */

static void put_string(Buffer *out, const char *text) {
  size_t len = strlen(text), valid = utf8_valid(text, len);
  buffer_putc(out, '"');
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      buffer_printf(out, "\\%c", c);
    else if (c < ' ')
      buffer_printf(out, "\\u%04x", c);
    else
      buffer_putc(out, i < valid || c < 0x80 ? (char)c : '?');
  }
  buffer_putc(out, '"');
}

static void put_field(Buffer *out, const char *name, const char *text) {
  if (!text)
    return;
  buffer_printf(out, ", \"%s\": ", name);
  put_string(out, text);
}

static const char *level(const Diag *diag) {
  return diag->severity == SEV_ERROR     ? "error"
         : diag->severity == SEV_WARNING ? "warning"
                                         : "note";
}

static char letter(const Diag *diag) {
  return diag->severity == SEV_ERROR ? 'E' : 'W';
}

/* A place, columns in bytes as in messages. */
static void put_place(Buffer *out, const Sources *sources, Span span) {
  const Source *source = sources_get(sources, span.file);
  if (!source)
    return;
  uint32_t line, column, end_line, end_column;
  source_place(source, span.start, &line, &column);
  source_place(source, span.end, &end_line, &end_column);
  put_field(out, "file", source->name);
  buffer_printf(out,
                ", \"line\": %u, \"column\": %u, \"end_line\": %u, "
                "\"end_column\": %u",
                line, column, end_line, end_column);
}

static void put_step(Buffer *out, const Sources *sources, const DiagStep *s) {
  Buffer fields = {0};
  put_place(&fields, sources, s->span);
  put_field(&fields, "shape", s->shape);
  put_field(&fields, "text", s->text);
  buffer_printf(out, "{%s}", fields.text ? fields.text + 2 : "");
  buffer_free(&fields);
}

static void put_json(Buffer *out, const Sources *sources, const Diag *diag) {
  buffer_printf(out, "{\"severity\": \"%s\", \"code\": \"%c%04u\"",
                level(diag), letter(diag), diag->code);
  put_field(out, "message", diag->message);
  put_place(out, sources, diag->span);
  put_field(out, "label", diag->label);
  for (uint32_t i = 0; i < diag->step_count; i++) {
    buffer_puts(out, i ? ", " : ", \"steps\": [");
    put_step(out, sources, &diag->steps[i]);
    if (i + 1 == diag->step_count)
      buffer_putc(out, ']');
  }
  put_field(out, "witness", diag->witness);
  put_field(out, "note", diag->note);
  put_field(out, "help", diag->help);
  buffer_puts(out, "}\n");
}

/* ---- SARIF 2.1.0 ---- */

/* Of an offset, in characters, as SARIF counts. */
static uint32_t characters(const Source *source, uint32_t offset) {
  uint32_t line, column, count = 1;
  source_place(source, offset, &line, &column);
  for (uint32_t i = offset - (column - 1); i < offset; i++)
    count += ((unsigned char)source->text[i] & 0xc0) != 0x80;
  return count;
}

static void put_location(Buffer *out, const Source *source, Span span) {
  uint32_t line, end_line, column;
  source_place(source, span.start, &line, &column);
  source_place(source, span.end, &end_line, &column);
  buffer_puts(out, ", \"locations\": [{\"physicalLocation\": "
                   "{\"artifactLocation\": {\"uri\": ");
  put_string(out, source->name);
  buffer_printf(out,
                "}, \"region\": {\"startLine\": %u, \"startColumn\": %u, "
                "\"endLine\": %u, \"endColumn\": %u}}}]",
                line, characters(source, span.start), end_line,
                characters(source, span.end));
}

static void put_result(Buffer *out, const Sources *sources, const Diag *diag) {
  const char *parts[] = {diag->label, diag->witness, diag->note, diag->help};
  Buffer text = {0};
  buffer_puts(&text, diag->message);
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    if (parts[i])
      buffer_printf(&text, "\n%s", parts[i]);
  buffer_printf(out,
                "%s      {\"ruleId\": \"%c%04u\", \"level\": \"%s\", "
                "\"message\": {\"text\": ",
                out->len ? ",\n" : "", letter(diag), diag->code, level(diag));
  put_string(out, text.text);
  buffer_putc(out, '}');
  const Source *source = sources_get(sources, diag->span.file);
  if (source)
    put_location(out, source, diag->span);
  buffer_putc(out, '}');
  buffer_free(&text);
}

/* ---- for all formats ---- */

void report_diag(Buffer *out, const Sources *sources, const Diag *diag) {
  switch (format) {
  case FORMAT_TEXT:
    diag_render(out, sources, diag, host_colour_err());
    return;
  case FORMAT_JSON:
    put_json(out, sources, diag);
    return;
  case FORMAT_SARIF:
    put_result(&results, sources, diag);
    return;
  }
}

void report_end(void) {
  if (format != FORMAT_SARIF)
    return;
  fprintf(stderr,
          "{\n  \"$schema\": "
          "\"https://json.schemastore.org/sarif-2.1.0.json\",\n"
          "  \"version\": \"2.1.0\",\n  \"runs\": [{\n"
          "    \"tool\": {\"driver\": {\"name\": \"axon\", \"version\": "
          "\"" AXON_VERSION "\"}},\n"
          "    \"columnKind\": \"unicodeCodePoints\",\n"
          "    \"results\": [\n%s\n    ]\n  }]\n}\n",
          results.text ? results.text : "");
  buffer_free(&results);
  format = FORMAT_TEXT;
}
