/* Diagnostics and code actions of the language server.  Main entry points:
   worker_publish_diagnostics and lsp_code_action. */
#include "cli/lsp/lsp.h"
#include "support/buffer.h"
#include "support/json_writer.h"
#include "support/mem.h"
#include "support/source.h"

#include <string.h>

enum { UNREACHABLE_CODE = 402 }; /* W0402: the editor greys it out */

/* ---- diagnostics ---- */

static void add_line(Buffer *out, const char *before, const char *text) {
  if (text)
    buffer_printf(out, "\n%s%s", before, text);
}

/* Adds the provenance trace to the message, for editors without related
   information. */
static void add_steps(Buffer *out, const Diag *diag, const Sources *sources) {
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    const Source *source = sources_get(sources, step->span.file);
    uint32_t line = 0, column;
    if (source)
      source_line_and_column(source, step->span.start, &line, &column);
    buffer_printf(
        out, "\nline %u: %s%s%s", line, step->shape ? step->shape : "",
        step->shape && step->text ? "  " : "", step->text ? step->text : "");
  }
}

static char *message_of(const WorkerState *worker, const Diag *diag) {
  Buffer out = {0};
  buffer_puts(&out, diag->message);
  add_line(&out, "", diag->primary_label);
  add_line(&out, "", diag->counterexample);
  if (!worker->related_information)
    add_steps(&out, diag, session_sources(worker->session));
  add_line(&out, "", diag->note);
  add_line(&out, "help: ", diag->help);
  return out.text;
}

static void put_related(LspRequest *request, Span span, const char *a,
                        const char *b) {
  if (!span.file)
    return;
  Buffer text = {0};
  buffer_printf(&text, "%s%s%s", a ? a : "", a && b ? "  " : "", b ? b : "");
  json_comma(request->out);
  buffer_puts(request->out, "{\"location\":");
  lsp_put_location(request, span);
  json_string_field(request->out, "message", text.text ? text.text : "");
  buffer_putc(request->out, '}');
  buffer_free(&text);
}

static void put_all_related(LspRequest *request, const Diag *diag) {
  json_open(request->out, "relatedInformation", '[');
  for (uint32_t i = 0; i < diag->step_count; i++)
    put_related(request, diag->steps[i].span, diag->steps[i].shape,
                diag->steps[i].text);
  for (uint32_t i = 0; i < diag->label_count; i++)
    put_related(request, diag->labels[i].span, diag->labels[i].text, NULL);
  buffer_putc(request->out, ']');
}

static void put_diag(LspRequest *request, const Diag *diag) {
  static const int severities[] = {
      [SEV_NONE] = 3, [SEV_ERROR] = 1, [SEV_WARNING] = 2, [SEV_NOTE] = 3};
  bool error = diag->severity == SEV_ERROR;
  Buffer *out = request->out;
  json_comma(out);
  buffer_puts(out, "{\"range\":");
  lsp_put_span(request, diag->span);
  buffer_printf(out, ",\"severity\":%d,\"code\":\"%c%04u\",\"source\":\"axon\"",
                severities[diag->severity], error ? 'E' : 'W', diag->code);
  char *message = message_of(request->worker, diag);
  json_string_field(out, "message", message);
  mem_free(message);
  if (!error && diag->code == UNREACHABLE_CODE)
    buffer_puts(out, ",\"tags\":[1]");
  if (request->worker->related_information &&
      diag->step_count + diag->label_count)
    put_all_related(request, diag);
  buffer_putc(out, '}');
}

/* A file may have been read twice: as the text, and as an import. */
static bool same_file(const LspRequest *request, uint32_t a, uint32_t b) {
  const Source *x = sources_get(session_sources(request->session), a);
  const Source *y = sources_get(session_sources(request->session), b);
  return x && y && strcmp(x->name, y->name) == 0;
}

/* True for diagnostics of one file.  Those without a place are shown in the
   text itself. */
static bool belongs_to_file(const LspRequest *request, const Diag *diag,
                            uint32_t file) {
  const Source *source =
      sources_get(session_sources(request->session), diag->span.file);
  bool without_file = !source || source->is_library;
  return same_file(request, without_file ? request->file : diag->span.file,
                   file);
}

static void publish_file(LspRequest *request, uint32_t file) {
  const Diags *diags = session_diags(request->session);
  Buffer out = {0};
  const char *uri = worker_uri_of_file(request->worker, file);
  buffer_add(&out, uri, strlen(uri) + 1);
  buffer_putc(&out, '{');
  json_string_field(&out, "uri", uri);
  if (file == request->file)
    json_int_field(&out, "version", request->worker->version);
  json_open(&out, "diagnostics", '[');
  request->out = &out;
  uint32_t count = 0;
  for (uint32_t i = 0; i < diags->all.len; i++)
    if (belongs_to_file(request, diags->all.at[i], file)) {
      put_diag(request, diags->all.at[i]);
      count++;
    }
  buffer_puts(&out, "]}");
  if (count || file == request->file)
    worker_send(request->worker, FRAME_PUBLISH, &out);
  buffer_free(&out);
}

