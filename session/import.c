/* Reads source files, and imports one from another.  Main entry points:
   session_read_file and import_module. */
#define _GNU_SOURCE
#include "session/internal.h"
#include "lexer/lexer.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/file_open.h"
#include "support/intern.h"
#include "support/similar_file.h"
#include "support/trap.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IMPORT_DEPTH = 200 };

/* A library of another language, as in `import numpy`; or NULL. */
static const ForeignWord *foreign_library(Session *s, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  size_t len = dot ? (size_t)(dot - name) : strlen(name);
  return lexer_find_foreign(arena_strndup(s->arena, name, len));
}

static bool cannot_read(Session *s, const char *path, Span span,
                        const char *why, bool is_missing) {
  Diag *diag = session_error(s, 601, span, "cannot read %s: %s", path, why);
  const ForeignWord *library = foreign_library(s, path);
  char help[PATH_MAX];
  if (!library && is_missing && similar_file_help(path, help, sizeof help))
    diag->help = arena_strndup(s->arena, help, strlen(help));
  else if (span.file)
    diag->help = library ? arena_printf(s->arena, "no import is needed: %s",
                                        library->help)
                         : "import a library module, or a file with a path "
                           "relative to the folder of this file";
  return false;
}

typedef struct FileRead {
  const char *path;
  Span span; /* span that requests the file */
  FILE *in;
  Buffer all;
  const char *text; /* in the arena; NULL after an error */
} FileRead;

static void read_stream(Session *s, FileRead *r) {
  char part[16 * 1024];
  for (size_t n; (n = fread(part, 1, sizeof part, r->in)) > 0;) {
    buffer_add(&r->all, part, n);
    if (r->all.len > MAX_SOURCE_BYTES) {
      cannot_read(s, r->path, r->span, strerror(EFBIG), false);
      return;
    }
  }
  if (ferror(r->in))
    cannot_read(s, r->path, r->span, strerror(errno), false);
  else
    r->text =
        arena_strndup(s->arena, r->all.text ? r->all.text : "", r->all.len);
}

static FailKind try_read(Session *s, FileRead *r) {
  Trap trap;
  FailKind kind = TRAP_SET(trap);
  if (kind == FAIL_NONE) {
    read_stream(s, r);
    trap_end(&trap);
  }
  return kind;
}

bool session_read_file(Session *s, const char *path, Span span,
                       const char **text, size_t *len) {
  if (s->unsaved_files &&
      s->unsaved_files(s->unsaved_files_owner, path, text, len))
    return true;
  int fd = file_open_stream(path);
  FileRead r = {
      .path = path, .span = span, .in = fd < 0 ? NULL : fdopen(fd, "rb")};
  if (!r.in) {
    bool is_missing = errno == ENOENT;
    return cannot_read(s, path, span, file_open_error(errno), is_missing);
  }
  FailKind kind = try_read(s, &r);
  *text = r.text, *len = r.all.len;
  fclose(r.in);
  buffer_free(&r.all);
  if (kind != FAIL_NONE)
    trap_raise(kind);
  return *text;
}

/* The path of an imported file, relative to the importing one.  Adds ".axn" if
   it has no extension. */
static const char *resolve_import_path(Session *s, uint32_t from,
                                       const char *path) {
  const Source *source = sources_get(&s->sources, from);
  const char *slash = strrchr(path, '/');
  const char *dot = strrchr(slash ? slash : path, '.');
  const char *ending = dot && strcmp(dot, ".axn") == 0 ? "" : ".axn";
  const char *here = source ? strrchr(source->name, '/') : NULL;
  if (strncmp(path, "./", 2) == 0)
    path += 2;
  if (path[0] == '/' || !here)
    return arena_printf(s->arena, "%s%s", path, ending);
  return arena_printf(s->arena, "%.*s%s%s", (int)(here - source->name + 1),
                      source->name, path, ending);
}

