/* axon run FILE, axon -e EXPR, and a program on standard input.  Main entry
   points: verb_run and verb_eval. */
#include "cli/cli.h"
#include "support/buffer.h"

#include <string.h>
#include <unistd.h>

/* Prints the value of a bare expression, unless it is (). */
static void show_value(void *owner, Session *session, const DeclResult *ran) {
  (void)owner;
  if (!ran->is_bare_expression || !ran->binding_count)
    return;
  Buffer text = {0};
  const char *type = session_binding_type(session, ran->bindings[0]);
  if (type && strcmp(type, "unit") != 0 &&
      session_binding_text(session, ran->bindings[0], &text) && text.text) {
    fwrite(text.text, 1, text.len, stdout);
    putchar('\n');
  }
  buffer_free(&text);
}

/* After the last text, each -D must have been used. */
static int run_text(Options *o, Session *session, const SourceInput *text,
                    bool last) {
  SessionStatus status = session_check(session, text);
  terminal_report(session, o->quiet);
  terminal_match_defines(session, o);
  if (status == SESSION_OK && last && !terminal_defines_matched(o))
    return terminal_flush(EXIT_DIAGNOSTICS);
  if (status == SESSION_OK)
    status = session_run(session);
  return terminal_finish(session, status, o->quiet);
}

static Session *open_program(const Options *o, int arg_count, char **args) {
  SessionHost host = terminal_host(arg_count, args);
  host.on_executed = show_value;
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  terminal_apply_defines(session, o);
  return session;
}

/* An interrupted program may have millions of values, and the process ends
   anyway, so they are not freed. */
static void close_program(Session *session, int status) {
  static Session *left_open;
  if (status == EXIT_INTERRUPTED)
    left_open = session;
  else
    session_close(session);
  (void)left_open;
}

static int run_exprs(Options *o) {
  Session *session = open_program(o, o->arg_count, o->args);
  int status = EXIT_OK;
  for (uint32_t i = 0; i < o->expr_count && status == EXIT_OK; i++) {
    SourceInput text = {
        .name = "-e", .text = o->exprs[i], .allow_bare_expressions = true};
    text.len = strlen(text.text);
    status = run_text(o, session, &text, i + 1 == o->expr_count);
  }
  close_program(session, status);
  return status;
}

static int run_stdin(Options *o, int arg_count, char **args) {
  Buffer program = {0};
  if (!read_program_stdin(&program))
    return EXIT_DIAGNOSTICS;
  Session *session = open_program(o, arg_count, args);
  SourceInput text = {
      .name = "stdin", .allow_bare_expressions = true, .len = program.len};
  text.text = program.text ? program.text : "";
  int status = run_text(o, session, &text, true);
  close_program(session, status);
  buffer_free(&program);
  return status;
}

static int run_file(Options *o) {
  int count = o->arg_count - 1;
  char **args = o->args + 1;
  if (count > 0 && strcmp(args[0], "--") == 0)
    args++, count--;
  if (strcmp(o->args[0], "-") == 0)
    return run_stdin(o, count, args);
  Session *session = open_program(o, count, args);
  SourceInput text = {.name = o->args[0]};
  int status = run_text(o, session, &text, true);
  close_program(session, status);
  return status;
}

static int run(const char *verb, int argc, char **argv) {
  Options o;
  int status = options_parse(&o, verb, "+eqDtf", argc, argv);
  if (status >= 0)
    return status;
  if (o.expr_count)
    return run_exprs(&o);
  if (o.arg_count)
    return run_file(&o);
  if (!isatty(STDIN_FILENO))
    return run_stdin(&o, 0, NULL);
  if (!verb)
    return verb_repl(1, argv);
  return usage_error(verb, "no file given");
}

int verb_run(int argc, char **argv) {
  return run("run", argc, argv);
}

int verb_eval(int argc, char **argv) {
  return run(NULL, argc, argv);
}
