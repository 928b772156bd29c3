/* axon repl: reads, checks and runs inputs; an error loses no definition.  Main
   entry point: verb_repl. */
#define _GNU_SOURCE
#include "cli/repl.h"

#include "cli/line_editor.h"
#include "support/clock.h"
#include "support/intern.h"
#include "support/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- showing ---- */

/* True if there is an arrow outside of brackets and before any `given`. */
static bool is_function(const char *type) {
  int depth = 0;
  for (const char *p = type; *p; p++) {
    depth += strchr("([{", *p) != NULL;
    depth -= strchr(")]}", *p) != NULL;
    if (!depth && strncmp(p, "->", 2) == 0)
      return true;
    if (!depth && strncmp(p, "given ", 6) == 0)
      return false;
  }
  return false;
}

static void put_value(const char *text, size_t used) {
  bool on_own_line =
      strchr(text, '\n') ||
      used + utf8_columns(text, strlen(text)) > (size_t)terminal_width();
  printf("%c%s\n", on_own_line ? '\n' : ' ', text);
}

void repl_show(Session *session, Binding *binding, bool value) {
  const char *name = binding_name(binding)->text;
  const char *type = session_binding_type(session, binding);
  if (!type)
    return;
  const char *keyword = strcmp(name, "it") == 0 ? "" : "val ";
  Buffer text = {0};
  bool shows_value = value && !is_function(type);
  if (shows_value && !session_binding_text(session, binding, &text)) {
    buffer_free(&text);
    return;
  }
  shows_value &= text.text != NULL;
  bool colour = terminal_colours_stdout();
  printf("%s%s%s%s : ", keyword, colour ? "\033[1m" : "", name,
         colour ? "\033[0m" : "");
  terminal_put_short_type(type, strlen(keyword) + strlen(name) + 3);
  if (shows_value) {
    fputs(" =", stdout);
    put_value(text.text, strlen(keyword) + strlen(name) + strlen(type) + 6);
  } else {
    putchar('\n');
  }
  buffer_free(&text);
}

static void show_results(void *owner, Session *session, const DeclResult *ran) {
  (void)owner;
  terminal_report(session, false);
  for (uint32_t i = 0; i < ran->binding_count; i++) {
    Binding *binding = ran->bindings[i];
    const char *type = session_binding_type(session, binding);
    if (!ran->is_bare_expression || (type && strcmp(type, "unit") != 0))
      repl_show(session, binding, true);
  }
  terminal_report(session, false);
}

/* With --plain, errors are printed to the transcript where they occur. */
static void report(const Repl *repl) {
  if (!repl->line_editing)
    fflush(stdout);
  terminal_report(repl->session, false);
}

/* ---- running ---- */

static void finish_input(Repl *repl, SessionStatus status) {
  report(repl);
  if (status == SESSION_INTERRUPTED)
    puts(repl->line_editing ? "\ninterrupted" : "interrupted");
  if (status == SESSION_EXITED)
    repl->done = true;
}

bool repl_run(Repl *repl, const char *text, bool final) {
  SourceInput source = {.name = "input", .text = text, .len = strlen(text)};
  source.allow_bare_expressions = true;
  source.is_complete = final;
  double start = clock_seconds();
  SessionStatus status = session_input(repl->session, &source);
  if (status == SESSION_INCOMPLETE)
    return false;
  finish_input(repl, status);
  uint32_t rest = session_unrun_dec_count(repl->session);
  if (rest && (status == SESSION_ERROR || status == SESSION_INTERRUPTED))
    printf("%u declaration%s after it %s not run\n", rest, rest == 1 ? "" : "s",
           rest == 1 ? "was" : "were");
  if (repl->show_time)
    printf("%.3f s\n", clock_seconds() - start);
  return true;
}

