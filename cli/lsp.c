/* axon lsp: the server's one process that speaks with the editor.  JSON-RPC 2.0
 * with Content-Length headers on standard input and output. */
#define _GNU_SOURCE
#include "cli/lsp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  HEADER_MOST = 8 * 1024,
  QUIET_MS = 5, /* so long nothing comes before a changed text is checked */
  /* error codes */
  PARSE_ERROR = -32700,
  INVALID_REQUEST = -32600,
  METHOD_NOT_FOUND = -32601,
  INVALID_PARAMS = -32602,
  INTERNAL_ERROR = -32603,
  NOT_INITIALIZED = -32002,
  CANCELLED = -32800,
  CONTENT_MODIFIED = -32801,
};

typedef struct Pending { /* a request that a worker is to answer */
  struct Pending *next;
  int64_t number;
  char *id; /* as JSON; NULL: it was cancelled, and answered */
} Pending;

typedef struct Word { /* of a list of texts */
  struct Word *next;
  char *text;
} Word;

typedef struct Worker {
  pid_t pid;
  int channel;
  Buffer in, out; /* what came and is no whole frame; what is still to go */
  Pending *pending;
  bool done;   /* it has published all */
  bool failed; /* it ended by itself: not tried again with this text */
} Worker;

typedef struct Doc {
  struct Doc *next;
  char *uri, *path;
  Buffer text;
  int64_t version;
  bool dirty; /* newer than what its worker knows */
  Worker worker;
  Word *told, *telling; /* URIs of others that diagnostics were published for:
                           by the worker before, and by this one */
  Word *files;          /* that took part */
} Doc;

typedef struct Server {
  const Options *options;
  Session *session; /* knows the library, never a text */
  Doc *docs;
  Buffer in;
  int64_t number; /* of the last request handed on */
  bool initialized, shut_down, over;
  int status;
  char *root;
  bool markdown, related, resolves;
} Server;

/* ---- to the editor ---- */

static void send_body(Server *v, const char *body, size_t len) {
  char header[64];
  int n = snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", len);
  if (!lsp_write(STDOUT_FILENO, header, (size_t)n) ||
      !lsp_write(STDOUT_FILENO, body, len)) {
    v->over = true; /* nobody listens any more */
    v->status = EXIT_DIAGNOSTICS;
  }
}

static void send_answer(Server *v, const char *id, const char *rest,
                        size_t len) {
  Buffer out = {0};
  buffer_printf(&out, "{\"jsonrpc\":\"2.0\",\"id\":%s,", id ? id : "null");
  buffer_add(&out, rest, len);
  buffer_putc(&out, '}');
  send_body(v, out.text, out.len);
  buffer_free(&out);
}

static void send_error(Server *v, const char *id, int code,
                       const char *message) {
  Buffer out = {0};
  buffer_printf(&out, "\"error\":{\"code\":%d,\"message\":", code);
  out_text(&out, message);
  buffer_putc(&out, '}');
  send_answer(v, id, out.text, out.len);
  buffer_free(&out);
}

static void send_result(Server *v, const char *id, const char *json) {
  Buffer out = {0};
  buffer_printf(&out, "\"result\":%s", json);
  send_answer(v, id, out.text, out.len);
  buffer_free(&out);
}

static void notify(Server *v, const char *method, const char *params,
                   size_t len) {
  Buffer out = {0};
  buffer_puts(&out, "{\"jsonrpc\":\"2.0\",\"method\":");
  out_text(&out, method);
  buffer_puts(&out, ",\"params\":");
  buffer_add(&out, params, len);
  buffer_putc(&out, '}');
  send_body(v, out.text, out.len);
  buffer_free(&out);
}

static void log_message(Server *v, const char *text) {
  Buffer out = {0};
  buffer_puts(&out, "{\"type\":1,\"message\":");
  out_text(&out, text);
  buffer_putc(&out, '}');
  notify(v, "window/logMessage", out.text, out.len);
  buffer_free(&out);
}

