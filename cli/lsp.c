/* axon lsp: the server's one process that speaks with the editor.  JSON-RPC 2.0
 * with Content-Length headers on standard input and output. */
#define _GNU_SOURCE
#include "cli/lspserver.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
  HEADER_MOST = 8 * 1024,
  QUIET_MS = 5, /* so long nothing comes before a changed text is checked */
};

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

void server_answer(Server *v, const char *id, const char *rest, size_t len) {
  Buffer out = {0};
  buffer_printf(&out, "{\"jsonrpc\":\"2.0\",\"id\":%s,", id ? id : "null");
  buffer_add(&out, rest, len);
  buffer_putc(&out, '}');
  send_body(v, out.text, out.len);
  buffer_free(&out);
}

void server_error(Server *v, const char *id, int code, const char *message) {
  Buffer out = {0};
  buffer_printf(&out, "\"error\":{\"code\":%d,\"message\":", code);
  json_text(&out, message);
  buffer_putc(&out, '}');
  server_answer(v, id, out.text, out.len);
  buffer_free(&out);
}

static void send_result(Server *v, const char *id, const char *json) {
  Buffer out = {0};
  buffer_printf(&out, "\"result\":%s", json);
  server_answer(v, id, out.text, out.len);
  buffer_free(&out);
}

void server_notify(Server *v, const char *method, const char *params,
                   size_t len) {
  Buffer out = {0};
  buffer_puts(&out, "{\"jsonrpc\":\"2.0\",\"method\":");
  json_text(&out, method);
  buffer_puts(&out, ",\"params\":");
  buffer_add(&out, params, len);
  buffer_putc(&out, '}');
  send_body(v, out.text, out.len);
  buffer_free(&out);
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

/* An id as JSON; NULL: it is none. */
static char *id_text(const json_t *id) {
  Buffer out = {0};
  if (id && json_is_integer(id))
    buffer_printf(&out, "%lld", (long long)lsp_int(id, "", 0));
  else if (id && json_is_string(id))
    json_text_len(&out, lsp_string(id, ""), lsp_string_len(id, ""));
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
      doc_cancel(v, id);
    mem_free(id);
  } else if (strcmp(method, "textDocument/didOpen") == 0) {
    doc_open(v, params);
  } else if (strcmp(method, "textDocument/didChange") == 0) {
    doc_change(v, params);
  } else if (strcmp(method, "textDocument/didClose") == 0) {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (uri)
      doc_close(v, uri);
  } else if (strcmp(method, "textDocument/didSave") == 0 ||
             strcmp(method, "workspace/didChangeWatchedFiles") == 0) {
    docs_touch(v, NULL); /* a program may read any file */
  }
}

static void request(Server *v, const char *id, const char *method,
                    const json_t *params, const char *body, size_t len) {
  if (v->shut_down) {
    server_error(v, id, INVALID_REQUEST, "the server was shut down");
  } else if (strcmp(method, "initialize") == 0) {
    if (v->initialized)
      server_error(v, id, INVALID_REQUEST, "initialize comes once");
    else
      initialize(v, id, params);
  } else if (!v->initialized) {
    server_error(v, id, NOT_INITIALIZED, "initialize comes first");
  } else if (strcmp(method, "shutdown") == 0) {
    v->shut_down = true;
    send_result(v, id, "null");
  } else if (!work_answers(method)) {
    server_error(v, id, METHOD_NOT_FOUND, "there is no such method");
  } else {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (!uri) /* of what an earlier answer has brought */
      uri = lsp_string(params, "data.uri");
    Doc *doc = uri ? doc_of(v, uri) : NULL;
    if (doc)
      doc_ask(v, doc, id, body, len);
    else
      server_error(v, id, INVALID_PARAMS, "this text is not open");
  }
}

static void message(Server *v, const char *body, size_t len) {
  json_t *json = lsp_parse(body, len);
  if (!json) {
    server_error(v, NULL, PARSE_ERROR, "this is no JSON");
    return;
  }
  const char *method = lsp_string(json, "method");
  const json_t *id = lsp_get(json, "id");
  char *id_json = id_text(id);
  if (!json_is_object(json))
    server_error(v, NULL, INVALID_REQUEST, "this is no message");
  else if (!method && (lsp_get(json, "result") || lsp_get(json, "error")))
    ; /* an answer: nothing was asked */
  else if (!method || (id && !id_json))
    server_error(v, id_json, INVALID_REQUEST, "this is no message");
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
      server_error(v, NULL, PARSE_ERROR, "a header without Content-Length");
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
  int ready = poll(fds, n, docs_dirty(v) ? QUIET_MS : -1);
  if (ready == 0)
    docs_begin(v);
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
  docs_close(&server);
  session_close(server.session);
  buffer_free(&server.in);
  mem_free(server.root);
  return server.status;
}
