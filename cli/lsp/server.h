/* Shared by the files of the server process (lsp.c, documents.c). */
#ifndef AXON_CLI_LSP_SERVER_H
#define AXON_CLI_LSP_SERVER_H

#include "cli/lsp/lsp.h"
#include "support/buffer.h"

enum { /* error codes */
       PARSE_ERROR = -32700,
       INVALID_REQUEST = -32600,
       METHOD_NOT_FOUND = -32601,
       INVALID_PARAMS = -32602,
       INTERNAL_ERROR = -32603,
       SERVER_NOT_INITIALIZED = -32002,
       REQUEST_CANCELLED = -32800,
       CONTENT_MODIFIED = -32801,
};

typedef struct PendingRequest { /* a request that a worker must answer */
  struct PendingRequest *next;
  int64_t number;
  char *id; /* as JSON; NULL if it was cancelled and answered */
} PendingRequest;

typedef struct StringNode { /* element of a list of strings */
  struct StringNode *next;
  char *text;
} StringNode;

typedef struct Worker {
  pid_t pid;
  int channel;
  Buffer in, out; /* incomplete input; unsent output */
  PendingRequest *pending;
  bool has_published; /* all diagnostics were published */
  bool failed;        /* it ended by itself: do not retry with this text */
} Worker;

typedef struct Document {
  struct Document *next;
  char *uri, *path;
  Buffer text;
  int64_t version;
  bool dirty;  /* newer than the text of its worker */
  bool warned; /* the user was told that a worker ended, and no check has
                  succeeded since */
  Worker worker;
  StringNode *published_uris,
      *publishing_uris;   /* URIs of other files with published diagnostics: by
                             the previous worker, and by this one */
  StringNode *read_files; /* files that the check has read */
} Document;

typedef struct Server {
  const Options *options;
  Session *session; /* has checked the library only */
  Document *documents;
  Buffer in;
  int64_t last_request_number; /* number of the last forwarded request */
  bool initialized, shut_down, should_exit;
  int status;
  char *root;
  bool markdown, related_information;
} Server;

/* ---- lsp.c: to the editor ---- */

void server_respond(Server *server, const char *id, const char *rest,
                    size_t len);
void server_error(Server *server, const char *id, int code,
                  const char *message);
void server_notify(Server *server, const char *method, const char *params,
                   size_t len);

/* ---- documents.c: documents, and their workers ---- */

Document *document_find(Server *server,
                        const char *uri); /* NULL if it is not open */
void document_open(Server *server, const json_t *params);
void document_change(Server *server, const json_t *params);
void document_close(Server *server, const char *uri);
/* Marks all documents that read this file to be checked again.  NULL: all
   documents. */
void documents_mark_dirty(Server *server, const char *path);
void documents_close(Server *server);
/* Forwards a request to the worker of the document. */
void document_request(Server *server, Document *document, const char *id,
                      const char *body, size_t len);
void document_cancel(Server *server, const char *id);
/* starts a check of changed documents */
void documents_check_dirty(Server *server);
bool documents_any_dirty(const Server *server);
void worker_read(Server *server, Document *document);
void worker_flush(Worker *w);
char *real_path(const char *uri);

#endif