/* ---- small things ---- */

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

static Doc *doc_of(Server *v, const char *uri) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (strcmp(doc->uri, uri) == 0)
      return doc;
  return NULL;
}

/* ---- workers ---- */

/* What it was asked and has not answered. */
static void drop_pending(Server *v, Worker *w, int code, const char *why) {
  while (w->pending) {
    Pending *p = w->pending;
    if (p->id)
      send_error(v, p->id, code, why);
    w->pending = p->next;
    mem_free(p->id);
    mem_free(p);
  }
}

static void worker_end(Server *v, Worker *w, int code, const char *why) {
  if (!w->pid)
    return;
  kill(w->pid, SIGKILL);
  while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  close(w->channel);
  buffer_free(&w->in);
  buffer_free(&w->out);
  drop_pending(v, w, code, why);
  *w = (Worker){0};
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
               .resolves = v->resolves,
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

static void worker_flush(Worker *w) {
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

static void worker_ask(Server *v, Doc *doc, const char *id, const char *body,
                       size_t len) {
  if (doc->dirty)
    worker_begin(v, doc);
  Worker *w = &doc->worker;
  if (!w->pid) {
    send_error(v, id, INTERNAL_ERROR, "this text could not be checked");
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
  out_text(&out, uri);
  buffer_puts(&out, ",\"diagnostics\":[]}");
  notify(v, "textDocument/publishDiagnostics", out.text, out.len);
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
  notify(v, "textDocument/publishDiagnostics", body + head, len - head);
}

static void take_done(Server *v, Doc *doc) {
  for (Word *w = doc->told; w; w = w->next)
    if (!words_have(doc->telling, w->text) && !doc_of(v, w->text))
      publish_nothing(v, w->text);
  words_free(&doc->told);
  doc->told = doc->telling;
  doc->telling = NULL;
  doc->worker.done = true;
}

static void take_answer(Server *v, Worker *w, int64_t number,
                        const char *body, size_t len) {
  for (Pending **at = &w->pending; *at; at = &(*at)->next) {
    Pending *p = *at;
    if (p->number != number)
      continue;
    if (p->id)
      send_answer(v, p->id, body, len);
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

/* It ended by itself: a fault of ours, or the text takes too long. */
static void worker_failed(Server *v, Doc *doc) {
  bool done = doc->worker.done;
  worker_end(v, &doc->worker, INTERNAL_ERROR,
             "checking this text ended unexpectedly");
  doc->worker.failed = true;
  if (!done)
    log_message(v, "axon lsp: checking a text ended unexpectedly; it is "
                   "tried again when the text changes");
}

static void worker_read(Server *v, Doc *doc) {
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
static void touched(Server *v, const char *path) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (!path || words_have(doc->files, path) || strcmp(doc->path, path) == 0)
      doc->dirty = true;
}

static char *real_path(const char *uri) {
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

static void close_doc(Server *v, const char *uri) {
  for (Doc **at = &v->docs; *at; at = &(*at)->next) {
    Doc *doc = *at;
    if (strcmp(doc->uri, uri) != 0)
      continue;
    *at = doc->next;
    publish_nothing(v, doc->uri);
    for (Word *w = doc->told; w; w = w->next)
      if (!doc_of(v, w->text))
        publish_nothing(v, w->text);
    touched(v, doc->path); /* what is on disk counts again */
    doc_free(v, doc);
    return;
  }
}

static void open_doc(Server *v, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  const char *text = lsp_string(params, "textDocument.text");
  if (!uri || !text)
    return;
  close_doc(v, uri);
  Doc *doc = mem_alloc(sizeof *doc);
  *doc = (Doc){.next = v->docs, .uri = copy(uri), .path = real_path(uri),
               .dirty = true};
  doc->version = lsp_int(params, "textDocument.version", 0);
  buffer_add(&doc->text, text,
             lsp_string_len(params, "textDocument.text"));
  v->docs = doc;
  touched(v, doc->path);
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

static void change_doc(Server *v, const json_t *params) {
  const char *uri = lsp_string(params, "textDocument.uri");
  Doc *doc = uri ? doc_of(v, uri) : NULL;
  if (!doc)
    return;
  const json_t *changes = lsp_get(params, "contentChanges");
  for (size_t i = 0; i < lsp_count(changes); i++)
    change_one(doc, lsp_item(changes, i));
  doc->version = lsp_int(params, "textDocument.version", doc->version + 1);
  touched(v, doc->path);
  if (!doc->worker.done) /* what it would say is out of date */
    worker_end(v, &doc->worker, CONTENT_MODIFIED, "the text has changed");
}

/* ---- requests and notifications ---- */

static const char capabilities[] =
    "\"textDocumentSync\":{\"openClose\":true,\"change\":2,\"save\":true},"
    "\"hoverProvider\":true,\"definitionProvider\":true,"
    "\"referencesProvider\":true,\"documentHighlightProvider\":true,"
    "\"documentSymbolProvider\":true,\"documentFormattingProvider\":true,"
    "\"renameProvider\":{\"prepareProvider\":true},"
    "\"completionProvider\":{\"triggerCharacters\":[\".\",\"~\"]},"
    "\"signatureHelpProvider\":{\"triggerCharacters\":[\" \",\"~\"]},"
    "\"inlayHintProvider\":{\"resolveProvider\":true},"
    "\"codeActionProvider\":{\"codeActionKinds\":[\"quickfix\","
    "\"refactor.rewrite\"]}},"
    "\"serverInfo\":{\"name\":\"axon\",\"version\":\"" AXON_VERSION "\"}}";

/* All names of the library are checked once, before any text. */
static void warm_name(void *arg, const char *name) {
  Session *session = arg;
  Binding *binding = session_find(session, name);
  if (binding)
    session_binding_type(session, binding);
}

static void initialize(Server *v, const char *id, const json_t *params) {
  const json_t *client = lsp_get(params, "capabilities");
  const json_t *text = lsp_get(client, "textDocument");
  lsp_counts_bytes =
      lsp_has_string(lsp_get(client, "general.positionEncodings"), "utf-8");
  v->markdown =
      lsp_has_string(lsp_get(text, "hover.contentFormat"), "markdown");
  v->related = lsp_bool(text, "publishDiagnostics.relatedInformation");
  v->resolves =
      lsp_has_string(lsp_get(text, "inlayHint.resolveSupport.properties"),
                     "textEdits");
  const char *root = lsp_string(params, "rootUri");
  const json_t *folders = lsp_get(params, "workspaceFolders");
  if (!root && lsp_count(folders))
    root = lsp_string(lsp_item(folders, 0), "uri");
  if (root && strncmp(root, "file://", 7) == 0) {
    v->root = real_path(root);
    if (chdir(v->root) != 0) { /* data files are seen from there */
      mem_free(v->root);
      v->root = NULL;
    }
  }
  Buffer out = {0};
  buffer_printf(&out, "{\"capabilities\":{\"positionEncoding\":\"%s\",%s",
                lsp_counts_bytes ? "utf-8" : "utf-16", capabilities);
  v->initialized = true;
  send_result(v, id, out.text);
  buffer_free(&out);
  session_each_name(v->session, warm_name, v->session);
  session_clear_diags(v->session);
}

static void cancel(Server *v, const char *id) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    for (Pending *p = doc->worker.pending; p; p = p->next)
      if (p->id && strcmp(p->id, id) == 0) {
        send_error(v, p->id, CANCELLED, "cancelled");
        mem_free(p->id);
        p->id = NULL;
        return;
      }
}

/* An id as JSON; NULL: it is none. */
static char *id_text(const json_t *id) {
  Buffer out = {0};
  if (id && json_is_integer(id))
    buffer_printf(&out, "%lld", (long long)lsp_int(id, "", 0));
  else if (id && json_is_string(id))
    out_text_len(&out, lsp_string(id, ""), lsp_string_len(id, ""));
  return out.text;
}

static void notification(Server *v, const char *method,
                         const json_t *params) {
  if (strcmp(method, "exit") == 0) {
    v->over = true;
    v->status = v->shut_down ? EXIT_OK : EXIT_DIAGNOSTICS;
  } else if (!v->initialized || v->shut_down) {
    return;
  } else if (strcmp(method, "$/cancelRequest") == 0) {
    char *id = id_text(lsp_get(params, "id"));
    if (id)
      cancel(v, id);
    mem_free(id);
  } else if (strcmp(method, "textDocument/didOpen") == 0) {
    open_doc(v, params);
  } else if (strcmp(method, "textDocument/didChange") == 0) {
    change_doc(v, params);
  } else if (strcmp(method, "textDocument/didClose") == 0) {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (uri)
      close_doc(v, uri);
  } else if (strcmp(method, "textDocument/didSave") == 0 ||
             strcmp(method, "workspace/didChangeWatchedFiles") == 0) {
    touched(v, NULL); /* a program may read any file */
  }
}

static void request(Server *v, const char *id, const char *method,
                    const json_t *params, const char *body, size_t len) {
  if (v->shut_down) {
    send_error(v, id, INVALID_REQUEST, "the server was shut down");
  } else if (strcmp(method, "initialize") == 0) {
    if (v->initialized)
      send_error(v, id, INVALID_REQUEST, "initialize comes once");
    else
      initialize(v, id, params);
  } else if (!v->initialized) {
    send_error(v, id, NOT_INITIALIZED, "initialize comes first");
  } else if (strcmp(method, "shutdown") == 0) {
    v->shut_down = true;
    send_result(v, id, "null");
  } else if (!work_answers(method)) {
    send_error(v, id, METHOD_NOT_FOUND, "there is no such method");
  } else {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (!uri) /* of what an earlier answer has brought */
      uri = lsp_string(params, "data.uri");
    Doc *doc = uri ? doc_of(v, uri) : NULL;
    if (doc)
      worker_ask(v, doc, id, body, len);
    else
      send_error(v, id, INVALID_PARAMS, "this text is not open");
  }
}

static void message(Server *v, const char *body, size_t len) {
  json_t *json = lsp_parse(body, len);
  if (!json) {
    send_error(v, NULL, PARSE_ERROR, "this is no JSON");
    return;
  }
  const char *method = lsp_string(json, "method");
  const json_t *id = lsp_get(json, "id");
  char *id_json = id_text(id);
  if (!json_is_object(json))
    send_error(v, NULL, INVALID_REQUEST, "this is no message");
  else if (!method && (lsp_get(json, "result") || lsp_get(json, "error")))
    ; /* an answer: nothing was asked */
  else if (!method || (id && !id_json))
    send_error(v, id_json, INVALID_REQUEST, "this is no message");
  else if (id)
    request(v, id_json, method, lsp_get(json, "params"), body, len);
  else
    notification(v, method, lsp_get(json, "params"));
  mem_free(id_json);
  lsp_free(json);
}

/* ---- from the editor ---- */

static void give_up(Server *v, const char *why) {
  fprintf(stderr, "axon lsp: %s\n", why);
  v->over = true;
  v->status = EXIT_DIAGNOSTICS;
}

/* The length that a header gives: -1 none; -2 none that can be. */
static int64_t content_length(const char *header, size_t len) {
  static const char name[] = "content-length:";
  int64_t found = -1;
  for (size_t at = 0; at < len;) {
    const char *line = header + at;
    const char *end = memchr(line, '\n', len - at);
    size_t line_len = end ? (size_t)(end - line) + 1 : len - at;
    if (line_len > sizeof name - 1 &&
        strncasecmp(line, name, sizeof name - 1) == 0) {
      char *stop;
      errno = 0;
      found = strtoll(line + sizeof name - 1, &stop, 10);
      if (errno || found < 0 || found > SESSION_TEXT_MOST ||
          !strchr("\r\n", *stop))
        return -2;
    }
    at += line_len;
  }
  return found;
}

/* The end of the header at the start of what came; 0: it is not all there. */
static size_t header_end(const Buffer *in, size_t at) {
  for (size_t i = at; i < in->len; i++) {
    if (in->text[i] != '\n')
      continue;
    size_t next = i + 1;
    if (next < in->len && in->text[next] == '\r')
      next++;
    if (next < in->len && in->text[next] == '\n')
      return next + 1;
  }
  return 0;
}

static void take_messages(Server *v) {
  Buffer *in = &v->in;
  size_t at = 0;
  while (!v->over && at < in->len) {
    size_t body = header_end(in, at);
    if ((body ? body : in->len) - at > HEADER_MOST) {
      give_up(v, "a header without an end");
      return;
    }
    if (!body)
      break;
    int64_t len = content_length(in->text + at, body - at);
    if (len == -2) {
      give_up(v, "a Content-Length that cannot be");
      return;
    }
    if (len < 0) {
      send_error(v, NULL, PARSE_ERROR, "a header without Content-Length");
      at = body;
      continue;
    }
    if (in->len - body < (size_t)len)
      break;
    message(v, in->text + body, (size_t)len);
    at = body + (size_t)len;
  }
  if (at) {
    memmove(in->text, in->text + at, in->len - at);
    in->len -= at;
  }
}

static void read_editor(Server *v) {
  char part[64 * 1024];
  ssize_t n = read(STDIN_FILENO, part, sizeof part);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (n <= 0) { /* it is gone without a word */
    v->over = true;
    v->status = v->shut_down ? EXIT_OK : EXIT_DIAGNOSTICS;
    return;
  }
  buffer_add(&v->in, part, (size_t)n);
  take_messages(v);
}

/* ---- the loop ---- */

static bool any_dirty(const Server *v) {
  for (const Doc *doc = v->docs; doc; doc = doc->next)
    if (doc->dirty)
      return true;
  return false;
}

static void begin_dirty(Server *v) {
  for (Doc *doc = v->docs; doc; doc = doc->next)
    if (doc->dirty)
      worker_begin(v, doc);
}

enum { POLLED_MOST = 512 };

static void serve_once(Server *v) {
  struct pollfd fds[POLLED_MOST] = {{.fd = STDIN_FILENO, .events = POLLIN}};
  Doc *docs[POLLED_MOST];
  nfds_t n = 1;
  for (Doc *doc = v->docs; doc && n < POLLED_MOST; doc = doc->next) {
    if (!doc->worker.pid)
      continue;
    short events = doc->worker.out.len ? POLLIN | POLLOUT : POLLIN;
    docs[n] = doc;
    fds[n++] = (struct pollfd){.fd = doc->worker.channel, .events = events};
  }
  int ready = poll(fds, n, any_dirty(v) ? QUIET_MS : -1);
  if (ready == 0)
    begin_dirty(v);
  if (ready <= 0)
    return;
  for (nfds_t i = 1; i < n; i++) {
    if (fds[i].revents & POLLOUT)
      worker_flush(&docs[i]->worker);
    if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
      worker_read(v, docs[i]);
  }
  if (fds[0].revents)
    read_editor(v);
}

static void host_nothing(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

int verb_lsp(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "lsp", "D", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count)
    return usage_error("lsp", "an editor starts this, and sends the texts");
  if (!lsp_json_load())
    return EXIT_DIAGNOSTICS;
  signal(SIGPIPE, SIG_IGN);
  SessionHost host = host_terminal(0, NULL);
  host.eval.write = host_nothing;
  Server server = {.options = &o, .session = host_open(&host)};
  host_apply_defines(server.session, &o);
  while (!server.over)
    serve_once(&server);
  while (server.docs) {
    Doc *doc = server.docs;
    server.docs = doc->next;
    server.over = true;
    doc_free(&server, doc);
  }
  session_close(server.session);
  buffer_free(&server.in);
  mem_free(server.root);
  return server.status;
}
