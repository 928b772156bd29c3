/* Diagnostics for an editor, and what it can do about them. */
#include "cli/lsp.h"

#include <string.h>

enum { NEVER_REACHED = 402 }; /* W0402: the editor greys it out */

/* ---- diagnostics ---- */

static void add_line(Buffer *out, const char *before, const char *text) {
  if (text)
    buffer_printf(out, "\n%s%s", before, text);
}

/* A step of the chain, where the editor does not show related places. */
static void add_steps(Buffer *out, const Diag *diag, const Sources *sources) {
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    const Source *source = sources_get(sources, step->span.file);
    uint32_t line = 0, column;
    if (source)
      source_place(source, step->span.start, &line, &column);
    buffer_printf(out, "\nline %u: %s%s%s", line,
                  step->shape ? step->shape : "",
                  step->shape && step->text ? "  " : "",
                  step->text ? step->text : "");
  }
}

static char *message_of(const Work *work, const Diag *diag) {
  Buffer out = {0};
  buffer_puts(&out, diag->message);
  add_line(&out, "", diag->label);
  add_line(&out, "", diag->witness);
  if (!work->related)
    add_steps(&out, diag, session_sources(work->session));
  add_line(&out, "", diag->note);
  add_line(&out, "help: ", diag->help);
  return out.text;
}

static void out_related(Ask *ask, Span span, const char *a, const char *b) {
  if (!span.file)
    return;
  Buffer text = {0};
  buffer_printf(&text, "%s%s%s", a ? a : "", a && b ? "  " : "", b ? b : "");
  json_comma(ask->out);
  buffer_puts(ask->out, "{\"location\":");
  out_location(ask, span);
  json_field(ask->out, "message", text.text ? text.text : "");
  buffer_putc(ask->out, '}');
  buffer_free(&text);
}

static void out_all_related(Ask *ask, const Diag *diag) {
  json_open(ask->out, "relatedInformation", '[');
  for (uint32_t i = 0; i < diag->step_count; i++)
    out_related(ask, diag->steps[i].span, diag->steps[i].shape,
                diag->steps[i].text);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    out_related(ask, diag->marks[i].span, diag->marks[i].label, NULL);
  buffer_putc(ask->out, ']');
}

static void out_diag(Ask *ask, const Diag *diag) {
  static const int severities[] = {
      [SEV_NONE] = 3, [SEV_ERROR] = 1, [SEV_WARNING] = 2, [SEV_NOTE] = 3};
  bool error = diag->severity == SEV_ERROR;
  Buffer *out = ask->out;
  json_comma(out);
  buffer_puts(out, "{\"range\":");
  out_span(ask, diag->span);
  buffer_printf(out,
                ",\"severity\":%d,\"code\":\"%c%04u\",\"source\":\"axon\"",
                severities[diag->severity], error ? 'E' : 'W', diag->code);
  char *message = message_of(ask->work, diag);
  json_field(out, "message", message);
  mem_free(message);
  if (!error && diag->code == NEVER_REACHED)
    buffer_puts(out, ",\"tags\":[1]");
  if (ask->work->related && diag->step_count + diag->mark_count)
    out_all_related(ask, diag);
  buffer_putc(out, '}');
}

/* A file may have been read twice: as the text, and by what it imports. */
static bool same_file(const Ask *ask, uint32_t a, uint32_t b) {
  const Source *x = sources_get(session_sources(ask->session), a);
  const Source *y = sources_get(session_sources(ask->session), b);
  return x && y && strcmp(x->name, y->name) == 0;
}

/* Those of one file; without a place they are told in the text itself. */
static bool is_of(const Ask *ask, const Diag *diag, uint32_t file) {
  const Source *source =
      sources_get(session_sources(ask->session), diag->span.file);
  bool nowhere = !source || source->library;
  return same_file(ask, nowhere ? ask->file : diag->span.file, file);
}

static void publish_file(Ask *ask, uint32_t file) {
  const Diags *diags = session_diags(ask->session);
  Buffer out = {0};
  const char *uri = work_uri(ask->work, file);
  buffer_add(&out, uri, strlen(uri) + 1);
  buffer_putc(&out, '{');
  json_field(&out, "uri", uri);
  if (file == ask->file)
    json_number(&out, "version", ask->work->version);
  json_open(&out, "diagnostics", '[');
  ask->out = &out;
  uint32_t count = 0;
  for (uint32_t i = 0; i < diags->all.len; i++)
    if (is_of(ask, diags->all.at[i], file)) {
      out_diag(ask, diags->all.at[i]);
      count++;
    }
  buffer_puts(&out, "]}");
  if (count || file == ask->file)
    work_send(ask->work, FRAME_PUBLISH, &out);
  buffer_free(&out);
}