void repl_load(Repl *repl, const char *path) {
  SourceInput source = {.name = path};
  session_forget_imports(repl->session);
  SessionStatus status = session_check(repl->session, &source);
  if (status == SESSION_OK)
    status = session_run(repl->session);
  finish_input(repl, status);
  if (path != repl->loaded_path.text && access(path, R_OK) == 0) {
    repl->loaded_path.len = 0;
    buffer_puts(&repl->loaded_path, path);
  }
}

/* ---- reading ---- */

static bool is_blank(const char *line) {
  return line[strspn(line, " \t\r")] == 0;
}

static void read_line_into_input(Repl *repl, const char *line,
                                 bool more_follows) {
  bool is_first_line = repl->input.len == 0;
  if (is_first_line && is_blank(line))
    return;
  const char *start = line + strspn(line, " \t");
  if (is_first_line && *start == '|' &&
      repl->last_input.len) { /* one more clause of the last input */
    buffer_puts(&repl->input, start[1] == '>' ? "it" : repl->last_input.text);
    is_first_line = false;
  }
  if (is_first_line && *start == ':') {
    line_editor_add_history(line);
    command_run(repl, start);
    return;
  }
  if (!is_first_line)
    buffer_putc(&repl->input, '\n');
  buffer_puts(&repl->input, line);
  if (more_follows)
    return;
  bool final =
      !is_first_line && is_blank(line); /* an empty line ends an input */
  if (!repl_run(repl, repl->input.text, final))
    return;
  line_editor_add_history(repl->input.text);
  Buffer last = repl->last_input;
  repl->last_input = repl->input;
  repl->input = last;
  repl->input.len = 0;
}

static bool take_interrupt(void *owner) {
  Repl *repl = owner;
  bool was = session_interrupted(repl->session);
  session_clear_interrupt(repl->session);
  return was;
}

static const char *prompt(const Repl *repl) {
  return repl->input.len ? "| " : "> ";
}

static void greet(void) {
  puts("Axon " AXON_VERSION "  (:help for help, Ctrl-D exits)");
}

static void read_terminal(Repl *repl) {
  LineEditorHost host = {repl, repl_complete_word, take_interrupt};
  line_editor_open(&host);
  greet();
  while (!repl->done) {
    bool cancelled;
    session_clear_interrupt(repl->session);
    char *line = line_editor_read(prompt(repl), &cancelled);
    if (!line) {
      putchar('\n');
      break;
    }
    session_clear_interrupt(repl->session);
    if (!repl->width_set) /* the window may have been resized */
      session_eval_host(repl->session)->print_width = terminal_width();
    if (cancelled)
      repl->input.len = 0;
    else
      read_line_into_input(repl, line, line_editor_is_pasting());
    free(line);
  }
  line_editor_close();
}

/* Produces the same transcript each time: echoes prompts and input, and writes
   diagnostics to stdout in between. */
static void read_plain(Repl *repl) {
  dup2(STDOUT_FILENO, STDERR_FILENO);
  setvbuf(stderr, NULL, _IOLBF, 4096);
  char *line = NULL;
  size_t size = 0;
  while (!repl->done && getline(&line, &size, stdin) >= 0) {
    line[strcspn(line, "\n")] = 0;
    printf("%s%s\n", prompt(repl), line);
    read_line_into_input(repl, line, false);
  }
  if (repl->input.len)
    repl_run(repl, repl->input.text, true);
  free(line);
}

int verb_repl(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "repl", "pD", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count > 1)
    return usage_error("repl", "at most one file");
  SessionHost host = terminal_host(0, NULL);
  host.on_executed = show_results;
  Repl repl = {.session = terminal_open_session(&host)};
  repl.line_editing = !o.plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  terminal_apply_defines(repl.session, &o);
  terminal_catch_interrupt(repl.session, true);
  if (o.arg_count)
    repl_load(&repl, o.args[0]);
  if (repl.line_editing)
    read_terminal(&repl);
  else
    read_plain(&repl);
  status = session_exit_status(repl.session);
  session_close(repl.session);
  buffer_free(&repl.input);
  buffer_free(&repl.last_input);
  buffer_free(&repl.loaded_path);
  return terminal_flush(status);
}
