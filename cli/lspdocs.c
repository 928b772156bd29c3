/* The texts that are open, as the editor has them, and for each the process
 * that checks it. */
#define _GNU_SOURCE
#include "cli/lspserver.h"

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

/* An error, by this method. */
static void message(Server *v, const char *method, const char *text) {
  Buffer out = {0};
  buffer_puts(&out, "{\"type\":1,\"message\":");
  json_text(&out, text);
  buffer_putc(&out, '}');
  server_notify(v, method, out.text, out.len);
  buffer_free(&out);
}

static void log_message(Server *v, const char *text) {
  message(v, "window/logMessage", text);
}

static char *copy(const char *text) {
  size_t len = strlen(text) + 1;
  return memcpy(mem_alloc(len), text, len);
}

static void words_free(Word **list) {
  while (*list) {
    Word *next = (*list)->next;
    mem_free((*list)->text);
    mem_free(*list);
    *list = next;
  }
}

static bool words_have(const Word *list, const char *text) {
  for (; list; list = list->next)
    if (strcmp(list->text, text) == 0)
      return true;
  return false;
}

static void words_add(Word **list, const char *text) {
  if (words_have(*list, text))
    return;
  Word *word = mem_alloc(sizeof *word);
  *word = (Word){*list, copy(text)};
  *list = word;
}

Doc *doc_of(Server *v, const char *uri) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (strcmp(doc->uri, uri) == 0)
      return doc;
  return NULL;
}

/* ---- workers ---- */

/* What it was asked and has not answered: that is told. */
static void drop_pending(Server *v, Worker *w, int code, const char *why) {
  while (w->pending) {
    Pending *p = w->pending;
    if (p->id)
      server_error(v, p->id, code, why);
    w->pending = p->next;
    mem_free(p->id);
    mem_free(p);
  }
}

/* How it ended.  One that has closed its channel gets some time to do so
 * before it is killed, so that its own end is seen. */
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

static void worker_drop(Server *v, Worker *w, int code, const char *why) {
  close(w->channel);
  buffer_free(&w->in);
  buffer_free(&w->out);
  drop_pending(v, w, code, why);
  *w = (Worker){0};
}

static void worker_end(Server *v, Worker *w, int code, const char *why) {
  if (!w->pid)
    return;
  worker_reap(w, false);
  worker_drop(v, w, code, why);
}

static NORETURN void work(Server *v, Doc *doc, int channel) {
  size_t count = 0, i = 0;
  for (Doc *d = v->docs; d; d = d->next)
    count++;
  struct Unsaved *unsaved = mem_alloc(count * sizeof *unsaved);
  for (Doc *d = v->docs; d; d = d->next) {
    if (d->worker.pid)
      close(d->worker.channel);
    unsaved[i++] = (struct Unsaved){d->path, &d->text};
  }
  int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  Work work = {.session = v->session, .options = v->options, .uri = doc->uri,
               .path = doc->path, .version = doc->version, .root = v->root,
               .unsaved = unsaved, .unsaved_count = count,
               .markdown = v->markdown, .related = v->related,
               .channel = channel};
  work.text = (SessionText){.name = doc->path,
                            .text = doc->text.text ? doc->text.text : "",
                            .len = doc->text.len,
                            .own_module = true};
  work_run(&work);
  exit(EXIT_OK);
}

static void worker_begin(Server *v, Doc *doc) {
  worker_end(v, &doc->worker, CONTENT_MODIFIED, "the text has changed");
  doc->dirty = false;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    work(v, doc, ends[1]);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    log_message(v, "axon lsp: no process could be started");
    doc->worker.failed = true;
    return;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  words_free(&doc->telling);
  words_free(&doc->files);
  doc->worker = (Worker){.pid = pid, .channel = ends[0]};
}