void worker_publish_diagnostics(WorkerState *worker) {
  LspRequest request = {.worker = worker,
                        .session = worker->session,
                        .file = session_current_file(worker->session)};
  const Sources *sources = session_sources(worker->session);
  publish_file(&request, request.file);
  for (uint32_t i = 1; i < sources->files.len; i++) {
    bool published = sources->files.at[i]->is_library ||
                     same_file(&request, i, request.file);
    for (uint32_t k = 1; k < i && !published; k++)
      published = same_file(&request, i, k);
    if (!published)
      publish_file(&request, i);
  }
}

/* ---- what can be done ---- */

/* Writes edits of one or more files as a WorkspaceEdit, in order of file. */
static void put_workspace_edit(LspRequest *request, const DiagEdit *edits,
                               uint32_t count) {
  json_key(request->out, "edit");
  buffer_puts(request->out, "{\"changes\":{");
  for (uint32_t i = 0; i < count; i++) {
    if (!i || edits[i].span.file != edits[i - 1].span.file) {
      buffer_puts(request->out, i ? "]" : "");
      json_open(request->out,
                worker_uri_of_file(request->worker, edits[i].span.file), '[');
    }
    json_comma(request->out);
    buffer_puts(request->out, "{\"range\":");
    lsp_put_span(request, edits[i].span);
    json_string_field(request->out, "newText", edits[i].text);
    buffer_putc(request->out, '}');
  }
  buffer_puts(request->out, count ? "]}}" : "}}");
}

static void put_code_action(LspRequest *request, const Diag *diag,
                            uint32_t number) {
  const DiagFixIt *fix = &diag->fixits[number];
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    const Source *source =
        sources_get(session_sources(request->session), fix->edits[i].span.file);
    if (!source || source->is_library)
      return;
  }
  json_open(request->out, NULL, '{');
  json_string_field(request->out, "title", fix->title);
  json_string_field(request->out, "kind", "quickfix");
  if (!number)
    buffer_puts(request->out, ",\"isPreferred\":true");
  json_open(request->out, "diagnostics", '[');
  put_diag(request, diag);
  buffer_putc(request->out, ']');
  put_workspace_edit(request, fix->edits, fix->edit_count);
  buffer_putc(request->out, '}');
}

typedef struct Range {
  LspRequest *ask;
  uint32_t start, end;
} Range;

static bool overlaps(const Range *r, uint32_t start, uint32_t end) {
  return start <= r->end && r->start <= end;
}

static void put_type_action(void *arg, const InlayHint *hint) {
  Range *r = arg;
  LspRequest *request = r->ask;
  bool stage = hint->kind == INLAY_HINT_PIPELINE_STAGE;
  if (!hint->edit_suffix || !overlaps(r, hint->edit_start, hint->edit_end) ||
      (stage && !overlaps(r, hint->offset, hint->offset)))
    return;
  DiagEdit edits[2] = {
      {{request->file, hint->edit_start, hint->edit_start}, hint->edit_prefix},
      {{request->file, hint->edit_end, hint->edit_end}, hint->edit_suffix}};
  bool has_prefix_edit = *hint->edit_prefix;
  json_comma(request->out);
  buffer_puts(request->out, "{\"title\":");
  Buffer title = {0};
  buffer_printf(&title, "add the type: %s", hint->type);
  json_quote(request->out, title.text);
  buffer_free(&title);
  json_string_field(request->out, "kind", "refactor.rewrite");
  put_workspace_edit(request, has_prefix_edit ? edits : edits + 1,
                     has_prefix_edit ? 2 : 1);
  buffer_putc(request->out, '}');
}

/* True if actions of this kind are requested: "refactor" includes its
   subkinds. */
static bool is_requested_kind(const LspRequest *request, const char *kind) {
  const json_t *list = lsp_get(request->params, "context.only");
  if (!list || !json_is_array(list))
    return true;
  for (size_t i = 0; i < lsp_array_count(list); i++) {
    const char *wanted = lsp_string(lsp_array_item(list, i), "");
    size_t len = wanted ? strlen(wanted) : 0;
    if (wanted && strncmp(kind, wanted, len) == 0 &&
        (!kind[len] || kind[len] == '.' || !len))
      return true;
  }
  return false;
}

void lsp_code_action(LspRequest *request) {
  Position start, end;
  if (!lsp_get_position(lsp_get(request->params, "range.start"), &start) ||
      !lsp_get_position(lsp_get(request->params, "range.end"), &end))
    return;
  const Source *source = request->source;
  Range r = {request, (uint32_t)lsp_offset_of(source->text, source->len, start),
             (uint32_t)lsp_offset_of(source->text, source->len, end)};
  const Diags *diags = session_diags(request->session);
  buffer_putc(request->out, '[');
  for (uint32_t i = 0;
       is_requested_kind(request, "quickfix") && i < diags->all.len; i++) {
    const Diag *diag = diags->all.at[i];
    if (diag->span.file != request->file ||
        !overlaps(&r, diag->span.start, diag->span.end))
      continue;
    for (uint32_t k = 0; k < diag->fixit_count; k++)
      put_code_action(request, diag, k);
  }
  if (is_requested_kind(request, "refactor.rewrite"))
    editor_each_inlay_hint(request->session, r.start, r.end, true,
                           put_type_action, &r);
  buffer_putc(request->out, ']');
}
