/* The open documents as the editor has them, and for each a worker process that
   checks it.  Main entry points: documents_check_dirty and document_request. */
#define _GNU_SOURCE
#include "cli/lsp/server.h"
#include "support/json_writer.h"
#include "support/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- small things ---- */

/* Shows an error by the given method. */
static void message(Server *server, const char *method, const char *text) {
  Buffer out = {0};
  buffer_puts(&out, "{\"type\":1,\"message\":");
  json_quote(&out, text);
  buffer_putc(&out, '}');
  server_notify(server, method, out.text, out.len);
  buffer_free(&out);
}

static void log_message(Server *server, const char *text) {
  message(server, "window/logMessage", text);
}

static char *string_copy(const char *text) {
  size_t len = strlen(text) + 1;
  return memcpy(mem_alloc(len), text, len);
}

static void strings_free(StringNode **list) {
  while (*list) {
    StringNode *next = (*list)->next;
    mem_free((*list)->text);
    mem_free(*list);
    *list = next;
  }
}

static bool strings_contain(const StringNode *list, const char *text) {
  for (; list; list = list->next)
    if (strcmp(list->text, text) == 0)
      return true;
  return false;
}

static void strings_add(StringNode **list, const char *text) {
  if (strings_contain(*list, text))
    return;
  StringNode *word = mem_alloc(sizeof *word);
  *word = (StringNode){*list, string_copy(text)};
  *list = word;
}

Document *document_find(Server *server, const char *uri) {
  for (Document *document = server->documents; document;
       document = document->next)
    if (strcmp(document->uri, uri) == 0)
      return document;
  return NULL;
}

/* ---- workers ---- */

/* Answers the pending requests of a worker with an error. */
static void fail_pending(Server *server, Worker *w, int code, const char *why) {
  while (w->pending) {
    PendingRequest *p = w->pending;
    if (p->id)
      server_error(server, p->id, code, why);
    w->pending = p->next;
    mem_free(p->id);
    mem_free(p);
  }
}

/* Waits for the end of a worker and returns its status.  A worker that closed
   its channel gets some time before it is killed, so that its own status is
   seen. */
static int worker_reap(const Worker *w, bool closed) {
  enum { TRIES = 200, TRY_MS = 10 };
  int status = 0;
  for (int i = 0; closed && i < TRIES; i++) {
    pid_t ended = waitpid(w->pid, &status, WNOHANG);
    if (ended == w->pid)
      return status;
    if (ended == 0)
      poll(NULL, 0, TRY_MS);
  }
  kill(w->pid, SIGKILL);
  while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

static void worker_drop(Server *server, Worker *w, int code, const char *why) {
  close(w->channel);
  buffer_free(&w->in);
  buffer_free(&w->out);
  fail_pending(server, w, code, why);
  *w = (Worker){0};
}

static void worker_kill(Server *server, Worker *w, int code, const char *why) {
  if (!w->pid)
    return;
  worker_reap(w, false);
  worker_drop(server, w, code, why);
}

static NORETURN void worker_main(Server *server, Document *document,
                                 int channel) {
  size_t count = 0, i = 0;
  for (Document *d = server->documents; d; d = d->next)
    count++;
  struct UnsavedText *unsaved = mem_alloc(count * sizeof *unsaved);
  for (Document *d = server->documents; d; d = d->next) {
    if (d->worker.pid)
      close(d->worker.channel);
    unsaved[i++] = (struct UnsavedText){d->path, &d->text};
  }
  int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  WorkerState worker = {.session = server->session,
                        .options = server->options,
                        .uri = document->uri,
                        .path = document->path,
                        .version = document->version,
                        .root = server->root,
                        .unsaved_texts = unsaved,
                        .unsaved_count = count,
                        .markdown = server->markdown,
                        .related_information = server->related_information,
                        .channel = channel};
  worker.text =
      (SourceInput){.name = document->path,
                    .text = document->text.text ? document->text.text : "",
                    .len = document->text.len,
                    .is_separate_module = true};
  worker_run(&worker);
  exit(EXIT_OK);
}

static void worker_start(Server *server, Document *document) {
  worker_kill(server, &document->worker, CONTENT_MODIFIED,
              "the text has changed");
  document->dirty = false;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    close(sockets[0]);
    worker_main(server, document, sockets[1]);
  }
  close(sockets[1]);
  if (pid < 0) {
    close(sockets[0]);
    log_message(server, "axon lsp: cannot start a process");
    document->worker.failed = true;
    return;
  }
  fcntl(sockets[0], F_SETFL, O_NONBLOCK);
  strings_free(&document->publishing_uris);
  strings_free(&document->read_files);
  document->worker = (Worker){.pid = pid, .channel = sockets[0]};
}

