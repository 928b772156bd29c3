/* axon repl: reads inputs from the terminal or a file; repl/ runs them.  Main
   entry point: verb_repl. */
#define _GNU_SOURCE
#include "cli/line_editor.h"
#include "cli/cli.h"
#include "repl/repl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Prompt {
  Repl repl;
  Buffer input;      /* lines of an incomplete input */
  Buffer last_input; /* the previous input */
  bool line_editing; /* line editing is enabled */
} Prompt;

/* ---- what the REPL calls ---- */

static void write_text(const Repl *repl, const char *text, size_t len) {
  (void)repl;
  fwrite(text, 1, len, stdout);
}

static int width(const Repl *repl) {
  (void)repl;
  return terminal_width();
}

static void report(const Repl *repl, bool errors_only) {
  terminal_report(repl->session, errors_only);
}

static void show_results(void *owner, Session *session, const DeclResult *ran) {
  const Prompt *p = owner;
  (void)session;
  repl_show_results(&p->repl, ran);
}

/* ---- reading ---- */

static bool is_blank(const char *line) {
  return line[strspn(line, " \t\r")] == 0;
}

static bool run_input(Prompt *p, bool final) {
  return repl_run(&p->repl, "input", p->input.text, p->input.len, final) !=
         SESSION_INCOMPLETE;
}

static void read_line_into_input(Prompt *p, const char *line,
                                 bool more_follows) {
  bool is_first_line = p->input.len == 0;
  if (is_first_line && is_blank(line))
    return;
  const char *start = line + strspn(line, " \t");
  if (is_first_line && *start == '|' &&
      p->last_input.len) { /* one more clause of the last input */
    buffer_puts(&p->input, start[1] == '>' ? "it" : p->last_input.text);
    is_first_line = false;
  }
  if (is_first_line && *start == ':') {
    line_editor_add_history(line);
    repl_run_command(&p->repl, start);
    return;
  }
  if (!is_first_line)
    buffer_putc(&p->input, '\n');
  buffer_puts(&p->input, line);
  if (more_follows)
    return;
  bool final =
      !is_first_line && is_blank(line); /* an empty line ends an input */
  if (!run_input(p, final))
    return;
  line_editor_add_history(p->input.text);
  Buffer last = p->last_input;
  p->last_input = p->input;
  p->input = last;
  p->input.len = 0;
}

static bool take_interrupt(void *owner) {
  const Prompt *p = owner;
  bool was = session_interrupted(p->repl.session);
  session_clear_interrupt(p->repl.session);
  return was;
}

static void complete(void *owner, const char *line, int start, int end,
                     void (*add)(void *arg, const char *word), void *arg) {
  Prompt *p = owner;
  repl_complete_word(&p->repl, line, start, end, add, arg);
}

static const char *prompt_text(const Prompt *p) {
  return p->input.len ? "| " : "> ";
}

static void greet(void) {
  puts("Axon " AXON_VERSION "  (:help for help, Ctrl-D exits)");
}

static void read_terminal(Prompt *p) {
  Session *session = p->repl.session;
  LineEditorHost host = {p, complete, repl_word_breaks, take_interrupt};
  line_editor_open(&host);
  greet();
  while (!p->repl.done) {
    bool cancelled;
    session_clear_interrupt(session);
    char *line = line_editor_read(prompt_text(p), &cancelled);
    if (!line) {
      putchar('\n');
      break;
    }
    session_clear_interrupt(session);
    if (!p->repl.width_set) /* the window may have been resized */
      session_eval_host(session)->print_width = terminal_width();
    if (cancelled)
      p->input.len = 0;
    else
      read_line_into_input(p, line, line_editor_is_pasting());
    free(line);
  }
  line_editor_close();
}

/* Produces the same transcript each time: echoes prompts and input, and writes
   diagnostics to stdout in between. */
static void read_plain(Prompt *p) {
  dup2(STDOUT_FILENO, STDERR_FILENO);
  setvbuf(stderr, NULL, _IOLBF, 4096);
  char *line = NULL;
  size_t size = 0;
  while (!p->repl.done && getline(&line, &size, stdin) >= 0) {
    line[strcspn(line, "\n")] = 0;
    printf("%s%s\n", prompt_text(p), line);
    read_line_into_input(p, line, false);
  }
  if (p->input.len)
    run_input(p, true);
  free(line);
}

static ReplHost repl_host(Prompt *p) {
  return (ReplHost){.owner = p,
                    .write = write_text,
                    .width = width,
                    .report = report,
                    .colours = terminal_colours_stdout(),
                    .stable_plans = !p->line_editing,
                    .echoes_interrupt = p->line_editing};
}

int verb_repl(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "repl", "pD", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count > 1)
    return usage_error("repl", "at most one file");
  Prompt p = {.line_editing =
                  !o.plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
  SessionHost host = terminal_host(0, NULL);
  host.eval.owner = &p;
  host.on_executed = show_results;
  Session *session = terminal_open_session(&host);
  p.repl = (Repl){.session = session, .host = repl_host(&p)};
  terminal_apply_defines(session, &o);
  terminal_catch_interrupt(session, true);
  if (o.arg_count)
    repl_load(&p.repl, o.args[0]);
  if (p.line_editing)
    read_terminal(&p);
  else
    read_plain(&p);
  status = session_exit_status(session);
  session_close(session);
  buffer_free(&p.input);
  buffer_free(&p.last_input);
  buffer_free(&p.repl.loaded_path);
  return terminal_flush(status);
}
