/* axon import: writes an ONNX model as a program and its weights.  Main entry
   point: verb_import. */
#include "cli/import.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/file_open.h"
#include "support/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SETTING_VALUES = 256 };

typedef struct ModelFile {
  void *bytes; /* mapped */
  size_t len;
} ModelFile;

/* Prints an error about a file. */
static int fail(const char *path, const char *message, const char *help) {
  Arena *arena = import_arena_new();
  Buffer out = {.arena = arena};
  Sources sources;
  Diags diags;
  sources_init(&sources, arena);
  diags_init(&diags, arena);
  Diag *d = diag_error(&diags, 615, (Span){0}, "%s: %s", path, message);
  d->help = help && help[0] ? help : NULL;
  report_diag(&out, &sources, d);
  if (out.len > 0)
    fwrite(out.text, 1, out.len, stderr);
  import_arena_free(arena);
  return EXIT_DIAGNOSTICS;
}

/* The last part of a path, without the extension .onnx. */
static const char *base_name(Arena *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *base = slash ? slash + 1 : path;
  const char *dot = strrchr(base, '.');
  size_t len = dot && dot != base ? (size_t)(dot - base) : strlen(base);
  return arena_strndup(arena, base, len);
}

static const char *folder_of(Arena *arena, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_strndup(arena, path, (size_t)(slash - path)) : ".";
}

static bool map_file(const char *path, ModelFile *out) {
  int fd = file_open_regular(path, &out->len);
  bool ok = fd >= 0;
  if (ok && out->len > 0) {
    out->bytes = mmap(NULL, out->len, PROT_READ, MAP_PRIVATE, fd, 0);
    ok = out->bytes != MAP_FAILED;
  }
  int saved_errno = errno;
  if (fd >= 0)
    close(fd);
  errno = saved_errno;
  return ok;
}

/* ---- --set NAME=1,2 ---- */

typedef struct Settings {
  ImportSetting all[MAX_SETTINGS];
  int64_t values[MAX_SETTINGS][MAX_SETTING_VALUES];
} Settings;

static bool parse_setting(Arena *arena, const char *word, int64_t *values,
                          ImportSetting *out) {
  const char *equals = strrchr(word, '=');
  if (!equals || equals == word)
    return false;
  const char *at = equals + 1;
  out->is_list = *at == '[';
  at += *at == '[';
  while (*at && *at != ']') {
    char *end;
    errno = 0;
    if (out->count == MAX_SETTING_VALUES)
      return false;
    values[out->count++] = strtoll(at, &end, 10);
    if (end == at || errno || (*end && *end != ',' && *end != ']'))
      return false;
    at = end + (*end == ',');
  }
  out->name = arena_strndup(arena, word, (size_t)(equals - word));
  out->values = values;
  out->is_list |= out->count > 1;
  return out->count > 0 || out->is_list;
}

static int parse_settings(Arena *arena, const Options *o, Settings *settings,
                          ImportRequest *request) {
  request->settings = settings->all;
  request->setting_count = o->setting_count;
  for (uint32_t i = 0; i < o->setting_count; i++)
    if (!parse_setting(arena, o->settings[i], settings->values[i],
                       &settings->all[i]))
      return usage_error("import", "--set needs NAME=NUMBERS; found `%s`",
                         o->settings[i]);
  return -1;
}

/* ---- writing ---- */

/* True if a program seems to be meant, and not a folder. */
static bool names_program(const char *output) {
  size_t len = strlen(output);
  struct stat is;
  return len > 4 && strcmp(output + len - 4, ".axn") == 0 &&
         (stat(output, &is) != 0 || !S_ISDIR(is.st_mode));
}

