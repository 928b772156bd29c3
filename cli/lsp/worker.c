/* Worker process of the language server: checks one text and answers requests
   about it.  Main entry point: worker_run. */
#define _GNU_SOURCE
#include "cli/lsp/lsp.h"
#include "support/buffer.h"
#include "support/json_writer.h"
#include "support/mem.h"
#include "support/source.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_CPU_SECONDS = 60 }; /* CPU seconds; a longer check is aborted */

bool lsp_write_all(int fd, const void *bytes, size_t len) {
  const char *p = bytes;
  while (len) {
    ssize_t n = write(fd, p, len);
    if (n < 0 && errno == EAGAIN) {
      struct pollfd ready = {.fd = fd, .events = POLLOUT};
      poll(&ready, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return false;
    } else if (n > 0) {
      p += n, len -= (size_t)n;
    }
  }
  return true;
}

/* Sends a frame.  If the server is gone, the worker exits. */
static void send_frame(const WorkerState *worker, FrameKind kind,
                       int64_t number, const char *body, size_t len) {
  Frame frame = {kind, (uint32_t)len, number};
  if (!lsp_write_all(worker->channel, &frame, sizeof frame) ||
      !lsp_write_all(worker->channel, body, len))
    exit(EXIT_OK);
}

/* ---- places ---- */

const char *worker_uri_of_file(WorkerState *worker, uint32_t file) {
  const Source *source = sources_get(session_sources(worker->session), file);
  if (!source || strcmp(source->name, worker->path) == 0)
    return worker->uri;
  char real[PATH_MAX];
  return lsp_uri_of_path(realpath(source->name, real) ? real : source->name);
}

void lsp_put_span(LspRequest *request, Span span) {
  const Source *source =
      sources_get(session_sources(request->session), span.file);
  if (source)
    lsp_put_range(request->out, source->text, source->len, span.start,
                  span.end);
  else
    buffer_puts(request->out, "{\"start\":{\"line\":0,\"character\":0},"
                              "\"end\":{\"line\":0,\"character\":0}}");
}

void lsp_put_location(LspRequest *request, Span span) {
  json_open(request->out, NULL, '{');
  json_string_field(request->out, "uri",
                    worker_uri_of_file(request->worker, span.file));
  json_key(request->out, "range");
  lsp_put_span(request, span);
  buffer_putc(request->out, '}');
}

/* ---- what is asked ---- */

static const struct LspMethod {
  const char *name;
  void (*handle)(LspRequest *request);
} methods[] = {
    {"inlayHint/resolve", lsp_inlay_hint_resolve},
    {"textDocument/codeAction", lsp_code_action},
    {"textDocument/completion", lsp_completion},
    {"textDocument/definition", lsp_definition},
    {"textDocument/documentHighlight", lsp_document_highlight},
    {"textDocument/documentSymbol", lsp_document_symbols},
    {"textDocument/formatting", lsp_formatting},
    {"textDocument/hover", lsp_hover},
    {"textDocument/inlayHint", lsp_inlay_hints},
    {"textDocument/prepareRename", lsp_prepare_rename},
    {"textDocument/references", lsp_references},
    {"textDocument/rename", lsp_rename},
    {"textDocument/signatureHelp", lsp_signature_help},
};

static const struct LspMethod *find_method(const char *name) {
  for (size_t i = 0; name && i < ARRAY_LEN(methods); i++)
    if (strcmp(methods[i].name, name) == 0)
      return &methods[i];
  return NULL;
}

bool worker_has_method(const char *method) {
  return find_method(method) != NULL;
}

static void handle_request(WorkerState *worker, int64_t number,
                           const json_t *request) {
  Buffer out = {0};
  const struct LspMethod *method = find_method(lsp_string(request, "method"));
  LspRequest ask = {.worker = worker,
                    .session = worker->session,
                    .out = &out,
                    .file = session_current_file(worker->session),
                    .params = lsp_get(request, "params")};
  ask.source = sources_get(session_sources(ask.session), ask.file);
  Position at;
  if (lsp_get_position(lsp_get(ask.params, "position"), &at))
    ask.offset = (uint32_t)lsp_offset_of(ask.source->text, ask.source->len, at);
  buffer_puts(&out, "\"result\":");
  size_t empty = out.len;
  method->handle(&ask);
  if (ask.error_message) {
    out.len = 0;
    buffer_puts(&out, "\"error\":{\"code\":-32803,\"message\":");
    json_quote(&out, ask.error_message);
    buffer_putc(&out, '}');
  } else if (out.len == empty) {
    buffer_puts(&out, "null");
  }
  send_frame(worker, FRAME_RESPONSE, number, out.text, out.len);
  buffer_free(&out);
}

static bool read_all(int fd, void *bytes, size_t len) {
  char *p = bytes;
  while (len) {
    ssize_t n = read(fd, p, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    p += n, len -= (size_t)n;
  }
  return true;
}

/* ---- checking ---- */

static bool unsaved_text(void *owner, const char *path, const char **text,
                         size_t *len) {
  const WorkerState *worker = owner;
  char real[PATH_MAX];
  const char *found = realpath(path, real) ? real : path;
  for (size_t i = 0; i < worker->unsaved_count; i++)
    if (strcmp(worker->unsaved_texts[i].path, found) == 0 ||
        strcmp(worker->unsaved_texts[i].path, path) == 0) {
      const Buffer *b = worker->unsaved_texts[i].text;
      *text = b->text ? b->text : "";
      *len = b->len;
      return true;
    }
  return false;
}

static void send_files(WorkerState *worker) {
  const Sources *sources = session_sources(worker->session);
  for (uint32_t i = 1; i < sources->files.len; i++) {
    const Source *source = sources->files.at[i];
    char real[PATH_MAX];
    if (source->is_library)
      continue;
    const char *path = realpath(source->name, real) ? real : source->name;
    send_frame(worker, FRAME_FILE, 0, path, strlen(path));
  }
}

static void limit_cpu_time(void) {
  struct rlimit limit = {MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1};
  setrlimit(RLIMIT_CPU, &limit);
}

void worker_send(WorkerState *worker, FrameKind kind, const Buffer *body) {
  send_frame(worker, kind, 0, body->text ? body->text : "", body->len);
}

void worker_run(WorkerState *worker) {
  limit_cpu_time();
  session_set_unsaved_files(worker->session, unsaved_text, worker);
  session_record_refs(worker->session);
  session_clear_diags(worker->session);
  session_check(worker->session, &worker->text);
  session_discard_pending(worker->session);
  send_files(worker);
  worker_publish_diagnostics(worker);
  send_frame(worker, FRAME_DONE, 0, "", 0);
  Frame frame;
  while (read_all(worker->channel, &frame, sizeof frame)) {
    char *body = mem_alloc(frame.len + 1);
    if (!read_all(worker->channel, body, frame.len))
      break;
    json_t *request = lsp_parse_json(body, frame.len);
    if (request)
      handle_request(worker, frame.request_number, request);
    lsp_json_free(request);
    mem_free(body);
  }
}
