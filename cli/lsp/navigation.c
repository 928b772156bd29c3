/* Definitions, references, highlights and renaming in the language server.
   Main entry points: lsp_definition and lsp_references. */
#define _GNU_SOURCE
#include "cli/lsp/lsp.h"

#include "runtime/artifact.h"
#include "runtime/trusted_dir.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/json_writer.h"
#include "support/mem.h"
#include "support/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const SymbolRef *name_at(LspRequest *request) {
  return editor_ref_at(request->session, request->file, request->offset);
}

/* ---- files of the library, to be looked at ---- */

static const char folder_name[] = "library-" AXON_VERSION;

static int library_folder(Buffer *path) {
  char all[ARTIFACT_PATH_BYTES];
  const char *why;
  int root = artifact_open_root(all, true);
  int folder = root < 0
                   ? -1
                   : trusted_dir_open_private_at(root, folder_name, true, &why);
  if (root >= 0)
    close(root);
  if (folder >= 0)
    buffer_printf(path, "%s/%s", all, folder_name);
  return folder;
}

static bool is_current(int folder, const char *name, const Source *source) {
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  FILE *in = file < 0 ? NULL : fdopen(file, "rb");
  Buffer text = {0};
  bool same = in && read_program(in, &text) && text.len == source->len &&
              memcmp(text.text, source->text, text.len) == 0;
  if (in)
    fclose(in);
  buffer_free(&text);
  return same;
}

/* Writes atomically, so that no reader sees a part. */
static bool write_file(int folder, const char *name, const Source *source) {
  return trust_replace(folder, name, 0444, source->text, source->len);
}

/* The library is embedded in the program, so the location is in a read-only
   copy. */
static void put_library_location(LspRequest *request, const Source *source,
                                 Span span) {
  Buffer path = {0};
  int folder = library_folder(&path);
  if (folder >= 0) {
    const char *name = source->name;
    buffer_printf(&path, "/%s", name);
    if (is_current(folder, name, source) || write_file(folder, name, source)) {
      char *uri = lsp_uri_of_path(path.text);
      buffer_putc(request->out, '{');
      json_string_field(request->out, "uri", uri);
      json_key(request->out, "range");
      lsp_put_span(request, span);
      buffer_putc(request->out, '}');
      mem_free(uri);
    }
    close(folder);
  }
  buffer_free(&path);
}

void lsp_definition(LspRequest *request) {
  const SymbolRef *place = name_at(request);
  Span span = place ? editor_definition(request->session, place) : (Span){0};
  const Source *source =
      sources_get(session_sources(request->session), span.file);
  if (!span.file || !source)
    return;
  if (source->is_library)
    put_library_location(request, source, span);
  else
    lsp_put_location(request, span);
}

/* ---- uses ---- */

typedef struct ReferenceQuery {
  LspRequest *ask;
  bool with_declaration, this_file_only;
} ReferenceQuery;

static void put_reference(void *arg, const SymbolRef *p) {
  ReferenceQuery *u = arg;
  if (u->this_file_only && p->span.file != u->ask->file)
    return;
  if (p->is_definition && !u->with_declaration)
    return;
  if (!u->this_file_only) {
    lsp_put_location(u->ask, p->span);
    return;
  }
  json_comma(u->ask->out);
  buffer_puts(u->ask->out, "{\"range\":");
  lsp_put_span(u->ask, p->span);
  buffer_printf(u->ask->out, ",\"kind\":%d}", p->is_definition ? 3 : 2);
}

void lsp_document_highlight(LspRequest *request) {
  const SymbolRef *place = name_at(request);
  ReferenceQuery uses = {request, true, true};
  buffer_putc(request->out, '[');
  if (place)
    editor_each_reference(request->session, place, put_reference, &uses);
  buffer_putc(request->out, ']');
}

/* ---- other files, which may use names defined here ---- */

