/* The terminal: output, colour, Ctrl-C, progress bars, diagnostics. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* ---- colour and width ---- */

static const char *colour_when = "auto";

void host_colour(const char *when) { colour_when = when; }

static bool coloured(int fd) {
  if (strcmp(colour_when, "auto") != 0)
    return strcmp(colour_when, "always") == 0;
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(no && *no) && isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool host_colour_out(void) { return coloured(STDOUT_FILENO); }

bool host_colour_err(void) { return coloured(STDERR_FILENO); }

int host_width(void) {
  struct winsize size;
  if (isatty(STDOUT_FILENO) &&
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
    return size.ws_col;
  return 80;
}

/* How much of a type stands on one line whatever its width: up to behind an
 * arrow, behind a comma outside of all shapes, or before `given`. */
static size_t unbroken(const char *p, int *shapes) {
  for (size_t len = 0;; len++) {
    if (!p[len] || (len && strncmp(p + len, "given ", 6) == 0))
      return len;
    *shapes += (p[len] == '[') - (p[len] == ']');
    if (len && p[len] == ' ' && !*shapes && strchr(">!,", p[len - 1]))
      return len + 1;
  }
}

void host_put_type(const char *type, size_t used) {
  bool colour = host_colour_out();
  fputs(colour ? "\033[36m" : "", stdout);
  size_t width = (size_t)host_width(), column = used;
  int shapes = 0;
  for (const char *p = type; *p;) {
    size_t len = unbroken(p, &shapes);
    bool blank = len && p[len - 1] == ' '; /* not at the end of a line */
    size_t wide = utf8_width(p, len) - blank;
    if (p > type && column + 1 + wide > width) {
      fputs("\n    ", stdout);
      column = 4;
    } else if (p > type) {
      putchar(' ');
      column++;
    }
    fwrite(p, 1, len - blank, stdout);
    column += wide;
    p += len;
  }
  fputs(colour ? "\033[0m" : "", stdout);
}

/* ---- what a session calls ---- */

static struct Bar {
  double start, last; /* seconds: when it began, when it was last drawn */
  bool drawn;
  bool in_line; /* output has not ended its line: a bar would cover it */
} bar;

void host_hide_bar(void) {
  if (bar.drawn)
    fputs("\r\033[K", stderr);
  fflush(stderr);
  bar.drawn = false;
}

static void write_out(void *owner, const char *text, size_t len) {
  (void)owner;
  host_hide_bar();
  fwrite(text, 1, len, stdout);
  if (len)
    bar.in_line = text[len - 1] != '\n' && isatty(STDOUT_FILENO);
}

static void write_trace(void *owner, const char *text, size_t len) {
  (void)owner;
  host_hide_bar();
  fflush(stdout);
  fwrite(text, 1, len, stderr);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { BAR = 30 };

static void draw_bar(int64_t done, int64_t total, double elapsed) {
  double part = total > 0 ? (double)done / (double)total : 1;
  int filled = (int)(part * BAR);
  fputs("\r", stderr);
  for (int i = 0; i < BAR; i++)
    fputs(i < filled ? "█" : "░", stderr);
  fprintf(stderr, " %3.0f%%  %lld/%lld", 100 * part, (long long)done,
          (long long)total);
  if (done > 0 && done < total)
    fprintf(stderr, "  %.0f s left", elapsed * (1 / part - 1));
  fputs("\033[K", stderr);
  fflush(stderr);
}

/* Quick work shows no bar; a bar that was drawn is removed at the end, and
 * before anything else is written. */
static void progress(void *owner, int64_t done, int64_t total) {
  (void)owner;
  if (!isatty(STDERR_FILENO))
    return;
  double t = now();
  if (done == 0)
    bar.start = bar.last = t;
  if (done >= total) {
    host_hide_bar();
  } else if (t - bar.start > 0.5 && (t - bar.last > 0.1 || !bar.drawn) &&
             !bar.in_line) {
    fflush(stdout);
    draw_bar(done, total, t - bar.start);
    bar.drawn = true, bar.last = t;
  }
}

SessionHost host_terminal(int arg_count, char **args) {
  return (SessionHost){.eval = {
                           .write = write_out,
                           .trace = write_trace,
                           .progress = progress,
                           .show = show_tensor,
                           .arg_count = arg_count,
                           .args = (const char *const *)args,
                           .print_width = host_width(),
                           .print_limit = 1000,
                       }};
}

Session *host_open(const SessionHost *host) {
  Fault fault = {0};
  if (!session_settings(&fault)) {
    fprintf(stderr, "axon: %s: %s\n", fault.message, fault.help);
    exit(EXIT_USAGE);
  }
  Session *session = session_open(host);
  if (session)
    return session;
  fputs("axon: out of memory\n", stderr);
  exit(EXIT_DIAGNOSTICS);
}

/* ---- Ctrl-C ---- */

static Session *_Atomic running;
static bool ends; /* a second one ends the program */

/* Two at once are one: `timeout` sends it to the program and to its group. */
static void on_interrupt(int number) {
  static double first;
  double t = now();
  if (ends && first > 0 && t - first > 0.2) {
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  if (first == 0)
    first = t;
  (void)number;
  Session *session = running;
  if (session)
    session_interrupt(session);
}

void host_catch_interrupt(Session *session, bool always) {
  running = session;
  ends = !always;
  struct sigaction action = {.sa_handler = on_interrupt}, before;
  sigaction(SIGINT, &action, &before);
  if (before.sa_handler == SIG_IGN) /* put into the background, by `sh` */
    sigaction(SIGINT, &before, NULL);
}

/* ---- diagnostics and endings ---- */

static bool at_fault; /* a fault of Axon itself was told */

void host_report(Session *session, bool errors_only) {
  const Diags *diags = session_diags(session);
  Buffer text = {0};
  host_hide_bar();
  for (uint32_t i = 0; i < diags->all.len; i++) {
    const Diag *diag = diags->all.at[i];
    at_fault |= diag->code == OWN_FAULT;
    if (!errors_only || diag->severity == SEV_ERROR)
      report_diag(&text, session_sources(session), diag);
  }
  fflush(stdout);
  if (text.text)
    fwrite(text.text, 1, text.len, stderr);
  buffer_free(&text);
  session_clear_diags(session);
}

int host_finish(Session *session, SessionStatus status, bool quiet) {
  if (status == SESSION_OK && session_diags(session)->errors)
    status = SESSION_ERROR; /* a value could not be shown */
  host_report(session, quiet);
  switch (status) {
  case SESSION_OK:
    return host_flush(EXIT_OK);
  case SESSION_ERROR:
  case SESSION_INCOMPLETE:
    return host_flush(EXIT_DIAGNOSTICS);
  case SESSION_INTERRUPTED:
    fputs("interrupted\n", stderr);
    return host_flush(EXIT_INTERRUPTED);
  case SESSION_EXITED:
    return host_flush(session_exit_status(session));
  }
  return EXIT_INTERNAL;
}

void host_apply_defines(Session *session, const Options *options) {
  for (uint32_t i = 0; i < options->define_count; i++)
    session_define_size(session, options->defines[i].name,
                        options->defines[i].value);
}

void host_note_defines(const Session *session, Options *options) {
  for (uint32_t i = 0; i < options->define_count; i++)
    options->defines[i].met |=
        session_met_size(session, options->defines[i].name);
}

bool host_defines_met(const Options *options) {
  bool ok = true;
  for (uint32_t i = 0; i < options->define_count; i++) {
    const struct Define *d = &options->defines[i];
    if (!d->met)
      fprintf(stderr,
              "axon %s: -D %s=%lld: data at top level leaves no size `%s` "
              "open\n",
              options->verb ? options->verb : "run", d->name,
              (long long)d->value, d->name);
    ok &= d->met;
  }
  return ok;
}

int host_flush(int status) {
  report_end();
  if (at_fault && status == EXIT_DIAGNOSTICS)
    status = EXIT_INTERNAL;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  fprintf(stderr, "axon: cannot write the output: %s\n", strerror(errno));
  return status ? status : EXIT_DIAGNOSTICS;
}

bool host_text(const char *path, SessionText *text, Buffer *program) {
  text->name = path;
  if (strcmp(path, "-") != 0)
    return true;
  if (!host_read_stdin(program))
    return false;
  text->name = "stdin";
  text->text = program->text ? program->text : "";
  text->len = program->len;
  return true;
}

bool host_read(FILE *in, Buffer *text) {
  char part[16 * 1024];
  for (size_t n; (n = fread(part, 1, sizeof part, in)) > 0;) {
    buffer_add(text, part, n);
    if (text->len > SESSION_TEXT_MOST) {
      errno = EFBIG;
      return false;
    }
  }
  return !ferror(in);
}

bool host_read_stdin(Buffer *text) {
  if (host_read(stdin, text))
    return true;
  fprintf(stderr, "axon: cannot read the standard input: %s\n",
          strerror(errno));
  return false;
}
