/* Shared by the files of `axon lsp`, the language server.
 *
 * One process communicates with the editor (lsp.c).  It holds the texts as the
 * editor has them, and a session in which the library is checked.  For each
 * text it forks a worker (worker.c), which checks the text, publishes
 * diagnostics, and answers requests.  When the text changes, the worker is
 * killed.  So checking stops immediately and leaves nothing behind, and no text
 * can crash the server.
 *
 * Ownership: whoever creates strings and buffers frees them. */
#ifndef AXON_LSP_H
#define AXON_LSP_H

#include "cli/cli.h"
#include "editor/editor.h"
#include "runtime/json.h"
#include "support/span.h"

#include <sys/types.h>

typedef struct Buffer Buffer;
typedef struct Source Source;

/* ---- json.c: JSON, read by jansson ---- */

bool lsp_load_json_library(
    void); /* false, with a message, if jansson is missing */
/* NULL if it is not valid JSON */
json_t *lsp_parse_json(const char *text, size_t len);
void lsp_json_free(json_t *json);
/* The value at a path of keys, "textDocument.uri"; NULL if there is none. */
const json_t *lsp_get(const json_t *json, const char *path);
const char *lsp_string(const json_t *json, const char *path); /* or NULL */
size_t lsp_string_len(const json_t *json, const char *path);
int64_t lsp_int(const json_t *json, const char *path, int64_t otherwise);
bool lsp_bool(const json_t *json, const char *path);
size_t lsp_array_count(const json_t *array);
const json_t *lsp_array_item(const json_t *array, size_t i);
bool lsp_has_string(const json_t *array, const char *text);

/* ---- positions.c: positions, paths ---- */

typedef struct Position {
  uint32_t line, character; /* from 0; lsp_uses_utf8 says the unit */
} Position;
/* characters are bytes, not UTF-16 units; negotiated */
extern bool lsp_uses_utf8;

Position lsp_position_of(const char *text, size_t len, size_t offset);
size_t lsp_offset_of(const char *text, size_t len, Position at);
bool lsp_get_position(const json_t *json, Position *out);
void lsp_put_range(Buffer *out, const char *text, size_t len, size_t start,
                   size_t end);
/* Replaces a range of a text. */
void lsp_apply_edit(Buffer *text, Position start, Position end,
                    const char *replacement, size_t replacement_len);
/* The path of a file: URI; a copy of any other URI. */
char *lsp_path_of_uri(const char *uri);
char *lsp_uri_of_path(const char *path);

/* ---- worker.c: the process that checks a text ---- */

typedef struct WorkerState { /* state of a worker */
  Session *session;
  const Options *options;
  const char *uri, *path;
  SourceInput text;
  int64_t version;
  const char *root; /* folder of the workspace, or NULL */
  const struct UnsavedText {
    const char *path;
    const Buffer *text;
  } * unsaved_texts; /* open texts */
  size_t unsaved_count;
  bool markdown, related_information; /* capabilities of the editor */
  int channel;
} WorkerState;

typedef enum FrameKind {
  FRAME_NONE,
  FRAME_REQUEST,  /* to the worker: a request */
  FRAME_RESPONSE, /* from the worker: `"result": ...` or `"error": ...` */
  FRAME_PUBLISH,  /* a URI, NUL, and the diagnostics of that text */
  FRAME_FILE,     /* path of a file that the check has read */
  FRAME_DONE,     /* all diagnostics are published */
} FrameKind;
typedef struct Frame {
  uint32_t kind, len;     /* kind and length of the body that follows */
  int64_t request_number; /* number of the request */
} Frame;

/* Checks, publishes, and answers requests until the channel is closed. */
void worker_run(WorkerState *worker);
bool worker_has_method(const char *method);
void worker_send(WorkerState *worker, FrameKind kind, const Buffer *body);
bool lsp_write_all(int fd, const void *bytes, size_t len);

/* ---- what is asked, each: appends the result ---- */

typedef struct LspRequest {
  WorkerState *worker;
  Session *session;
  uint32_t file; /* number of the text */
  const Source *source;
  const json_t *params;
  uint32_t offset; /* offset of params.position */
  Buffer *out;
  const char *error_message; /* reason of a failed request */
} LspRequest;

void lsp_put_location(LspRequest *request, Span span);
void lsp_put_span(LspRequest *request, Span span); /* a range in its file */
const char *
worker_uri_of_file(WorkerState *worker,
                   uint32_t file); /* lives as long as the session */

/* diagnostics.c */
void worker_publish_diagnostics(WorkerState *worker);
void lsp_code_action(LspRequest *request);
/* navigation.c */
void lsp_definition(LspRequest *request);
void lsp_references(LspRequest *request);
void lsp_document_highlight(LspRequest *request);
void lsp_prepare_rename(LspRequest *request);
void lsp_rename(LspRequest *request);
/* hover.c */
void lsp_hover(LspRequest *request);
void lsp_document_symbols(LspRequest *request);
void lsp_inlay_hints(LspRequest *request);
void lsp_inlay_hint_resolve(LspRequest *request);
void lsp_formatting(LspRequest *request);
/* completion.c */
void lsp_completion(LspRequest *request);
void lsp_signature_help(LspRequest *request);

#endif