void work_publish(Work *work) {
  Ask ask = {.work = work, .session = work->session,
             .file = session_file(work->session)};
  const Sources *sources = session_sources(work->session);
  publish_file(&ask, ask.file);
  for (uint32_t i = 1; i < sources->files.len; i++) {
    bool told = sources->files.at[i]->library || same_file(&ask, i, ask.file);
    for (uint32_t k = 1; k < i && !told; k++)
      told = same_file(&ask, i, k);
    if (!told)
      publish_file(&ask, i);
  }
}

/* ---- what can be done ---- */

/* Edits of one file or several, as a WorkspaceEdit, in order of file. */
static void out_edits(Ask *ask, const DiagEdit *edits, uint32_t count) {
  json_key(ask->out, "edit");
  buffer_puts(ask->out, "{\"changes\":{");
  for (uint32_t i = 0; i < count; i++) {
    if (!i || edits[i].span.file != edits[i - 1].span.file) {
      buffer_puts(ask->out, i ? "]" : "");
      json_open(ask->out, work_uri(ask->work, edits[i].span.file), '[');
    }
    json_comma(ask->out);
    buffer_puts(ask->out, "{\"range\":");
    out_span(ask, edits[i].span);
    json_field(ask->out, "newText", edits[i].text);
    buffer_putc(ask->out, '}');
  }
  buffer_puts(ask->out, count ? "]}}" : "}}");
}

static void out_fix(Ask *ask, const Diag *diag, uint32_t number) {
  const DiagFix *fix = &diag->fixes[number];
  for (uint32_t i = 0; i < fix->edit_count; i++) {
    const Source *source = sources_get(session_sources(ask->session),
                                       fix->edits[i].span.file);
    if (!source || source->library)
      return;
  }
  json_open(ask->out, NULL, '{');
  json_field(ask->out, "title", fix->title);
  json_field(ask->out, "kind", "quickfix");
  if (!number)
    buffer_puts(ask->out, ",\"isPreferred\":true");
  json_open(ask->out, "diagnostics", '[');
  out_diag(ask, diag);
  buffer_putc(ask->out, ']');
  out_edits(ask, fix->edits, fix->edit_count);
  buffer_putc(ask->out, '}');
}

typedef struct Range {
  Ask *ask;
  uint32_t start, end;
} Range;

static bool touches(const Range *r, uint32_t start, uint32_t end) {
  return start <= r->end && r->start <= end;
}

static void out_hint(void *arg, const Hint *hint) {
  Range *r = arg;
  Ask *ask = r->ask;
  bool stage = hint->kind == HINT_STAGE;
  if (!hint->behind || !touches(r, hint->before_at, hint->behind_at) ||
      (stage && !touches(r, hint->at, hint->at)))
    return;
  DiagEdit edits[2] = {
      {{ask->file, hint->before_at, hint->before_at}, hint->before},
      {{ask->file, hint->behind_at, hint->behind_at}, hint->behind}};
  bool both = *hint->before;
  json_comma(ask->out);
  buffer_puts(ask->out, "{\"title\":");
  Buffer title = {0};
  buffer_printf(&title, "write the type: %s", hint->type);
  json_text(ask->out, title.text);
  buffer_free(&title);
  json_field(ask->out, "kind", "refactor.rewrite");
  out_edits(ask, both ? edits : edits + 1, both ? 2 : 1);
  buffer_putc(ask->out, '}');
}

/* Whether actions of a kind are asked for: "refactor" asks for its parts. */
static bool only(const Ask *ask, const char *kind) {
  const json_t *list = lsp_get(ask->params, "context.only");
  if (!list || !json_is_array(list))
    return true;
  for (size_t i = 0; i < lsp_count(list); i++) {
    const char *wanted = lsp_string(lsp_item(list, i), "");
    size_t len = wanted ? strlen(wanted) : 0;
    if (wanted && strncmp(kind, wanted, len) == 0 &&
        (!kind[len] || kind[len] == '.' || !len))
      return true;
  }
  return false;
}

void ask_code_action(Ask *ask) {
  Position start, end;
  if (!lsp_get_position(lsp_get(ask->params, "range.start"), &start) ||
      !lsp_get_position(lsp_get(ask->params, "range.end"), &end))
    return;
  const Source *source = ask->source;
  Range r = {ask, (uint32_t)lsp_offset(source->text, source->len, start),
             (uint32_t)lsp_offset(source->text, source->len, end)};
  const Diags *diags = session_diags(ask->session);
  buffer_putc(ask->out, '[');
  for (uint32_t i = 0; only(ask, "quickfix") && i < diags->all.len; i++) {
    const Diag *diag = diags->all.at[i];
    if (diag->span.file != ask->file ||
        !touches(&r, diag->span.start, diag->span.end))
      continue;
    for (uint32_t k = 0; k < diag->fix_count; k++)
      out_fix(ask, diag, k);
  }
  if (only(ask, "refactor.rewrite"))
    session_each_hint(ask->session, r.start, r.end, true, out_hint, &r);
  buffer_putc(ask->out, ']');
}