static bool make_folder(const char *path) {
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static int write_model(Arena *arena, const Options *o, const char *program_path,
                       const ImportRequest *request,
                       const ImportedModel *model) {
  Fault fault = {0};
  if (o->output && !make_folder(o->output))
    return fail(o->output, strerror(errno), NULL);
  if (model->weight_count &&
      !file_save(request->weights_path, model->weight_count,
                 model->weight_names, model->weights, &fault))
    return fail(request->weights_path, fault.message, fault.help);
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  Buffer formatted = {.arena = arena};
  SourceInput source = {.name = program_path,
                        .text = model->program,
                        .len = strlen(model->program)};
  bool ok = session_format(session, &source, &formatted);
  terminal_report(session, true);
  session_close(session);
  if (ok && !atomic_write(program_path, &formatted))
    return fail(program_path, strerror(errno), NULL);
  if (ok && !o->quiet)
    printf("wrote %s%s%s\n", program_path, model->weight_count ? " and " : "",
           model->weight_count ? request->weights_path : "");
  return terminal_flush(ok ? EXIT_OK : EXIT_INTERNAL);
}

bool is_model_path(const char *path) {
  size_t len = strlen(path);
  return len > 5 && strcmp(path + len - 5, ".onnx") == 0;
}

void release_weights(ImportedModel *model) {
  for (uint32_t i = 0; i < model->weight_count; i++)
    tensor_release(model->weights[i]);
}

/* Returns -1, or an exit status after a message. */
static int read_model(Arena *arena, const Options *o, const char *path,
                      ImportRequest *request, ImportedModel *out) {
  ModelFile file = {0};
  Settings settings = {0};
  Fault fault = {0};
  int status = parse_settings(arena, o, &settings, request);
  if (status >= 0)
    return status;
  if (!map_file(path, &file))
    return fail(path, file_open_error(errno), NULL);
  if (!onnx_import(arena, file.bytes, file.len, request, out, &fault))
    status = fail(path, fault.message, fault.help);
  if (file.bytes)
    munmap(file.bytes, file.len);
  return status;
}

int read_model_program(Arena *arena, const Options *o, const char *path,
                       bool checks_results, ImportedModel *out) {
  ImportRequest request = {.model_name = base_name(arena, path),
                           .weights_path = "",
                           .source_dir = folder_of(arena, path),
                           .is_check = true,
                           .checks_results = checks_results};
  return read_model(arena, o, path, &request, out);
}

/* The node of the statement at an offset, or NULL. */
static const char *node_at(const ImportedModel *model, uint32_t offset) {
  const char *node = NULL;
  for (uint32_t i = 0; i < model->statement_count; i++)
    if (model->statements[i].start <= offset)
      node = model->statements[i].node;
  return node;
}

void name_nodes(Arena *arena, Session *session, const char *path,
                const ImportedModel *model) {
  const Diags *diags = session_diags(session);
  for (uint32_t i = 0; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    const Source *source = sources_get(session_sources(session), d->span.file);
    const char *node = source && strcmp(source->name, path) == 0
                           ? node_at(model, d->span.start)
                           : NULL;
    if (node)
      d->message = arena_printf(arena, "%s: %s", node, d->message);
  }
}

/* The program must be free of errors.  Returns -1, or an exit status after
   messages. */
static int check_program(Arena *arena, const Options *o, const char *path) {
  ImportedModel model = {0};
  int status = read_model_program(arena, o, path, false, &model);
  if (status < 0) {
    SessionHost host = terminal_host(0, NULL);
    Session *session = terminal_open_session(&host);
    SourceInput text = {.name = path,
                        .text = model.program,
                        .len = strlen(model.program),
                        .is_separate_module = true};
    session_check(session, &text);
    session_discard_pending(session);
    name_nodes(arena, session, path, &model);
    if (session_diags(session)->errors)
      status = EXIT_DIAGNOSTICS;
    terminal_report(session, true);
    session_close(session);
  }
  release_weights(&model);
  return status;
}

static int import_file(Arena *arena, const Options *o, const char *path) {
  ImportedModel model = {0};
  const char *base = base_name(arena, path);
  const char *folder = o->output ? o->output : ".";
  const char *prefix =
      o->output ? arena_printf(arena, "%s/%s", folder, base) : base;
  ImportRequest request = {.model_name = arena_printf(arena, "%s.onnx", base),
                           .weights_path =
                               arena_printf(arena, "%s.safetensors", prefix),
                           .source_dir = folder_of(arena, path)};
  int status = check_program(arena, o, path);
  if (status < 0)
    status = read_model(arena, o, path, &request, &model);
  if (status < 0)
    status = write_model(arena, o, arena_printf(arena, "%s.axn", prefix),
                         &request, &model);
  release_weights(&model);
  return status;
}

int verb_import(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "import", "qOn", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("import", o.arg_count ? "more than one file given"
                                             : "no file given");
  if (o.output && names_program(o.output))
    return usage_error("import",
                       "-o names a folder; found `%s`: write `-o "
                       "%.*s`, or omit it for this folder",
                       o.output, (int)strlen(o.output) - 4, o.output);
  Arena *arena = import_arena_new();
  status = import_file(arena, &o, o.args[0]);
  import_arena_free(arena);
  return status;
}