static Import *find_or_add_import(Session *s, const char *path) {
  char real[PATH_MAX];
  const char *found = realpath(path, real) ? real : path;
  const char *key = arena_strndup(s->arena, found, strlen(found));
  for (uint32_t i = 0; i < s->imports.len; i++)
    if (strcmp(s->imports.at[i].path, key) == 0)
      return &s->imports.at[i];
  VEC_PUSH(s->arena, s->imports, ((Import){.path = key}));
  return &s->imports.at[s->imports.len - 1];
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char *module_name(Session *s, const char *path) {
  const char *base = base_name(path);
  const char *dot = strrchr(base, '.');
  return arena_strndup(s->arena, base,
                       dot ? (size_t)(dot - base) : strlen(base));
}

/* Returns the module even after an error: it knows which of its names are in
   error, and the error prevents the program from running.  The vector of
   imports may move while the file is checked, so its entry is looked up
   again. */
static Module *import_file(Session *s, uint32_t number, const char *path,
                           Span span) {
  SourceInput text = {.name = path};
  uint32_t file = session_add_source(s, &text, span);
  if (!file)
    return NULL;
  Sym *name = intern_string(s->interner, module_name(s, path));
  Module *module = module_new(s->checker, name);
  session_check_source(s, file, module, false, false);
  s->imports.at[number].module = module;
  s->imports.at[number].file = file;
  return module;
}

/* The files of a cycle that begins with import number `first`, as a note.  The
   imports in progress are in the order in which they began. */
static const char *cycle_note(Session *s, uint32_t first) {
  Buffer note = {.arena = s->arena};
  const char *start = base_name(s->imports.at[first].path);
  buffer_printf(&note, "%s imports ", start);
  for (uint32_t i = first + 1; i < s->imports.len; i++)
    if (s->imports.at[i].is_in_progress)
      buffer_printf(&note, "%s, which imports ",
                    base_name(s->imports.at[i].path));
  buffer_printf(&note, "%s\n", start);
  buffer_puts(&note, "a file is checked before the files that import it");
  return note.text;
}

static Module *import_new(Session *s, uint32_t number, const char *path,
                          Span span) {
  Import *import = &s->imports.at[number];
  if (import->is_in_progress) {
    Diag *diag = session_error(s, 602, span, "%s imports itself", path);
    diag->note = cycle_note(s, number);
    return NULL;
  }
  if (s->import_depth >= MAX_IMPORT_DEPTH) {
    session_error(s, 603, span, "imports are nested more than %d deep",
                  MAX_IMPORT_DEPTH);
    return NULL;
  }
  import->is_in_progress = true;
  s->import_depth++;
  Module *module = import_file(s, number, path, span);
  s->import_depth--;
  s->imports.at[number].is_in_progress = false;
  return module;
}

Module *import_module(void *owner, uint32_t from, Span span, const char *path,
                      Sym *id) {
  Session *s = owner;
  const char *found = resolve_import_path(s, from, path ? path : id->text);
  Import *import = find_or_add_import(s, found);
  if (import->module)
    return import->module;
  uint32_t number = (uint32_t)(import - s->imports.at);
  Module *module = import_new(s, number, found, span);
  s->has_missing_import |= !module;
  return module;
}

void import_eagerly(Session *s, const Dec *dec) {
  if (dec->path || !stdlib_has_module(s, dec->id))
    import_module(s, dec->span.file, dec->span, dec->path, dec->id);
}

/* ---- files that may import the text at hand ---- */

static SessionStatus check_importer(Session *s, void *arg) {
  const char *path = arg;
  Diags diags = s->diags;
  diags_init(&s->diags, s->arena);
  const Source *main = sources_get(&s->sources, s->current_file);
  Import *here = main ? find_or_add_import(s, main->name) : NULL;
  if (here && !here->module) { /* they import the current file */
    here->module = s->current_module;
    here->file = s->current_file;
  }
  Import *import = find_or_add_import(s, path);
  if (!import->module)
    import_new(s, (uint32_t)(import - s->imports.at), import->path, (Span){0});
  s->diags = diags;
  return SESSION_OK;
}

void session_check_importer(Session *s, const char *path) {
  session_protected_call(s, check_importer, (void *)path);
}
