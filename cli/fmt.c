/* axon fmt: formats programs.  Main entry point: verb_fmt. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/file_open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_failed(const char *path) {
  fprintf(stderr, "axon fmt: cannot write %s: %s\n", path, strerror(errno));
  return false;
}

static bool read_file(const char *path, Buffer *text) {
  int fd = file_open_stream(path);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "rb");
  bool ok = in && read_program(in, text);
  if (!ok)
    fprintf(stderr, "axon fmt: cannot read %s: %s\n", path,
            file_open_error(errno));
  if (in)
    fclose(in);
  return ok;
}

/* Formats stdin to stdout. */
static bool format_stdin(const Options *o, Session *session) {
  Buffer text = {0}, out = {0};
  bool ok = read_program_stdin(&text);
  SourceInput source = {.name = "stdin", .len = text.len};
  source.text = text.text ? text.text : "";
  ok = ok && session_format(session, &source, &out);
  terminal_report(session, true);
  if (ok && o->check) {
    ok = buffer_equal(&text, &out);
    if (!ok)
      puts("stdin");
  } else if (ok)
    fwrite(out.text ? out.text : "", 1, out.len, stdout);
  buffer_free(&text);
  buffer_free(&out);
  return ok;
}

static bool format_file(const Options *o, Session *session, const char *path) {
  Buffer text = {0}, out = {0};
  bool ok = read_file(path, &text);
  if (ok) {
    SourceInput source = {.name = path, .len = text.len};
    source.text = text.text ? text.text : "";
    ok = session_format(session, &source, &out);
    terminal_report(session, true);
  }
  if (ok && !buffer_equal(&text, &out)) {
    if (o->check) {
      printf("%s\n", path);
      ok = false;
    } else if ((ok = atomic_write(path, &out) || write_failed(path)) &&
               !o->quiet)
      printf("formatted %s\n", path);
  }
  buffer_free(&text);
  buffer_free(&out);
  return ok;
}

int verb_fmt(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "fmt", "qc", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("fmt", "no file given (- is standard input)");
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  bool ok = true;
  for (int i = 0; i < o.arg_count; i++)
    ok &= strcmp(o.args[i], "-") == 0 ? format_stdin(&o, session)
                                      : format_file(&o, session, o.args[i]);
  session_close(session);
  return terminal_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
