/* Completion and signature help of the language server.  Main entry points:
   lsp_completion and lsp_signature_help. */
#include "cli/lsp/lsp.h"
#include "support/buffer.h"
#include "support/json_writer.h"

#include <string.h>

/* ---- completion ---- */

enum { MAX_COMPLETIONS = 2000 };

typedef struct CompletionList {
  LspRequest *ask;
  uint32_t count;
  /* names offered so far, nearer scopes first */
  const char *names[MAX_COMPLETIONS];
} CompletionList;

static bool is_duplicate(const CompletionList *o, const char *name) {
  for (uint32_t i = 0; i < o->count; i++)
    if (strcmp(o->names[i], name) == 0)
      return true;
  return false;
}

static void put_completion(void *arg, const Completion *completion) {
  static const int kinds[] = {
      /* CompletionItemKind */
      [COMPLETION_VALUE] = 6,        [COMPLETION_FUNCTION] = 3,
      [COMPLETION_CONSTRUCTOR] = 20, [COMPLETION_SIZE] = 12,
      [COMPLETION_MODULE] = 9,       [COMPLETION_FIELD] = 5,
      [COMPLETION_LABEL] = 10,       [COMPLETION_TYPE] = 7,
      [COMPLETION_KEYWORD] = 14};
  CompletionList *o = arg;
  Buffer *out = o->ask->out;
  if (o->count >= MAX_COMPLETIONS || is_duplicate(o, completion->name))
    return;
  o->names[o->count++] = completion->name;
  bool label = completion->kind == COMPLETION_LABEL;
  json_open(out, NULL, '{');
  json_string_field(out, "label", completion->name);
  json_int_field(out, "kind", kinds[completion->kind]);
  json_string_field(out, "detail", completion->type);
  if (completion->doc) {
    buffer_puts(out, ",\"documentation\":{");
    json_string_field(out, "kind", "plaintext");
    json_string_field(out, "value", completion->doc);
    buffer_putc(out, '}');
  }
  Buffer text = {0};
  buffer_printf(&text, "%05u", o->count);
  json_string_field(out, "sortText", text.text);
  text.len = 0;
  if (label) {
    buffer_printf(&text, "%s:", completion->name);
    json_string_field(out, "insertText", text.text);
  }
  buffer_free(&text);
  buffer_putc(out, '}');
}

void lsp_completion(LspRequest *request) {
  CompletionList offers = {.ask = request};
  buffer_puts(request->out, "{\"isIncomplete\":false,\"items\":[");
  editor_complete(request->session, &request->worker->text, request->offset,
                  put_completion, &offers);
  buffer_puts(request->out, "]}");
}

/* ---- signature ---- */

/* The next parameter of a printed type, and what follows it.  Arrows in
   brackets belong to parameters. */
static size_t next_parameter(const char *type, size_t *after) {
  int depth = 0;
  for (size_t i = 0; type[i]; i++) {
    if (strchr("([{", type[i]))
      depth++;
    else if (strchr(")]}", type[i]))
      depth--;
    size_t arrow = strncmp(type + i, " ->! ", 5) == 0  ? 5
                   : strncmp(type + i, " -> ", 4) == 0 ? 4
                                                       : 0;
    if (!depth && strncmp(type + i, " given ", 7) == 0)
      break;
    if (!depth && arrow) {
      *after = i + arrow;
      return i;
    }
  }
  return 0;
}

static bool has_label(const char *parameter, const char *label) {
  size_t len = strlen(label);
  return (*parameter == '~' || *parameter == '?') &&
         strncmp(parameter + 1, label, len) == 0 && parameter[1 + len] == ':';
}

static bool is_labelled(const char *parameter, size_t len) {
  size_t word = strspn(parameter + (len > 0),
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                       "0123456789_'");
  return strchr("~?", *parameter) && parameter[1 + word] == ':';
}

void lsp_signature_help(LspRequest *request) {
  SignatureHelp help;
  if (!editor_signature_help(request->session, &request->worker->text,
                             request->offset, &help) ||
      !help.type)
    return;
  Buffer *out = request->out, label = {0};
  buffer_printf(&label, "%s : %s", help.name, help.type);
  buffer_puts(out, "{\"signatures\":[{");
  json_string_field(out, "label", label.text);
  if (help.doc)
    json_string_field(out, "documentation", help.doc);
  json_open(out, "parameters", '[');
  size_t at = strlen(help.name) + 3, len, after;
  uint32_t active = 0, count = 0, positional = 0;
  bool found = false;
  for (; (len = next_parameter(label.text + at, &after));
       at += after, count++) {
    const char *p = label.text + at;
    bool labelled = is_labelled(p, len);
    bool is = help.active_label
                  ? has_label(p, help.active_label)
                  : !labelled && positional == help.active_parameter;
    positional += !labelled;
    if (is && !found)
      active = count, found = true;
    json_comma(out);
    buffer_printf(out, "{\"label\":[%zu,%zu]}", at, at + len);
  }
  buffer_printf(out, "]}],\"activeSignature\":0,\"activeParameter\":%u}",
                found ? active : count);
  buffer_free(&label);
  if (!count) /* not a function */
    out->len = (size_t)(strstr(out->text, "\"result\":") - out->text) + 9;
}
