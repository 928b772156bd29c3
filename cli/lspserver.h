/* What the files of the server's own process share (lsp.c, lspdocs.c). */
#ifndef AXON_CLI_LSPSERVER_H
#define AXON_CLI_LSPSERVER_H

#include "cli/lsp.h"

enum { /* error codes */
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
  bool warned; /* the user was shown that a worker ended, and none has checked
                  it since */
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
  bool markdown, related;
} Server;

/* ---- lsp.c: to the editor ---- */

void server_answer(Server *v, const char *id, const char *rest, size_t len);
void server_error(Server *v, const char *id, int code, const char *message);
void server_notify(Server *v, const char *method, const char *params,
                   size_t len);

/* ---- lspdocs.c: texts, and the processes that check them ---- */

Doc *doc_of(Server *v, const char *uri); /* NULL: it is not open */
void doc_open(Server *v, const json_t *params);
void doc_change(Server *v, const json_t *params);
void doc_close(Server *v, const char *uri);
/* All that read this file are to be checked again; NULL: all. */
void docs_touch(Server *v, const char *path);
void docs_close(Server *v);
/* Hands a request on to who knows the text. */
void doc_ask(Server *v, Doc *doc, const char *id, const char *body,
             size_t len);
void doc_cancel(Server *v, const char *id);
void docs_begin(Server *v); /* those that changed are checked */
bool docs_dirty(const Server *v);
void worker_read(Server *v, Doc *doc);
void worker_flush(Worker *w);
char *real_path(const char *uri);

#endif