void worker_flush(Worker *w) {
  while (w->out.len) {
    ssize_t n = send(w->channel, w->out.text, w->out.len, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return; /* later; an end is seen when it is read from */
    memmove(w->out.text, w->out.text + n, w->out.len - (size_t)n);
    w->out.len -= (size_t)n;
  }
}

void doc_ask(Server *v, Doc *doc, const char *id, const char *body,
             size_t len) {
  if (doc->dirty)
    worker_begin(v, doc);
  Worker *w = &doc->worker;
  if (!w->pid) {
    server_error(v, id, INTERNAL_ERROR, "this text could not be checked");
    return;
  }
  Pending *p = mem_alloc(sizeof *p);
  *p = (Pending){w->pending, ++v->number, copy(id)};
  w->pending = p;
  Frame frame = {FRAME_ASK, (uint32_t)len, p->number};
  buffer_add(&w->out, (const char *)&frame, sizeof frame);
  buffer_add(&w->out, body, len);
  worker_flush(w);
}

/* ---- from workers ---- */

static void publish_nothing(Server *v, const char *uri) {
  Buffer out = {0};
  buffer_puts(&out, "{\"uri\":");
  json_text(&out, uri);
  buffer_puts(&out, ",\"diagnostics\":[]}");
  server_notify(v, "textDocument/publishDiagnostics", out.text, out.len);
  buffer_free(&out);
}

static void take_published(Server *v, Doc *doc, const char *body,
                           size_t len) {
  const char *uri = body;
  size_t head = strlen(uri) + 1;
  if (strcmp(uri, doc->uri) != 0) {
    if (doc_of(v, uri)) /* its own worker tells of it */
      return;
    words_add(&doc->telling, uri);
  }
  server_notify(v, "textDocument/publishDiagnostics", body + head, len - head);
}

static void take_done(Server *v, Doc *doc) {
  for (Word *w = doc->told; w; w = w->next)
    if (!words_have(doc->telling, w->text) && !doc_of(v, w->text))
      publish_nothing(v, w->text);
  words_free(&doc->told);
  doc->told = doc->telling;
  doc->telling = NULL;
  doc->worker.done = true;
  doc->warned = false;
}

static void take_answer(Server *v, Worker *w, int64_t number,
                        const char *body, size_t len) {
  for (Pending **at = &w->pending; *at; at = &(*at)->next) {
    Pending *p = *at;
    if (p->number != number)
      continue;
    if (p->id)
      server_answer(v, p->id, body, len);
    *at = p->next;
    mem_free(p->id);
    mem_free(p);
    return;
  }
}

static void take_frame(Server *v, Doc *doc, const Frame *frame,
                       const char *body) {
  switch ((FrameKind)frame->kind) {
  case FRAME_ANSWER:
    take_answer(v, &doc->worker, frame->number, body, frame->len);
    return;
  case FRAME_PUBLISH:
    take_published(v, doc, body, frame->len);
    return;
  case FRAME_FILE: {
    Buffer path = {0};
    buffer_add(&path, body, frame->len);
    words_add(&doc->files, path.text);
    buffer_free(&path);
    return;
  }
  case FRAME_DONE:
    take_done(v, doc);
    return;
  case FRAME_NONE:
  case FRAME_ASK:
    return;
  }
}

static void take_frames(Server *v, Doc *doc) {
  Buffer *in = &doc->worker.in;
  size_t at = 0;
  Frame frame;
  while (in->len - at >= sizeof frame) {
    memcpy(&frame, in->text + at, sizeof frame);
    if (in->len - at - sizeof frame < frame.len)
      break;
    take_frame(v, doc, &frame, in->text + at + sizeof frame);
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
    buffer_printf(out, "was ended by a signal (%s)",
                  strsignal(WTERMSIG(status)));
  else
    buffer_printf(out, "ended with status %d", WEXITSTATUS(status));
}

/* It ended by itself: a fault of ours, or the text takes too long.  The log has
 * each time, and the user is shown the first one until a check succeeds. */
static void worker_failed(Server *v, Doc *doc) {
  int status = worker_reap(&doc->worker, true);
  Buffer text = {0};
  buffer_printf(&text, "axon lsp: checking %s ", doc->path);
  put_end(&text, status);
  buffer_puts(&text, "; it is tried again when the text changes");
  log_message(v, text.text);
  if (!doc->warned)
    message(v, "window/showMessage", text.text);
  doc->warned = true;
  buffer_free(&text);
  worker_drop(v, &doc->worker, INTERNAL_ERROR,
              "checking this text ended unexpectedly");
  doc->worker.failed = true;
}

void worker_read(Server *v, Doc *doc) {
  char part[64 * 1024];
  Worker *w = &doc->worker;
  for (;;) {
    ssize_t n = read(w->channel, part, sizeof part);
    if (n > 0) {
      buffer_add(&w->in, part, (size_t)n);
      continue;
    }
    if (n < 0 && errno == EINTR)
      continue;
    take_frames(v, doc);
    if (n == 0 || errno != EAGAIN)
      worker_failed(v, doc);
    return;
  }
}

/* ---- texts ---- */

/* All that read this file are to be checked again. */
void docs_touch(Server *v, const char *path) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (!path || words_have(doc->files, path) || strcmp(doc->path, path) == 0)
      doc->dirty = true;
}

char *real_path(const char *uri) {
  char *path = lsp_path(uri), real[PATH_MAX];
  if (*path != '/' || !realpath(path, real))
    return path;
  mem_free(path);
  return copy(real);
}

static void doc_free(Server *v, Doc *doc) {
  worker_end(v, &doc->worker, CONTENT_MODIFIED, "the text was closed");
  words_free(&doc->told);
  words_free(&doc->telling);
  words_free(&doc->files);
  buffer_free(&doc->text);
  mem_free(doc->uri);
  mem_free(doc->path);
  mem_free(doc);
}

void doc_close(Server *v, const char *uri) {
  for (Doc **at = &v->docs; *at; at = &(*at)->next) {
    Doc *doc = *at;
    if (strcmp(doc->uri, uri) != 0)
      continue;
    *at = doc->next;
    publish_nothing(v, doc->uri);
    for (Word *w = doc->told; w; w = w->next)
      if (!doc_of(v, w->text))
        publish_nothing(v, w->text);
    docs_touch(v, doc->path); /* what is on disk counts again */
    doc_free(v, doc);
    return;
  }
}

void doc_open(Server *v, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  const char *text = lsp_string(params, "textDocument.text");
  if (!uri || !text)
    return;
  doc_close(v, uri);
  Doc *doc = mem_alloc(sizeof *doc);
  *doc = (Doc){.next = v->docs, .uri = copy(uri), .path = real_path(uri),
               .dirty = true};
  doc->version = lsp_int(params, "textDocument.version", 0);
  buffer_add(&doc->text, text,
             lsp_string_len(params, "textDocument.text"));
  v->docs = doc;
  docs_touch(v, doc->path);
}

static void change_one(Doc *doc, const json_t *change) {
  const char *text = lsp_string(change, "text");
  size_t len = lsp_string_len(change, "text");
  Position start, end;
  if (!text)
    return;
  if (lsp_get_position(lsp_get(change, "range.start"), &start) &&
      lsp_get_position(lsp_get(change, "range.end"), &end)) {
    lsp_edit(&doc->text, start, end, text, len);
    return;
  }
  buffer_free(&doc->text);
  buffer_add(&doc->text, text, len);
}

void doc_change(Server *v, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  Doc *doc = uri ? doc_of(v, uri) : NULL;
  if (!doc)
    return;
  const json_t *changes = lsp_get(params, "contentChanges");
  for (size_t i = 0; i < lsp_count(changes); i++)
    change_one(doc, lsp_item(changes, i));
  doc->version = lsp_int(params, "textDocument.version", doc->version + 1);
  docs_touch(v, doc->path);
  if (!doc->worker.done) /* what it would say is out of date */
    worker_end(v, &doc->worker, CONTENT_MODIFIED, "the text has changed");
}

/* ---- all of them ---- */

bool docs_dirty(const Server *v) {
  for (const Doc *doc = v->docs; doc; doc = doc->next)
    if (doc->dirty)
      return true;
  return false;
}

void docs_begin(Server *v) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (doc->dirty)
      worker_begin(v, doc);
}

void doc_cancel(Server *v, const char *id) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    for (Pending *p = doc->worker.pending; p; p = p->next)
      if (p->id && strcmp(p->id, id) == 0) {
        server_error(v, p->id, CANCELLED, "cancelled");
        mem_free(p->id);
        p->id = NULL;
        return;
      }
}

void docs_close(Server *v) {
  while (v->docs) {
    Doc *doc = v->docs;
    v->docs = doc->next;
    doc_free(v, doc);
  }
}
