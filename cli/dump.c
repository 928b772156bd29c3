/* axon dump: a program as a stage of the pipeline sees it. */
#include "cli/cli.h"

int verb_dump(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "dump", "gDE", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("dump", "which file?");
  DumpStage stage = o.stage ? dump_stage(o.stage) : DUMP_CORE;
  if (stage == DUMP_NONE)
    return usage_error("dump", "--stage is tree, core or graph, not `%s`",
                       o.stage);
  SessionHost host = host_terminal(0, NULL);
  Session *session = host_open(&host);
  host_apply_defines(session, &o);
  SessionText text = {.own_module = stage != DUMP_GRAPH};
  Buffer program = {0}, out = {0};
  bool ok = host_text(o.args[0], &text, &program) &&
            session_dump(session, &text, stage, o.entry_count, o.entries,
                         &out) == SESSION_OK;
  fwrite(out.text, 1, out.len, stdout);
  host_report(session, false);
  session_close(session);
  buffer_free(&program);
  buffer_free(&out);
  return host_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
