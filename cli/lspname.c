/* Names: where they are defined and used, and how they can be changed. */
#define _GNU_SOURCE
#include "cli/lsp.h"

#include "runtime/artifact.h"
#include "runtime/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const Place *name_at(Ask *ask) {
  return session_name_at(ask->session, ask->file, ask->offset);
}

/* ---- files of the library, to be looked at ---- */

static const char folder_name[] = "library-" AXON_VERSION;

static int library_folder(Buffer *path) {
  char all[ARTIFACT_PATH];
  const char *why;
  int root = artifact_folder(all, true);
  int folder = root < 0 ? -1 : trust_open_in(root, folder_name, true, &why);
  if (root >= 0)
    close(root);
  if (folder >= 0)
    buffer_printf(path, "%s/%s", all, folder_name);
  return folder;
}

static bool is_there(int folder, const char *name, const Source *source) {
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  FILE *in = file < 0 ? NULL : fdopen(file, "rb");
  Buffer text = {0};
  bool same = in && host_read(in, &text) && text.len == source->len &&
              memcmp(text.text, source->text, text.len) == 0;
  if (in)
    fclose(in);
  buffer_free(&text);
  return same;
}

/* Nobody reads a part. */
static bool write_file(int folder, const char *name, const Source *source) {
  return trust_replace(folder, name, 0444, source->text, source->len);
}

/* The library is part of the program: a copy that cannot be written to. */
static void out_library(Ask *ask, const Source *source, Span span) {
  Buffer path = {0};
  int folder = library_folder(&path);
  if (folder >= 0) {
    const char *name = source->name;
    buffer_printf(&path, "/%s", name);
    if (is_there(folder, name, source) || write_file(folder, name, source)) {
      char *uri = lsp_uri(path.text);
      buffer_putc(ask->out, '{');
      json_field(ask->out, "uri", uri);
      json_key(ask->out, "range");
      out_span(ask, span);
      buffer_putc(ask->out, '}');
      mem_free(uri);
    }
    close(folder);
  }
  buffer_free(&path);
}

void ask_definition(Ask *ask) {
  const Place *place = name_at(ask);
  Span span = place ? session_definition(ask->session, place) : (Span){0};
  const Source *source = sources_get(session_sources(ask->session), span.file);
  if (!span.file || !source)
    return;
  if (source->library)
    out_library(ask, source, span);
  else
    out_location(ask, span);
}

/* ---- uses ---- */

typedef struct Uses {
  Ask *ask;
  bool declaration, here;
} Uses;

static void out_use(void *arg, const Place *p) {
  Uses *u = arg;
  if (u->here && p->span.file != u->ask->file)
    return;
  if (p->bound && !u->declaration)
    return;
  if (!u->here) {
    out_location(u->ask, p->span);
    return;
  }
  json_comma(u->ask->out);
  buffer_puts(u->ask->out, "{\"range\":");
  out_span(u->ask, p->span);
  buffer_printf(u->ask->out, ",\"kind\":%d}", p->bound ? 3 : 2);
}

void ask_highlight(Ask *ask) {
  const Place *place = name_at(ask);
  Uses uses = {ask, true, true};
  buffer_putc(ask->out, '[');
  if (place)
    session_each_use(ask->session, place, out_use, &uses);
  buffer_putc(ask->out, ']');
}

/* ---- other files, which may use what is defined here ---- */

enum { FILES_MOST = 2000, FOLDERS_DEEP = 12 };

typedef struct Files {
  Ask *ask;
  uint32_t count;
} Files;

static bool ends_in(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n > m && strcmp(name + n - m, end) == 0;
}

/* Its places are kept along with those of this text. */
static void check_file(Files *f, const char *path) {
  char real[PATH_MAX];
  if (f->count++ >= FILES_MOST || !realpath(path, real) ||
      strcmp(real, f->ask->work->path) == 0)
    return;
  session_check_beside(f->ask->session, real);
}

static void check_folder(Files *f, const char *folder, int depth) {
  DIR *dir = depth < FOLDERS_DEEP ? opendir(folder) : NULL;
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

/* What other files can see: names of top level, and the labels of functions. */
static void look_around(Ask *ask, const Place *place) {
  static bool done; /* in this process */
  const Var *var = place->binding ? binding_var(place->binding) : NULL;
  bool top = place->kind == PLACE_LABEL || place->kind == PLACE_TYPE ||
             (place->binding && (!var || var->global));
  if (done || !top || !ask->work->root)
    return;
  done = true;
  Files files = {.ask = ask};
  check_folder(&files, ask->work->root, 0);
}

void ask_references(Ask *ask) {
  const Place *place = name_at(ask);
  Uses uses = {ask, lsp_bool(ask->params, "context.includeDeclaration"), false};
  buffer_putc(ask->out, '[');
  if (place) {
    Place copy = *place;
    look_around(ask, &copy);
    session_each_use(ask->session, &copy, out_use, &uses);
  }
  buffer_putc(ask->out, ']');
}

/* ---- renaming ---- */

void ask_prepare_rename(Ask *ask) {
  const Place *place = name_at(ask);
  if (!place)
    return;
  ask->refused = session_rename_refused(ask->session, place);
  if (ask->refused)
    return;
  buffer_puts(ask->out, "{\"range\":");
  out_span(ask, place->span);
  json_field(ask->out, "placeholder", place->name->text);
  buffer_putc(ask->out, '}');
}

typedef struct Edits {
  Ask *ask;
  uint32_t file;
} Edits;

static void out_edit(void *arg, const DiagEdit *edit) {
  Edits *e = arg;
  Buffer *out = e->ask->out;
  if (edit->span.file != e->file) {
    buffer_puts(out, e->file ? "]" : "");
    json_open(out, work_uri(e->ask->work, edit->span.file), '[');
    e->file = edit->span.file;
  }
  json_comma(out);
  buffer_puts(out, "{\"range\":");
  out_span(e->ask, edit->span);
  json_field(out, "newText", edit->text);
  buffer_putc(out, '}');
}

void ask_rename(Ask *ask) {
  const Place *place = name_at(ask);
  const char *name = lsp_string(ask->params, "newName");
  if (!place || !name) {
    ask->refused = "there is no name here";
    return;
  }
  Place copy = *place;
  Edits edits = {.ask = ask};
  look_around(ask, &copy);
  buffer_puts(ask->out, "{\"changes\":{");
  ask->refused = session_rename(ask->session, &ask->work->text, &copy, name,
                                out_edit, &edits);
  buffer_puts(ask->out, edits.file ? "]}}" : "}}");
}