enum { MAX_FILES = 2000, MAX_FOLDER_DEPTH = 12 };

typedef struct WorkspaceWalk {
  LspRequest *ask;
  uint32_t count;
} WorkspaceWalk;

static bool ends_in(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && strcmp(name + n - m, end) == 0;
}

/* Its references are recorded in addition to those of this text. */
static void check_file(WorkspaceWalk *f, const char *path) {
  char real[PATH_MAX];
  if (f->count++ >= MAX_FILES || !realpath(path, real) ||
      strcmp(real, f->ask->worker->path) == 0)
    return;
  session_check_importer(f->ask->session, real);
}

static void check_folder(WorkspaceWalk *f, const char *folder, int depth) {
  DIR *dir = depth < MAX_FOLDER_DEPTH ? opendir(folder) : NULL;
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.')
      continue;
    Buffer path = {0};
    struct stat info;
    buffer_printf(&path, "%s/%s", folder, e->d_name);
    if (lstat(path.text, &info) == 0 && S_ISDIR(info.st_mode))
      check_folder(f, path.text, depth + 1);
    else if (ends_in(e->d_name, ".axn"))
      check_file(f, path.text);
    buffer_free(&path);
  }
  if (dir)
    closedir(dir);
}

/* Only names visible to other files: global names, and labels of functions. */
static void check_workspace(LspRequest *request, const SymbolRef *place) {
  static bool done; /* in this worker */
  const Var *var = place->binding ? binding_var(place->binding) : NULL;
  bool top = place->kind == REF_LABEL || place->kind == REF_TYPE ||
             (place->binding && (!var || var->global));
  if (done || !top || !request->worker->root)
    return;
  done = true;
  WorkspaceWalk files = {.ask = request};
  check_folder(&files, request->worker->root, 0);
}

void lsp_references(LspRequest *request) {
  const SymbolRef *place = name_at(request);
  ReferenceQuery uses = {
      request, lsp_bool(request->params, "context.includeDeclaration"), false};
  buffer_putc(request->out, '[');
  if (place) {
    SymbolRef copy = *place;
    check_workspace(request, &copy);
    editor_each_reference(request->session, &copy, put_reference, &uses);
  }
  buffer_putc(request->out, ']');
}

/* ---- renaming ---- */

void lsp_prepare_rename(LspRequest *request) {
  const SymbolRef *place = name_at(request);
  if (!place)
    return;
  request->error_message = editor_rename_refusal(request->session, place);
  if (request->error_message)
    return;
  buffer_puts(request->out, "{\"range\":");
  lsp_put_span(request, place->span);
  json_string_field(request->out, "placeholder", place->name->text);
  buffer_putc(request->out, '}');
}

typedef struct Edits {
  LspRequest *ask;
  uint32_t file;
} Edits;

static void put_edit(void *arg, const DiagEdit *edit) {
  Edits *e = arg;
  Buffer *out = e->ask->out;
  if (edit->span.file != e->file) {
    buffer_puts(out, e->file ? "]" : "");
    json_open(out, worker_uri_of_file(e->ask->worker, edit->span.file), '[');
    e->file = edit->span.file;
  }
  json_comma(out);
  buffer_puts(out, "{\"range\":");
  lsp_put_span(e->ask, edit->span);
  json_string_field(out, "newText", edit->text);
  buffer_putc(out, '}');
}

void lsp_rename(LspRequest *request) {
  const SymbolRef *place = name_at(request);
  const char *name = lsp_string(request->params, "newName");
  if (!place || !name) {
    request->error_message = "no name here";
    return;
  }
  SymbolRef copy = *place;
  Edits edits = {.ask = request};
  check_workspace(request, &copy);
  buffer_puts(request->out, "{\"changes\":{");
  request->error_message = editor_rename(
      request->session, &request->worker->text, &copy, name, put_edit, &edits);
  buffer_puts(request->out, edits.file ? "]}}" : "}}");
}