void worker_flush(Worker *w) {
  while (w->out.len) {
    ssize_t n = send(w->channel, w->out.text, w->out.len, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return; /* try later; reading detects the end of the worker */
    memmove(w->out.text, w->out.text + n, w->out.len - (size_t)n);
    w->out.len -= (size_t)n;
  }
}

void document_request(Server *server, Document *document, const char *id,
                      const char *body, size_t len) {
  if (document->dirty)
    worker_start(server, document);
  Worker *w = &document->worker;
  if (!w->pid) {
    server_error(server, id, INTERNAL_ERROR, "cannot check this text");
    return;
  }
  PendingRequest *p = mem_alloc(sizeof *p);
  *p = (PendingRequest){w->pending, ++server->last_request_number,
                        string_copy(id)};
  w->pending = p;
  Frame frame = {FRAME_REQUEST, (uint32_t)len, p->number};
  buffer_add(&w->out, (const char *)&frame, sizeof frame);
  buffer_add(&w->out, body, len);
  worker_flush(w);
}

/* ---- from workers ---- */

static void publish_nothing(Server *server, const char *uri) {
  Buffer out = {0};
  buffer_puts(&out, "{\"uri\":");
  json_quote(&out, uri);
  buffer_puts(&out, ",\"diagnostics\":[]}");
  server_notify(server, "textDocument/publishDiagnostics", out.text, out.len);
  buffer_free(&out);
}

static void handle_published(Server *server, Document *document,
                             const char *body, size_t len) {
  const char *uri = body;
  size_t head = strlen(uri) + 1;
  if (strcmp(uri, document->uri) != 0) {
    if (document_find(server, uri)) /* its own worker reports it */
      return;
    strings_add(&document->publishing_uris, uri);
  }
  server_notify(server, "textDocument/publishDiagnostics", body + head,
                len - head);
}

static void handle_done(Server *server, Document *document) {
  for (StringNode *w = document->published_uris; w; w = w->next)
    if (!strings_contain(document->publishing_uris, w->text) &&
        !document_find(server, w->text))
      publish_nothing(server, w->text);
  strings_free(&document->published_uris);
  document->published_uris = document->publishing_uris;
  document->publishing_uris = NULL;
  document->worker.has_published = true;
  document->warned = false;
}

static void handle_response(Server *server, Worker *w, int64_t number,
                            const char *body, size_t len) {
  for (PendingRequest **at = &w->pending; *at; at = &(*at)->next) {
    PendingRequest *p = *at;
    if (p->number != number)
      continue;
    if (p->id)
      server_respond(server, p->id, body, len);
    *at = p->next;
    mem_free(p->id);
    mem_free(p);
    return;
  }
}

static void handle_frame(Server *server, Document *document, const Frame *frame,
                         const char *body) {
  switch ((FrameKind)frame->kind) {
  case FRAME_RESPONSE:
    handle_response(server, &document->worker, frame->request_number, body,
                    frame->len);
    return;
  case FRAME_PUBLISH:
    handle_published(server, document, body, frame->len);
    return;
  case FRAME_FILE: {
    Buffer path = {0};
    buffer_add(&path, body, frame->len);
    strings_add(&document->read_files, path.text);
    buffer_free(&path);
    return;
  }
  case FRAME_DONE:
    handle_done(server, document);
    return;
  case FRAME_NONE:
  case FRAME_REQUEST:
    return;
  }
}

static void handle_frames(Server *server, Document *document) {
  Buffer *in = &document->worker.in;
  size_t at = 0;
  Frame frame;
  while (in->len - at >= sizeof frame) {
    memcpy(&frame, in->text + at, sizeof frame);
    if (in->len - at - sizeof frame < frame.len)
      break;
    handle_frame(server, document, &frame, in->text + at + sizeof frame);
    at += sizeof frame + frame.len;
  }
  if (at) {
    memmove(in->text, in->text + at, in->len - at);
    in->len -= at;
  }
}

static void put_end(Buffer *out, int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    buffer_puts(out, "takes too long");
  else if (WIFSIGNALED(status))
    buffer_printf(out, "was stopped by a signal (%s)",
                  strsignal(WTERMSIG(status)));
  else
    buffer_printf(out, "exited with status %d", WEXITSTATUS(status));
}

/* Handles a worker that ended by itself: an internal error, or the text takes
   too long.  Each case is logged.  The user sees the first one until a check
   succeeds. */
static void worker_failed(Server *server, Document *document) {
  int status = worker_reap(&document->worker, true);
  Buffer text = {0};
  buffer_printf(&text, "axon lsp: checking %s ", document->path);
  put_end(&text, status);
  buffer_puts(&text, "; Axon tries again when the text changes");
  log_message(server, text.text);
  if (!document->warned)
    message(server, "window/showMessage", text.text);
  document->warned = true;
  buffer_free(&text);
  worker_drop(server, &document->worker, INTERNAL_ERROR,
              "checking this text ended unexpectedly");
  document->worker.failed = true;
}

void worker_read(Server *server, Document *document) {
  char part[64 * 1024];
  Worker *w = &document->worker;
  for (;;) {
    ssize_t n = read(w->channel, part, sizeof part);
    if (n > 0) {
      buffer_add(&w->in, part, (size_t)n);
      continue;
    }
    if (n < 0 && errno == EINTR)
      continue;
    handle_frames(server, document);
    if (n == 0 || errno != EAGAIN)
      worker_failed(server, document);
    return;
  }
}

/* ---- texts ---- */

/* Marks all documents that read this file to be checked again. */
void documents_mark_dirty(Server *server, const char *path) {
  for (Document *document = server->documents; document;
       document = document->next)
    if (!path || strings_contain(document->read_files, path) ||
        strcmp(document->path, path) == 0)
      document->dirty = true;
}

char *real_path(const char *uri) {
  char *path = lsp_path_of_uri(uri), real[PATH_MAX];
  if (*path != '/' || !realpath(path, real))
    return path;
  mem_free(path);
  return string_copy(real);
}

static void document_free(Server *server, Document *document) {
  worker_kill(server, &document->worker, CONTENT_MODIFIED,
              "the text was closed");
  strings_free(&document->published_uris);
  strings_free(&document->publishing_uris);
  strings_free(&document->read_files);
  buffer_free(&document->text);
  mem_free(document->uri);
  mem_free(document->path);
  mem_free(document);
}

void document_close(Server *server, const char *uri) {
  for (Document **at = &server->documents; *at; at = &(*at)->next) {
    Document *document = *at;
    if (strcmp(document->uri, uri) != 0)
      continue;
    *at = document->next;
    publish_nothing(server, document->uri);
    for (StringNode *w = document->published_uris; w; w = w->next)
      if (!document_find(server, w->text))
        publish_nothing(server, w->text);
    /* the file on disk is current again */
    documents_mark_dirty(server, document->path);
    document_free(server, document);
    return;
  }
}

void document_open(Server *server, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  const char *text = lsp_string(params, "textDocument.text");
  if (!uri || !text)
    return;
  document_close(server, uri);
  Document *document = mem_alloc(sizeof *document);
  *document = (Document){.next = server->documents,
                         .uri = string_copy(uri),
                         .path = real_path(uri),
                         .dirty = true};
  document->version = lsp_int(params, "textDocument.version", 0);
  buffer_add(&document->text, text,
             lsp_string_len(params, "textDocument.text"));
  server->documents = document;
  documents_mark_dirty(server, document->path);
}

static void apply_change(Document *document, const json_t *change) {
  const char *text = lsp_string(change, "text");
  size_t len = lsp_string_len(change, "text");
  Position start, end;
  if (!text)
    return;
  if (lsp_get_position(lsp_get(change, "range.start"), &start) &&
      lsp_get_position(lsp_get(change, "range.end"), &end)) {
    lsp_apply_edit(&document->text, start, end, text, len);
    return;
  }
  buffer_free(&document->text);
  buffer_add(&document->text, text, len);
}

void document_change(Server *server, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  Document *document = uri ? document_find(server, uri) : NULL;
  if (!document)
    return;
  const json_t *changes = lsp_get(params, "contentChanges");
  for (size_t i = 0; i < lsp_array_count(changes); i++)
    apply_change(document, lsp_array_item(changes, i));
  document->version =
      lsp_int(params, "textDocument.version", document->version + 1);
  documents_mark_dirty(server, document->path);
  if (!document->worker.has_published) /* its results would be out of date */
    worker_kill(server, &document->worker, CONTENT_MODIFIED,
                "the text has changed");
}

/* ---- all of them ---- */

bool documents_any_dirty(const Server *server) {
  for (const Document *document = server->documents; document;
       document = document->next)
    if (document->dirty)
      return true;
  return false;
}

void documents_check_dirty(Server *server) {
  for (Document *document = server->documents; document;
       document = document->next)
    if (document->dirty)
      worker_start(server, document);
}

void document_cancel(Server *server, const char *id) {
  for (Document *document = server->documents; document;
       document = document->next)
    for (PendingRequest *p = document->worker.pending; p; p = p->next)
      if (p->id && strcmp(p->id, id) == 0) {
        server_error(server, p->id, REQUEST_CANCELLED, "cancelled");
        mem_free(p->id);
        p->id = NULL;
        return;
      }
}

void documents_close(Server *server) {
  while (server->documents) {
    Document *document = server->documents;
    server->documents = document->next;
    document_free(server, document);
  }
}
