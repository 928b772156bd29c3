/* The terminal: output, colour, Ctrl-C, diagnostics.  Main entry
   point: terminal_open_session. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "plan/schedule_file.h"
#include "repl/type_text.h"
#include "show/show.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/utf8.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- colour and width ---- */

static const char *colour_when = "auto";

void terminal_set_colour(const char *when) {
  colour_when = when;
}

static bool is_coloured(int fd) {
  if (strcmp(colour_when, "auto") != 0)
    return strcmp(colour_when, "always") == 0;
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(no && *no) && isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool terminal_colours_stdout(void) {
  return is_coloured(STDOUT_FILENO);
}

bool terminal_colours_stderr(void) {
  return is_coloured(STDERR_FILENO);
}

ColourDepth terminal_colour_depth(int fd) {
  const char *depth = getenv("COLORTERM");
  if (!is_coloured(fd))
    return COLOURS_NONE;
  return depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit"))
             ? COLOURS_RGB
             : COLOURS_256;
}

/* As setlocale does for LC_CTYPE.  Containers often set none of the variables,
   and have terminals for UTF-8. */
bool terminal_is_ascii(void) {
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const char *locale = getenv(names[i]);
    if (locale && *locale)
      return !strcasestr(locale, "UTF-8") && !strcasestr(locale, "utf8");
  }
  return false;
}

int terminal_width(void) {
  struct winsize size;
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= 20)
    return size.ws_col;
  return 80;
}

void terminal_put_type(const char *type, size_t used) {
  Buffer text = {0};
  type_lay_out(type, used, (size_t)terminal_width(), terminal_colours_stdout(),
               &text);
  fputs(text.text, stdout);
  buffer_free(&text);
}

bool terminal_put_short_type(const char *type, size_t used) {
  Buffer text = {0};
  bool folded = type_fold(type, SHORT_TYPE_BYTES, &text);
  terminal_put_type(text.text, used);
  buffer_free(&text);
  return folded;
}

/* ---- what a session calls ---- */

static void write_out(void *owner, const char *text, size_t len) {
  (void)owner;
  terminal_hide_progress();
  fwrite(text, 1, len, stdout);
  if (len)
    progress_note_line(text[len - 1] == '\n');
}

static void write_trace(void *owner, const char *text, size_t len) {
  (void)owner;
  terminal_hide_progress();
  fflush(stdout);
  fwrite(text, 1, len, stderr);
}

static bool print_image(void *owner, const Image *image, int64_t size,
                        Fault *fault) {
  (void)owner, (void)fault;
  image_print(image, size);
  return true;
}

static bool show_on_terminal(void *owner, const Tensor *t, const char *file,
                             int64_t size, Fault *fault) {
  static const ShowDisplay display = {NULL, print_image};
  (void)owner;
  terminal_hide_progress();
  return show_tensor(&display, t, file, size, fault);
}

SessionHost terminal_host(int arg_count, char **args) {
  return (SessionHost){
      .eval = {
          .write = write_out,
          .trace = write_trace,
          .progress = progress_update,
          .track = progress_is_shown() ? progress_track : NULL,
          .show = show_on_terminal,
          .arg_count = arg_count,
          .args = (const char *const *)args,
          .print_width = terminal_width(),
          .print_limit = 1000,
          .figure_colours = terminal_colour_depth(STDOUT_FILENO),
          .is_ascii = terminal_is_ascii(),
      }};
}

Session *terminal_open_session(const SessionHost *host) {
  Fault fault = {0};
  if (!session_check_settings(&fault)) {
    fprintf(stderr, "axon: %s%s%s\n", fault.message, *fault.help ? ": " : "",
            fault.help);
    exit(EXIT_USAGE);
  }
  Session *session = session_open(host);
  if (session)
    return session;
  fputs("axon: out of memory\n", stderr);
  exit(EXIT_DIAGNOSTICS);
}

/* ---- Ctrl-C ---- */

static Session *_Atomic running_session;
static bool second_interrupt_ends; /* a second Ctrl-C ends the program */

/* Two signals at the same time count as one: `timeout` signals both the program
   and its process group. */
static void on_interrupt(int number) {
  static double last;
  double t = clock_seconds(), before = last;
  (void)number;
  if (second_interrupt_ends && before > 0 && t - before <= 0.2)
    return;
  last = t;
  if (second_interrupt_ends && before > 0) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  Session *session = running_session;
  if (session)
    session_interrupt(session);
}

