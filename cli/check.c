/* axon check: checks programs without running them.  Main entry point:
   verb_check. */
#include "cli/import.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/source.h"
#include "support/utf8.h"

#include <string.h>
#include <unistd.h>

typedef struct CheckRun {
  const Options *options;
  Binding *explained; /* name given to --why, or NULL */
  bool folded;        /* a type was printed in its short form */
  bool is_model;      /* of an ONNX file: prints the type of `model` alone */
} CheckRun;

static void find_explained(CheckRun *check, const DeclResult *ran) {
  const char *name = check->options->explain_name;
  for (uint32_t i = 0; name && i < ran->binding_count; i++)
    if (strcmp(binding_name(ran->bindings[i])->text, name) == 0)
      check->explained = ran->bindings[i];
}

static void print_types(void *owner, Session *session, const DeclResult *ran) {
  CheckRun *check = owner;
  const Options *o = check->options;
  find_explained(check, ran);
  bool types = !o->quiet && !o->explain_name;
  for (uint32_t i = 0; types && i < ran->binding_count; i++) {
    Binding *binding = ran->bindings[i];
    const char *type = session_binding_type(session, binding);
    if (!type)
      continue;
    const char *name = binding_name(binding)->text;
    if (check->is_model && strcmp(name, "model") != 0)
      continue;
    printf("%s : ", name);
    if (isatty(STDOUT_FILENO))
      check->folded |=
          terminal_put_short_type(type, utf8_columns(name, strlen(name)) + 3);
    else
      fputs(type, stdout);
    putchar('\n');
  }
}

static void print_unproved(Session *session, const UnprovedConstraint *open) {
  const Source *source = sources_get(session_sources(session), open->span.file);
  if (source) {
    uint32_t line, column;
    source_line_and_column(source, open->span.start, &line, &column);
    printf("%s:%u:%u: ", source->name, line, column);
  }
  if (open->name)
    printf("given of %s: %s\n", open->name, open->text);
  else
    printf("checked at run time: %s (%s)\n", open->text, open->reason);
}

static void list_unproved(Session *session) {
  uint32_t count;
  const UnprovedConstraint *open =
      session_unproved_constraints(session, &count);
  for (uint32_t i = 0; i < count; i++)
    print_unproved(session, &open[i]);
}

static void print_stats(Session *session, const char *name) {
  CheckStats stats = session_stats(session);
  printf("%s: %llu constraints proved, %llu deferred to callers, %llu checked "
         "at run time\n",
         name, (unsigned long long)stats.proved,
         (unsigned long long)stats.deferred, (unsigned long long)stats.runtime);
}

/* A program, or an ONNX model as a program in the arena. */
static bool read_checked_file(Arena *arena, const Options *o, const char *path,
                              SourceInput *text, Buffer *program,
                              ImportedModel *model) {
  if (!is_model_path(path))
    return read_program_argument(path, text, program);
  if (read_model_program(arena, o, path, true, model) >= 0)
    return false;
  text->name = path;
  text->text = model->program;
  text->len = strlen(model->program);
  return true;
}

static void print_undetermined(const ImportedModel *model) {
  for (uint32_t i = 0; i < model->undetermined_count; i++)
    printf("undetermined: %s\n", model->undetermined[i]);
}

/* Each file is checked in a session of its own, so that library definitions
   used by one file do not change messages about the next. */
static bool check_file(Arena *arena, Options *o, const char *path) {
  SessionHost host = terminal_host(0, NULL);
  CheckRun check = {.options = o, .is_model = is_model_path(path)};
  host.eval.owner = &check;
  host.on_checked = print_types;
  Session *session = terminal_open_session(&host);
  terminal_apply_defines(session, o);
  SourceInput text = {.is_separate_module = true};
  Buffer program = {0};
  ImportedModel model = {0};
  if (!read_checked_file(arena, o, path, &text, &program, &model)) {
    session_close(session);
    return false;
  }
  session_check(session, &text);
  session_discard_pending(session);
  terminal_match_defines(session, o);
  if (o->strict)
    session_reject_unproved(session);
  bool ok = session_diags(session)->errors == 0;
  name_nodes(arena, session, path, &model);
  terminal_report(session, o->quiet);
  print_undetermined(&model);
  if (check.explained)
    report_type_provenance(session, check.explained);
  else if (o->explain_name && ok) {
    fprintf(stderr, "axon check: %s defines no `%s`\n", text.name,
            o->explain_name);
    ok = false;
  }
  if (o->list_unproved)
    list_unproved(session);
  if (o->stats)
    print_stats(session, text.name);
  if (check.folded)
    fprintf(stderr,
            "long types are shortened on a terminal; for the whole: "
            "axon check %s | less\n",
            path);
  session_close(session);
  buffer_free(&program);
  release_weights(&model);
  return ok;
}

int verb_check(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "check", "qDsoSwn", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("check", "no file given");
  bool ok = true;
  Arena *arena = import_arena_new();
  for (int i = 0; i < o.arg_count; i++)
    ok &= check_file(arena, &o, o.args[i]);
  import_arena_free(arena);
  ok = ok && terminal_defines_matched(&o);
  return terminal_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
