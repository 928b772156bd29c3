/* What the files of `axon lsp` share: the editor server.
 *
 * One process speaks with the editor (lsp.c).  It holds the texts as the
 * editor has them and a session in which the library was checked.  For each
 * text it forks another (lspwork.c), which checks it, tells what it finds,
 * and answers what is asked of that text until there is a newer one: then it
 * is simply ended.  So checking stops at once, leaves nothing behind, and no
 * text, however strange, can take the server down.
 *
 * Ownership: strings and buffers are freed by who made them. */
#ifndef AXON_CLI_LSP_H
#define AXON_CLI_LSP_H

#include "cli/cli.h"
#include "runtime/json.h"

#include <sys/types.h>

/* ---- lspjson.c: JSON, read by jansson ---- */

bool lsp_json_load(void); /* false, with a message: there is no jansson */
json_t *lsp_parse(const char *text, size_t len); /* NULL: it is no JSON */
void lsp_free(json_t *json);
/* What a path of keys leads to, "textDocument.uri"; NULL: there is no such. */
const json_t *lsp_get(const json_t *json, const char *path);
const char *lsp_string(const json_t *json, const char *path); /* or NULL */
size_t lsp_string_len(const json_t *json, const char *path);
int64_t lsp_int(const json_t *json, const char *path, int64_t otherwise);
bool lsp_bool(const json_t *json, const char *path);
size_t lsp_count(const json_t *array);
const json_t *lsp_item(const json_t *array, size_t i);
bool lsp_has_string(const json_t *array, const char *text);

/* ---- lsptext.c: positions, paths ---- */

typedef struct Position {
  uint32_t line, character; /* from 0; of UTF-16, or of bytes: */
} Position;
extern bool lsp_counts_bytes; /* as agreed when the editor began */

Position lsp_position(const char *text, size_t len, size_t offset);
size_t lsp_offset(const char *text, size_t len, Position at);
bool lsp_get_position(const json_t *json, Position *out);
void out_range(Buffer *out, const char *text, size_t len, size_t start,
               size_t end);
/* Puts `with` in the place of a range of a text. */
void lsp_edit(Buffer *text, Position start, Position end, const char *with,
              size_t with_len);
/* The path of a file: URI; a copy of any other URI. */
char *lsp_path(const char *uri);
char *lsp_uri(const char *path);

/* ---- lspwork.c: the process that checks a text ---- */

typedef struct Work { /* what it knows */
  Session *session;
  const Options *options;
  const char *uri, *path;
  SessionText text;
  int64_t version;
  const char *root;  /* folder of the workspace; or NULL */
  const struct Unsaved {
    const char *path;
    const Buffer *text;
  } *unsaved;        /* texts that are open */
  size_t unsaved_count;
  bool markdown, related; /* what the editor can show */
  int channel;
} Work;

typedef enum FrameKind {
  FRAME_NONE,
  FRAME_ASK,     /* to it: a request */
  FRAME_ANSWER,  /* from it: `"result": ...` or `"error": ...` */
  FRAME_PUBLISH, /* a URI, NUL, and the diagnostics of that text */
  FRAME_FILE,    /* the path of a file that took part */
  FRAME_DONE,    /* all diagnostics are published */
} FrameKind;
typedef struct Frame {
  uint32_t kind, len; /* of the body that follows */
  int64_t number;     /* of a request */
} Frame;

/* Checks, publishes, answers until the channel is closed. */
void work_run(Work *work);
bool work_answers(const char *method);
void work_send(Work *work, FrameKind kind, const Buffer *body);
bool lsp_write(int fd, const void *bytes, size_t len);

/* ---- what is asked, each: appends the result ---- */

typedef struct Ask {
  Work *work;
  Session *session;
  uint32_t file; /* of the text */
  const Source *source;
  const json_t *params;
  uint32_t offset; /* of params.position */
  Buffer *out;
  const char *refused; /* why there is no result */
} Ask;

void out_location(Ask *ask, Span span);
void out_span(Ask *ask, Span span); /* a range of the file it is in */
const char *work_uri(Work *work, uint32_t file); /* lives as the session */

/* lspdiag.c */
void work_publish(Work *work);
void ask_code_action(Ask *ask);
/* lspname.c */
void ask_definition(Ask *ask);
void ask_references(Ask *ask);
void ask_highlight(Ask *ask);
void ask_prepare_rename(Ask *ask);
void ask_rename(Ask *ask);
/* lspshow.c */
void ask_hover(Ask *ask);
void ask_symbols(Ask *ask);
void ask_hints(Ask *ask);
void ask_hint_edits(Ask *ask);
void ask_formatting(Ask *ask);
/* lspcomplete.c */
void ask_completion(Ask *ask);
void ask_signature(Ask *ask);

#endif
