/* axon check: the types of a program, without running it. */
#include "cli/cli.h"

#include <string.h>

static void print_types(void *owner, Session *session, const Ran *ran) {
  const Options *o = owner;
  for (uint32_t i = 0; !o->quiet && i < ran->binding_count; i++) {
    Binding *binding = ran->bindings[i];
    const char *type = session_binding_type(session, binding);
    if (type)
      printf("%s : %s\n", binding_name(binding)->text, type);
  }
}

static bool check_file(const Options *o, Session *session, const char *path) {
  SessionText text = {.name = path, .own_module = true};
  Buffer program = {0};
  if (strcmp(path, "-") == 0) {
    if (!host_read_stdin(&program))
      return false;
    text.name = "stdin";
    text.text = program.text ? program.text : "";
    text.len = program.len;
  }
  SessionStatus status = session_check(session, &text);
  session_drop_waiting(session);
  host_report(session, o->quiet);
  buffer_free(&program);
  return status == SESSION_OK;
}

static void print_open(Session *session, FILE *out) {
  uint32_t count;
  const OpenConstraint *open = session_open_constraints(session, &count);
  for (uint32_t i = 0; i < count; i++) {
    const Source *source =
        sources_get(session_sources(session), open[i].span.file);
    if (source) {
      uint32_t line, column;
      source_place(source, open[i].span.start, &line, &column);
      fprintf(out, "%s:%u:%u: ", source->name, line, column);
    }
    fprintf(out, "checked when run: %s", open[i].text);
    fprintf(out, open[i].reason ? " (%s)\n" : "\n", open[i].reason);
  }
}

static void print_stats(Session *session) {
  CheckStats stats = session_stats(session);
  printf("%llu constraints proved, %llu left to check when run\n",
         (unsigned long long)stats.proved, (unsigned long long)stats.open);
}

int verb_check(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "check", "qDsoS", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("check", "which files?");
  SessionHost host = host_terminal(0, NULL);
  host.eval.owner = &o;
  host.checked = print_types;
  Session *session = host_open(&host);
  host_apply_defines(session, &o);
  bool ok = true;
  for (int i = 0; i < o.arg_count; i++)
    ok &= check_file(&o, session, o.args[i]);
  if (o.open)
    print_open(session, stdout);
  if (o.stats)
    print_stats(session);
  if (o.strict && session_stats(session).open) {
    fflush(stdout);
    if (!o.open)
      print_open(session, stderr);
    ok = false;
  }
  session_close(session);
  return host_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