void terminal_catch_interrupt(Session *session, bool never_exits) {
  running_session = session;
  second_interrupt_ends = !never_exits;
  struct sigaction action = {.sa_handler = on_interrupt}, before;
  sigaction(SIGINT, &action, &before);
  if (before.sa_handler == SIG_IGN) /* `sh` has put it into the background */
    sigaction(SIGINT, &before, NULL);
}

/* ---- diagnostics and endings ---- */

/* an internal error of Axon was reported */
static bool internal_error_reported;

static bool hides_places;

void terminal_hide_places(void) {
  hides_places = true;
}

static Diag without_places(const Diag *diag) {
  Diag d = *diag;
  d.span = (Span){0};
  d.primary_label = d.note = NULL;
  d.step_count = d.label_count = d.fixit_count = 0;
  return d;
}

void terminal_report(Session *session, bool errors_only) {
  const Diags *diags = session_diags(session);
  Buffer text = {0};
  terminal_hide_progress();
  for (uint32_t i = 0; i < diags->all.len; i++) {
    const Diag *diag = diags->all.at[i];
    internal_error_reported |= diag->code == INTERNAL_ERROR_CODE;
    Diag placeless = without_places(diag);
    if (!errors_only || diag->severity == SEV_ERROR)
      report_diag(&text, session_sources(session),
                  hides_places ? &placeless : diag);
  }
  fflush(stdout);
  if (text.text)
    fwrite(text.text, 1, text.len, stderr);
  buffer_free(&text);
  session_clear_diags(session);
}

/* Tells of schedules that no kernel used, unless an error ended the program
   before it ran all kernels. */
static void report_unused_schedules(void) {
  Buffer text = {0};
  schedule_file_put_unused(&text);
  if (text.text)
    fputs(text.text, stderr);
  buffer_free(&text);
}

int terminal_finish(Session *session, SessionStatus status, bool quiet) {
  if (status == SESSION_OK && !session_diags(session)->errors)
    session_check_schedules(session);
  if (status == SESSION_OK && session_diags(session)->errors)
    status = SESSION_ERROR; /* a value could not be shown */
  terminal_report(session, quiet);
  switch (status) {
  case SESSION_OK:
    if (!quiet)
      report_unused_schedules();
    return terminal_flush(EXIT_OK);
  case SESSION_ERROR:
  case SESSION_INCOMPLETE:
    return terminal_flush(EXIT_DIAGNOSTICS);
  case SESSION_INTERRUPTED:
    fputs("interrupted\n", stderr);
    return terminal_flush(EXIT_INTERRUPTED);
  case SESSION_EXITED:
    return terminal_flush(session_exit_status(session));
  }
  return EXIT_INTERNAL;
}

void terminal_apply_defines(Session *session, const Options *options) {
  for (uint32_t i = 0; i < options->define_count; i++)
    session_define_size(session, options->defines[i].name,
                        options->defines[i].value);
}

void terminal_match_defines(const Session *session, Options *options) {
  for (uint32_t i = 0; i < options->define_count; i++)
    options->defines[i].matched |=
        session_used_size(session, options->defines[i].name);
}

bool terminal_defines_matched(const Options *options) {
  bool ok = true;
  for (uint32_t i = 0; i < options->define_count; i++) {
    const struct Define *d = &options->defines[i];
    if (!d->matched)
      fprintf(stderr,
              "axon %s: -D %s=%lld: no data-dependent size at top level has "
              "the name `%s`\n",
              options->verb ? options->verb : "run", d->name,
              (long long)d->value, d->name);
    ok &= d->matched;
  }
  return ok;
}

int terminal_flush(int status) {
  report_flush();
  if (internal_error_reported && status == EXIT_DIAGNOSTICS)
    status = EXIT_INTERNAL;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  fprintf(stderr, "axon: cannot write the output: %s\n", strerror(errno));
  return status ? status : EXIT_DIAGNOSTICS;
}

bool read_program_argument(const char *path, SourceInput *text,
                           Buffer *program) {
  text->name = path;
  if (strcmp(path, "-") != 0)
    return true;
  if (!read_program_stdin(program))
    return false;
  text->name = "stdin";
  text->text = program->text ? program->text : "";
  text->len = program->len;
  return true;
}

bool read_program(FILE *in, Buffer *text) {
  char part[16 * 1024];
  for (size_t n; (n = fread(part, 1, sizeof part, in)) > 0;) {
    buffer_add(text, part, n);
    if (text->len > MAX_SOURCE_BYTES) {
      errno = EFBIG;
      return false;
    }
  }
  return !ferror(in);
}

bool read_program_stdin(Buffer *text) {
  if (read_program(stdin, text))
    return true;
  fprintf(stderr, "axon: cannot read the standard input: %s\n",
          strerror(errno));
  return false;
}
