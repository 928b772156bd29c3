/* axon check: the types of a program, without running it. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

typedef struct Check {
  const Options *options;
  Binding *why; /* the name that --why asks about; or NULL */
} Check;

static void find_why(Check *check, const Ran *ran) {
  const char *name = check->options->why;
  for (uint32_t i = 0; name && i < ran->binding_count; i++)
    if (strcmp(binding_name(ran->bindings[i])->text, name) == 0)
      check->why = ran->bindings[i];
}

static void print_types(void *owner, Session *session, const Ran *ran) {
  Check *check = owner;
  const Options *o = check->options;
  find_why(check, ran);
  bool types = !o->quiet && !o->why;
  for (uint32_t i = 0; types && i < ran->binding_count; i++) {
    Binding *binding = ran->bindings[i];
    const char *type = session_binding_type(session, binding);
    if (!type)
      continue;
    const char *name = binding_name(binding)->text;
    printf("%s : ", name);
    if (isatty(STDOUT_FILENO))
      host_put_type(type, utf8_width(name, strlen(name)) + 3);
    else
      fputs(type, stdout);
    putchar('\n');
  }
}

static void print_open(Session *session, const OpenConstraint *open) {
  const Source *source =
      sources_get(session_sources(session), open->span.file);
  if (source) {
    uint32_t line, column;
    source_place(source, open->span.start, &line, &column);
    printf("%s:%u:%u: ", source->name, line, column);
  }
  if (open->name)
    printf("given of %s: %s\n", open->name, open->text);
  else
    printf("checked when run: %s (%s)\n", open->text, open->reason);
}

static void list_open(Session *session) {
  uint32_t count;
  const OpenConstraint *open = session_open_constraints(session, &count);
  for (uint32_t i = 0; i < count; i++)
    print_open(session, &open[i]);
}

static void print_stats(Session *session, const char *name) {
  CheckStats stats = session_stats(session);
  printf("%s: %llu constraints proved, %llu carried by types, %llu left to "
         "check when run\n",
         name, (unsigned long long)stats.proved,
         (unsigned long long)stats.carried, (unsigned long long)stats.open);
}

/* Each file is checked in a session of its own, so that what one needs of the
 * library does not change what is said about the next. */
static bool check_file(Options *o, const char *path) {
  SessionHost host = host_terminal(0, NULL);
  Check check = {.options = o};
  host.eval.owner = &check;
  host.checked = print_types;
  Session *session = host_open(&host);
  host_apply_defines(session, o);
  SessionText text = {.own_module = true};
  Buffer program = {0};
  if (!host_text(path, &text, &program)) {
    session_close(session);
    return false;
  }
  session_check(session, &text);
  session_drop_waiting(session);
  host_note_defines(session, o);
  if (o->strict)
    session_refuse_open(session);
  bool ok = session_diags(session)->errors == 0;
  host_report(session, o->quiet);
  if (check.why)
    report_why(session, check.why);
  else if (o->why && ok) {
    fprintf(stderr, "axon check: %s defines no `%s`\n", text.name, o->why);
    ok = false;
  }
  if (o->open)
    list_open(session);
  if (o->stats)
    print_stats(session, text.name);
  session_close(session);
  buffer_free(&program);
  return ok;
}

int verb_check(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "check", "qDsoSw", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("check", "which files?");
  bool ok = true;
  for (int i = 0; i < o.arg_count; i++)
    ok &= check_file(&o, o.args[i]);
  ok = ok && host_defines_met(&o);
  return host_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
