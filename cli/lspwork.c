/* The process that checks one text and answers what is asked of it. */
#define _GNU_SOURCE
#include "cli/lsp.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SECONDS_MOST = 60 }; /* of computing: nobody waits for more */

bool lsp_write(int fd, const void *bytes, size_t len) {
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

/* Whoever asked is gone: so is the reason to go on. */
static void send_frame(const Work *work, FrameKind kind, int64_t number,
                       const char *body, size_t len) {
  Frame frame = {kind, (uint32_t)len, number};
  if (!lsp_write(work->channel, &frame, sizeof frame) ||
      !lsp_write(work->channel, body, len))
    exit(EXIT_OK);
}

/* ---- places ---- */

const char *work_uri(Work *work, uint32_t file) {
  const Source *source = sources_get(session_sources(work->session), file);
  if (!source || strcmp(source->name, work->path) == 0)
    return work->uri;
  char real[PATH_MAX];
  return lsp_uri(realpath(source->name, real) ? real : source->name);
}

void out_span(Ask *ask, Span span) {
  const Source *source = sources_get(session_sources(ask->session), span.file);
  if (source)
    out_range(ask->out, source->text, source->len, span.start, span.end);
  else
    buffer_puts(ask->out, "{\"start\":{\"line\":0,\"character\":0},"
                          "\"end\":{\"line\":0,\"character\":0}}");
}

void out_location(Ask *ask, Span span) {
  json_open(ask->out, NULL, '{');
  json_field(ask->out, "uri", work_uri(ask->work, span.file));
  json_key(ask->out, "range");
  out_span(ask, span);
  buffer_putc(ask->out, '}');
}

/* ---- what is asked ---- */

static const struct Method {
  const char *name;
  void (*ask)(Ask *ask);
} methods[] = {
    {"inlayHint/resolve", ask_hint_edits},
    {"textDocument/codeAction", ask_code_action},
    {"textDocument/completion", ask_completion},
    {"textDocument/definition", ask_definition},
    {"textDocument/documentHighlight", ask_highlight},
    {"textDocument/documentSymbol", ask_symbols},
    {"textDocument/formatting", ask_formatting},
    {"textDocument/hover", ask_hover},
    {"textDocument/inlayHint", ask_hints},
    {"textDocument/prepareRename", ask_prepare_rename},
    {"textDocument/references", ask_references},
    {"textDocument/rename", ask_rename},
    {"textDocument/signatureHelp", ask_signature},
};

static const struct Method *method_named(const char *name) {
  for (size_t i = 0; name && i < ARRAY_LEN(methods); i++)
    if (strcmp(methods[i].name, name) == 0)
      return &methods[i];
  return NULL;
}

bool work_answers(const char *method) { return method_named(method) != NULL; }

static void answer(Work *work, int64_t number, const json_t *request) {
  Buffer out = {0};
  const struct Method *method = method_named(lsp_string(request, "method"));
  Ask ask = {.work = work, .session = work->session, .out = &out,
             .file = session_file(work->session),
             .params = lsp_get(request, "params")};
  ask.source = sources_get(session_sources(ask.session), ask.file);
  Position at;
  if (lsp_get_position(lsp_get(ask.params, "position"), &at))
    ask.offset = (uint32_t)lsp_offset(ask.source->text, ask.source->len, at);
  buffer_puts(&out, "\"result\":");
  size_t empty = out.len;
  method->ask(&ask);
  if (ask.refused) {
    out.len = 0;
    buffer_puts(&out, "\"error\":{\"code\":-32803,\"message\":");
    json_text(&out, ask.refused);
    buffer_putc(&out, '}');
  } else if (out.len == empty) {
    buffer_puts(&out, "null");
  }
  send_frame(work, FRAME_ANSWER, number, out.text, out.len);
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
  const Work *work = owner;
  char real[PATH_MAX];
  const char *found = realpath(path, real) ? real : path;
  for (size_t i = 0; i < work->unsaved_count; i++)
    if (strcmp(work->unsaved[i].path, found) == 0 ||
        strcmp(work->unsaved[i].path, path) == 0) {
      const Buffer *b = work->unsaved[i].text;
      *text = b->text ? b->text : "";
      *len = b->len;
      return true;
    }
  return false;
}

static void tell_files(Work *work) {
  const Sources *sources = session_sources(work->session);
  for (uint32_t i = 1; i < sources->files.len; i++) {
    const Source *source = sources->files.at[i];
    char real[PATH_MAX];
    if (source->library)
      continue;
    const char *path = realpath(source->name, real) ? real : source->name;
    send_frame(work, FRAME_FILE, 0, path, strlen(path));
  }
}

static void limit_time(void) {
  struct rlimit limit = {SECONDS_MOST, SECONDS_MOST + 1};
  setrlimit(RLIMIT_CPU, &limit);
}

void work_send(Work *work, FrameKind kind, const Buffer *body) {
  send_frame(work, kind, 0, body->text ? body->text : "", body->len);
}

void work_run(Work *work) {
  limit_time();
  session_on_unsaved(work->session, unsaved_text, work);
  session_keep_places(work->session);
  session_clear_diags(work->session);
  session_check(work->session, &work->text);
  session_drop_waiting(work->session);
  tell_files(work);
  work_publish(work);
  send_frame(work, FRAME_DONE, 0, "", 0);
  Frame frame;
  while (read_all(work->channel, &frame, sizeof frame)) {
    char *body = mem_alloc(frame.len + 1);
    if (!read_all(work->channel, body, frame.len))
      break;
    json_t *request = lsp_parse(body, frame.len);
    if (request)
      answer(work, frame.number, request);
    lsp_free(request);
    mem_free(body);
  }
}
