/* axon lsp: the process that communicates with the editor by JSON-RPC 2.0 with
   Content-Length headers on stdin and stdout.  Main entry point: verb_lsp. */
#define _GNU_SOURCE
#include "cli/lsp/server.h"
#include "support/json_writer.h"
#include "support/mem.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
  MAX_HEADER_BYTES = 8 * 1024,
  /* milliseconds without input before a changed text is checked */
  DEBOUNCE_MS = 5,
};

/* ---- to the editor ---- */

static void send_body(Server *server, const char *body, size_t len) {
  char header[64];
  int n = snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", len);
  if (!lsp_write_all(STDOUT_FILENO, header, (size_t)n) ||
      !lsp_write_all(STDOUT_FILENO, body, len)) {
    server->should_exit = true; /* the editor does not read any more */
    server->status = EXIT_DIAGNOSTICS;
  }
}

void server_respond(Server *server, const char *id, const char *rest,
                    size_t len) {
  Buffer out = {0};
  buffer_printf(&out, "{\"jsonrpc\":\"2.0\",\"id\":%s,", id ? id : "null");
  buffer_add(&out, rest, len);
  buffer_putc(&out, '}');
  send_body(server, out.text, out.len);
  buffer_free(&out);
}

void server_error(Server *server, const char *id, int code,
                  const char *message) {
  Buffer out = {0};
  buffer_printf(&out, "\"error\":{\"code\":%d,\"message\":", code);
  json_quote(&out, message);
  buffer_putc(&out, '}');
  server_respond(server, id, out.text, out.len);
  buffer_free(&out);
}

static void send_result(Server *server, const char *id, const char *json) {
  Buffer out = {0};
  buffer_printf(&out, "\"result\":%s", json);
  server_respond(server, id, out.text, out.len);
  buffer_free(&out);
}

void server_notify(Server *server, const char *method, const char *params,
                   size_t len) {
  Buffer out = {0};
  buffer_puts(&out, "{\"jsonrpc\":\"2.0\",\"method\":");
  json_quote(&out, method);
  buffer_puts(&out, ",\"params\":");
  buffer_add(&out, params, len);
  buffer_putc(&out, '}');
  send_body(server, out.text, out.len);
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

/* Checks all names of the library once, before any text. */
static void check_library_name(void *arg, const char *name) {
  Session *session = arg;
  Binding *binding = session_find_binding(session, name);
  if (binding)
    session_binding_type(session, binding);
}

static void initialize(Server *server, const char *id, const json_t *params) {
  const json_t *client = lsp_get(params, "capabilities");
  const json_t *text = lsp_get(client, "textDocument");
  lsp_uses_utf8 =
      lsp_has_string(lsp_get(client, "general.positionEncodings"), "utf-8");
  server->markdown =
      lsp_has_string(lsp_get(text, "hover.contentFormat"), "markdown");
  server->related_information =
      lsp_bool(text, "publishDiagnostics.relatedInformation");
  const char *root = lsp_string(params, "rootUri");
  const json_t *folders = lsp_get(params, "workspaceFolders");
  if (!root && lsp_array_count(folders))
    root = lsp_string(lsp_array_item(folders, 0), "uri");
  if (root && strncmp(root, "file://", 7) == 0) {
    server->root = real_path(root);
    /* relative paths of data files start there */
    if (chdir(server->root) != 0) {
      mem_free(server->root);
      server->root = NULL;
    }
  }
  Buffer out = {0};
  buffer_printf(&out, "{\"capabilities\":{\"positionEncoding\":\"%s\",%s",
                lsp_uses_utf8 ? "utf-8" : "utf-16", capabilities);
  server->initialized = true;
  send_result(server, id, out.text);
  buffer_free(&out);
  session_each_name(server->session, check_library_name, server->session);
  session_clear_diags(server->session);
}

/* An id as JSON; NULL if it is not a valid id. */
static char *id_text(const json_t *id) {
  Buffer out = {0};
  if (id && json_is_integer(id))
    buffer_printf(&out, "%lld", (long long)lsp_int(id, "", 0));
  else if (id && json_is_string(id))
    json_quote_len(&out, lsp_string(id, ""), lsp_string_len(id, ""));
  return out.text;
}

static void handle_notification(Server *server, const char *method,
                                const json_t *params) {
  if (strcmp(method, "exit") == 0) {
    server->should_exit = true;
    server->status = server->shut_down ? EXIT_OK : EXIT_DIAGNOSTICS;
  } else if (!server->initialized || server->shut_down) {
    return;
  } else if (strcmp(method, "$/cancelRequest") == 0) {
    char *id = id_text(lsp_get(params, "id"));
    if (id)
      document_cancel(server, id);
    mem_free(id);
  } else if (strcmp(method, "textDocument/didOpen") == 0) {
    document_open(server, params);
  } else if (strcmp(method, "textDocument/didChange") == 0) {
    document_change(server, params);
  } else if (strcmp(method, "textDocument/didClose") == 0) {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (uri)
      document_close(server, uri);
  } else if (strcmp(method, "textDocument/didSave") == 0 ||
             strcmp(method, "workspace/didChangeWatchedFiles") == 0) {
    documents_mark_dirty(server, NULL); /* a program may read any file */
  }
}

static void handle_request(Server *server, const char *id, const char *method,
                           const json_t *params, const char *body, size_t len) {
  if (server->shut_down) {
    server_error(server, id, INVALID_REQUEST, "the server was shut down");
  } else if (strcmp(method, "initialize") == 0) {
    if (server->initialized)
      server_error(server, id, INVALID_REQUEST,
                   "initialize was already called");
    else
      initialize(server, id, params);
  } else if (!server->initialized) {
    server_error(server, id, SERVER_NOT_INITIALIZED,
                 "initialize must come first");
  } else if (strcmp(method, "shutdown") == 0) {
    server->shut_down = true;
    send_result(server, id, "null");
  } else if (!worker_has_method(method)) {
    server_error(server, id, METHOD_NOT_FOUND, "unknown method");
  } else {
    const char *uri = lsp_string(params, "textDocument.uri");
    if (!uri) /* a request about data of an earlier answer */
      uri = lsp_string(params, "data.uri");
    Document *document = uri ? document_find(server, uri) : NULL;
    if (document)
      document_request(server, document, id, body, len);
    else
      server_error(server, id, INVALID_PARAMS, "this text is not open");
  }
}

static void handle_message(Server *server, const char *body, size_t len) {
  json_t *json = lsp_parse_json(body, len);
  if (!json) {
    server_error(server, NULL, PARSE_ERROR, "this is not JSON");
    return;
  }
  const char *method = lsp_string(json, "method");
  const json_t *id = lsp_get(json, "id");
  char *id_json = id_text(id);
  if (!json_is_object(json))
    server_error(server, NULL, INVALID_REQUEST, "this is not a message");
  else if (!method && (lsp_get(json, "result") || lsp_get(json, "error")))
    ; /* a response; no request to answer */
  else if (!method || (id && !id_json))
    server_error(server, id_json, INVALID_REQUEST, "this is not a message");
  else if (id)
    handle_request(server, id_json, method, lsp_get(json, "params"), body, len);
  else
    handle_notification(server, method, lsp_get(json, "params"));
  mem_free(id_json);
  lsp_json_free(json);
}

/* ---- from the editor ---- */

static void fail_protocol(Server *server, const char *why) {
  fprintf(stderr, "axon lsp: %s\n", why);
  server->should_exit = true;
  server->status = EXIT_DIAGNOSTICS;
}

/* The length in a header; -1 if absent, -2 if invalid. */
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
      if (errno || found < 0 || found > MAX_SOURCE_BYTES ||
          !strchr("\r\n", *stop))
        return -2;
    }
    at += line_len;
  }
  return found;
}

