/* axon export: writes a function as an ONNX model.  Main entry point:
   verb_export. */
#include "onnx/export.h"
#include "cli/cli.h"
#include "support/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct ExportOutput {
  const char *path;
  char data_path[4096];
  Buffer model, data;
} ExportOutput;

static bool write_output(const char *path, const Buffer *text) {
  if (atomic_write(path, text))
    return true;
  fprintf(stderr, "axon export: cannot write %s: %s\n", path, strerror(errno));
  return false;
}

/* The weights come first: a model without them would be invalid. */
static bool write_all(const ExportOutput *out) {
  return (!out->data.len || write_output(out->data_path, &out->data)) &&
         write_output(out->path, &out->model);
}

static SessionStatus export_program(Session *session, Options *o,
                                    ExportOutput *out) {
  SourceInput text = {.is_separate_module = false};
  Buffer program = {0};
  const char *slash = strrchr(out->data_path, '/');
  ExportRequest request = {.entry = o->entry_count ? o->entries[0] : NULL,
                           .data_name = slash ? slash + 1 : out->data_path,
                           .has_external_data = o->external};
  SessionStatus done = SESSION_ERROR;
  if (read_program_argument(o->args[0], &text, &program))
    done = onnx_export(session, &text, &request, &out->model, &out->data);
  terminal_report(session, false);
  terminal_match_defines(session, o);
  if (done == SESSION_OK && !terminal_defines_matched(o))
    done = SESSION_ERROR;
  if (done == SESSION_OK && !write_all(out))
    done = SESSION_ERROR;
  buffer_free(&program);
  return done;
}

int verb_export(int argc, char **argv) {
  Options o;
  ExportOutput out = {.path = NULL};
  int status = options_parse(&o, "export", "DEOx", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("export",
                       o.arg_count ? "expected one file" : "no file given");
  if (!o.output)
    return usage_error("export", "no output given; for example `-o m.onnx`");
  if (o.entry_count > 1)
    return usage_error("export", "more than one --entry given");
  out.path = o.output;
  int len = snprintf(out.data_path, sizeof out.data_path, "%s.data", o.output);
  if (len < 0 || (size_t)len >= sizeof out.data_path)
    return usage_error("export", "the name of the output is too long");
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  terminal_apply_defines(session, &o);
  status = terminal_finish(session, export_program(session, &o, &out), false);
  session_close(session);
  buffer_free(&out.model);
  buffer_free(&out.data);
  return status;
}