/* The end of the header at the start of the input; 0 if it is incomplete. */
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

static void handle_messages(Server *server) {
  Buffer *in = &server->in;
  size_t at = 0;
  while (!server->should_exit && at < in->len) {
    size_t body = header_end(in, at);
    if ((body ? body : in->len) - at > MAX_HEADER_BYTES) {
      fail_protocol(server, "a header has no end");
      return;
    }
    if (!body)
      break;
    int64_t len = content_length(in->text + at, body - at);
    if (len == -2) {
      fail_protocol(server, "invalid Content-Length");
      return;
    }
    if (len < 0) {
      server_error(server, NULL, PARSE_ERROR, "a header has no Content-Length");
      at = body;
      continue;
    }
    if (in->len - body < (size_t)len)
      break;
    handle_message(server, in->text + body, (size_t)len);
    at = body + (size_t)len;
  }
  if (at) {
    memmove(in->text, in->text + at, in->len - at);
    in->len -= at;
  }
}

static void read_editor(Server *server) {
  char part[64 * 1024];
  ssize_t n = read(STDIN_FILENO, part, sizeof part);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  if (n <= 0) { /* the editor ended without notice */
    server->should_exit = true;
    server->status = server->shut_down ? EXIT_OK : EXIT_DIAGNOSTICS;
    return;
  }
  buffer_add(&server->in, part, (size_t)n);
  handle_messages(server);
}

/* ---- the loop ---- */

enum { MAX_POLLED = 512 };

static void serve_once(Server *server) {
  struct pollfd fds[MAX_POLLED] = {{.fd = STDIN_FILENO, .events = POLLIN}};
  Document *docs[MAX_POLLED];
  nfds_t n = 1;
  for (Document *document = server->documents; document && n < MAX_POLLED;
       document = document->next) {
    if (!document->worker.pid)
      continue;
    short events = document->worker.out.len ? POLLIN | POLLOUT : POLLIN;
    docs[n] = document;
    fds[n++] =
        (struct pollfd){.fd = document->worker.channel, .events = events};
  }
  int ready = poll(fds, n, documents_any_dirty(server) ? DEBOUNCE_MS : -1);
  if (ready == 0)
    documents_check_dirty(server);
  if (ready <= 0)
    return;
  for (nfds_t i = 1; i < n; i++) {
    if (fds[i].revents & POLLOUT)
      worker_flush(&docs[i]->worker);
    if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
      worker_read(server, docs[i]);
  }
  if (fds[0].revents)
    read_editor(server);
}

static void discard_output(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

int verb_lsp(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "lsp", "D", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count)
    return usage_error(
        "lsp", "an editor starts this server and sends the source text");
  if (!lsp_load_json_library())
    return EXIT_DIAGNOSTICS;
  signal(SIGPIPE, SIG_IGN);
  SessionHost host = terminal_host(0, NULL);
  host.eval.write = discard_output;
  Server server = {.options = &o, .session = terminal_open_session(&host)};
  terminal_apply_defines(server.session, &o);
  while (!server.should_exit)
    serve_once(&server);
  documents_close(&server);
  session_close(server.session);
  buffer_free(&server.in);
  mem_free(server.root);
  return server.status;
}
